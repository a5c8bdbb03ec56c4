//! Flags about what a run may cost.

use std::path::PathBuf;

use clap::Args;

use crate::session::budget::CostSettings;

/// The cost limit of a run, and the prices that it is checked with.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Cost")]
pub struct MoneyArguments {
    /// Refuse a run whose estimate is higher or has no known price, and end one before it costs more: 5, 0.50 (all hosts together)
    #[arg(long, value_name = "USD", allow_hyphen_values = true)]
    max_cost: Option<String>,
    /// Price book that takes precedence over the built-in ones; may be repeated
    #[arg(long, value_name = "FILE")]
    prices: Vec<PathBuf>,
    /// This machine is in the store's region: reads are not internet egress
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
