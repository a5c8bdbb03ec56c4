//! Flags for the cost limit of a run and the prices to check it with.

use std::path::PathBuf;

use clap::Args;

use plimsoll_session::budget::CostSettings;

/// The cost limit of a run, and the prices to check it with.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Cost")]
pub struct MoneyArguments {
    /// Maximum cost of all hosts together, such as 5 or 0.50. Plimsoll refuses a run if its estimate is higher
    /// or a price is unknown, and stops a run before it costs more
    #[arg(long, value_name = "USD", allow_hyphen_values = true)]
    max_cost: Option<String>,
    /// Price book that overrides the built-in price books; may be repeated
    #[arg(long, value_name = "FILE")]
    prices: Vec<PathBuf>,
    /// This machine is in the region of the store, so reads are not internet egress
    #[arg(long)]
    in_region: bool,
}

impl MoneyArguments {
    /// Returns the settings that the flags describe.
    pub fn settings(&self) -> CostSettings {
        CostSettings {
            max_cost: self.max_cost.clone(),
            prices: self.prices.clone(),
            in_region: self.in_region,
        }
    }
}
