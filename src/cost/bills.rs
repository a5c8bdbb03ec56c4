//! Bills of several providers for one workload, side by side.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bill::{Bill, BillError, bill};
use super::tariff::Tariff;
use super::usage::Usage;

/// A provider that has no bill for the workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotPriced {
    /// Name of the offer.
    pub provider: String,
    /// Why.
    pub reason: String,
}

/// Bills for one workload, as `plimsoll cost --format json` prints them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bills {
    /// The bills.
    pub bills: Vec<Bill>,
    /// Who has none, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_priced: Vec<NotPriced>,
    /// What was taken for granted because nobody said otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assumptions: Vec<String>,
}

impl Bills {
    /// The bills of these tariffs for a usage; whoever has none is kept with the reason.
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

    /// Adds one who has no bill.
    fn refuse(&mut self, provider: &str, error: &BillError) {
        self.not_priced.push(NotPriced { provider: provider.into(), reason: error.to_string() });
    }

    /// The bills, the cheapest first.
    pub fn by_total(&self) -> Vec<&Bill> {
        let mut sorted: Vec<&Bill> = self.bills.iter().collect();
        sorted.sort_by_key(|bill| bill.total_usd);
        sorted
    }
}

/// What `plimsoll cost --format json` prints: the bills below their headline.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "Bills")]
struct HeadedBills {
    /// The answer in a sentence, with the assumption on which it rests.
    headline: String,
    #[serde(flatten)]
    bills: Bills,
}

/// The schema of `plimsoll cost --format json`.
pub fn schema() -> String {
    let mut text = serde_json::to_string_pretty(&schemars::schema_for!(HeadedBills)).unwrap_or_default();
    text.push('\n');
    text
}
