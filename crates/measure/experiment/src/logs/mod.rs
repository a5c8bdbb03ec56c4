//! Logs of requests, one file for each format, and their conversion to traces.

use std::borrow::Cow;
use std::path::Path;

mod access;
mod cloudfront;
pub mod collect;
mod common_log;
pub(crate) mod files;
pub mod lines;
mod minio;
mod nginx;
mod s3_access;
mod table;
pub mod usage;
pub mod warp;

pub use self::collect::{Collected, collect};

use plimsoll_base::provider::calls::Call;
use plimsoll_workload::OperationKind;

/// An error in reading a log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file cannot be read.
    #[error("{file}: {reason}")]
    Unreadable {
        /// Path of the file.
        file: String,
        /// Cause of the error.
        reason: String,
    },
    /// A line or row does not have the format of the tool.
    #[error("{file}:{line}: {reason}")]
    At {
        /// Path of the file.
        file: String,
        /// Number of the line or row, from 1.
        line: u64,
        /// Description of the error.
        reason: String,
    },
    /// The log contains nothing to import.
    #[error("{0}: the log contains no operation that Plimsoll supports (GET, PUT, HEAD, LIST, DELETE)")]
    Empty(String),
}

impl LogError {
    /// Returns an error about a whole file.
    pub fn unreadable(file: &Path, reason: impl std::fmt::Display) -> LogError {
        LogError::Unreadable { file: file.display().to_string(), reason: reason.to_string() }
    }

    /// Returns an error about a line or row.
    pub fn at(file: &Path, line: u64, reason: impl Into<String>) -> LogError {
        LogError::At { file: file.display().to_string(), line, reason: reason.into() }
    }
}

/// A request of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logged<'a> {
    /// Unix time of the request in nanoseconds.
    pub at_ns: i64,
    /// Name of the operation in the log.
    pub operation: Cow<'a, str>,
    /// Kind of the operation; `None` if Plimsoll does not repeat it.
    pub kind: Option<OperationKind>,
    /// Kind of the request on a bill; `None` if it is not known.
    pub call: Option<Call>,
    /// Bucket; empty if the log has none.
    pub bucket: Cow<'a, str>,
    /// Key, encoded as in the log.
    pub key: Cow<'a, str>,
    /// Status of the response; 0 if the log has none.
    pub status: u16,
    /// Number of object bytes in the request or the response; `None` if it is unknown.
    pub bytes: Option<u64>,
    /// Size of the object in bytes; `None` if it is unknown.
    pub size: Option<u64>,
    /// First byte of a range read; `None` if it is unknown.
    pub range_start: Option<u64>,
}

/// A line of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogLine<'a> {
    /// Request of a client.
    Request(Logged<'a>),
    /// Header, comment or empty line.
    Nothing,
}

/// Format of a log.
pub trait Format {
    /// Returns the resolution of the times in nanoseconds.
    fn resolution_ns(&self) -> u64;

    /// Parses a line.
    ///
    /// # Errors
    /// A description of what is wrong with the line.
    fn parse<'a>(&mut self, line: &'a str) -> Result<LogLine<'a>, String>;
}

/// Returns a time in Unix nanoseconds; `None` beyond the year 2262.
fn unix_ns(at: jiff::Timestamp) -> Option<i64> {
    i64::try_from(at.as_nanosecond()).ok()
}

/// Returns the status of a response.
///
/// # Errors
/// A message if the number is none.
fn status(number: u64) -> Result<u16, String> {
    let status = u16::try_from(number).ok().filter(|status| *status < 1000);
    status.ok_or_else(|| format!("status '{number}' is not a status of HTTP"))
}

/// Returns the request on a bill of an operation whose log names no S3 operation.
fn call_of(kind: OperationKind) -> Option<Call> {
    Some(match kind {
        OperationKind::Put => Call::PutObject,
        OperationKind::Get | OperationKind::GetRange => Call::GetObject,
        OperationKind::Head => Call::HeadObject,
        OperationKind::List => Call::ListObjects,
        OperationKind::Delete => Call::DeleteObject,
        _ => return None,
    })
}

/// Names of the formats, in the order in which they are tried.
pub const FORMATS: [&str; 7] = ["cloudfront", "minio", "plimsoll", "warp", "s3", "nginx", "csv"];

/// Returns a format by its name; `None` if there is none.
fn format_of(name: &str, columns: &[(String, String)]) -> Option<Box<dyn Format>> {
    Some(match name {
        "cloudfront" => Box::new(cloudfront::CloudFront::default()),
        "minio" => Box::new(minio::Minio),
        "plimsoll" => Box::new(access::AccessLog),
        "warp" => Box::new(warp::Warp::default()),
        "s3" => Box::new(s3_access::S3Access::default()),
        "nginx" => Box::new(nginx::Nginx::default()),
        "csv" => Box::new(table::Table::new(columns)),
        _ => return None,
    })
}

/// Returns the name of the first format that accepts a line.
fn detect(line: &str) -> Option<&'static str> {
    let accepts = |name: &&&str| {
        let format = format_of(name, &[]);
        format.is_some_and(|mut format| format.parse(line).is_ok())
    };
    FORMATS.iter().find(accepts).copied()
}
