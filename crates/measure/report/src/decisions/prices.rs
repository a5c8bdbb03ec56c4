//! Price lists: all offers, and all prices of one offer with their sources.

use jiff::civil::Date;

use super::bills::unit;
use plimsoll_base::provider::Confidence;
use plimsoll_base::provider::calls::Call;
use plimsoll_base::units::{format_count, format_volume};
use plimsoll_cost::bill::meter_of;
use plimsoll_cost::book::{BookError, OfferFacts, PriceFacts, PriceRow, Prices};
use plimsoll_cost::money::Usd;
use plimsoll_cost::tariff::{Free, Measure, Meter, PriceRule, Tariff};
use plimsoll_document::{Document, Table};

/// Formats the price of the first tier of a meter, for requests per million; `-` if there is no meter.
fn first(meter: Option<&Meter>) -> String {
    let Some(meter) = meter else { return "-".into() };
    let price = meter.tiers[0].price;
    if price == Usd::ZERO {
        return "free".into();
    }
    let more = if meter.tiers.len() > 1 { "*" } else { "" };
    match meter.measure {
        Measure::Requests { size_step, .. } => {
            let million = Usd::from_pico(price.pico() * 1_000_000 / i128::from(meter.unit_base));
            let step = if size_step > 0 {
                format!("/{}", format_volume(size_step).replace(' ', ""))
            } else {
                String::new()
            };
            format!("${million}{step}")
        }
        _ => format!("${price}/{}{more}", meter.unit.trim_end_matches("-month")),
    }
}

/// Returns the lowest confidence in the main prices: those that the list shows.
fn lowest_confidence(tariff: &Tariff) -> Confidence {
    let order = |c: &Confidence| match c {
        Confidence::Low => 0,
        Confidence::Medium => 1,
        Confidence::High => 2,
    };
    let of = [Measure::Storage, Measure::Upload, Measure::Retrieval, Measure::Egress];
    let requests = [Call::PutObject, Call::GetObject].map(|call| meter_of(tariff, call));
    let main = of.map(|measure| tariff.meter(measure)).into_iter().chain(requests).flatten();
    main.map(|m| m.provenance.confidence).min_by_key(order).unwrap_or(Confidence::High)
}

/// Builds the list of all offers that store objects, with their main prices on a date.
pub fn all(prices: &Prices, date: Date) -> Document {
    let mut table = Table::new(
        "",
        &["name", "stored#", "1M PUT#", "1M GET#", "written#", "read#", "egress#", "confidence"],
    );
    let mut notes = Vec::new();
    for offer in prices.facts().iter().filter(|o| o.is_store) {
        let tariff = match prices.tariff(&offer.name, None, date) {
            Ok(tariff) => tariff,
            Err(e) => {
                notes.push(format!("left out: {e}"));
                continue;
            }
        };
        let meter = |measure| first(tariff.meter(measure));
        table.row([
            offer.name.clone(),
            meter(Measure::Storage),
            first(meter_of(&tariff, Call::PutObject)),
            first(meter_of(&tariff, Call::GetObject)),
            meter(Measure::Upload),
            meter(Measure::Retrieval),
            meter(Measure::Egress),
            lowest_confidence(&tariff).name().into(),
        ]);
    }
    let others: Vec<String> = prices
        .facts()
        .iter()
        .filter(|o| !o.is_store)
        .map(|o: &OfferFacts| format!("{} ({})", o.name, o.title))
        .collect();
    notes.push("*: price of the first of several tiers".into());
    notes.push(
        "stored: per month; egress: data sent to the internet; confidence: the lowest in the \
         prices of the row"
            .into(),
    );
    notes.push(format!("offers without storage: {}", others.join(", ")));
    notes.push("`plimsoll list prices NAME` shows every price with its tiers, source and history; --as-of DATE shows the prices of that date".into());
    Document {
        what: vec![format!("Prices of {date}, in US dollars")],
        tables: vec![table],
        notes,
        ..Document::default()
    }
}

/// Builds a list of prices, one line for each offer, item, source and date, with the number of its regions.
pub fn of_rows(rows: &[PriceRow], date: Date) -> Document {
    let mut found: Vec<(&PriceRow, Vec<&str>)> = Vec::new();
    for row in rows {
        let same = |known: &PriceRow| {
            (&known.offer, &known.item, &known.source, &known.as_of)
                == (&row.offer, &row.item, &row.source, &row.as_of)
        };
        match found.iter_mut().find(|(known, _)| same(known)) {
            Some((_, regions)) if regions.contains(&row.region.as_str()) => {}
            Some((_, regions)) => regions.push(&row.region),
            None => found.push((row, vec![&row.region])),
        }
    }
    let mut table = Table::new("", &["offer", "item", "regions#", "read", "source"]);
    for (row, regions) in &found {
        table.row([
            row.offer.clone(),
            row.item.clone(),
            regions.len().to_string(),
            row.as_of.clone(),
            row.source.clone(),
        ]);
    }
    let answer = match found.len() {
        0 => format!("Every price in use has a source that was read within the year before {date}."),
        1 => format!("One price in use has a source that was read more than a year before {date}."),
        n => format!("{n} prices in use have a source that was read more than a year before {date}."),
    };
    Document { answer, tables: vec![table], ..Document::default() }
}

/// Describes the free allowance and the tiers of a meter.
fn tiers(meter: &Meter) -> String {
    let amount = |up_to: u64| match meter.measure {
        Measure::Requests { .. } | Measure::Restores | Measure::Monitored => format_count(up_to),
        // `10000 requests` and `1000 objects`, but not `GiB`.
        Measure::Line if meter.unit.starts_with(|c: char| c.is_ascii_digit()) => format_count(up_to),
        _ => format_volume(up_to),
    };
    let mut out: Vec<String> = Vec::new();
    match meter.free {
        Free::None => {}
        Free::Amount(free) => out.push(format!("{} free", amount(free))),
        Free::TimesStored(times) => out.push(format!("{times} times the data stored free")),
    }
    for tier in &meter.tiers {
        out.push(match tier.up_to {
            u64::MAX => format!("${}", tier.price),
            up_to => format!("${} up to {}", tier.price, amount(up_to)),
        });
    }
    out.join(", ")
}

fn row(table: &mut Table, facts: &PriceFacts) {
    let meter = &facts.meter;
    let regions =
        if facts.regions.is_empty() { String::new() } else { format!(" ({})", facts.regions.join(", ")) };
    let calls = match meter.measure {
        Measure::Requests { calls, .. } => {
            let names: Vec<String> =
                Call::ALL.into_iter().filter(|c| calls.contains(*c)).map(Call::name).collect();
            format!(": {}", names.join(", "))
        }
        _ => String::new(),
    };
    let source = match &facts.book {
        Some(book) => format!("{book} (overrides the built-in prices): {}", meter.provenance.source),
        None => meter.provenance.source.clone(),
    };
    let note = meter.note.as_ref().map(|n| format!("; {n}")).unwrap_or_default();
    table.row([
        format!("{}{regions}{calls}", meter.item),
        tiers(meter),
        unit(&meter.unit),
        facts.when.clone(),
        meter.provenance.as_of.clone(),
        meter.provenance.confidence.name().into(),
        format!("{source}{note}"),
    ]);
}

/// Builds the list of all prices of one offer, `NAME` or `NAME@REGION`: those of `date` if `dated` is true,
/// else those of all periods.
///
/// # Errors
/// [`BookError`] if the offer or the region is unknown, or if an item has no price on that date.
pub fn one(prices: &Prices, name: &str, date: Date, dated: bool) -> Result<Document, BookError> {
    let (name, region) = name.split_once('@').map_or((name, None), |(o, r)| (o, Some(r)));
    let tariff = prices.tariff(name, region, date)?;
    let columns = ["item", "price", "per", "valid", "as of", "confidence", "source"];
    let mut table = Table::new(format!("{} ({name})", tariff.title), &columns);
    if dated {
        for meter in tariff.meters.iter().chain(&tariff.instances).chain(&tariff.functions) {
            row(
                &mut table,
                &PriceFacts {
                    when: format!("on {date}"),
                    book: None,
                    regions: Vec::new(),
                    meter: meter.clone(),
                },
            );
        }
    } else {
        let here = |facts: &&PriceFacts| {
            region.is_none_or(|region| facts.regions.is_empty() || facts.regions.iter().any(|r| r == region))
        };
        prices.history(name).iter().filter(here).for_each(|facts| row(&mut table, facts));
    }
    let rule = |rule: &PriceRule| {
        let from = &rule.provenance;
        format!(
            "rule: {} ({} confidence; {}, {})",
            rule.words,
            from.confidence.name(),
            from.source,
            from.as_of
        )
    };
    let mut notes: Vec<String> = tariff.rules.descriptions.iter().map(rule).collect();
    if !tariff.sells_compute && tariff.meter(Measure::Storage).is_some() {
        notes.push(
            "no compute is sold near the store: all reads are egress unless the workload specifies egress"
                .into(),
        );
    }
    notes.extend(
        tariff.network.iter().map(|network| format!("outgoing traffic is billed at the prices of {network}")),
    );
    notes.push(format!("a month has {} hours", tariff.rules.month_hours));
    Ok(Document { tables: vec![table], notes, ..Document::default() })
}
