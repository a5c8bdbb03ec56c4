//! The tables of the settings file, as written.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use crate::tier::TierTable;

/// A file as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    pub catalog: CatalogTable,
    pub tier: BTreeMap<String, TierTable>,
    pub write: WriteTable,
    #[serde(default, rename = "move")]
    pub moves: Vec<MoveTable>,
    pub pack: Option<PackTable>,
    #[serde(default)]
    pub cache: CacheTable,
    #[serde(default)]
    pub prices: PricesTable,
    #[serde(default)]
    pub budget: BudgetTable,
    #[serde(default)]
    pub retain: RetainTable,
    pub scrub: Option<ScrubTable>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScrubTable {
    pub every: String,
    #[serde(default = "default_scrub_rate")]
    pub rate: String,
}

fn default_scrub_rate() -> String {
    "16 MiB".into()
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetainTable {
    #[serde(default = "default_retention")]
    pub deleted: String,
}

impl Default for RetainTable {
    fn default() -> RetainTable {
        RetainTable { deleted: default_retention() }
    }
}

fn default_retention() -> String {
    "7d".into()
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BudgetTable {
    pub bytes_per_day: Option<String>,
    pub requests_per_day: Option<u64>,
    pub dollars_per_day: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PricesTable {
    #[serde(default)]
    pub files: Vec<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogTable {
    pub url: String,
    pub password_env: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteTable {
    pub tier: OneOrMany,
    pub fallback: Option<String>,
    #[serde(default = "default_inline")]
    pub inline: String,
}

fn default_inline() -> String {
    "1 MiB".into()
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MoveTable {
    pub from: String,
    pub to: String,
    pub when: String,
    #[serde(default = "default_window")]
    pub keep_source: String,
    #[serde(default)]
    pub min_stay: Option<String>,
    #[serde(default)]
    pub only_if_cheaper: bool,
    #[serde(default = "default_payback_period")]
    pub payback_period: String,
}

/// Expected time that a body stays where a move puts it.
fn default_payback_period() -> String {
    "90d".into()
}

fn default_window() -> String {
    "24h".into()
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackTable {
    pub tier: String,
    #[serde(default = "default_max_body")]
    pub max_body: String,
    #[serde(default = "default_file_size")]
    pub file_size: String,
    #[serde(default = "default_min_age")]
    pub min_age: String,
    #[serde(default = "default_max_wait")]
    pub max_wait: String,
    #[serde(default)]
    pub only_if_cheaper: bool,
    #[serde(default = "default_payback_period")]
    pub payback_period: String,
}

fn default_max_body() -> String {
    "1 MiB".into()
}

fn default_file_size() -> String {
    "64 MiB".into()
}

fn default_min_age() -> String {
    "60s".into()
}

fn default_max_wait() -> String {
    "1h".into()
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheTable {
    pub memory: Option<String>,
    pub dir: Option<PathBuf>,
    pub size: Option<String>,
}
