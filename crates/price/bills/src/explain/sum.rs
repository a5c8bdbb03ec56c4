//! Sums of the charges of a bill. Memory grows with the number of usages and resources, up to a limit, and not with the
//! number of charges.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::civil::Date;

use super::ExplainError;
use super::charge::{Charge, UsageKey};
use super::covered::Days;
use super::format::charges;
use super::meaning::meaning;

/// Maximum number of usages, and of resources. Further ones are added together.
const MAX_NAMES: usize = 100_000;
/// Maximum number of maxima that are kept.
const MAX_PEAKS: usize = 1_000_000;
/// Name under which further usages and resources are added.
pub const OTHERS: &str = "(others)";

/// Sum of the charges of one usage. Amounts are in units of 10^-12.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sum {
    /// Quantity; `None` if a charge has none.
    pub quantity: Option<i128>,
    /// Cost in US dollars.
    pub cost: i128,
    /// True if the charges have costs, and not only usage.
    pub is_billed: bool,
    /// Number of charges.
    pub charges: u64,
    /// Costs by first day.
    pub days: BTreeMap<Date, i128>,
    /// Days of the month that the charges cover.
    pub covered: Days,
}

impl Sum {
    fn add(&mut self, charge: &Charge) {
        let quantity = match (self.charges, self.quantity, charge.quantity) {
            (0, _, quantity) => quantity,
            (_, Some(sum), Some(quantity)) => sum.checked_add(quantity),
            _ => None,
        };
        self.quantity = quantity;
        self.cost = self.cost.saturating_add(charge.cost.unwrap_or(0));
        self.is_billed |= charge.cost.is_some();
        self.charges += 1;
        if let Some(day) = charge.day {
            self.covered.add(Days::between(day, charge.last.unwrap_or(day)));
            *self.days.entry(day).or_insert(0) += charge.cost.unwrap_or(0);
        }
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: Sum) {
        self.quantity = match self.charges {
            0 => other.quantity,
            _ => self.quantity.zip(other.quantity).and_then(|(a, b)| a.checked_add(b)),
        };
        self.cost = self.cost.saturating_add(other.cost);
        self.is_billed |= other.is_billed;
        self.charges += other.charges;
        self.covered.add(other.covered);
        for (day, cost) in other.days {
            *self.days.entry(day).or_insert(0) += cost;
        }
    }
}

/// Sums of a bill.
#[derive(Debug, Clone, Default)]
pub struct BillSums {
    /// Sums by usage.
    pub usages: BTreeMap<UsageKey, Sum>,
    /// Costs of object storage by resource: the bucket, if the bill has it.
    pub resources: BTreeMap<String, i128>,
    /// First day of usage; `None` if no charge has one.
    pub first: Option<Date>,
    /// Last day of usage.
    pub last: Option<Date>,
    /// Sums of rows without a date, such as the row of totals of a table.
    undated: BTreeMap<UsageKey, Sum>,
    /// Largest charge of each usage, resource and day, if its quantity is a maximum.
    peaks: BTreeMap<(UsageKey, String, Option<Date>), Charge>,
    /// True if a charge says when its usage ended, or a day is not the first of a month.
    has_days: bool,
    /// True if there are more maxima than can be kept.
    has_too_many: bool,
}

impl BillSums {
    /// Adds a charge, or keeps it until the largest of its day is known.
    fn take(&mut self, charge: Charge) {
        if !charge.is_peak {
            return self.add(charge);
        }
        if self.peaks.len() >= MAX_PEAKS {
            self.has_too_many = true;
            return;
        }
        let of = (charge.key.clone(), charge.resource.clone(), charge.day);
        let known = self.peaks.entry(of).or_insert_with(|| charge.clone());
        if known.quantity < charge.quantity {
            *known = charge;
        }
    }

    /// Adds the largest charges of each day. Months are covered if the file has only their first days.
    fn finish(&mut self) {
        for (_, charge) in std::mem::take(&mut self.peaks) {
            self.add(charge);
        }
        if !self.has_days {
            self.last = self.last.map(Date::last_of_month);
            self.usages.iter_mut().filter_map(|(key, sum)| Some((key.month?, sum))).for_each(
                |(month, sum)| {
                    sum.covered = Days::month(month);
                },
            );
        }
    }

    fn add(&mut self, charge: Charge) {
        if let Some(day) = charge.day {
            self.has_days |= charge.last.is_some() || day.day() > 1;
            self.first = Some(self.first.map_or(day, |first| first.min(day)));
            let end = charge.last.unwrap_or(day).max(day);
            self.last = Some(self.last.map_or(end, |last| last.max(end)));
        }
        if !charge.resource.is_empty() && meaning(&charge.key).is_some() {
            let is_full = self.resources.len() >= MAX_NAMES && !self.resources.contains_key(&charge.resource);
            let name = if is_full { OTHERS.to_string() } else { charge.resource.clone() };
            *self.resources.entry(name).or_insert(0) += charge.cost.unwrap_or(0);
        }
        let sums = if charge.day.is_some() { &mut self.usages } else { &mut self.undated };
        let is_full = sums.len() >= MAX_NAMES && !sums.contains_key(&charge.key);
        let key = match is_full {
            true => UsageKey { usage: OTHERS.into(), operation: String::new(), ..charge.key.clone() },
            false => charge.key.clone(),
        };
        sums.entry(key).or_default().add(&charge);
    }

    /// Returns the cost of all charges, in units of 10^-12 US dollars.
    pub fn total(&self) -> i128 {
        self.usages.values().map(|sum| sum.cost).sum()
    }
}

/// Reads bills and adds their charges up. In a pivot of Cost Explorer, the row with the sum has no date and counts only
/// if there are no other rows.
///
/// # Errors
/// If a file cannot be read or is no bill, or there is no charge.
pub fn sums(files: &[PathBuf]) -> Result<BillSums, ExplainError> {
    let mut out = BillSums::default();
    for file in files {
        let mut of_file = BillSums::default();
        charges(file, &mut |charge| of_file.take(charge))?;
        if of_file.has_too_many {
            let reason = format!("more than {MAX_PEAKS} rows of buckets and days; query fewer at once");
            return Err(ExplainError::unreadable(file, reason));
        }
        of_file.finish();
        out.merge(of_file);
    }
    if out.usages.is_empty() {
        let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        return Err(ExplainError::Empty(names.join(", ")));
    }
    Ok(out)
}

impl BillSums {
    /// Adds the sums of another file.
    fn merge(&mut self, other: BillSums) {
        let is_pivot = |key: &UsageKey| key.service.is_empty() && key.unit.is_empty();
        let repeats = !other.usages.is_empty() && other.usages.keys().all(is_pivot);
        let undated = if repeats { BTreeMap::new() } else { other.undated };
        for (key, sum) in other.usages.into_iter().chain(undated) {
            self.usages.entry(key).or_default().merge(sum);
        }
        for (name, cost) in other.resources {
            *self.resources.entry(name).or_insert(0) += cost;
        }
        self.first = self.first.into_iter().chain(other.first).min();
        self.last = self.last.into_iter().chain(other.last).max();
    }
}
