//! Compares the record of a tier with the catalog.

use std::sync::atomic::Ordering;

use super::record::{Found, OwnerRecord, RecordError, read, write};
use super::{Identity, read as read_identity};
use plimsoll_bodies::tier::Tier;
use plimsoll_catalog::Catalog;
use plimsoll_catalog::ambient::wall_now;
use plimsoll_catalog::guard::{self, Guard};

/// Relation of a tier to a catalog.
#[derive(Debug)]
pub enum Claim {
    /// The tier has no record.
    Free,
    /// The tier belongs to the catalog, which is at the recorded position or behind it.
    Own(Found),
    /// The tier belongs to another catalog.
    Foreign(OwnerRecord),
    /// The tier belongs to the catalog, and has seen a later position of it.
    Newer(Found),
}

/// Compares a record with a catalog.
pub fn compare(found: Option<Found>, identity: &Identity) -> Claim {
    match found {
        None => Claim::Free,
        // Before the position: those of different catalogs cannot be compared.
        Some(found) if found.record.catalog != identity.text() => Claim::Foreign(found.record),
        Some(found) if found.record.position > identity.position => Claim::Newer(found),
        Some(found) => Claim::Own(found),
    }
}

/// Reads the record of a tier and compares it with a catalog.
///
/// # Errors
/// If the tier fails, or its record is unreadable.
pub async fn inspect(tier: &Tier, identity: &Identity) -> Result<Claim, RecordError> {
    let claim = compare(read(&*tier.uncounted()).await?, identity);
    // From now on, a missing record shows that the disk is another one (`Tier::has_lost_record`).
    if matches!(claim, Claim::Own(_)) {
        tier.has_record.store(true, Ordering::Relaxed);
    }
    Ok(claim)
}

/// Reason why a tier cannot be used with a catalog.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// The tier belongs to another catalog.
    #[error(
        "tier {tier} belongs to another catalog, {owner}, which has written to it until {written}; this one is {id}"
    )]
    Foreign {
        /// Name of the tier.
        tier: String,
        /// Id of its owner.
        owner: String,
        /// Time of the record.
        written: String,
        /// Id of the catalog.
        id: String,
    },
    /// The catalog is older than the tier.
    #[error(
        "this catalog is older than tier {tier}: it has reached position {position}, and the tier has seen position \
         {seen} at {written}"
    )]
    Older {
        /// Name of the tier.
        tier: String,
        /// Position of the catalog.
        position: u64,
        /// Position in the record.
        seen: u64,
        /// Time of the record.
        written: String,
    },
    /// A copy of the catalog uses the tier.
    #[error(
        "a copy of this catalog uses tier {tier}: another process has recorded position {position} at {written}"
    )]
    Copied {
        /// Name of the tier.
        tier: String,
        /// Position in the record.
        position: u64,
        /// Time of the record.
        written: String,
    },
    /// The record has disappeared.
    #[error(
        "tier {tier} has lost the record of its owner (plimsoll-owner.json): its disk is not mounted, or somebody has \
         replaced it"
    )]
    Lost {
        /// Name of the tier.
        tier: String,
    },
    /// The record cannot be read or written.
    #[error("the owner of tier {tier} is not known: {error}")]
    Unknown {
        /// Name of the tier.
        tier: String,
        /// Reason of the tier.
        error: RecordError,
    },
}

impl ClaimError {
    /// Returns true if a catalog has meanwhile reached the position that the tier has seen. The leader advances the
    /// catalog before its tiers, so a catalog that was read before the tier may look older, and one that is read after
    /// it does not.
    pub fn is_outdated(&self, catalog: &impl Catalog) -> bool {
        let ClaimError::Older { seen, .. } = self else { return false };
        read_identity(catalog).is_ok_and(|now| now.is_some_and(|now| now.position >= *seen))
    }
}

/// Returns the error for a tier that is foreign or newer.
pub fn refused(tier: &Tier, identity: &Identity, claim: &Claim) -> Option<ClaimError> {
    let tier = tier.name.clone();
    match claim {
        _ if !guard::is_made(Guard::Owner) => None,
        Claim::Free | Claim::Own(_) => None,
        Claim::Foreign(record) => Some(ClaimError::Foreign {
            tier,
            owner: record.catalog.clone(),
            written: record.written.clone(),
            id: identity.text(),
        }),
        Claim::Newer(Found { record, .. }) => Some(ClaimError::Older {
            tier,
            position: identity.position,
            seen: record.position,
            written: record.written.clone(),
        }),
    }
}

/// Records that a process, `writer`, has advanced a catalog to its position. `before` is the record at the position
/// before it.
///
/// # Errors
/// If another process has recorded the same position or a later one, or the record cannot be written.
pub async fn take(
    tier: &Tier,
    identity: &Identity,
    writer: &str,
    before: Option<&Found>,
) -> Result<(), ClaimError> {
    let unknown = |error| ClaimError::Unknown { tier: tier.name.clone(), error };
    let record = OwnerRecord::new(identity, &tier.name, writer, wall_now());
    let Err(error) = write(&*tier.uncounted(), &record, before).await else { return Ok(()) };
    // The outcome is unknown. The next announcement finds the record as it is.
    if !matches!(error, RecordError::Changed) {
        return Err(unknown(error));
    }
    // An earlier attempt may have succeeded without an answer.
    let claim = inspect(tier, identity).await.map_err(unknown)?;
    match &claim {
        // Copies of a catalog can reach the same position. Only the writer distinguishes them (docs/decisions/0040).
        Claim::Own(found) if found.record.position == identity.position => {
            if found.record.writer == writer {
                Ok(())
            } else {
                Err(copied(tier, &found.record))
            }
        }
        // A former leader of the same catalog was late.
        Claim::Own(found) => write(&*tier.uncounted(), &record, Some(found)).await.map_err(unknown),
        Claim::Free => write(&*tier.uncounted(), &record, None).await.map_err(unknown),
        _ => refused(tier, identity, &claim).map_or(Ok(()), Err),
    }
}

/// Returns the error for a record that another process has written, although this one is the only leader.
pub fn copied(tier: &Tier, record: &OwnerRecord) -> ClaimError {
    let (tier, position, written) = (tier.name.clone(), record.position, record.written.clone());
    ClaimError::Copied { tier, position, written }
}

/// Records a catalog as the owner of a tier that has no owner.
///
/// # Errors
/// As [`take`].
pub async fn take_free(tier: &Tier, identity: &Identity) -> Result<(), ClaimError> {
    match write(&*tier.uncounted(), &OwnerRecord::new(identity, &tier.name, "", wall_now()), None).await {
        Ok(()) => Ok(()),
        // Another start was faster.
        Err(RecordError::Changed) => {
            let unknown = |error| ClaimError::Unknown { tier: tier.name.clone(), error };
            let claim = inspect(tier, identity).await.map_err(unknown)?;
            refused(tier, identity, &claim).map_or(Ok(()), Err)
        }
        Err(error) => Err(ClaimError::Unknown { tier: tier.name.clone(), error }),
    }
}
