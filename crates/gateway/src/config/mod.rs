//! The settings of a gateway over several tiers, from a TOML file.

mod tables;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use plimsoll_base::units::parse_size;
use plimsoll_cost::money::Usd;
use toml::Value;

use self::tables::{
    BudgetTable, CacheTable, CatalogTable, File, MoveTable, OneOrMany, PackTable, ScrubTable,
};
use crate::tier::TierTable;

use crate::background::scrubbing::ScrubRule;
use crate::body::cache::CacheSettings;
use crate::catalog::postgres::Database;
use crate::mover::condition::{Condition, parse_time_ms};

/// Largest body in a pack file in bytes. It is read with one request, and is in memory as a whole.
const MAX_SLICE: u64 = 1 << 20;
/// Smallest cache on a disk in bytes.
const MIN_DISK_CACHE: u64 = 64 << 20;

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

/// Limits of the cost of all moves of a day (UTC); `None` for no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DayLimits {
    /// Bytes of bodies.
    pub bytes: Option<u64>,
    /// Requests to all tiers.
    pub requests: Option<u64>,
    /// Cost at list prices.
    pub usd: Option<Usd>,
}

impl DayLimits {
    /// Returns true if there is no limit.
    pub fn is_empty(&self) -> bool {
        *self == DayLimits::default()
    }
}

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
            (line, e.message().to_string())
        })?;
        resolve(file).map_err(|problem| (None, problem))
    }
}

/// Replaces a value of a document.
fn apply(document: &mut Value, change: &str) -> Result<(), String> {
    const FORM: &str = "write NAME=VALUE, such as pack.file_size=128MiB or move.1.when=age > 30d";
    let (name, text) = change.split_once('=').ok_or(FORM)?;
    let keys: Vec<&str> = name.trim().split('.').collect();
    let (last, path) = keys.split_last().ok_or(FORM)?;
    let mut at = document;
    for key in path {
        let next = match at {
            Value::Table(table) => {
                Some(table.entry(key.to_string()).or_insert_with(|| Value::Table(Default::default())))
            }
            Value::Array(list) => {
                key.parse().ok().and_then(|number: usize| list.get_mut(number.checked_sub(1)?))
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

fn resolve(file: File) -> Result<Config, String> {
    let catalog = catalog(&file.catalog)?;
    let check = |place: &str, name: &String| {
        if file.tier.contains_key(name) {
            return Ok(());
        }
        let known: Vec<&str> = file.tier.keys().map(String::as_str).collect();
        Err(format!("{place}: there is no tier {name}; the tiers are {}", known.join(", ")))
    };
    for (name, tier) in &file.tier {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || name.len() > 64 || !name.chars().all(is_name) {
            return Err(format!("tier.{name}: a name has 1 to 64 letters, digits, - and _"));
        }
        check_classes(name, tier, &file.tier)?;
        check_credentials(tier).map_err(|e| format!("tier.{name}: {e}"))?;
    }
    let write = match file.write.tier {
        OneOrMany::One(name) => vec![name],
        OneOrMany::Many(names) => names,
    };
    write.iter().try_for_each(|name| check("write.tier", name))?;
    let is_repeated = write.iter().enumerate().any(|(index, name)| write[..index].contains(name));
    if write.is_empty() || is_repeated {
        return Err("write.tier: name one tier, or several different ones".into());
    }
    let fallback = file.write.fallback;
    if let Some(name) = &fallback {
        check("write.fallback", name)?;
        if write == [name.clone()] {
            return Err("write.fallback: name another tier than write.tier".into());
        }
    }
    let inline = parse_size(&file.write.inline).map_err(|e| format!("write.inline: {e}"))?;
    if inline > MAX_INLINE {
        return Err("write.inline: at most 1 MiB".into());
    }
    let moves = file.moves.into_iter().enumerate();
    let moves = moves.map(|(index, rule)| move_rule(index, rule, &check)).collect::<Result<Vec<_>, _>>()?;
    if let Some(pack) = &file.pack {
        check("pack.tier", &pack.tier)?;
    }
    let pack = file.pack.map(pack).transpose()?;
    let cache = cache(file.cache)?;
    let (prices, budget) = (file.prices.files, budget(&file.budget)?);
    let tiers = file.tier;
    let needs_reads = moves.iter().any(|rule| rule.when.needs_reads());
    if needs_reads && matches!(catalog, CatalogPlace::Database(_)) {
        return Err("reads_per_day needs a catalog in a directory".into());
    }
    let retain_ms = parse_time_ms(&file.retain.deleted).map_err(|e| format!("retain.deleted: {e}"))?;
    let scrub = file.scrub.map(scrub).transpose()?;
    Ok(Config {
        catalog,
        tiers,
        write,
        fallback,
        inline,
        moves,
        pack,
        cache,
        prices,
        budget,
        retain_ms,
        scrub,
    })
}

impl Config {
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

/// Returns a rule of moves. `check` returns an error if there is no tier with a name.
fn move_rule(
    index: usize,
    rule: MoveTable,
    check: &dyn Fn(&str, &String) -> Result<(), String>,
) -> Result<MoveRule, String> {
    let place = format!("move {}", index + 1);
    check(&format!("{place}, from"), &rule.from)?;
    check(&format!("{place}, to"), &rule.to)?;
    if rule.from == rule.to {
        return Err(format!("{place}: from and to are the same tier"));
    }
    let when = Condition::parse(&rule.when).map_err(|e| format!("{place}, when: {e}"))?;
    let keep_source_ms =
        parse_time_ms(&rule.keep_source).map_err(|e| format!("{place}, keep_source: {e}"))?;
    let payback_days = payback_days(&place, rule.only_if_cheaper, &rule.payback_period)?;
    let min_stay_ms = rule.min_stay.as_ref().map_or(Ok(0), |text| parse_time_ms(text));
    let min_stay_ms = min_stay_ms.map_err(|e| format!("{place}, min_stay: {e}"))?;
    let MoveTable { from, to, when: text, .. } = rule;
    Ok(MoveRule { from, to, text, when, keep_source_ms, min_stay_ms, payback_days })
}

/// Returns an error if a storage class of a tier also belongs to another one, or is not the name of a class.
fn check_classes(name: &str, tier: &TierTable, all: &BTreeMap<String, TierTable>) -> Result<(), String> {
    let is_name = |class: &str| {
        (1..=64).contains(&class.len())
            && class.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
    };
    let fields = tier.lifecycle_classes.iter().map(|class| ("lifecycle_classes", class));
    for (field, class) in fields.chain(tier.storage_class.iter().map(|class| ("storage_class", class))) {
        if !is_name(class) {
            return Err(format!("tier.{name}: {field}: '{class}': use capitals, digits and _"));
        }
        let mut others = all.iter().filter(|(other, _)| *other != name);
        let has_it = |other: &TierTable| {
            other.lifecycle_classes.contains(class) || other.storage_class.as_ref() == Some(class)
        };
        if others.any(|(_, other)| has_it(other)) {
            return Err(format!("tier.{name}: {field}: '{class}' must belong to one tier"));
        }
    }
    Ok(())
}

/// Returns an error if the places of a tier's credentials contradict each other.
fn check_credentials(tier: &TierTable) -> Result<(), &'static str> {
    if tier.access_key_env.is_some() != tier.secret_key_env.is_some() {
        return Err("access_key_env and secret_key_env belong together");
    }
    if tier.access_key_env.is_some() && tier.credentials_file.is_some() {
        return Err("use access_key_env or credentials_file, not both");
    }
    if tier.profile.is_some() && tier.credentials_file.is_none() {
        return Err("profile needs credentials_file");
    }
    Ok(())
}

/// Returns the expected stay in days if moves must pay for themselves.
fn payback_days(place: &str, only_if_cheaper: bool, text: &str) -> Result<Option<u64>, String> {
    /// Milliseconds of a day.
    const DAY_MS: u64 = 86_400_000;
    let ms = parse_time_ms(text).map_err(|e| format!("{place}, payback_period: {e}"))?;
    if ms < DAY_MS {
        return Err(format!("{place}, payback_period: at least 1d"));
    }
    Ok(only_if_cheaper.then_some(ms / DAY_MS))
}

fn size(name: &str, text: &str) -> Result<u64, String> {
    parse_size(text).map_err(|e| format!("{name}: {e}"))
}

fn scrub(table: ScrubTable) -> Result<ScrubRule, String> {
    let every_ms = parse_time_ms(&table.every).map_err(|e| format!("scrub.every: {e}"))?;
    let bytes_per_s = size("scrub.rate", &table.rate)?;
    match (every_ms, bytes_per_s) {
        (0, _) => Err("scrub.every: write a time such as 30d".into()),
        (_, 0) => Err("scrub.rate: at least 1 byte per second".into()),
        _ => Ok(ScrubRule { every_ms, bytes_per_s }),
    }
}

fn pack(table: PackTable) -> Result<PackRule, String> {
    let time = |name: &str, text: &str| parse_time_ms(text).map_err(|e| format!("{name}: {e}"));
    let rule = PackRule {
        max_body: size("pack.max_body", &table.max_body)?,
        file_size: size("pack.file_size", &table.file_size)?,
        min_age_ms: time("pack.min_age", &table.min_age)?,
        max_wait_ms: time("pack.max_wait", &table.max_wait)?,
        payback_days: payback_days("pack", table.only_if_cheaper, &table.payback_period)?,
        tier: table.tier,
    };
    if rule.max_body == 0 || rule.max_body > MAX_SLICE {
        return Err("pack.max_body: at least 1 byte, at most 1 MiB".into());
    }
    if !(1 << 20..=1 << 30).contains(&rule.file_size) {
        return Err("pack.file_size: at least 1 MiB, at most 1 GiB".into());
    }
    Ok(rule)
}

/// Reads the place of the catalog. The password of a database is in a variable, or in `PGPASSWORD`.
fn catalog(table: &CatalogTable) -> Result<CatalogPlace, String> {
    let url = &table.url;
    if let Some(path) = url.strip_prefix("dir:").filter(|path| !path.is_empty()) {
        return match table.password_env {
            None => Ok(CatalogPlace::Directory(path.into())),
            Some(_) => Err("catalog.password_env: a directory has no password".into()),
        };
    }
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        return Err(format!(
            "catalog.url: {url} is not supported; use dir:PATH or postgres://USER@HOST:PORT/DATABASE"
        ));
    }
    let variable = table.password_env.as_deref().unwrap_or("PGPASSWORD");
    let password = std::env::var(variable).ok().filter(|password| !password.is_empty());
    if password.is_none() && table.password_env.is_some() {
        return Err(format!("catalog.password_env: the variable {variable} is not set"));
    }
    let database = Database::parse(url, password.as_deref()).map_err(|e| format!("catalog.url: {e}"))?;
    Ok(CatalogPlace::Database(Box::new(database)))
}

fn budget(table: &BudgetTable) -> Result<DayLimits, String> {
    let bytes = table.bytes_per_day.as_ref().map(|text| size("budget.bytes_per_day", text)).transpose()?;
    let dollars = |text: &String| Usd::parse(text).map_err(|e| format!("budget.dollars_per_day: {e}"));
    let usd = table.dollars_per_day.as_ref().map(dollars).transpose()?;
    Ok(DayLimits { bytes, requests: table.requests_per_day, usd })
}

fn cache(table: CacheTable) -> Result<CacheSettings, String> {
    let default = CacheSettings::default();
    let memory = table.memory.map_or(Ok(default.memory), |text| size("cache.memory", &text))?;
    let disk = match (table.dir, table.size) {
        (None, None) => None,
        (Some(dir), Some(text)) => Some((dir, size("cache.size", &text)?)),
        _ => return Err("cache: dir and size belong together".into()),
    };
    if disk.as_ref().is_some_and(|(_, bytes)| *bytes < MIN_DISK_CACHE) {
        return Err("cache.size: at least 64 MiB".into());
    }
    Ok(CacheSettings { memory, disk })
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
            ("move.7.when=x", "there is no 7"),
            ("move.0.when=x", "there is no 0"),
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
            ("[\"hot\", \"cold\"]", "[\"hot\", \"hot\"]", None, "several different ones"),
            ("4 KiB", "2 MiB", None, "write.inline: at most 1 MiB"),
            ("4 KiB", "much", None, "write.inline: "),
            ("to = \"cold\"", "to = \"hot\"", None, "move 1: from and to are the same tier"),
            ("age > 7d", "age", None, "move 1, when: a comparison is missing"),
            ("secret_key_env = \"COLD_SECRET\"", "", None, "tier.cold: access_key_env and secret_key_env"),
            ("inline", "inlin", Some(12), "unknown field `inlin`"),
            ("url = \"s3://hot\"", "", Some(4), "missing field `url`"),
        ] {
            let (at, error) = Config::parse(&GOOD.replace(from, to)).unwrap_err();
            assert!(error.contains(problem) && at == line, "{to}: {at:?} {error}");
        }
    }

    #[test]
    fn the_defaults_of_the_documents_are_those_of_the_code() {
        let claims = plimsoll_testing::defaults::claims(include_str!("../../../../docs/tiers.md"));
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
        assert_eq!(checked, 11);
    }
}
