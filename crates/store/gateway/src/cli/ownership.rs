//! Checks at the start of a command that the tiers belong to the catalog.

use futures_util::future::join_all;

use super::Exit;
use super::opened::Opened;
use super::place::StoreArguments;
use plimsoll_catalog::CatalogError;
use plimsoll_catalog::blocking::block_on;
use plimsoll_catalog::log::note;
use plimsoll_objects::owner::claim::{Claim, ClaimError, inspect, refused, take_free};
use plimsoll_objects::owner::{Identity, identify};

/// Treatment of a catalog that is older than its tiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Older {
    /// The command refuses it.
    Refused,
    /// The command uses it.
    Accepted,
}

/// Returns the advice for a tier that cannot be used.
pub fn advice(place: &StoreArguments, error: &ClaimError) -> String {
    let store = place.name();
    match error {
        ClaimError::Foreign { .. } => format!(
            "If the catalog was lost, restore its backup or run `plimsoll-gateway recover {store} --from-tiers`; else \
             use another bucket or prefix"
        ),
        ClaimError::Older { .. } | ClaimError::Copied { .. } => format!(
            "Objects that were written or moved since then may be missing: `plimsoll-gateway reconcile {store}` takes \
             them over; until then, `plimsoll-gateway run {store} --restored` serves without moves and deletions"
        ),
        ClaimError::Lost { .. } | ClaimError::Unknown { .. } => String::new(),
    }
}

/// Checks that all tiers belong to the catalog, and, with `takes_free`, records the catalog in tiers without an owner.
/// Returns the error for a tier that has seen a later state of the catalog. A tier that does not answer is reported,
/// and checked again before anything is moved or deleted.
///
/// # Errors
/// Exit code 3 if a tier belongs to another catalog, or has seen a later state and `older` refuses it.
pub fn check(
    place: &StoreArguments,
    opened: &Opened,
    older: Older,
    takes_free: bool,
) -> Result<Option<String>, Exit> {
    let identity = match block_on(identify(&*opened.catalog)) {
        Err(error @ CatalogError::Damaged { .. }) if older == Older::Accepted => {
            return Ok(Some(error.to_string()));
        }
        identity => identity.map_err(|e| place.fail(&e))?,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Exit::store)?;
    let tiers = opened.bodies.blobs.tiers();
    let claims = runtime.block_on(join_all(tiers.iter().map(|(_, tier)| inspect(tier, &identity))));
    let mut found = None;
    let mut free = Vec::new();
    for ((_, tier), claim) in tiers.iter().zip(claims) {
        match claim {
            Ok(Claim::Free) => free.push(tier),
            Ok(claim) => {
                let error = refused(tier, &identity, &claim);
                // Another gateway of the catalog may have begun since.
                let Some(error) = error.filter(|error| !error.is_outdated(&*opened.catalog)) else {
                    continue;
                };
                if matches!(claim, Claim::Foreign(_)) || older == Older::Refused {
                    return Err(place.fail(&format!("{error}. {}", advice(place, &error))));
                }
                found = Some(error.to_string());
            }
            Err(error) => note(&ClaimError::Unknown { tier: tier.name.clone(), error }.to_string()),
        }
    }
    // `run --restored` writes only to its own catalog.
    for tier in free.into_iter().filter(|_| takes_free) {
        match runtime.block_on(take_free(tier, &identity)) {
            Err(error @ ClaimError::Unknown { .. }) => note(&error.to_string()),
            Err(error) if error.is_outdated(&*opened.catalog) => {}
            taken => taken.map_err(|error| place.fail(&format!("{error}. {}", advice(place, &error))))?,
        }
    }
    Ok(found)
}

/// Checks that all listed tiers belong to a catalog, for a command that deletes what the catalog does not know.
///
/// # Errors
/// Exit code 3 if a tier has no record, or belongs to another catalog or to a later state of this one.
pub fn must_own(place: &StoreArguments, opened: &Opened, identity: Option<&Identity>) -> Result<(), Exit> {
    let Some(identity) = identity else {
        return Err(place.fail(&"the catalog has no id yet; start the gateway once"));
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Exit::store)?;
    let mut free = None;
    for (_, tier) in opened.bodies.blobs.tiers().iter() {
        let unknown = |error| ClaimError::Unknown { tier: tier.name.clone(), error };
        let claim = runtime.block_on(inspect(tier, identity)).map_err(|error| place.fail(&unknown(error)))?;
        let error = refused(tier, identity, &claim);
        if let Some(error) = error.filter(|error| !error.is_outdated(&*opened.catalog)) {
            return Err(place.fail(&format!("{error}. {}", advice(place, &error))));
        }
        free = free.or(matches!(claim, Claim::Free).then(|| tier.name.clone()));
    }
    match free {
        None => Ok(()),
        Some(name) => {
            Err(place.fail(&format!("tier {name} has no record of its owner; start the gateway once")))
        }
    }
}
