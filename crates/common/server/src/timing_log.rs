//! The timing log: one line per request, timed on the monotonic clock that client and server share.
//!
//! `calibrate` compares the client's figures with it. The columns are
//! `tag,method,status,received_ns,last_byte_ns,bytes`: `tag` is the request's `x-plimsoll-tag` header, `received_ns`
//! the time at which its first byte arrived in the kernel, and `last_byte_ns` the time just before the last byte of
//! its response was written. If the server reset the connection instead of responding, `last_byte_ns` is 0 or earlier
//! than `received_ns`. The last lines are the pauses of the machine, with the method `PAUSE`, the number of the core
//! as tag, and their start and end as times.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use plimsoll_base::machine::pauses::{Pause, PauseWatch};

/// Name of the header that links a log line to the client operation that caused it.
pub const TAG_HEADER: &str = "x-plimsoll-tag";

/// One request in the timing log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TimingEntry {
    /// Value of [`TAG_HEADER`]; empty if the request has no such header.
    pub tag: String,
    /// HTTP method of the request.
    pub method: String,
    /// HTTP status of the response.
    pub status: u16,
    /// Monotonic time in nanoseconds at which the first byte of the request arrived.
    pub received_ns: u64,
    /// Monotonic time in nanoseconds just before the last byte of the response was written.
    pub last_byte_ns: u64,
    /// Bytes in the body of the response or in the payload of the request, whichever is larger.
    pub bytes: u64,
}

/// Writer of the timing log file.
pub struct TimingLog {
    file: Mutex<BufWriter<File>>,
    watch: PauseWatch,
}

/// Content of a timing log.
#[derive(Debug, Default)]
pub struct Log {
    /// Requests, in the order in which they were finished.
    pub requests: Vec<TimingEntry>,
    /// Pauses of the server's machine.
    pub pauses: Vec<Pause>,
}

/// Method of the lines that are pauses.
const PAUSE: &str = "PAUSE";

impl TimingLog {
    /// Creates the log file, replacing an existing one.
    ///
    /// # Errors
    /// Returns an error if the file cannot be created or written.
    pub fn create(path: &Path) -> io::Result<TimingLog> {
        let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
        writeln!(file, "tag,method,status,received_ns,last_byte_ns,bytes")?;
        Ok(TimingLog { file: Mutex::new(file), watch: PauseWatch::start(usize::MAX) })
    }

    /// Appends a line. A write error, such as a full disk, is reported at the end.
    pub fn write(&self, e: &TimingEntry) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let tag: String = e.tag.chars().filter(|c| !c.is_control() && *c != ',').collect();
        let _ = writeln!(
            file,
            "{tag},{},{},{},{},{}",
            e.method, e.status, e.received_ns, e.last_byte_ns, e.bytes
        );
    }

    /// Writes the pauses and the buffered lines to the file, after the last request.
    ///
    /// # Errors
    /// Returns an error if the write fails, for example because the disk is full.
    pub fn finish(&self) -> io::Result<()> {
        for pause in self.watch.log().since(0) {
            self.write(&TimingEntry {
                tag: pause.core.to_string(),
                method: PAUSE.into(),
                received_ns: pause.start_ns,
                last_byte_ns: pause.end_ns,
                ..TimingEntry::default()
            });
        }
        self.file.lock().unwrap_or_else(PoisonError::into_inner).flush()
    }
}

/// Reads a timing log file.
///
/// # Errors
/// Returns an error if the file cannot be read or a line is malformed; the message names the file and the line.
pub fn read(path: &Path) -> io::Result<Log> {
    let text = std::fs::read_to_string(path)?;
    let parse = |line: &str| {
        let mut fields = line.split(',');
        let entry = TimingEntry {
            tag: fields.next()?.to_string(),
            method: fields.next()?.to_string(),
            status: fields.next()?.parse().ok()?,
            received_ns: fields.next()?.parse().ok()?,
            last_byte_ns: fields.next()?.parse().ok()?,
            bytes: fields.next()?.parse().ok()?,
        };
        Some(entry)
    };
    let rows = text.lines().enumerate().skip(1);
    let malformed = |i: usize| {
        let columns = "tag,method,status,received_ns,last_byte_ns,bytes";
        io::Error::other(format!(
            "{}:{}: malformed timing log line; expected {columns}",
            path.display(),
            i + 1
        ))
    };
    let mut log = Log::default();
    for (i, line) in rows {
        let entry = parse(line).ok_or_else(|| malformed(i))?;
        if entry.method == PAUSE {
            let core = entry.tag.parse().map_err(|_| malformed(i))?;
            log.pauses.push(Pause { core, start_ns: entry.received_ns, end_ns: entry.last_byte_ns });
        } else {
            log.requests.push(entry);
        }
    }
    Ok(log)
}
