//! Validation of a price book when it is read: its units, dates, sources and tiers.

use jiff::civil::Date;

use super::entries::Entries;
use super::spec::{BookSpec, MeterName, OfferSpec, PriceSpec, RuleSpec};
use super::{BookError, Price, Rule, Span};
use crate::functions::FunctionMeasure;
use crate::money::Usd;
use crate::tariff::{Free, Measure, Meter, Provenance, Tier};
use plimsoll_base::units::{parse_count, parse_volume};

/// Seconds in an hour.
const HOUR_S: u64 = 3600;
/// Microseconds in a millisecond of CPU time.
const CPU_MS: u64 = 1000;
/// MiB milliseconds in a GB-second: AWS counts 1,024 MB in a GB.
const GB_SECOND: u64 = 1024 * 1000;
/// Maximum price of one unit, in picodollars: a million dollars.
const MAX_USD: i128 = 1_000_000 * 1_000_000_000_000;

/// Unit of a price: its name, and its size in bytes, requests, seconds, or the base units of functions.
struct Unit {
    name: String,
    base: u64,
}

/// Parses the unit of a price for a meter.
fn unit(meter: MeterName, per: Option<&str>) -> Result<Unit, String> {
    let per = per.ok_or("per = is missing; add the unit, such as per = \"GiB-month\"")?;
    let made = |base| Ok(Unit { name: per.to_string(), base });
    let bytes = |text: &str| parse_volume(&format!("1 {text}")).map_err(|_| wrong(meter, per));
    match meter {
        MeterName::Storage
        | MeterName::RestoredStorage
        | MeterName::IndexStorage
        | MeterName::UnreadStorage => {
            made(bytes(per.strip_suffix("-month").ok_or_else(|| wrong(meter, per))?)?)
        }
        MeterName::Requests | MeterName::Restores => {
            let count = counted(per, " requests").or_else(|| counted(per, " request units"));
            made(count.ok_or_else(|| wrong(meter, per))?)
        }
        MeterName::Monitored => made(counted(per, " objects").ok_or_else(|| wrong(meter, per))?),
        MeterName::Instance if per == "hour" => made(HOUR_S),
        MeterName::MemoryTime if per == "GB-second" => made(GB_SECOND),
        MeterName::Subscription if per == "month" => made(1),
        MeterName::Invocations => made(counted(per, " invocations").ok_or_else(|| wrong(meter, per))?),
        MeterName::CpuTime => {
            let ms = counted(per, " CPU ms").and_then(|ms| ms.checked_mul(CPU_MS));
            made(ms.ok_or_else(|| wrong(meter, per))?)
        }
        MeterName::Instance | MeterName::MemoryTime | MeterName::Subscription => Err(wrong(meter, per)),
        MeterName::Line => {
            let number = per.split_once(' ').and_then(|(number, _)| parse_count(number).ok());
            match number.filter(|number| *number > 0) {
                Some(number) => made(number),
                None => made(bytes(per.strip_suffix("-month").unwrap_or(per))?),
            }
        }
        _ => made(bytes(per)?),
    }
}

/// Parses a number, greater than zero, that stands before `unit`.
fn counted(per: &str, unit: &str) -> Option<u64> {
    per.strip_suffix(unit).and_then(|count| parse_count(count).ok()).filter(|count| *count > 0)
}

/// Returns the unit of a price of zero that has none.
fn usual_unit(meter: MeterName) -> &'static str {
    match meter {
        MeterName::Storage
        | MeterName::RestoredStorage
        | MeterName::IndexStorage
        | MeterName::UnreadStorage => "GB-month",
        MeterName::Monitored => "1000 objects",
        MeterName::Requests | MeterName::Restores => "1000 requests",
        MeterName::Instance => "hour",
        MeterName::Invocations => "1000000 invocations",
        MeterName::CpuTime => "1000000 CPU ms",
        MeterName::MemoryTime => "GB-second",
        MeterName::Subscription => "month",
        _ => "GB",
    }
}

fn wrong(meter: MeterName, per: &str) -> String {
    let example = match meter {
        MeterName::Storage
        | MeterName::RestoredStorage
        | MeterName::IndexStorage
        | MeterName::UnreadStorage => "GiB-month or GB-month",
        MeterName::Upload
        | MeterName::Retrieval
        | MeterName::Egress
        | MeterName::ReadInside
        | MeterName::CrossZone
        | MeterName::CrossRegion => "GiB or GB",
        MeterName::Line => "GiB-month, GiB, 1000 requests or 1000 objects",
        other => usual_unit(other),
    };
    format!("per = \"{per}\" is not a unit of {meter:?}; write {example}")
}

fn date(field: &str, text: &str) -> Result<Date, String> {
    text.parse()
        .map_err(|_| format!("{field} = \"{text}\" is not a date in the form YYYY-MM-DD, such as 2026-11-21"))
}

fn span(from: &str, until: Option<&str>) -> Result<Span, String> {
    let span = Span { from: date("from", from)?, until: until.map(|text| date("until", text)).transpose()? };
    match span.until {
        Some(until) if until <= span.from => {
            Err(format!("until = \"{until}\" is not after from = \"{}\"", span.from))
        }
        _ => Ok(span),
    }
}

fn parse_volume_field(field: &str, text: &str) -> Result<u64, String> {
    parse_volume(text).map_err(|e| format!("{field}: {e}"))
}

/// Parses a quantity in the base unit of the meter: bytes or a count.
fn parse_quantity(meter: MeterName, field: &str, text: &str) -> Result<u64, String> {
    let count = |base: u64| {
        let count = parse_count(text).map_err(|e| format!("{field}: {e}"))?;
        count.checked_mul(base).ok_or_else(|| format!("{field}: {text} is too large"))
    };
    match meter {
        MeterName::Requests | MeterName::Restores | MeterName::Monitored | MeterName::Invocations => count(1),
        MeterName::CpuTime => count(CPU_MS),
        MeterName::MemoryTime => count(GB_SECOND),
        MeterName::Instance => Err(format!("{field} is not valid for machines")),
        MeterName::Subscription => Err(format!("{field} is not valid for a subscription")),
        // Lines count bytes or other things.
        MeterName::Line => count(1).or_else(|_| parse_volume_field(field, text)),
        _ => parse_volume_field(field, text),
    }
}

fn tiers(price: &PriceSpec, unit_base: u64) -> Result<Vec<Tier>, String> {
    if price.usd.is_some() != price.tiers.is_empty() {
        return Err("a price needs either usd = or tiers =, but not both".into());
    }
    let mut tiers = Vec::new();
    let mut reached = 0;
    for (number, tier) in price.tiers.iter().enumerate() {
        let last = number + 1 == price.tiers.len();
        let up_to = match (&tier.up_to, last) {
            (None, true) => u64::MAX,
            (Some(text), false) => parse_quantity(price.meter, "up_to", text)?,
            _ => {
                return Err(
                    "every tier except the last must set up_to =, and the last must not set it".into()
                );
            }
        };
        if up_to <= reached {
            return Err(format!(
                "tiers must increase; up_to = \"{}\" is not greater than the previous up_to",
                tier.up_to.as_deref().unwrap_or("")
            ));
        }
        reached = up_to;
        tiers.push(Tier::new(up_to, tier.usd, unit_base));
    }
    tiers.extend(price.usd.map(|usd| Tier::new(u64::MAX, usd, unit_base)));
    match tiers.iter().find(|tier| tier.price.pico() > MAX_USD || tier.price < Usd::ZERO) {
        Some(tier) => Err(format!(
            "${} for one {} is out of range; use $0 to $1000000",
            tier.price,
            price.per.as_deref().unwrap_or("unit")
        )),
        None => Ok(tiers),
    }
}

fn measure(price: &PriceSpec) -> Result<Measure, String> {
    let size_step =
        price.size_step.as_deref().map(|text| parse_volume_field("size_step", text)).transpose()?;
    if (size_step.is_some() || !price.calls.is_empty()) && price.meter != MeterName::Requests {
        return Err("calls = and size_step = are valid only with meter = \"requests\"".into());
    }
    if price.unread_days.is_some() && price.meter != MeterName::UnreadStorage {
        return Err("unread_days = is valid only with meter = \"unread-storage\"".into());
    }
    Ok(match price.meter {
        MeterName::Storage => Measure::Storage,
        MeterName::Requests => Measure::Requests {
            calls: price.calls.iter().copied().collect(),
            size_step: size_step.unwrap_or(0),
        },
        MeterName::Upload => Measure::Upload,
        MeterName::Retrieval => Measure::Retrieval,
        MeterName::Restores => Measure::Restores,
        MeterName::RestoredStorage => Measure::RestoredStorage,
        MeterName::IndexStorage => Measure::IndexStorage,
        MeterName::UnreadStorage => {
            let days = price.unread_days.filter(|days| *days > 0);
            Measure::UnreadStorage { days: days.ok_or("unread_days = is missing, such as unread_days = 30")? }
        }
        MeterName::Monitored => Measure::Monitored,
        MeterName::Egress => Measure::Egress,
        MeterName::ReadInside => Measure::ReadInside,
        MeterName::CrossZone => Measure::CrossZone,
        MeterName::CrossRegion => Measure::CrossRegion,
        MeterName::Line => Measure::Line,
        MeterName::Instance => Measure::Instance,
        MeterName::Invocations => Measure::Function(FunctionMeasure::Invocations),
        MeterName::CpuTime => Measure::Function(FunctionMeasure::CpuTime),
        MeterName::MemoryTime => Measure::Function(FunctionMeasure::MemoryTime),
        MeterName::Subscription => Measure::Function(FunctionMeasure::Subscription),
    })
}

fn item(price: &PriceSpec) -> Result<String, String> {
    let usual = match price.meter {
        MeterName::Storage => "storage",
        MeterName::Upload => "upload",
        MeterName::Retrieval => "retrieval",
        MeterName::Restores => "restores",
        MeterName::RestoredStorage => "restored copies",
        MeterName::IndexStorage => "index of objects",
        MeterName::Monitored => "monitored objects",
        MeterName::Egress => "egress to the internet",
        MeterName::ReadInside => "reads by the provider's machines",
        MeterName::CrossZone => "transfer to another zone",
        MeterName::CrossRegion => "transfer to another region",
        MeterName::Invocations => "invocations",
        MeterName::CpuTime => "CPU time",
        MeterName::MemoryTime => "memory time",
        MeterName::Subscription => "subscription",
        MeterName::Requests | MeterName::Instance | MeterName::Line | MeterName::UnreadStorage => "",
    };
    let item = price.item.clone().unwrap_or_else(|| usual.into());
    if item.is_empty() {
        Err("item = is missing; specify the class of requests, the machine type, or the name on bills".into())
    } else {
        Ok(item)
    }
}

fn free(price: &PriceSpec) -> Result<Free, String> {
    match (&price.free, price.free_times_stored) {
        (None, None) => Ok(Free::None),
        (Some(text), None) => Ok(Free::Amount(parse_quantity(price.meter, "free", text)?)),
        (None, Some(times)) if price.meter == MeterName::Egress => Ok(Free::TimesStored(times)),
        _ => Err("use free = alone, or free_times_stored = alone with meter = \"egress\"".into()),
    }
}

/// Sources of a book, by their short names.
type Sources = std::collections::BTreeMap<String, String>;

fn provenance(
    sources: &Sources,
    source: &str,
    as_of: &str,
    confidence: plimsoll_base::provider::Confidence,
) -> Result<Provenance, String> {
    let named = sources.get(source).cloned();
    // Free text contains a space; the name of a source does not.
    let source = match named {
        Some(source) => source,
        None if source.contains(' ') => source.to_string(),
        None => {
            return Err(format!(
                "source = \"{source}\" is not in [sources]; add it there, or describe the source in several words"
            ));
        }
    };
    Ok(Provenance { source, as_of: as_of.to_string(), confidence })
}

fn price(sources: &Sources, price: &PriceSpec) -> Result<Price, String> {
    if price.offers.is_empty() {
        return Err("offers = is empty; specify at least one offer".into());
    }
    let nothing = price.usd == Some(Usd::ZERO) && price.per.is_none();
    let unit = if nothing {
        unit(price.meter, Some(usual_unit(price.meter)))?
    } else {
        unit(price.meter, price.per.as_deref())?
    };
    let moves = matches!(price.meter, MeterName::Upload | MeterName::Retrieval);
    if (price.free_bytes_per_request.is_some() || price.minimum_bytes_per_request.is_some()) && !moves {
        return Err("free_bytes_per_request = and minimum_bytes_per_request = are valid only with meter = \"upload\" or \"retrieval\"".into());
    }
    if price.counts_copies && !moves {
        return Err("counts_copies = is valid only with meter = \"upload\" or \"retrieval\"".into());
    }
    let meter = Meter {
        item: item(price)?,
        measure: measure(price)?,
        tiers: tiers(price, unit.base)?,
        unit: unit.name,
        unit_base: unit.base,
        free_bytes_per_request: price
            .free_bytes_per_request
            .as_deref()
            .map_or(Ok(0), |text| parse_volume_field("free_bytes_per_request", text))?,
        minimum_bytes_per_request: price
            .minimum_bytes_per_request
            .as_deref()
            .map_or(Ok(0), |text| parse_volume_field("minimum_bytes_per_request", text))?,
        counts_copies: price.counts_copies,
        free: free(price)?,
        free_inside_tiers: price.free_inside_tiers,
        provenance: provenance(sources, &price.source, &price.as_of, price.confidence)?,
        note: price.note.clone(),
    };
    Ok(Price {
        offers: price.offers.clone(),
        regions: price.regions.clone(),
        span: span(&price.from, price.until.as_deref())?,
        name: price.meter,
        meter,
    })
}

/// Checks status codes, such as `403` or `5xx`.
fn statuses(codes: &[String]) -> Result<Vec<String>, String> {
    let fits = |code: &String| {
        let bytes = code.as_bytes();
        bytes.len() == 3
            && bytes[0].is_ascii_digit()
            && (&bytes[1..] == b"xx" || bytes[1..].iter().all(u8::is_ascii_digit))
    };
    match codes.iter().find(|code| !fits(code)) {
        Some(code) => Err(format!(
            "unbilled: '{code}' is not a status code; use a code such as 403, or a class such as 5xx"
        )),
        None => Ok(codes.to_vec()),
    }
}

fn rule(sources: &Sources, rule: &RuleSpec) -> Result<Rule, String> {
    let size = |field: &str, text: &Option<String>| {
        text.as_deref().map(|t| parse_volume_field(field, t)).transpose()
    };
    Ok(Rule {
        offers: rule.offers.clone(),
        span: span(&rule.from, rule.until.as_deref())?,
        minimum_days: rule.minimum_days,
        minimum_object: size("minimum_object", &rule.minimum_object)?,
        object_step: size("object_step", &rule.object_step)?,
        object_overhead: size("object_overhead", &rule.object_overhead)?,
        object_index: size("object_index", &rule.object_index)?,
        restore_hours: rule.restore_hours,
        monitored_object: size("monitored_object", &rule.monitored_object)?,
        minimum_billed: size("minimum_billed", &rule.minimum_billed)?,
        daily_peak: rule.daily_peak,
        round_up: rule.round_up,
        deleted_days: rule.deleted_days,
        deleted_versions: rule.deleted_versions,
        transition_days: rule.transition_days,
        unbilled: statuses(&rule.unbilled)?,
        largest_object: size("largest_object", &rule.largest_object)?,
        egress_within_stored: rule.egress_within_stored,
        provenance: provenance(sources, &rule.source, &rule.as_of, rule.confidence)?,
    })
}

fn offer(offer: &OfferSpec) -> Result<(), String> {
    match offer.regions.is_empty() {
        true => Err(format!(
            "offer '{}' has no regions; add a region, such as regions = [\"us-east-1\"]",
            offer.name
        )),
        false if offer.month_hours == Some(0) => {
            Err(format!("offer '{}': month_hours = 0 is not valid; use 1 or more", offer.name))
        }
        false => Ok(()),
    }
}

/// Returns the line on which table number `index` (from 0) of that name begins.
fn line_of(text: &str, table: &str, index: usize) -> usize {
    let head = format!("[[{table}]]");
    text.lines()
        .enumerate()
        .filter(|(_, l)| l.trim_start().starts_with(&head))
        .nth(index)
        .map_or(1, |(n, _)| n + 1)
}

/// Finds two classes that contain the same request in the same region and period. Returns the index of the
/// second and the error message.
fn charged_twice(prices: &[Price]) -> Option<(usize, String)> {
    let calls_of = |price: &Price| match price.meter.measure {
        Measure::Requests { calls, .. } => Some(calls),
        _ => None,
    };
    let meet = |a: &[String], b: &[String]| a.iter().any(|name| b.contains(name));
    prices.iter().enumerate().find_map(|(index, second)| {
        let calls = calls_of(second)?;
        let first = prices[..index].iter().find(|first| {
            first.meter.item != second.meter.item
                && meet(&first.offers, &second.offers)
                && (first.regions.is_empty()
                    || second.regions.is_empty()
                    || meet(&first.regions, &second.regions))
                && first.span.meets(&second.span)
                && calls_of(first).is_some_and(|other| calls.first_in(other).is_some())
        })?;
        let call = calls.first_in(calls_of(first)?)?.name();
        let (one, other) = (&first.meter.item, &second.meter.item);
        Some((index, format!("{call} belongs to '{one}' and to '{other}'; list it in only one class")))
    })
}

/// Parses a price book and checks it. Returns its offers, and its prices and rules.
///
/// # Errors
/// [`BookError::At`], with the line of the invalid table.
pub fn checked(path: &str, text: &str) -> Result<(Vec<OfferSpec>, Entries), BookError> {
    let at = |line, message| BookError::At { path: path.to_string(), line, message };
    let book: BookSpec = toml::from_str(text).map_err(|e| {
        let offset = e.span().map_or(0, |s| s.start).min(text.len());
        at(text[..offset].matches('\n').count() + 1, e.message().trim().replace('\n', " "))
    })?;
    fn each<T, U>(
        tables: &[T],
        check: impl Fn(&T) -> Result<U, String>,
        wrong: impl Fn(usize, String) -> BookError,
    ) -> Result<Vec<U>, BookError> {
        tables.iter().enumerate().map(|(index, table)| check(table).map_err(|m| wrong(index, m))).collect()
    }
    let wrong = |table: &'static str| move |index, message| at(line_of(text, table, index), message);
    let sources = &book.sources;
    each(&book.offer, offer, wrong("offer"))?;
    let prices = each(&book.price, |p| price(sources, p), wrong("price"))?;
    if let Some((index, message)) = charged_twice(&prices) {
        return Err(wrong("price")(index, message));
    }
    let rules = each(&book.rule, |r| rule(sources, r), wrong("rule"))?;
    Ok((book.offer, Entries { prices, rules }))
}
