//! The rules of a store, with the prices that they need.

use std::collections::BTreeMap;
use std::path::Path;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use plimsoll_base::clock::wall_now;
use plimsoll_cost::book::read_prices;
use plimsoll_cost::period::DAY_S;
use plimsoll_cost::tariff::Tariff;

use super::Exit;
use super::place::StoreArguments;
use super::tariff::renamed;
use crate::config::{Config, PackRule};
use plimsoll_bodies::blob::part_bytes;
use plimsoll_bodies::pricing::{Gate, TierPrices, of_tier};
use plimsoll_bodies::tier::Backend;
use plimsoll_catalog::log::note;
use plimsoll_maintenance::mover::rules::{Packing, Rule, Rules};

impl StoreArguments {
    /// Returns the prices of the tiers by name.
    ///
    /// # Errors
    /// If a price book is invalid, or a tier has no known price.
    pub fn prices(
        &self,
        config: &Config,
        backends: &BTreeMap<String, Backend>,
        date: Date,
    ) -> Result<BTreeMap<String, Option<TierPrices>>, Exit> {
        let books = read_prices(&config.prices).map_err(|e| Exit::input(format!("prices.files: {e}")))?;
        let price = |(name, backend): (&String, &Backend)| {
            let found = of_tier(&books, &config.tiers[name], backend, date);
            found.map(|found| (name.clone(), found)).map_err(|e| format!("tier {name}: {}", renamed(e)))
        };
        let (found, failed): (Vec<_>, Vec<_>) = backends.iter().map(price).partition(Result::is_ok);
        let failed: Vec<String> = failed.into_iter().filter_map(Result::err).collect();
        match failed.as_slice() {
            [] => Ok(found.into_iter().flatten().collect()),
            failed => Err(Exit::input(format!("{}: {}", self.name(), failed.join("\n")))),
        }
    }

    /// Returns the tariffs of the tiers whose prices are known today. Reports an offer in the settings without prices.
    fn known_tariffs(
        &self,
        config: &Config,
        backends: &BTreeMap<String, Backend>,
        numbers: &BTreeMap<String, u16>,
    ) -> Result<BTreeMap<u16, Tariff>, Exit> {
        let books = read_prices(&config.prices).map_err(|e| Exit::input(format!("prices.files: {e}")))?;
        let today = wall_now().to_zoned(TimeZone::UTC).date();
        let tariff = |(name, backend): (&String, &Backend)| {
            let table = &config.tiers[name];
            match of_tier(&books, table, backend, today) {
                Ok(found) => found.map(|found| (numbers[name], found.tariff)),
                Err(error) if table.offer.is_some() => {
                    note(&format!("tier {name}: {}; its costs are not counted", renamed(error)));
                    None
                }
                Err(_) => None,
            }
        };
        Ok(backends.iter().filter_map(tariff).collect())
    }

    /// Checks the rules without the catalog, which has the numbers of the tiers.
    ///
    /// # Errors
    /// As [`StoreArguments::rules`].
    pub fn check_rules(&self) -> Result<(), Exit> {
        let config = self.config()?;
        let is_missing = |path: &str| !Path::new(path).is_dir();
        if config.tiers.values().any(|table| table.url.strip_prefix("file://").is_some_and(is_missing)) {
            // Opening would create it; the start itself checks these rules.
            return Ok(());
        }
        let backends = self.backends(&config)?;
        let numbers = config.tiers.keys().cloned().zip(0..).collect();
        self.moves(&config, &backends, &numbers).map(|_| ())
    }

    /// Returns the rules with the numbers of their tiers, and the prices that they need.
    ///
    /// # Errors
    /// If prices are missing that the rules need.
    pub fn rules(
        &self,
        config: &Config,
        backends: &BTreeMap<String, Backend>,
        numbers: &BTreeMap<String, u16>,
    ) -> Result<Rules, Exit> {
        let (moves, packing) = self.moves(config, backends, numbers)?;
        let tariffs = self.known_tariffs(config, backends, numbers)?;
        let home = numbers[&config.write[0]];
        let day_ms = DAY_S * 1000;
        Ok(Rules { moves, packing, budget: config.budget, tariffs, home, day_ms })
    }

    /// Returns the rules of moves and of pack files.
    fn moves(
        &self,
        config: &Config,
        backends: &BTreeMap<String, Backend>,
        numbers: &BTreeMap<String, u16>,
    ) -> Result<(Vec<Rule>, Packing), Exit> {
        let stays = config.moves.iter().map(|rule| rule.payback_days);
        let mut stays = stays.chain(config.pack.iter().map(|rule| rule.payback_days));
        let needs_prices = config.budget.usd.is_some() || stays.any(|days| days.is_some());
        let today = wall_now().to_zoned(TimeZone::UTC).date();
        let prices = if needs_prices { self.prices(config, backends, today)? } else { BTreeMap::new() };
        let tariff = |name: &String| prices.get(name).cloned().flatten().map(|prices| prices.tariff);
        let gate = |from: &String, to: &String, payback_days: u64| {
            let part = part_bytes(backends[to].directory.is_some());
            let (home, from, to) = (tariff(&config.write[0])?, tariff(from)?, tariff(to)?);
            Some(Gate { from, to, home, part, payback_days })
        };
        let free = |place: &str| {
            Exit::input(format!("{}: {place}: only_if_cheaper needs tiers with prices", self.name()))
        };
        let mut moves = Vec::new();
        for (index, rule) in config.moves.iter().enumerate() {
            let found = rule.payback_days.map(|days| gate(&rule.from, &rule.to, days));
            let gate =
                found.map(|gate| gate.ok_or_else(|| free(&format!("move {}", index + 1)))).transpose()?;
            let (from, to) = (numbers[&rule.from], numbers[&rule.to]);
            let (keep_source_ms, min_stay_ms) = (rule.keep_source_ms, rule.min_stay_ms);
            moves.push(Rule { from, to, when: rule.when.clone(), keep_source_ms, min_stay_ms, gate });
        }
        let mut packing = packing(config.pack.as_ref(), numbers);
        for days in config.pack.iter().filter_map(|rule| rule.payback_days) {
            for name in config.tiers.keys() {
                packing.gates.extend(gate(name, name, days).map(|gate| (numbers[name], gate)));
            }
        }
        Ok((moves, packing))
    }
}

/// Returns the rules of pack files. Without settings, only pack files that exist are written again.
fn packing(rule: Option<&PackRule>, numbers: &BTreeMap<String, u16>) -> Packing {
    let Some(rule) = rule else { return Packing { file_size: 64 << 20, ..Packing::default() } };
    Packing {
        tier: numbers.get(&rule.tier).copied(),
        max_body: rule.max_body,
        file_size: rule.file_size,
        min_age_ms: rule.min_age_ms,
        max_wait_ms: rule.max_wait_ms,
        gates: BTreeMap::new(),
    }
}
