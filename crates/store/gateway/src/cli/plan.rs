//! `plimsoll-gateway plan`: what the rules would move now, and what it costs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use futures_util::StreamExt;
use jiff::civil::Date;
use object_store::ObjectStore;
use plimsoll_base::clock::wall_now;
use plimsoll_base::text::outgoing;
use plimsoll_document::Document;
use plimsoll_server::reserve::Memory;

use super::Exit;
use super::backup_place::backend;
use super::opened::Opened;
use super::out::say;
use super::place::StoreArguments;
use super::tariff::tariff;
use crate::config::Config;
use plimsoll_backup::journal::price;
use plimsoll_bodies::location::parse_own;
use plimsoll_bodies::tier::Tier;
use plimsoll_bodies::tier::odd_keys::odd_key;
use plimsoll_catalog::ambient::now_ms;
use plimsoll_catalog::any::AnyCatalog;
use plimsoll_catalog::embedded::recovery::Recovery;
use plimsoll_catalog::log::note;
use plimsoll_catalog::memory::MemoryCatalog;
use plimsoll_inventory::InventoryError;
use plimsoll_maintenance::mover::rules::Rules;
use plimsoll_maintenance::plan::bill::{Bill, PricedTier, bill};
use plimsoll_maintenance::plan::listing::{Existing, add, create_bucket};
use plimsoll_maintenance::plan::page::document;
use plimsoll_maintenance::plan::{Plan, Terms, plan as compute};
use plimsoll_objects::Store;

/// Arguments of `plimsoll-gateway plan`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Settings of a gateway over several tiers, a TOML file; the gateway may be running
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Plan for an existing bucket instead of the gateway's objects: an inventory of S3 or Google Cloud Storage (CSV,
    /// ORC or Parquet; its directory, manifest.json or one file), a CSV file with the columns Key, Size and
    /// LastModified, the output of `aws s3 ls --recursive`, or tier:NAME to list the bucket of a tier now
    #[arg(long, value_name = "SOURCE")]
    listing: Option<String>,
    /// Tier that has the objects of the listing [default: the tier that receives writes, or that is listed]
    #[arg(long, value_name = "NAME", requires = "listing")]
    listing_tier: Option<String>,
    /// Name of the bucket of the listing, for rules that depend on it
    #[arg(long, value_name = "NAME", requires = "listing", default_value = "listed")]
    listing_bucket: String,
    /// Replace a setting and show the difference, such as pack.file_size=128MiB or "move.1.when=age > 30d"
    #[arg(long, value_name = "NAME=VALUE")]
    what_if: Vec<String>,
    /// Use the prices of this date [default: today]
    #[arg(long, value_name = "DATE")]
    as_of: Option<Date>,
    /// Format of the output
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
    /// Same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Write the output to this file [default: standard output]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Formats of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Tables for the terminal
    Table,
    /// JSON, with amounts as decimal strings
    Json,
    /// Markdown for comments and pages
    Markdown,
    /// HTML page that works offline
    Html,
}

/// Returns the prices of all tiers by their numbers.
fn tiers(
    place: &StoreArguments,
    config: &Config,
    opened: &Opened,
    date: Date,
) -> Result<BTreeMap<u16, PricedTier>, Exit> {
    let mut prices = place.prices(config, &opened.backends, date)?;
    let tier = |(number, tier): (u16, &Tier)| {
        let prices = prices.remove(&tier.name).flatten();
        (number, PricedTier { name: tier.name.clone(), prices })
    };
    Ok(opened.bodies.blobs.tiers().iter().map(tier).collect())
}

fn compute_bill(arguments: &Arguments, changes: &[String], date: Date) -> Result<Bill, Exit> {
    let config = Config::load_with(&arguments.file, changes).map_err(Exit::input)?;
    let place = StoreArguments::of_file(&arguments.file);
    if let Some(source) = &arguments.listing {
        let existing = Listing { place: &place, config: &config, arguments, source, date };
        return existing.bill();
    }
    place.must_exist()?;
    config.small_bodies_that_stay().into_iter().for_each(|text| note(&text));
    let (_snapshot, opened) = place.open_copy(config.clone())?;
    let (plan, tiers) = plan_of(&place, &config, opened, date)?;
    let bill = bill(&plan, &tiers).map_err(|e| place.fail(&e))?;
    with_journal(bill, &place, &config)
}

/// Adds the price of the journal, if the settings have one.
fn with_journal(bill: Bill, place: &StoreArguments, config: &Config) -> Result<Bill, Exit> {
    let Some((rule, lease_ms)) = config.backup.as_ref().and_then(|rule| Some((rule, rule.lease_ms?))) else {
        return Ok(bill);
    };
    let tariff = tariff(&config.prices, &rule.place, &backend(rule)?);
    let journal = tariff.map(|tariff| price::prices(&tariff, lease_ms, rule.is_durable));
    let journal = journal.transpose().map_err(|e| place.fail(&e))?.unwrap_or_default();
    Ok(Bill { journal, ..bill })
}

/// Computes the plan of a file of settings, some of them changed, for the objects of a store that this process serves.
///
/// # Errors
/// Exit code 2 for invalid settings or unknown prices, 3 if the catalog cannot be read.
pub fn of_store(
    file: &Path,
    changes: &[String],
    store: &Store<AnyCatalog>,
    date: Date,
) -> Result<Bill, Exit> {
    let config = Config::load_with(file, changes).map_err(Exit::input)?;
    let place = StoreArguments::of_file(file);
    let mut numbers = BTreeMap::new();
    for name in config.tiers.keys() {
        let number = store.blobs.tiers().number(name);
        let number = number.ok_or_else(|| {
            Exit::input(format!("{}: tier {name} is new; start the gateway again", file.display()))
        })?;
        numbers.insert(name.clone(), number);
    }
    let backends = place.backends(&config)?;
    let mut prices = place.prices(&config, &backends, date)?;
    let rules = place.rules(&config, &backends, &numbers)?;
    let priced = |(name, number): (&String, &u16)| {
        (*number, PricedTier { name: name.clone(), prices: prices.remove(name).flatten() })
    };
    let tiers = numbers.iter().map(priced).collect();
    let plan = plan_with(&place, &rules, &tiers, store)?;
    let bill = bill(&plan, &tiers).map_err(|e| place.fail(&e))?;
    with_journal(bill, &place, &config)
}

/// Computes the plan of some rules for the objects of a store.
fn plan_with(
    place: &StoreArguments,
    rules: &Rules,
    tiers: &BTreeMap<u16, PricedTier>,
    store: &Store<AnyCatalog>,
) -> Result<Plan, Exit> {
    let tariff = |(number, tier): (&u16, &PricedTier)| Some((*number, tier.prices.as_ref()?.tariff.clone()));
    let tariffs = tiers.iter().filter_map(tariff).collect();
    let terms = Terms { tariffs: &tariffs, home: rules.home, now_ms: now_ms() };
    compute(store, rules, &terms).map_err(|e| place.fail(&e))
}

/// Computes the plan for the objects of an open catalog. Returns it with the prices of the tiers.
fn plan_of(
    place: &StoreArguments,
    config: &Config,
    opened: Opened,
    date: Date,
) -> Result<(Plan, BTreeMap<u16, PricedTier>), Exit> {
    let tiers = tiers(place, config, &opened, date)?;
    let Opened { catalog, bodies, rules, .. } = opened;
    let store =
        Store::open(Arc::clone(&catalog), bodies, Memory::new(u64::MAX)).map_err(|e| place.fail(&e))?;
    let plan = plan_with(place, &rules, &tiers, &store)?;
    Ok((plan, tiers))
}

impl From<InventoryError> for Exit {
    fn from(error: InventoryError) -> Exit {
        Exit::input(format!("--listing: {error}"))
    }
}

/// Calls `receive` with the objects of files.
fn read_files(source: &str, receive: &mut dyn FnMut(Existing) -> Result<(), Exit>) -> Result<(), Exit> {
    if source.contains("://") {
        let text = "a listing is a file; for a bucket, add it to the settings as a tier, and use tier:NAME";
        return Err(Exit::input(format!("--listing {source}: {text}")));
    }
    let (mut without_size, mut classes) = (0u64, BTreeMap::new());
    plimsoll_inventory::read::<Exit>(&[PathBuf::from(source)], &mut |listed| match Existing::of(listed)? {
        Some(object) => {
            if ![&b""[..], b"STANDARD"].contains(&listed.class) {
                let class = String::from_utf8_lossy(listed.class).into_owned();
                *classes.entry(class).or_insert(0u64) += 1;
            }
            receive(object)
        }
        None => {
            without_size += 1;
            Ok(())
        }
    })?;
    for (class, count) in classes {
        note(&format!(
            "--listing: {count} objects are in class {class}; the plan takes them for objects of the tier"
        ));
    }
    if without_size > 0 {
        note(&format!("--listing: {without_size} delete markers or rows without a size are left out"));
    }
    Ok(())
}

/// Objects that no gateway has yet.
struct Listing<'a> {
    place: &'a StoreArguments,
    config: &'a Config,
    arguments: &'a Arguments,
    source: &'a str,
    date: Date,
}

impl Listing<'_> {
    /// Returns the name of the tier that has the objects.
    fn tier(&self) -> Result<String, Exit> {
        let named = self.arguments.listing_tier.as_deref().or(self.source.strip_prefix("tier:"));
        let name = named.unwrap_or(&self.config.write[0]);
        if self.config.tiers.contains_key(name) {
            return Ok(name.to_string());
        }
        let known: Vec<&str> = self.config.tiers.keys().map(String::as_str).collect();
        let option = if self.arguments.listing_tier.is_some() { "--listing-tier" } else { "--listing" };
        Err(Exit::input(format!("{option}: there is no tier {name}; the tiers are {}", known.join(", "))))
    }

    /// Calls `receive` with all objects.
    fn read(&self, receive: &mut dyn FnMut(Existing) -> Result<(), Exit>) -> Result<(), Exit> {
        let Some(name) = self.source.strip_prefix("tier:") else {
            return read_files(self.source, receive);
        };
        let backends = self.place.backends(self.config)?;
        let backend =
            backends.get(name).ok_or_else(|| Exit::input(format!("--listing: there is no tier {name}")))?;
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Exit::store)?;
        runtime.block_on(async {
            let mut listed = backend.store.list(None);
            while let Some(object) = listed.next().await {
                if let Some(key) = object.as_ref().err().and_then(odd_key) {
                    note(&format!("tier {name}: the key '{key}' cannot be adopted and is left out"));
                    continue;
                }
                let object = object.map_err(|e| self.place.fail(&format!("tier {name}: {e}")))?;
                let key = object.location.to_string();
                if parse_own(&key).is_some() {
                    continue;
                }
                let modified_ms = object.last_modified.timestamp_millis();
                receive(Existing { bucket: String::new(), key, size: object.size, modified_ms })?;
            }
            Ok(())
        })
    }

    /// Computes the plan for some objects.
    fn part(&self, tier: &str, objects: Vec<Existing>) -> Result<(Plan, BTreeMap<u16, PricedTier>), Exit> {
        let catalog = AnyCatalog::Memory(MemoryCatalog::default());
        let name = objects.first().map(|object| object.bucket.clone()).filter(|name| !name.is_empty());
        let name = name.unwrap_or_else(|| self.arguments.listing_bucket.clone());
        create_bucket(&catalog, &name).map_err(|e| self.place.fail(&e))?;
        let backends = self.place.backends(self.config)?;
        let opened = self.place.open_with(catalog, Recovery::default(), self.config.clone(), backends)?;
        let number = opened.bodies.blobs.tiers().number(tier).unwrap_or_default();
        add(&*opened.catalog, number, objects).map_err(|e| self.place.fail(&e))?;
        plan_of(self.place, self.config, opened, self.date)
    }

    /// Computes the bill, a million objects at a time.
    fn bill(&self) -> Result<Bill, Exit> {
        const OBJECTS: usize = 1_000_000;
        let tier = self.tier()?;
        let mut plan = Plan::default();
        let mut prices = BTreeMap::new();
        let mut waiting: Vec<Existing> = Vec::new();
        let mut take = |objects: Vec<Existing>| {
            let (part, tiers) = self.part(&tier, objects)?;
            plan.add(part);
            prices = tiers;
            Ok(())
        };
        self.read(&mut |listed| {
            waiting.push(listed);
            if waiting.len() < OBJECTS { Ok(()) } else { take(std::mem::take(&mut waiting)) }
        })?;
        take(waiting)?;
        let bill = bill(&plan, &prices).map_err(|e| self.place.fail(&e))?;
        with_journal(bill, self.place, self.config)
    }
}

/// Computes and prints the plan.
///
/// # Errors
/// Exit code 2 for invalid settings or unknown prices, 3 if the catalog cannot be used.
pub fn plan(arguments: &Arguments) -> Result<(), Exit> {
    let date = arguments.as_of.unwrap_or_else(|| wall_now().to_zoned(jiff::tz::TimeZone::UTC).date());
    let current = compute_bill(arguments, &[], date)?;
    let changed = match arguments.what_if.as_slice() {
        [] => None,
        changes => Some((changes.join(", "), compute_bill(arguments, changes, date)?)),
    };
    let variant = changed.as_ref().map(|(changes, bill)| (changes.as_str(), bill));
    let place = arguments.file.display().to_string();
    let page = document(&place, &date.to_string(), &current, variant);
    print(arguments, &page, variant.map_or(&current, |(_, bill)| bill))
}

fn print(arguments: &Arguments, page: &Document, value: &Bill) -> Result<(), Exit> {
    let text = match if arguments.json { Format::Json } else { arguments.format } {
        Format::Table => page.terminal(),
        Format::Json => {
            let json = serde_json::to_string_pretty(&page.headed(value)).map_err(Exit::input)?;
            format!("{json}\n")
        }
        Format::Markdown => page.markdown(),
        Format::Html => page.html().map_err(|e| Exit::input(format!("--format html: {e}")))?,
    };
    match &arguments.output {
        Some(path) => std::fs::write(path, &*outgoing(&text))
            .map_err(|e| Exit::input(format!("--output {}: {e}; choose another file", path.display()))),
        None => say(&text),
    }
}
