//! Document with the cost of moving all stored data to another store.

use serde_json::json;

use super::bills::{doubts, parts, sources};
use super::dollars;
use plimsoll_base::units::{format_count, format_volume};
use plimsoll_cost::bill::Bill;
use plimsoll_cost::migrate::{Moved, Reason, Way};
use plimsoll_cost::money::Usd;
use plimsoll_cost::tariff::Tariff;
use plimsoll_document::{Document, Table};

/// Seconds in a day.
const DAY_S: f64 = 86_400.0;

/// A move and its cost.
#[derive(Debug)]
pub struct MigrationAnswer<'a> {
    /// Store that has the data.
    pub from: &'a Tariff,
    /// Store that gets the data.
    pub to: &'a Tariff,
    /// Cost of the move and what it saves.
    pub moved: &'a Moved,
    /// Way on which the data moves.
    pub way: Way,
    /// Seconds for which the source is kept after the copy.
    pub kept_s: u64,
}

/// Formats a length of time: `3.5 days`, `2.0 hours`.
pub fn time(seconds: f64) -> String {
    if seconds >= 2.0 * DAY_S {
        format!("{:.1} days", seconds / DAY_S)
    } else if seconds >= 7200.0 {
        format!("{:.1} hours", seconds / 3600.0)
    } else {
        format!("{:.0} minutes", (seconds / 60.0).max(1.0))
    }
}

fn answer(found: &MigrationAnswer<'_>) -> String {
    let MigrationAnswer { from, to, moved, .. } = found;
    let what = format!(
        "Moving {} from {} to {} costs {} once",
        format_volume(moved.bytes),
        from.title,
        to.title,
        moved.once_usd.rounded()
    );
    match moved.payback_months {
        Some(months) => {
            let from = match found.way {
                Way::Lifecycle => "the objects have changed their class",
                _ => "the source is deleted",
            };
            let saved = moved.saved_usd.rounded();
            format!(
                "{what} and saves {saved} a month: it has paid for itself {months:.1} months after {from}."
            )
        }
        None if moved.saved_usd == Usd::ZERO => {
            format!(
                "{what} and saves nothing: both stores cost {} a month.",
                moved.before.total_usd.rounded()
            )
        }
        None => format!(
            "{what} and never pays back: {} costs {} a month more.",
            to.title,
            (-moved.saved_usd).rounded()
        ),
    }
}

fn once(found: &MigrationAnswer<'_>) -> Table {
    let mut table = Table::new("Cost of the move, once", &["charged by", "for", "amount#"]);
    for item in &found.moved.items {
        table.row([item.provider.clone(), item.reason.name().into(), item.amount_usd.rounded()]);
    }
    table.row(["total".to_string(), String::new(), found.moved.once_usd.rounded()]);
    table
}

fn monthly(found: &MigrationAnswer<'_>) -> Table {
    let bills = [&found.moved.before, &found.moved.after];
    let parts = parts(&bills);
    let names: Vec<String> = parts.iter().map(|part| format!("{}#", part.name())).collect();
    let columns: Vec<&str> =
        ["store"].into_iter().chain(names.iter().map(String::as_str)).chain(["per month#"]).collect();
    let mut table = Table::new("Each month", &columns);
    let mut row = |name: &str, amounts: &dyn Fn(&Bill) -> Vec<Usd>, bill: &Bill| {
        let cells = amounts(bill).into_iter().map(|usd| usd.rounded());
        table.row(std::iter::once(name.to_string()).chain(cells).collect::<Vec<_>>());
    };
    let amounts =
        |bill: &Bill| parts.iter().map(|part| bill.part(*part)).chain([bill.total_usd]).collect::<Vec<Usd>>();
    row(&found.from.title, &amounts, bills[0]);
    row(&found.to.title, &amounts, bills[1]);
    table
}

fn notes(found: &MigrationAnswer<'_>) -> Vec<String> {
    let moved = found.moved;
    let lifecycle = "a lifecycle rule changes the class of the objects, without reads or writes";
    let mut out = if found.way == Way::Lifecycle { vec![lifecycle.to_string()] } else { vec![copied(found)] };
    let early = moved.items.iter().any(|item| item.reason == Reason::EarlyDeletion);
    if early || moved.order_saves_usd > Usd::ZERO {
        out.push(format!(
            "the cheapest order is the oldest objects first, as assumed here: the youngest first would cost {} more, \
             because minimum durations would be cut short",
            moved.order_saves_usd.rounded()
        ));
    }
    out
}

/// Describes the copy and its end.
fn copied(found: &MigrationAnswer<'_>) -> String {
    let moved = found.moved;
    format!(
        "the copy of {} objects takes {}; the source is deleted {} (--rate, --keep-source)",
        format_count(moved.objects),
        time(moved.copy_s as f64),
        match found.kept_s {
            0 => "then".to_string(),
            kept => format!("{} later", time(kept as f64)),
        }
    )
}

/// Builds the document of a move.
pub fn document(found: &MigrationAnswer<'_>, what: Vec<String>, mut assumed: Vec<String>) -> Document {
    let moved = found.moved;
    let bills = [&moved.before, &moved.after];
    let mut figures = Table::new("", &["provider", "for", "period", "amount_usd"]);
    for item in &moved.items {
        figures.row([
            item.provider.clone(),
            item.reason.name().into(),
            "once".into(),
            item.amount_usd.to_string(),
        ]);
    }
    for bill in bills {
        figures.row([bill.provider.clone(), "bill".into(), "month".into(), bill.total_usd.to_string()]);
    }
    let mut notes = notes(found);
    notes.append(&mut assumed);
    notes.extend(sources(&bills));
    Document {
        links: Vec::new(),
        title: format!("From {} to {}", found.from.title, found.to.title),
        what,
        answer: answer(found),
        premise: String::new(),
        warnings: bills.into_iter().filter_map(doubts).collect(),
        tables: vec![once(found), monthly(found)],
        notes,
        figures,
        charts: json!({ "bills": {
            "parts": parts(&bills).iter().map(|p| p.name()).collect::<Vec<_>>(),
            "providers": [&found.from.title, &found.to.title],
            "amounts": bills
                .iter()
                .map(|b| parts(&bills).iter().map(|p| dollars(b.part(*p))).collect::<Vec<f64>>())
                .collect::<Vec<_>>(),
        }}),
    }
}
