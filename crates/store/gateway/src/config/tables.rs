//! The tables of the settings file, as written.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use super::backup::BackupTable;
use plimsoll_bodies::tier::TierTable;

/// Settings of `plimsoll-gateway run FILE`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(title = "Settings"))]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Metadata of all objects, and small bodies.
    pub catalog: CatalogTable,
    /// Backends by name.
    pub tier: BTreeMap<String, TierTable>,
    /// Place of new bodies.
    pub write: WriteTable,
    /// Rules that move blobs between tiers; the first rule that applies to a blob wins.
    #[serde(default, rename = "move")]
    pub moves: Vec<MoveTable>,
    /// Rules of pack files; without this table, no body is packed.
    pub pack: Option<PackTable>,
    /// Cache of bodies in pack files.
    #[serde(default)]
    pub cache: CacheTable,
    /// Price books in addition to the built-in price books.
    #[serde(default)]
    pub prices: PricesTable,
    /// Limits of the moves of a day (UTC).
    #[serde(default)]
    pub budget: BudgetTable,
    /// Time for which garbage is kept.
    #[serde(default)]
    pub retain: RetainTable,
    /// Verification of all objects; without this table, only `scrub` verifies.
    pub scrub: Option<ScrubTable>,
    /// Backup of a catalog in a directory; without this table, only the command `backup` makes one.
    pub backup: Option<BackupTable>,
}

/// Verification of all objects.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ScrubTable {
    /// Time between two verifications of all objects, such as `30d`.
    pub every: String,
    /// Maximum number of bytes read per second.
    #[serde(default = "default_scrub_rate")]
    pub rate: String,
}

fn default_scrub_rate() -> String {
    "16 MiB".into()
}

/// Time for which garbage is kept.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RetainTable {
    /// Time for which deleted and replaced objects and other garbage are kept; `0s` keeps nothing.
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

/// Limits of the moves of a day (UTC).
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BudgetTable {
    /// Bytes of the bodies moved; without it, no limit.
    pub bytes_per_day: Option<String>,
    /// Requests to all tiers; without it, no limit.
    pub requests_per_day: Option<u64>,
    /// Cost at list prices, such as `10.00`; without it, no limit.
    pub dollars_per_day: Option<String>,
}

/// Price books in addition to the built-in price books.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PricesTable {
    /// Paths of files with price books.
    #[serde(default)]
    pub files: Vec<PathBuf>,
}

/// Place of the catalog.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CatalogTable {
    /// `dir:/PATH` on a local disk for one gateway, or `postgres://USER@HOST/DATABASE` for several.
    pub url: String,
    /// Environment variable with the password of the database; default: `PGPASSWORD`.
    pub password_env: Option<String>,
}

/// The name of a tier, or several names.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

/// Place of new bodies.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WriteTable {
    /// Tier, or list of tiers, that new blobs are written to; acknowledged after all of them.
    pub tier: OneOrMany,
    /// Tier that receives blobs while a tier of `tier` does not answer.
    pub fallback: Option<String>,
    /// Size of the largest body that the catalog stores; at most 1 MiB. Default: `1 MiB`, or `16 KiB` with a catalog in
    /// a database.
    pub inline: Option<String>,
}

/// A rule that moves blobs.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MoveTable {
    /// Tier that blobs leave.
    pub from: String,
    /// Tier that receives the blobs.
    pub to: String,
    /// Condition on `age`, `size`, `reads_per_day`, `bucket`, `prefix`, `suffix` and `tag.NAME`, such as
    /// `age > 7d and size >= 1 MiB`.
    pub when: String,
    /// Time for which the source stays after a move.
    #[serde(default = "default_window")]
    pub keep_source: String,
    /// Minimum time in a tier before the next move; default: none.
    #[serde(default)]
    pub min_stay: Option<String>,
    /// Moves only if the storage saved during `payback_period` is worth more than the move.
    #[serde(default)]
    pub only_if_cheaper: bool,
    /// Expected time in the destination.
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

/// Rules of pack files.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PackTable {
    /// Tier that receives the pack files.
    pub tier: String,
    /// Size of the largest body that is packed; at most 1 MiB.
    #[serde(default = "default_max_body")]
    pub max_body: String,
    /// Size at which a pack file is complete.
    #[serde(default = "default_file_size")]
    pub file_size: String,
    /// Minimum age before a body is packed.
    #[serde(default = "default_min_age")]
    pub min_age: String,
    /// Age from which a body is packed into a pack file that is not full.
    #[serde(default = "default_max_wait")]
    pub max_wait: String,
    /// Writes a pack file with garbage again only if the storage saved during `payback_period` is worth more than that.
    #[serde(default)]
    pub only_if_cheaper: bool,
    /// Expected time for which a pack file stays.
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

/// Cache of bodies in pack files.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CacheTable {
    /// Size of the cache in memory; default: 64 MiB.
    pub memory: Option<String>,
    /// Directory of the cache on a disk; requires `size`.
    pub dir: Option<PathBuf>,
    /// Size of the cache on the disk.
    pub size: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_schema_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../schema/gateway.schema.json");
        let current = serde_json::to_string_pretty(&schemars::schema_for!(File)).unwrap() + "\n";
        if std::env::var_os("UPDATE_SCHEMA").is_some() {
            std::fs::write(path, &current).unwrap();
        }
        let published = std::fs::read_to_string(path).unwrap_or_default();
        assert!(published == current, "run `make schema` and commit gateway.schema.json");
    }
}
