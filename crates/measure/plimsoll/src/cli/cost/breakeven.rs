//! `plimsoll cost breakeven`: finds the amounts at which the cheapest provider changes.

use clap::Args;

use super::apart;
use super::form::FormArguments;
use super::from_run::FromRun;
use super::request::WorkloadArguments;
use crate::cli::exit::Exit;
use plimsoll_base::units::{MAX_COUNT, parse_count, parse_size};
use plimsoll_cost::bill::total;
use plimsoll_cost::bills::Bills;
use plimsoll_cost::breakeven::{Breakeven, Vary, breakeven};
use plimsoll_cost::egress_assumption::assumption;
use plimsoll_cost::request::CostRequest;
use plimsoll_cost::tariff::Tariff;
use plimsoll_report::decisions::bills::doubts;
use plimsoll_report::decisions::breakeven::{amount, document};

/// Arguments of `plimsoll cost breakeven`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Providers to compare: two or more names from `plimsoll list prices`; use NAME@REGION to select one of
    /// several regions
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',', required = true)]
    between: Vec<String>,
    /// Value of the workload to vary; all other values stay the same
    #[arg(long, value_enum)]
    vary: Vary,
    /// Start of the range
    #[arg(long, value_name = "AMOUNT")]
    from: Option<String>,
    /// End of the range
    #[arg(long, value_name = "AMOUNT")]
    to: Option<String>,
    #[command(flatten)]
    workload: WorkloadArguments,
    #[command(flatten)]
    from_run: FromRun,
    #[command(flatten)]
    form: FormArguments,
}

/// Parses one end of the range; returns `usual` if the flag is not set.
///
/// # Errors
/// Exit code 2 if the amount is invalid or lacks a unit.
pub fn end(flag: &str, vary: Vary, text: Option<&String>, usual: u64) -> Result<u64, Exit> {
    let Some(text) = text else { return Ok(usual) };
    let read = if vary.is_bytes() { parse_size(text) } else { parse_count(text) };
    let bare = vary.is_bytes() && text.trim().ends_with(|c: char| c.is_ascii_digit()) && text.trim() != "0";
    match read {
        Ok(_) if bare => {
            Err(Exit::input(format!("{flag}: '{text}' has no unit; add one, as in 10TB or 4KiB")))
        }
        Ok(amount) => Ok(amount),
        Err(e) => Err(Exit::input(format!("{flag}: {e}"))),
    }
}

/// Returns the assumptions that apply to every amount, the providers without a bill for some amounts, and the
/// prices with low confidence.
///
/// # Errors
/// Exit code 2 if the workload is invalid at the end of the range.
fn notes(
    request: &CostRequest,
    tariffs: &[Tariff],
    titles: &[&str],
    found: &Breakeven,
    to: u64,
) -> Result<Vec<String>, Exit> {
    let vary = found.vary;
    let resolve = |amount| vary.set(&request.workload, amount).resolve();
    let at_end = resolve(to).map_err(|e| Exit::input(format!("--vary {}: {e}", vary.name())))?.assumptions;
    let premise = assumption(&request.usage, tariffs);
    let applies = |a: &&String| at_end.contains(a) || premise.as_ref() == Some(*a);
    let mut out: Vec<String> =
        request.assumptions.iter().filter(applies).map(|a| format!("assumed: {a}")).collect();
    for (at, (tariff, title)) in tariffs.iter().zip(titles).enumerate() {
        let Some(point) = found.points.iter().find(|p| p.totals_usd[at].is_none()) else { continue };
        let reason = resolve(point.amount).ok().and_then(|r| total(tariff, &r.usage).err());
        out.extend(reason.map(|reason| {
            format!("there is no bill for {title} from {} on: {reason}", amount(vary, point.amount))
        }));
    }
    let bills = Bills::of(tariffs, &request.usage, Vec::new());
    out.extend(bills.bills.iter().filter_map(doubts));
    Ok(out)
}

/// Prints the amounts at which the cheapest provider changes.
///
/// # Errors
/// Exit code 2 if there are no bills for the workload, a provider or the range.
pub fn run(arguments: &Arguments) -> Result<(), Exit> {
    let vary = arguments.vary;
    let usual = vary.usual_range();
    let from = end("--from", vary, arguments.from.as_ref(), usual.0)?;
    let most = if vary.is_bytes() { 1 << 60 } else { MAX_COUNT };
    let to = end("--to", vary, arguments.to.as_ref(), usual.1.max(from.saturating_mul(1000)).min(most))?;
    if from >= to {
        return Err(Exit::input("--from must be less than --to"));
    }
    if arguments.workload.says(vary) {
        return Err(Exit::input(format!(
            "{}: this value varies; omit the flag and set the range with --from and --to",
            vary.flag()
        )));
    }
    let (given, _) = arguments.workload.given()?;
    if vary == Vary::ObjectSize && (given.written.is_some() || given.read.is_some()) {
        let flag = if given.written.is_some() { "--written" } else { "--read" };
        return Err(Exit::input(format!(
            "{flag}: these bytes follow from the size of the objects, which varies; use --put and --get"
        )));
    }
    let mut request = arguments.workload.request_with(&arguments.from_run, |w| vary.set(w, from))?;
    let tariffs = apart(request.tariffs("--between", &arguments.between)?.0);
    if tariffs.len() < 2 {
        return Err(Exit::input(
            "--between needs two different providers, such as --between aws-s3-express,cloudflare-r2",
        ));
    }
    let found = breakeven(&tariffs, &request.workload, vary, from..=to);
    let found = found.map_err(|e| Exit::input(format!("--vary {}: {e}", vary.name())))?;
    if found.points.iter().all(|p| p.totals_usd.iter().all(Option::is_none)) {
        let bills = Bills::of(&tariffs, &request.usage, Vec::new());
        let reason = bills.not_priced.first().map_or("no provider has a bill", |n| n.reason.as_str());
        return Err(Exit::input(format!("--between: {reason}")));
    }
    let premise = request.assume(&tariffs);
    let titles: Vec<&str> = tariffs.iter().map(|t| t.title.as_str()).collect();
    let notes = notes(&request, &tariffs, &titles, &found, to)?;
    let rest = vary.clear(&request.workload).in_words();
    let rest = if rest.is_empty() { "none".into() } else { rest };
    let what =
        vec![format!("Monthly bill by {}; other usage: {rest}; prices of {}", vary.name(), request.date)];
    let document = document(&found, &titles, what, notes).warned(request.warnings());
    arguments.form.print(&document.resting_on(premise), &found)
}
