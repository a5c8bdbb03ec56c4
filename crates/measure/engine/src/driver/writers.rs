//! Writes of one object that overlap, by several connection slots of a run. The last one that the store executes wins,
//! so a read-back may return the version of any of them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Most writes of an object that are remembered although their end is not known.
const MAX_LOST: usize = 64;

/// An object: the index of its store in the job, the id of its dataset, and its index there.
pub type Object = (usize, u64, u64);

/// The writes that are in flight, by object. All workers share them.
#[derive(Debug, Default)]
pub struct Writers {
    objects: Mutex<HashMap<Object, Writes>>,
}

#[derive(Debug, Default)]
struct Writes {
    in_flight: Vec<Write>,
    /// Versions of the latest writes without a known end, which may still arrive.
    lost: VecDeque<u64>,
    /// Number of writes so far, which identifies each of them.
    count: u64,
}

#[derive(Debug)]
struct Write {
    number: u64,
    version: u64,
    /// Versions that were, or may have been, written at the same time.
    others: Vec<u64>,
}

impl Writers {
    fn lock(&self) -> MutexGuard<'_, HashMap<Object, Writes>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a write of a version of an object.
    pub fn begin(&self, object: Object, version: u64) -> Writing<'_> {
        let mut objects = self.lock();
        let writes = objects.entry(object).or_default();
        writes.count += 1;
        writes.in_flight.iter_mut().for_each(|other| other.others.push(version));
        let others = writes.in_flight.iter().map(|other| other.version).chain(writes.lost.iter().copied());
        let write = Write { number: writes.count, version, others: others.collect() };
        writes.in_flight.push(write);
        Writing { writers: self, object, number: writes.count, is_lost: false }
    }
}

/// A write in flight. It ends when this is dropped, which is after its verification.
#[derive(Debug)]
pub struct Writing<'a> {
    writers: &'a Writers,
    object: Object,
    number: u64,
    /// True if a request of it has no known end.
    pub is_lost: bool,
}

impl Writing<'_> {
    /// Returns the versions that were, or may have been, written since this write began.
    pub fn others(&self) -> Vec<u64> {
        let objects = self.writers.lock();
        let mut in_flight = objects.get(&self.object).into_iter().flat_map(|writes| &writes.in_flight);
        in_flight
            .find(|write| write.number == self.number)
            .map(|write| write.others.clone())
            .unwrap_or_default()
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let mut objects = self.writers.lock();
        let Some(writes) = objects.get_mut(&self.object) else { return };
        let Some(at) = writes.in_flight.iter().position(|write| write.number == self.number) else { return };
        let ended = writes.in_flight.swap_remove(at);
        if self.is_lost {
            // A store that fails for long must not cost more memory and time with each failure.
            writes.lost.truncate(MAX_LOST - 1);
            writes.lost.push_front(ended.version);
        }
        if writes.in_flight.is_empty() && writes.lost.is_empty() {
            objects.remove(&self.object);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBJECT: Object = (0, 1, 2);

    #[test]
    fn only_versions_that_overlap_may_be_read_back() {
        let writers = Writers::default();
        let first = writers.begin(OBJECT, 0);
        let other_object = writers.begin((0, 1, 3), 7);
        let second = writers.begin(OBJECT, 1);
        drop(second);
        let third = writers.begin(OBJECT, 2);
        assert_eq!(first.others(), [1, 2], "a write that has ended meanwhile, too");
        assert_eq!(third.others(), [0]);
        assert_eq!(other_object.others(), [0u64; 0]);
        drop((first, third, other_object));
        assert!(writers.lock().is_empty(), "nothing is kept");
        assert_eq!(writers.begin(OBJECT, 3).others(), [0u64; 0]);
    }

    #[test]
    fn a_write_without_a_known_end_may_arrive_later() {
        let writers = Writers::default();
        let mut lost = writers.begin(OBJECT, 0);
        lost.is_lost = true;
        drop(lost);
        drop(writers.begin(OBJECT, 1));
        assert_eq!(writers.begin(OBJECT, 2).others(), [0]);
    }
}
