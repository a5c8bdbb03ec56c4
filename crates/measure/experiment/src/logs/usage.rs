//! Requests of logs as bills count them: their numbers by kind and status, and their bytes, by prefix. Memory does not
//! grow with the number of requests.

use std::collections::BTreeMap;

use super::collect::{count, read};
use super::files::files_of;
use super::{LogError, LogLine, Logged};
use plimsoll_base::provider::calls::Call;
use plimsoll_workload::trace::Logs;

/// Maximum number of prefixes; the requests of others are counted together.
const MAX_PREFIXES: usize = 10_000;
/// Name under which the requests of further prefixes are counted.
pub const OTHERS: &str = "(others)";

/// Requests and bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Requests {
    /// Number of requests by kind and status of the response; status 0 if the log has none.
    pub calls: BTreeMap<(Call, u16), u64>,
    /// Object bytes of successful uploads.
    pub uploaded: u64,
    /// Object bytes of successful reads.
    pub downloaded: u64,
    /// Object bytes of successful copies.
    pub copied: u64,
    /// Number of successful uploads and reads by kind and size class: the exponent of the smallest power of two that
    /// is not below their bytes.
    pub sizes: BTreeMap<(Call, u32), u64>,
    /// Number of uploads, reads and copies whose bytes the log does not have.
    pub unknown_bytes: u64,
    /// Number of objects that were written or read whole and whose size is known.
    pub objects: u64,
    /// Sum of these sizes, in bytes.
    pub object_bytes: u64,
}

impl Requests {
    fn add(&mut self, call: Call, logged: &Logged<'_>) {
        *self.calls.entry((call, logged.status)).or_insert(0) += 1;
        if logged.status >= 400 {
            return;
        }
        let moved = match call {
            Call::UploadPart
                if logged.operation.contains("COPY") || logged.operation.contains("CopyObjectPart") =>
            {
                &mut self.copied
            }
            Call::PutObject | Call::UploadPart => &mut self.uploaded,
            Call::GetObject if logged.status != 304 => &mut self.downloaded,
            Call::CopyObject => &mut self.copied,
            _ => return,
        };
        let bytes = if call == Call::CopyObject { logged.size } else { logged.bytes };
        match bytes {
            Some(bytes) => {
                *moved = moved.saturating_add(bytes);
                *self.sizes.entry((call, size_class(bytes))).or_insert(0) += 1;
            }
            None => self.unknown_bytes += 1,
        }
        let whole = logged.size.or(logged.bytes.filter(|_| logged.status != 206));
        if let Some(size) = whole.filter(|_| call != Call::UploadPart) {
            self.objects += 1;
            self.object_bytes = self.object_bytes.saturating_add(size);
        }
    }

    /// Returns the number of all requests.
    pub fn total(&self) -> u64 {
        self.calls.values().sum()
    }
}

/// Returns the exponent of the smallest power of two that is not below a number of bytes.
fn size_class(bytes: u64) -> u32 {
    bytes.checked_next_power_of_two().map_or(u64::BITS, u64::trailing_zeros)
}

/// Usage of a store as its logs show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogUsage {
    /// Requests of all prefixes together.
    pub all: Requests,
    /// Requests by bucket and prefix.
    pub prefixes: BTreeMap<String, Requests>,
    /// Requests whose kind on a bill is unknown: their names and numbers.
    pub unknown: BTreeMap<String, u64>,
    /// Unix time of the first request in nanoseconds.
    pub first_ns: i64,
    /// Unix time of the last request in nanoseconds.
    pub last_ns: i64,
}

impl Default for LogUsage {
    fn default() -> LogUsage {
        LogUsage {
            all: Requests::default(),
            prefixes: BTreeMap::new(),
            unknown: BTreeMap::new(),
            first_ns: i64::MAX,
            last_ns: i64::MIN,
        }
    }
}

impl LogUsage {
    /// Adds a request, under the first `depth` parts of its key.
    pub fn add(&mut self, logged: &Logged<'_>, depth: usize) {
        self.first_ns = self.first_ns.min(logged.at_ns);
        self.last_ns = self.last_ns.max(logged.at_ns);
        let Some(call) = logged.call else {
            count(&mut self.unknown, &logged.operation);
            return;
        };
        self.all.add(call, logged);
        let name = prefix(&logged.bucket, &logged.key, depth);
        let is_full = self.prefixes.len() >= MAX_PREFIXES && !self.prefixes.contains_key(&name);
        let name = if is_full { OTHERS.to_string() } else { name };
        self.prefixes.entry(name).or_default().add(call, logged);
    }
}

/// Returns the first `depth` parts of a key that end with a slash, after the name of the bucket.
fn prefix(bucket: &str, key: &str, depth: usize) -> String {
    let key = key.strip_prefix('/').unwrap_or(key);
    let mut end = 0;
    for (at, _) in key.match_indices('/').take(depth) {
        end = at + 1;
    }
    match bucket {
        "" | "-" => format!("/{}", &key[..end]),
        bucket => format!("{bucket}/{}", &key[..end]),
    }
}

/// Reads logs in any order of time, and adds their requests by the first `depth` parts of their keys.
///
/// # Errors
/// If a file cannot be read, a line is malformed, or there is no request.
pub fn usage(logs: &Logs, depth: usize) -> Result<LogUsage, LogError> {
    let mut usage = LogUsage::default();
    for file in files_of(&logs.files)? {
        read(&file, logs, |line| {
            if let LogLine::Request(logged) = line {
                usage.add(&logged, depth);
            }
            Ok(())
        })?;
    }
    if usage.all.total() == 0 {
        let names: Vec<String> = logs.files.iter().map(|file| file.display().to_string()).collect();
        return Err(LogError::Empty(names.join(", ")));
    }
    Ok(usage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_kind_status_and_prefix() {
        let path = std::env::temp_dir().join(format!("plimsoll-usage-{}.csv", std::process::id()));
        let text = "time,operation,key,size,bytes,status,bucket\n\
                    1700000000,PutObject,a/b/1,100,100,200,data\n\
                    1700000001,GetObject,a/b/1,100,40,206,data\n\
                    1700000002,GetObject,a/c,7,,404,data\n\
                    1700000003,CopyObject,z,1000,,200,data\n\
                    1700000060,GetBucketAcl,z,,,200,data\n";
        std::fs::write(&path, text).unwrap();
        let logs = Logs { files: vec![path.clone()], ..Logs::default() };
        let usage = usage(&logs, 1).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!((usage.all.uploaded, usage.all.downloaded, usage.all.copied), (100, 40, 1000));
        assert_eq!((usage.all.objects, usage.all.object_bytes, usage.all.unknown_bytes), (3, 1200, 0));
        assert_eq!(usage.all.calls[&(Call::GetObject, 404)], 1);
        assert_eq!(usage.unknown["GetBucketAcl"], 1);
        assert_eq!(usage.all.sizes[&(Call::PutObject, 7)], 1);
        assert_eq!((size_class(0), size_class(1), size_class(1 << 20), size_class(u64::MAX)), (0, 0, 20, 64));
        assert_eq!(usage.prefixes.keys().collect::<Vec<_>>(), ["data/", "data/a/"]);
        assert_eq!(usage.last_ns - usage.first_ns, 60_000_000_000);
        assert_eq!((prefix("-", "/a/b/c", 2), prefix("b", "a/b/c", 0)), ("/a/b/".into(), "b/".into()));
    }
}
