//! `plimsoll cost`: what a month of work costs, at one provider or at all of them.

pub mod breakeven;
pub mod form;
pub mod from_run;
pub mod published;
pub mod request;
pub mod tiering;

use clap::{Args, Subcommand};
use serde::Serialize;

use super::exit::Exit;
use crate::cost::bills::Bills;
use crate::cost::tariff::Tariff;
use crate::cost::workload::NOTHING_STAYS;
use crate::report::decisions::bills::{Items, document};
use form::FormArguments;
use from_run::FromRun;
use request::{CostRequest, WorkloadArguments};

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
    /// Where the bills of providers cross when one thing changes
    Breakeven(Box<breakeven::Arguments>),
    /// Young objects in one store, old ones in another: what it costs, and at which age to move them
    Tiering(Box<tiering::Arguments>),
}

/// Arguments of the bill itself.
#[derive(Debug, Args)]
struct BillArguments {
    /// Whose bill: a name from `plimsoll list prices`, with @REGION where it has several; may be repeated [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    provider: Vec<String>,
    /// Show every line of every bill with its source
    #[arg(long)]
    items: bool,
    /// Compute as a published document does (`plimsoll list published`), and explain the difference to the real bill
    #[arg(long, value_name = "DOCUMENT", conflicts_with_all = ["provider", "from_run", "items"])]
    as_published: Option<String>,
    /// Turn on the replication of the published calculator: all that is stored is copied to another zone
    #[arg(long, requires = "as_published", conflicts_with = "cross_zone")]
    cross_az: bool,
    #[command(flatten)]
    workload: WorkloadArguments,
    #[command(flatten)]
    from_run: FromRun,
    #[command(flatten)]
    form: FormArguments,
}

/// Prints what it costs.
///
/// # Errors
/// 2 for a workload, provider, region or date that there is no bill for.
pub fn cost(arguments: &Arguments) -> Result<(), Exit> {
    if let Some(command) = &arguments.command {
        return match command {
            Command::Breakeven(arguments) => breakeven::run(arguments),
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
    let mut asked = CostRequest::read(&arguments.workload, &arguments.from_run)?;
    let named = !arguments.provider.is_empty();
    let (tariffs, mut missing) = asked.tariffs("--provider", &arguments.provider)?;
    let tariffs = apart(tariffs);
    let premise = asked.assume_egress(&tariffs);
    asked.assume_regions(&arguments.provider);
    let mut bills = Bills::of(&tariffs, &asked.usage, asked.assumptions.clone());
    if named
        && bills.bills.is_empty()
        && let Some(refused) = bills.not_priced.first()
    {
        return Err(Exit::input(format!("--provider {}: {}", refused.provider, refused.reason)));
    }
    bills.not_priced.append(&mut missing);
    if bills.bills.is_empty() {
        let reason = bills.not_priced.first().map_or("no provider has prices", |n| n.reason.as_str());
        return Err(Exit::input(reason));
    }
    let items = match arguments.form.is_page() {
        true if named => Items::Lines,
        true => Items::Folded,
        false if arguments.items || (named && bills.bills.len() <= 4) => Items::Lines,
        false => Items::Parts,
    };
    let mut document = document(&bills, asked.what(), items);
    if asked.assumptions.iter().any(|a| a == NOTHING_STAYS) {
        document.warnings.insert(0, format!("a bill without storage: {NOTHING_STAYS}"));
    }
    arguments.form.print(&document.resting_on(premise), &bills)
}

/// Offers that are asked for in several regions bear theirs in the title.
pub fn apart(tariffs: Vec<Tariff>) -> Vec<Tariff> {
    let titles: Vec<String> = tariffs.iter().map(|t| t.title.clone()).collect();
    let several = |t: &Tariff| titles.iter().filter(|title| **title == t.title).count() > 1;
    let named = |t: Tariff| {
        if several(&t) { Tariff { title: format!("{} in {}", t.title, t.region), ..t } } else { t }
    };
    tariffs.into_iter().map(named).collect()
}

/// JSON for a program, with a line's end.
pub fn json(value: &impl Serialize) -> String {
    format!("{}\n", serde_json::to_string_pretty(value).unwrap_or_default())
}
