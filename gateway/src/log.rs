//! Messages on standard error, each at most once a second.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use plimsoll::clock::{SECOND, now_ns};

/// Writes a line to standard error unless the same line was written less than a second ago.
pub fn warn(text: &str) {
    static LAST: Mutex<Option<HashMap<String, u64>>> = Mutex::new(None);
    let now = now_ns();
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let last = last.get_or_insert_default();
    last.retain(|_, at| now.saturating_sub(*at) < SECOND);
    if last.len() > 100 || last.insert(text.to_string(), now).is_some() {
        return;
    }
    crate::cli::out::note(text);
}
