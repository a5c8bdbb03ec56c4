//! Benchmark results that others have published about object stores, as data: figures with their source, date and
//! environment, known errors, and relations that must hold between the figures. They are in `published/*.toml`;
//! [`check`] recomputes the relations.
//!
//! Plimsoll did not measure these figures, and every output that shows them states that.

pub mod check;

use std::collections::BTreeMap;

use serde::Deserialize;

/// Name and text of each published document.
const BUILT_IN: &[(&str, &str)] = &[
    ("express-vs-r2", include_str!("../../published/express-vs-r2.toml")),
    ("r2-bench", include_str!("../../published/r2-bench.toml")),
    ("large-uploads", include_str!("../../published/large-uploads.toml")),
    ("express-sync", include_str!("../../published/express-sync.toml")),
    ("tigris-ycsb", include_str!("../../published/tigris-ycsb.toml")),
];

/// Price books with the constants of documents that compute costs, as pairs of document name and text.
pub const PRICES: &[(&str, &str)] = &[
    ("express-vs-r2", include_str!("../../published/prices/express-vs-r2.toml")),
    ("large-uploads", include_str!("../../published/prices/large-uploads.toml")),
];

/// A published document.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Name on the command line.
    pub name: String,
    /// Title of the document.
    pub title: String,
    /// Author or project, and place of publication.
    pub source: String,
    /// Date of publication, as far as it is known.
    pub date: String,
    /// Number on the command line, an alternative to the name.
    pub number: String,
    /// Tools, machines and workload of the measurement, as far as the document states them.
    pub environment: String,
    /// Known errors in the document, in words.
    pub errors: Vec<String>,
    /// Figures of the document.
    #[serde(rename = "row")]
    pub rows: Vec<PublishedRow>,
    /// Relations that must hold between the figures.
    #[serde(rename = "relation", default)]
    pub relations: Vec<Relation>,
    /// Offers in the price books that correspond to the stores of the document, by the store name in its rows.
    #[serde(default)]
    pub stores: BTreeMap<String, String>,
    /// Cost calculation of the document; `None` if it has none.
    pub calculator: Option<Calculator>,
    /// Costs that the document states.
    #[serde(rename = "claim", default)]
    pub claims: Vec<PublishedClaim>,
}

/// Cost calculation of a document. Its constants are a price book in `published/prices/`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calculator {
    /// Workload of the month that the document computes, with the keys of a workload file.
    pub workload: BTreeMap<String, String>,
    /// Offers of the document and the real offers that correspond to them.
    pub offers: Vec<OfferMapping>,
    /// Date of the prices, if the document states one. Real prices are then shown for that date and for today.
    pub date: Option<String>,
    /// True if the document's calculator has an option that replicates all stored data to another zone.
    #[serde(default)]
    pub replication: bool,
    /// Reason why a line differs from the real bill, by offer and line, such as `r2.storage`.
    #[serde(default)]
    pub why: BTreeMap<String, String>,
}

/// An offer of a document and the real offer that corresponds to it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfferMapping {
    /// Name in the document's price book.
    pub published: String,
    /// Name in the real price books.
    pub real: String,
    /// True if replication costs nothing at this offer, because it is built in.
    #[serde(default)]
    pub replication_included: bool,
}

/// A cost that a document states, and the bills from which it can be recomputed.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedClaim {
    /// Statement of the cost, in words.
    pub says: String,
    /// Dollars, or a ratio, as the document states it.
    pub printed: String,
    /// True if the value is a ratio.
    #[serde(default)]
    pub ratio: bool,
    /// Bills that are added.
    pub terms: Vec<Term>,
    /// Bills whose sum divides the first sum; empty for no division.
    #[serde(default)]
    pub over: Vec<Term>,
    /// Maximum relative difference between the stated and the recomputed value.
    pub tolerance: f64,
}

/// A bill, or one part of a bill.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Term {
    /// Name of the offer in the document's price book.
    pub offer: String,
    /// Part of the bill, such as `egress`; `None` for the total.
    pub part: Option<String>,
    /// Workload of the month that is billed.
    pub workload: BTreeMap<String, String>,
    /// Factor by which the bill is multiplied; negative to subtract it.
    #[serde(default = "once")]
    pub times: i64,
}

fn once() -> i64 {
    1
}

/// Figures that belong together. The name of each figure ends in its unit.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct PublishedRow {
    /// Name of the row.
    pub label: String,
    /// Store that was measured; empty if the row is about none.
    #[serde(default)]
    pub store: String,
    /// Operation, by its name in Plimsoll; empty if the row is about none.
    #[serde(default)]
    pub operation: String,
    /// Part of the workload.
    #[serde(default)]
    pub workload: String,
    /// Client machine, if the document has several.
    #[serde(default)]
    pub client: String,
    /// Figures by name, such as `p50_ms` or `rate_per_s`.
    #[serde(flatten)]
    pub figures: BTreeMap<String, f64>,
}

impl Published {
    /// Returns the published latency percentiles of an operation on a store, in ascending order, as pairs of the
    /// quantile (0 to 1) and milliseconds.
    pub fn percentiles(&self, store: &str, operation: &str) -> Vec<(f64, f64)> {
        let mut out: Vec<(f64, f64)> = Vec::new();
        let rows = self.rows.iter().filter(|r| r.store == store && r.operation == operation);
        // A document may list a store several times, measured from several places. The first row is used.
        for (name, value) in rows.take(1).flat_map(|r| &r.figures) {
            let (scale, name) = match (name.strip_suffix("_ms"), name.strip_suffix("_s")) {
                (Some(name), _) => (1.0, name),
                (None, Some(name)) => (1e3, name),
                _ => continue,
            };
            let percent: Option<f64> = name.strip_prefix('p').and_then(|p| p.parse().ok());
            out.extend(percent.map(|p| (p / 100.0, value * scale)));
        }
        out.sort_by(|a, b| a.0.total_cmp(&b.0));
        out
    }
}

impl PublishedRow {
    /// Returns the text of a field that can select rows, or an empty string for any other field.
    fn field(&self, name: &str) -> &str {
        match name {
            "label" => &self.label,
            "store" => &self.store,
            "operation" => &self.operation,
            "workload" => &self.workload,
            _ => "",
        }
    }
}

/// A relation that must hold between figures. Within each selected row, `scale x product x sum / over` must equal
/// `equals` or `equals_number`; an empty list counts as 1. Between two rows, the ratio of a figure must equal
/// `published`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Relation {
    /// Description of the relation.
    pub says: String,
    /// Field values that select the rows; empty for all rows.
    #[serde(default, rename = "where")]
    pub chosen: BTreeMap<String, String>,
    /// Figures that are multiplied.
    #[serde(default)]
    pub product: Vec<String>,
    /// Figures that are added.
    #[serde(default)]
    pub sum: Vec<String>,
    /// Figures by whose product the left side is divided.
    #[serde(default)]
    pub over: Vec<String>,
    /// Constant factor, including unit conversions.
    #[serde(default = "one")]
    pub scale: f64,
    /// Figure that the left side must equal.
    pub equals: Option<String>,
    /// Number that the left side must equal, if `equals` names no figure.
    pub equals_number: Option<f64>,
    /// Labels of the two rows to compare: numerator and denominator.
    pub between: Option<[String; 2]>,
    /// Figure whose ratio is compared.
    pub ratio: Option<String>,
    /// Ratio that the document states.
    pub published: Option<f64>,
    /// Maximum relative difference between the two sides that rounding of the published figures explains.
    pub tolerance: f64,
    /// True if the two sides must differ by more than `tolerance`.
    #[serde(default)]
    pub differs: bool,
}

fn one() -> f64 {
    1.0
}

/// Failure to load a published document.
#[derive(Debug, thiserror::Error)]
pub enum PublishedError {
    /// No document has this name or number.
    #[error("unknown document '{name}': use one of {known}")]
    Unknown {
        /// Name as given.
        name: String,
        /// Names of all documents, separated by commas.
        known: String,
    },
    /// A document is not valid.
    #[error("published/{name}.toml: {reason}")]
    Shape {
        /// Name of the document.
        name: &'static str,
        /// Error from the TOML parser.
        reason: String,
    },
}

/// Parses all published documents.
///
/// # Errors
/// [`PublishedError::Shape`] if a document is not valid, which is a bug.
pub fn all() -> Result<Vec<Published>, PublishedError> {
    let read = |(name, text): &(&'static str, &str)| {
        toml::from_str(text).map_err(|e| PublishedError::Shape { name, reason: e.to_string() })
    };
    BUILT_IN.iter().map(read).collect()
}

/// Returns the document with this name or number.
///
/// # Errors
/// If there is none, or a document is not valid; see [`PublishedError`].
pub fn named(name: &str) -> Result<Published, PublishedError> {
    let known = || BUILT_IN.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let found = all()?.into_iter().find(|p| p.name == name || p.number == name);
    found.ok_or_else(|| PublishedError::Unknown { name: name.into(), known: known() })
}
