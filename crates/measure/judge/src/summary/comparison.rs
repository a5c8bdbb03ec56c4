//! Comparison of two series: the ratio of each figure with its confidence interval, and a verdict.

use super::confidence::{IntervalEstimate, WIDEST};
use super::estimates::{Estimate, Estimator, Metric};
use super::paired::spread;
use super::series::{LatencyKind, Series};
use super::student::LEVEL;
use super::student::{Variance, power_factor, t_probability, t_quantile, welch_freedom};

/// Conclusion about the difference between two figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The second figure is better.
    Faster,
    /// The second figure is worse.
    Slower,
    /// The interval includes no difference, or the probability is above its bound.
    NoDifference,
    /// There is no interval, because there is too little data.
    Inconclusive,
}

impl serde::Serialize for Verdict {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.describe())
    }
}

impl Verdict {
    /// All verdicts, in the order of reports.
    pub const ALL: [Verdict; 4] =
        [Verdict::Faster, Verdict::Slower, Verdict::NoDifference, Verdict::Inconclusive];

    /// Returns the text for reports.
    pub fn describe(self) -> &'static str {
        match self {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::NoDifference => "no difference shown",
            Verdict::Inconclusive => "inconclusive",
        }
    }
}

/// Comparison of one metric between two series.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricComparison {
    /// Metric that is compared.
    pub metric: Metric,
    /// Estimate for the first series.
    pub base: Estimate,
    /// Estimate for the second series.
    pub other: Estimate,
    /// Ratio of the second to the first estimate with its interval: `(ratio, low, high)`. For errors, the
    /// difference of the shares. `None` without an interval.
    pub change: Option<(f64, f64, f64)>,
    /// Probability (p-value) of a change at least this large if there were no true difference.
    pub probability: Option<f64>,
    /// Degrees of freedom of the interval of `change`. `None` without an interval.
    pub freedom: Option<f64>,
    /// Smallest relative change (for errors, difference of the shares) that a comparison of this design detects in 80%
    /// of the cases. `None` without an interval.
    pub smallest: Option<f64>,
    /// Seconds of measurement that an interval would need; `None` if there is an interval.
    pub duration_needed_s: Option<f64>,
    /// Number of pairs of blocks whose correlation narrowed the interval; 0 if the series are not paired.
    pub pairs: usize,
}

impl MetricComparison {
    /// Returns the ratio (or, for errors, the difference) that means no change.
    pub fn neutral(&self) -> f64 {
        if self.metric == Metric::Errors { 0.0 } else { 1.0 }
    }

    /// Returns the verdict if a difference must have a probability of at most `bound`.
    pub fn verdict(&self, bound: f64) -> Verdict {
        let (Some((change, low, high)), Some(p)) = (self.change, self.probability) else {
            return Verdict::Inconclusive;
        };
        let neutral = self.neutral();
        // At the 5% level the interval alone decides, so that interval and verdict never disagree.
        let outside = low > neutral || high < neutral;
        if !outside || p > bound.min(1.0 - LEVEL + 1e-3) {
            Verdict::NoDifference
        } else if (change < neutral) == self.metric.less_is_better() {
            Verdict::Faster
        } else {
            Verdict::Slower
        }
    }
}

/// Compares one metric of two series. `paired` is true if both were measured in interleaved blocks of the same run: the
/// interval then follows from the pairs of blocks ([`paired`](super::paired)), if there are enough.
pub fn compare(
    base: &mut Estimator<'_>,
    other: &mut Estimator<'_>,
    metric: Metric,
    paired: bool,
) -> MetricComparison {
    let (a, b) = (base.estimate(metric), other.estimate(metric));
    let needs = [a.confidence, b.confidence].into_iter().filter_map(|c| c.duration_needed_s());
    let mut out = MetricComparison {
        metric,
        base: a,
        other: b,
        change: None,
        probability: None,
        freedom: None,
        smallest: None,
        duration_needed_s: needs.reduce(f64::max),
        pairs: 0,
    };
    if [a, b].iter().any(|side| side.confidence == IntervalEstimate::NoneSucceeded) {
        out.duration_needed_s = None;
        return out;
    }
    let (Some(av), Some(bv)) = (a.value, b.value) else { return out };
    let unseen = [base.stalls_unseen(metric), other.stalls_unseen(metric)].into_iter().flatten();
    if let Some(needed_s) = unseen.reduce(f64::max) {
        out.duration_needed_s = Some(needed_s);
        return out;
    }
    let longest = base.series.seconds.len().max(other.series.seconds.len()) as f64;
    match if paired { spread(base, other, metric) } else { None } {
        Some(pairs) if pairs.structured => out.duration_needed_s = Some(3.0 * longest),
        Some(pairs) => {
            out.pairs = pairs.pairs;
            let reach = t_quantile(pairs.freedom) * pairs.error;
            let change = logarithm(bv) - logarithm(av);
            let ends = Ends { change, low: change - reach, high: change + reach, freedom: pairs.freedom };
            out.conclude(ends, longest);
        }
        None => out.conclude_unpaired(longest),
    }
    out
}

/// Interval of a change on a logarithmic scale; for errors, on a linear one.
struct Ends {
    change: f64,
    low: f64,
    high: f64,
    freedom: f64,
}

/// Returns the natural logarithm of a figure, finite also for 0.
fn logarithm(figure: f64) -> f64 {
    figure.max(f64::MIN_POSITIVE).ln()
}

impl MetricComparison {
    /// Sets the change from the values and the intervals of both estimates (Zou and Donner, "Construction of confidence
    /// limits about effect measures", Statistics in Medicine 27, 2008), for ratios on a logarithmic scale. Without both
    /// intervals there is no change. `longest` is the number of seconds of the longer side.
    fn conclude_unpaired(&mut self, longest: f64) {
        let (Some(av), Some(bv)) = (self.base.value, self.other.value) else { return };
        let (
            IntervalEstimate::Interval { low: al, high: ah, freedom: af },
            IntervalEstimate::Interval { low: bl, high: bh, freedom: bf },
        ) = (self.base.confidence, self.other.confidence)
        else {
            return;
        };
        let scale = |x: f64| if self.metric == Metric::Errors { x } else { logarithm(x) };
        let (av, al, ah, bv, bl, bh) = (scale(av), scale(al), scale(ah), scale(bv), scale(bl), scale(bh));
        let change = bv - av;
        let (low, high) = (change - (ah - av).hypot(bv - bl), change + (av - al).hypot(bh - bv));
        let squared = |wide: f64, freedom: f64| (wide / t_quantile(freedom)).powi(2);
        let variance = |wide: f64, freedom: f64| Variance { value: squared(wide, freedom), freedom };
        let freedom = welch_freedom(variance(ah - al, af), variance(bh - bl, bf)).min(af + bf);
        // The change has more degrees of freedom than each side.
        let narrower = t_quantile(freedom) / t_quantile(af.min(bf));
        let ends = Ends {
            change,
            low: change - (change - low) * narrower,
            high: change + (high - change) * narrower,
            freedom,
        };
        match self.metric != Metric::Errors && high - low > WIDEST.ln() {
            true => self.duration_needed_s = Some(shorter_than_widest_s(high - low, longest)),
            false => self.conclude(ends, longest),
        }
    }

    /// Sets the change from its interval, unless that is too wide. `longest` is the number of seconds of the longer
    /// side.
    fn conclude(&mut self, ends: Ends, longest: f64) {
        let Ends { change, low, high, freedom } = ends;
        if self.metric != Metric::Errors && high - low > WIDEST.ln() {
            self.duration_needed_s = Some(shorter_than_widest_s(high - low, longest));
            return;
        }
        let towards = if change > 0.0 { change - low } else { high - change };
        let standard_error = towards / t_quantile(freedom);
        self.probability = Some(if change == 0.0 || standard_error == 0.0 {
            f64::from(u8::from(change == 0.0))
        } else {
            t_probability(change / standard_error, freedom)
        });
        let back = |x: f64| if self.metric == Metric::Errors { x } else { x.exp() };
        self.change = Some((back(change), back(low), back(high)));
        self.freedom = Some(freedom);
        self.duration_needed_s = None;
        let detectable = (high - change).max(change - low) * power_factor(freedom);
        self.smallest = Some(if self.metric == Metric::Errors { detectable } else { detectable.exp() - 1.0 });
    }
}

/// Returns the seconds of measurement after which an interval of this width, of logarithms, is probably narrower than
/// [`WIDEST`].
fn shorter_than_widest_s(width: f64, seconds: f64) -> f64 {
    (2.0 * seconds * (width / WIDEST.ln()).powi(2)).ceil()
}

/// Returns the metrics that are compared by default. Excludes the rate of an open loop, because that is the
/// offered rate.
pub fn metrics(base: &Series, other: &Series) -> Vec<Metric> {
    let counts: LatencyKind = base.clocked();
    if base.size.is_some() {
        return [0.5, 0.99].map(|q| Metric::Percentile(counts, q)).to_vec();
    }
    let mut out: Vec<Metric> = [0.5, 0.9, 0.99, 0.999].map(|q| Metric::Percentile(counts, q)).to_vec();
    if !base.open {
        out.push(Metric::Rate);
        let moves = |s: &Series| s.seconds.iter().any(|s| s.bytes > 0.0);
        if moves(base) && moves(other) {
            out.push(Metric::Throughput);
        }
    }
    let failed = |s: &Series| s.seconds.iter().any(|s| s.failed + s.censored > 0);
    if failed(base) || failed(other) {
        out.push(Metric::Errors);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::series::Block;
    use crate::summary::series::Second;
    use plimsoll_base::rng::Stream;
    use plimsoll_recorder::sparse::bucket_of;

    /// Returns a series with 200 operations per second around `mean_us` microseconds, scaled by the `drift` of
    /// each block of 10 seconds.
    fn series(mean_us: f64, seed: u64, seconds: u64, drift: impl Fn(u64) -> f64) -> Series {
        let draws = Stream::new(seed, "series");
        let second = |s: u64| {
            let mut buckets = std::collections::BTreeMap::new();
            for i in 0..200 {
                let us = mean_us * drift(s / 10) * (0.3 * draws.normal(s * 1000 + i)).exp();
                *buckets.entry(bucket_of(us as u64) as u16).or_insert(0) += 1;
            }
            Second {
                second: s,
                block: Block { repeat: 0, number: (s / 10) as u32 },
                time_s: 1.0,
                completed: 200,
                operations: 200,
                service: buckets.into_iter().collect(),
                ..Second::default()
            }
        };
        Series {
            operation: plimsoll_workload::OperationKind::Get,
            seconds: (0..seconds).map(second).collect(),
            ..Series::default()
        }
    }

    fn p50(a: &Series, b: &Series, paired: bool) -> MetricComparison {
        compare(
            &mut Estimator::new(a),
            &mut Estimator::new(b),
            Metric::Percentile(LatencyKind::Service, 0.5),
            paired,
        )
    }

    #[test]
    fn a_ten_percent_slowdown_is_detected_and_measured() {
        let (a, b) = (series(1000.0, 1, 60, |_| 1.0), series(1100.0, 2, 60, |_| 1.0));
        let compared = p50(&a, &b, false);
        let (ratio, low, high) = compared.change.unwrap();
        assert!(low < 1.1 && high > 1.1 && low > 1.05 && high < 1.15, "{ratio} {low} {high}");
        assert_eq!(compared.verdict(0.05), Verdict::Slower);
        assert_eq!(p50(&b, &a, false).verdict(0.05), Verdict::Faster);
        assert_eq!(p50(&a, &a, false).verdict(0.05), Verdict::NoDifference);
    }

    #[test]
    fn pairing_removes_a_common_drift() {
        let drift = |block: u64| 1.0 + 0.4 * ((block * 7 % 12) as f64 / 12.0);
        let (a, b) = (series(1000.0, 1, 240, drift), series(1040.0, 2, 240, drift));
        let (paired, unpaired) = (p50(&a, &b, true), p50(&a, &b, false));
        assert!(paired.pairs == 24 && unpaired.pairs == 0);
        assert!(paired.smallest.unwrap() < 0.5 * unpaired.smallest.unwrap());
    }

    /// Regression test: a drift or a step that slowed both stores alike was refused as slow structure before the blocks
    /// were paired.
    #[test]
    fn a_common_drift_or_step_of_paired_blocks_does_not_prevent_a_verdict() {
        for drift in [|block: u64| 1.0 + 0.1 * block as f64, |block: u64| if block < 5 { 1.0 } else { 2.0 }] {
            let (a, b) = (series(1000.0, 1, 80, drift), series(1100.0, 2, 80, drift));
            assert_eq!(p50(&a, &b, false).verdict(0.05), Verdict::Inconclusive);
            let paired = p50(&a, &b, true);
            let (ratio, low, high) = paired.change.unwrap();
            assert!(low < 1.1 && high > 1.1 && low > 1.03 && high < 1.17, "{ratio} {low} {high}");
            assert_eq!((paired.verdict(0.05), paired.duration_needed_s), (Verdict::Slower, None));
        }
    }

    #[test]
    fn a_change_known_only_within_a_factor_of_ten_has_no_verdict() {
        // Seconds with 5 or 195 operations: each rate is known within a factor of nine, but their ratio is not.
        const PATTERN: &str = "-------#--##--####-#";
        let second = |s: u64| Second {
            second: s,
            time_s: 1.0,
            completed: if PATTERN.as_bytes()[s as usize] == b'-' { 5 } else { 195 },
            operations: 195,
            ..Second::default()
        };
        let uneven = Series { seconds: (0..20).map(second).collect(), ..Series::default() };
        let (mut a, mut b) = (Estimator::new(&uneven), Estimator::new(&uneven));
        assert!(a.estimate(Metric::Rate).confidence.ends().is_some());
        let compared = compare(&mut a, &mut b, Metric::Rate, false);
        assert_eq!((compared.change, compared.verdict(0.05)), (None, Verdict::Inconclusive));
        assert!(compared.duration_needed_s.unwrap() > 20.0);
    }
}
