//! `plimsoll cost breakeven`: where the bills of providers cross.

use clap::Args;

use super::apart;
use super::form::FormArguments;
use super::from_run::FromRun;
use super::request::{CostRequest, WorkloadArguments};
use crate::cli::exit::Exit;
use crate::cost::bill::total;
use crate::cost::bills::Bills;
use crate::cost::breakeven::{Breakeven, Vary, breakeven};
use crate::cost::egress::assumption;
use crate::cost::tariff::Tariff;
use crate::report::decisions::bills::doubts;
use crate::report::decisions::breakeven::{amount, document};
use crate::units::{MOST_COUNT, parse_count, parse_size};

/// Arguments of `plimsoll cost breakeven`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Providers to hold against each other: two or more names from `plimsoll list prices`, with @REGION where they have several
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',', required = true)]
    between: Vec<String>,
    /// What changes, all else being as the workload says
    #[arg(long, value_enum)]
    vary: Vary,
    /// From so much of it
    #[arg(long, value_name = "AMOUNT")]
    from: Option<String>,
    /// Up to so much of it
    #[arg(long, value_name = "AMOUNT")]
    to: Option<String>,
    #[command(flatten)]
    workload: WorkloadArguments,
    #[command(flatten)]
    from_run: FromRun,
    #[command(flatten)]
    form: FormArguments,
}

/// An end of the range.
fn end(flag: &str, vary: Vary, text: Option<&String>, usual: u64) -> Result<u64, Exit> {
    let Some(text) = text else { return Ok(usual) };
    let read = if vary.is_bytes() { parse_size(text) } else { parse_count(text) };
    let bare = vary.is_bytes() && text.trim().ends_with(|c: char| c.is_ascii_digit()) && text.trim() != "0";
    match read {
        Ok(_) if bare => Err(Exit::input(format!("{flag}: '{text}' has no unit; write it as 10TB or 4KiB"))),
        Ok(amount) => Ok(amount),
        Err(e) => Err(Exit::input(format!("{flag}: {e}"))),
    }
}

/// What was taken for granted whatever the amount, who has no bill from where on, and which prices nobody confirmed.
fn notes(
    asked: &CostRequest,
    tariffs: &[Tariff],
    titles: &[&str],
    found: &Breakeven,
    to: u64,
) -> Result<Vec<String>, Exit> {
    let vary = found.vary;
    let resolve = |amount| vary.set(&asked.workload, amount).resolve();
    let at_end = resolve(to).map_err(|e| Exit::input(format!("--vary {}: {e}", vary.name())))?.assumptions;
    let premise = assumption(&asked.usage, tariffs);
    let holds = |a: &&String| at_end.contains(a) || premise.as_ref() == Some(*a);
    let mut out: Vec<String> =
        asked.assumptions.iter().filter(holds).map(|a| format!("assumed: {a}")).collect();
    for (at, (tariff, title)) in tariffs.iter().zip(titles).enumerate() {
        let Some(point) = found.points.iter().find(|p| p.totals_usd[at].is_none()) else { continue };
        let why = resolve(point.amount).ok().and_then(|r| total(tariff, &r.usage).err());
        out.extend(
            why.map(|why| format!("{title} has no bill from {} on: {why}", amount(vary, point.amount))),
        );
    }
    let bills = Bills::of(tariffs, &asked.usage, Vec::new());
    out.extend(bills.bills.iter().filter_map(doubts));
    Ok(out)
}

/// Prints where the bills cross.
///
/// # Errors
/// 2 for a workload, provider or range that there are no bills for.
pub fn run(arguments: &Arguments) -> Result<(), Exit> {
    let vary = arguments.vary;
    let usual = vary.usual_range();
    let from = end("--from", vary, arguments.from.as_ref(), usual.0)?;
    let most = if vary.is_bytes() { 1 << 60 } else { MOST_COUNT };
    let to = end("--to", vary, arguments.to.as_ref(), usual.1.max(from.saturating_mul(1000)).min(most))?;
    if from >= to {
        return Err(Exit::input("--from must be less than --to"));
    }
    if arguments.workload.says(vary) {
        return Err(Exit::input(format!(
            "{} is what changes; say from where to where with --from and --to",
            vary.flag()
        )));
    }
    let mut asked = CostRequest::read_with(&arguments.workload, &arguments.from_run, |w| vary.set(w, from))?;
    let tariffs = apart(asked.tariffs("--between", &arguments.between)?.0);
    if tariffs.len() < 2 {
        return Err(Exit::input(
            "--between needs two different providers, such as --between aws-s3-express,cloudflare-r2",
        ));
    }
    let found = breakeven(&tariffs, &asked.workload, vary, (from, to));
    let found = found.map_err(|e| Exit::input(format!("--vary {}: {e}", vary.name())))?;
    if found.points.iter().all(|p| p.totals_usd.iter().all(Option::is_none)) {
        let why = Bills::of(&tariffs, &asked.usage, Vec::new());
        let reason = why.not_priced.first().map_or("no provider has a bill", |n| n.reason.as_str());
        return Err(Exit::input(format!("--between: {reason}")));
    }
    let premise = asked.assume_egress(&tariffs);
    let titles: Vec<&str> = tariffs.iter().map(|t| t.title.as_str()).collect();
    let notes = notes(&asked, &tariffs, &titles, &found, to)?;
    let rest = vary.clear(&asked.workload).in_words();
    let rest = if rest.is_empty() { "nothing else".into() } else { rest };
    let what = vec![format!("A month by {}; besides: {rest}. Prices of {}", vary.name(), asked.date)];
    arguments.form.print(&document(&found, &titles, what, notes).resting_on(premise), &found)
}
