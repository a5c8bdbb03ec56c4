//! Break-even analysis: the amounts at which the cheapest provider changes if one value of the workload varies.

use std::ops::RangeInclusive;

use serde::Serialize;

use super::bill::total;
use super::money::Usd;
use super::tariff::Tariff;
use super::workload::{Workload, WorkloadError};

/// Number of points at which all bills are computed before crossings are located between them.
const POINTS: usize = 1200;
/// Number of intervals into which the space between two points is divided if bills that rise in steps are close.
const FINER: u64 = 64;

/// Value of the workload that varies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum Vary {
    /// Data sent to the internet
    Egress,
    /// Amount of data stored
    Storage,
    /// Number of objects read
    Get,
    /// Number of objects written
    Put,
    /// Mean size of an object
    ObjectSize,
}

impl Vary {
    /// Returns the name for use in sentences.
    pub fn name(self) -> &'static str {
        match self {
            Vary::Egress => "egress",
            Vary::Storage => "storage",
            Vary::Get => "objects read",
            Vary::Put => "objects written",
            Vary::ObjectSize => "object size",
        }
    }

    /// Returns the flag that sets the value.
    pub fn flag(self) -> &'static str {
        match self {
            Vary::Egress => "--egress",
            Vary::Storage => "--storage",
            Vary::Get => "--get",
            Vary::Put => "--put",
            Vary::ObjectSize => "--object-size",
        }
    }

    /// Returns true if the value is a number of bytes, false if it is a count.
    pub fn is_bytes(self) -> bool {
        !matches!(self, Vary::Get | Vary::Put)
    }

    /// Returns the default range: 1 GB to 100 PB, 10^3 to 10^12 requests, or objects of 1 KiB to 1 GiB.
    pub fn usual_range(self) -> (u64, u64) {
        match self {
            Vary::Egress | Vary::Storage => (1_000_000_000, 100_000_000_000_000_000),
            Vary::Get | Vary::Put => (1_000, 1_000_000_000_000),
            Vary::ObjectSize => (1 << 10, 1 << 30),
        }
    }

    /// Returns the workload with the value unset.
    pub fn clear(self, workload: &Workload) -> Workload {
        let mut workload = workload.clone();
        match self {
            Vary::Egress => workload.egress = None,
            Vary::Storage => workload.storage = None,
            Vary::ObjectSize => workload.object_size = None,
            Vary::Get => workload.get = None,
            Vary::Put => workload.put = None,
        }
        workload
    }

    /// Returns the workload with the value set to an amount. Unsets the bytes that follow from it.
    pub fn set(self, workload: &Workload, amount: u64) -> Workload {
        let mut workload = workload.clone();
        let bytes = Some(format!("{amount}B"));
        match self {
            Vary::Egress => workload.egress = bytes,
            Vary::Storage => workload.storage = bytes,
            Vary::ObjectSize => {
                workload.object_size = bytes;
                (workload.written, workload.read) = (None, None);
            }
            Vary::Get => {
                workload.get = Some(amount.to_string());
                workload.read = workload.read.filter(|_| workload.object_size.is_none());
            }
            Vary::Put => {
                workload.put = Some(amount.to_string());
                workload.written = workload.written.filter(|_| workload.object_size.is_none());
            }
        }
        workload
    }
}

/// All bills at one amount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Point {
    /// Amount of the value that varies, in bytes or requests.
    pub amount: u64,
    /// Total of each provider; null if it has no bill.
    pub totals_usd: Vec<Option<Usd>>,
}

impl Point {
    /// Returns the index of the cheapest provider. In a tie, the `previous` one wins, else the first.
    pub fn cheapest(&self, previous: Option<usize>) -> Option<usize> {
        let least = self.totals_usd.iter().flatten().min()?;
        let is_least = |at: &usize| self.totals_usd[*at] == Some(*least);
        previous.filter(is_least).or_else(|| (0..self.totals_usd.len()).find(is_least))
    }
}

/// Range of amounts for which one provider is the cheapest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Segment {
    /// Smallest amount of the range.
    pub from: u64,
    /// Largest amount of the range.
    pub to: u64,
    /// Index of the provider with the lowest bill; null if no provider has a bill.
    pub cheapest: Option<usize>,
    /// All bills at `from`.
    pub at_from: Point,
}

/// Result of a break-even analysis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Breakeven {
    /// Value of the workload that varies.
    pub vary: Vary,
    /// Names of the providers, in the requested order.
    pub providers: Vec<String>,
    /// Ranges of amounts, each with its cheapest provider.
    pub segments: Vec<Segment>,
    /// All computed points, by ascending amount.
    pub points: Vec<Point>,
}

/// Returns amounts between two values, evenly spaced on a logarithmic scale.
fn amounts(from: u64, to: u64) -> Vec<u64> {
    let (low, high) = ((from.max(1) as f64).ln(), (to as f64).ln());
    let at = |i: usize| (low + (high - low) * i as f64 / (POINTS - 1) as f64).exp().round() as u64;
    let mut out: Vec<u64> = (0..POINTS).map(at).map(|a| a.clamp(from, to)).collect();
    out[0] = from;
    out[POINTS - 1] = to;
    out.dedup();
    out
}

/// Computes all bills for the workload with the value set to an amount.
fn point(tariffs: &[Tariff], workload: &Workload, vary: Vary, amount: u64) -> Result<Point, WorkloadError> {
    let usage = vary.set(workload, amount).resolve()?.usage;
    Ok(Point { amount, totals_usd: tariffs.iter().map(|t| total(t, &usage).ok()).collect() })
}

/// Returns a bound on the steps in which bills rise: the price of one unit of every item that is rounded up to
/// whole units.
fn steps(tariffs: &[Tariff]) -> Usd {
    let rounded = tariffs.iter().filter(|t| t.rules.round_up).flat_map(|t| &t.meters);
    rounded.filter_map(|m| m.tiers.iter().map(|t| t.price).max()).sum()
}

/// Adds points where the two lowest bills differ by no more than their steps, because the cheapest provider can
/// change more than once there.
fn refined(
    coarse: Vec<Point>,
    steps: Usd,
    at: impl Fn(u64) -> Result<Point, WorkloadError>,
) -> Result<Vec<Point>, WorkloadError> {
    let close = |point: &Point| {
        let mut totals: Vec<Usd> = point.totals_usd.iter().flatten().copied().collect();
        totals.sort();
        totals.len() > 1 && totals[1] - totals[0] <= steps
    };
    let mut out: Vec<Point> = Vec::new();
    for point in coarse {
        if let Some(last) = out.last().filter(|last| steps > Usd::ZERO && (close(last) || close(&point))) {
            let (from, width) = (last.amount, point.amount - last.amount);
            for part in 1..FINER {
                let amount = from + (u128::from(width) * u128::from(part) / u128::from(FINER)) as u64;
                if out.last().is_some_and(|last| last.amount < amount) {
                    out.push(at(amount)?);
                }
            }
        }
        if out.last().is_none_or(|last| last.amount < point.amount) {
            out.push(point);
        }
    }
    Ok(out)
}

/// Finds the ranges in which each provider is the cheapest, exact to the byte or request.
///
/// # Errors
/// [`WorkloadError`] if the workload is invalid at one of the amounts.
pub fn breakeven(
    tariffs: &[Tariff],
    workload: &Workload,
    vary: Vary,
    range: RangeInclusive<u64>,
) -> Result<Breakeven, WorkloadError> {
    let (from, to) = range.into_inner();
    let at = |amount| point(tariffs, workload, vary, amount);
    let coarse: Vec<Point> = amounts(from, to).into_iter().map(at).collect::<Result<_, _>>()?;
    let points = refined(coarse, steps(tariffs), at)?;
    let mut segments: Vec<Segment> = Vec::new();
    let mut current = None;
    for pair in points.windows(2) {
        let (left, right) = (&pair[0], &pair[1]);
        if segments.is_empty() {
            current = left.cheapest(None);
            segments.push(Segment { from, to, cheapest: current, at_from: left.clone() });
        }
        if right.cheapest(current) == current {
            continue;
        }
        // Find the smallest amount in between at which that provider is no longer the cheapest.
        let (mut below, mut above) = (left.amount, right.amount);
        while above - below > 1 {
            let middle = below + (above - below) / 2;
            if at(middle)?.cheapest(current) == current { below = middle } else { above = middle }
        }
        let here = at(above)?;
        current = here.cheapest(None);
        if let Some(last) = segments.last_mut() {
            last.to = below;
        }
        segments.push(Segment { from: above, to, cheapest: current, at_from: here });
        // If the cheapest changes again before the next point, that change is recorded at the next point.
        current = right.cheapest(current);
        if segments.last().map(|s| s.cheapest) != Some(current) {
            segments.push(Segment { from: right.amount, to, cheapest: current, at_from: right.clone() });
            let last = segments.len() - 1;
            segments[last - 1].to = right.amount - 1;
        }
    }
    let providers = tariffs.iter().map(|t| t.offer.clone()).collect();
    Ok(Breakeven { vary, providers, segments, points })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::book::Prices;

    fn tariffs(names: &[&str]) -> Vec<Tariff> {
        let prices = Prices::built_in().unwrap();
        names.iter().map(|n| prices.tariff(n, None, "2026-11-21".parse().unwrap()).unwrap()).collect()
    }

    #[test]
    fn a_crossing_is_found_to_the_byte() {
        // 1 TB costs 21.42 at S3 and 14.85 at R2. S3 has 100 GiB of free egress, and R2 never bills egress, so
        // R2 is always cheaper. The workload has no reads; R2 bills them at 0.36 per million beyond ten
        // million, B2 does not bill them.
        let workload = Workload { storage: Some("1TB".into()), ..Workload::default() };
        let found =
            breakeven(&tariffs(&["aws-s3", "cloudflare-r2"]), &workload, Vary::Egress, 1..=1 << 50).unwrap();
        assert_eq!(found.segments.len(), 1);
        assert_eq!(found.segments[0].cheapest, Some(1));
        // S3 Express is more expensive than S3 for storage and cheaper for reads: 1 GiB costs 0.087 more, and a
        // GET of zero bytes costs 0.00037 / 1000 less.
        let workload =
            Workload { storage: Some("1 GiB".into()), read: Some("0B".into()), ..Workload::default() };
        let found =
            breakeven(&tariffs(&["aws-s3", "aws-s3-express"]), &workload, Vary::Get, 1..=1_000_000_000)
                .unwrap();
        let crossing = found.segments[1].from;
        assert_eq!(found.segments.len(), 2);
        assert!((crossing as f64 - 0.087 / 0.00000037).abs() <= 1.0, "{crossing}");
        let [s3, express] = found.segments[1].at_from.totals_usd[..] else { panic!() };
        assert!(express < s3);
    }

    /// Regression test: R2 rounds up to whole millions, so the cheapest provider changes repeatedly near the
    /// crossing. Only one of these changes was found.
    #[test]
    fn bills_that_rise_in_steps_cross_more_than_once() {
        let workload = Workload {
            storage: Some("1TB".into()),
            object_size: Some("64KiB".into()),
            ..Workload::default()
        };
        let found = breakeven(
            &tariffs(&["aws-s3-express", "cloudflare-r2"]),
            &workload,
            Vary::Put,
            1_000..=1_000_000_000_000,
        );
        let found = found.unwrap();
        let r2_again = found.segments.iter().find(|s| s.cheapest == Some(1) && s.from > 1_000).unwrap();
        assert!((28_900_000..=29_000_000).contains(&r2_again.from), "{r2_again:?}");
    }

    /// Regression test: reads from B2 were free at any number. Egress beyond three times the data stored is
    /// billed.
    #[test]
    fn a_crossing_includes_the_egress_of_reads() {
        let workload =
            Workload { storage: Some("1TB".into()), object_size: Some("1MB".into()), ..Workload::default() };
        let between = tariffs(&["backblaze-b2", "cloudflare-r2"]);
        let found = breakeven(&between, &workload, Vary::Get, 1..=100_000_000).unwrap();
        // (14.85 - 6.8805) / 0.01 per GB are 796.95 GB beyond the free 3,000 GB. R2's first ten million reads
        // are free.
        assert_eq!((found.segments[0].cheapest, found.segments[1].cheapest), (Some(0), Some(1)));
        assert_eq!(found.segments[1].from, 3_796_951);
    }

    #[test]
    fn a_provider_that_refuses_the_workload_is_not_compared() {
        let workload = Workload { storage: Some("1TB".into()), ..Workload::default() };
        let found =
            breakeven(&tariffs(&["wasabi", "aws-s3"]), &workload, Vary::Egress, 1..=10_000_000_000_000)
                .unwrap();
        let ends: Vec<_> = found.segments.iter().map(|s| (s.from, s.cheapest)).collect();
        assert_eq!(ends, [(1, Some(0)), (1_000_000_000_001, Some(1))]);
    }
}
