//! The backup of the catalog in the settings file.

use std::path::PathBuf;

use plimsoll_base::clock::SECOND;
use plimsoll_base::units::{parse_duration, parse_size};
use serde::Deserialize;

use super::CatalogPlace;
use super::credentials::check_credentials;
use plimsoll_bodies::tier::TierTable;
use plimsoll_maintenance::mover::condition::{parse_time_ms, show_time_ms};

/// Backup of a catalog in a directory; without this table, only `backup` makes one.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BackupTable {
    /// URL of the place, as in the settings of a tier. Another disk, or better another site, than that of the catalog.
    pub to: String,
    /// Time between two parts of the backup: so much can be lost with the disk.
    #[serde(default = "default_every")]
    pub every: String,
    /// Time for which each state can be restored; at most `retain.deleted`, which is the default.
    pub keep: Option<String>,
    /// Maximum number of bytes of the log that are sent per second.
    #[serde(default = "default_rate")]
    pub rate: String,
    /// Durability of acknowledged writes: `local`, on the disk of the catalog, or `tier`, in the place of the
    /// backup, so that the machine may be lost. With `tier`, only one gateway uses the catalog at a time.
    #[serde(default = "default_durability")]
    pub durability: String,
    /// Time after which another gateway may continue if this one does not write any more, such as `10s`. If the place
    /// does not answer for this time, nothing is read or written. Default: `10s` with `durability = "tier"`, else none:
    /// then no other gateway can continue by itself.
    pub lease: Option<String>,
    /// Time between two verifications of the backup, which read all of it, such as `7d`; `never` for none.
    #[serde(default = "default_verify")]
    pub verify: String,
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
    /// File of keys of age, as `age-keygen` writes it, with which the backup is encrypted; readable by its owner only.
    /// A restore needs it: keep a copy that is not on this machine. The first key encrypts, and each of them decrypts.
    pub key_file: Option<PathBuf>,
    /// Offer of the price books by which the place is billed: `NAME`, `NAME@REGION` or `none`.
    pub offer: Option<String>,
}

fn default_every() -> String {
    "10s".into()
}

fn default_durability() -> String {
    "local".into()
}

fn default_rate() -> String {
    "64 MiB".into()
}

fn default_verify() -> String {
    "7d".into()
}

/// Rule of the backup of the catalog.
#[derive(Debug, Clone, PartialEq)]
pub struct BackupRule {
    /// Place of the backup.
    pub place: TierTable,
    /// Milliseconds between two parts.
    pub every_ms: u64,
    /// Milliseconds for which states can be restored.
    pub keep_ms: u64,
    /// Maximum number of bytes of the log per second.
    pub bytes_per_s: u64,
    /// Milliseconds between two verifications; `None` for none.
    pub verify_every_ms: Option<u64>,
    /// Milliseconds of the lease; `None` without one.
    pub lease_ms: Option<u64>,
    /// True if each group is durable in the place before it is acknowledged.
    pub is_durable: bool,
    /// File of the keys that encrypt the backup; `None` if it is not encrypted.
    pub key_file: Option<PathBuf>,
}

impl BackupTable {
    /// Returns the lease of the journal in milliseconds, `None` without a journal; and true if each group is durable in
    /// the place.
    fn journal(&self) -> Result<(Option<u64>, bool), String> {
        const DEFAULT: &str = "10s";
        let is_durable = match self.durability.as_str() {
            "local" => false,
            "tier" => true,
            other => return Err(format!("backup.durability: {other}: use local or tier")),
        };
        let text = self.lease.as_deref().or(is_durable.then_some(DEFAULT));
        let Some(text) = text else { return Ok((None, false)) };
        let lease = parse_duration(text).map_err(|e| format!("backup.lease: {e}"))?;
        if !(SECOND..=600 * SECOND).contains(&lease) {
            return Err(format!("backup.lease: {text}: from 1s to 10m"));
        }
        if self.to.starts_with("file:") {
            return Err(format!(
                "backup.to: {}: a lease and durability = \"tier\" need an object store, which creates objects durably",
                self.to
            ));
        }
        Ok((Some(lease / 1_000_000), is_durable))
    }

    /// Returns the rule. `retain_ms` is the time for which garbage is kept.
    ///
    /// # Errors
    /// A message that names the setting.
    pub fn resolve(self, catalog: &CatalogPlace, retain_ms: u64) -> Result<BackupRule, String> {
        if matches!(catalog, CatalogPlace::Database(_)) {
            return Err("backup: the catalog is in a database; use `backup --to URL` at times, or its own backup and `backup --done`".into());
        }
        let every = parse_duration(&self.every).map_err(|e| format!("backup.every: {e}"))?;
        if !(SECOND..=3600 * SECOND).contains(&every) {
            return Err(format!("backup.every: {}: from 1s to 1h", self.every));
        }
        let keep = self.keep.as_deref().map_or(Ok(retain_ms), parse_time_ms);
        let keep_ms = keep.map_err(|e| format!("backup.keep: {e}"))?;
        if keep_ms > retain_ms {
            let (keep, retain) = (show_time_ms(keep_ms), show_time_ms(retain_ms));
            return Err(format!(
                "backup.keep: {keep} is longer than retain.deleted, {retain}: older states would need bytes that are \
                 deleted; set retain.deleted = \"{keep}\""
            ));
        }
        let bytes_per_s = parse_size(&self.rate).map_err(|e| format!("backup.rate: {e}"))?.max(1);
        let verify_every_ms = match self.verify.as_str() {
            "never" => None,
            text => Some(parse_time_ms(text).map_err(|e| format!("backup.verify: {e}; or never"))?),
        };
        let (lease_ms, is_durable) = self.journal()?;
        let place = TierTable {
            url: self.to,
            access_key_env: self.access_key_env,
            secret_key_env: self.secret_key_env,
            session_token_env: self.session_token_env,
            credentials_file: self.credentials_file,
            profile: self.profile,
            offer: self.offer,
            ..TierTable::default()
        };
        check_credentials(&place).map_err(|e| format!("backup: {e}"))?;
        let (every_ms, key_file) = (every / 1_000_000, self.key_file);
        Ok(BackupRule {
            place,
            every_ms,
            keep_ms,
            bytes_per_s,
            verify_every_ms,
            lease_ms,
            is_durable,
            key_file,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(text: &str) -> Result<BackupRule, String> {
        let table: BackupTable = toml::from_str(text).map_err(|e| e.message().to_string())?;
        table.resolve(&CatalogPlace::Directory("/catalog".into()), 7 * 86_400_000)
    }

    #[test]
    fn a_backup_needs_only_its_place() {
        let rule = resolve("to = 's3://backup/a'").unwrap();
        assert_eq!((rule.every_ms, rule.keep_ms), (10_000, 7 * 86_400_000));
        assert_eq!((rule.bytes_per_s, rule.verify_every_ms), (64 << 20, Some(7 * 86_400_000)));
        assert_eq!(resolve("to = 'file:///b'\nverify = 'never'").unwrap().verify_every_ms, None);
        assert_eq!(rule.lease_ms, None);
        let rule = resolve("to = 's3://b'\ndurability = 'tier'").unwrap();
        assert_eq!((rule.lease_ms, rule.is_durable), (Some(10_000), true));
        let rule = resolve("to = 's3://b'\nlease = '5s'").unwrap();
        assert_eq!((rule.lease_ms, rule.is_durable), (Some(5000), false));
        let error = resolve("to = 'file:///b'\ndurability = 'tier'").unwrap_err();
        assert!(error.contains("need an object store"), "{error}");
    }

    #[test]
    fn wrong_settings_are_named() {
        let wrong = [
            ("every = '1ms'", "backup.every: 1ms: from 1s to 1h"),
            ("every = 'soon'", "backup.every"),
            ("keep = '8d'", "set retain.deleted = \"8d\""),
            ("keep = 'x'", "backup.keep"),
            ("rate = 'fast'", "backup.rate"),
            ("verify = 'x'", "or never"),
            ("durability = 'x'", "backup.durability: x: use local or tier"),
            ("durability = 'tier'\nlease = '1ms'", "backup.lease: 1ms: from 1s to 10m"),
            ("access_key_env = 'A'", "secret_key_env"),
            ("x = 1", "unknown field"),
        ];
        for (line, problem) in wrong {
            let error = resolve(&format!("to = 's3://backup'\n{line}")).unwrap_err();
            assert!(error.contains(problem), "{line}: {error}");
        }
    }
}
