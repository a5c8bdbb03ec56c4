//! Days of a month that the charges of a bill cover.

use jiff::civil::Date;

/// Days of one month, one bit each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Days(u32);

impl Days {
    /// Returns the days from `first` to `last`; those after the month of `first` are left out.
    pub fn between(first: Date, last: Date) -> Days {
        let end = match last.first_of_month() == first.first_of_month() {
            true => last.day().max(first.day()),
            false if last > first => first.days_in_month(),
            false => first.day(),
        };
        let up_to = |day: i8| (1u64 << day) - 1;
        Days((up_to(end) ^ up_to(first.day() - 1)) as u32)
    }

    /// Returns all days of the month of a day.
    pub fn month(day: Date) -> Days {
        Days::between(day.first_of_month(), day.last_of_month())
    }

    /// Adds other days of the same month.
    pub fn add(&mut self, other: Days) {
        self.0 |= other.0;
    }

    /// Returns the number of days.
    pub fn count(self) -> u32 {
        self.0.count_ones()
    }
}

/// Days of a month that a bill must cover at least, so that they stand for the whole month.
const MOST: u32 = 25;

/// Month of a bill that is compared with other classes and providers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MonthNow {
    /// First day of the month; `None` if the bill has no dates.
    pub month: Option<Date>,
    covered: u32,
    days: u32,
}

impl MonthNow {
    /// Selects the last month of which a bill covers most days, from all months with the days covered. `None` if the
    /// bill covers each month in part only. With `is_daily_cost`, the cost of a day stands for a month, so the last
    /// month with two covered days, or with one, is enough.
    pub fn select(months: &[(Option<Date>, Days)], is_daily_cost: bool) -> Option<MonthNow> {
        let dated = months.iter().filter_map(|(month, covered)| Some(((*month)?, *covered)));
        let mut dated: Vec<(Date, Days)> = dated.collect();
        if dated.is_empty() {
            return Some(MonthNow { month: None, covered: 1, days: 1 });
        }
        dated.sort_by_key(|(month, _)| std::cmp::Reverse(*month));
        let with = |least: u32| dated.iter().find(|(_, covered)| covered.count() >= least);
        let daily = || with(2).or_else(|| with(1)).filter(|_| is_daily_cost);
        let (month, covered) = with(MOST).or_else(daily)?;
        Some(MonthNow {
            month: Some(*month),
            covered: covered.count(),
            days: u32::from(month.days_in_month().unsigned_abs()),
        })
    }

    /// Returns an amount of the covered days, extrapolated to the month.
    pub fn whole(&self, amount: u128) -> u128 {
        match self.covered == self.days {
            true => amount,
            false => amount.saturating_mul(self.days.into()) / u128::from(self.covered),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(text: &str) -> Date {
        text.parse().unwrap()
    }

    #[test]
    fn days_are_those_of_one_month() {
        let count = |first: &str, last: &str| Days::between(date(first), date(last)).count();
        assert_eq!(count("2026-05-01", "2026-05-31"), 31);
        assert_eq!(count("2026-05-31", "2026-05-31"), 1);
        assert_eq!((count("2026-05-20", "2026-06-10"), count("2026-05-20", "2026-04-10")), (12, 1));
        let mut days = Days::between(date("2026-02-01"), date("2026-02-14"));
        days.add(Days::between(date("2026-02-10"), date("2026-02-28")));
        assert_eq!(days, Days::month(date("2026-02-09")));
    }

    #[test]
    fn a_month_of_which_most_days_are_covered_is_the_month_now() {
        let of = |first: &str, last: &str| {
            let (first, last) = (date(first), date(last));
            (Some(first.first_of_month()), Days::between(first, last))
        };
        let (april, may) = (of("2026-04-01", "2026-04-30"), of("2026-05-01", "2026-05-20"));
        let month = |now: Option<MonthNow>| now.and_then(|now| now.month).map(|month| month.to_string());
        assert_eq!(month(MonthNow::select(&[april, may], false)).as_deref(), Some("2026-04-01"));
        assert_eq!(MonthNow::select(&[may], false), None);
        assert_eq!(month(MonthNow::select(&[may], true)).as_deref(), Some("2026-05-01"));
        let most = MonthNow::select(&[of("2026-04-02", "2026-04-26")], false).unwrap();
        assert_eq!((most.whole(250), MonthNow::select(&[april], false).unwrap().whole(250)), (300, 250));
        let undated = MonthNow::select(&[(None, Days::default())], false).unwrap();
        assert_eq!((undated.month, undated.whole(7)), (None, 7));
    }
}
