//! The record of a tier's owner: a small JSON object beside the blobs.

use std::time::Duration;

use jiff::Timestamp;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, PutPayload, UpdateVersion};
use serde::{Deserialize, Serialize};

use super::Identity;
use plimsoll_catalog::ambient;

/// Name of the record in its tier.
pub use plimsoll_bodies::tier::OWNER_RECORD as NAME;
/// Maximum length of a record in bytes.
const MAX_BYTES: u64 = 64 * 1024;
/// Time that a tier has to answer.
const WAIT: Duration = Duration::from_secs(20);

/// Record of a tier about its owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerRecord {
    /// Id of the catalog, in hexadecimal digits.
    pub catalog: String,
    /// Position of the catalog.
    pub position: u64,
    /// Random id of the process that has written the record; empty if that was a start.
    #[serde(default)]
    pub writer: String,
    /// Name of the tier in the settings; `None` in a record of an older version. It tells swapped URLs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    /// Time of the record, such as `2026-01-02T03:04:05Z`.
    pub written: String,
}

impl OwnerRecord {
    /// Creates the record of a catalog for a tier at a time.
    pub fn new(identity: &Identity, tier: &str, writer: &str, written: Timestamp) -> OwnerRecord {
        let (catalog, position) = (identity.text(), identity.position);
        let seconds = Timestamp::from_second(written.as_second()).unwrap_or(written);
        let (tier, writer) = (Some(tier.to_string()), writer.to_string());
        OwnerRecord { catalog, position, writer, tier, written: seconds.to_string() }
    }
}

/// A record as found in a tier.
#[derive(Debug, Clone)]
pub struct Found {
    /// Content of the object.
    pub record: OwnerRecord,
    /// State of its object, for a conditional write.
    version: UpdateVersion,
}

/// Reason why a record cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The tier has failed.
    #[error("{0}")]
    Tier(#[from] Error),
    /// The tier does not answer.
    #[error("no answer in {} s", WAIT.as_secs())]
    Silent,
    /// The object is not a record.
    #[error("its object {0} is not a record of plimsoll-gateway; move it away")]
    Unknown(&'static str),
    /// The record has changed since it was read.
    #[error("its object {NAME} has changed meanwhile")]
    Changed,
}

/// Waits for an answer of a tier.
pub(super) async fn in_time<T>(request: impl Future<Output = Result<T, Error>>) -> Result<T, RecordError> {
    Ok(ambient::in_time(WAIT, request).await.ok_or(RecordError::Silent)??)
}

/// Reads the record of a tier; `None` if it has none.
///
/// # Errors
/// If the tier fails, or the object is not a record.
pub async fn read(store: &dyn ObjectStore) -> Result<Option<Found>, RecordError> {
    let result = match in_time(store.get(&Path::from(NAME))).await {
        Err(RecordError::Tier(Error::NotFound { .. })) => return Ok(None),
        result => result?,
    };
    // A foreign object with this name may have any size, and is not loaded.
    if result.meta.size > MAX_BYTES {
        return Err(RecordError::Unknown(NAME));
    }
    let version = UpdateVersion { e_tag: result.meta.e_tag.clone(), version: result.meta.version.clone() };
    let bytes = in_time(result.bytes()).await?;
    let record = serde_json::from_slice(&bytes).map_err(|_| RecordError::Unknown(NAME))?;
    Ok(Some(Found { record, version }))
}

/// Returns the Unix time in milliseconds at which a tier says that its record was written; `None` if it has none.
///
/// # Errors
/// If the tier fails.
pub async fn written_ms(store: &dyn ObjectStore) -> Result<Option<u64>, RecordError> {
    match in_time(store.head(&Path::from(NAME))).await {
        Err(RecordError::Tier(Error::NotFound { .. })) => Ok(None),
        meta => Ok(u64::try_from(meta?.last_modified.timestamp_millis()).ok()),
    }
}

/// Returns true if a tier has no conditional writes.
fn lacks_conditions(error: &Error) -> bool {
    match error {
        Error::NotImplemented { .. } | Error::NotSupported { .. } => true,
        // The client keeps the answer of a server only as text.
        Error::Generic { .. } => error.to_string().contains("501 Not Implemented"),
        _ => false,
    }
}

/// Writes the record of a tier if it is still as it was found. A tier without conditional writes does not check this.
///
/// # Errors
/// If the tier fails, or the record has changed.
pub async fn write(
    store: &dyn ObjectStore,
    record: &OwnerRecord,
    before: Option<&Found>,
) -> Result<(), RecordError> {
    let text = serde_json::to_string_pretty(record).map_err(|_| RecordError::Unknown(NAME))? + "\n";
    let (path, payload) = (Path::from(NAME), PutPayload::from(text));
    // Of two processes that have read the same record, at most one may replace it.
    let mode = before.map_or(PutMode::Create, |found| PutMode::Update(found.version.clone()));
    match in_time(store.put_opts(&path, payload.clone(), mode.into())).await {
        Err(RecordError::Tier(error)) if lacks_conditions(&error) => {
            in_time(store.put(&path, payload)).await.map(|_| ())
        }
        Err(RecordError::Tier(Error::AlreadyExists { .. } | Error::Precondition { .. })) => {
            Err(RecordError::Changed)
        }
        written => written.map(|_| ()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::local::LocalFileSystem;
    use object_store::memory::InMemory;
    use plimsoll_testing::directory::TempDir;
    use std::sync::Arc;

    #[tokio::test]
    async fn a_record_is_created_once_and_replaced_only_as_it_was_read() {
        let dir = TempDir::new("owner-record");
        let local = LocalFileSystem::new_with_prefix(dir.path()).unwrap();
        let stores: [(Arc<dyn ObjectStore>, bool); 2] =
            [(Arc::new(InMemory::new()), true), (Arc::new(local), false)];
        for (store, is_conditional) in stores {
            let record = |position| {
                let identity = Identity { id: [7; 16], position, at_ms: 0 };
                OwnerRecord::new(&identity, "hot", "", Timestamp::from_second(1_790_000_000).unwrap())
            };
            assert!(read(&*store).await.unwrap().is_none());
            write(&*store, &record(1), None).await.unwrap();
            let other = write(&*store, &record(2), None).await;
            assert!(matches!(other, Err(RecordError::Changed)), "{other:?}");
            let found = read(&*store).await.unwrap().unwrap();
            assert_eq!(found.record, record(1));
            write(&*store, &record(3), Some(&found)).await.unwrap();
            let late = write(&*store, &record(4), Some(&found)).await;
            assert_eq!(late.is_err(), is_conditional);
        }
    }

    #[tokio::test]
    async fn an_object_that_is_no_record_stays() {
        let store = InMemory::new();
        for foreign in ["hello".to_string(), "[1]".into(), " ".repeat(100_000)] {
            store.put(&Path::from(NAME), foreign.into()).await.unwrap();
            assert!(matches!(read(&store).await, Err(RecordError::Unknown(_))));
        }
    }
}
