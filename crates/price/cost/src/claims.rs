//! Checks of published costs. Compares a document's bill, computed with its own constants, with the real bill,
//! and recomputes every cost that the document prints.

use std::collections::BTreeMap;

use jiff::civil::Date;
use serde::Serialize;

use super::bill::{Bill, BillPart, bill, meter_of};
use super::book::{BookError, Prices};
use super::charge::BillError;
use super::money::{AmountError, Usd};
use super::tariff::{Measure, Tariff};
use super::usage::Usage;
use super::workload::{Workload, WorkloadError};
use crate::published::{PRICES, Published, PublishedClaim, Term};
use plimsoll_base::provider::calls::Call;

/// Error while computing the costs of a document.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// The document computes no costs.
    #[error("{name} computes no costs; use one of {known}")]
    None {
        /// Name of the document.
        name: String,
        /// Documents that compute costs, separated by commas.
        known: String,
    },
    /// The constants of the document are invalid, or a real price is missing.
    #[error(transparent)]
    Book(#[from] BookError),
    /// The workload is invalid.
    #[error("{0}")]
    Workload(#[from] WorkloadError),
    /// A bill cannot be computed.
    #[error(transparent)]
    Bill(#[from] BillError),
    /// The date of the document's prices is invalid.
    #[error("'{0}' is not a date in the form YYYY-MM-DD, such as 2024-06-01")]
    Day(String),
    /// An amount in the document's file is invalid.
    #[error(transparent)]
    Money(#[from] AmountError),
    /// The workload in the document's file cannot be parsed.
    #[error("published: {0}")]
    File(#[from] toml::de::Error),
}

/// One line of a published bill, compared with the real bill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Name of the line: `storage`, `put`, `get`, `upload`, `retrieval`, `egress` or `replication`.
    pub line: &'static str,
    /// Amount with the document's own constants.
    pub published_usd: Usd,
    /// Amount at real prices of the document's date.
    pub real_usd: Usd,
    /// Real amount minus published amount.
    pub difference_usd: Usd,
    /// Amount at real prices of the requested date.
    pub today_usd: Usd,
    /// Reason for the difference; `None` if it is unknown.
    pub why: Option<String>,
}

/// A document's bill, compared with the real bill.
#[derive(Debug, Clone, Serialize)]
pub struct Beside {
    /// Bill with the document's own constants.
    pub published: Bill,
    /// Bill at real prices of the document's date, or of the requested date if the document has none.
    pub real: Bill,
    /// Bill at real prices of the requested date.
    pub today: Bill,
    /// Differences between `published` and `real`, line by line.
    pub differences: Vec<Difference>,
}

/// A printed cost, compared with the recomputed value.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Checked {
    /// Claim of the document, in words.
    pub says: String,
    /// Value as printed: dollars, or a ratio.
    pub printed: Usd,
    /// Value recomputed with the document's own constants.
    pub follows: Usd,
    /// Value at real prices of the document's date; `None` if there is no bill.
    pub real: Option<Usd>,
    /// Value at real prices of the requested date; `None` if there is no bill.
    pub today: Option<Usd>,
    /// True if the value is a ratio.
    pub ratio: bool,
    /// True if `printed` and `follows` agree within the tolerance of the claim.
    pub holds: bool,
}

/// Returns the document's own prices.
///
/// # Errors
/// [`ClaimError::None`] if it has none; [`ClaimError::Book`] if they are invalid.
pub fn prices(document: &Published) -> Result<Prices, ClaimError> {
    let none = || ClaimError::None {
        name: document.name.clone(),
        known: PRICES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", "),
    };
    let (name, text) = PRICES.iter().find(|(name, _)| *name == document.name).ok_or_else(none)?;
    Ok(Prices::only(&format!("published/prices/{name}.toml"), text)?)
}

/// Builds a workload from the keys and values in a document's file.
///
/// # Errors
/// [`ClaimError::File`] if a key is not a field of a workload.
pub fn workload(words: &BTreeMap<String, String>) -> Result<Workload, ClaimError> {
    let table: toml::Table = words.iter().map(|(k, v)| (k.clone(), toml::Value::String(v.clone()))).collect();
    Ok(table.try_into()?)
}

/// Returns the names of the lines of a published bill, each with the item of the tariff that it corresponds to.
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

/// Returns the date of the prices that a document uses, or `date` if it states none.
///
/// # Errors
/// [`ClaimError::Day`] if the document states an invalid date.
pub fn day_of(document: &Published, date: Date) -> Result<Date, ClaimError> {
    let own = document.calculator.as_ref().and_then(|c| c.date.as_deref());
    own.map_or(Ok(date), |text| text.parse().map_err(|_| ClaimError::Day(text.into())))
}

/// Returns the usage of a calculator whose replication option is on: all stored data is copied to another zone.
fn replicated(usage: &Usage) -> Usage {
    Usage { cross_zone: usage.stored, ..usage.clone() }
}

/// Returns the real usage of such a copy: a second bucket in another zone, to which every object is written, too.
fn with_copy(usage: &Usage) -> Usage {
    let mut copied = replicated(usage);
    (copied.stored, copied.stored_peak) = (2 * usage.stored, 2 * usage.stored_peak);
    copied.arriving = usage.arriving.map(|bytes| 2 * bytes);
    copied.uploaded = 2 * usage.uploaded;
    for call in
        [Call::PutObject, Call::CreateMultipartUpload, Call::UploadPart, Call::CompleteMultipartUpload]
    {
        copied.calls.add(call, usage.calls.get(call));
    }
    copied
}

/// Computes the document's bills for a usage, and the real bills to compare them with. If `replicates` is true, the
/// replication option of the document's calculator is on.
///
/// # Errors
/// See [`ClaimError`].
pub fn beside(
    document: &Published,
    real: &Prices,
    date: Date,
    usage: &Usage,
    replicates: bool,
) -> Result<Vec<Beside>, ClaimError> {
    let own = prices(document)?;
    let Some(calculator) = &document.calculator else { return Ok(Vec::new()) };
    let day = day_of(document, date)?;
    let mut out = Vec::new();
    for stand in &calculator.offers {
        let constants = own.tariff(&stand.published, None, date)?;
        let [then, now] = [day, date].map(|day| real.tariff(&stand.real, None, day));
        let (then, now) = (then?, now?);
        let (stated, usage) = match replicates && !stand.replication_included {
            true => (replicated(usage), with_copy(usage)),
            false => (usage.clone(), usage.clone()),
        };
        let (published, real, today) =
            (bill(&constants, &stated)?, bill(&then, &usage)?, bill(&now, &usage)?);
        let differences = lines(&constants).into_iter().zip(lines(&then)).zip(lines(&now));
        let differences = differences.filter_map(|(((line, own_item), (_, item)), (_, item_now))| {
            let (published_usd, real_usd) = (amount(&published, own_item), amount(&real, item));
            let today_usd = amount(&today, item_now);
            let why = calculator.why.get(&format!("{}.{line}", stand.published)).cloned();
            let difference_usd = real_usd - published_usd;
            let is_used = [published_usd, real_usd, today_usd].iter().any(|usd| *usd != Usd::ZERO);
            let why = why.filter(|_| difference_usd != Usd::ZERO);
            is_used.then_some(Difference { line, published_usd, real_usd, difference_usd, today_usd, why })
        });
        let differences = differences.collect();
        out.push(Beside { published, real, today, differences });
    }
    Ok(out)
}

fn term(prices: &Prices, offer: &str, term: &Term, date: Date) -> Result<Usd, ClaimError> {
    let usage = workload(&term.workload)?.resolve()?.usage;
    let bill = bill(&prices.tariff(offer, None, date)?, &usage)?;
    let part = term.part.as_ref().and_then(|name| BillPart::ALL.into_iter().find(|p| p.name() == name));
    Ok(part.map_or(bill.total_usd, |p| bill.part(p)) * term.times)
}

/// Returns the value of a claim: the sum of its terms, divided by a second sum if the claim is a ratio.
fn value(claim: &PublishedClaim, of: impl Fn(&Term) -> Result<Usd, ClaimError>) -> Result<Usd, ClaimError> {
    let sum = |terms: &[Term]| -> Result<Usd, ClaimError> { terms.iter().map(&of).sum::<Result<Usd, _>>() };
    let above = sum(&claim.terms)?;
    if !claim.ratio {
        return Ok(above);
    }
    let over = sum(&claim.over)?;
    Ok(Usd::from_pico((above.dollars() / over.dollars() * 1e12).round() as i128))
}

/// Recomputes every cost that a document prints.
///
/// # Errors
/// See [`ClaimError`].
pub fn check(document: &Published, real: &Prices, date: Date) -> Result<Vec<Checked>, ClaimError> {
    let (own, day) = (prices(document)?, day_of(document, date)?);
    let offers = document.calculator.as_ref().map(|c| c.offers.clone()).unwrap_or_default();
    let real_name =
        |name: &str| offers.iter().find(|s| s.published == name).map_or(name.to_string(), |s| s.real.clone());
    let checked = |claim: &PublishedClaim| {
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
