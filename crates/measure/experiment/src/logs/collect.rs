//! Conversion of logs to a trace.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use super::files::files_of;
use super::lines::Lines;
use super::{FORMATS, LogError, LogLine, Logged, detect, format_of};
use plimsoll_base::machine::usable_memory_bytes;
use plimsoll_base::rng::{Stream, hash_name, mix};
use plimsoll_workload::OperationKind;
use plimsoll_workload::trace::{Logs, Recorded, Trace};

/// A trace, with what its logs did not have.
#[derive(Debug, Clone, PartialEq)]
pub struct Collected {
    /// Requests, objects and sizes.
    pub trace: Trace,
    /// Unix time of the first request in nanoseconds.
    pub origin_ns: i64,
    /// Names of the formats.
    pub formats: Vec<&'static str>,
    /// Number of requests that failed when they were logged, which are left out.
    pub failed: u64,
    /// Requests that are left out because Plimsoll does not repeat their operation: their names and numbers.
    pub left_out: BTreeMap<String, u64>,
    /// Number of versions about whose size the logs say nothing. They get the median of the known sizes.
    pub unknown_sizes: u64,
    /// Number of versions of which the logs only have ranges. They end with the last of them.
    pub sizes_of_ranges: u64,
    /// Ranges that are cut, because another version of their object is shorter, and the bytes that they lose.
    pub cut_ranges: (u64, u64),
    /// Resolution of the times in nanoseconds. Requests with the same time are spread at random over it.
    pub resolution_ns: u64,
}

/// Maximum number of names of operations in `left_out`, so that a hostile log cannot fill the memory.
const MAX_NAMES: usize = 200;
/// Upper estimate of the memory of a request in bytes, from its line to the trace.
const REQUEST_BYTES: u64 = 128;
/// Size that stands for an unknown one.
const UNKNOWN: u64 = u64::MAX;

/// A request before its object is numbered.
struct LogRow {
    at_ns: i64,
    kind: OperationKind,
    /// Number of the key, in the order of the files.
    key: u32,
    /// Bytes of the body, or [`UNKNOWN`].
    bytes: u64,
    /// Size of the object, or [`UNKNOWN`].
    size: u64,
    /// First byte of a range, or [`UNKNOWN`].
    start: u64,
}

struct Rows {
    rows: Vec<LogRow>,
    /// Maximum number of requests.
    most: u64,
    keys: HashMap<u64, u32>,
    failed: u64,
    left_out: BTreeMap<String, u64>,
}

/// Returns the number of requests whose trace takes a quarter of the memory.
fn most_requests() -> u64 {
    usable_memory_bytes().map_or(u64::MAX, |bytes| bytes / 4 / REQUEST_BYTES)
}

impl Rows {
    fn new(most: u64) -> Rows {
        Rows { rows: Vec::new(), most, keys: HashMap::new(), failed: 0, left_out: BTreeMap::new() }
    }

    /// Adds a line. An error is the reason why the logs cannot be used.
    fn add(&mut self, line: LogLine<'_>) -> Result<(), String> {
        match line {
            LogLine::Nothing => {}
            LogLine::Request(Logged { kind: None, operation, .. }) => count(&mut self.left_out, &operation),
            LogLine::Request(logged) if logged.status >= 400 => self.failed += 1,
            LogLine::Request(_) if self.rows.len() as u64 >= self.most => {
                return Err(format!(
                    "the logs have more than {} requests, which would take a quarter of the memory; use fewer files",
                    self.most
                ));
            }
            LogLine::Request(Logged {
                at_ns,
                kind: Some(kind),
                bucket,
                key,
                bytes,
                size,
                range_start,
                ..
            }) => {
                let next = self.keys.len() as u32;
                let key = match kind {
                    OperationKind::List => 0,
                    // The names are 64-bit hashes: of ten million keys, two are the same with a probability of 3e-6.
                    _ => *self.keys.entry(mix(hash_name(&bucket)) ^ hash_name(&key)).or_insert(next),
                };
                let row = LogRow {
                    at_ns,
                    kind,
                    key,
                    bytes: bytes.unwrap_or(UNKNOWN),
                    size: size.unwrap_or(UNKNOWN),
                    start: range_start.unwrap_or(UNKNOWN),
                };
                self.rows.push(row);
            }
        }
        Ok(())
    }
}

/// Counts a name, up to a number of names.
pub(super) fn count(names: &mut BTreeMap<String, u64>, name: &str) {
    match names.get_mut(name) {
        Some(count) => *count += 1,
        None => {
            let name = if names.len() >= MAX_NAMES { "(others)" } else { name };
            *names.entry(name.to_string()).or_insert(0) += 1;
        }
    }
}

/// Calls `add` with each line of a file; its error is the reason why the log cannot be used. Returns the name of the
/// format and the resolution of its times.
pub(super) fn read(
    file: &Path,
    logs: &Logs,
    mut add: impl FnMut(LogLine<'_>) -> Result<(), String>,
) -> Result<Option<(&'static str, u64)>, LogError> {
    let mut lines = Lines::open(file, "a log of requests")?;
    let mut format = None;
    loop {
        let number = lines.number + 1;
        let Some(line) = lines.read()? else { break };
        let (_, format) = match &mut format {
            Some(format) => format,
            None if line.is_empty() => continue,
            None => {
                let given =
                    logs.format.as_deref().map(|given| FORMATS.iter().find(|name| **name == given).copied());
                // A table whose columns have other names can only be meant as one.
                let renamed = (!logs.columns.is_empty()).then_some("csv");
                let name = given.flatten().or(renamed).or_else(|| detect(line));
                let found = name.and_then(|name| Some((name, format_of(name, &logs.columns)?)));
                let unknown = || {
                    let names = FORMATS.join(", ");
                    LogError::at(
                        file,
                        number,
                        format!("the format of the log is unknown; name it as one of {names}"),
                    )
                };
                format.insert(found.ok_or_else(unknown)?)
            }
        };
        let added = format.parse(line).and_then(&mut add);
        added.map_err(|reason| LogError::at(file, number, reason))?;
    }
    Ok(format.map(|(name, format)| (name, format.resolution_ns())))
}

/// Reads logs in any order of time, and creates their trace.
///
/// # Errors
/// If a file cannot be read, a line is malformed, or there is no request.
pub fn collect(logs: &Logs) -> Result<Collected, LogError> {
    let mut rows = Rows::new(most_requests());
    let (mut formats, mut resolution_ns) = (Vec::new(), 1);
    for file in files_of(&logs.files)? {
        if let Some((name, resolution)) = read(&file, logs, |line| rows.add(line))? {
            resolution_ns = resolution_ns.max(resolution);
            if !formats.contains(&name) {
                formats.push(name);
            }
        }
    }
    let Rows { mut rows, keys, failed, left_out, .. } = rows;
    rows.sort_by_key(|row| row.at_ns);
    let Some(origin_ns) = rows.first().map(|row| row.at_ns) else {
        let names: Vec<String> = logs.files.iter().map(|file| file.display().to_string()).collect();
        return Err(LogError::Empty(names.join(", ")));
    };
    spread(&mut rows, resolution_ns);
    let Numbered { trace, unknown_sizes, sizes_of_ranges } = number(&rows, keys.len());
    let cut_ranges = cut_ranges(&trace);
    Ok(Collected {
        trace,
        origin_ns,
        formats,
        failed,
        left_out,
        unknown_sizes,
        sizes_of_ranges,
        cut_ranges,
        resolution_ns,
    })
}

/// Spreads requests with the same time uniformly over the resolution of the log, in their order.
fn spread(rows: &mut [LogRow], resolution_ns: u64) {
    if resolution_ns <= 1 {
        return;
    }
    let stream = Stream::new(0, "times within the resolution of the log");
    let mut number = 0;
    for same in rows.chunk_by_mut(|a, b| a.at_ns == b.at_ns) {
        let mut offsets: Vec<i64> = (number..number + same.len() as u64)
            .map(|i| (stream.unit(i) * resolution_ns as f64) as i64)
            .collect();
        offsets.sort_unstable();
        number += same.len() as u64;
        same.iter_mut().zip(offsets).for_each(|(row, offset)| row.at_ns += offset);
    }
}

/// Returns the ranges of a trace that are longer than another version of their object, and the bytes that they lose.
fn cut_ranges(trace: &Trace) -> (u64, u64) {
    let of = |request: &Recorded| {
        let least = trace.versions(u64::from(request.object)).iter().min().copied().unwrap_or(0);
        request.length.saturating_sub(least)
    };
    let cut = trace.requests().iter().filter(|request| request.kind == OperationKind::GetRange).map(of);
    cut.filter(|bytes| *bytes > 0).fold((0, 0), |(count, sum), bytes| (count + 1, sum + bytes))
}

/// A trace, and what its logs did not have.
struct Numbered {
    trace: Trace,
    unknown_sizes: u64,
    sizes_of_ranges: u64,
}

/// An object: its number, the sizes of its versions, and the ends of the longest ranges that were read of them.
#[derive(Default, Clone)]
struct Object {
    is_existing: bool,
    sizes: Vec<u64>,
    ends: Vec<u64>,
}

/// Numbers the objects and their versions.
fn number(rows: &[LogRow], keys: usize) -> Numbered {
    let mut objects = vec![Object::default(); keys];
    let mut versions = Vec::with_capacity(rows.len());
    for row in rows.iter() {
        let object = &mut objects[row.key as usize];
        let known = match row.kind {
            _ if row.kind == OperationKind::List => {
                versions.push(0);
                continue;
            }
            OperationKind::Get | OperationKind::Put => {
                [row.size, row.bytes].into_iter().find(|size| *size != UNKNOWN)
            }
            _ => Some(row.size).filter(|size| *size != UNKNOWN),
        };
        if row.kind == OperationKind::Put || object.sizes.is_empty() {
            object.is_existing |= row.kind != OperationKind::Put;
            object.sizes.push(known.unwrap_or(UNKNOWN));
            object.ends.push(0);
        }
        let version = object.sizes.len() - 1;
        if row.kind == OperationKind::GetRange && row.bytes != UNKNOWN {
            let start = if row.start == UNKNOWN { 0 } else { row.start };
            object.ends[version] = object.ends[version].max(start.saturating_add(row.bytes));
        }
        if let (Some(known), size) = (known, &mut object.sizes[version]) {
            // An interrupted download has fewer bytes than the object.
            *size = if *size == UNKNOWN { known } else { known.max(*size) };
        }
        versions.push(version as u32);
    }
    let (unknown_sizes, sizes_of_ranges) = complete_sizes(&mut objects);
    // The objects that existed before come first.
    let mut order: Vec<u32> = (0..keys as u32).collect();
    order.sort_by_key(|key| !objects[*key as usize].is_existing);
    let mut numbers = vec![0u32; keys];
    for (number, key) in order.iter().enumerate() {
        numbers[*key as usize] = number as u32;
    }
    let existing = objects.iter().filter(|object| object.is_existing).count() as u64;
    let origin = rows.first().map_or(0, |row| row.at_ns);
    let requests = rows.iter().zip(versions).map(|(row, version)| {
        let is_list = row.kind == OperationKind::List;
        let object = if is_list { 0 } else { numbers[row.key as usize] };
        let is_range = row.kind == OperationKind::GetRange && row.bytes != UNKNOWN;
        let length = if is_range { row.bytes } else { 0 };
        Recorded {
            at_ns: (row.at_ns - origin) as u64,
            kind: row.kind,
            object,
            version,
            length,
            start: Some(row.start).filter(|start| *start != UNKNOWN),
        }
    });
    let requests = requests.collect();
    let sizes = order.iter().map(|key| std::mem::take(&mut objects[*key as usize].sizes));
    Numbered { trace: Trace::new(requests, existing, sizes), unknown_sizes, sizes_of_ranges }
}

/// Sets the sizes that the logs do not have. Returns the number of those about which they say nothing, and of those
/// that follow from ranges.
fn complete_sizes(objects: &mut [Object]) -> (u64, u64) {
    let mut known: Vec<u64> =
        objects.iter().flat_map(|o| &o.sizes).copied().filter(|size| *size != UNKNOWN).collect();
    let middle = known.len() / 2;
    let median = if known.is_empty() { 0 } else { *known.select_nth_unstable(middle).1 };
    let (mut unknown_sizes, mut sizes_of_ranges) = (0, 0);
    let versions = objects.iter_mut().flat_map(|object| object.sizes.iter_mut().zip(&object.ends));
    for (size, end) in versions {
        // An object is at least as long as what was read of it; otherwise every read would fail.
        *size = match (*size, *end) {
            (UNKNOWN, 0) => {
                unknown_sizes += 1;
                median
            }
            (UNKNOWN, end) => {
                sizes_of_ranges += 1;
                end
            }
            (size, end) => size.max(end),
        };
    }
    (unknown_sizes, sizes_of_ranges)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn collected(lines: &[&str]) -> Collected {
        let name = format!("plimsoll-logs-{}-{}", std::process::id(), mix(hash_name(&lines.concat())));
        let dir = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&dir).unwrap();
        // The second file, which is compressed, has the first half of the requests.
        let (first, second) = lines.split_at(lines.len() / 2);
        let table = |lines: &[&str]| format!("time,operation,key,size,bytes,status\n{}\n", lines.join("\n"));
        std::fs::write(dir.join("a.csv"), table(second)).unwrap();
        let file = std::fs::File::create(dir.join("b.csv.gz")).unwrap();
        let mut file = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
        file.write_all(table(first).as_bytes()).unwrap();
        file.finish().unwrap();
        let found = collect(&Logs { files: vec![dir.clone()], ..Logs::default() }).unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        found
    }

    /// Regression test: a log of many requests, small when compressed, filled the memory.
    #[test]
    fn requests_have_a_largest_number() {
        let mut rows = Rows::new(2);
        let mut add = |status| {
            rows.add(LogLine::Request(Logged {
                at_ns: 0,
                operation: "GET".into(),
                kind: Some(OperationKind::Get),
                call: None,
                bucket: "b".into(),
                key: "k".into(),
                status,
                bytes: None,
                size: None,
                range_start: None,
            }))
        };
        assert_eq!([add(200), add(500), add(0)], [Ok(()), Ok(()), Ok(())], "failed requests take no memory");
        let error = add(200).unwrap_err();
        assert!(error.starts_with("the logs have more than 2 requests"), "{error}");
        assert!((1_000_000..u64::MAX).contains(&most_requests()));
    }

    #[test]
    fn objects_that_existed_come_first_and_versions_have_their_sizes() {
        let Collected { trace, failed, left_out, unknown_sizes, origin_ns, .. } = collected(&[
            "10,PUT,new,70,,200",
            "11,GET,old,100,100,200",
            "12,GET,old,100,40,206",
            "13,PUT,old,30,,200",
            "14,GET,old,,30,200",
            "15,HEAD,unknown,,,200",
            "16,GET,gone,,,404",
            "17,COPY,old,,,200",
            "18,GET,new,70,70,200",
        ]);
        assert_eq!((trace.objects(), trace.existing(), origin_ns), (3, 2, 10_000_000_000));
        let old = trace.requests()[1].object;
        let new = trace.requests()[0].object;
        assert_eq!((trace.versions(old.into()), trace.versions(new.into())), (&[100, 30][..], &[70][..]));
        let kinds: Vec<_> = trace.requests().iter().map(|r| (r.kind, r.version, r.length)).collect();
        use OperationKind::{Get, GetRange, Head, Put};
        let expected = [
            (Put, 0, 0),
            (Get, 0, 0),
            (GetRange, 0, 40),
            (Put, 1, 0),
            (Get, 1, 0),
            (Head, 0, 0),
            (Get, 0, 0),
        ];
        assert_eq!(kinds, expected);
        assert_eq!((failed, left_out.get("COPY"), unknown_sizes), (1, Some(&1), 1));
        // The median of 30, 70 and 100.
        assert_eq!(trace.versions(trace.requests()[5].object.into()), [70]);
    }

    /// Regression test: objects that were only read by ranges had no content, so that every read failed.
    #[test]
    fn an_object_is_as_long_as_its_longest_range() {
        let found = collected(&[
            "10,GET,video,,1000000,206",
            "11,GET,video,,500000,206",
            "12,GET,other,,500,206",
            "13,GET,known,100,40,206",
            "14,GET,short,10,40,206",
        ]);
        let sizes = |at: usize| found.trace.versions(found.trace.requests()[at].object.into()).to_vec();
        assert_eq!(
            [sizes(0), sizes(2), sizes(3), sizes(4)],
            [[1_000_000], [500], [100], [40]].map(Vec::from)
        );
        assert_eq!((found.unknown_sizes, found.sizes_of_ranges, found.cut_ranges), (0, 2, (0, 0)));
        let cut =
            collected(&["10,GET,key,1500500,1500500,206", "11,PUT,key,300,,200", "12,GET,key,300,300,206"]);
        assert_eq!(
            cut.cut_ranges,
            (1, 1_500_200),
            "of the first version, because a write may overtake the read"
        );
    }

    #[test]
    fn requests_of_a_second_are_spread_over_it_in_their_order() {
        let row =
            |at_ns| LogRow { at_ns, kind: OperationKind::Get, key: 0, bytes: 1, size: 1, start: UNKNOWN };
        let mut rows: Vec<LogRow> = (0..300).map(|i| row(i / 100 * 1_000_000_000)).collect();
        spread(&mut rows, 1_000_000_000);
        assert!(rows.windows(2).all(|pair| pair[0].at_ns <= pair[1].at_ns));
        for (index, row) in rows.iter().enumerate() {
            assert_eq!(row.at_ns / 1_000_000_000, index as i64 / 100);
        }
        let halves = rows[..100].iter().filter(|row| row.at_ns < 500_000_000).count();
        assert!((35..65).contains(&halves), "{halves}");
    }
}
