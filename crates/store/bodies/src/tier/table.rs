//! The settings of a tier, as written in the settings file.

use std::path::PathBuf;

use serde::Deserialize;

/// A backend, and where its credentials are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TierTable {
    /// URL of the store, as in `plimsoll --store`.
    pub url: String,
    /// Environment variable with the access key; without it, the standard variables of AWS.
    pub access_key_env: Option<String>,
    /// Environment variable with the secret key.
    pub secret_key_env: Option<String>,
    /// Environment variable with the session token.
    pub session_token_env: Option<String>,
    /// AWS shared credentials file with the keys, in place of variables; readable by its owner only.
    pub credentials_file: Option<PathBuf>,
    /// Profile in the file; default: `default`.
    pub profile: Option<String>,
    /// Longest time of a request to the tier, such as `30s`.
    #[serde(default = "default_timeout")]
    pub timeout: String,
    /// Offer of the price books by which the tier is billed: `NAME`, `NAME@REGION` or `none`. Default: the offer of the
    /// store's provider.
    pub offer: Option<String>,
    /// Storage class of the objects in this tier, as clients see it and may request it; default: `STANDARD`.
    pub storage_class: Option<String>,
    /// Other storage classes that lifecycle rules of buckets may name to move objects to this tier.
    #[serde(default)]
    pub lifecycle_classes: Vec<String>,
}

fn default_timeout() -> String {
    "60s".into()
}
