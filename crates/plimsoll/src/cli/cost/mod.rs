//! `plimsoll cost`: estimates the monthly bill of a workload at one or all providers.

pub mod breakeven;
pub mod explain;
pub mod form;
pub mod from_log;
pub mod from_run;
pub mod log_bills;
pub mod migrate;
pub mod published;
mod ranges;
pub mod request;
pub mod tiering;

use clap::{Args, Subcommand};
use serde::Serialize;

use super::exit::Exit;
use form::FormArguments;
use from_run::FromRun;
use plimsoll_cost::bills::Bills;
use plimsoll_cost::book::Place;
use plimsoll_cost::replication::Replication;
use plimsoll_cost::tariff::Tariff;
use plimsoll_cost::workload::NO_RETENTION;
use plimsoll_judge::report::decisions::bills::{Items, document};
use request::WorkloadArguments;

/// Arguments of `plimsoll cost`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    bill: BillArguments,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Vary one value of the workload, and find the amounts at which the cheapest provider changes
    Breakeven(Box<breakeven::Arguments>),
    /// Explain a bill of a provider by its usage and the list prices
    Explain(Box<explain::Arguments>),
    /// Estimate the cost of a month of the requests in an access log, at all providers and by prefix
    FromLog(Box<from_log::Arguments>),
    /// Estimate the cost of moving all data to another store, and the months after which the move has paid for
    /// itself
    Migrate(Box<migrate::Arguments>),
    /// Estimate the cost of keeping young objects in one store and old ones in another, and find the best age
    /// to move them
    Tiering(Box<tiering::Arguments>),
}

/// Arguments of `plimsoll cost` without a subcommand.
#[derive(Debug, Args)]
struct BillArguments {
    /// Provider: a name from `plimsoll list prices`; use NAME@REGION to select one of several regions; may be
    /// repeated [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    provider: Vec<String>,
    /// Price each provider in this part of the world
    #[arg(long, value_enum, value_name = "PLACE", conflicts_with_all = ["as_published", "from_run"])]
    region: Option<Place>,
    /// Add a replica of the bucket in another region of its provider: its storage, writes and transfer
    #[arg(long, value_name = "REGION", conflicts_with_all = ["as_published", "from_run"])]
    replicate_to: Option<String>,
    /// Replicate within a guaranteed time, at a price per byte (S3 Replication Time Control)
    #[arg(long, requires = "replicate_to")]
    replication_time_control: bool,
    /// Show every line of every bill with its source
    #[arg(long)]
    items: bool,
    /// Compute the bill as a published document does (`plimsoll list published`), and explain how this bill
    /// differs from the real bill
    #[arg(long, value_name = "DOCUMENT", conflicts_with_all = ["provider", "from_run", "items"])]
    as_published: Option<String>,
    /// Turn on the published calculator's replication option: all stored data is copied to another zone
    #[arg(long, requires = "as_published", conflicts_with = "cross_zone")]
    cross_az: bool,
    #[command(flatten)]
    workload: WorkloadArguments,
    #[command(flatten)]
    from_run: FromRun,
    #[command(flatten)]
    form: FormArguments,
}

/// Prints the monthly bills.
///
/// # Errors
/// Exit code 2 if there is no bill for the workload, provider, region or date.
pub fn cost(arguments: &Arguments) -> Result<(), Exit> {
    if let Some(command) = &arguments.command {
        return match command {
            Command::Breakeven(arguments) => breakeven::run(arguments),
            Command::Explain(arguments) => explain::run(arguments),
            Command::FromLog(arguments) => from_log::run(arguments),
            Command::Migrate(arguments) => migrate::run(arguments),
            Command::Tiering(arguments) => tiering::run(arguments),
        };
    }
    let bill = &arguments.bill;
    match &bill.as_published {
        Some(name) => published::as_published(name, bill.cross_az, &bill.workload, &bill.form),
        None => bills(bill),
    }
}

fn bills(arguments: &BillArguments) -> Result<(), Exit> {
    if let Some(range) = ranges::of(arguments)? {
        return ranges::run(arguments, &range);
    }
    let mut request = arguments.workload.request(&arguments.from_run)?;
    let named = !arguments.provider.is_empty();
    let (tariffs, mut missing) = match arguments.region {
        Some(place) => request.tariffs_in("--provider", &arguments.provider, place)?,
        None => request.tariffs("--provider", &arguments.provider)?,
    };
    let tariffs = apart(tariffs);
    let premise = request.assume(&tariffs);
    if arguments.region.is_none() {
        request.assume_regions(&arguments.provider);
    }
    let mut bills = Bills::of(&tariffs, &request.usage, request.assumptions.clone());
    bills.not_used.clone_from(&request.not_used);
    if let Some(to) = &arguments.replicate_to {
        let in_time = arguments.replication_time_control;
        bills.replicate(
            &Replication { to, in_time, prices: &request.prices, date: request.date },
            &tariffs,
            &request.usage,
        );
    }
    if named
        && bills.bills.is_empty()
        && let Some(refused) = bills.not_priced.first()
    {
        return Err(Exit::input(format!("--provider {}: {}", refused.provider, refused.reason)));
    }
    bills.not_priced.append(&mut missing);
    if bills.bills.is_empty() {
        let of_replica = bills.not_priced.iter().find(|n| n.reason.contains("--replicate-to"));
        let first = of_replica.or(bills.not_priced.first());
        let reason = first.map_or("no provider has prices", |n| n.reason.as_str());
        return Err(Exit::input(reason));
    }
    let items = match arguments.form.is_page() {
        true if named => Items::Lines,
        true => Items::Folded,
        false if arguments.items || (named && bills.bills.len() <= 4) => Items::Lines,
        false => Items::Parts,
    };
    let mut document = document(&bills, request.what(), items);
    if request.assumptions.iter().any(|a| a == NO_RETENTION) {
        document.warnings.insert(0, format!("the bill contains no storage: {NO_RETENTION}"));
    }
    arguments.form.print(&document.warned(request.warnings()).resting_on(premise), &bills)
}

/// Adds the region to the titles of offers that are requested in several regions.
pub fn apart(tariffs: Vec<Tariff>) -> Vec<Tariff> {
    let titles: Vec<String> = tariffs.iter().map(|t| t.title.clone()).collect();
    let several = |t: &Tariff| titles.iter().filter(|title| **title == t.title).count() > 1;
    let named = |t: Tariff| {
        if several(&t) { Tariff { title: format!("{} in {}", t.title, t.region), ..t } } else { t }
    };
    tariffs.into_iter().map(named).collect()
}

/// Formats a value as JSON with a final newline.
pub fn json(value: &impl Serialize) -> String {
    format!("{}\n", serde_json::to_string_pretty(value).unwrap_or_default())
}
