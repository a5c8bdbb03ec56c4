//! Bills of a workload in which one value is a range, such as `--egress 10TB..40TB`.

use super::BillArguments;
use super::breakeven::end;
use crate::cli::exit::Exit;
use plimsoll_cost::bills::Bills;
use plimsoll_cost::breakeven::{Vary, breakeven};
use plimsoll_cost::request::CostRequest;
use plimsoll_cost::tariff::Tariff;
use plimsoll_cost::workload::Workload;
use plimsoll_report::decisions::ranges::{RangeBills, document};

/// A value of the workload that is a range.
pub struct Range {
    vary: Vary,
    from: u64,
    to: u64,
    /// Workload without the range.
    given: Workload,
}

/// Returns the text of a value that may be a range.
fn text(workload: &Workload, vary: Vary) -> Option<&String> {
    match vary {
        Vary::Egress => workload.egress.as_ref(),
        Vary::Storage => workload.storage.as_ref(),
        Vary::Get => workload.get.as_ref(),
        Vary::Put => workload.put.as_ref(),
        Vary::ObjectSize => workload.object_size.as_ref(),
    }
}

/// Returns the range of a workload; `None` if it has none.
///
/// # Errors
/// Exit code 2 if the workload file is invalid, an end is not an amount, or more than one value is a range.
pub fn of(arguments: &BillArguments) -> Result<Option<Range>, Exit> {
    let (given, _) = arguments.workload.given()?;
    let all = [Vary::Egress, Vary::Storage, Vary::Get, Vary::Put, Vary::ObjectSize];
    let ranges: Vec<(Vary, String, String)> = all
        .into_iter()
        .filter_map(|vary| {
            let (from, to) = text(&given, vary)?.split_once("..")?;
            Some((vary, from.trim().to_string(), to.trim().to_string()))
        })
        .collect();
    let (vary, from, to) = match ranges.as_slice() {
        [] => return Ok(None),
        [only] => only,
        [first, second, ..] => {
            return Err(Exit::input(format!(
                "{} and {} are both ranges; only one value may be one",
                first.0.flag(),
                second.0.flag()
            )));
        }
    };
    let flag = vary.flag();
    let bound = |text: &String| end(flag, *vary, Some(text), 0);
    let (low, high) = (bound(from)?, bound(to)?);
    if low >= high {
        return Err(Exit::input(format!(
            "{flag}: {from}..{to} is not a range; write the smaller amount first"
        )));
    }
    Ok(Some(Range { vary: *vary, from: low, to: high, given }))
}

impl Range {
    /// Returns the request with the value at an amount.
    fn request(&self, arguments: &BillArguments, amount: u64) -> Result<CostRequest, Exit> {
        let mut workload = arguments.workload.without_file();
        workload.flags = self.vary.set(&self.given, amount);
        workload.request(&arguments.from_run)
    }
}

/// Returns the tariffs of the providers of a request, and adds those without prices to the bills.
fn tariffs(arguments: &BillArguments, request: &CostRequest, bills: &mut Bills) -> Result<Vec<Tariff>, Exit> {
    let (tariffs, mut missing) = arguments.tariffs(request)?;
    bills.not_priced.append(&mut missing);
    Ok(tariffs)
}

/// Prints the bills at both ends of the range, and the amounts at which the cheapest provider changes.
///
/// # Errors
/// Exit code 2 if the workload is invalid, or there is no bill.
pub fn run(arguments: &BillArguments, range: &Range) -> Result<(), Exit> {
    let (mut low, mut high) = (range.request(arguments, range.from)?, range.request(arguments, range.to)?);
    let mut missing = Bills::default();
    let tariffs = tariffs(arguments, &low, &mut missing)?;
    let premise = low.assume(&tariffs);
    high.assume(&tariffs);
    if arguments.region.is_none() {
        low.assume_regions(&arguments.provider);
    }
    // What is assumed at one end only, such as a size of parts, is assumed for that end.
    let further = high.assumptions.iter().filter(|text| !low.assumptions.contains(text)).cloned();
    let assumptions = low.assumptions.iter().cloned().chain(further).collect();
    let at_low = Bills::of(&tariffs, &low.usage, assumptions);
    let at_high = Bills::of(&tariffs, &high.usage, Vec::new());
    if at_low.bills.is_empty() && at_high.bills.is_empty() {
        let reason = at_low.not_priced.first().map_or("no provider has prices", |n| n.reason.as_str());
        return Err(Exit::input(reason));
    }
    let found = breakeven(&tariffs, &low.workload, range.vary, range.from..=range.to)
        .map_err(|e| Exit::input(format!("{}: {e}", range.vary.flag())))?;
    let mut report = RangeBills { from: range.from, to: range.to, low: at_low, high: at_high, found };
    report.low.not_priced.append(&mut missing.not_priced);
    report.low.not_used.clone_from(&low.not_used);
    let titles: Vec<&str> = tariffs.iter().map(|tariff| tariff.title.as_str()).collect();
    let rest = range.vary.clear(&low.workload).in_words();
    let document = document(&report, &titles, &rest, &low.date.to_string()).warned(low.warnings());
    arguments.form.print(&document.resting_on(premise), &report)
}
