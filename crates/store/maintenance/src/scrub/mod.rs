//! Verifies the log, the index, and the bodies of all objects, versions and kept versions. Discarded blobs and parts of
//! unfinished uploads are not read.

pub mod log;
pub mod objects;
pub mod pace;
pub mod progress;
mod rule;

use std::sync::Arc;

use plimsoll_base::clock::{SECOND, now_ns};

use self::objects::{ObjectScrub, Problem};
use self::pace::Pace;
pub use self::rule::ScrubRule;
use plimsoll_catalog::any::AnyCatalog;
use plimsoll_catalog::{Catalog, CatalogError};
use plimsoll_objects::Store;

/// Result of a verification.
#[derive(Debug, Default, serde::Serialize)]
pub struct Scrub {
    /// Number of objects and versions that are intact.
    pub objects: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// Damaged places in files, in use or not.
    pub damage: Vec<String>,
    /// Objects whose bytes are damaged.
    pub objects_damaged: Vec<FaultyObject>,
    /// Deleted and replaced objects that are kept, and whose bytes are damaged: `undelete` cannot return them.
    pub kept_damaged: Vec<FaultyObject>,
    /// Objects that are readable, and of which another copy is damaged or missing.
    pub copies_damaged: Vec<FaultyObject>,
    /// Objects that could not be verified, because a tier did not answer or is not in the settings.
    pub objects_unverified: Vec<FaultyObject>,
    /// Why the verification has ended before its end: the catalog could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<String>,
}

/// An object with a problem.
#[derive(Debug, serde::Serialize)]
pub struct FaultyObject {
    /// Name of the bucket.
    pub bucket: String,
    /// Key of the object.
    pub key: String,
    /// Id of the version.
    pub version: String,
    /// Property of the object that is wrong, or the reason why it is not known.
    pub problem: String,
}

impl Scrub {
    /// Adds the result of one object.
    fn add(&mut self, verified: objects::Verified) {
        let objects::Verified { bytes, problem, .. } = verified;
        match problem {
            None => {
                self.objects += 1;
                self.bytes += bytes;
            }
            Some((object, Problem::Damaged(_))) => self.objects_damaged.push(object),
            Some((object, Problem::Kept(_))) => self.kept_damaged.push(object),
            Some((object, Problem::Copy(_))) => self.copies_damaged.push(object),
            Some((object, Problem::Unverified(_) | Problem::Catalog(_))) => {
                self.objects_unverified.push(object)
            }
        }
    }

    /// Ends the verification with an error of the catalog.
    fn end_with(&mut self, error: &CatalogError) {
        if is_damage(error) {
            self.damage.push(error.to_string());
        } else {
            self.interrupted = Some(error.to_string());
        }
    }
}

/// Returns true if an error of the catalog means that bytes are wrong, and not that the catalog does not answer.
fn is_damage(error: &CatalogError) -> bool {
    matches!(error, CatalogError::Damaged { .. } | CatalogError::Changed)
}

/// Verifies the log, the index and the blobs, until `goes_on` returns false. With `is_served`, requests may change the
/// store during the verification.
pub async fn scrub(
    store: &Store<AnyCatalog>,
    is_served: bool,
    pace: &mut Pace,
    goes_on: &dyn Fn() -> bool,
) -> Scrub {
    let mut result = Scrub::default();
    let catalog: &Arc<AnyCatalog> = &store.catalog;
    if let Some(engine) = catalog.engine() {
        log::verify(engine, &mut result.damage);
    }
    if let Err(error) = verify_objects(store, is_served, pace, goes_on, &mut result).await {
        result.end_with(&error);
    }
    result
}

async fn verify_objects<C: Catalog>(
    store: &Store<C>,
    is_served: bool,
    pace: &mut Pace,
    goes_on: &dyn Fn() -> bool,
    result: &mut Scrub,
) -> Result<(), CatalogError> {
    let (mut objects, damage) = ObjectScrub::new(store, None)?;
    result.damage.extend(damage);
    let mut asked_ns = now_ns();
    while let Some(verified) = objects.next(store).await? {
        pace.wait(verified.bytes).await;
        result.add(verified);
        // Not after each object, because `goes_on` writes to the receiver of the output (gateway/cli/scrub.rs).
        if now_ns() - asked_ns >= SECOND {
            asked_ns = now_ns();
            if !goes_on() {
                return Ok(());
            }
        }
    }
    // Counts that change meanwhile cannot be compared.
    if !is_served && !store.catalog.is_shared() {
        result.damage.extend(objects.compare_counts(store)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: a leader that had lost its lease was "damaged places: 1".
    #[test]
    fn a_catalog_that_does_not_answer_is_not_damaged() {
        let mut result = Scrub::default();
        result.end_with(&CatalogError::Unavailable("another gateway may lead".into()));
        assert!(result.damage.is_empty());
        assert!(result.interrupted.is_some_and(|reason| reason.contains("another gateway may lead")));
        let mut result = Scrub::default();
        result.end_with(&CatalogError::Changed);
        assert_eq!((result.damage.len(), result.interrupted), (1, None));
    }
}
