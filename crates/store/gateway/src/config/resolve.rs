//! Checks the tables of the settings file, and converts them to settings.

use std::collections::BTreeMap;

use plimsoll_base::units::parse_size;
use plimsoll_cost::money::Usd;

use super::credentials::check_credentials;
use super::tables::{
    BudgetTable, CacheTable, CatalogTable, File, MoveTable, OneOrMany, PackTable, ScrubTable,
};
use super::{CatalogPlace, Config, DATABASE_INLINE, MAX_INLINE, MoveRule, PackRule};
use plimsoll_bodies::cache::CacheSettings;
use plimsoll_bodies::tier::TierTable;
use plimsoll_catalog::postgres::Database;
use plimsoll_maintenance::mover::condition::{Condition, parse_time_ms};
use plimsoll_maintenance::mover::limits::DayLimits;
use plimsoll_maintenance::scrub::ScrubRule;

/// Largest body in a pack file in bytes. It is read with one request, and is in memory as a whole.
const MAX_SLICE: u64 = 1 << 20;
/// Smallest cache on a disk in bytes.
const MIN_DISK_CACHE: u64 = 64 << 20;

/// Returns the settings of a file.
///
/// # Errors
/// A message that names the setting.
pub fn resolve(file: File) -> Result<Config, String> {
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
        // Else a write would be acknowledged with fewer copies than the settings ask for.
        if write.contains(name) {
            return Err("write.fallback: name a tier that is not in write.tier".into());
        }
    }
    let default = if matches!(catalog, CatalogPlace::Database(_)) { DATABASE_INLINE } else { MAX_INLINE };
    let inline = file.write.inline.map_or(Ok(default), |text| parse_size(&text));
    let inline = inline.map_err(|e| format!("write.inline: {e}"))?;
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
    let backup = file.backup.map(|table| table.resolve(&catalog, retain_ms)).transpose()?;
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
        backup,
    })
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
