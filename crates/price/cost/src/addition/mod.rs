//! Lines that are added to the bill of a store: a replica in another region, machines that run elsewhere, keys.

pub mod keys;
pub mod machines;
pub mod replication;

use super::bill::{Bill, BillPart, bill};
use super::egress::Egress;
use super::tariff::{Measure, Meter, Rules, Tariff};
use super::usage::Usage;
use plimsoll_base::provider::calls::CallSet;

/// Lines that are added to the bill of a store.
pub trait Addition {
    /// Returns the flag that asks for the lines, with its value.
    fn flag(&self) -> String;

    /// Adds the lines to the bill of a usage at a tariff.
    ///
    /// # Errors
    /// The reason for which there is no bill.
    fn add(&self, to: &mut Bill, tariff: &Tariff, usage: &Usage) -> Result<(), String>;
}

/// A quantity that another offer than the store charges.
struct Extra<'a> {
    /// Price of the quantity.
    meter: Meter,
    /// Number of bytes, requests or other things.
    quantity: u64,
    /// Part of the bill that it belongs to.
    part: BillPart,
    /// Beginning of the item's name.
    prefix: &'a str,
}

/// Adds a quantity that another offer charges to the bill of a store.
///
/// # Errors
/// The reason for which there is no bill.
fn add_extra(to: &mut Bill, extra: Extra<'_>, usage: &Usage) -> Result<(), String> {
    let meter = Meter { measure: Measure::Egress, ..extra.meter };
    let used = Usage {
        egress: Egress::Stated(extra.quantity),
        without_allowances: usage.without_allowances,
        ..Usage::default()
    };
    let tariff = Tariff {
        offer: to.provider.clone(),
        title: to.title.clone(),
        provider: None,
        sells_compute: true,
        region: to.region.clone(),
        network: None,
        as_of: to.as_of.clone(),
        meters: vec![meter],
        instances: Vec::new(),
        functions: Vec::new(),
        rules: Rules::default(),
        priced: CallSet::default(),
    };
    let mut found = bill(&tariff, &used).map_err(|e| e.to_string())?;
    found.lines.iter_mut().for_each(|line| line.part = Some(extra.part));
    add_bill(to, found, extra.prefix);
    Ok(())
}

/// Adds the lines of a bill to another one, with a prefix that says what they are.
fn add_bill(to: &mut Bill, from: Bill, prefix: &str) {
    for mut line in from.lines {
        line.item = format!("{prefix}: {}", line.item);
        to.total_usd += line.amount_usd;
        to.lines.push(line);
    }
}
