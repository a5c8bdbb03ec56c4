//! Number of requests that a client sends for a batch, counted by a local endpoint that passes them on to the store.

use std::sync::Arc;

use super::batch::{Address, OperationBatch};
use super::{OtherClient, Turn};
use crate::meter::counter::Counter;
use crate::meter::endpoint::{Backend, Endpoint};
use crate::meter::upstream::Upstream;
use plimsoll_base::machine::usable_memory_bytes;
use plimsoll_s3::credentials::CredentialSource;
use plimsoll_session::RunError;
use plimsoll_session::open::{Named, open_as};

/// Executes a batch once more, through an endpoint that counts. Returns the number of requests by operation.
///
/// # Errors
/// Returns the errors of the client; [`RunError::Store`] if the endpoint cannot be started.
pub fn count(
    client: &OtherClient,
    batch: &OperationBatch,
    turn: &Turn<'_>,
) -> Result<Vec<(String, u64)>, RunError> {
    let counter = Arc::new(Counter::new(0, None));
    let limit = usable_memory_bytes().map_or(u64::MAX, |bytes| bytes / 2);
    let to = Arc::new(Upstream::whole(turn.store)?);
    let failed = |e: std::io::Error| RunError::store(format!("the counting endpoint failed: {e}"));
    let endpoint = Endpoint::start("127.0.0.1:0", Backend::Upstream { to, limit }, Arc::clone(&counter));
    let endpoint = endpoint.map_err(failed)?;
    let local = &endpoint.address;
    let address = Address {
        endpoint: local.url(),
        bucket: local.bucket.clone(),
        region: local.region.clone(),
        has_path_style: true,
        credentials: local.credentials.clone(),
    };
    let url = format!("s3://{}?endpoint={}&region={}", local.bucket, local.url(), local.region);
    let source = CredentialSource::fixed(local.credentials.clone());
    let store = open_as(&url, &Named::new(), None, Some(source))?;
    counter.open();
    let executed = client.execute(batch, &Turn { store: &store, address: &address, ..*turn });
    let counts = counter.counts();
    endpoint.stop().map_err(failed)?;
    executed?;
    let mut requests: Vec<(String, u64)> =
        counts.operations.iter().map(|(name, counted)| (name.clone(), counted.requests)).collect();
    if counts.refused > 0 {
        requests.push(("refused".into(), counts.refused));
    }
    Ok(requests)
}
