//! Finds the end of the journal.

use std::collections::BTreeMap;

use futures_util::stream::{self, Stream, StreamExt, TryStreamExt};

use bytes::Bytes;

use crate::error::BackupError;
use crate::header::{Known, RunHeader};
use crate::history::{MAX_IN_FLIGHT, read_header};
use crate::place::{Chain, Place};
use plimsoll_catalog::guard::{self, Guard};

/// Number of entries that are read at the same time.
const READ_IN_FLIGHT: usize = 16;

/// The end of the journal.
#[derive(Debug, Clone, Default)]
pub struct JournalEnd {
    /// Epoch of the next entry.
    pub epoch: u64,
    /// Number of the next entry.
    pub number: u64,
    /// Last entry, which may be a fence; `None` for an empty journal.
    pub last: Option<Known>,
    /// Epoch of the last groups.
    pub groups_epoch: u64,
    /// Numbers of the entries of that epoch, one after the other. Earlier ones are deleted.
    pub numbers: Vec<u64>,
    /// Id of the process that has written the last of them; `None` if there is none. Its log had everything that was
    /// durable, while the writer of a fence may have ended before it had read that.
    pub writer: Option<String>,
}

/// Headers of entries that were read before, by epoch and number. Those near the end of the journal are kept: they do
/// not change, because only older entries are deleted.
#[derive(Debug, Default)]
pub struct Headers(BTreeMap<(u64, u64), Known>);

/// The entries of one epoch.
struct EpochEnd {
    numbers: Vec<u64>,
    /// Id of the process that has written the last of them; `None` if there is none.
    writer: Option<String>,
    /// Last entry; the fence if there is one.
    last: Known,
}

/// Returns the last number of consecutive numbers. What is behind it was sent before the entry that is missing there
/// was created, and never acknowledged.
fn last_consecutive(numbers: &[u64]) -> Option<u64> {
    let most = *numbers.last()?;
    // An earlier gap is one of deleted entries: no writer goes on further behind a missing one.
    let near = numbers.partition_point(|number| number + MAX_IN_FLIGHT < most);
    let gap = numbers[near..].windows(2).find(|pair| pair[0] + 1 != pair[1]);
    Some(gap.map_or(most, |pair| pair[0]))
}

/// Returns the numbers that end with `last` one after the other.
fn consecutive_until(numbers: &[u64], last: u64) -> Vec<u64> {
    let until = numbers.partition_point(|number| *number <= last);
    let numbers = &numbers[..until];
    let broken = numbers.windows(2).rposition(|pair| pair[0] + 1 != pair[1]);
    numbers[broken.map_or(0, |index| index + 1)..].to_vec()
}

fn missing(epoch: u64, number: u64) -> BackupError {
    BackupError::damaged(Chain::Journal.name(epoch, number), "it is missing")
}

/// Returns the entries of an epoch; `None` if it has none.
async fn of_epoch(
    place: &Place,
    epoch: u64,
    before: &Headers,
    read_now: &mut Headers,
) -> Result<Option<EpochEnd>, BackupError> {
    let numbers = place.numbers(Chain::Journal, epoch, None).await?;
    let Some(most) = numbers.last().copied() else { return Ok(None) };
    // Far enough back for the last entry that counts, and for a fence with entries behind it.
    let near = numbers.iter().copied().filter(|number| number + 2 * MAX_IN_FLIGHT >= most);
    let read = |number| {
        let header = before.0.get(&(epoch, number)).cloned();
        async move {
            let name = Chain::Journal.name(epoch, number);
            match header {
                Some(header) => Ok(header),
                // It was deleted since the listing, or is lost; `find_end` in directory.rs looks again.
                None => read_header(place, &name).await?.ok_or_else(|| missing(epoch, number)),
            }
        }
    };
    let headers: Vec<Known> = stream::iter(near.map(read)).buffered(READ_IN_FLIGHT).try_collect().await?;
    read_now.0.extend(headers.iter().map(|known| ((epoch, known.header.number), known.clone())));
    // A fence that was created late, at the place of a deleted entry, has more entries behind it.
    let is_fence =
        |known: &&Known| known.header.fence.is_some() && known.header.number + MAX_IN_FLIGHT >= most;
    if let Some(fence) = headers.iter().find(is_fence) {
        let before = fence.header.number.checked_sub(1);
        let numbers = before.map_or_else(Vec::new, |last| consecutive_until(&numbers, last));
        // If the entry before the fence is deleted, the backup has the groups of this epoch.
        let numbers = if numbers.last().copied() == before { numbers } else { Vec::new() };
        let last = headers.iter().find(|known| Some(known.header.number) == numbers.last().copied());
        let writer = last.map(|known| known.header.writer.clone());
        return Ok(Some(EpochEnd { numbers, writer, last: fence.clone() }));
    }
    let last = last_consecutive(&numbers).unwrap_or(most);
    let confirmed =
        headers.iter().filter_map(|known| known.header.entry.as_ref()).map(|entry| entry.confirmed);
    // Its writer has confirmed the missing entry, so clients may rely on it: it is lost.
    if confirmed.max().is_some_and(|confirmed| confirmed > last) && guard::is_made(Guard::Order) {
        return Err(missing(epoch, last + 1));
    }
    let found = headers.into_iter().find(|known| known.header.number == last);
    let last_known = found.ok_or_else(|| missing(epoch, last))?;
    let writer = Some(last_known.header.writer.clone());
    Ok(Some(EpochEnd { numbers: consecutive_until(&numbers, last), writer, last: last_known }))
}

impl JournalEnd {
    /// Finds the end of the journal in a place.
    ///
    /// # Errors
    /// If the place fails, or an entry is damaged or missing.
    pub async fn find(place: &Place) -> Result<JournalEnd, BackupError> {
        JournalEnd::find_again(place, &mut Headers::default()).await
    }

    /// Finds the end of the journal, and reads only the headers that an earlier look has not read.
    ///
    /// # Errors
    /// As [`JournalEnd::find`].
    pub async fn find_again(place: &Place, known: &mut Headers) -> Result<JournalEnd, BackupError> {
        let mut end: Option<JournalEnd> = None;
        let mut read_now = Headers::default();
        // From the newest one: earlier epochs matter only if the later ones have nothing but fences.
        for epoch in place.epochs(Chain::Journal).await?.into_iter().rev() {
            let Some(found) = of_epoch(place, epoch, known, &mut read_now).await? else { continue };
            let header = &found.last.header;
            let end = end.get_or_insert_with(|| JournalEnd {
                epoch: header.fence.unwrap_or(epoch),
                number: header.number + 1,
                last: Some(found.last.clone()),
                groups_epoch: epoch,
                numbers: Vec::new(),
                writer: None,
            });
            // A start that failed has left only a fence.
            if !found.numbers.is_empty() {
                (end.groups_epoch, end.numbers, end.writer) = (epoch, found.numbers, found.writer);
                break;
            }
        }
        *known = read_now;
        Ok(end.unwrap_or_default())
    }

    /// Returns true if one of some processes has written the last entry that is not a fence: their log may have more
    /// than the journal, and nobody has read since that it does not exist.
    pub fn is_by(&self, processes: &[String]) -> bool {
        self.writer.as_ref().is_some_and(|writer| processes.contains(writer))
    }

    /// Returns this end without the entries of an epoch up to a number.
    pub fn behind(mut self, epoch: u64, number: u64) -> JournalEnd {
        if self.groups_epoch == epoch {
            self.numbers.retain(|next| *next > number);
        }
        self
    }

    /// Returns this end without the entries that were deleted since.
    pub fn with_entries_of(mut self, now: JournalEnd) -> JournalEnd {
        if now.groups_epoch == self.groups_epoch {
            self.numbers.retain(|number| now.numbers.contains(number));
        } else {
            // Another epoch has entries, or these were deleted. In both cases, the backup has their groups.
            self.numbers.clear();
        }
        self
    }

    /// Returns the runs of the entries in their order. The next entry must follow each one.
    pub fn runs<'a>(
        &'a self,
        place: &'a Place,
    ) -> impl Stream<Item = Result<(Vec<RunHeader>, Vec<Bytes>), BackupError>> + 'a {
        let epoch = self.groups_epoch;
        let read = move |number| async move {
            let name = Chain::Journal.name(epoch, number);
            let object = place.read(&name).await?.ok_or_else(|| missing(epoch, number))?;
            let known = Known::decode(&name, &object)?;
            let known = known.map_err(|_| BackupError::damaged(&*name, "it is too short"))?;
            let runs = known.payload(&object)?;
            Ok((known, runs))
        };
        // The first entry has nothing to be compared with: the one before it is deleted, or in another epoch.
        let mut previous: Option<String> = None;
        let entries = stream::iter(self.numbers.iter().copied().map(read)).buffered(READ_IN_FLIGHT);
        entries.map(move |entry: Result<(Known, Vec<Bytes>), BackupError>| {
            let (known, runs) = entry?;
            let before = previous.replace(known.digest());
            if before.is_some_and(|before| before != known.header.previous) && guard::is_made(Guard::Chain) {
                let name = known.header.name();
                return Err(BackupError::damaged(name, "it does not follow the entry before it"));
            }
            Ok((known.header.runs, runs))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_behind_a_missing_entry_does_not_count() {
        assert_eq!(last_consecutive(&[]), None);
        assert_eq!(last_consecutive(&[5, 6, 7]), Some(7));
        assert_eq!(last_consecutive(&[5, 6, 7, 9, 10]), Some(7));
        assert_eq!(last_consecutive(&[5, 7, 9]), Some(5));
        let late: Vec<u64> = [3].into_iter().chain(100..164).collect();
        assert_eq!(last_consecutive(&late), Some(163), "a fence at the place of a deleted entry");
        assert_eq!(consecutive_until(&late, 163), (100..164).collect::<Vec<_>>());
        assert_eq!(consecutive_until(&[5, 6, 7, 9, 10], 7), vec![5, 6, 7]);
    }
}
