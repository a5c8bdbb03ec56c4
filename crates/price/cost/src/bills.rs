//! Bills of several providers for one workload.

use serde::{Deserialize, Serialize};

use super::addition::Addition;
use super::bill::{Bill, bill};
use super::charge::BillError;
use super::tariff::Tariff;
use super::usage::Usage;

/// A provider for which no bill can be computed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NotPriced {
    /// Name of the offer.
    pub provider: String,
    /// Reason, and how to fix it.
    pub reason: String,
}

/// Bills for one workload, as `plimsoll cost --format json` prints them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bills {
    /// Bill of each provider.
    pub bills: Vec<Bill>,
    /// Providers without a bill, with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_priced: Vec<NotPriced>,
    /// Assumptions about values that the workload does not specify.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assumptions: Vec<String>,
    /// Given values that do not enter the bills, with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_used: Vec<String>,
}

impl Bills {
    /// Computes the bill of a usage at each tariff. A provider without a bill is added to `not_priced` with the
    /// reason.
    pub fn of(tariffs: &[Tariff], usage: &Usage, assumptions: Vec<String>) -> Bills {
        let mut bills = Bills { assumptions, ..Bills::default() };
        for tariff in tariffs {
            match bill(tariff, usage) {
                Ok(bill) => bills.bills.push(bill),
                Err(error) => bills.refuse(&tariff.offer, &error),
            }
        }
        bills
    }

    /// Adds lines to each bill. A provider without prices of them has no bill.
    pub fn with(&mut self, addition: &dyn Addition, tariffs: &[Tariff], usage: &Usage) {
        for mut bill in std::mem::take(&mut self.bills) {
            let of = |tariff: &&Tariff| (&tariff.offer, &tariff.region) == (&bill.provider, &bill.region);
            let added = tariffs.iter().find(of).map(|tariff| addition.add(&mut bill, tariff, usage));
            match added {
                Some(Err(reason)) => {
                    let reason = format!("{}: {}: {reason}", bill.provider, addition.flag());
                    self.not_priced.push(NotPriced { provider: bill.provider, reason });
                }
                _ => self.bills.push(bill),
            }
        }
    }

    /// Adds a provider without a bill.
    fn refuse(&mut self, provider: &str, error: &BillError) {
        self.not_priced.push(NotPriced { provider: provider.into(), reason: error.to_string() });
    }

    /// Returns the bills, cheapest first.
    pub fn by_total(&self) -> Vec<&Bill> {
        let mut sorted: Vec<&Bill> = self.bills.iter().collect();
        sorted.sort_by_key(|bill| bill.total_usd);
        sorted
    }
}

#[cfg(feature = "schema")]
/// Output of `plimsoll cost --format json`: a headline and the bills.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(title = "Bills"))]
struct HeadedBills {
    /// Answer in one sentence, with the assumption on which it rests.
    headline: String,
    #[serde(flatten)]
    bills: Bills,
}

/// Returns the JSON schema of `plimsoll cost --format json`.
#[cfg(feature = "schema")]
pub fn schema() -> String {
    let mut text = serde_json::to_string_pretty(&schemars::schema_for!(HeadedBills)).unwrap_or_default();
    text.push('\n');
    text
}
