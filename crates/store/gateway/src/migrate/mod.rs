//! Copies a catalog from one engine to another while gateways use it.
//!
//! First, all rows are copied, and then those whose keys were changed meanwhile, again and again until they are few.
//! Then the source executes no further transaction, and the last changes are copied. The source is marked as moved
//! before the copy is marked as complete, so that never both can be used.

pub mod database;
pub mod directory;
pub mod rows;
pub mod target;

use std::collections::BTreeSet;

use plimsoll_base::clock::{SECOND, now_ns, sleep_until};

use self::rows::{Batches, RowSource, copy_keys};
use self::target::{CatalogCopy, Incomplete};
use plimsoll_catalog::CatalogError;
use plimsoll_catalog::any::AnyCatalog;

/// Keys that were changed.
pub type Keys = BTreeSet<Vec<u8>>;

/// Number of changed keys that are copied while nothing can be written.
const FEW: usize = 2000;
/// Number of rounds in which the changed keys must become few.
const ROUNDS: usize = 50;
/// Number of attempts to mark a catalog as moved that others use.
const ATTEMPTS: usize = 12;
/// Time between two of them.
const PAUSE_NS: u64 = 5 * SECOND;

/// Reason why a catalog was not moved.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// The catalog or its copy has failed.
    #[error("{0}")]
    Catalog(#[from] CatalogError),
    /// Gateways change it faster than it is copied.
    #[error(
        "it changes faster than it is copied: {0} keys changed while as many were copied; repeat this later"
    )]
    TooBusy(usize),
    /// There is something where the copy would be.
    #[error("{0}")]
    Occupied(String),
    /// Other users of the database do not let the table get another name.
    #[error(
        "others use the table of the catalog all the time; repeat this when no backup of the database is running"
    )]
    InUse,
    /// It is not known whether the catalog is marked as moved.
    #[error(
        "it is not known whether the catalog is still in use, and its copy is not: if no gateway can use it, {0}, and \
         repeat the command"
    )]
    Unmarked(&'static str),
    /// It is not known whether the copy is complete.
    #[error(
        "it is not known whether the copy is complete ({0}); the old catalog is not used any more. If the new place has \
         the catalog (a table plimsoll_catalog with rows, or the directory), use it; else {1}, and repeat the command"
    )]
    Undecided(CatalogError, &'static str),
}

/// Result of an attempt to mark a catalog as moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marked {
    /// No start uses the catalog any more.
    Moved,
    /// Others use the catalog at the moment. Transactions go on.
    Busy,
    /// The database does not say whether it is marked.
    Unknown,
}

impl From<std::io::Error> for MigrateError {
    fn from(error: std::io::Error) -> MigrateError {
        MigrateError::Catalog(error.into())
    }
}

impl From<Incomplete> for MigrateError {
    fn from(error: Incomplete) -> MigrateError {
        match error {
            Incomplete::Certainly(error) | Incomplete::Perhaps(error) => error.into(),
        }
    }
}

/// A catalog that can be moved.
pub trait Source {
    /// Begins to record the keys that are changed, and returns all rows.
    ///
    /// # Errors
    /// If the catalog fails.
    fn begin(&mut self) -> Result<Box<dyn RowSource + '_>, CatalogError>;

    /// Returns the keys that were changed since the last call. A change that is missing is returned by a later call.
    ///
    /// # Errors
    /// If the catalog fails.
    fn changed(&mut self) -> Result<Keys, CatalogError>;

    /// Ends all transactions, and returns the keys that were changed since the last call of [`Source::changed`]. `None`
    /// if some take too long; transactions then go on.
    ///
    /// # Errors
    /// If the catalog fails. Transactions may go on.
    fn close(&mut self) -> Result<Option<Keys>, CatalogError>;

    /// Marks the catalog as moved, durably. `to` is the place of the copy, for messages.
    ///
    /// # Errors
    /// If the catalog fails, and certainly is not marked; or if nobody knows.
    fn mark_moved(&mut self, to: &str) -> Result<Marked, CatalogError>;

    /// Removes the mark again.
    ///
    /// # Errors
    /// If the catalog fails.
    fn unmark(&mut self) -> Result<(), CatalogError>;

    /// Returns the way back to a catalog that is marked, for people.
    fn way_back(&self) -> &'static str;

    /// Returns the catalog for reads of single rows.
    fn catalog(&self) -> &AnyCatalog;
}

/// Result of a move.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Moved {
    /// Rows that were copied while transactions were executed.
    pub rows: u64,
    /// Keys that were changed meanwhile, and copied again.
    pub changed: u64,
    /// Keys that were copied while no transaction was executed.
    pub last: u64,
    /// Milliseconds in which no transaction was executed.
    pub pause_ms: u64,
}

/// Moves a catalog into a copy. `report` is called with the number of rows from time to time. `to` is the place of the
/// copy, for messages.
///
/// # Errors
/// If the catalog or the copy fails; the catalog then is as before, if the message does not say anything else.
pub fn migrate(
    source: &mut dyn Source,
    copy: Box<dyn CatalogCopy>,
    to: &str,
    report: &mut dyn FnMut(u64) -> Result<(), CatalogError>,
) -> Result<Moved, MigrateError> {
    let rows = copy_all(&mut *source.begin()?, &*copy, report)?;
    let mut moved = Moved { rows, ..Moved::default() };
    for _ in 0..ATTEMPTS {
        moved.changed += copy_changes(source, &*copy)?;
        let start_ms = plimsoll_catalog::ambient::steady_ms();
        let marked = match source.close()? {
            Some(last) => {
                moved.last = copy_keys(source.catalog(), &*copy, last.iter())?;
                // From here on, a start uses the copy or nothing.
                source.mark_moved(to)?
            }
            None => Marked::Busy,
        };
        match marked {
            Marked::Moved => {}
            Marked::Busy => {
                sleep_until(now_ns() + PAUSE_NS);
                continue;
            }
            Marked::Unknown => return Err(MigrateError::Unmarked(source.way_back())),
        }
        match copy.complete() {
            Ok(()) => {}
            Err(Incomplete::Certainly(error)) => {
                source.unmark().map_err(|second| MigrateError::Undecided(second, source.way_back()))?;
                return Err(error.into());
            }
            Err(Incomplete::Perhaps(error)) => return Err(MigrateError::Undecided(error, source.way_back())),
        }
        moved.pause_ms = plimsoll_catalog::ambient::steady_ms() - start_ms;
        return Ok(moved);
    }
    Err(MigrateError::InUse)
}

/// Copies the keys that have changed, until they are few. Returns their number.
fn copy_changes(source: &mut dyn Source, copy: &dyn CatalogCopy) -> Result<u64, MigrateError> {
    let mut changed = 0;
    for _ in 0..ROUNDS {
        let keys = source.changed()?;
        changed += copy_keys(source.catalog(), copy, keys.iter())?;
        if keys.len() <= FEW {
            return Ok(changed);
        }
    }
    Err(MigrateError::TooBusy(FEW))
}

/// Copies all rows. Returns their number.
///
/// # Errors
/// If the catalog or the copy fails.
pub fn copy_all(
    from: &mut dyn RowSource,
    to: &dyn CatalogCopy,
    report: &mut dyn FnMut(u64) -> Result<(), CatalogError>,
) -> Result<u64, CatalogError> {
    /// Number of rows between two reports.
    const REPORT: u64 = 100_000;
    let mut batches = Batches::new(to);
    let mut rows = 0;
    while let Some((key, value)) = from.next()? {
        batches.add(key, Some(value))?;
        rows += 1;
        if rows % REPORT == 0 {
            report(rows)?;
        }
    }
    batches.end().map(|()| rows)
}

#[cfg(test)]
mod tests;
