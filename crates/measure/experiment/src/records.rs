//! Records: the objects of a table that is kept from run to run, named as YCSB names them. The keys of a table
//! begin with `<URL prefix>plimsoll/records-<table>/`.

use super::Problem;
use super::spec::{ObjectsSpec, RecordsSpec, ScanSpec};
use plimsoll_workload::dataset::Encoding;
use plimsoll_workload::naming::{Naming, RecordOrder};
use plimsoll_workload::size::Size;
use plimsoll_workload::{Dataset, ScanLength};

/// Resolves `objects.records` into a dataset.
///
/// # Errors
/// If another field of `objects` also names objects, or if a field of `records` is invalid.
pub fn resolve_records(
    objects: &ObjectsSpec,
    records: &RecordsSpec,
    size: Size,
    seed: u64,
) -> Result<Dataset, Problem> {
    let problem = |text: String| Problem::new("objects.records", format!("objects.records: {text}"));
    for (field, given) in [
        ("from", objects.from.is_some()),
        ("dataset", objects.dataset.is_some()),
        ("keys", objects.keys.is_some()),
        ("naming", objects.naming.is_some()),
        ("file", objects.file.is_some()),
    ] {
        if given {
            return Err(problem(format!("this table already specifies the objects; remove objects.{field}")));
        }
    }
    if records.count == 0 {
        return Err(problem("count must be above 0".into()));
    }
    let table = records.at.strip_suffix('/').unwrap_or_default();
    let letter = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    if !(1..=100).contains(&table.len()) || !table.bytes().all(letter) || table.bytes().all(|b| b == b'.') {
        return Err(problem(format!(
            "at = '{}' must be a table name of 1 to 100 letters, digits, '.', '_' or '-' followed by '/', such as 'usertable/'",
            records.at
        )));
    }
    let name = records.order.as_deref().unwrap_or("hashed");
    let order = RecordOrder::ALL.into_iter().find(|o| o.name() == name).ok_or_else(|| {
        let known: Vec<&str> = RecordOrder::ALL.iter().map(|o| o.name()).collect();
        problem(format!("unknown order '{name}'; use one of {}", known.join(", ")))
    })?;
    let digits = records.digits.unwrap_or(1);
    if !(1..=64).contains(&digits) {
        return Err(problem("digits must be between 1 and 64".into()));
    }
    let prefix = records.prefix.as_deref().unwrap_or("user");
    let first = records.first.unwrap_or(0);
    let encoding = records.encoding.as_ref().map(|e| Encoding {
        fields: e.fields,
        length: e.length,
        writes_all: e.writes_all,
    });
    Ok(Dataset {
        at: Some(records.at.clone()),
        naming: Naming::records(prefix, order, digits as usize, first),
        encoding,
        ..Dataset::new(&records.at, seed, records.count, size)
    })
}

/// Resolves `objects.scan` into the number of objects that a scan reads.
///
/// # Errors
/// If the lengths are not within 1 to 1000, or if `theta` is out of range.
pub fn resolve_scan(written: Option<&ScanSpec>) -> Result<ScanLength, Problem> {
    let Some(written) = written else { return Ok(ScanLength::default()) };
    let (min, max) = (written.min.unwrap_or(1), written.max);
    if min == 0 || min > max || max > 1000 {
        let text = format!("objects.scan: min = {min} and max = {max} must satisfy 1 <= min <= max <= 1000");
        return Err(Problem::new("objects.scan", text));
    }
    if written.theta.is_some_and(|theta| !(theta > 0.0 && theta <= 10.0)) {
        return Err(Problem::new("objects.scan", "objects.scan.theta must be above 0 and at most 10"));
    }
    Ok(ScanLength { min, max, theta: written.theta })
}
