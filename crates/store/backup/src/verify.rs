//! Verifies a backup: reads every piece that the states of a window need.

use bytes::Bytes;

use super::bodies;
use super::error::BackupError;
use super::header::Header;
use super::history::History;
use super::place::Place;
use super::plan::{last_piece, needed, oldest, salt_of_runs, segments};
use super::restore::{groups_of, read_piece};
use super::rows::Rows;
use plimsoll_catalog::embedded::record::Salt;

/// Most problems that are named.
const MAX_PROBLEMS: usize = 100;

/// Result of a verification.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Verified {
    /// Pieces that were read.
    pub pieces: u64,
    /// Bytes of the log in them.
    pub log_bytes: u64,
    /// Groups in them.
    pub groups: u64,
    /// Bodies of directories that the newest state needs.
    pub bodies: u64,
    /// Time of the oldest state in Unix milliseconds; 0 if it is unknown.
    pub oldest_ms: u64,
    /// Time of the newest state in Unix milliseconds; 0 if it is unknown.
    pub newest_ms: u64,
    /// Missing and damaged objects and bytes.
    pub problems: Vec<String>,
}

impl Verified {
    fn problem(&mut self, error: &impl ToString) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(error.to_string());
        }
    }

    /// Checks the groups of a piece.
    fn check_groups(&mut self, header: &Header, runs: &[Bytes], salt: Salt, rows: &mut Rows) {
        for (run, bytes) in header.runs.iter().zip(runs) {
            let end = run.offset + run.bytes;
            let mut at = run.offset.max(plimsoll_catalog::embedded::segment::HEADER);
            let mut next = None;
            for group in groups_of(run.segment, run.offset, bytes, salt) {
                // The digest of a piece does not show this: the disk may have damaged the bytes before they were
                // shipped.
                if !group.is_intact() || next.is_some_and(|next| next != group.group.number) {
                    break;
                }
                self.groups += 1;
                (at, next) = (group.end(), Some(group.group.number + 1));
                rows.add(&group);
            }
            if at != end {
                let problem = format!("log segment {} is damaged at offset {at}", run.segment);
                self.problem(&BackupError::damaged(header.name(), problem));
            }
        }
    }
}

/// Reads everything that the states since a Unix time in milliseconds need; without a time, everything that the place
/// has.
///
/// # Errors
/// If the place fails, or there is no backup. Damage is in the result.
pub async fn verify(place: &Place, since_ms: Option<u64>) -> Result<Verified, BackupError> {
    // First, so that a missing file of keys is an error, and not damage of each object.
    place.catalog().await?.ok_or(BackupError::Missing)?;
    let mut found = Verified::default();
    let history = History::load(place).await?;
    let newest = last_piece(&history, None)?;
    found.newest_ms = history.pieces[newest].header.until_ms;
    let oldest_ms = oldest(&history).map_or(0, |known| known.header.least_ms);
    let since_ms = oldest_ms.max(since_ms.unwrap_or(0));
    // Behind groups that nobody followed, the time is unknown until the next one.
    found.oldest_ms = if found.newest_ms > 0 { since_ms.min(found.newest_ms) } else { since_ms };
    let wanted = match needed(&history, found.oldest_ms) {
        Ok(wanted) => wanted.pieces,
        Err(error) => {
            found.problem(&error);
            Default::default()
        }
    };
    if let Err(error) = segments(&history, newest) {
        found.problem(&error);
    }
    let (mut rows, mut salt) = (Rows::default(), None);
    for index in wanted {
        let header = &history.pieces[index].header;
        let runs = match read_piece(place, &history, index).await {
            Ok(runs) => runs,
            Err(error @ BackupError::Damaged { .. }) => {
                found.problem(&error);
                continue;
            }
            // A place that does not answer proves no damage.
            Err(error) => return Err(error),
        };
        found.pieces += 1;
        found.log_bytes += header.log_bytes();
        // A piece within a segment has no salt, and belongs to the log of the pieces before it.
        salt = salt_of_runs(&header.runs, &runs).or(salt);
        if let Some(salt) = salt {
            found.check_groups(header, &runs, salt, &mut rows);
        }
    }
    check_bodies(place, &rows, &mut found).await?;
    Ok(found)
}

/// Checks that the backup has the bodies of those tiers of which it has any.
async fn check_bodies(place: &Place, rows: &Rows, found: &mut Verified) -> Result<(), BackupError> {
    let stored = bodies::stored(place).await?;
    for head in rows.blobs.values() {
        for location in &head.locations {
            let Some(tier) = rows.tiers.get(&location.tier) else { continue };
            let prefix = bodies::name(tier, "");
            let has_tier =
                stored.range(prefix.clone()..).next().is_some_and(|(name, _)| name.starts_with(&prefix));
            let name = bodies::name(tier, location.path().as_ref());
            // Bodies of tiers in object stores are not in the backup, and nothing else says which tiers these are.
            if !has_tier {
                continue;
            }
            found.bodies += 1;
            if !stored.contains_key(&name) {
                found.problem(&BackupError::damaged(name, "it is missing"));
            }
        }
    }
    Ok(())
}
