//! Selection of the prices that are valid on a date: from price books to the tariff of one offer in one region.

use jiff::civil::Date;

use super::lazy::Book;
use super::spec::{MeterName, OfferSpec};
use super::{BookError, Price, Prices, Rule};
use crate::period::MONTH_HOURS;
use crate::tariff::{Measure, Meter, PriceRule, RuleName, Rules, Tariff};
use plimsoll_base::provider::Confidence;
use plimsoll_base::provider::calls::CallSet;
use plimsoll_base::units::format_size;

/// An offer as `plimsoll list prices` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferFacts {
    /// Name on the command line.
    pub name: String,
    /// Name in reports.
    pub title: String,
    /// Regions in which it is sold.
    pub regions: Vec<String>,
    /// True if objects can be stored in it.
    pub is_store: bool,
}

/// A price and its period of validity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriceFacts {
    /// Period of validity, in words.
    pub when: String,
    /// Path of the added file that defines it; such prices override built-in ones. `None` if it is built in.
    pub book: Option<String>,
    /// Regions that it applies to. Empty for all regions of the offer.
    pub regions: Vec<String>,
    /// Meter with the price.
    pub meter: Meter,
}

/// The prices of a store.
#[derive(Debug, Clone)]
pub struct StoreTariff {
    /// Tariff by which the store is billed.
    pub tariff: Tariff,
    /// Caveat, such as an assumed region. `None` if there is none.
    pub note: Option<String>,
    /// True if the prices are those of another region than the store's.
    pub elsewhere: bool,
}

/// Default storage classes of the providers.
const DEFAULT_CLASSES: [&str; 3] = ["STANDARD", "EXPRESS_ONEZONE", "Hot"];

/// Returns the storage class, or `None` if it is the default class of a provider.
pub fn usual(storage_class: Option<&str>) -> Option<&str> {
    storage_class.filter(|class| !DEFAULT_CLASSES.contains(class))
}

/// Key that distinguishes the prices of an offer: the meter and, for requests and machines, the item.
type Group<'a> = (MeterName, &'a str);

/// Returns the key of a price.
fn group_of(price: &Price) -> Group<'_> {
    match price.name {
        MeterName::Requests | MeterName::Instance | MeterName::Line | MeterName::UnreadStorage => {
            (price.name, price.meter.item.as_str())
        }
        name => (name, ""),
    }
}

impl Prices {
    /// Returns the offer of that name; later books override earlier ones.
    pub fn offer(&self, name: &str) -> Option<&OfferSpec> {
        self.books.iter().rev().flat_map(|b| &b.offers).find(|o| o.name == name)
    }

    fn offers(&self) -> impl Iterator<Item = &OfferSpec> {
        let first =
            |offer: &&OfferSpec| self.offer(&offer.name).is_some_and(|known| std::ptr::eq(known, *offer));
        self.books.iter().flat_map(|b| &b.offers).filter(first)
    }

    /// Returns the names of all offers.
    pub fn names(&self) -> Vec<&str> {
        self.offers().map(|o| o.name.as_str()).collect()
    }

    /// Returns the names of the offers in which objects can be stored.
    pub fn stores(&self) -> Vec<&str> {
        self.offers().map(|o| o.name.as_str()).filter(|name| self.is_store(name)).collect()
    }

    fn is_store(&self, name: &str) -> bool {
        self.prices_of(name).any(|(_, p)| p.name == MeterName::Storage)
    }

    /// Returns the offer by which a provider bills stores with that storage class; `None` if its prices are
    /// unknown.
    pub fn offer_of(&self, provider: &str, storage_class: Option<&str>) -> Option<&str> {
        let fits = |o: &&OfferSpec| {
            o.provider.as_deref() == Some(provider) && o.storage_class.as_deref() == storage_class
        };
        self.offers().find(fits).map(|o| o.name.as_str())
    }

    /// Returns the prices of a store, by its provider, its region and the storage class that it writes. If the
    /// offer does not list the region, returns the prices of the offer's first region, with a note if those of the
    /// store's region may differ. Returns `None` if the prices of the provider are unknown.
    ///
    /// # Errors
    /// [`BookError`] if an item has no price on that date.
    pub fn of_store(
        &self,
        provider: &str,
        region: Option<&str>,
        storage_class: Option<&str>,
        date: Date,
    ) -> Result<Option<StoreTariff>, BookError> {
        let Some(name) = self.offer_of(provider, usual(storage_class)) else { return Ok(None) };
        let Some(offer) = self.offer(name) else { return Ok(None) };
        if let Some(listed) = region.filter(|region| offer.regions.iter().any(|r| r == region)) {
            let tariff = self.tariff(name, Some(listed), date)?;
            return Ok(Some(StoreTariff { tariff, note: None, elsewhere: false }));
        }
        let tariff = self.tariff(name, None, date)?;
        // An offer from an added file applies to all stores of its provider.
        let own = self.books[self.built_in..].iter().any(|b| b.offers.iter().any(|o| o.name == name));
        let first = tariff.region.clone();
        Ok(Some(match region.filter(|region| *region != "auto") {
            Some(there) if offer.every_region => StoreTariff {
                tariff: Tariff { region: there.into(), ..tariff },
                note: None,
                elsewhere: false,
            },
            Some(there) if !own => {
                let note = format!("prices of {first}, because those of {there} are unknown");
                StoreTariff { tariff, note: Some(note), elsewhere: true }
            }
            None if !offer.every_region && !own && (region.is_some() || offer.regions.len() > 1) => {
                let note = format!("prices of {first} are assumed; the store's region is not known");
                StoreTariff { tariff, note: Some(note), elsewhere: false }
            }
            _ => StoreTariff { tariff, note: None, elsewhere: false },
        }))
    }

    /// Returns the region that is assumed if an offer is named without one. `None` if the prices do not depend
    /// on the region.
    pub fn assumed_region(&self, name: &str) -> Option<&str> {
        let offer = self.offer(name).filter(|o| !o.every_region && o.regions.len() > 1)?;
        Some(&offer.regions[0])
    }

    /// Returns all offers.
    pub fn facts(&self) -> Vec<OfferFacts> {
        let facts = |o: &OfferSpec| OfferFacts {
            name: o.name.clone(),
            title: o.title.clone(),
            regions: o.regions.clone(),
            is_store: self.is_store(&o.name),
        };
        self.offers().map(facts).collect()
    }

    /// Returns the prices in added books that are not valid on a date, in words, unless the book has another price of
    /// the same item for that date.
    pub fn not_valid(&self, date: Date) -> Vec<String> {
        let mut out = Vec::new();
        for book in &self.books[self.built_in..] {
            let replaced = |price: &Price| {
                let same =
                    |other: &&Price| group_of(other) == group_of(price) && other.offers == price.offers;
                book.entries().prices.iter().filter(same).any(|other| other.span.holds(date))
            };
            for price in book.entries().prices.iter().filter(|p| !p.span.holds(date) && !replaced(p)) {
                out.push(format!(
                    "{}: the price of {} at {} is valid {}, not on {date} (--as-of)",
                    book.path,
                    price.meter.item,
                    price.offers.join(", "),
                    price.span.describe()
                ));
            }
        }
        out
    }

    /// Returns the first day of the latest price in added books; `None` if there are none.
    pub fn last_change(&self) -> Option<Date> {
        self.books[self.built_in..].iter().flat_map(|b| &b.entries().prices).map(|p| p.span.from).max()
    }

    /// Returns the prices of an offer in all periods, without those of its network and machines.
    pub fn history(&self, offer: &str) -> Vec<PriceFacts> {
        let facts = |(b, p): (&Book, &Price)| PriceFacts {
            when: p.span.describe(),
            book: self
                .books
                .iter()
                .position(|other| std::ptr::eq(other, b))
                .filter(|n| *n >= self.built_in)
                .map(|_| b.path.clone()),
            regions: p.regions.clone(),
            meter: p.meter.clone(),
        };
        self.prices_of(offer).map(facts).collect()
    }

    fn prices_of<'a>(&'a self, offer: &'a str) -> impl Iterator<Item = (&'a Book, &'a Price)> {
        let of = move |p: &&Price| p.offers.iter().any(|o| o == offer);
        let books = self.books.iter().filter_map(|b| Some((b, b.about(offer)?)));
        books.flat_map(move |(b, entries)| entries.prices.iter().filter(of).map(move |p| (b, p)))
    }

    /// Returns the prices of an offer in a region on a date, including those of its network, machines and
    /// functions. The default region is the first of the offer.
    ///
    /// # Errors
    /// [`BookError`] if the offer or the region is unknown, or if one of its items has no price on that date.
    pub fn tariff(&self, name: &str, region: Option<&str>, date: Date) -> Result<Tariff, BookError> {
        let offer = self
            .offer(name)
            .ok_or_else(|| BookError::Offer { name: name.into(), known: self.stores().join(", ") })?;
        let region = match region {
            None => offer.regions[0].as_str(),
            Some(region) => offer.regions.iter().find(|r| *r == region).ok_or_else(|| BookError::Region {
                offer: name.into(),
                region: region.into(),
                known: offer.regions.join(", "),
            })?,
        };
        let mut meters = self.meters(name, region, date)?;
        let (mut instances, mut functions): (Vec<Meter>, Vec<Meter>) = Default::default();
        for (next, into) in [
            (&offer.network, &mut meters),
            (&offer.machines, &mut instances),
            (&offer.functions, &mut functions),
        ] {
            let Some(next) = next else { continue };
            let own = self
                .offer(next)
                .ok_or_else(|| BookError::Offer { name: next.clone(), known: self.names().join(", ") })?;
            // If it does not list the region, use the prices of its first region.
            let there = own.regions.iter().find(|r| *r == region).unwrap_or(&own.regions[0]);
            // The prices of the store itself override those of its network: see `taken`.
            let mut new: Vec<Meter> = self.meters(next, there, date)?;
            if there != region {
                // No source confirms that the price applies here.
                new.iter_mut().for_each(|meter| {
                    meter.provenance.confidence = Confidence::Low;
                    meter.note = Some(format!("price of {there}, because that of {region} is unknown"));
                });
            }
            let taken: Vec<Measure> = into.iter().map(|m| m.measure).collect();
            into.extend(
                new.into_iter().filter(|m| m.measure == Measure::Instance || !taken.contains(&m.measure)),
            );
        }
        let priced = meters.iter().fold(CallSet::default(), |set, meter| match meter.measure {
            Measure::Requests { calls, .. } => set.with(calls),
            _ => set,
        });
        Ok(Tariff {
            offer: name.into(),
            title: offer.title.clone(),
            provider: offer.provider.clone(),
            sells_compute: offer.sells_compute,
            region: region.into(),
            network: offer.network.clone(),
            as_of: date.to_string(),
            meters,
            instances,
            functions,
            rules: self.rules(offer, date),
            priced,
        })
    }

    /// Returns the meters of the offer itself, without its network, machines and functions.
    fn meters(&self, offer: &str, region: &str, date: Date) -> Result<Vec<Meter>, BookError> {
        let here = |p: &Price| p.regions.is_empty() || p.regions.iter().any(|r| r == region);
        let all: Vec<(&Book, &Price)> = self.prices_of(offer).filter(|(_, p)| here(p)).collect();
        let mut groups: Vec<Group<'_>> = Vec::new();
        for (_, price) in &all {
            let group = group_of(price);
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
        let chosen = groups.into_iter().map(|group| self.meter(offer, region, date, group, &all));
        // Leave out machine types without a price on that date. A workload that uses one fails with an error.
        let there = |found: &Result<(usize, Meter), BookError>| {
            found.is_ok() || all.iter().all(|(_, p)| p.name != MeterName::Instance)
        };
        let meters = without_overlap(chosen.filter(there).collect::<Result<_, _>>()?);
        Ok(meters.into_iter().map(|meter| self.discounted(offer, meter)).collect())
    }

    /// Returns the price of a group that is valid on a date, and the index of its book.
    fn meter(
        &self,
        offer: &str,
        region: &str,
        date: Date,
        group: Group<'_>,
        all: &[(&Book, &Price)],
    ) -> Result<(usize, Meter), BookError> {
        let of_group: Vec<&(&Book, &Price)> = all.iter().filter(|(_, p)| group_of(p) == group).collect();
        let item = || of_group.first().map_or(String::new(), |(_, p)| p.meter.item.clone());
        // The last book with a price for that date wins. Two prices in one book are an error.
        let holding: Vec<_> = of_group.iter().filter(|(_, p)| p.span.holds(date)).collect();
        let Some((book, price)) = holding.last() else {
            let known: Vec<String> = of_group.iter().map(|(_, p)| p.span.describe()).collect();
            return Err(BookError::Date {
                offer: offer.into(),
                region: region.into(),
                item: item(),
                date,
                known: known.join(", "),
            });
        };
        if holding.iter().filter(|(b, _)| b.path == book.path).count() > 1 {
            let path = book.path.clone();
            return Err(BookError::Ambiguous {
                path,
                offer: offer.into(),
                region: region.into(),
                item: item(),
                date,
            });
        }
        let mut meter = price.meter.clone();
        // A price that replaces another need not repeat its list of requests.
        if let Measure::Requests { calls, .. } = &mut meter.measure
            && *calls == CallSet::default()
        {
            let earlier = of_group.iter().rev().find_map(|(_, p)| match p.meter.measure {
                Measure::Requests { calls, .. } if calls != CallSet::default() => Some(calls),
                _ => None,
            });
            *calls = earlier.unwrap_or_default();
        }
        let place = self.books.iter().position(|b| std::ptr::eq(b, *book)).unwrap_or(0);
        Ok((place, meter))
    }

    /// Returns the price of a line of bills by its name there, in a region on a date; `None` if there is none.
    ///
    /// # Errors
    /// [`BookError`] if a book has two such prices.
    pub fn line(
        &self,
        offer: &str,
        region: &str,
        item: &str,
        date: Date,
    ) -> Result<Option<Meter>, BookError> {
        let here = |p: &Price| p.regions.is_empty() || p.regions.iter().any(|r| r == region);
        let named = |p: &Price| p.name == MeterName::Line && p.meter.item == item;
        let all: Vec<(&Book, &Price)> =
            self.prices_of(offer).filter(|(_, p)| named(p) && here(p) && p.span.holds(date)).collect();
        if all.is_empty() {
            return Ok(None);
        }
        let (_, meter) = self.meter(offer, region, date, (MeterName::Line, item), &all)?;
        Ok(Some(self.discounted(offer, meter)))
    }

    /// Returns the rules of an offer on a date; later rules override earlier ones.
    fn rules(&self, offer: &OfferSpec, date: Date) -> Rules {
        let mut rules = Rules { month_hours: offer.month_hours.unwrap_or(MONTH_HOURS), ..Rules::default() };
        let all = self.books.iter().filter_map(|b| b.about(&offer.name)).flat_map(|entries| &entries.rules);
        for rule in all.filter(|r| r.offers.contains(&offer.name) && r.span.holds(date)) {
            apply(&mut rules, rule);
        }
        rules
    }
}

/// Removes each kind of request from a meter if a later book has a price for it, so that no request is billed
/// twice. Every meter comes with the index of its book.
fn without_overlap(chosen: Vec<(usize, Meter)>) -> Vec<Meter> {
    let calls_of = |meter: &Meter| match meter.measure {
        Measure::Requests { calls, .. } => calls,
        _ => CallSet::default(),
    };
    let taken = |place: usize| {
        let later = chosen.iter().filter(|(other, _)| *other > place);
        later.fold(CallSet::default(), |set, (_, meter)| set.with(calls_of(meter)))
    };
    let mut out = Vec::new();
    for (place, meter) in &chosen {
        let mut meter = meter.clone();
        if let Measure::Requests { calls, .. } = &mut meter.measure {
            *calls = calls.without(taken(*place));
            if *calls == CallSet::default() {
                continue;
            }
        }
        out.push(meter);
    }
    out
}

/// Applies the settings of a rule, and adds a description of each.
fn apply(rules: &mut Rules, rule: &Rule) {
    object_rules(rules, rule);
    let mut describe = |name, words: String| {
        rules.descriptions.push(PriceRule { name, words, provenance: rule.provenance.clone() });
    };
    if let Some(days) = rule.minimum_days {
        rules.minimum_days = days;
        describe(RuleName::MinimumDays, format!("objects are billed for at least {days} days"));
    }
    if let Some(daily_peak) = rule.daily_peak {
        rules.daily_peak = daily_peak;
        describe(RuleName::DailyPeak, "storage is billed by its daily peak".into());
    }
    if let Some(round_up) = rule.round_up {
        rules.round_up = round_up;
        describe(RuleName::RoundUp, "every quantity is rounded up to whole units".into());
    }
    if let Some(days) = rule.deleted_days {
        rules.deleted_days = days;
        describe(RuleName::Deleted, format!("deleted objects are billed for {days} more days"));
    }
    if let Some(versions) = rule.deleted_versions {
        rules.deleted_versions = versions;
        let words = "deleted objects are billed until a request or a lifecycle rule deletes their versions; \
                     a bill includes one month of this storage, and each further month costs the same";
        describe(RuleName::Deleted, words.into());
    }
    if let Some(days) = rule.transition_days {
        rules.transition_days = days;
        describe(RuleName::TransitionDays, format!("lifecycle rules move no object before its day {days}"));
    }
    if !rule.unbilled.is_empty() {
        rules.unbilled.clone_from(&rule.unbilled);
        describe(
            RuleName::Unbilled,
            format!("responses with status {} are not billed", rule.unbilled.join(", ")),
        );
    }
    if let Some(bytes) = rule.largest_object {
        rules.largest_object = bytes;
        describe(RuleName::LargestObject, format!("objects are limited to {}", format_size(bytes)));
    }
    if let Some(within) = rule.egress_within_stored {
        rules.egress_within_stored = within;
        let words = "the egress of a month must not exceed the data stored";
        describe(RuleName::EgressWithinStored, words.into());
    }
}

/// Applies the settings of a rule about single objects.
fn object_rules(rules: &mut Rules, rule: &Rule) {
    let mut describe = |name, words: String| {
        rules.descriptions.push(PriceRule { name, words, provenance: rule.provenance.clone() });
    };
    if let Some(bytes) = rule.minimum_object {
        rules.minimum_object = bytes;
        describe(
            RuleName::MinimumObject,
            format!("each object is billed as at least {}", format_size(bytes)),
        );
    }
    if rule.object_step.is_some() || rule.object_overhead.is_some() {
        let (step, more) = (rule.object_step.unwrap_or(0), rule.object_overhead.unwrap_or(0));
        (rules.object_step, rules.object_overhead) = (step, more);
        let stepped = if step > 0 { format!(", rounded up to {}", format_size(step)) } else { String::new() };
        let added = if more > 0 { format!(", plus {}", format_size(more)) } else { String::new() };
        describe(RuleName::ObjectSize, format!("each object is billed for its size{stepped}{added}"));
    }
    if let Some(bytes) = rule.object_index {
        rules.object_index = bytes;
        describe(RuleName::ObjectIndex, format!("the index entry of each object has {}", format_size(bytes)));
    }
    if let Some(hours) = rule.restore_hours {
        rules.restore_hours = hours;
        let words = "each read restores its object, for one day, which takes up to";
        describe(RuleName::Restore, format!("{words} {hours} hours"));
    }
    if let Some(bytes) = rule.monitored_object {
        rules.monitored_object = bytes;
        let words = "move to the prices of the days since their last read";
        describe(RuleName::Monitored, format!("objects of at least {} {words}", format_size(bytes)));
    }
    if let Some(bytes) = rule.minimum_billed {
        rules.minimum_billed = bytes;
        describe(RuleName::MinimumBilled, format!("at least {} of storage are billed", format_size(bytes)));
    }
}
