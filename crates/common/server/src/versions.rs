//! Rules of versions that all services share: what a write does to the versions of its key, what a delete may remove,
//! and what a read of a delete marker answers (S3 user guide, "Retaining multiple versions of objects with S3
//! Versioning").

use jiff::Timestamp;

use crate::conditions::{DeleteConditions, Existing};
use crate::error::{ApiError, ErrorCode};
use crate::service::Versioning;

/// Effect of a write, or of a delete without a version, on the other versions of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effect {
    /// True if the version `null` is removed although it is not the current one.
    pub removes_null: bool,
    /// True if the current version is removed, and false if it becomes noncurrent.
    pub replaces_current: bool,
    /// True if the new version is `null`, and false if it gets an id.
    pub is_null: bool,
}

/// Returns the effect of a write. `current_is_null` says whether the current version is `null`; `None` if the key has
/// no version.
pub fn of_write(versioning: Versioning, current_is_null: Option<bool>) -> Effect {
    let over_null = current_is_null == Some(true);
    Effect {
        removes_null: versioning == Versioning::Suspended && !over_null,
        replaces_current: versioning == Versioning::Off || (versioning == Versioning::Suspended && over_null),
        is_null: versioning != Versioning::Enabled,
    }
}

/// A version that a delete finds.
pub struct VersionToDelete<'a> {
    /// Entity tag and time of the version.
    pub existing: Existing<'a>,
    /// Size in bytes.
    pub size: u64,
    /// True for a delete marker.
    pub is_marker: bool,
}

/// Checks the conditions of a delete. A delete marker satisfies only `*`.
///
/// # Errors
/// Returns `PreconditionFailed`, or the error of the conditions.
pub fn check_delete(
    conditions: &DeleteConditions,
    found: Option<VersionToDelete<'_>>,
) -> Result<(), ApiError> {
    let needs_object = conditions.etag.as_deref().is_some_and(|etag| etag.trim() != "*")
        || conditions.modified.is_some()
        || conditions.size.is_some();
    if needs_object && found.as_ref().is_some_and(|found| found.is_marker) {
        return Err(ApiError::new(ErrorCode::PreconditionFailed));
    }
    conditions.check(found.map(|found| (found.existing, found.size)))
}

/// Returns the error for a read that finds a delete marker. `by_version` is true if the request names the version.
pub fn hidden(version: String, modified: Timestamp, by_version: bool) -> ApiError {
    let code = if by_version { ErrorCode::MethodNotAllowed } else { ErrorCode::NoSuchKey };
    ApiError::new(code).hidden_by(version, modified)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_keeps_versions_as_the_state_of_the_bucket_says() {
        let effect =
            |removes_null, replaces_current, is_null| Effect { removes_null, replaces_current, is_null };
        for (versioning, current_is_null, expected) in [
            (Versioning::Off, None, effect(false, true, true)),
            (Versioning::Off, Some(true), effect(false, true, true)),
            (Versioning::Enabled, None, effect(false, false, false)),
            (Versioning::Enabled, Some(true), effect(false, false, false)),
            (Versioning::Enabled, Some(false), effect(false, false, false)),
            (Versioning::Suspended, Some(true), effect(false, true, true)),
            (Versioning::Suspended, Some(false), effect(true, false, true)),
        ] {
            assert_eq!(of_write(versioning, current_is_null), expected, "{versioning:?} {current_is_null:?}");
        }
    }
}
