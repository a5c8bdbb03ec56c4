//! The request of a standby that the gateway that leads ends.

use serde::{Deserialize, Serialize};

use crate::error::BackupError;
use crate::place::Place;

/// Name of the object.
const NAME: &str = "journal/promote.json";

#[derive(Debug, Serialize, Deserialize)]
struct Request {
    /// Epoch that ends.
    epoch: u64,
}

/// Asks the gateway that writes an epoch to end.
///
/// # Errors
/// If the place fails.
pub async fn ask(place: &Place, epoch: u64) -> Result<(), BackupError> {
    let text = serde_json::to_string(&Request { epoch }).unwrap_or_default() + "\n";
    // It is never deleted: a later epoch has another number, and does not obey it.
    place.put(NAME, text.into()).await
}

/// Returns the epoch that is to end; `None` without a request that can be read.
///
/// # Errors
/// If the place fails.
pub async fn epoch(place: &Place) -> Result<Option<u64>, BackupError> {
    let text = place.read_start(NAME, 4096).await?;
    // An object that is no request must not end a gateway that leads.
    Ok(text.and_then(|text| serde_json::from_slice::<Request>(&text).ok()).map(|request| request.epoch))
}
