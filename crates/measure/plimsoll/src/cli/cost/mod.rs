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
use plimsoll_cost::addition::Addition;
use plimsoll_cost::addition::keys::{self, KeyEncryption};
use plimsoll_cost::addition::machines::Machines;
use plimsoll_cost::addition::replication::Replication;
use plimsoll_cost::bills::{Bills, NotPriced};
use plimsoll_cost::book::Place;
use plimsoll_cost::egress::Egress;
use plimsoll_cost::request::CostRequest;
use plimsoll_cost::tariff::Tariff;
use plimsoll_cost::workload::NO_RETENTION;
use plimsoll_report::decisions::bills::{Items, document};
use request::WorkloadArguments;

/// Regions that are assumed if the place of the machines is given.
const NEAR: &str = "stores of the machines' provider are in the region of the machines, if it has a price, and others \
                    in the first of their regions (--region, --provider NAME@REGION)";

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
    /// Region of the machines that read and write the store, such as aws@us-east-1: reads that leave the store's
    /// provider are its egress, and writes to another provider or region are charged by the provider of the machines
    #[arg(long, value_name = "PROVIDER@REGION", conflicts_with_all = ["as_published", "from_run"])]
    machines: Option<String>,
    /// Let the machines reach all stores through one NAT gateway of AWS
    #[arg(long, requires = "machines")]
    nat_gateway: bool,
    /// Encrypt the objects in S3 under a key of AWS KMS, without S3 Bucket Keys
    #[arg(long, conflicts_with_all = ["as_published", "from_run"])]
    sse_kms: bool,
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

impl BillArguments {
    /// Returns what the bills contain on top of the workload. Machines come first, because they replace the bill.
    fn additions<'a>(&'a self, request: &'a CostRequest) -> Result<Vec<Box<dyn Addition + 'a>>, Exit> {
        let (prices, date) = (&request.prices, request.date);
        let mut out: Vec<Box<dyn Addition>> = Vec::new();
        if let Some(place) = &self.machines {
            if matches!(request.usage.egress, Egress::Stated(_)) {
                return Err(Exit::input(
                    "--machines: the egress follows from where the machines run; omit --egress",
                ));
            }
            out.push(Box::new(self.machines(place, request)?));
        }
        if let Some(to) = &self.replicate_to {
            out.push(Box::new(Replication { to, in_time: self.replication_time_control, prices, date }));
        }
        if self.sse_kms {
            out.push(Box::new(KeyEncryption { prices, date }));
        }
        Ok(out)
    }

    /// Returns the place of the machines.
    fn machines<'a>(&self, place: &str, request: &'a CostRequest) -> Result<Machines<'a>, Exit> {
        let machines = Machines::parse(place, self.nat_gateway, &request.prices, request.date);
        machines.map_err(|e| Exit::input(format!("--machines: {e}")))
    }

    /// Returns the tariffs of the providers, and those without prices. Without `--region`, stores of the machines'
    /// provider are in the region of the machines.
    fn tariffs(&self, request: &CostRequest) -> Result<(Vec<Tariff>, Vec<NotPriced>), Exit> {
        let (tariffs, missing) = match self.region {
            Some(place) => request.tariffs_in("--provider", &self.provider, place)?,
            None => request.tariffs("--provider", &self.provider)?,
        };
        let tariffs = match &self.machines {
            Some(place) if self.region.is_none() => {
                self.machines(place, request)?.near(tariffs, &self.provider)
            }
            _ => tariffs,
        };
        Ok((apart(tariffs), missing))
    }

    /// Adds what the bills assume about reads, and returns it.
    fn assume(&self, request: &mut CostRequest, tariffs: &[Tariff]) -> Option<String> {
        let mut premise = request.assume(tariffs);
        if let Some(place) = &self.machines {
            request.assumptions.retain(|text| Some(text) != premise.as_ref());
            let machines = format!("only machines at {place} read and write the stores (--machines)");
            request.assumptions.push(machines.clone());
            premise = Some(machines);
        }
        if self.sse_kms {
            let calls = "each read, write and part calls KMS once, and each copy twice; S3 Bucket Keys save up to \
                         99% of these calls (--sse-kms)";
            request.assumptions.push(calls.into());
            if !tariffs.iter().any(keys::applies) {
                request.not_used.push("--sse-kms, because only S3 calls KMS".into());
            }
        }
        premise
    }

    /// Returns the first flag for something that is added to the bills.
    fn added(&self) -> Option<&'static str> {
        let flags = [
            ("--machines", self.machines.is_some()),
            ("--replicate-to", self.replicate_to.is_some()),
            ("--sse-kms", self.sse_kms),
        ];
        flags.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag)
    }
}

fn bills(arguments: &BillArguments) -> Result<(), Exit> {
    if let Some(range) = ranges::of(arguments)? {
        if let Some(flag) = arguments.added() {
            let message = format!("{flag} cannot be combined with a range; use one amount");
            return Err(Exit::input(message));
        }
        return ranges::run(arguments, &range);
    }
    let mut request = arguments.workload.request(&arguments.from_run)?;
    let named = !arguments.provider.is_empty();
    let (tariffs, mut missing) = arguments.tariffs(&request)?;
    let premise = arguments.assume(&mut request, &tariffs);
    match (&arguments.machines, arguments.region) {
        (None, None) => request.assume_regions(&arguments.provider),
        (Some(_), None) => request.assumptions.push(NEAR.into()),
        _ => {}
    }
    let additions = arguments.additions(&request)?;
    let mut bills = Bills::of(&tariffs, &request.usage, request.assumptions.clone());
    bills.not_used.clone_from(&request.not_used);
    for addition in &additions {
        bills.with(addition.as_ref(), &tariffs, &request.usage);
    }
    if named
        && bills.bills.is_empty()
        && let Some(refused) = bills.not_priced.first()
    {
        return Err(Exit::input(format!("--provider {}: {}", refused.provider, refused.reason)));
    }
    bills.not_priced.append(&mut missing);
    if bills.bills.is_empty() {
        let is_added = |n: &&NotPriced| additions.iter().any(|a| n.reason.contains(&a.flag()));
        let first = bills.not_priced.iter().find(is_added).or(bills.not_priced.first());
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
