//! What held on a date: from books to the tariff of one offer in one region.

use jiff::civil::Date;

use super::spec::{MeterName, OfferSpec};
use super::{Book, BookError, Price, Prices, Rule};
use crate::cost::tariff::{Measure, Meter, PriceRule, RuleName, Rules, Tariff};
use crate::cost::usage::MONTH_HOURS;
use crate::provider::Confidence;
use crate::provider::calls::CallSet;
use crate::units::format_size;

/// What `plimsoll list prices` says of an offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferFacts {
    /// Name in commands.
    pub name: String,
    /// Name for people.
    pub title: String,
    /// Its regions.
    pub regions: Vec<String>,
    /// Whether objects can be stored in it.
    pub is_store: bool,
}

/// A price that held at some time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriceFacts {
    /// When, in words.
    pub when: String,
    /// The file that it was added by; none for a built-in one. It comes before those.
    pub book: Option<String>,
    /// Regions, where not all of the offer's.
    pub regions: Vec<String>,
    /// What is charged.
    pub meter: Meter,
}

/// The prices of a store.
#[derive(Debug, Clone)]
pub struct StoreTariff {
    /// The prices.
    pub tariff: Tariff,
    /// What must be said of them.
    pub note: Option<String>,
    /// Whether they are those of another region.
    pub elsewhere: bool,
}

/// Storage classes that are a provider's usual one.
const USUAL_CLASSES: [&str; 2] = ["STANDARD", "EXPRESS_ONEZONE"];

/// The storage class where it is not a provider's usual one.
pub fn usual(storage_class: Option<&str>) -> Option<&str> {
    storage_class.filter(|class| !USUAL_CLASSES.contains(class))
}

/// What prices are told apart by: the meter, and where there can be several of one the item.
type Group<'a> = (MeterName, &'a str);

/// The group of a price.
fn group_of(price: &Price) -> Group<'_> {
    match price.name {
        MeterName::Requests | MeterName::Instance => (price.name, price.meter.item.as_str()),
        name => (name, ""),
    }
}

impl Prices {
    /// The offer of that name.
    pub fn offer(&self, name: &str) -> Option<&OfferSpec> {
        self.books.iter().rev().flat_map(|b| &b.offers).find(|o| o.name == name)
    }

    fn offers(&self) -> impl Iterator<Item = &OfferSpec> {
        let first =
            |offer: &&OfferSpec| self.offer(&offer.name).is_some_and(|known| std::ptr::eq(known, *offer));
        self.books.iter().flat_map(|b| &b.offers).filter(first)
    }

    /// Names of all offers.
    pub fn names(&self) -> Vec<&str> {
        self.offers().map(|o| o.name.as_str()).collect()
    }

    /// Names of the offers in which objects can be stored.
    pub fn stores(&self) -> Vec<&str> {
        self.offers().map(|o| o.name.as_str()).filter(|name| self.is_store(name)).collect()
    }

    fn is_store(&self, name: &str) -> bool {
        self.prices_of(name).any(|(_, p)| p.name == MeterName::Storage)
    }

    /// The offer that stores of a provider are billed by, for a storage class; none where nothing is known of its prices.
    pub fn offer_of(&self, provider: &str, storage_class: Option<&str>) -> Option<&str> {
        let fits = |o: &&OfferSpec| {
            o.provider.as_deref() == Some(provider) && o.storage_class.as_deref() == storage_class
        };
        self.offers().find(fits).map(|o| o.name.as_str())
    }

    /// The prices of a store of a provider, for its region and the storage class that it writes; those of the offer's first region, with
    /// what must be said of that, where its own are not known. None where nothing is known of the provider's.
    ///
    /// # Errors
    /// [`BookError`] when something had no price on that day.
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
        // Whoever brings an offer means all of its stores.
        let own = self.books[self.built_in..].iter().any(|b| b.offers.iter().any(|o| o.name == name));
        let first = tariff.region.clone();
        Ok(Some(match region.filter(|region| *region != "auto") {
            Some(there) if offer.every_region => StoreTariff {
                tariff: Tariff { region: there.into(), ..tariff },
                note: None,
                elsewhere: false,
            },
            Some(there) if !own => {
                let note = format!("prices of {first}; those of {there} are not known");
                StoreTariff { tariff, note: Some(note), elsewhere: true }
            }
            None if !offer.every_region && !own && (region.is_some() || offer.regions.len() > 1) => {
                let note = format!("prices of {first} are assumed; the store's region is not known");
                StoreTariff { tariff, note: Some(note), elsewhere: false }
            }
            _ => StoreTariff { tariff, note: None, elsewhere: false },
        }))
    }

    /// The region whose prices are taken if an offer is named without one, where others may have other prices.
    pub fn assumed_region(&self, name: &str) -> Option<&str> {
        let offer = self.offer(name).filter(|o| !o.every_region && o.regions.len() > 1)?;
        Some(&offer.regions[0])
    }

    /// What there is to buy.
    pub fn facts(&self) -> Vec<OfferFacts> {
        let facts = |o: &OfferSpec| OfferFacts {
            name: o.name.clone(),
            title: o.title.clone(),
            regions: o.regions.clone(),
            is_store: self.is_store(&o.name),
        };
        self.offers().map(facts).collect()
    }

    /// All prices of an offer, whenever they held, those of its network left out.
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
        self.books.iter().flat_map(move |b| b.prices.iter().filter(of).map(move |p| (b, p)))
    }

    /// The prices of an offer in a region (its first, where none is named) on a date, those of its network and machines included.
    ///
    /// # Errors
    /// [`BookError`] when there is no such offer or region, or something that it charges for has no price on that date.
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
        let mut instances: Vec<Meter> = Vec::new();
        for (next, into) in [(&offer.network, &mut meters), (&offer.machines, &mut instances)] {
            let Some(next) = next else { continue };
            let own = self
                .offer(next)
                .ok_or_else(|| BookError::Offer { name: next.clone(), known: self.names().join(", ") })?;
            // Of a region that it knows nothing of, those of its first.
            let there = own.regions.iter().find(|r| *r == region).unwrap_or(&own.regions[0]);
            // What a store charges for itself, its network does not.
            let mut new: Vec<Meter> = self.meters(next, there, date)?;
            if there != region {
                // It is said, and nobody confirms it.
                new.iter_mut().for_each(|meter| {
                    meter.provenance.confidence = Confidence::Low;
                    meter.note = Some(format!("the price of {there}; that of {region} is not known"));
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
            rules: self.rules(offer, date),
            priced,
        })
    }

    /// What an offer itself charges.
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
        // A machine that had no price then is not there; whoever asks for it is told so.
        let there = |found: &Result<(usize, Meter), BookError>| {
            found.is_ok() || all.iter().all(|(_, p)| p.name != MeterName::Instance)
        };
        Ok(without_overlap(chosen.filter(there).collect::<Result<_, _>>()?))
    }

    /// The one price of a group that held on a date.
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
        // The last book that says something of that day wins; within one there must be no doubt.
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
        // A price that replaces another need not say again which requests it is for.
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

    /// The rules of an offer; later ones win.
    fn rules(&self, offer: &OfferSpec, date: Date) -> Rules {
        let mut rules = Rules { month_hours: offer.month_hours.unwrap_or(MONTH_HOURS), ..Rules::default() };
        let all = self.books.iter().flat_map(|b| &b.rules);
        for rule in all.filter(|r| r.offers.contains(&offer.name) && r.span.holds(date)) {
            take(&mut rules, rule);
        }
        rules
    }
}

/// Meters, each with the place of its book: a request that a later book has a price for is not charged by an earlier one too.
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

/// Adds what a rule says.
fn take(rules: &mut Rules, rule: &Rule) {
    let mut say = |name, words: String| {
        rules.said.push(PriceRule { name, words, provenance: rule.provenance.clone() });
    };
    if let Some(days) = rule.minimum_days {
        rules.minimum_days = days;
        say(RuleName::MinimumDays, format!("objects are paid for {days} days at least"));
    }
    if let Some(bytes) = rule.minimum_object {
        rules.minimum_object = bytes;
        say(RuleName::MinimumObject, format!("objects are paid for as {} at least", format_size(bytes)));
    }
    if rule.object_step.is_some() || rule.object_overhead.is_some() {
        let (step, more) = (rule.object_step.unwrap_or(0), rule.object_overhead.unwrap_or(0));
        (rules.object_step, rules.object_overhead) = (step, more);
        let stepped = if step > 0 { format!(" rounded up to {}", format_size(step)) } else { String::new() };
        let beside = if more > 0 { format!(" and {} beside", format_size(more)) } else { String::new() };
        say(RuleName::ObjectSize, format!("each object is stored as its size{stepped}{beside}"));
    }
    if let Some(bytes) = rule.minimum_billed {
        rules.minimum_billed = bytes;
        say(RuleName::MinimumBilled, format!("{} are paid for at least", format_size(bytes)));
    }
    if let Some(daily_peak) = rule.daily_peak {
        rules.daily_peak = daily_peak;
        say(RuleName::DailyPeak, "storage counts each day at its highest".into());
    }
    if let Some(round_up) = rule.round_up {
        rules.round_up = round_up;
        say(RuleName::RoundUp, "every quantity is rounded up to whole units".into());
    }
    if let Some(days) = rule.deleted_days {
        rules.deleted_days = days;
        say(RuleName::Deleted, format!("deleted objects are charged for {days} more days"));
    }
    if let Some(versions) = rule.deleted_versions {
        rules.deleted_versions = versions;
        let words = "deleted objects are charged until their versions are deleted, through the API or by a lifecycle rule; \
                     counted is a month, and each further month costs as much again";
        say(RuleName::Deleted, words.into());
    }
    if !rule.unbilled.is_empty() {
        rules.unbilled.clone_from(&rule.unbilled);
        say(RuleName::Unbilled, format!("answers {} are not charged", rule.unbilled.join(", ")));
    }
    if let Some(bytes) = rule.largest_object {
        rules.largest_object = bytes;
        say(RuleName::LargestObject, format!("objects have {} at most", format_size(bytes)));
    }
    if let Some(within) = rule.egress_within_stored {
        rules.egress_within_stored = within;
        say(RuleName::EgressWithinStored, "no more may leave in a month than is stored".into());
    }
}
