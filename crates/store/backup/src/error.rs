//! Reasons why a backup cannot be written or read.

use std::time::Duration;

use crate::age::AgeError;
use plimsoll_catalog::CatalogError;

/// Time that the place of a backup has to answer.
pub const WAIT: Duration = Duration::from_secs(120);

/// Reason why a backup cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The place of the backup has failed.
    #[error("the place of the backup: {0}")]
    Place(#[from] object_store::Error),
    /// The place of the backup does not answer.
    #[error("the place of the backup does not answer in {} s", WAIT.as_secs())]
    Silent,
    /// The catalog has failed.
    #[error("{0}")]
    Catalog(#[from] CatalogError),
    /// A file cannot be read or written.
    #[error("{0}")]
    File(#[from] std::io::Error),
    /// An object of the backup is not what was written.
    #[error("the object {object} of the backup is damaged: {problem}")]
    Damaged {
        /// Name of the object.
        object: String,
        /// Property that is wrong.
        problem: String,
    },
    /// The place has the backup of another catalog.
    #[error("the place has the backup of another catalog, {found}; this one is {own}; use another prefix")]
    Foreign {
        /// Id of the catalog in the place.
        found: String,
        /// Id of this catalog.
        own: String,
    },
    /// Another process has begun an epoch.
    #[error(
        "another gateway has continued this backup in epoch {0}; what this one writes is not in the backup"
    )]
    Fenced(u64),
    /// Another process leads.
    #[error("another gateway leads this catalog; stop it first, or wait for the end of its lease")]
    Led,
    /// The place replaces objects although it was asked to create them.
    #[error("the place of the backup replaces existing objects although it was asked not to (If-None-Match)")]
    Unconditional,
    /// The log has lost a part that is not in the backup yet, or does not fit the log in the place.
    #[error("the log does not have everything any more that the backup needs")]
    Gap,
    /// The objects are encrypted, and there are no keys.
    #[error("the backup is encrypted; name the file with its keys: backup.key_file, or --key-file")]
    Encrypted,
    /// The objects are not encrypted, and there are keys.
    #[error(
        "the backup in this place is not encrypted, but there is a file of keys; encryption begins in a new place: use \
         another prefix"
    )]
    NotEncrypted,
    /// The system cannot encrypt.
    #[error("{0}")]
    Age(#[from] AgeError),
    /// There is no backup.
    #[error("there is no backup of plimsoll-gateway in this place")]
    Missing,
    /// The backup does not have the state of a time.
    #[error("the backup has no state of that time; its oldest state is of {0}")]
    TooOld(String),
    /// The backup has no complete state yet.
    #[error("the backup has no complete state yet: the first copy of the log has not ended")]
    Incomplete,
}

impl BackupError {
    /// Returns the error for a damaged object.
    pub fn damaged(object: impl Into<String>, problem: impl Into<String>) -> BackupError {
        BackupError::Damaged { object: object.into(), problem: problem.into() }
    }
}
