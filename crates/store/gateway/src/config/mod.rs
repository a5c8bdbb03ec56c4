//! The settings of a gateway over several tiers, from a TOML file.

mod backup;
mod credentials;
mod resolve;
mod tables;
pub mod what_if;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::Value;

pub use self::backup::BackupRule;
use self::resolve::resolve;
use self::tables::File;
use plimsoll_bodies::tier::TierTable;
use plimsoll_maintenance::mover::limits::DayLimits;

use plimsoll_bodies::cache::CacheSettings;
use plimsoll_catalog::postgres::Database;
use plimsoll_maintenance::mover::condition::Condition;
use plimsoll_maintenance::scrub::ScrubRule;

/// Place of the catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CatalogPlace {
    /// Directory of this machine, for one gateway.
    Directory(PathBuf),
    /// PostgreSQL database, for several gateways.
    Database(Box<Database>),
}

/// Time in milliseconds for which garbage is kept by default.
pub const RETAIN_MS: u64 = 7 * 86_400_000;

/// Maximum size in bytes of a body in the catalog.
pub const MAX_INLINE: u64 = 1 << 20;

/// Usual maximum size in bytes of a body in a catalog in a database, whose log and replicas have each body, too.
pub const DATABASE_INLINE: u64 = 16 << 10;

/// Rules of pack files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackRule {
    /// Name of the tier that receives small bodies.
    pub tier: String,
    /// Size in bytes of the largest body in a pack file.
    pub max_body: u64,
    /// Size in bytes at which a pack file is complete.
    pub file_size: u64,
    /// Age in milliseconds from which a body is packed.
    pub min_age_ms: u64,
    /// Age in milliseconds from which a body is packed even if its pack file stays smaller.
    pub max_wait_ms: u64,
    /// Days that a pack file is expected to stay, if writing it again without garbage must pay for itself in this time;
    /// `None` if it always does.
    pub payback_days: Option<u64>,
}

/// A rule that moves blobs.
#[derive(Debug, Clone, PartialEq)]
pub struct MoveRule {
    /// Name of the tier that blobs leave.
    pub from: String,
    /// Name of the tier that receives them.
    pub to: String,
    /// Condition as written, for messages.
    pub text: String,
    /// Condition on the object.
    pub when: Condition,
    /// Time for which the source stays and a move can be rolled back, in milliseconds.
    pub keep_source_ms: u64,
    /// Time for which a blob stays where it is before it moves again, in milliseconds.
    pub min_stay_ms: u64,
    /// Days that a blob is expected to stay in the destination, if moves must pay for themselves in this time; `None`
    /// if every move is wanted.
    pub payback_days: Option<u64>,
}

/// The settings of a gateway.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Place of the catalog.
    pub catalog: CatalogPlace,
    /// Backends by name.
    pub tiers: BTreeMap<String, TierTable>,
    /// Names of the tiers that a blob is written to before the write is acknowledged.
    pub write: Vec<String>,
    /// Name of the tier that replaces one of these while it does not answer; `None` if writes then fail.
    pub fallback: Option<String>,
    /// Largest body in bytes that stays in the catalog.
    pub inline: u64,
    /// Rules of moves; the first one that applies to a blob wins.
    pub moves: Vec<MoveRule>,
    /// Rules of pack files; `None` if small bodies stay where they are.
    pub pack: Option<PackRule>,
    /// Sizes of the cache.
    pub cache: CacheSettings,
    /// Price books that override the built-in ones.
    pub prices: Vec<PathBuf>,
    /// Limits of the cost of all moves of a day.
    pub budget: DayLimits,
    /// Time in milliseconds for which bytes are kept after they have become garbage.
    pub retain_ms: u64,
    /// Rule of the verification in the background; `None` for none.
    pub scrub: Option<ScrubRule>,
    /// Rule of the backup; `None` for none.
    pub backup: Option<BackupRule>,
}

impl Config {
    /// Returns the file with the counts of reads, beside the catalog; `None` if no rule needs them.
    pub fn reads_file(&self) -> Option<PathBuf> {
        let needs_reads = self.moves.iter().any(|rule| rule.when.needs_reads());
        match &self.catalog {
            CatalogPlace::Directory(directory) if needs_reads => Some(directory.join("reads")),
            _ => None,
        }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// A message with the name of the file and, for malformed TOML, the line.
    pub fn load(path: &Path) -> Result<Config, String> {
        let name = path.display();
        let text = std::fs::read_to_string(path).map_err(|e| format!("{name}: {e}"))?;
        Config::parse(&text).map_err(|(line, problem)| match line {
            Some(line) => format!("{name}:{line}: {problem}"),
            None => format!("{name}: {problem}"),
        })
    }

    /// Parses a file in which some values are replaced: `pack.file_size=128MiB`, `move.1.when=age > 30d`.
    /// Moves are counted from 1, as in messages.
    ///
    /// # Errors
    /// A message with the name of the file, or the change that is invalid.
    pub fn load_with(path: &Path, changes: &[String]) -> Result<Config, String> {
        let name = path.display();
        let text = std::fs::read_to_string(path).map_err(|e| format!("{name}: {e}"))?;
        // Errors of the file itself have their line.
        Config::load(path)?;
        let mut document: Value = toml::from_str(&text).map_err(|e| format!("{name}: {}", e.message()))?;
        for change in changes {
            apply(&mut document, change).map_err(|e| format!("--what-if {change}: {e}"))?;
        }
        let text = toml::to_string(&document).map_err(|e| e.to_string())?;
        Config::parse(&text).map_err(|(_, problem)| format!("--what-if {}: {problem}", changes.join(" ")))
    }

    /// Parses a file. An error has the line, if it is known, and the problem.
    fn parse(text: &str) -> Result<Config, (Option<usize>, String)> {
        let file: File = toml::from_str(text).map_err(|e| {
            let line = e.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
            let message = match e.message() {
                "invalid type: map, expected a sequence" => "write the rule as [[move]], with two brackets",
                other => other,
            };
            (line, message.to_string())
        })?;
        resolve(file).map_err(|problem| (None, problem))
    }

    /// Returns a warning if objects that the rules should move stay in the catalog: only `[pack]` moves small bodies.
    pub fn small_bodies_that_stay(&self) -> Option<String> {
        let stay = self.inline > 0 && self.pack.is_none() && !self.moves.is_empty();
        stay.then(|| {
            let inline = self.inline;
            format!(
                "objects of at most {inline} bytes stay in the catalog, whatever the rules of moves say: use [pack] \
                 to move them, or write.inline = \"0\""
            )
        })
    }
}

/// Replaces a value of a document.
fn apply(document: &mut Value, change: &str) -> Result<(), String> {
    const FORM: &str = "write NAME=VALUE, such as pack.file_size=128MiB or move.1.when=age > 30d";
    let (name, text) = change.split_once('=').ok_or(FORM)?;
    let keys: Vec<&str> = name.trim().split('.').collect();
    let (last, path) = keys.split_last().ok_or(FORM)?;
    let mut at = document;
    for (position, key) in path.iter().enumerate() {
        let is_list = keys[position + 1].parse::<usize>().is_ok();
        let next = match at {
            Value::Table(table) if is_list && !table.contains_key(*key) => {
                return Err(format!("the file has no [[{key}]]"));
            }
            Value::Table(table) => {
                Some(table.entry(key.to_string()).or_insert_with(|| Value::Table(Default::default())))
            }
            Value::Array(list) => {
                let (count, list_key) = (list.len(), keys[position.saturating_sub(1)]);
                let found = key.parse().ok().and_then(|number: usize| list.get_mut(number.checked_sub(1)?));
                Some(found.ok_or_else(|| {
                    format!("there is no {list_key} {key}; the file has {count}, counted from 1")
                })?)
            }
            _ => None,
        };
        at = next.ok_or_else(|| format!("there is no {key}"))?;
    }
    let parsed = toml::from_str::<toml::Table>(&format!("v = {text}")).ok();
    let value = parsed.and_then(|mut table| table.remove("v"));
    let value = value.unwrap_or_else(|| Value::String(text.trim().to_string()));
    match at {
        Value::Table(table) => {
            table.insert(last.to_string(), value);
            Ok(())
        }
        _ => Err(FORM.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
[catalog]
url = "dir:/var/lib/plimsoll"
[tier.hot]
url = "s3://hot"
[tier.cold]
url = "s3://cold"
access_key_env = "COLD_KEY"
secret_key_env = "COLD_SECRET"
[write]
tier = ["hot", "cold"]
inline = "4 KiB"
[[move]]
from = "hot"
to = "cold"
when = "age > 7d"
"#;

    #[test]
    fn a_file_is_read_with_its_defaults() {
        let config = Config::parse(GOOD).unwrap();
        assert_eq!(config.write, ["hot", "cold"]);
        assert_eq!((config.inline, config.moves[0].keep_source_ms), (4096, 86_400_000));
        let single = GOOD.replace("[\"hot\", \"cold\"]\ninline = \"4 KiB\"", "\"cold\"");
        let config = Config::parse(&single).unwrap();
        assert_eq!((config.write, config.inline), (vec!["cold".to_string()], 1 << 20));
    }

    #[test]
    fn values_of_a_file_are_replaced() {
        let mut document = toml::from_str(GOOD).unwrap();
        for change in
            ["pack.file_size=128MiB", "pack.tier=hot", "move.1.when=age > 30d", "write.tier=[\"hot\"]"]
        {
            apply(&mut document, change).unwrap();
        }
        let config = Config::parse(&toml::to_string(&document).unwrap()).unwrap();
        assert_eq!(config.pack.as_ref().map(|pack| pack.file_size), Some(128 << 20));
        assert_eq!((config.moves[0].text.as_str(), config.write.len()), ("age > 30d", 1));
        for (change, problem) in [
            ("pack", "write NAME=VALUE"),
            ("move.7.when=x", "there is no move 7; the file has"),
            ("move.0.when=x", "there is no move 0; the file has"),
            ("moves.1.when=x", "the file has no [[moves]]"),
            ("a.b.c.d", "write NAME"),
        ] {
            assert!(apply(&mut document, change).unwrap_err().contains(problem), "{change}");
        }
    }

    #[test]
    fn an_error_names_the_place() {
        for (from, to, line, problem) in [
            ("dir:/var/lib/plimsoll", "sqlite:x", None, "catalog.url: sqlite:x is not supported"),
            (
                "[\"hot\", \"cold\"]",
                "\"warm\"",
                None,
                "write.tier: there is no tier warm; the tiers are cold, hot",
            ),
            ("[\"hot\", \"cold\"]", "[]", None, "write.tier: name one tier"),
            (
                "inline",
                "fallback = \"cold\"\ninline",
                None,
                "write.fallback: name a tier that is not in write.tier",
            ),
            ("[\"hot\", \"cold\"]", "[\"hot\", \"hot\"]", None, "several different ones"),
            ("4 KiB", "2 MiB", None, "write.inline: at most 1 MiB"),
            ("4 KiB", "much", None, "write.inline: "),
            ("to = \"cold\"", "to = \"hot\"", None, "move 1: from and to are the same tier"),
            ("age > 7d", "age", None, "move 1, when: a comparison is missing"),
            ("secret_key_env = \"COLD_SECRET\"", "", None, "tier.cold: access_key_env and secret_key_env"),
            ("inline", "inlin", Some(12), "unknown field `inlin`"),
            ("url = \"s3://hot\"", "", Some(4), "missing field `url`"),
            ("[[move]]", "[move]", Some(13), "write the rule as [[move]], with two brackets"),
        ] {
            let (at, error) = Config::parse(&GOOD.replace(from, to)).unwrap_err();
            assert!(error.contains(problem) && at == line, "{to}: {at:?} {error}");
        }
    }

    #[test]
    fn the_defaults_of_the_documents_are_those_of_the_code() {
        let claims = plimsoll_testing::defaults::claims(include_str!("../../../../../docs/tiers.md"));
        let mut checked = 0;
        for claim in claims {
            // Without limits, and with a variable of the database's client: neither is a value of the setting.
            if claim.line.starts_with("[budget]") || claim.line.starts_with("password_env") {
                continue;
            }
            let (with, without) = (Config::parse(&claim.with), Config::parse(&claim.without));
            assert!(with.is_ok(), "{}: {with:?}", claim.line);
            assert_eq!(with, without, "{}", claim.line);
            checked += 1;
        }
        assert_eq!(checked, 14);
    }
}
