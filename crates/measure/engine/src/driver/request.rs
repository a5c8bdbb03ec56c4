//! Builds the first request of an operation, and the response that it expects.

use super::Site;
use super::content::Content;
use super::retry::Expected;
use crate::store::integrity::cheapest;
use crate::store::{BodyChecksum, Request};
use plimsoll_workload::schedule::{Phase, Verify};
use plimsoll_workload::size::Size;
use plimsoll_workload::trace::UNKNOWN_SIZE;
use plimsoll_workload::{Dataset, Operation, OperationKind};

/// Buffers for keys, reused from operation to operation.
#[derive(Default)]
pub struct KeyBuffers {
    /// Key of the object, or prefix of a listing. Of a copy, this is the new object.
    pub key: String,
    /// Key of the object that is copied.
    pub source: String,
    /// Key after which a listing starts; empty for the first key.
    pub start_after: String,
}

/// Returns the checksum to send with uploads of a dataset; `None` for the checksum configured for the store.
pub fn upload_checksum_of(dataset: &Dataset, site: &Site) -> Option<BodyChecksum> {
    match dataset.upload.checksum.as_deref() {
        None => None,
        Some("auto") => site.store.profile().and_then(cheapest),
        Some(name) => BodyChecksum::from_name(name),
    }
}

/// Returns the first request of an operation and its expected response.
pub fn build<'a>(
    phase: &Phase,
    operation: &Operation,
    site: &Site,
    content: &Content,
    keys: &'a mut KeyBuffers,
) -> (Request<'a>, Expected) {
    let root = site.space.root();
    let dataset = phase.workload.dataset(operation.target);
    let mut expected = Expected::unknown();
    if operation.kind == OperationKind::List {
        // A listing starts at a random object, so that the listings of a large dataset differ.
        keys.start_after.clear();
        if dataset.count > 1000 && site.store.capabilities().start_after {
            dataset.key_into(&mut keys.start_after, root, operation.index);
        }
        keys.key = dataset.prefix(root);
        let (prefix, start_after) = (keys.key.as_str(), keys.start_after.as_str());
        return (Request::List { prefix, start_after, token: "", max_keys: 1000 }, expected);
    }
    let mut keyed = dataset;
    if operation.kind == OperationKind::Copy {
        dataset.key_into(&mut keys.source, root, operation.index);
        keyed = phase.workload.copies.as_ref().unwrap_or(dataset);
    }
    keyed.key_into(&mut keys.key, root, operation.index);
    let key = keys.key.as_str();
    // Objects that existed before the run can only be verified by their length and the store's checksum. The
    // length of encoded records is unknown, because an update may reduce a record to one field.
    let verify = phase.verify != Verify::Off;
    let compared = verify && dataset.existing.is_none() && dataset.encoding.is_none();
    let request = match operation.kind {
        OperationKind::Put | OperationKind::Update => {
            expected.upload_checksum = upload_checksum_of(dataset, site);
            Request::Put { key, body: content.body() }
        }
        OperationKind::Get | OperationKind::Scan | OperationKind::ReadModifyWrite => {
            let known = |bytes: &u64| *bytes != UNKNOWN_SIZE && dataset.encoding.is_none();
            expected.bytes = Some(content.total()).filter(known);
            expected.content = compared.then(|| content.clone());
            expected.verify_checksum = verify && dataset.existing.is_some();
            Request::Get { key, range: None }
        }
        // The read returns the content of the last successful write, of which only the length may be known.
        OperationKind::CompareAndSwap => {
            expected.bytes = Some(content.total()).filter(|_| matches!(dataset.size, Size::Fixed(_)));
            Request::Get { key, range: None }
        }
        OperationKind::GetRange => {
            let length = operation.length.min(content.total());
            expected.from = operation.range_start;
            expected.bytes = Some(length);
            expected.content = compared.then(|| content.clone());
            Request::Get { key, range: Some(operation.range_start..operation.range_start + length) }
        }
        OperationKind::Head => {
            expected.bytes = Some(content.total()).filter(|bytes| *bytes != UNKNOWN_SIZE);
            Request::Head { key }
        }
        OperationKind::Copy => Request::Copy { from: &keys.source, key },
        OperationKind::Delete | OperationKind::List => {
            let owned = site.space.own(key).expect("a phase deletes only keys in the key space of its run");
            Request::Delete { key: owned }
        }
    };
    (request, expected)
}
