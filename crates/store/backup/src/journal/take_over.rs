//! Begins an epoch of the journal: waits until no other process can lead, and ends the epoch before.

use super::end::{Headers, JournalEnd};
use crate::error::BackupError;
use crate::header::{EntryHeader, Header, Known};
use crate::history::MAX_IN_FLIGHT;
use crate::place::{Chain, Place};
use crate::ship::{fence, is_own};
use plimsoll_catalog::ambient::{pause, steady_ms};
use plimsoll_catalog::guard::{self, Guard};

/// Longest lease in milliseconds. A damaged entry may name a longer one.
const MAX_LEASE_MS: u64 = 600_000;
/// Number of attempts to end an epoch.
const ATTEMPTS: usize = 100;

/// A process that begins to lead.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// Random id of this process.
    pub writer: String,
    /// Ids of processes that certainly do not live any more: those before in the same directory.
    pub ended: Vec<String>,
    /// Milliseconds for which it leads after each entry.
    pub lease_ms: u64,
}

/// The end of the journal when this process began to lead.
#[derive(Debug, Clone)]
pub struct Leadership {
    /// Entries of the processes before, which do not change any more.
    pub before: JournalEnd,
    /// The fence, behind which this process continues.
    pub fence: Known,
}

/// Milliseconds for which a process waits that has just seen the last entry of another one: clocks may run differently
/// by one percent.
fn wait_ms(lease_ms: u64) -> u64 {
    // 2 ms more, because the clock and the quotient are rounded down.
    lease_ms + lease_ms / 100 + 2
}

/// Returns the milliseconds for which the writer of the last entry may still lead; 0 if it does not.
pub fn lease_of(last: Option<&Known>, candidate: &Candidate) -> u64 {
    let Some(header) = last.map(|known| &known.header) else { return 0 };
    let entry = header.entry.as_ref();
    let has_ended = entry.is_some_and(|entry| entry.is_last)
        || header.writer == candidate.writer
        || candidate.ended.contains(&header.writer);
    if has_ended { 0 } else { entry.map_or(0, |entry| entry.lease_ms.min(MAX_LEASE_MS)) }
}

/// An end of the journal, and when its writer does not lead any more.
pub struct Watch {
    end: JournalEnd,
    /// Milliseconds of the lease of the writer; 0 if it does not lead.
    lease_ms: u64,
    /// Time at which the lease has certainly ended, in milliseconds since the start of the machine.
    until_ms: u64,
}

/// Result of a look at the journal for its writer.
#[derive(Debug)]
pub enum Look {
    /// It does not lead.
    Free(Box<JournalEnd>),
    /// It may lead.
    Wait,
    /// It has gone on.
    Led,
}

impl Watch {
    /// Begins with an end of the journal that was read just now.
    pub fn new(end: JournalEnd, candidate: &Candidate) -> Watch {
        let lease_ms = lease_of(end.last.as_ref(), candidate);
        // From now on, and not from the time in the entry: the clocks of machines show different times.
        Watch { end, lease_ms, until_ms: steady_ms() + wait_ms(lease_ms) }
    }

    /// Returns the milliseconds of the lease that has not ended; 0 if there is none.
    pub fn lease_ms(&self) -> u64 {
        self.lease_ms
    }

    /// Returns the milliseconds until the next look is due, at most `most`.
    pub fn pause_ms(&self, most: u64) -> u64 {
        self.until_ms.saturating_sub(steady_ms()).min(most)
    }

    /// Compares with an end of the journal whose reading began at `began_ms`.
    pub fn look(&self, now: JournalEnd, began_ms: u64, candidate: &Candidate) -> Look {
        let is_same = (now.epoch, now.number) == (self.end.epoch, self.end.number);
        // The beginning of the reading counts: the writer may have gone on while it lasted.
        let is_over = began_ms >= self.until_ms || !guard::is_made(Guard::Lease);
        if lease_of(now.last.as_ref(), candidate) == 0 || is_same && is_over {
            Look::Free(Box::new(now))
        } else if is_same {
            Look::Wait
        } else {
            Look::Led
        }
    }
}

/// Waits until the lease of the writer before has ended, if it has one. Returns the end of the journal.
///
/// # Errors
/// [`BackupError::Led`] if the writer goes on, or the error of the place.
async fn wait(place: &Place, candidate: &Candidate) -> Result<JournalEnd, BackupError> {
    let mut headers = Headers::default();
    let watch = Watch::new(JournalEnd::find_again(place, &mut headers).await?, candidate);
    let lease_ms = watch.lease_ms();
    if lease_ms == 0 {
        return Ok(watch.end);
    }
    plimsoll_catalog::log::event(&format!(
        "another gateway may still lead; waiting {} s for the end of its lease",
        lease_ms.div_ceil(1000)
    ));
    // A living writer is found before the end of its lease.
    let step_ms = (lease_ms / 4).clamp(100, 5000);
    loop {
        pause(watch.pause_ms(step_ms)).await;
        let began_ms = steady_ms();
        let now = JournalEnd::find_again(place, &mut headers).await?;
        match watch.look(now, began_ms, candidate) {
            Look::Free(end) => return Ok(*end),
            Look::Wait => {}
            Look::Led => return Err(BackupError::Led),
        }
    }
}

/// Ends the epoch of the last entry. `prepare` is called before, when no other process leads: what takes long belongs
/// there, because this process does not lead yet either, and others may.
///
/// # Errors
/// [`BackupError::Led`] if another process goes on, or the error of the place or of `prepare`.
pub async fn take_over(
    place: &Place,
    candidate: &Candidate,
    mut prepare: impl AsyncFnMut(&JournalEnd) -> Result<(), BackupError>,
) -> Result<Leadership, BackupError> {
    for _ in 0..ATTEMPTS {
        // Waits again after a failed attempt, because another process was faster, and may lead until its lease ends.
        let before = wait(place, candidate).await?;
        prepare(&before).await?;
        if let Some(leadership) = end_epoch(place, candidate, before).await? {
            return Ok(leadership);
        }
    }
    Err(BackupError::Led)
}

/// Ends the epoch of the last entry, whose writer does not lead any more. `None` if another process was faster.
///
/// # Errors
/// The error of the place; the fence may exist nevertheless.
pub async fn end_epoch(
    place: &Place,
    candidate: &Candidate,
    before: JournalEnd,
) -> Result<Option<Leadership>, BackupError> {
    let lease_ms = candidate.lease_ms;
    // The fence has a lease, too: other processes wait for this one as soon as they see it.
    let header = Header {
        entry: Some(EntryHeader { lease_ms, ..EntryHeader::default() }),
        ..fence(before.last.as_ref(), &candidate.writer)
    };
    let fence = Known::new(header);
    let name = fence.header.name();
    // The entry with this number can be created once. From now on, the writer before confirms none behind it.
    if !place.create(&name, fence.encode(&[])).await? && !is_own(place, &fence).await? {
        return Ok(None);
    }
    if is_valid(place, &fence.header).await? {
        return Ok(Some(Leadership { before, fence }));
    }
    place.delete(&name).await?;
    Ok(None)
}

/// Returns true if a fence ends its epoch. If it was created late, at the place of a deleted entry, its writer has gone
/// on or another process has ended the epoch.
async fn is_valid(place: &Place, fence: &Header) -> Result<bool, BackupError> {
    if !guard::is_made(Guard::Fence) {
        return Ok(true);
    }
    let behind = place.numbers(Chain::Journal, fence.epoch, Some(fence.number)).await?;
    // A later epoch shows that this one ended before.
    let later = place.epochs(Chain::Journal).await?.into_iter().any(|epoch| epoch > fence.epoch);
    Ok(!later && behind.iter().all(|number| *number <= fence.number + MAX_IN_FLIGHT))
}
