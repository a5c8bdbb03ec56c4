//! What others computed: their bill by their own constants beside the real one, and every cost that they print beside what it
//! follows from.

use std::collections::BTreeMap;

use jiff::civil::Date;
use serde::Serialize;

use super::bill::{Bill, BillError, Part, bill, meter_of};
use super::book::{BookError, Prices};
use super::money::{NotMoney, Usd};
use super::tariff::{Measure, Tariff};
use super::usage::Usage;
use super::workload::{Workload, WorkloadError};
use crate::provider::calls::Call;
use crate::published::{Claim, PRICES, Published, Term};

/// Why a document's costs could not be computed.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// It computes none.
    #[error("{name} computes no costs; {known} do")]
    None {
        /// The document.
        name: String,
        /// Those that do.
        known: String,
    },
    /// Its constants, or the real prices.
    #[error(transparent)]
    Book(#[from] BookError),
    /// Its workload.
    #[error("{0}")]
    Workload(#[from] WorkloadError),
    /// A bill.
    #[error(transparent)]
    Bill(#[from] BillError),
    /// The day of its prices.
    #[error("'{0}' is no date; write it as 2024-06-01")]
    Day(String),
    /// A number of its file.
    #[error(transparent)]
    Money(#[from] NotMoney),
    /// Its file.
    #[error("published: {0}")]
    File(#[from] toml::de::Error),
}

/// A line of a published bill beside the real one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Which line: `storage`, `put`, `get`, `upload`, `retrieval`, `egress`, `replication`.
    pub line: &'static str,
    /// By the document's own constants.
    pub published_usd: Usd,
    /// By real prices.
    pub real_usd: Usd,
    /// Real less published.
    pub difference_usd: Usd,
    /// By prices of the day that was asked about.
    pub today_usd: Usd,
    /// Why, where it is known.
    pub why: Option<String>,
}

/// A document's bill beside the real one.
#[derive(Debug, Clone, Serialize)]
pub struct Beside {
    /// By its own constants.
    pub published: Bill,
    /// By real prices of the document's day, or of the day that was asked about if it has none.
    pub real: Bill,
    /// By prices of the day that was asked about.
    pub today: Bill,
    /// Line by line, by real prices of the document's day.
    pub differences: Vec<Difference>,
}

/// A printed cost beside what it follows from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Checked {
    /// In words.
    pub says: String,
    /// Dollars, or a ratio, as printed.
    pub printed: Usd,
    /// By the document's own constants.
    pub follows: Usd,
    /// By real prices of the document's day.
    pub real: Option<Usd>,
    /// By prices of the day that was asked about.
    pub today: Option<Usd>,
    /// Whether it is a ratio.
    pub ratio: bool,
    /// Whether print and constants agree.
    pub holds: bool,
}

/// The document's own prices.
///
/// # Errors
/// [`ClaimError::None`] when it has none.
pub fn prices(document: &Published) -> Result<Prices, ClaimError> {
    let none = || ClaimError::None {
        name: document.name.clone(),
        known: PRICES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", "),
    };
    let (name, text) = PRICES.iter().find(|(name, _)| *name == document.name).ok_or_else(none)?;
    Ok(Prices::only(&format!("published/prices/{name}.toml"), text)?)
}

/// A workload from the words of a file.
///
/// # Errors
/// When there is a word that no workload has.
pub fn workload(words: &BTreeMap<String, String>) -> Result<Workload, ClaimError> {
    let table: toml::Table = words.iter().map(|(k, v)| (k.clone(), toml::Value::String(v.clone()))).collect();
    Ok(table.try_into()?)
}

/// The names of a bill's lines that a published one has too, with the real meter that each stands for.
fn lines(tariff: &Tariff) -> Vec<(&'static str, Option<&str>)> {
    let of = |call| meter_of(tariff, call).map(|m| m.item.as_str());
    let meter = |measure| tariff.meter(measure).map(|m| m.item.as_str());
    vec![
        ("storage", meter(Measure::Storage)),
        ("put", of(Call::PutObject)),
        ("get", of(Call::GetObject)),
        ("upload", meter(Measure::Upload)),
        ("retrieval", meter(Measure::Retrieval)),
        ("egress", meter(Measure::Egress)),
        ("replication", meter(Measure::CrossZone)),
    ]
}

fn amount(bill: &Bill, item: Option<&str>) -> Usd {
    let Some(item) = item else { return Usd::ZERO };
    let of = |line: &str| line.strip_suffix(", free allowance").unwrap_or(line) == item;
    bill.lines.iter().filter(|l| of(&l.item)).map(|l| l.amount_usd).sum()
}

/// The day whose prices a document computes with, or `date` if it has none.
///
/// # Errors
/// When its day is none.
pub fn day_of(document: &Published, date: Date) -> Result<Date, ClaimError> {
    let own = document.calculator.as_ref().and_then(|c| c.date.as_deref());
    own.map_or(Ok(date), |text| text.parse().map_err(|_| ClaimError::Day(text.into())))
}

/// The document's bills for a usage beside the real ones.
///
/// # Errors
/// See [`ClaimError`].
pub fn beside(
    document: &Published,
    real: &Prices,
    date: Date,
    usage: &Usage,
) -> Result<Vec<Beside>, ClaimError> {
    let own = prices(document)?;
    let Some(calculator) = &document.calculator else { return Ok(Vec::new()) };
    let day = day_of(document, date)?;
    let mut out = Vec::new();
    for stand in &calculator.offers {
        let theirs = own.tariff(&stand.published, None, date)?;
        let ours = [day, date].map(|day| real.tariff(&stand.real, None, day));
        let [then, now] = ours;
        let (then, now) = (then?, now?);
        let mut usage = usage.clone();
        if stand.replication_included {
            usage.cross_zone = 0;
        }
        let (published, real, today) = (bill(&theirs, &usage)?, bill(&then, &usage)?, bill(&now, &usage)?);
        let differences = lines(&theirs).into_iter().zip(lines(&then)).zip(lines(&now));
        let differences = differences.filter_map(|(((line, mine), (_, item)), (_, item_now))| {
            let (published_usd, real_usd) = (amount(&published, mine), amount(&real, item));
            let today_usd = amount(&today, item_now);
            let why = calculator.why.get(&format!("{}.{line}", stand.published)).cloned();
            let difference_usd = real_usd - published_usd;
            let said = [published_usd, real_usd, today_usd].iter().any(|usd| *usd != Usd::ZERO);
            let why = why.filter(|_| difference_usd != Usd::ZERO);
            said.then_some(Difference { line, published_usd, real_usd, difference_usd, today_usd, why })
        });
        let differences = differences.collect();
        out.push(Beside { published, real, today, differences });
    }
    Ok(out)
}

fn term(prices: &Prices, offer: &str, term: &Term, date: Date) -> Result<Usd, ClaimError> {
    let usage = workload(&term.workload)?.resolve()?.usage;
    let bill = bill(&prices.tariff(offer, None, date)?, &usage)?;
    let part = term.part.as_ref().and_then(|name| Part::ALL.into_iter().find(|p| p.name() == name));
    Ok(part.map_or(bill.total_usd, |p| bill.part(p)) * term.times)
}

/// A claim by some prices; `None` where they have no bill for it.
fn value(claim: &Claim, of: impl Fn(&Term) -> Result<Usd, ClaimError>) -> Result<Usd, ClaimError> {
    let sum = |terms: &[Term]| -> Result<Usd, ClaimError> { terms.iter().map(&of).sum::<Result<Usd, _>>() };
    let above = sum(&claim.terms)?;
    if !claim.ratio {
        return Ok(above);
    }
    let over = sum(&claim.over)?;
    Ok(Usd::from_pico((above.dollars() / over.dollars() * 1e12).round() as i128))
}

/// Every cost that a document prints, beside what it follows from.
///
/// # Errors
/// See [`ClaimError`].
pub fn check(document: &Published, real: &Prices, date: Date) -> Result<Vec<Checked>, ClaimError> {
    let (own, day) = (prices(document)?, day_of(document, date)?);
    let offers = document.calculator.as_ref().map(|c| c.offers.clone()).unwrap_or_default();
    let real_name =
        |name: &str| offers.iter().find(|s| s.published == name).map_or(name.to_string(), |s| s.real.clone());
    let checked = |claim: &Claim| {
        let printed = Usd::parse(&claim.printed)?;
        let follows = value(claim, |t| term(&own, &t.offer, t, date))?;
        let apart = (follows - printed).dollars().abs();
        Ok(Checked {
            says: claim.says.clone(),
            printed,
            follows,
            real: value(claim, |t| term(real, &real_name(&t.offer), t, day)).ok(),
            today: value(claim, |t| term(real, &real_name(&t.offer), t, date)).ok(),
            ratio: claim.ratio,
            holds: apart <= claim.tolerance * printed.dollars().abs(),
        })
    };
    document.claims.iter().map(checked).collect()
}
