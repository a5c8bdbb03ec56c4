//! What others have published about object stores, as data: figures with their source, date and environment, what is known to be wrong
//! with them, and what must hold between them. `published/*.toml` holds them; [`check`] recomputes.
//!
//! Nothing of it was measured here, and wherever it is shown it says so.

pub mod check;

use std::collections::BTreeMap;

use serde::Deserialize;

/// The published documents: name and text.
const BUILT_IN: &[(&str, &str)] = &[
    ("express-vs-r2", include_str!("../../published/express-vs-r2.toml")),
    ("r2-bench", include_str!("../../published/r2-bench.toml")),
    ("large-uploads", include_str!("../../published/large-uploads.toml")),
    ("express-sync", include_str!("../../published/express-sync.toml")),
    ("tigris-ycsb", include_str!("../../published/tigris-ycsb.toml")),
];

/// Price books with the constants of documents that compute costs: the document's name and the text.
pub const PRICES: &[(&str, &str)] = &[
    ("express-vs-r2", include_str!("../../published/prices/express-vs-r2.toml")),
    ("large-uploads", include_str!("../../published/prices/large-uploads.toml")),
];

/// A published document.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// What it is called here.
    pub name: String,
    /// Its title.
    pub title: String,
    /// Who published it, and where.
    pub source: String,
    /// When.
    pub date: String,
    /// Its number here, another name for it.
    pub number: String,
    /// With what and how it was measured, as far as it says so.
    pub environment: String,
    /// What is known to be wrong with it.
    pub errors: Vec<String>,
    /// Its figures.
    #[serde(rename = "row")]
    pub rows: Vec<Row>,
    /// What must hold between them.
    #[serde(rename = "relation", default)]
    pub relations: Vec<Relation>,
    /// The offers in the price books that its stores are, by the names of its rows.
    #[serde(default)]
    pub stores: BTreeMap<String, String>,
    /// What it computes costs with.
    pub calculator: Option<Calculator>,
    /// The costs that it prints.
    #[serde(rename = "claim", default)]
    pub claims: Vec<Claim>,
}

/// How a document computes costs: the constants are a price book in `published/prices/`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calculator {
    /// The month that it computes, in the words of a workload file.
    pub workload: BTreeMap<String, String>,
    /// Its offers and the real ones that they stand for.
    pub offers: Vec<Stand>,
    /// The day of its prices, where it says; real prices are then of that day, with those of today beside them.
    pub date: Option<String>,
    /// True if it has an option that replicates all that is stored to another zone.
    #[serde(default)]
    pub replication: bool,
    /// Why a line differs from the real one, by offer and line: `r2.storage`.
    #[serde(default)]
    pub why: BTreeMap<String, String>,
}

/// A published offer and the real one.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stand {
    /// Name in the document's price book.
    pub published: String,
    /// Name in the real price books.
    pub real: String,
    /// True if the document's replication costs nothing there, because it is built in.
    #[serde(default)]
    pub replication_included: bool,
}

/// A cost that a document prints, and what it follows from.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// In words.
    pub says: String,
    /// Dollars, or a ratio, as printed.
    pub printed: String,
    /// Whether it is a ratio.
    #[serde(default)]
    pub ratio: bool,
    /// What is added up.
    pub terms: Vec<Term>,
    /// What the sum is divided by.
    #[serde(default)]
    pub over: Vec<Term>,
    /// How far print and sum may be apart, as a share.
    pub tolerance: f64,
}

/// A bill, or a part of one.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Term {
    /// Whose, in the document's price book.
    pub offer: String,
    /// Which part of the bill; all of it where none is named.
    pub part: Option<String>,
    /// For which month.
    pub workload: BTreeMap<String, String>,
    /// How many times.
    #[serde(default = "once")]
    pub times: i64,
}

fn once() -> i64 {
    1
}

/// Figures that belong together. Their names carry their units.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Row {
    /// What it is called.
    pub label: String,
    /// Which store it is about.
    #[serde(default)]
    pub store: String,
    /// Which operation, in our words.
    #[serde(default)]
    pub operation: String,
    /// Which part of the work.
    #[serde(default)]
    pub workload: String,
    /// The machine that measured, where the document has several.
    #[serde(default)]
    pub client: String,
    /// The figures by name: `p50_ms`, `rate_per_s`.
    #[serde(flatten)]
    pub figures: BTreeMap<String, f64>,
}

impl Published {
    /// The latencies that it prints for an operation on a store, as shares of 1 and milliseconds, both rising.
    pub fn percentiles(&self, store: &str, operation: &str) -> Vec<(f64, f64)> {
        let mut out: Vec<(f64, f64)> = Vec::new();
        let rows = self.rows.iter().filter(|r| r.store == store && r.operation == operation);
        // One store may be printed several times, from several places; the first stands for it.
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

impl Row {
    /// The text of a field by which rows are chosen.
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

/// Something that must hold between figures: within each chosen row `scale x product (or sum) / over = equals`, or between two rows the
/// ratio of a figure.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Relation {
    /// In words.
    pub says: String,
    /// Fields that a row must have.
    #[serde(default, rename = "where")]
    pub chosen: BTreeMap<String, String>,
    /// Figures that are multiplied.
    #[serde(default)]
    pub product: Vec<String>,
    /// Figures that are added.
    #[serde(default)]
    pub sum: Vec<String>,
    /// Figures that divide.
    #[serde(default)]
    pub over: Vec<String>,
    /// A constant factor, units included.
    #[serde(default = "one")]
    pub scale: f64,
    /// The figure that it must equal.
    pub equals: Option<String>,
    /// The number that it must equal.
    pub equals_number: Option<f64>,
    /// Labels of two rows whose ratio is meant.
    pub between: Option<[String; 2]>,
    /// The figure whose ratio is meant.
    pub ratio: Option<String>,
    /// The ratio as published.
    pub published: Option<f64>,
    /// How far the two sides may be apart, as a share: what rounding in print explains.
    pub tolerance: f64,
    /// Whether the sides must differ instead.
    #[serde(default)]
    pub differs: bool,
}

fn one() -> f64 {
    1.0
}

/// Why a document could not be had.
#[derive(Debug, thiserror::Error)]
pub enum PublishedError {
    /// There is none of that name.
    #[error("'{name}' is not published here; there are {known}")]
    Unknown {
        /// As asked for.
        name: String,
        /// Those there are.
        known: String,
    },
    /// A document that does not read.
    #[error("published/{name}.toml: {reason}")]
    Shape {
        /// Its name.
        name: &'static str,
        /// What is wrong.
        reason: String,
    },
}

/// All documents.
///
/// # Errors
/// [`PublishedError::Shape`] when one does not read.
pub fn all() -> Result<Vec<Published>, PublishedError> {
    let read = |(name, text): &(&'static str, &str)| {
        toml::from_str(text).map_err(|e| PublishedError::Shape { name, reason: e.to_string() })
    };
    BUILT_IN.iter().map(read).collect()
}

/// The document of that name or number.
///
/// # Errors
/// See [`PublishedError`].
pub fn named(name: &str) -> Result<Published, PublishedError> {
    let known = || BUILT_IN.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let found = all()?.into_iter().find(|p| p.name == name || p.number == name);
    found.ok_or_else(|| PublishedError::Unknown { name: name.into(), known: known() })
}
