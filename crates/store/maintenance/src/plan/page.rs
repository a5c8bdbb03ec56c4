//! The plan as a document for people.

use plimsoll_base::units::{format_volume, grouped};
use plimsoll_cost::money::Usd;
use plimsoll_document::{Document, Table};

use super::bill::Bill;

fn count(number: u64) -> String {
    grouped(&number.to_string())
}

/// Returns the answer in a sentence.
fn answer(bill: &Bill) -> String {
    if bill.moves + bill.packed == 0 {
        return "The rules would move nothing now.".into();
    }
    let mut parts = Vec::new();
    if bill.moves > 0 {
        parts.push(format!("move {} blobs", count(bill.moves)));
    }
    if bill.packed > 0 {
        parts.push(format!("pack {} bodies into {} pack files", count(bill.packed), count(bill.pack_files)));
    }
    let saving = bill.month_before_usd - bill.month_after_usd;
    let effect = if saving > Usd::ZERO {
        // `bill` computes this number whenever the saving is positive.
        let payback = bill.payback_months.unwrap_or(0.0);
        format!(
            "saves {} of storage a month, so it pays for itself after {payback:.1} months",
            saving.rounded()
        )
    } else if saving < Usd::ZERO {
        format!("adds {} of storage a month", (Usd::ZERO - saving).rounded())
    } else {
        "does not change the cost of storage".into()
    };
    format!(
        "The rules would {} with {} now. This costs {} and {effect}.",
        parts.join(" and "),
        format_volume(bill.bytes),
        bill.now_usd.rounded()
    )
}

fn cost_table(bill: &Bill) -> Table {
    let mut table = Table::new(
        "Cost by tier",
        &["tier", "prices", "moves now#", "early deletion#", "month before#", "month after#"],
    );
    let total = ["total".to_string(), String::new()].into_iter();
    for tier in &bill.tiers {
        let money = [tier.moves_usd, tier.early_deletion_usd, tier.month_before_usd, tier.month_after_usd];
        let first = [tier.tier.clone(), tier.offer.clone().unwrap_or_else(|| "none".into())];
        table.row(first.into_iter().chain(money.map(Usd::rounded)));
    }
    let early: Usd = bill.tiers.iter().map(|tier| tier.early_deletion_usd).sum();
    let money = [bill.now_usd - early, early, bill.month_before_usd, bill.month_after_usd];
    table.row(total.chain(money.map(Usd::rounded)));
    table
}

fn work_table(bill: &Bill) -> Table {
    let mut table = Table::new("Work by tier", &["tier", "requests", "written#", "read#", "egress#"]);
    for tier in &bill.tiers {
        let requests: Vec<String> =
            tier.requests.iter().map(|(call, number)| format!("{} {call}", count(*number))).collect();
        let bytes = [tier.uploaded, tier.downloaded, tier.egress].map(format_volume);
        table.row([tier.tier.clone(), requests.join(", ")].into_iter().chain(bytes));
    }
    table
}

fn stock_table(bill: &Bill) -> Table {
    let columns = ["tier", "blobs before#", "bytes before#", "blobs after#", "bytes after#"];
    let mut table = Table::new("Blobs by tier", &columns);
    for tier in &bill.tiers {
        let (before, after) = (tier.before, tier.after);
        let stock = [before, after].into_iter().flat_map(|s| [count(s.blobs), format_volume(s.bytes)]);
        table.row([tier.tier.clone()].into_iter().chain(stock));
    }
    table
}

fn journal_table(bill: &Bill) -> Table {
    let columns = ["writes per second#", "entries per second#", "month, at most#"];
    let mut table = Table::new("Journal", &columns);
    for cost in &bill.journal {
        let entries = format!("{:.1}", cost.entries_per_s);
        table.row([count(cost.writes_per_s), entries, cost.month_usd.rounded()]);
    }
    table
}

/// Builds the document. `variant` is the bill with changed settings and their description.
pub fn document(place: &str, date: &str, bill: &Bill, variant: Option<(&str, &Bill)>) -> Document {
    let shown = variant.map_or(bill, |(_, variant)| variant);
    let mut tables = vec![cost_table(shown), stock_table(shown)];
    if shown.moves + shown.packed > 0 {
        tables.insert(1, work_table(shown));
    }
    if !shown.journal.is_empty() {
        tables.push(journal_table(shown));
    }
    if let Some((changes, changed)) = variant {
        let columns = ["settings", "moves now#", "month after#", "pack files#"];
        let mut table = Table::new("Comparison", &columns);
        for (name, bill) in [("as in the file", bill), (changes, changed)] {
            let figures = [bill.now_usd.rounded(), bill.month_after_usd.rounded(), count(bill.pack_files)];
            table.row([name.to_string()].into_iter().chain(figures));
        }
        tables.insert(0, table);
    }
    let mut notes = shown.notes.clone();
    if shown.packed > 0 {
        notes.push(format!(
            "as separate blobs, writing these bodies would cost {} in requests",
            shown.alone_usd.rounded()
        ));
    }
    notes.extend([
        "list prices without free allowances; bodies in the catalog have no price".to_string(),
        "the gateway runs in the network of the first write tier; bytes between networks are egress"
            .to_string(),
        "each copy is read back before its source is deleted, and these reads are included".to_string(),
    ]);
    if shown.journal.len() > 1 {
        notes.push(
            "the journal needs fewer entries the longer its store takes for a PUT; these are for 5 ms".into(),
        );
    }
    Document {
        title: format!("Plan of {place}"),
        what: vec![format!("{} objects and versions; prices of {date}", count(shown.objects))],
        answer: answer(shown),
        tables,
        notes,
        figures: cost_table(shown),
        ..Document::default()
    }
}
