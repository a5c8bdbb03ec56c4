//! Price books: what providers asked, when, and who says so. `prices/*.toml` holds the built-in ones; a file of the same form adds
//! offers or replaces prices, such as negotiated ones.
//!
//! A book is checked when it is read: units, dates, sources and tiers. [`Prices::tariff`] takes what held on a date.

mod check;
mod select;
pub mod spec;

pub use select::{OfferFacts, PriceFacts, StoreTariff, usual};
pub use spec::schema;

use jiff::civil::Date;

use super::tariff::{Measure, Meter, Provenance};
use crate::provider::calls::CallSet;
use check::checked;
use spec::{MeterName, OfferSpec};

/// The built-in books: file name and text.
const BUILT_IN: &[(&str, &str)] = &[
    ("aws-s3", include_str!("../../../prices/aws-s3.toml")),
    ("aws-s3-express", include_str!("../../../prices/aws-s3-express.toml")),
    ("cloudflare-r2", include_str!("../../../prices/cloudflare-r2.toml")),
    ("google-cloud-storage", include_str!("../../../prices/google-cloud-storage.toml")),
    ("tigris", include_str!("../../../prices/tigris.toml")),
    ("backblaze-b2", include_str!("../../../prices/backblaze-b2.toml")),
    ("wasabi", include_str!("../../../prices/wasabi.toml")),
    ("aws-dynamodb", include_str!("../../../prices/aws-dynamodb.toml")),
    ("aws-efs", include_str!("../../../prices/aws-efs.toml")),
    ("aws-network", include_str!("../../../prices/aws-network.toml")),
    ("google-network", include_str!("../../../prices/google-network.toml")),
    ("aws-ec2", include_str!("../../../prices/aws-ec2.toml")),
];

/// Why there is no price.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BookError {
    /// The file cannot be read.
    #[error("price file {path}: {reason}")]
    File {
        /// As written.
        path: String,
        /// What the system said.
        reason: String,
    },
    /// The file is wrong somewhere.
    #[error("{path}:{line}: {message}")]
    At {
        /// File.
        path: String,
        /// Line, from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// Nothing of that name can be bought.
    #[error(
        "'{name}' has no prices; there are {known} (`plimsoll list prices`), or add your own with --prices FILE"
    )]
    Offer {
        /// As asked for.
        name: String,
        /// Those there are.
        known: String,
    },
    /// It is not sold there.
    #[error("{offer} has no prices in region '{region}'; there are {known}")]
    Region {
        /// The offer.
        offer: String,
        /// As asked for.
        region: String,
        /// Those there are.
        known: String,
    },
    /// The prices that are known held at other times.
    #[error(
        "{offer} in {region} has no price of {item} for {date}; known are {known}; choose another --as-of, or add the price with --prices FILE"
    )]
    Date {
        /// The offer.
        offer: String,
        /// Its region.
        region: String,
        /// What has no price.
        item: String,
        /// When.
        date: Date,
        /// When there are prices, in words.
        known: String,
    },
    /// Two prices for one thing.
    #[error("{path}: {offer} has two prices of {item} in {region} on {date}; end one of them with until =")]
    Ambiguous {
        /// File.
        path: String,
        /// The offer.
        offer: String,
        /// The region.
        region: String,
        /// What has two prices.
        item: String,
        /// When.
        date: Date,
    },
}

/// When something held: from a day, up to but not including another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    from: Date,
    until: Option<Date>,
}

impl Span {
    /// Whether it held on that day.
    fn holds(&self, date: Date) -> bool {
        self.from <= date && self.until.is_none_or(|until| date < until)
    }

    /// Whether there is a day on which both held.
    fn meets(&self, other: &Span) -> bool {
        let before = |a: &Span, b: &Span| b.until.is_none_or(|until| a.from < until);
        before(self, other) && before(other, self)
    }

    /// In words.
    fn describe(&self) -> String {
        match self.until {
            Some(until) => format!("{} until {until}", self.from),
            None => format!("from {}", self.from),
        }
    }
}

/// A price, checked.
#[derive(Debug, Clone)]
struct Price {
    offers: Vec<String>,
    regions: Vec<String>,
    span: Span,
    name: MeterName,
    meter: Meter,
}

/// A rule, checked; sizes in bytes.
#[derive(Debug, Clone)]
struct Rule {
    offers: Vec<String>,
    span: Span,
    minimum_days: Option<u64>,
    minimum_object: Option<u64>,
    object_step: Option<u64>,
    object_overhead: Option<u64>,
    minimum_billed: Option<u64>,
    daily_peak: Option<bool>,
    round_up: Option<bool>,
    deleted_days: Option<u64>,
    deleted_versions: Option<bool>,
    unbilled: Vec<String>,
    largest_object: Option<u64>,
    egress_within_stored: Option<bool>,
    provenance: Provenance,
}

/// A book, checked.
#[derive(Debug, Clone)]
struct Book {
    path: String,
    offers: Vec<OfferSpec>,
    prices: Vec<Price>,
    rules: Vec<Rule>,
}

/// All prices there are: the built-in books and those that were added. Later books win.
#[derive(Debug, Clone)]
pub struct Prices {
    books: Vec<Book>,
    /// How many of them are built in.
    built_in: usize,
}

impl Prices {
    /// The built-in books.
    ///
    /// # Errors
    /// Never, unless a built-in book is broken.
    pub fn built_in() -> Result<Prices, BookError> {
        let read = |(name, text): &(&str, &str)| checked(&format!("prices/{name}.toml"), text);
        Ok(Prices { books: BUILT_IN.iter().map(read).collect::<Result<_, _>>()?, built_in: BUILT_IN.len() })
    }

    /// A single book, by itself.
    ///
    /// # Errors
    /// [`BookError::At`] when it is wrong somewhere.
    pub fn only(path: &str, text: &str) -> Result<Prices, BookError> {
        Ok(Prices { books: vec![checked(path, text)?], built_in: 1 })
    }

    /// Adds a book whose offers and prices come before those that are there.
    ///
    /// # Errors
    /// [`BookError::At`] when it is wrong somewhere.
    pub fn add(&mut self, path: &str, text: &str) -> Result<(), BookError> {
        let book = checked(path, text)?;
        self.fits(&book, path, text)?;
        self.books.push(book);
        Ok(())
    }

    /// Whether everything that a new book speaks of is there, in it or before it.
    fn fits(&self, book: &Book, path: &str, text: &str) -> Result<(), BookError> {
        let at = |word: &str, message: String| {
            let line = text.lines().position(|l| l.contains(&format!("\"{word}\""))).unwrap_or(0) + 1;
            Err(BookError::At { path: path.into(), line, message })
        };
        let offer = |name: &str| book.offers.iter().find(|o| o.name == name).or_else(|| self.offer(name));
        let next = book.offers.iter().flat_map(|o| o.network.iter().chain(&o.machines));
        let named = book.prices.iter().map(|p| &p.offers).chain(book.rules.iter().map(|r| &r.offers));
        if let Some(name) = named.flatten().chain(next).find(|name| offer(name).is_none()) {
            let known = self.names().join(", ");
            let message = format!(
                "offer '{name}' is neither in this file nor built in; describe it with [[offer]], or use one of {known}"
            );
            return at(name, message);
        }
        for price in &book.prices {
            for name in &price.offers {
                let regions = offer(name).map(|o| o.regions.as_slice()).unwrap_or_default();
                if let Some(region) = price.regions.iter().find(|r| !regions.contains(r)) {
                    let message = format!(
                        "{name} is sold in {}, not in '{region}'; add the region to an [[offer]] of your own",
                        regions.join(", ")
                    );
                    return at(region, message);
                }
                let item = &price.meter.item;
                let calls = |p: &Price| matches!(p.meter.measure, Measure::Requests { calls, .. } if calls != CallSet::default());
                let known = |p: &Price| p.meter.item == *item && p.offers.contains(name) && calls(p);
                let before = self.books.iter().flat_map(|b| &b.prices).chain(&book.prices).any(known);
                if price.name == MeterName::Requests && !calls(price) && !before {
                    let message = format!(
                        "'{item}' is no class of requests of {name}; say which requests it is for with calls =, or use a name from `plimsoll list prices {name}`"
                    );
                    return at(item, message);
                }
            }
        }
        Ok(())
    }
}
