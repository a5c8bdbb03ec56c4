//! Contradictions in a workload, and values that do not enter its bill.

use super::{
    DEFAULT_OBJECT_SIZE, MONTH_DAYS, Workload, WorkloadError, in_days, object_size, retention, volume, wrong,
};
use crate::period::DAY_S;
use crate::usage::Usage;
use plimsoll_base::provider::calls::Call;
use plimsoll_base::units::{format_count, format_size, format_volume, parse_count};

/// Minimum size of a part, except the last one, in bytes (S3, R2, Google).
const SMALLEST_PART: u64 = 5 << 20;
/// Relative difference up to which two statements about one amount agree.
const AGREE: f64 = 0.02;

/// Values of a workload as numbers. `None` if a value is not given.
struct Given {
    puts: Option<u64>,
    gets: Option<u64>,
    object: Option<u64>,
    deletes: Option<u64>,
    part: Option<u64>,
    storage: Option<u64>,
    written: Option<u64>,
    read: Option<u64>,
    keep_s: Option<u64>,
}

impl Given {
    fn of(workload: &Workload) -> Result<Given, WorkloadError> {
        let count = |field, text: Option<&String>| {
            text.map(|text| parse_count(text).map_err(|e| wrong(field, e))).transpose()
        };
        let size = |field, text: Option<&String>| text.map(|text| object_size(field, text)).transpose();
        Ok(Given {
            puts: count("put", workload.put.as_ref())?,
            gets: count("get", workload.get.as_ref())?,
            object: size("object_size", workload.object_size.as_ref())?.or(Some(DEFAULT_OBJECT_SIZE)),
            deletes: count("delete", workload.delete.as_ref())?,
            part: size("part_size", workload.part_size.as_ref())?,
            storage: volume("storage", workload.storage.as_ref())?,
            written: volume("written", workload.written.as_ref())?,
            read: volume("read", workload.read.as_ref())?,
            keep_s: workload.keep.as_deref().map(|text| retention("keep", text)).transpose()?,
        })
    }

    /// Checks that the bytes written are those of the objects written. A mean size is rounded to whole bytes.
    fn written(&self) -> Result<(), WorkloadError> {
        let (Some(puts), Some(object), Some(written)) = (self.puts, self.object, self.written) else {
            return Ok(());
        };
        let objects = puts as f64 * object as f64;
        if (written as f64 - objects).abs() <= (objects * AGREE).max(puts as f64) {
            return Ok(());
        }
        let message = format!(
            "{} objects of {} are {}, not {}; omit one of the three values",
            format_count(puts),
            format_volume(object),
            format_volume(objects as u64),
            format_volume(written)
        );
        Err(wrong("written", message))
    }

    /// Checks that reads return no more than the objects read. A read of a range returns less.
    fn read(&self) -> Result<(), WorkloadError> {
        let (Some(gets), Some(object), Some(read)) = (self.gets, self.object, self.read) else {
            return Ok(());
        };
        let objects = gets as f64 * object as f64;
        if read as f64 <= (objects * (1.0 + AGREE)).max(objects + gets as f64) {
            return Ok(());
        }
        let message = format!(
            "{} reads of objects of {} return at most {}, not {}; omit one of the three values",
            format_count(gets),
            format_volume(object),
            format_volume(objects as u64),
            format_volume(read)
        );
        Err(wrong("read", message))
    }

    /// Checks that the bytes stored are those written during the retention.
    fn stored(&self) -> Result<(), WorkloadError> {
        let written =
            self.written.or_else(|| self.puts?.checked_mul(self.object?)).filter(|bytes| *bytes > 0);
        let (Some(storage), Some(keep_s), Some(written)) = (self.storage, self.keep_s, written) else {
            return Ok(());
        };
        let kept = written as f64 * keep_s as f64 / DAY_S as f64 / MONTH_DAYS;
        if (storage as f64 - kept).abs() <= kept * AGREE {
            return Ok(());
        }
        let message = format!(
            "if {} are written in a month and kept for {}, {} are stored, not {}; omit --storage or --keep",
            format_volume(written),
            in_days(keep_s),
            format_volume(kept as u64),
            format_volume(storage)
        );
        Err(wrong("storage", message))
    }

    /// Checks that as many objects are deleted as are written, if they are kept for a time.
    fn deletes(&self) -> Result<(), WorkloadError> {
        match (self.deletes, self.puts, self.keep_s) {
            (Some(deletes), Some(puts @ 1..), Some(keep_s))
                if deletes.abs_diff(puts) as f64 > puts as f64 * AGREE =>
            {
                let message = format!(
                    "if {} objects are written in a month and kept for {}, as many are deleted, not {}; omit --delete or \
                     --keep",
                    format_count(puts),
                    in_days(keep_s),
                    format_count(deletes)
                );
                Err(wrong("delete", message))
            }
            _ => Ok(()),
        }
    }

    /// Checks the size of the parts in which objects are written.
    fn parts(&self) -> Result<(), WorkloadError> {
        match self.part {
            Some(part) if part < SMALLEST_PART => {
                let message = format!("stores refuse parts of {}; use at least 5 MiB", format_size(part));
                Err(wrong("part_size", message))
            }
            _ => Ok(()),
        }
    }
}

/// Checks that the values that a user gave agree.
///
/// # Errors
/// [`WorkloadError`] with a value that contradicts the others.
pub fn check(workload: &Workload) -> Result<(), WorkloadError> {
    let given = Given::of(workload)?;
    given.written()?;
    given.read()?;
    given.stored()?;
    given.deletes()?;
    given.parts()
}

/// Returns a line for each value of a valid workload that does not enter its bill, with the reason.
pub fn not_used(workload: &Workload, usage: &Usage) -> Vec<String> {
    let mut out = Vec::new();
    if workload.part_size.is_some() && usage.calls.get(Call::UploadPart) == 0 {
        out.push("--part-size, because every object is written in one request".into());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::parse;

    fn of(text: &str) -> Result<(), WorkloadError> {
        check(&parse(text).unwrap())
    }

    #[test]
    fn a_contradiction_is_an_error_of_its_field() {
        for (text, field) in [
            ("storage='10TB'\nput='1M'\nobject_size='1MB'\nkeep='30d'", "storage"),
            ("put='1M'\nobject_size='1MB'\nwritten='1KB'", "written"),
            ("get='1M'\nobject_size='1KB'\nread='1TB'", "read"),
            ("put='1M'\nobject_size='100MB'\npart_size='1MiB'", "part_size"),
            // The default size counts.
            ("storage='10TB'\nput='1M'\nkeep='30d'", "storage"),
            ("put='1M'\nobject_size='1MB'\nkeep='30d'\ndelete='5'", "delete"),
        ] {
            assert_eq!(of(text).unwrap_err().field, field, "{text}");
        }
    }

    #[test]
    fn values_that_agree_are_accepted() {
        for text in [
            // A mean of 1,023.7 bytes is written as 1,024.
            "put='1M'\nobject_size='1024B'\nwritten='1023700000B'",
            // Ranges.
            "get='1M'\nobject_size='1GB'\nread='1TB'",
            "storage='986.3GB'\nput='1M'\nobject_size='1MB'\nkeep='30d'",
            "put='1M'\nobject_size='100MB'\npart_size='5MiB'",
        ] {
            assert_eq!(of(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn parts_without_an_effect_are_reported() {
        for text in ["put='1M'\nobject_size='1MB'\npart_size='8MiB'", "storage='1TB'\npart_size='8MiB'"] {
            let workload = parse(text).unwrap();
            let usage = workload.resolve().unwrap().usage;
            assert!(not_used(&workload, &usage)[0].contains("--part-size"), "{text}");
        }
    }
}
