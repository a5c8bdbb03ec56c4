//! Bills of providers: their lines, what these mean, and what the price books say they should cost.
//!
//! [`table`] reads files of any format as rows, [`format`] takes the charges of a bill from them, [`sum`] adds charges
//! of the same usage, [`meaning`] finds the price of a usage, [`listed`] applies it, and [`explained`] compares.

pub mod changes;
pub mod charge;
pub mod covered;
pub mod elsewhere;
pub mod explained;
pub mod explained_line;
pub mod format;
pub mod inventory;
pub mod listed;
pub mod meaning;
pub mod number;
pub mod sum;
pub mod table;

use std::path::Path;

use plimsoll_experiment::logs::LogError;
use plimsoll_inventory::InventoryError;

/// An error in reading a bill.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] LogError),
    /// An inventory cannot be read.
    #[error(transparent)]
    Inventory(#[from] InventoryError),
    /// The format of the file is unknown.
    #[error(
        "{file}: this is not a bill that Plimsoll knows: AWS cost and usage reports, Cost Explorer, FOCUS, the export \
         or the reports of Google Cloud billing, and R2's usage, as CSV, Parquet or JSON; its columns are {columns}"
    )]
    Unknown {
        /// Path of the file.
        file: String,
        /// First columns of the file.
        columns: String,
    },
    /// The bill has no charges.
    #[error("{0}: the bill contains no charge")]
    Empty(String),
    /// The bill is in another currency than the prices.
    #[error("{file}: the bill is in {currency}, but prices are in US dollars; export it in US dollars")]
    Currency {
        /// Path of the file.
        file: String,
        /// Code of the currency.
        currency: String,
    },
}

impl ExplainError {
    /// Returns an error about a row of a file.
    pub fn at(file: &Path, row: u64, reason: impl Into<String>) -> ExplainError {
        ExplainError::File(LogError::at(file, row, reason))
    }

    /// Returns an error about a whole file.
    pub fn unreadable(file: &Path, reason: impl std::fmt::Display) -> ExplainError {
        ExplainError::File(LogError::unreadable(file, reason))
    }
}
