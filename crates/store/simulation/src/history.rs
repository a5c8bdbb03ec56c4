//! The history of the requests of a simulation, and whether it is that of a linearizable store.

use std::collections::BTreeMap;

/// A PUT or DELETE.
#[derive(Clone)]
struct Write {
    start: u64,
    /// Moment of the acknowledgement; `None` if there is none, so that the write may take effect at any time.
    end: Option<u64>,
    /// Body; `None` for a DELETE.
    body: Option<Vec<u8>>,
}

/// Requests by key. A moment is the number of a step.
#[derive(Clone, Default)]
pub struct History {
    writes: BTreeMap<String, Vec<Write>>,
    /// First violation of an invariant.
    pub violation: Option<String>,
}

impl History {
    /// Records the start of a write. Returns its number.
    pub fn begin(&mut self, key: &str, start: u64, body: Option<Vec<u8>>) -> usize {
        let writes = self.writes.entry(key.to_string()).or_default();
        writes.push(Write { start, end: None, body });
        writes.len() - 1
    }

    /// Records the acknowledgement of a write.
    pub fn acknowledge(&mut self, key: &str, number: usize, end: u64) {
        if let Some(write) = self.writes.get_mut(key).and_then(|writes| writes.get_mut(number)) {
            write.end = Some(end);
        }
    }

    /// Records a violation; the first one counts.
    pub fn violate(&mut self, text: String) {
        self.violation.get_or_insert(text);
    }

    /// Returns true if a read that lasted from `start` to `end` may have found a body.
    fn allows(&self, key: &str, start: u64, end: u64, body: Option<&[u8]>) -> bool {
        let none = Vec::new();
        let writes = self.writes.get(key).unwrap_or(&none);
        // A write is over if an acknowledged one began after its end, and ended before the read.
        let is_over = |since: u64| {
            writes.iter().any(|other| other.start >= since && other.end.is_some_and(|end| end <= start))
        };
        let of_write = |write: &Write| {
            write.body.as_deref() == body && write.start <= end && !write.end.is_some_and(is_over)
        };
        writes.iter().any(of_write) || body.is_none() && !is_over(0)
    }

    /// Checks the result of a read.
    pub fn read(&mut self, key: &str, start: u64, end: u64, body: Option<&[u8]>) {
        if !self.allows(key, start, end, body) {
            let found = body.map_or("nothing".to_string(), |body| format!("{} bytes", body.len()));
            self.violate(format!("a read of {key} from step {start} to {end} found {found}"));
        }
    }

    /// Checks the result of a read: the entity tag and the body, nothing, or an error.
    pub fn found(
        &mut self,
        key: &str,
        start: u64,
        end: u64,
        found: Result<Option<(String, Vec<u8>)>, String>,
    ) {
        match found {
            Err(error) if error.starts_with("ServiceUnavailable") => {}
            Err(error) => self.violate(format!("a read of {key} from step {start} to {end} failed: {error}")),
            Ok(None) => self.read(key, start, end, None),
            Ok(Some((etag, body))) => {
                let expected =
                    format!("\"{}\"", plimsoll_base::net::encode::hex(&plimsoll_s3::checksum::md5(&body)));
                if etag != expected {
                    self.violate(format!("a read of {key} has the entity tag {etag} instead of {expected}"));
                }
                self.read(key, start, end, Some(&body));
            }
        }
    }

    /// Returns the keys of all writes.
    pub fn keys(&self) -> Vec<String> {
        self.writes.keys().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_and_resurrected_bodies_are_found() {
        let mut history = History::default();
        assert!(history.allows("k", 0, 1, None));
        let first = history.begin("k", 1, Some(vec![1]));
        assert!(history.allows("k", 2, 3, None) && history.allows("k", 2, 3, Some(&[1])));
        history.acknowledge("k", first, 4);
        assert!(!history.allows("k", 5, 6, None) && history.allows("k", 3, 6, None));
        let deleted = history.begin("k", 7, None);
        assert!(history.allows("k", 7, 8, Some(&[1])) && history.allows("k", 7, 8, None));
        history.acknowledge("k", deleted, 9);
        assert!(!history.allows("k", 10, 11, Some(&[1])));
        // Without an acknowledgement, a write may take effect later or never.
        history.begin("k", 12, Some(vec![2]));
        assert!(history.allows("k", 20, 21, None) && history.allows("k", 20, 21, Some(&[2])));
        history.read("k", 20, 21, Some(&[3]));
        assert!(history.violation.unwrap().contains("1 bytes"));
    }
}
