//! The prices and rules of a price book.

use super::{Price, Rule};

/// Prices and rules of a book, without its offers.
#[derive(Debug, Clone, Default)]
pub struct Entries {
    /// Prices in the order of the book.
    pub prices: Vec<Price>,
    /// Rules in the order of the book.
    pub rules: Vec<Rule>,
}
