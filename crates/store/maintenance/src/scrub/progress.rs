//! Progress of the verification in the background, and the result of the last one: a row of the catalog.

use serde::{Deserialize, Serialize};

use plimsoll_catalog::{Catalog, CatalogError, Transaction, Value, unless_in_doubt};
use plimsoll_objects::keys;

/// State of the verification in the background.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// The verification that has begun and not ended; `None` if there is none.
    pub current: Option<Current>,
    /// The last one that has ended; `None` before the first one.
    pub last: Option<Finished>,
}

/// A verification that has not ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Current {
    /// Start in Unix milliseconds.
    pub began_ms: u64,
    /// Key of the catalog behind which it continues.
    pub after: Vec<u8>,
    /// Results so far.
    pub counts: Counts,
}

/// A verification that has ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finished {
    /// Start in Unix milliseconds.
    pub began_ms: u64,
    /// End in Unix milliseconds.
    pub ended_ms: u64,
    /// Results of all its objects.
    pub counts: Counts,
}

/// Results of a verification.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Objects and versions that are intact.
    pub objects: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// Objects whose bytes are damaged.
    pub damaged: u64,
    /// Deleted and replaced objects that are kept, and whose bytes are damaged.
    #[serde(default)]
    pub kept: u64,
    /// Objects that are readable, and of which another copy is damaged or missing.
    #[serde(default)]
    pub copies: u64,
    /// Objects that could not be verified, because a tier did not answer or is not in the settings.
    pub unverified: u64,
}

/// Reads the state. A damaged row counts as none: the verification begins again.
///
/// # Errors
/// If the catalog cannot be read.
pub fn load(catalog: &impl Catalog) -> Result<Progress, CatalogError> {
    let Some(row) = unless_in_doubt(catalog.get(keys::SCRUB))? else { return Ok(Progress::default()) };
    let value = unless_in_doubt(catalog.properties(keys::SCRUB, &row).map(Some))?;
    Ok(value.and_then(|value| serde_json::from_slice(&value).ok()).unwrap_or_default())
}

/// Writes the state in a transaction.
pub fn store(t: &mut dyn Transaction, progress: &Progress) {
    // Numbers and lists can always be encoded. `load` would take an empty text for no progress.
    let properties = serde_json::to_vec(progress).unwrap_or_default().into();
    t.put(keys::SCRUB.to_vec(), Value { properties, ..Value::default() });
}
