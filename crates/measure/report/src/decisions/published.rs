//! Document with published costs, compared with the real bills and with the document's own constants.

use serde_json::json;

use super::{bills::times, dollars};
use plimsoll_cost::claims::{Beside, Checked};
use plimsoll_cost::money::Usd;
use plimsoll_document::{Document, Table};

/// Formats a value of a claim: dollars, or a ratio.
fn claim_value(checked: &Checked, value: Usd) -> String {
    if checked.ratio { format!("{:.3}", value.dollars()) } else { value.cents() }
}

fn signed(amount: Usd) -> String {
    if amount > Usd::ZERO { format!("+{}", amount.cents()) } else { amount.cents() }
}

fn difference(beside: &Beside) -> Table {
    let (real, today) = (&beside.real, &beside.today);
    let now = match real.as_of == today.as_of {
        true => String::new(),
        false => format!("; {} at prices of {}", today.total_usd.cents(), today.as_of),
    };
    let head = format!(
        "{}: {} as published, {} at real prices of {} ({} times as much){now}",
        beside.published.title,
        beside.published.total_usd.cents(),
        real.total_usd.cents(),
        real.as_of,
        times(real.total_usd, beside.published.total_usd)
    );
    let (then, now) = (format!("real, {}#", real.as_of), format!("real, {}#", today.as_of));
    let mut table = Table::new(head, &["line", "as published#", &then, "difference#", &now, "reason"]);
    for d in &beside.differences {
        table.row([
            d.line,
            &d.published_usd.cents(),
            &d.real_usd.cents(),
            &signed(d.difference_usd),
            &d.today_usd.cents(),
            d.why.as_deref().unwrap_or(""),
        ]);
    }
    let (published, real) = (beside.published.total_usd, beside.real.total_usd);
    let today = beside.today.total_usd.cents();
    table.row(["total", &published.cents(), &real.cents(), &signed(real - published), &today, ""]);
    table
}

fn claims(checked: &[Checked]) -> Table {
    let holding = checked.iter().filter(|c| c.holds).count();
    let head =
        format!("{holding} of {} printed costs follow from the document's own constants", checked.len());
    let columns = ["", "claim", "as printed#", "follows#", "real prices#", "today's prices#"];
    let mut table = Table::new(head, &columns);
    for c in checked {
        let verdict = if c.holds { "holds" } else { "WRONG" };
        let priced = |usd: Option<Usd>| usd.map_or("-".into(), |usd| claim_value(c, usd));
        let (real, today) = (priced(c.real), priced(c.today));
        let (printed, follows) = (claim_value(c, c.printed), claim_value(c, c.follows));
        table.row([verdict, &c.says, &printed, &follows, &real, &today]);
    }
    table
}

/// Builds the document. `head` is its title.
pub fn document(
    head: String,
    what: Vec<String>,
    beside: &[Beside],
    checked: &[Checked],
    notes: Vec<String>,
) -> Document {
    let mut figures =
        Table::new("", &["offer", "line", "published_usd", "real_usd", "difference_usd", "why", "today_usd"]);
    for b in beside {
        for d in &b.differences {
            figures.row([
                b.published.provider.clone(),
                d.line.into(),
                d.published_usd.to_string(),
                d.real_usd.to_string(),
                d.difference_usd.to_string(),
                d.why.clone().unwrap_or_default(),
                d.today_usd.to_string(),
            ]);
        }
    }
    for c in checked {
        figures.row([
            "claim",
            &c.says,
            &c.printed.to_string(),
            &c.follows.to_string(),
            &(c.follows - c.printed).to_string(),
            if c.holds { "holds" } else { "wrong" },
            "",
        ]);
    }
    let totals: Vec<String> =
        beside.iter().map(|b| format!("{} {}", b.published.title, b.published.total_usd.cents())).collect();
    let parts = ["as published", "real"];
    let mut tables: Vec<Table> = beside.iter().map(difference).collect();
    tables.push(claims(checked));
    Document {
        links: Vec::new(),
        title: head,
        what,
        answer: format!("{}.", totals.join("; ")),
        premise: String::new(),
        warnings: Vec::new(),
        tables,
        notes,
        figures,
        charts: json!({ "beside": {
            "offers": beside.iter().map(|b| &b.real.title).collect::<Vec<_>>(),
            "names": parts,
            "published": beside.iter().map(|b| dollars(b.published.total_usd)).collect::<Vec<_>>(),
            "real": beside.iter().map(|b| dollars(b.real.total_usd)).collect::<Vec<_>>(),
        }}),
    }
}
