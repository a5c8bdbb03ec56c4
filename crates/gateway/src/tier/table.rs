//! The settings of a tier, as written in the settings file.

use std::path::PathBuf;

use serde::Deserialize;

/// A backend, and where its credentials are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TierTable {
    /// URL of the store, as in `plimsoll --store`.
    pub url: String,
    /// Environment variable with the access key; `None` for the standard variables.
    pub access_key_env: Option<String>,
    /// Environment variable with the secret key.
    pub secret_key_env: Option<String>,
    /// Environment variable with the session token.
    pub session_token_env: Option<String>,
    /// AWS shared credentials file with the keys, readable by its owner only; `None` for the variables.
    pub credentials_file: Option<PathBuf>,
    /// Profile in the file; `None` for `default`.
    pub profile: Option<String>,
    /// Longest time of a request to the tier, such as `30s`; empty for a minute.
    #[serde(default = "default_timeout")]
    pub timeout: String,
    /// Offer of the price books by which the tier is billed, `NAME` or `NAME@REGION`, or `none`. `None` for the offer
    /// of the store's provider.
    pub offer: Option<String>,
    /// Storage class of the objects in this tier, as clients see it and may request it; `None` for the default class.
    pub storage_class: Option<String>,
    /// Other storage classes that lifecycle rules of buckets may name to move objects to this tier.
    #[serde(default)]
    pub lifecycle_classes: Vec<String>,
}

fn default_timeout() -> String {
    "60s".into()
}
