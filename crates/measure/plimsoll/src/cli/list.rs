//! `plimsoll list`: lists built-in experiments, providers, prices and published documents.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::cost::request::PriceArguments;
use super::exit::Exit;
use super::out::{fit, say};
use super::prices;
use plimsoll_base::provider::{self, Addressing, Confidence, MatrixRow, Profile};
use plimsoll_base::units::{format_bytes, format_count};
use plimsoll_cost::published;
use plimsoll_document::{Table, terminal};
use plimsoll_experiment::short::{FORMS, describe};
use plimsoll_experiment::{BUILT_IN, SEARCHES, load};

/// Arguments of `plimsoll list`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Kind of entries to list
    #[arg(value_enum)]
    kind: Kind,
    /// Offer whose prices are listed, such as aws-s3-express or google-cloud-storage@us-east4
    name: Option<String>,
    /// Compare the guarantees, features and limits of providers in a table, with sources
    #[arg(long)]
    matrix: bool,
    /// Format of the prices; all but the table have every price of every date
    #[arg(long, value_enum, default_value = "table")]
    format: prices::Format,
    /// File for the prices [default: standard output]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// List only prices whose source was read more than a year before --as-of
    #[arg(long)]
    stale: bool,
    #[command(flatten)]
    prices: PriceArguments,
}

impl Arguments {
    /// Returns true if a flag is given that applies only to prices.
    fn is_about_prices(&self) -> bool {
        let exports = self.format != prices::Format::Table || self.output.is_some();
        self.name.is_some() || self.prices.is_given() || self.stale || exports
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Experiments that `plimsoll run` accepts by name
    Experiments,
    /// Providers for use in store URLs: s3://bucket?provider=NAME
    Providers,
    /// Prices of storage, requests, transfer and machines; `plimsoll list prices NAME` lists all prices of
    /// one offer
    Prices,
    /// Published benchmarks; `plimsoll published show NAME` shows a benchmark
    Published,
}

/// Prints the entries of one kind.
///
/// # Errors
/// Exit code 2 if a flag does not apply to the kind, or if there are no prices for an offer or date.
pub fn list(arguments: &Arguments) -> Result<(), Exit> {
    if arguments.matrix && arguments.kind != Kind::Providers {
        return Err(Exit::input("--matrix applies only to providers; use plimsoll list providers --matrix"));
    }
    if arguments.kind != Kind::Prices && arguments.is_about_prices() {
        return Err(Exit::input(
            "NAME, --as-of, --prices, --format, --output and --stale apply only to prices; use plimsoll list prices \
             aws-s3 --as-of 2024-06-01",
        ));
    }
    match arguments.kind {
        Kind::Prices => prices::list(&prices::Request {
            name: arguments.name.as_deref(),
            format: arguments.format,
            output: arguments.output.as_deref(),
            stale: arguments.stale,
            prices: &arguments.prices,
        })?,
        Kind::Experiments => {
            let line = |name: &str, text: &str| say(&fit(&format!("{name:16} {text}\n")));
            say("short forms\n")?;
            FORMS.iter().try_for_each(|form| line(form, describe(form)))?;
            say("\nwith options of their own\n")?;
            SEARCHES.iter().try_for_each(|(name, text)| line(name, text))?;
            say("\nbuilt-in experiments\n")?;
            for (name, _) in BUILT_IN {
                line(name, &load(name, &[]).map_err(Exit::input)?.description)?;
            }
        }
        Kind::Published => {
            for document in published::all().map_err(Exit::input)? {
                say(&format!(
                    "{} {:16} {} ({}, {})\n",
                    document.number, document.name, document.title, document.source, document.date
                ))?;
            }
        }
        Kind::Providers => {
            let profiles = provider::all().map_err(Exit::input)?;
            if arguments.matrix {
                say(&matrix(&profiles))?;
            } else {
                say(&profiles.iter().map(|p| line(p) + "\n").collect::<String>())?;
            }
        }
    }
    Ok(())
}

fn line(profile: &Profile) -> String {
    let place = profile.endpoint.as_deref().unwrap_or("endpoint=http://host:port");
    format!("{:22}{:30}{place}", profile.name, profile.title)
}

/// Formats a cell with its confidence level, unless the level is high.
fn with_confidence(value: &str, confidence: Confidence) -> String {
    match confidence {
        Confidence::High => value.to_string(),
        other => format!("{value} ({} confidence)", other.name()),
    }
}

/// A row of the matrix: its name, and the function that formats a cell.
type Line = (&'static str, fn(&Profile) -> String);

/// Rows that are computed from fields of the profile.
const COMPUTED: &[Line] = &[
    ("addressing", |p| match p.style {
        Addressing::Path => "path".into(),
        Addressing::Virtual => "virtual host".into(),
    }),
    ("checksums of uploads", |p| p.checksums.join(", ")),
    ("checksum of a whole multipart object", |p| {
        if p.full_object.is_empty() { "none".into() } else { p.full_object.join(", ") }
    }),
    ("multipart", |p| {
        let parts = p.parts;
        let equal = if parts.equal { ", all but the last of equal size" } else { "" };
        let consecutive = if parts.consecutive { ", consecutively numbered" } else { "" };
        let (least, most) = (format_bytes(parts.least), format_bytes(parts.most));
        format!("{least} to {most}, {} parts{equal}{consecutive}", format_count(parts.count))
    }),
    ("largest object", |p| format_bytes(p.limits.object)),
    ("documented request limits", |p| {
        let rate = |r: &provider::Rate| {
            let number = r.per_s.map(|n| format!("{}/s ", format_count(n as u64))).unwrap_or_default();
            with_confidence(&format!("{number}{} per {}: {}", r.what, r.scope, r.answer), r.confidence)
        };
        p.rate.iter().map(rate).collect::<Vec<_>>().join("\n")
    }),
    ("quirks", |p| p.quirks.join("\n")),
];

/// Width of tables if standard output is not a terminal, in characters.
const PLAIN_WIDTH: u16 = 140;

fn matrix(profiles: &[Profile]) -> String {
    let mut out = String::new();
    let mut sources: Vec<String> = Vec::new();
    for group in profiles.chunks(3) {
        let columns: Vec<&str> = std::iter::once("").chain(group.iter().map(|p| p.title.as_str())).collect();
        let mut table = Table::new("", &columns);
        for row in MatrixRow::ALL {
            let cell = |p: &Profile| {
                p.fact
                    .iter()
                    .find(|f| f.key == row)
                    .map_or("not known".into(), |f| with_confidence(&f.value, f.confidence))
            };
            table.row(std::iter::once(row.name().to_string()).chain(group.iter().map(cell)));
        }
        for (name, cell) in COMPUTED {
            table.row(std::iter::once((*name).to_string()).chain(group.iter().map(cell)));
        }
        out.push_str(&format!("{}\n", terminal::ruled(&table, PLAIN_WIDTH)));
        for profile in group {
            let facts = profile.fact.iter().map(|f| (f.key.name(), &f.source, &f.as_of));
            let rates = profile.rate.iter().map(|r| (r.what.as_str(), &r.source, &r.as_of));
            sources.extend(
                facts
                    .chain(rates)
                    .map(|(what, source, as_of)| format!("{}, {what}: {source} ({as_of})", profile.title)),
            );
        }
    }
    out.push_str("sources\n");
    sources.iter().for_each(|source| out.push_str(&format!("  {source}\n")));
    out
}
