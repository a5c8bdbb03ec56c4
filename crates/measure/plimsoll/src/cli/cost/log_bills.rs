//! Bills of the requests of a log or of a metered command.

use jiff::civil::Date;

use super::apart;
use super::request::PriceArguments;
use crate::cli::exit::Exit;
use plimsoll_bills::advise::log_usage::{MonthOfLog, at_list_prices};
use plimsoll_cost::bill::bill;
use plimsoll_cost::bills::{Bills, NotPriced};
use plimsoll_cost::book::Prices;
use plimsoll_cost::egress_assumption::assumption;
use plimsoll_cost::request::CostRequest;
use plimsoll_cost::tariff::Tariff;
use plimsoll_cost::usage::Usage;
use plimsoll_cost::workload::Workload;
use plimsoll_report::decisions::from_log::{LogBills, PrefixCost};

/// Number of providers in the table of prefixes if none is named.
const COLUMNS: usize = 3;

/// Bills of a month, and what they rest on.
pub struct PricedLog {
    /// Bills and costs by prefix.
    pub found: LogBills,
    /// Tariffs of all providers.
    pub tariffs: Vec<Tariff>,
    /// Tariffs of the providers in the table of prefixes.
    pub shown: Vec<Tariff>,
    /// Assumption that the bills depend on; `None` if there is none.
    pub premise: Option<String>,
    /// Warnings about the prices.
    pub warnings: Vec<String>,
}

/// Returns the costs by prefix, the most expensive one at the first provider first.
pub fn prefixes(month: &MonthOfLog<'_>, tariffs: &[Tariff]) -> Vec<PrefixCost> {
    let mut rows: Vec<PrefixCost> = month
        .log
        .prefixes
        .iter()
        .map(|(prefix, requests)| PrefixCost {
            prefix: prefix.clone(),
            requests: requests.total(),
            written: requests.uploaded,
            read: requests.downloaded,
            usd: tariffs.iter().map(|t| at_list_prices(month.usage(requests, t, 0), t)).collect(),
        })
        .collect();
    rows.sort_by_key(|row| std::cmp::Reverse((row.usd.first().copied().flatten(), row.requests)));
    rows
}

/// Prices the requests of a month at the named providers, or at all. `assumed` are assumptions about the month.
///
/// # Errors
/// Exit code 2 if a provider is unknown, or if there is no bill.
pub fn price(
    month: &MonthOfLog<'_>,
    assumed: Vec<String>,
    providers: &[String],
    arguments: &PriceArguments,
    prices: Prices,
    date: Date,
) -> Result<PricedLog, Exit> {
    let not_used = prices.not_valid(date);
    let mut request = CostRequest {
        workload: Workload::default(),
        usage: Usage::default(),
        assumptions: assumed.into_iter().chain(arguments.discounts()).collect(),
        not_used,
        prices,
        date,
    };
    let (tariffs, missing) = request.tariffs("--provider", providers)?;
    let tariffs = apart(tariffs);
    let mut bills = Bills { not_priced: missing, ..Bills::default() };
    for tariff in &tariffs {
        match bill(tariff, &month.usage(&month.log.all, tariff, month.stored)) {
            Ok(bill) => bills.bills.push(bill),
            Err(e) => {
                bills.not_priced.push(NotPriced { provider: tariff.offer.clone(), reason: e.to_string() });
            }
        }
    }
    if let (true, Some(refused)) = (bills.bills.is_empty(), bills.not_priced.first()) {
        return Err(Exit::input(format!("{}: {}", refused.provider, refused.reason)));
    }
    let first = tariffs.first().map(|tariff| month.usage(&month.log.all, tariff, month.stored));
    let premise = assumption(&first.unwrap_or_default(), &tariffs);
    request.assumptions.extend(premise.clone());
    bills.assumptions.clone_from(&request.assumptions);
    bills.not_used.clone_from(&request.not_used);
    let shown: Vec<Tariff> = match providers.is_empty() {
        true => bills
            .by_total()
            .iter()
            .filter_map(|b| tariffs.iter().find(|t| t.offer == b.provider))
            .take(COLUMNS)
            .cloned()
            .collect(),
        false => tariffs.clone(),
    };
    let found = LogBills {
        providers: shown.iter().map(|tariff| tariff.offer.clone()).collect(),
        prefixes: prefixes(month, &shown),
        bills,
    };
    Ok(PricedLog { found, tariffs, shown, premise, warnings: request.warnings() })
}
