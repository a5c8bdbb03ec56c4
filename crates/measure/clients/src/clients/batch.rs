//! The work of one turn: puts or gets of objects with the same keys for all clients; and its figures.

use serde::{Deserialize, Serialize};

use crate::sync::files::name;
use plimsoll_s3::credentials::Credentials;
use plimsoll_s3::endpoint::Style;
use plimsoll_s3::url::StoreUrl;
use plimsoll_session::RunError;
use plimsoll_session::open::Opened;

/// Name of the dataset, which is part of the keys.
pub const DATASET: &str = "clients";

/// Operation of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BatchOperation {
    /// Each object is written.
    Put,
    /// Each object is read.
    Get,
}

impl BatchOperation {
    /// Returns the name of the operation.
    pub fn name(self) -> &'static str {
        match self {
            BatchOperation::Put => "put",
            BatchOperation::Get => "get",
        }
    }
}

/// Operations on each of a number of objects, once.
#[derive(Debug, Clone, Copy)]
pub struct OperationBatch {
    /// Operation on each object.
    pub operation: BatchOperation,
    /// Number of objects.
    pub objects: u64,
    /// Size of each object in bytes.
    pub bytes: u64,
    /// Operations in flight.
    pub concurrency: usize,
    /// Seed of the contents that Plimsoll writes.
    pub seed: u64,
}

impl OperationBatch {
    /// Returns the names of the objects below their prefix.
    pub fn names(&self) -> impl Iterator<Item = String> {
        (0..self.objects).map(name)
    }
}

/// Figures of a batch.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Timed {
    /// Time from the first request to the last response in nanoseconds; of a tool, from its start to its end.
    pub wall_ns: u64,
    /// CPU time of the client in this time, in nanoseconds.
    pub cpu_ns: u64,
    /// Time of each operation in nanoseconds; empty if the client does not tell.
    #[serde(default)]
    pub latencies_ns: Vec<u64>,
}

/// Address and credentials of a bucket for other clients.
#[derive(Debug, Clone)]
pub struct Address {
    /// URL of the endpoint without the bucket, such as `http://127.0.0.1:9000`.
    pub endpoint: String,
    /// Name of the bucket.
    pub bucket: String,
    /// Region for signatures.
    pub region: String,
    /// True if the bucket is in the path of requests, false if it is in the host name.
    pub has_path_style: bool,
    /// Credentials of the store.
    pub credentials: Credentials,
}

impl Address {
    /// Returns the address of an open store.
    ///
    /// # Errors
    /// [`RunError::Input`] for stores that other S3 clients cannot use in the same way.
    pub fn of(opened: &Opened) -> Result<Address, RunError> {
        let refused = |why: &str| Err(RunError::input(format!("--store {}: {why}", opened.written)));
        let Some(StoreUrl::S3(url)) = &opened.url else {
            return refused("other clients need an S3 store, s3://BUCKET");
        };
        if url.profile.sessions {
            return refused("the clients do not all support directory buckets");
        }
        let Some(credentials) = &opened.credentials else {
            return refused("the clients need credentials; omit sign=off");
        };
        let endpoint = &url.endpoint;
        let whole = endpoint.url();
        let without_bucket = whole.replacen(&format!("://{}.", endpoint.bucket), "://", 1);
        let has_path_style = endpoint.style == Style::Path;
        Ok(Address {
            endpoint: if has_path_style { whole } else { without_bucket },
            bucket: endpoint.bucket.clone(),
            region: endpoint.region.clone(),
            has_path_style,
            credentials: (*credentials.current()).clone(),
        })
    }

    /// Returns the environment variables from which the clients take credentials and region.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        vec![
            ("AWS_ACCESS_KEY_ID", self.credentials.access_key.clone()),
            ("AWS_SECRET_ACCESS_KEY", self.credentials.secret_key().to_string()),
            ("AWS_SESSION_TOKEN", self.credentials.session_token.clone().unwrap_or_default()),
            ("AWS_REGION", self.region.clone()),
            ("AWS_DEFAULT_REGION", self.region.clone()),
            ("AWS_EC2_METADATA_DISABLED", "true".into()),
        ]
    }
}
