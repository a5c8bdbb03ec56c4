//! Comparison of the cost of a run with the price books: each line has the price of the book on the date of the bill,
//! its amount is quantity times price, and the total is the sum of the lines.

use plimsoll_cost::bill::{Bill, BillLine};
use plimsoll_cost::book::Prices;
use plimsoll_cost::money::Usd;
use plimsoll_cost::tariff::{Meter, Tariff};

use plimsoll_judge::summary::result::CostFigures;

/// Ending of the name of a line that a free allowance covers.
const FREE: &str = ", free allowance";

/// Picodollars per dollar, and the smallest parts of a quantity per unit.
const PICO: i128 = 1_000_000_000_000;

/// Result of the comparison with the price books.
#[derive(Debug, Default)]
pub struct Priced {
    /// Number of lines of bills that follow from a price book.
    pub lines: usize,
    /// Contradictions, in words.
    pub problems: Vec<String>,
    /// Bills whose prices no built-in book of this version has, in words.
    pub unknown: Vec<String>,
}

/// Compares the bills of a run with the built-in books. `other_books` is true if the prices may come from elsewhere:
/// from a file of the user, or from another version of the books.
pub fn check(cost: &[CostFigures], other_books: bool) -> Priced {
    let mut out = Priced::default();
    if cost.is_empty() {
        return out;
    }
    let prices = match Prices::built_in() {
        Ok(prices) => prices,
        Err(error) => {
            out.unknown.push(error.to_string());
            return out;
        }
    };
    for (number, figures) in cost.iter().enumerate() {
        let bill = &figures.bill;
        let sums = arithmetic(bill);
        let prices = date(bill).and_then(|date| {
            let tariff =
                prices.tariff(&bill.provider, Some(&bill.region), date).map_err(|e| e.to_string())?;
            bill.lines.iter().try_for_each(|line| in_book(line, &tariff))
        });
        match (&sums, &prices) {
            (Ok(()), Ok(())) => out.lines += bill.lines.len(),
            (Ok(()), Err(reason)) if other_books => out.unknown.push(format!("cost[{number}]: {reason}")),
            _ => {}
        }
        let wrong = sums.err().or(prices.err().filter(|_| !other_books));
        out.problems.extend(wrong.map(|problem| format!("cost[{number}]: {problem}")));
    }
    out
}

fn date(bill: &Bill) -> Result<jiff::civil::Date, String> {
    bill.as_of.parse().map_err(|_| format!("'{}' is no date", bill.as_of))
}

/// Checks the amounts of a bill.
fn arithmetic(bill: &Bill) -> Result<(), String> {
    let total: Usd = bill.lines.iter().map(|line| line.amount_usd).sum();
    if total != bill.total_usd {
        return Err(format!("the total is {}, and the lines add up to {total}", bill.total_usd));
    }
    bill.lines.iter().try_for_each(|line| {
        if is_product(line) {
            return Ok(());
        }
        let BillLine { item, quantity, unit_price_usd, amount_usd, .. } = line;
        Err(format!("{item}: {quantity} x {unit_price_usd} is not {amount_usd}"))
    })
}

/// Returns true if the amount of a line is its quantity times its price. Both are rounded to 12 decimal places.
fn is_product(line: &BillLine) -> bool {
    let (Ok(quantity), price) = (Usd::parse(&line.quantity), line.unit_price_usd.pico()) else {
        return false;
    };
    let Some(product) = quantity.pico().checked_mul(price) else { return false };
    let Some(amount) = line.amount_usd.pico().checked_mul(PICO) else { return false };
    // Half of the last place of the quantity, at this price, and half of the last place of the amount.
    product.abs_diff(amount) <= (price.unsigned_abs() + PICO.unsigned_abs()) / 2 + 1
}

/// Checks that a tariff has the price of a line, with its source and date.
fn in_book(line: &BillLine, tariff: &Tariff) -> Result<(), String> {
    let (item, is_free) = match line.item.strip_suffix(FREE) {
        Some(item) => (item, true),
        None => (line.item.as_str(), false),
    };
    let is_same = |meter: &&Meter| {
        let known = &meter.provenance;
        let price = match is_free {
            true => line.unit_price_usd == Usd::ZERO,
            false => meter.tiers.iter().any(|tier| tier.price == line.unit_price_usd),
        };
        let about = (known.source.as_str(), known.as_of.as_str(), known.confidence, meter.note.as_ref());
        price
            && (meter.item.as_str(), meter.unit.as_str()) == (item, line.unit.as_str())
            && about == (line.source.as_str(), line.as_of.as_str(), line.confidence, line.note.as_ref())
    };
    let mut all = tariff.meters.iter().chain(&tariff.instances).chain(&tariff.functions);
    match all.find(is_same) {
        Some(_) => Ok(()),
        None => Err(format!(
            "{}: the price {} per {} is not in the price book of {} on {}",
            line.item, line.unit_price_usd, line.unit, tariff.offer, tariff.as_of
        )),
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_base::provider::calls::Call;
    use plimsoll_cost::bill::bill;
    use plimsoll_cost::egress::Egress;
    use plimsoll_cost::usage::Usage;

    use super::*;

    /// Returns a bill with several lines at each offer that has prices for it.
    fn bills() -> Vec<CostFigures> {
        let prices = Prices::built_in().unwrap();
        let date = jiff::civil::date(2026, 11, 21);
        let mut usage = Usage {
            stored: 123_456_789_012,
            uploaded: 7_654_321,
            egress: Egress::Stated(98_765_432_101),
            ..Usage::default()
        };
        usage.calls.add(Call::PutObject, 1_234_567);
        usage.calls.add(Call::GetObject, 34_567_891);
        let of = |name: &str| bill(&prices.tariff(name, None, date).ok()?, &usage).ok();
        prices
            .stores()
            .into_iter()
            .filter_map(of)
            .map(|bill| CostFigures { bill, ..CostFigures::default() })
            .collect()
    }

    #[test]
    fn bills_of_the_books_follow_from_the_books() {
        let bills = bills();
        assert!(bills.len() > 10, "{}", bills.len());
        let found = check(&bills, false);
        assert_eq!((found.problems, found.unknown), (Vec::new(), Vec::new()));
        assert_eq!(found.lines, bills.iter().map(|cost| cost.bill.lines.len()).sum::<usize>());
    }

    /// Part of the expected message, and a change of a bill.
    type Change = (&'static str, fn(&mut Bill));

    #[test]
    fn each_changed_part_of_a_bill_is_found() {
        let changes: [Change; 8] = [
            ("total", |bill| bill.total_usd += Usd::from_pico(1)),
            ("is not", |bill| {
                bill.lines[0].amount_usd += Usd::from_pico(10);
                bill.total_usd += Usd::from_pico(10);
            }),
            ("is not", |bill| bill.lines[0].quantity.insert(0, '1')),
            ("not in the price book", |bill| {
                bill.total_usd += Usd::from_pico(-bill.lines[0].amount_usd.pico());
                (bill.lines[0].unit_price_usd, bill.lines[0].amount_usd) = (Usd::ZERO, Usd::ZERO);
            }),
            ("not in the price book", |bill| bill.lines[0].item.push('s')),
            ("not in the price book", |bill| bill.lines[0].source.push('s')),
            ("no date", |bill| bill.as_of = "yesterday".into()),
            ("region", |bill| bill.region = "us-east-9".into()),
        ];
        let of_aws = |cost: &CostFigures| cost.bill.provider == "aws-s3";
        let whole = bills().into_iter().find(of_aws).unwrap();
        for (named, change) in changes {
            let mut changed = whole.clone();
            change(&mut changed.bill);
            let found = check(&[changed.clone()], false);
            assert!(found.problems.len() == 1 && found.problems[0].contains(named), "{named}: {found:?}");
            let is_arithmetic = ["total", "is not"].contains(&named);
            assert_eq!(check(&[changed], true).problems.len(), usize::from(is_arithmetic), "{named}");
        }
    }
}
