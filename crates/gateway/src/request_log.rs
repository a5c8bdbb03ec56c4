//! The access log: one JSON object per request.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use plimsoll_base::clock::wall_now;
use plimsoll_server::observer::{FinishedRequest, RequestObserver};
use serde::Serialize;

/// Writer of the access log.
pub struct RequestLog(Mutex<File>);

#[derive(Serialize)]
struct Line<'a> {
    time: String,
    id: &'a str,
    operation: Option<String>,
    method: &'a str,
    path: &'a str,
    access_key: &'a str,
    status: u16,
    bytes_in: u64,
    bytes_out: u64,
    duration_ms: f64,
}

impl RequestLog {
    /// Opens the file for appending, and creates it if necessary.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn open(path: &Path) -> io::Result<RequestLog> {
        Ok(RequestLog(Mutex::new(OpenOptions::new().create(true).append(true).open(path)?)))
    }
}

impl RequestObserver for RequestLog {
    fn finished(&self, request: &FinishedRequest<'_>) {
        let line = Line {
            time: wall_now().to_string(),
            id: request.id,
            operation: request.operation.map(|operation| format!("{operation:?}")),
            method: request.method.as_str(),
            path: request.path,
            access_key: request.access_key,
            status: request.status,
            bytes_in: request.bytes_in,
            bytes_out: request.bytes_out,
            duration_ms: request.duration_ns as f64 / 1e6,
        };
        let Ok(mut text) = serde_json::to_string(&line) else { return };
        text.push('\n');
        // A full disk loses lines, not requests.
        let _ = self.0.lock().unwrap_or_else(PoisonError::into_inner).write_all(text.as_bytes());
    }
}
