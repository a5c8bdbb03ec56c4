//! Document with the bills of several providers for one workload.

use serde_json::json;

use super::dollars;
use plimsoll_base::provider::Confidence;
use plimsoll_base::units::grouped;
use plimsoll_cost::bill::{Bill, BillPart};
use plimsoll_cost::bills::Bills;
use plimsoll_cost::money::{Usd, decimal, decimal_text};
use plimsoll_document::{Document, Table};

/// Formats a decimal for people: with thousands separators, rounded to three decimal places, or to three
/// significant digits if it is small.
pub fn quantity(text: &str) -> String {
    let Some(pico) = decimal(text) else { return text.to_string() };
    let mut places = 3;
    while places < 12 && pico > 0 && pico < 100 * 10u128.pow(12 - places) {
        places += 1;
    }
    let unit = 10u128.pow(12 - places);
    let rounded = (pico + unit / 2) / unit * unit;
    let text = decimal_text(rounded as i128, 0);
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let grouped = grouped(whole);
    if fraction.is_empty() { grouped } else { format!("{grouped}.{fraction}") }
}

/// Formats a unit for people: `GiB-month`, `1,000 requests`.
pub fn unit(text: &str) -> String {
    match text.split_once(' ') {
        Some((count, name)) => format!("{} {name}", quantity(count)),
        None => text.to_string(),
    }
}

/// Returns the parts that occur in at least one of the bills.
pub fn parts(bills: &[&Bill]) -> Vec<BillPart> {
    BillPart::ALL
        .into_iter()
        .filter(|p| bills.iter().any(|b| b.lines.iter().any(|l| l.part == Some(*p))))
        .collect()
}

/// Builds the table of all bills, cheapest first.
fn ranking(bills: &Bills) -> Table {
    let sorted = bills.by_total();
    let parts = parts(&sorted);
    let names: Vec<String> = parts.iter().map(|p| format!("{}#", p.name())).collect();
    let columns: Vec<&str> = ["provider", "region"]
        .into_iter()
        .chain(names.iter().map(String::as_str))
        .chain(["per month#", "x the cheapest#"])
        .collect();
    let mut table = Table::new("Bills, cheapest first", &columns);
    let least = sorted.first().map_or(Usd::ZERO, |b| b.total_usd);
    for bill in &sorted {
        let mut row = vec![bill.provider.clone(), bill.region.clone()];
        row.extend(parts.iter().map(|p| match bill.lines.iter().any(|l| l.part == Some(*p)) {
            true => bill.part(*p).rounded(),
            false => "-".into(),
        }));
        row.push(bill.total_usd.rounded());
        row.push(times(bill.total_usd, least));
        table.row(row);
    }
    table
}

/// Formats the ratio of two amounts, such as `1.25`; `-` if the second is zero.
pub fn times(amount: Usd, of: Usd) -> String {
    if of == Usd::ZERO { "-".into() } else { format!("{:.2}", amount.dollars() / of.dollars()) }
}

/// Builds the table of one bill, line by line.
pub fn itemised(bill: &Bill) -> Table {
    let head = format!("{} ({}, {}), prices of {}", bill.title, bill.provider, bill.region, bill.as_of);
    let mut table = Table::new(
        head,
        &["item", "quantity#", "unit", "unit price#", "amount#", "price as of", "confidence"],
    );
    for line in &bill.lines {
        table.row([
            line.item.clone(),
            quantity(&line.quantity),
            unit(&line.unit),
            format!("${}", line.unit_price_usd),
            line.amount_usd.rounded(),
            line.as_of.clone(),
            line.confidence.name().to_string(),
        ]);
    }
    table.row(["total", "", "", "", &bill.total_usd.rounded(), "", ""]);
    table
}

/// Builds the table of all lines and totals for programs, without rounding. Providers without a bill have a row with
/// the reason.
fn figures(bills: &Bills) -> Table {
    let columns = [
        "provider",
        "region",
        "item",
        "part",
        "quantity",
        "unit",
        "unit_price_usd",
        "amount_usd",
        "source",
        "as_of",
        "confidence",
        "note",
    ];
    let mut table = Table::new("", &columns);
    for bill in &bills.bills {
        for line in &bill.lines {
            table.row([
                bill.provider.clone(),
                bill.region.clone(),
                line.item.clone(),
                line.part.map_or("", BillPart::name).into(),
                line.quantity.clone(),
                line.unit.clone(),
                line.unit_price_usd.to_string(),
                line.amount_usd.to_string(),
                line.source.clone(),
                line.as_of.clone(),
                line.confidence.name().into(),
                line.note.clone().unwrap_or_default(),
            ]);
        }
        let total = bill.total_usd.to_string();
        let (provider, region, as_of) = (&bill.provider, &bill.region, &bill.as_of);
        table.row([provider, region, "total", "total", "", "", "", &total, "", as_of, "", ""]);
    }
    for left_out in &bills.not_priced {
        let (provider, reason) = (&left_out.provider, &left_out.reason);
        table.row([provider, "", "left out", "left out", "", "", "", "", "", "", "", reason]);
    }
    table
}

/// Returns a warning that lists the items with prices of low confidence; `None` if there are none.
pub fn doubts(bill: &Bill) -> Option<String> {
    let items = bill.doubtful();
    (!items.is_empty())
        .then(|| format!("{}: low confidence in the price of {}", bill.provider, items.join("; ")))
}

/// Returns the sources of the prices, the remarks about them, and the rules that affected the bills.
pub fn sources(bills: &[&Bill]) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for bill in bills {
        let mut seen: Vec<&str> = Vec::new();
        for line in &bill.lines {
            if !seen.contains(&line.source.as_str()) {
                seen.push(&line.source);
            }
        }
        out.push(format!("{}: {}", bill.provider, seen.join("; ")));
        let mut noted: Vec<&str> = Vec::new();
        for line in bill.lines.iter().filter(|l| l.note.is_some()) {
            let note = line.note.as_deref().unwrap_or_default();
            if !noted.contains(&note) {
                noted.push(note);
                let item = line.item.trim_end_matches(", free allowance");
                out.push(format!("{}, {item}: {note}", bill.provider));
            }
        }
        out.extend(bill.notes.iter().map(|note| format!("{}: {note}", bill.provider)));
    }
    out
}

fn answer(bills: &Bills) -> String {
    let sorted = bills.by_total();
    match sorted.as_slice() {
        [] => "No bill can be computed for this workload.".into(),
        [only] => format!("{} costs {} a month.", only.title, only.total_usd.rounded()),
        [first, second, ..] => {
            let dearest = sorted[sorted.len() - 1];
            let same = first.total_usd == second.total_usd;
            let lead = if same {
                format!(
                    "{} and {} cost {} a month each",
                    first.title,
                    second.title,
                    first.total_usd.rounded()
                )
            } else {
                format!("{} is the cheapest at {} a month", first.title, first.total_usd.rounded())
            };
            let last = match first.total_usd == dearest.total_usd || sorted.len() == 2 && same {
                true => String::new(),
                false => {
                    format!("; {} is the most expensive at {}", dearest.title, dearest.total_usd.rounded())
                }
            };
            format!("{lead}{last}.")
        }
    }
}

/// Level of detail of the bills in a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Items {
    /// Parts of each bill in one table.
    Parts,
    /// Every line of each bill.
    Lines,
    /// Every line of each bill, collapsed until the reader opens it.
    Folded,
}

/// Builds the document of the bills for a workload that `what` describes.
pub fn document(bills: &Bills, what: Vec<String>, items: Items) -> Document {
    let sorted = bills.by_total();
    let mut tables = Vec::new();
    if sorted.len() > 1 {
        tables.push(ranking(bills));
    }
    let every = items != Items::Parts || sorted.len() == 1;
    if every {
        let fold = items == Items::Folded && sorted.len() > 1;
        tables.extend(sorted.iter().map(|bill| if fold { itemised(bill).folded() } else { itemised(bill) }));
    }
    let mut notes: Vec<String> = bills.assumptions.iter().map(|a| format!("assumed: {a}")).collect();
    notes.extend(bills.not_priced.iter().map(|n| format!("left out: {}", n.reason)));
    if every {
        notes.extend(sources(&sorted));
    } else if !sorted.is_empty() {
        notes.push("--json has every line with its source; --provider NAME selects a provider".into());
    }
    let parts = parts(&sorted);
    let amounts = |b: &&Bill| parts.iter().map(|p| dollars(b.part(*p))).collect::<Vec<f64>>();
    let low = |b: &Bill| b.lines.iter().any(|l| l.confidence == Confidence::Low);
    Document {
        links: Vec::new(),
        title: "Monthly cost".into(),
        what,
        answer: answer(bills),
        premise: String::new(),
        warnings: sorted.iter().filter(|b| low(b)).filter_map(|b| doubts(b)).collect(),
        tables,
        notes,
        figures: figures(bills),
        charts: json!({ "bills": {
            "parts": parts.iter().map(|p| p.name()).collect::<Vec<_>>(),
            "providers": sorted.iter().map(|b| &b.title).collect::<Vec<_>>(),
            "amounts": sorted.iter().map(amounts).collect::<Vec<_>>(),
        }}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_quantities_keep_three_significant_digits() {
        assert_eq!(quantity("9313225.746154785156"), "9,313,225.746");
        assert_eq!(quantity("12000"), "12,000");
        assert_eq!(quantity("0.00012345"), "0.000123");
        assert_eq!(quantity("0.000000012345"), "0.0000000123");
        assert_eq!(quantity("9313.2257"), "9,313.226");
        assert_eq!(quantity("0.5"), "0.5");
    }
}
