//! Messages on standard error. Secrets are redacted and control characters escaped.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use plimsoll_base::clock::{SECOND, now_ns};
use plimsoll_base::text::message;

/// Writes a line to standard error unless it has written the same line less than a second ago, or more than a hundred
/// different lines in the last second.
pub fn warn(text: &str) {
    #[cfg(any(test, feature = "simulation"))]
    if crate::simulated::now().is_some() {
        return;
    }
    static LAST: Mutex<Option<HashMap<String, u64>>> = Mutex::new(None);
    let now = now_ns();
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let last = last.get_or_insert_default();
    last.retain(|_, at| now.saturating_sub(*at) < SECOND);
    // At most about a hundred lines per second, so that a failing tier with many objects fills neither log nor memory.
    // A repetition does not renew the time: a line that is repeated all the time would never be written again.
    if last.len() > 100 || last.contains_key(text) {
        return;
    }
    last.insert(text.to_string(), now);
    note(text);
}

/// Writes a line about work in the background to standard error.
pub fn event(text: &str) {
    #[cfg(any(test, feature = "simulation"))]
    if crate::simulated::now().is_some() {
        return;
    }
    note(text);
}

/// Writes a line to standard error; an error is ignored, because nothing else could report it.
pub fn note(text: &str) {
    let line = format!("plimsoll-gateway: {text}\n");
    // One write of the whole line: lines of several threads must not be mixed.
    let _ = io::stderr().lock().write_all(message(&line).as_bytes());
}
