//! Price books: the prices of providers, with their dates and sources. The built-in books are `prices/*.toml`.
//! User-supplied files have the same format; they add offers or override prices, for example with negotiated
//! ones.
//!
//! Plimsoll checks units, dates, sources and tiers when it reads a book. [`Prices::tariff`] selects the prices
//! that are valid on a date.

mod check;
mod entries;
mod lazy;
mod place;
mod rows;
mod select;
pub mod spec;

pub use place::Place;
pub use rows::PriceRow;
pub use select::{OfferFacts, PriceFacts, StoreTariff, usual};
#[cfg(feature = "schema")]
pub use spec::schema;

use jiff::civil::Date;

use super::money::Usd;
use super::tariff::{Measure, Meter, Provenance, Tier};
use lazy::Book;
use plimsoll_base::provider::calls::CallSet;
use spec::MeterName;

/// Factor by which percentages are multiplied.
const PICO: u128 = 1_000_000_000_000;

/// Built-in price books: name and text of each file.
const BUILT_IN: &[(&str, &str)] = &[
    ("aws-s3", include_str!("../../prices/aws-s3.toml")),
    ("aws-s3-intelligent-tiering", include_str!("../../prices/aws-s3-intelligent-tiering.toml")),
    ("aws-s3-glacier", include_str!("../../prices/aws-s3-glacier.toml")),
    ("aws-s3-lines", include_str!("../../prices/aws-s3-lines.toml")),
    ("aws-s3-express", include_str!("../../prices/aws-s3-express.toml")),
    ("cloudflare-r2", include_str!("../../prices/cloudflare-r2.toml")),
    ("google-cloud-storage", include_str!("../../prices/google-cloud-storage.toml")),
    ("tigris", include_str!("../../prices/tigris.toml")),
    ("backblaze-b2", include_str!("../../prices/backblaze-b2.toml")),
    ("wasabi", include_str!("../../prices/wasabi.toml")),
    ("azure-blob", include_str!("../../prices/azure-blob.toml")),
    ("oci-object-storage", include_str!("../../prices/oci-object-storage.toml")),
    ("digitalocean-spaces", include_str!("../../prices/digitalocean-spaces.toml")),
    ("akamai-object-storage", include_str!("../../prices/akamai-object-storage.toml")),
    ("idrive-e2", include_str!("../../prices/idrive-e2.toml")),
    ("aws-dynamodb", include_str!("../../prices/aws-dynamodb.toml")),
    ("aws-efs", include_str!("../../prices/aws-efs.toml")),
    ("aws-network", include_str!("../../prices/aws-network.toml")),
    ("aws-paths", include_str!("../../prices/aws-paths.toml")),
    ("google-network", include_str!("../../prices/google-network.toml")),
    ("aws-ec2", include_str!("../../prices/aws-ec2.toml")),
    ("aws-lambda", include_str!("../../prices/aws-lambda.toml")),
    ("cloudflare-workers", include_str!("../../prices/cloudflare-workers.toml")),
];

/// Error in a price book, or a missing price.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BookError {
    /// The file cannot be read.
    #[error("{path}: cannot read the price file: {reason}; check its path and permissions")]
    File {
        /// Path as the user wrote it, with the flag.
        path: String,
        /// Error message of the system.
        reason: String,
    },
    /// The file is invalid.
    #[error("{path}:{line}: {message}")]
    At {
        /// Path of the file.
        path: String,
        /// Line number, from 1.
        line: usize,
        /// Problem, and how to fix it.
        message: String,
    },
    /// There is no offer of that name.
    #[error(
        "'{name}' has no prices; use one of {known} (see `plimsoll list prices`), or add prices with --prices FILE"
    )]
    Offer {
        /// Name that the user requested.
        name: String,
        /// Known names, separated by commas.
        known: String,
    },
    /// The offer is not sold in that region.
    #[error("{offer} has no prices in region '{region}'; use one of {known}")]
    Region {
        /// Name of the offer.
        offer: String,
        /// Region that the user requested.
        region: String,
        /// Known regions, separated by commas.
        known: String,
    },
    /// The known prices are not valid on that date.
    #[error(
        "{offer} in {region} has no price for {item} on {date}: known periods are {known}; choose another --as-of, or add the price with --prices FILE"
    )]
    Date {
        /// Name of the offer.
        offer: String,
        /// Region of the offer.
        region: String,
        /// Item without a price.
        item: String,
        /// Date of the requested prices.
        date: Date,
        /// Periods with a price, in words.
        known: String,
    },
    /// One item has two prices on the same date.
    #[error("{path}: {offer} has two prices for {item} in {region} on {date}; add until = to one of them")]
    Ambiguous {
        /// Path of the file.
        path: String,
        /// Name of the offer.
        offer: String,
        /// Region of the offer.
        region: String,
        /// Item with two prices.
        item: String,
        /// Date of the requested prices.
        date: Date,
    },
}

/// Period of validity, from `from` up to but not including `until`. Open-ended if `until` is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    from: Date,
    until: Option<Date>,
}

impl Span {
    /// Returns true if the period includes the date.
    fn holds(&self, date: Date) -> bool {
        self.from <= date && self.until.is_none_or(|until| date < until)
    }

    /// Returns true if the periods have a day in common.
    fn meets(&self, other: &Span) -> bool {
        let before = |a: &Span, b: &Span| b.until.is_none_or(|until| a.from < until);
        before(self, other) && before(other, self)
    }

    /// Describes the period in words, such as `from 2025-04-10`.
    fn describe(&self) -> String {
        match self.until {
            Some(until) => format!("{} until {until}", self.from),
            None => format!("from {}", self.from),
        }
    }
}

/// A checked price.
#[derive(Debug, Clone)]
struct Price {
    offers: Vec<String>,
    regions: Vec<String>,
    span: Span,
    name: MeterName,
    meter: Meter,
}

/// A checked billing rule. Sizes are in bytes.
#[derive(Debug, Clone)]
struct Rule {
    offers: Vec<String>,
    span: Span,
    minimum_days: Option<u64>,
    minimum_object: Option<u64>,
    object_step: Option<u64>,
    object_overhead: Option<u64>,
    object_index: Option<u64>,
    restore_hours: Option<u64>,
    monitored_object: Option<u64>,
    minimum_billed: Option<u64>,
    daily_peak: Option<bool>,
    round_up: Option<bool>,
    deleted_days: Option<u64>,
    deleted_versions: Option<bool>,
    transition_days: Option<u64>,
    unbilled: Vec<String>,
    largest_object: Option<u64>,
    egress_within_stored: Option<bool>,
    provenance: Provenance,
}

/// All known prices: the built-in books, then the added ones. Later books override earlier ones.
#[derive(Debug, Clone)]
pub struct Prices {
    books: Vec<Book>,
    /// Number of built-in books; they come first.
    built_in: usize,
    /// Discounts on the prices of offers: name, and percent times 10^12.
    discounts: Vec<(String, u128)>,
}

impl Prices {
    /// Reads the offers of the built-in books; their prices are read when they are needed.
    ///
    /// # Errors
    /// [`BookError::At`] if an offer in a built-in book is invalid.
    pub fn built_in() -> Result<Prices, BookError> {
        let read = |(name, text): &(&str, &'static str)| Book::built_in(&format!("prices/{name}.toml"), text);
        Ok(Prices {
            books: BUILT_IN.iter().map(read).collect::<Result<_, _>>()?,
            built_in: BUILT_IN.len(),
            discounts: Vec::new(),
        })
    }

    /// Parses a single book, without the built-in ones.
    ///
    /// # Errors
    /// [`BookError::At`] if the book is invalid.
    pub fn only(path: &str, text: &str) -> Result<Prices, BookError> {
        Ok(Prices { books: vec![Book::checked(path, text)?], built_in: 1, discounts: Vec::new() })
    }

    /// Lowers all prices of an offer by a percentage, given times 10^12. Its network, machines and functions are other
    /// offers.
    ///
    /// # Errors
    /// [`BookError::Offer`] if there is no offer of that name.
    pub fn discount(&mut self, name: &str, percent_pico: u128) -> Result<(), BookError> {
        if self.offer(name).is_none() {
            return Err(BookError::Offer { name: name.into(), known: self.names().join(", ") });
        }
        self.discounts.push((name.into(), percent_pico.min(100 * PICO)));
        Ok(())
    }

    /// Returns a meter of an offer at its price after the discount.
    fn discounted(&self, offer: &str, meter: Meter) -> Meter {
        let Some((_, percent)) = self.discounts.iter().rev().find(|(name, _)| name == offer) else {
            return meter;
        };
        let left = 100 * PICO - percent;
        let lower = |price: Usd| {
            let pico = (price.pico() as u128 * left + 50 * PICO) / (100 * PICO);
            Usd::from_pico(pico as i128)
        };
        let tiers = meter.tiers.iter().map(|t| Tier::new(t.up_to, lower(t.price), meter.unit_base)).collect();
        Meter { tiers, ..meter }
    }

    /// Adds a book. Its offers and prices override the existing ones.
    ///
    /// # Errors
    /// [`BookError::At`] if the book is invalid, or refers to an unknown offer, region or class of requests.
    pub fn add(&mut self, path: &str, text: &str) -> Result<(), BookError> {
        let book = Book::checked(path, text)?;
        self.check_references(&book, path, text)?;
        self.books.push(book);
        Ok(())
    }

    /// Checks that every offer, region and class of requests to which a new book refers is defined in it or in an
    /// earlier book.
    fn check_references(&self, book: &Book, path: &str, text: &str) -> Result<(), BookError> {
        let at = |word: &str, message: String| {
            let line = text.lines().position(|l| l.contains(&format!("\"{word}\""))).unwrap_or(0) + 1;
            Err(BookError::At { path: path.into(), line, message })
        };
        let offer = |name: &str| book.offers.iter().find(|o| o.name == name).or_else(|| self.offer(name));
        let next = book.offers.iter().flat_map(|o| o.network.iter().chain(&o.machines).chain(&o.functions));
        let entries = book.entries();
        let named = entries.prices.iter().map(|p| &p.offers).chain(entries.rules.iter().map(|r| &r.offers));
        if let Some(name) = named.flatten().chain(next).find(|name| offer(name).is_none()) {
            let known = self.names().join(", ");
            let message = format!(
                "offer '{name}' is neither in this file nor built in; define it with [[offer]], or use one of {known}"
            );
            return at(name, message);
        }
        for price in &entries.prices {
            for name in &price.offers {
                let regions = offer(name).map(|o| o.regions.as_slice()).unwrap_or_default();
                if let Some(region) = price.regions.iter().find(|r| !regions.contains(r)) {
                    let message = format!(
                        "{name} is sold in {}, not in '{region}'; define your own [[offer]] with that region",
                        regions.join(", ")
                    );
                    return at(region, message);
                }
                let item = &price.meter.item;
                let calls = |p: &Price| matches!(p.meter.measure, Measure::Requests { calls, .. } if calls != CallSet::default());
                let known = |p: &Price| p.meter.item == *item && p.offers.contains(name) && calls(p);
                let before = self
                    .books
                    .iter()
                    .filter_map(|b| b.about(name))
                    .chain([entries])
                    .flat_map(|e| &e.prices)
                    .any(known);
                if price.name == MeterName::Requests && !calls(price) && !before {
                    let message = format!(
                        "'{item}' is not a class of requests of {name}; list its requests in calls =, or use a name from `plimsoll list prices {name}`"
                    );
                    return at(item, message);
                }
            }
        }
        Ok(())
    }
}

/// Returns true if a built-in price book may have prices of a provider's stores. It reads no book.
pub fn may_price(provider: &str) -> bool {
    let line = format!("provider = \"{provider}\"");
    BUILT_IN.iter().any(|(_, text)| text.contains(&line))
}

/// Reads the built-in price books and `files`, which take precedence over them.
///
/// # Errors
/// See [`BookError`]; the message names `--prices` and the file.
pub fn read_prices(files: &[std::path::PathBuf]) -> Result<Prices, BookError> {
    let mut prices = Prices::built_in()?;
    for path in files {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|e| BookError::File { path: format!("--prices {shown}"), reason: e.to_string() })?;
        prices.add(&shown, &text)?;
    }
    Ok(prices)
}
