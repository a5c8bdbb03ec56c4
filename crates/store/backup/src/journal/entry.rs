//! Entries of the journal: their contents, their order, and their creation.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use plimsoll_base::net::encode::hex;
use plimsoll_s3::sign::sha256;

use super::take_over::Leadership;
use crate::error::BackupError;
use crate::header::{EntryHeader, Header, Known, RunHeader, Tail};
use crate::history::{MAX_IN_FLIGHT, read_header};
use crate::place::Place;
use plimsoll_catalog::ambient::{in_time, now_ms, pause, steady_ms};
use plimsoll_catalog::embedded::Engine;
use plimsoll_catalog::embedded::segment::{HEADER, SegmentHeader};
use plimsoll_catalog::embedded::writer::WrittenGroup;
use plimsoll_catalog::guard::{self, Guard};
use plimsoll_catalog::lease::Lease;

/// Longest time in milliseconds after which the first attempt to create an entry without a group is given up.
const ATTEMPT_MS: u64 = 5000;
/// Longest time in milliseconds for any attempt.
const MAX_ATTEMPT_MS: u64 = 60_000;
/// Bytes per millisecond that the link to the place certainly has.
const LEAST_RATE: u64 = 1000;
/// Longest time between two attempts in milliseconds.
const MAX_PAUSE_MS: u64 = 1000;
/// Number of the last entries that stay, so that a fence that is created late at the place of a deleted entry has more
/// entries behind it than a writer has in flight.
const STAY: usize = 64;

/// Bytes of the log that become an entry.
pub struct Contents {
    run: RunHeader,
    bytes: Bytes,
    tail: Tail,
}

impl Contents {
    /// Returns the bytes of a group. The first group of a segment has the header of the segment.
    pub fn new(engine: &Engine, group: &WrittenGroup) -> Result<Contents, BackupError> {
        let segment = group.end.segment;
        let (mut offset, mut bytes) = (group.offset, group.bytes.clone());
        // A copy creates its segment from these bytes (`Replica::append`).
        if offset == HEADER {
            let header = SegmentHeader { salt: engine.salt, id: segment, first_group: group.number };
            bytes = [header.encode(), bytes.to_vec()].concat().into();
            offset = 0;
        }
        let (first_group, length) = (group.first_group, bytes.len() as u64);
        let run = RunHeader { segment, first_group, offset, bytes: length, next_group: group.end.group };
        let tail = Tail::of(engine, group.end).ok_or(BackupError::Gap)?;
        Ok(Contents { run, bytes, tail })
    }
}

/// Writer of an epoch of the journal: knows the last entry that was begun.
pub struct EntryWriter {
    place: Place,
    lease_ms: u64,
    last: Known,
    /// End of the log in the last entry.
    tail: Tail,
    epoch: u64,
    /// Number of the last entry that exists with all entries before it.
    confirmed: u64,
    /// Entries that exist, behind one that may not exist.
    landed: BTreeMap<u64, Flight>,
    /// Entries that exist with all before them: the number of each, and of the group behind its last one.
    entries: VecDeque<(u64, u64)>,
}

/// An entry on its way.
pub struct Flight {
    known: Known,
    sent_ms: u64,
    /// True if the entry has a group.
    pub has_group: bool,
}

impl EntryWriter {
    /// Begins behind a fence, with the log up to a tail.
    pub fn new(place: Place, leadership: &Leadership, tail: Tail) -> EntryWriter {
        let last = leadership.fence.clone();
        let header = &last.header;
        let lease_ms = header.entry.as_ref().map_or(0, |entry| entry.lease_ms);
        let (epoch, confirmed) = (header.fence.unwrap_or(header.epoch + 1), header.number);
        EntryWriter {
            place,
            lease_ms,
            last,
            tail,
            epoch,
            confirmed,
            landed: BTreeMap::new(),
            entries: VecDeque::new(),
        }
    }

    /// Returns the place of the journal.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Returns true if a further entry may be sent: fewer than [`MAX_IN_FLIGHT`] entries are behind the end of the
    /// journal. Entries that exist behind a missing one count, too.
    pub fn has_room(&self) -> bool {
        self.last.header.number < self.confirmed + MAX_IN_FLIGHT
    }

    /// Returns the milliseconds of the lease.
    pub fn lease_ms(&self) -> u64 {
        self.lease_ms
    }

    /// Returns the epoch.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns the next entry and its bytes; without contents, an empty one.
    pub fn next(&mut self, contents: Option<Contents>, is_last: bool) -> (Flight, Bytes) {
        let (runs, bytes, tail) = match contents {
            Some(contents) => (vec![contents.run], contents.bytes, contents.tail),
            None => (Vec::new(), Bytes::new(), self.tail.clone()),
        };
        // Empty entries repeat it: `newest_tail` looks only at the last entry.
        self.tail = tail.clone();
        let has_group = !runs.is_empty();
        let known = Known::new(Header {
            epoch: self.epoch,
            number: self.last.header.number + 1,
            previous: self.last.digest(),
            writer: self.last.header.writer.clone(),
            written_ms: now_ms(),
            runs,
            tail,
            bytes: bytes.len() as u64,
            sha256: hex(&sha256(&bytes)),
            entry: Some(EntryHeader { lease_ms: self.lease_ms, confirmed: self.confirmed, is_last }),
            ..Header::default()
        });
        // Before this entry exists: the next one, which refers to it, need not wait.
        self.last = known.clone();
        let object = known.encode(&bytes);
        // The lease counts from here, before the first attempt: nobody can have seen the entry earlier.
        (Flight { known, sent_ms: steady_ms(), has_group }, object)
    }

    /// Tries to create an entry. Returns false if this must be tried again.
    ///
    /// # Errors
    /// [`BackupError::Fenced`] if another process has ended the epoch, or the error of the place.
    pub async fn attempt(place: &Place, flight: &Flight, object: Bytes) -> Result<bool, BackupError> {
        let known = &flight.known;
        let name = known.header.name();
        if place.create(&name, object).await? {
            return Ok(true);
        }
        // An earlier attempt may have succeeded without an answer.
        match read_header(place, &name).await? {
            Some(found) if found.text == known.text => Ok(true),
            Some(_) if guard::is_made(Guard::Fence) => Err(BackupError::Fenced(known.header.epoch + 1)),
            // It was deleted between the two requests, as a late fence is. The next attempt creates the entry.
            found => Ok(found.is_some()),
        }
    }

    /// Records that an entry exists. Returns the entries that now exist with all entries before them, in their order.
    pub fn landed(&mut self, flight: Flight, lease: &Lease) -> Vec<Flight> {
        self.landed.insert(flight.known.header.number, flight);
        let mut found = Vec::new();
        // In their order: groups rely on those before, so none is acknowledged behind a missing entry.
        while let Some(entry) = self.landed.first_entry()
            && (*entry.key() == self.confirmed + 1 || !guard::is_made(Guard::Order))
        {
            let flight = entry.remove();
            self.confirmed = self.confirmed.max(flight.known.header.number);
            self.entries.push_back((self.confirmed, flight.known.header.tail.position.group));
            lease.extend(flight.sent_ms, self.lease_ms);
            found.push(flight);
        }
        found
    }

    /// Returns the numbers of the entries that are not needed any more, because a backup has the groups before
    /// `shipped`.
    pub fn covered(&mut self, shipped: u64) -> Vec<u64> {
        let mut numbers = Vec::new();
        while self.entries.len() > STAY
            && let Some((number, _)) = self.entries.front().filter(|(_, group)| *group <= shipped)
        {
            numbers.push(*number);
            self.entries.pop_front();
        }
        numbers
    }
}

/// Returns the milliseconds after which an attempt to create an entry is given up. A lost request must not cost the
/// lease, and a slow link must get every entry through in the end.
fn patience_ms(lease_ms: u64, bytes: u64, attempt: u32) -> u64 {
    let first = (lease_ms / 3).min(ATTEMPT_MS) + bytes / LEAST_RATE;
    first.saturating_mul(1 << attempt.min(6)).min(MAX_ATTEMPT_MS)
}

/// Creates an entry, with as many attempts as it needs.
///
/// # Errors
/// [`BackupError::Fenced`] if another process has ended the epoch.
pub async fn create(
    place: Place,
    lease: Arc<Lease>,
    flight: Flight,
    object: Bytes,
) -> Result<Flight, BackupError> {
    let lease_ms = flight.known.header.entry.as_ref().map_or(0, |entry| entry.lease_ms);
    let (mut pause_ms, mut attempts) = (50, 0);
    // Without end: the entry may exist, so nobody can say that its group has failed. The lease may end meanwhile.
    loop {
        let patience_ms = patience_ms(lease_ms, object.len() as u64, attempts);
        attempts += 1;
        let attempt = EntryWriter::attempt(&place, &flight, object.clone());
        let problem = match in_time(Duration::from_millis(patience_ms), attempt).await {
            Some(Ok(true)) => return Ok(flight),
            Some(Err(error @ BackupError::Fenced(_))) => return Err(error),
            Some(Ok(false)) => "the entry exists, and cannot be read".to_string(),
            Some(Err(error)) => error.to_string(),
            None => format!("no answer in {patience_ms} ms"),
        };
        if lease.fail(problem.clone()) {
            plimsoll_catalog::log::warn(&format!("the journal is not written: {problem}"));
        }
        pause(pause_ms).await;
        pause_ms = (2 * pause_ms).min(MAX_PAUSE_MS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_request_costs_a_third_of_the_lease_and_a_slow_one_gets_more_time() {
        assert_eq!(patience_ms(2000, 0, 0), 666);
        assert_eq!(patience_ms(600_000, 0, 0), ATTEMPT_MS);
        assert_eq!(patience_ms(600_000, 4_000_000, 0), ATTEMPT_MS + 4000);
        assert_eq!(patience_ms(2000, 4_000_000, 2), 4 * 4666);
        assert_eq!(patience_ms(2000, u64::MAX, 60), MAX_ATTEMPT_MS);
    }
}
