//! A limit of the connections that are served, for `--inject connections=N` and for twins of stores that have one. The
//! requests of other connections get a reset.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Number of connections that are served, and its maximum.
#[derive(Debug, Clone)]
pub struct ConnectionLimit {
    most: u32,
    served: Arc<AtomicU32>,
}

/// Right of a connection to be served, until it is dropped.
#[derive(Debug)]
pub struct Place(Arc<AtomicU32>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ConnectionLimit {
    /// Creates a limit of `most` connections.
    pub fn new(most: u32) -> ConnectionLimit {
        ConnectionLimit { most, served: Arc::default() }
    }

    /// Takes a place for a connection; `None` if all places are taken.
    pub fn take(&self) -> Option<Place> {
        let more = |served: u32| (served < self.most).then_some(served + 1);
        self.served.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Place(Arc::clone(&self.served)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_can_be_taken_again_after_its_connection_has_ended() {
        let limit = ConnectionLimit::new(2);
        let places = [limit.take(), limit.take()];
        assert!(places.iter().all(Option::is_some) && limit.take().is_none());
        drop(places);
        assert!(limit.take().is_some());
    }
}
