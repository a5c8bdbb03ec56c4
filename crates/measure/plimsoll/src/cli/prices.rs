//! `plimsoll list prices`: lists offers, and prices with their sources.

use std::path::Path;

use clap::ValueEnum;

use super::cost::json;
use super::cost::request::PriceArguments;
use super::exit::Exit;
use super::out::say;
use plimsoll_base::text::outgoing;
use plimsoll_cost::book::PriceRow;
use plimsoll_report::decisions::prices::{all, of_rows, one};
use plimsoll_report::export::prices::{csv, parquet};

/// Formats of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Tables for the terminal
    Table,
    /// JSON, with amounts as decimal strings
    Json,
    /// CSV for spreadsheets
    Csv,
    /// Parquet file; needs --output
    Parquet,
}

/// Prices to list, and how to print them.
pub struct Request<'a> {
    /// Name of an offer, perhaps with its region; `None` for all.
    pub name: Option<&'a str>,
    /// Format of the output.
    pub format: Format,
    /// File for the output; `None` for standard output.
    pub output: Option<&'a Path>,
    /// True if only prices with old sources are listed.
    pub stale: bool,
    /// Price books and their date.
    pub prices: &'a PriceArguments,
}

/// Returns true if a source was read more than a year before a date. `as_of` has the year, and perhaps the month and
/// the day.
fn is_stale(as_of: &str, date: jiff::civil::Date) -> bool {
    let mut numbers = as_of.split('-').map_while(|word| word.parse::<i16>().ok());
    let Some(year) = numbers.next() else { return true };
    // A year or a month counts until its end.
    let (month, day) = (numbers.next().unwrap_or(12), numbers.next().unwrap_or(31));
    (year, month, day) < (date.year() - 1, i16::from(date.month()), i16::from(date.day()))
}

/// Prints all offers, or all prices of one offer, or writes all prices to a file.
///
/// # Errors
/// Exit code 2 if there are no prices for the offer or date, or the file cannot be written.
pub fn list(request: &Request<'_>) -> Result<(), Exit> {
    let prices = request.prices.read()?;
    let date = request.prices.date(&prices)?;
    if request.format == Format::Table && !request.stale {
        let document = match request.name {
            Some(name) => one(&prices, name, date, request.prices.is_dated()).map_err(Exit::input)?,
            None => all(&prices, date),
        };
        return write(request.output, &document.terminal());
    }
    let (offer, region) = match request.name.map(|name| name.split_once('@').unwrap_or((name, ""))) {
        Some((offer, region)) => {
            // An unknown offer or region is an error.
            prices.tariff(offer, Some(region).filter(|r| !r.is_empty()), date).map_err(Exit::input)?;
            (Some(offer), region)
        }
        None => (None, ""),
    };
    let mut rows = prices.rows();
    rows.retain(|row: &PriceRow| {
        offer.is_none_or(|offer| row.offer == offer)
            && (region.is_empty() || row.region == region)
            && (!request.stale || (row.valid_until.is_none() && is_stale(&row.as_of, date)))
    });
    match (request.format, request.output) {
        (Format::Table, _) => write(request.output, &of_rows(&rows, date).terminal()),
        (Format::Json, _) => write(request.output, &json(&rows)),
        (Format::Csv, _) => write(request.output, &csv(&rows)),
        (Format::Parquet, Some(path)) => {
            parquet(&rows, path).map_err(|e| Exit::input(format!("--output {e}; choose another file")))
        }
        (Format::Parquet, None) => {
            Err(Exit::input("--format parquet needs a file: add --output prices.parquet"))
        }
    }
}

fn write(output: Option<&Path>, text: &str) -> Result<(), Exit> {
    match output {
        Some(path) => std::fs::write(path, &*outgoing(text))
            .map_err(|e| Exit::input(format!("--output {}: {e}; choose another file", path.display()))),
        None => say(text),
    }
}

#[cfg(test)]
mod tests {
    use super::is_stale;

    #[test]
    fn a_source_is_stale_after_a_year() {
        let day = "2026-11-21".parse().unwrap();
        for (as_of, stale) in [
            ("2025-11-20", true),
            ("2025-11-21", false),
            ("2025-11", false),
            ("2025-10", true),
            ("2025", false),
            ("2024", true),
            ("2026-09-28", false),
        ] {
            assert_eq!(is_stale(as_of, day), stale, "{as_of}");
        }
    }
}
