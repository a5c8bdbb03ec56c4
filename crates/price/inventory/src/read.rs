//! Listings of any format.

use std::fs::File;
use std::io::{BufRead, Read};
use std::path::PathBuf;

use plimsoll_base::files::expanded;

use crate::files;
use crate::listing_file::ListingFile;
use crate::names::without_mark;
use crate::{InventoryError, Listed, Receive, csv, orc, parquet, text};

/// Largest size in bytes that a store may have for an object: a pebibyte.
const MAX_OBJECT: u64 = 1 << 50;

/// Reads a listing: files, or directories with them, of inventories of S3 or Google Cloud Storage in CSV, ORC or
/// Parquet (with or without the manifest of S3), tables with names of columns, or the output of `aws s3 ls
/// --recursive`.
///
/// # Errors
/// If a file cannot be read or its format is unknown, if there is no object, or if the receiver fails.
pub fn read<E: From<InventoryError>>(paths: &[PathBuf], receive: &mut Receive<'_, E>) -> Result<(), E> {
    let mut is_empty = true;
    let mut checked = |listed: &Listed<'_>| {
        if listed.bytes.is_some_and(|bytes| bytes > MAX_OBJECT) {
            return Err(
                InventoryError::row(listed.file, listed.row, "the size is too large for an object").into()
            );
        }
        is_empty &= listed.bytes.is_none();
        receive(listed)
    };
    files::of(paths)?.into_iter().try_for_each(|source| read_file(source, &mut checked))?;
    if is_empty {
        let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        let reason = "there are no objects in this listing".to_string();
        return Err(InventoryError::File { file: names.join(", "), reason }.into());
    }
    Ok(())
}

fn read_file<E: From<InventoryError>>(source: ListingFile, receive: &mut Receive<'_, E>) -> Result<(), E> {
    let ListingFile { path: file, columns } = source;
    let fail = |e: std::io::Error| InventoryError::file(&file, e);
    let mut head = [0; 4];
    let filled = File::open(&file).and_then(|mut opened| opened.read(&mut head)).map_err(fail)?;
    if filled == 4 && head == *b"PAR1" {
        return parquet::read(&file, receive);
    }
    if head.starts_with(b"ORC") {
        return orc::read(&file, receive);
    }
    let mut from = expanded(&file).map_err(fail)?;
    let start = from.fill_buf().map_err(fail)?;
    if [[0xff, 0xfe], [0xfe, 0xff]].iter().any(|mark| start.starts_with(mark)) {
        let reason = "the text is in UTF-16, as PowerShell writes it; convert it to UTF-8";
        return Err(InventoryError::file(&file, reason).into());
    }
    let marks = start.len() - without_mark(start).len();
    from.consume(marks);
    let start = from.fill_buf().map_err(fail)?;
    let line = start.split(|byte| *byte == b'\n').find(|line| !line.trim_ascii().is_empty());
    if columns.is_none() && text::is_first(line.unwrap_or_default()) {
        return text::read(&file, from, receive);
    }
    csv::read(&file, from, columns, receive)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::InventoryError;
    use plimsoll_testing::directory::TempDir;
    use std::io::Write;
    use std::path::Path;

    /// Bucket, key, size and time of an object; the size is `None` for delete markers.
    type Row = (String, String, Option<u64>, i64);

    fn all(path: &Path) -> Result<Vec<Row>, InventoryError> {
        let mut found = Vec::new();
        read::<InventoryError>(&[path.to_path_buf()], &mut |listed| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let modified_ms = listed.bytes.map_or(Ok(0), |_| listed.modified_ms())?;
            found.push((text(listed.bucket), text(listed.key), listed.bytes, modified_ms));
            Ok(())
        })?;
        Ok(found)
    }

    fn row(bucket: &str, key: &str, size: u64) -> Row {
        (bucket.into(), key.into(), Some(size), 1_767_323_045_000)
    }

    fn compressed(path: &Path, text: &str) {
        let file = File::create(path).unwrap();
        let mut file = flate2::write::GzEncoder::new(file, flate2::Compression::best());
        file.write_all(text.as_bytes()).unwrap();
        file.finish().unwrap();
    }

    #[test]
    fn an_inventory_is_read_with_its_manifest() {
        let dir = TempDir::new("inventory");
        let rows = "\"b\",\"photos/a+b%2Fc.jpg\",\"v1\",\"true\",\"false\",\"120\",\"2026-01-02T03:04:05.000Z\"\n\
             \"b\",\"gone\",\"v2\",\"true\",\"true\",\"\",\"2026-01-02T03:04:05.000Z\"\n\
             \"b\",\"old, with comma\",\"v0\",\"false\",\"false\",\"7\",\"2026-01-02T03:04:05.000Z\"\n";
        compressed(&dir.path().join("part.csv.gz"), rows);
        // S3 stores the files of all days in one place.
        compressed(&dir.path().join("yesterday.csv.gz"), rows);
        let manifest = |format: &str| {
            format!(
                "{{\"sourceBucket\":\"b\",\"fileFormat\":\"{format}\",\"fileSchema\":\"Bucket, Key, VersionId, IsLatest, \
                 IsDeleteMarker, Size, LastModifiedDate\",\"files\":[{{\"key\":\"inventory/b/data/part.csv.gz\"}}]}}"
            )
        };
        let path = dir.path().join("manifest.json");
        std::fs::write(&path, manifest("CSV")).unwrap();
        let gone = ("b".into(), "gone".into(), None, 0);
        let expected = [row("b", "photos/a b/c.jpg", 120), gone, row("b", "old, with comma", 7)];
        assert_eq!(all(&path).unwrap(), expected);
        assert_eq!(all(dir.path()).unwrap(), expected, "the directory");
        std::fs::rename(dir.path().join("part.csv.gz"), dir.path().join("away")).unwrap();
        assert!(all(dir.path()).unwrap_err().to_string().contains("part.csv.gz is missing"));
        std::fs::write(&path, manifest("Avro")).unwrap();
        assert!(
            all(&path).unwrap_err().to_string().contains("the format Avro is neither CSV, ORC nor Parquet")
        );
        let without =
            format!("\"x\",\"y\",\"v\",\"true\",\"true\",\"\",\"2026-01-02T03:04:05.000Z\"\n{rows}");
        std::fs::remove_file(&path).unwrap();
        std::fs::remove_file(dir.path().join("yesterday.csv.gz")).unwrap();
        std::fs::write(dir.path().join("away"), without).unwrap();
        // Rows before the columns are known have no key.
        assert_eq!(all(dir.path()).unwrap()[1..], expected, "without a manifest");
    }

    #[test]
    fn text_and_plain_tables_are_read() {
        let dir = TempDir::new("listing");
        let path = dir.path().join("listing");
        let at = "2026-01-02 03:04:05";
        std::fs::write(
            &path,
            format!("{at}        120 photos/a b.jpg\n{at}          0 empty\n\nTotal Objects: 2\n"),
        )
        .unwrap();
        let found = all(&path).unwrap();
        assert_eq!(found, [row("", "photos/a b.jpg", 120), row("", "empty", 0)]);
        std::fs::write(&path, "Key,Size,LastModified\na,5,2026-01-02T03:04:05Z\n").unwrap();
        assert_eq!(all(&path).unwrap(), [row("", "a", 5)]);
        for (text, problem) in [
            ("Key,Size\na,5\n", ":2: the time of the last modification is missing"),
            ("Key,Sizes\na,5\n", ":1: this is no inventory: expected that of S3"),
            ("Key,Size,LastModified\na,many,2026-01-02T03:04:05Z\n", ":2: many is no size in bytes"),
            ("Key,Size,LastModified\na,5,yesterday\n", ":2: yesterday is no time"),
            ("2026-01-02 03:04:05 1 a\n2026-01-02 03:04:05 many key\n", ":2: '2026-01-02"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = all(&path).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
    }

    /// Regression tests of numbers that were wrong without a message.
    #[test]
    fn what_is_no_whole_listing_is_refused() {
        let dir = TempDir::new("no-listing");
        let path = dir.path().join("listing");
        let at = "2026-01-02 03:04:05";
        let large = "9".repeat(17);
        for (text, problem) in [
            // Google's report without its header: the project is no size.
            ("b,k,123456789012,us,17,STANDARD\n".to_string(), "this is no inventory"),
            // A bill, with the names of its columns.
            (
                "id,interval,count,service\nid1,x,1,AWS\n".into(),
                "the columns are id, interval, count, service",
            ),
            ("Key,ETag\na,x\n".into(), "the columns are Key, ETag"),
            (format!("{at} 5 a\nTotal Objects: 2\n"), ":2: the listing has 1 of 2 objects"),
            (
                format!("                           PRE x/\n{at} 5 a\n"),
                "the objects of folder x/ are missing",
            ),
            (String::new(), "there are no objects"),
            (format!("Key,Size,LastModified\na,{large},2026-01-02T03:04:05Z\n"), ":2: the size is too large"),
            ("\u{feff}Key,Size,LastModified\na,-5,2026-01-02T03:04:05Z\n".into(), ":2: -5 is no size"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = all(&path).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
        // The last field is cut.
        let row = "\"b\",\"k\",\"300000\",\"2026-01-02T03:04:05.000Z\",\"STANDARD";
        std::fs::write(&path, format!("{row}\"\n{row}")).unwrap();
        assert!(all(&path).unwrap_err().to_string().contains("the file ends within a field"));
        std::fs::write(&path, format!("{at} 5 a\nTotal Objects: 1\n{at} 6 b\nTotal Objects: 1\n")).unwrap();
        assert_eq!(all(&path).unwrap().len(), 2, "two listings one after the other");
        std::fs::write(&path, [at.as_bytes(), b" 5 \xff\n"].concat()).unwrap();
        assert_eq!(all(&path).unwrap().len(), 1, "a key that is not UTF-8");
        std::fs::write(&path, [0xff, 0xfe, 65, 0]).unwrap();
        assert!(all(&path).unwrap_err().to_string().contains("UTF-16"));
        std::fs::write(&path, format!("\u{feff}{at} 5 a\n")).unwrap();
        assert_eq!(all(&path).unwrap().len(), 1);
        // The same file under two names, and the files of an editor, count once.
        std::os::unix::fs::symlink(&path, dir.path().join("link")).unwrap();
        std::fs::copy(&path, dir.path().join("listing~")).unwrap();
        std::fs::copy(&path, dir.path().join(".listing.swp")).unwrap();
        assert_eq!(all(dir.path()).unwrap().len(), 1);
        std::fs::write(
            dir.path().join("manifest.json"),
            "{\"fileFormat\":\"CSV\",\"fileSchema\":\"Bucket, Key, Size\",\
            \"files\":[{\"key\":\"x/listing\",\"size\":7}]}",
        )
        .unwrap();
        assert!(all(dir.path()).unwrap_err().to_string().contains("its manifest says 7"));
        let report = dir.path().join("manifest.json");
        std::fs::write(report, "{\"report_shards_file_names\":[\"listing\",\"gone_1.csv\"]}").unwrap();
        assert!(all(dir.path()).unwrap_err().to_string().contains("gone_1.csv is missing"));
        assert!(all(Path::new("/dev/null")).unwrap_err().to_string().contains("no regular file"));
    }

    /// Regression test: one line of a small compressed file filled the memory.
    #[test]
    fn a_compressed_file_does_not_fill_the_memory() {
        let dir = TempDir::new("listing-bomb");
        let path = dir.path().join("listing.csv.gz");
        let header = "Key,Size,LastModified\n";
        let listing = "2026-01-02 03:04:05 1 a\n2026";
        for (text, problem) in [
            (format!("{header}{}", "a".repeat(30 << 20)), ":2: the line is longer than 64 KiB"),
            (format!("{header}\"{}", "a\n".repeat(15 << 20)), ":2: the line is longer than 64 KiB"),
            (format!("{header}{}", ",".repeat(30 << 20)), ":2: the line has more than 256 fields"),
            (
                format!("{header}{}", "\n".repeat(30 << 20)),
                "the file expands to more than 200 times its size",
            ),
            (format!("{listing}{}", "0".repeat(30 << 20)), ":2: the line is longer than 64 KiB"),
            (format!("{{{}", " ".repeat(30 << 20)), "the file expands to more than 200 times its size"),
        ] {
            compressed(&path, &text);
            let error = all(&path).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
    }
}
