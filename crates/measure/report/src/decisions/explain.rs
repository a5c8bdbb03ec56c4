//! Document that explains a bill by the prices of the books.

use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::Date;

use super::bills::quantity;
use super::log_prefixes::{LogPrefixes, MAX_ROWS, requests};
use plimsoll_base::units::{format_count, format_volume};
use plimsoll_bills::explain::changes::ClassChange;
use plimsoll_bills::explain::elsewhere::Elsewhere;
use plimsoll_bills::explain::explained::Explained;
use plimsoll_bills::explain::explained_line::ExplainedLine;
use plimsoll_bills::explain::inventory::Inventory;
use plimsoll_cost::money::Usd;
use plimsoll_document::{Document, Table};
use serde::Serialize;

/// A bill, and what would change it, as `plimsoll cost explain --json` prints them.
#[derive(Debug, Serialize)]
pub struct BillReport {
    /// The bill and the list prices of its usage.
    #[serde(flatten)]
    pub bill: Explained,
    /// Objects and their cost by prefix, the most expensive one first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prefixes: Vec<PrefixRow>,
    /// Requests of logs by prefix; null without logs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<LogPrefixes>,
    /// Other storage classes, by the amount saved, the largest first.
    pub changes: Vec<ClassChange>,
    /// Other providers, the cheapest first.
    pub elsewhere: Vec<Elsewhere>,
}

/// Objects of one prefix and class.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PrefixRow {
    /// Bucket and prefix.
    pub prefix: String,
    /// Storage class, with the access tier if there is one.
    pub class: String,
    /// Number of objects.
    pub objects: u64,
    /// Sum of their sizes.
    pub bytes: u64,
    /// Number of objects below 128 KiB.
    pub small_objects: u64,
    /// Storage of a month, as its share of the bill's storage in the class; null if the bill has none.
    pub storage_usd: Option<Usd>,
}

/// Returns the objects of an inventory by prefix. `cost_of` is the cost of a month of storage in a class; a prefix has
/// its share by bytes.
pub fn prefix_rows(inventory: &Inventory, cost_of: &dyn Fn(&str, u64) -> Option<Usd>) -> Vec<PrefixRow> {
    let classes = inventory.classes();
    let mut rows: Vec<PrefixRow> = inventory
        .by_prefix()
        .map(|(class, prefix, objects)| {
            let all = classes.get(class).map_or(0, |all| all.bytes);
            let share = |usd: Usd| match all {
                0 => Usd::ZERO,
                all => Usd::from_pico(usd.pico().saturating_mul(objects.bytes.into()) / i128::from(all)),
            };
            PrefixRow {
                prefix,
                class: class.to_string(),
                objects: objects.objects,
                bytes: objects.bytes,
                small_objects: objects.small_objects,
                storage_usd: cost_of(class, all).map(share),
            }
        })
        .collect();
    rows.sort_by_key(|row| std::cmp::Reverse((row.storage_usd, row.bytes)));
    rows
}

fn prefixes(rows: &[PrefixRow]) -> Option<Table> {
    let columns = ["prefix", "class", "objects#", "below 128 KiB#", "data#", "storage#"];
    let mut table = Table::new("By prefix", &columns);
    for row in rows.iter().take(PREFIXES) {
        table.row([
            row.prefix.clone(),
            row.class.clone(),
            format_count(row.objects),
            format_count(row.small_objects),
            format_volume(row.bytes),
            amount(row.storage_usd),
        ]);
    }
    (!table.rows.is_empty()).then_some(table)
}

/// Formats a number of months.
fn months(months: Option<f64>) -> String {
    match months {
        Some(months) if months < 1000.0 => format!("{months:.1}"),
        Some(_) => "over 1,000".into(),
        None => "-".into(),
    }
}

/// Builds the table of other storage classes.
fn classes(changes: &[ClassChange]) -> Option<Table> {
    let columns = [
        "data",
        "from",
        "to",
        "a month now#",
        "first month#",
        "later#",
        "saves#",
        "once#",
        "pays back, months#",
        "if read less than#",
    ];
    let mut table = Table::new("Other storage classes, if nothing more is read", &columns);
    for change in changes.iter().filter(|change| change.saved().pico().abs() >= 10_000_000_000) {
        let data = match change.objects {
            Some(objects) => {
                format!(
                    "{} in {} objects {}",
                    format_volume(change.bytes),
                    format_count(objects),
                    change.which
                )
            }
            None => format_volume(change.bytes),
        };
        table.row([
            data,
            change.from.name().into(),
            change.to.name().into(),
            change.now_usd.cents(),
            change.first_month_usd.cents(),
            change.later_usd.cents(),
            change.saved().cents(),
            amount(change.once_usd),
            months(change.payback_months),
            match change.break_even_reads {
                Some(share) => format!("{:.0}% a month", 100.0 * share),
                None if change.saved().pico() > 0 => "any".into(),
                None => "-".into(),
            },
        ]);
    }
    (!table.rows.is_empty()).then_some(table)
}

/// Builds the table of other providers.
fn others(elsewhere: &[Elsewhere]) -> Option<Table> {
    let mut table = Table::new(
        "Other providers, at list prices, for storage, egress and the requests with a price here",
        &["provider", "region", "per month#", "saves#", "move, once#", "pays back, months#"],
    );
    for other in elsewhere.iter().take(PROVIDERS) {
        table.row([
            other.provider.clone(),
            other.region.clone(),
            other.month_usd.cents(),
            other.saved_usd.cents(),
            amount(other.move_usd),
            months(other.payback_months),
        ]);
    }
    (!table.rows.is_empty()).then_some(table)
}

/// Returns a warning for each change that costs more, at once or for long.
fn traps(changes: &[ClassChange], days: i8) -> Vec<String> {
    let mut out = Vec::new();
    // Small amounts and rounding of a cent are no traps.
    let matters = |change: &&ClassChange| {
        let first = (change.first_month_usd - change.now_usd).pico();
        let lost = change.once_usd.filter(|_| change.saved().pico() <= 0).map_or(0, Usd::pico);
        change.now_usd.pico() > 1_000_000_000_000
            && first.max(lost).max(-change.saved().pico()) >= 10_000_000_000
    };
    for change in changes.iter().filter(matters) {
        let what =
            format!("{} from {} to {}", format_volume(change.bytes), change.from.name(), change.to.name());
        let what = if change.which == "all" { what } else { format!("{what} (objects {})", change.which) };
        if change.saved().pico() <= 0 {
            let more = (-change.saved()).cents();
            let once = change.once_usd.map_or(String::new(), |usd| format!(", and {} once", usd.cents()));
            out.push(format!("a rule that moves {what} costs {more} a month more{once}"));
        } else if change.first_month_usd > change.now_usd {
            let day = |usd: Usd| Usd::from_pico(usd.pico() / i128::from(days)).cents();
            let once = change.once_usd.map_or(String::new(), |usd| format!(", and {} once", usd.cents()));
            out.push(format!(
                "a rule that moves {what} costs {} a day instead of {} for the first 30 days{once}",
                day(change.first_month_usd),
                day(change.now_usd)
            ));
        }
    }
    out
}

/// Maximum number of rows of the tables of prefixes, providers and buckets, and of the other tables; the JSON has all.
const PREFIXES: usize = 20;
const PROVIDERS: usize = 8;
const RESOURCES: usize = 20;
const ROWS: usize = 40;

/// Returns an amount of the bill, or a dash.
fn amount(usd: Option<Usd>) -> String {
    usd.map_or("-".into(), Usd::cents)
}

fn share(part: Usd, of: Usd) -> String {
    match of.pico() {
        0 => "-".into(),
        _ => format!("{:.1}%", 100.0 * part.dollars() / of.dollars()),
    }
}

fn topics(found: &Explained) -> Table {
    let mut table = Table::new("By part", &["part", "cost#", "share#"]);
    let sum: Usd = found.topics().iter().map(|(_, usd)| *usd).sum();
    for (topic, usd) in found.topics() {
        table.row([topic.name().to_string(), usd.cents(), share(usd, sum)]);
    }
    table
}

fn lines(found: &Explained) -> Table {
    // The month is shown if it distinguishes lines.
    let with_month = found.has_months();
    let first: &[&str] = if with_month { &["month"] } else { &[] };
    let rest = ["usage", "region", "part", "quantity#", "unit", "billed#", "list price#", "difference#"];
    let columns: Vec<&str> = first.iter().copied().chain(rest).collect();
    let month = |month: &str| first.iter().map(|_| month.to_string()).collect::<Vec<_>>();
    let mut table = Table::new("By usage", &columns);
    for line in found.lines.iter().take(ROWS) {
        let difference = line.billed_usd.zip(line.listed_usd).map(|(billed, listed)| billed - listed);
        let cells = [
            line.usage.clone(),
            line.region.clone(),
            line.topic.name().into(),
            quantity_of(line),
            unit_of(line),
            amount(line.billed_usd),
            amount(line.listed_usd),
            amount(difference),
        ];
        let of = line.month.map_or("-".into(), |month| format!("{:04}-{:02}", month.year(), month.month()));
        table.row(month(&of).into_iter().chain(cells).collect::<Vec<_>>());
    }
    let billed = found.lines.iter().filter_map(|line| line.billed_usd).sum::<Usd>().cents();
    let listed = found.listed_usd.cents();
    let cells = ["total", "", "", "", "", &billed, &listed, ""].map(String::from);
    table.row(month("").into_iter().chain(cells).collect::<Vec<_>>());
    table
}

/// Formats the quantity of a line, or the quantity that its cost implies at list prices.
fn quantity_of(line: &ExplainedLine) -> String {
    match (line.quantity.as_deref(), line.implied, &line.price) {
        (Some(text), ..) => match text.strip_prefix('-') {
            Some(text) => format!("-{}", quantity(text)),
            None => quantity(text),
        },
        (None, Some(implied), Some(price)) => {
            let unit = if price.unit_base >= 1_000_000_000 { price.unit_base } else { 1 };
            format!("~{}", format_count((implied / u128::from(unit)) as u64))
        }
        _ => "-".into(),
    }
}

/// Returns the unit of the quantity of a line.
fn unit_of(line: &ExplainedLine) -> String {
    match (&line.quantity, &line.price) {
        (None, Some(price)) if line.implied.is_some() => match price.unit.split_once(' ') {
            Some((_, what)) => what.to_string(),
            None => price.unit.clone(),
        },
        _ => line.unit.clone(),
    }
}

fn residuals(found: &Explained) -> Option<Table> {
    // Without any quantity, nothing can be compared.
    if found.lines.iter().all(|line| line.quantity.is_none()) {
        return None;
    }
    let mut table = Table::new("Not explained by list prices", &["name", "reason", "amount#"]);
    for residual in found.residuals.iter().take(ROWS) {
        table.row([residual.name.clone(), residual.reason.to_string(), residual.usd.cents()]);
    }
    if table.rows.is_empty() {
        return None;
    }
    table.row(["total", "", &found.residual().cents()]);
    Some(table)
}

/// Builds the table of the costs by bucket.
fn resources(found: &Explained) -> Option<Table> {
    let mut table = Table::new("By bucket", &["bucket", "cost#", "share#"]);
    let sum: Usd = found.resources.iter().map(|resource| resource.usd).sum();
    for resource in found.resources.iter().take(RESOURCES) {
        table.row([resource.name.clone(), resource.usd.cents(), share(resource.usd, sum)]);
    }
    (table.rows.len() > 1).then_some(table)
}

/// Returns true if most days of a period have usage.
fn is_daily(first: Date, end: Date, days: usize) -> bool {
    let span = first.until(end).map_or(i32::MAX, |span| span.get_days());
    usize::try_from(span).is_ok_and(|span| span < 2 * days)
}

/// Returns the first day and the last whole day of a bill by days. The last day may be incomplete.
fn ends(lines: &[ExplainedLine]) -> Option<(Date, Date)> {
    let days: BTreeSet<Date> = lines.iter().flat_map(|line| line.days.keys().copied()).collect();
    let days: Vec<Date> = days.into_iter().collect();
    match days.as_slice() {
        // A bill by months has the first day of each.
        [first, .., last, end] if days.len() > 3 && is_daily(*first, *end, days.len()) => {
            Some((*first, *last))
        }
        _ => None,
    }
}

/// Builds the table of the largest changes between the first and the last whole day.
fn changes(found: &Explained) -> Option<Table> {
    let (first, last) = ends(&found.lines)?;
    let mut by_usage: BTreeMap<(&str, &str), (i128, i128)> = BTreeMap::new();
    for line in &found.lines {
        let on = |day: Date| line.days.get(&day).copied().unwrap_or(0);
        let sum = by_usage.entry((&line.usage, &line.region)).or_default();
        *sum = (sum.0 + on(first), sum.1 + on(last));
    }
    let mut rows: Vec<_> =
        by_usage.into_iter().filter(|(_, (a, b))| (b - a).abs() >= 5_000_000_000).collect();
    rows.sort_by_key(|(_, (a, b))| std::cmp::Reverse((b - a).abs()));
    let mut table = Table::new(
        format!("A day, at both ends: {first} and {last}"),
        &["usage", "region", "first day#", "last day#", "change#"],
    );
    for ((usage, region), (a, b)) in rows.into_iter().take(10) {
        let cents = |pico| Usd::from_pico(pico).cents();
        table.row([usage.to_string(), region.to_string(), cents(a), cents(b), cents(b - a)]);
    }
    (!table.rows.is_empty()).then_some(table)
}

/// Builds the table of all lines for programs, without rounding.
fn figures(found: &Explained) -> Table {
    let columns =
        ["month", "usage", "region", "part", "quantity", "unit", "billed_usd", "listed_usd", "source"];
    let mut table = Table::new("", &columns);
    let exact = |usd: Option<Usd>| usd.map_or(String::new(), |usd| usd.to_string());
    for line in &found.lines {
        table.row([
            line.month.map(|month| month.to_string()).unwrap_or_default(),
            line.usage.clone(),
            line.region.clone(),
            line.topic.name().into(),
            line.quantity.clone().unwrap_or_default(),
            line.unit.clone(),
            exact(line.billed_usd),
            exact(line.listed_usd),
            line.source.clone(),
        ]);
    }
    for residual in &found.residuals {
        let cells = ["", &residual.name, "", residual.reason, "", "", &residual.usd.to_string(), "", ""];
        table.row(cells);
    }
    table
}

fn answer(found: &Explained) -> String {
    let total = found.total_usd.cents();
    let listed = found.listed_usd.cents();
    let largest = found.topics().first().map(|(topic, usd)| format!("{} is {}", topic.name(), usd.cents()));
    let largest = largest.unwrap_or_else(|| "it has no object storage".into());
    if !found.is_billed {
        return format!("The usage costs {listed} at list prices; {largest}.");
    }
    let stored = match found.object_storage_usd == found.total_usd {
        true => format!("The bill is {total}, all for object storage"),
        false => {
            format!("The bill is {total}, with {} for object storage", found.object_storage_usd.cents())
        }
    };
    if found.lines.iter().all(|line| line.quantity.is_none()) {
        return format!("{stored}: {largest}.");
    }
    let residual = match found.residual() {
        usd if usd.pico() == 0 => "list prices explain all of it".to_string(),
        usd => format!("list prices explain {listed}, and {} remain", usd.cents()),
    };
    format!("{stored}: {largest}; {residual}.")
}

/// Returns why the objects of some classes are unknown although there is an inventory.
fn uncounted(changes: &[ClassChange]) -> String {
    let classes: BTreeSet<&str> =
        changes.iter().filter(|c| c.objects.is_none()).map(|c| c.from.name()).collect();
    let classes = classes.into_iter().collect::<Vec<_>>().join(" and ");
    format!(
        "the number and the sizes of the objects in {classes} are unknown, because the inventory has none, or the bill \
         has the class in several regions, which inventories do not name"
    )
}

/// Builds the document of a bill that `what` describes.
pub fn document(report: &BillReport, what: Vec<String>) -> Document {
    let found = &report.bill;
    let month = found.lines.iter().filter_map(|line| line.month).max();
    let mut notes = traps(&report.changes, month.map_or(30, Date::days_in_month));
    if found.month_now().is_none() {
        notes.push(
            "the bill covers a part of a month, so other classes and providers are not compared".into(),
        );
    }
    if report.changes.iter().any(|change| change.objects.is_none()) {
        let why = match report.prefixes.is_empty() {
            true => "without an inventory (--inventory), the number and the sizes of the objects are unknown"
                .into(),
            false => uncounted(&report.changes),
        };
        notes
            .push(format!("{why}: rules for objects below 128 KiB, monitoring and transitions are left out"));
    }
    let more = found.lines.len().saturating_sub(ROWS);
    if more > 0 {
        notes.push(format!("{more} more usages are in the JSON and CSV (--json, --format csv)"));
    }
    let cut = [
        (report.prefixes.len(), PREFIXES, "prefixes"),
        (report.elsewhere.len(), PROVIDERS, "providers"),
        (found.residuals.len(), ROWS, "unexplained amounts"),
        (found.resources.len(), RESOURCES, "buckets"),
        (report.requests.as_ref().map_or(0, |found| found.rows.len()), MAX_ROWS, "prefixes of the logs"),
    ];
    for (all, shown, what) in cut.into_iter().filter(|(all, shown, _)| all > shown) {
        notes.push(format!("{} more {what} are in the JSON (--json)", all - shown));
    }
    if found.lines.iter().any(|line| line.quantity.is_none()) {
        notes.push(
            "the bill has costs without quantities: those marked ~ follow from its costs at list prices, and storage \
             from its last whole day; a cost and usage report has both"
                .into(),
        );
    }
    if let Some((first, last)) = &found.period {
        notes.push(format!("usage from {first} to {last}"));
    }
    Document {
        title: "Bill".into(),
        what,
        answer: answer(found),
        tables: [
            Some(topics(found)),
            Some(lines(found)),
            residuals(found),
            resources(found),
            changes(found),
            prefixes(&report.prefixes),
            report.requests.as_ref().map(requests),
            classes(&report.changes),
            others(&report.elsewhere),
        ]
        .into_iter()
        .flatten()
        .collect(),
        notes,
        figures: figures(found),
        ..Document::default()
    }
}
