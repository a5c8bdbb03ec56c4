//! Detection of a cache from a sweep of working sets that are read uniformly, and its size.
//!
//! If reads choose among the objects of a working set with equal probability, a cache of C bytes holds the next one
//! with probability min(1, C/W), whatever it replaces: LRU, FIFO and random replacement have the same hit ratio under
//! the independent reference model with equal probabilities (King, 1971, "Analysis of demand paging algorithms"). A
//! time that separates hits from misses therefore has the share
//!
//! `p(W) = a` for `W <= C`, and `p(W) = m + (a - m) C / W` for larger W,
//!
//! where `a` is the share of hits below this time, and `m` that of misses. C, a and m are fitted by weighted least
//! squares; the interval of C is the profile with `chi^2 <= min + 3.84`, widened if the points scatter more than their
//! counts explain. A store whose times only rise with the working set, drift or have two modes of constant shares does
//! not follow this law.

use plimsoll_base::units::{format_bytes, parse_size};
use plimsoll_recorder::histogram::Latencies;
use plimsoll_recorder::latency::Latency;
use plimsoll_workload::OperationKind;
use plimsoll_workload::schedule::Role;

use super::latencies::of_histogram;
use super::result::{CacheFigures, CacheFinding, CachePoint, Window};

/// Name of the swept field that has the working sets.
const FIELD: &str = "working_set";
/// Minimum number of working sets.
const MIN_POINTS: usize = 4;
/// Minimum number of reads of each working set.
const MIN_READS: u64 = 100;
/// Minimum ratio of the largest to the smallest working set.
const MIN_RANGE: f64 = 4.0;
/// Difference of the shares of the smallest and the largest working set below which the times count as equal.
const SAME: f64 = 0.15;
/// Minimum difference of the shares of hits and misses.
const MIN_SEPARATION: f64 = 0.5;
/// Minimum ratio of the median of misses to that of hits; a cache that helps less does not matter.
const MIN_RATIO: f64 = 1.25;
/// Ratio of the median of slow reads to that of fast reads from which they are two modes, whatever their shares.
const TWO_MODES: f64 = 2.0;
/// Largest difference of a share from the law.
const MAX_RESIDUAL: f64 = 0.08;
/// Largest distance of a distribution from the mixture of hits and misses.
const MAX_DISTANCE: f64 = 0.12;
/// Share of the largest difference from which a time separates fast reads from slow ones.
const NEARLY: f64 = 0.8;
/// Ratio of a time to the threshold up to which it counts as near.
const NEAR: f64 = 1.25;
/// Largest share of reads near the threshold with which fast and slow reads are separate modes.
const MAX_NEAR: f64 = 0.02;
/// Standard deviation of the shares that does not follow from the counts.
const MODEL_ERROR: f64 = 0.01;
/// Number of sizes that are tried, evenly distributed on a logarithmic scale.
const SIZES: usize = 2000;
/// 95% quantile of the chi-squared distribution with one degree of freedom.
const CHI2_95: f64 = 3.84;

/// Service times of one working set.
struct Times {
    bytes: f64,
    /// Upper ends of the histogram's buckets in microseconds, with the number of reads up to each.
    cumulative: Vec<(u64, u64)>,
    latencies: Latencies,
}

impl Times {
    fn of(window: &Window, bytes: u64) -> Times {
        let latencies = of_histogram(window, Latency::Service.name(), Some(&window.service_ms));
        let mut sum = 0;
        let recorded = latencies
            .histogram()
            .into_iter()
            .flat_map(|h| h.iter_recorded().map(|v| (v.value_iterated_to(), v.count_since_last_iteration())));
        let cumulative = recorded
            .map(|(us, count)| {
                sum += count;
                (us, sum)
            })
            .collect();
        Times { bytes: bytes as f64, cumulative, latencies }
    }

    fn reads(&self) -> u64 {
        self.latencies.len()
    }

    /// Returns the share of reads that took at most `us`.
    fn share(&self, us: u64) -> f64 {
        let at = self.cumulative.partition_point(|(end, _)| *end <= us);
        let count = at.checked_sub(1).map_or(0, |at| self.cumulative[at].1);
        count as f64 / self.reads().max(1) as f64
    }

    /// Returns the share of reads that took `us` up to a factor of [`NEAR`].
    fn near(&self, us: u64) -> f64 {
        self.share((us as f64 * NEAR) as u64) - self.share((us as f64 / NEAR) as u64)
    }

    /// Returns the median of the reads that took at most `us`, in milliseconds; `None` if there are none.
    fn median_up_to(&self, us: u64) -> Option<f64> {
        let below = (self.share(us) * self.reads() as f64).round() as u64;
        let found = self.cumulative.iter().find(|(_, sum)| below > 0 && *sum >= below.div_ceil(2))?;
        Some(found.0 as f64 / 1e3)
    }

    /// Returns the median of the reads that took longer than `us`, in milliseconds; `None` if there are none.
    fn median_above(&self, us: u64) -> Option<f64> {
        let below = (self.share(us) * self.reads() as f64).round() as u64;
        let wanted = below + (self.reads() - below).div_ceil(2);
        let found = self.cumulative.iter().find(|(end, sum)| *end > us && *sum >= wanted)?;
        Some(found.0 as f64 / 1e3)
    }
}

/// Fit of the law at one size.
struct Fit {
    bytes: f64,
    hits: f64,
    misses: f64,
    chi2: f64,
}

impl Fit {
    /// Fits the shares of hits and misses for a cache of `bytes`. `points` are sizes of working sets with their shares
    /// and weights.
    fn at(bytes: f64, points: &[(f64, f64, f64)]) -> Option<Fit> {
        // p = a u + m (1 - u) with u = min(1, C/W) is linear in a and m.
        let mut sums = [0.0; 5];
        for (working_set, share, weight) in points {
            let u = (bytes / working_set).min(1.0);
            let v = 1.0 - u;
            for (sum, term) in sums.iter_mut().zip([u * u, u * v, v * v, u * share, v * share]) {
                *sum += weight * term;
            }
        }
        let [uu, uv, vv, us, vs] = sums;
        let determinant = uu * vv - uv * uv;
        if determinant <= uu * vv * 1e-9 {
            return None;
        }
        let (hits, misses) = ((us * vv - vs * uv) / determinant, (vs * uu - us * uv) / determinant);
        let mut fit = Fit { bytes, hits, misses, chi2: 0.0 };
        fit.chi2 = points.iter().map(|(w, share, weight)| weight * (share - fit.expected(*w)).powi(2)).sum();
        Some(fit)
    }

    /// Returns the expected share in a working set.
    fn expected(&self, working_set: f64) -> f64 {
        let u = (self.bytes / working_set).min(1.0);
        self.hits * u + self.misses * (1.0 - u)
    }
}

/// Returns the caches that the sweeps of working sets among these windows show. There must be one window per store,
/// phase and operation.
pub fn caches(windows: &[Window]) -> Vec<CacheFigures> {
    let mut groups: Vec<(&Window, &str, Vec<Times>)> = Vec::new();
    for window in windows.iter().filter(|w| w.role == Role::Measure && w.operation == OperationKind::Get) {
        let Some(place) = &window.sweep else { continue };
        // A sweep of two fields has no single series of working sets.
        let (Some(text), 1) = (place.at.get(FIELD), place.at.len()) else { continue };
        let Ok(bytes) = parse_size(text) else { continue };
        let same = |group: &&mut (&Window, &str, Vec<Times>)| {
            group.0.store == window.store && group.1 == place.of.as_str()
        };
        let times = Times::of(window, bytes);
        match groups.iter_mut().find(same) {
            Some(group) => group.2.push(times),
            None => groups.push((window, &place.of, vec![times])),
        }
    }
    let figures = |(window, sweep, times): (&Window, &str, Vec<Times>)| CacheFigures {
        store: window.store.clone(),
        sweep: sweep.to_string(),
        operation: window.operation,
        ..judge(times)
    };
    groups.into_iter().map(figures).collect()
}

/// Judges the working sets of one store.
fn judge(mut all: Vec<Times>) -> CacheFigures {
    all.sort_by(|a, b| a.bytes.total_cmp(&b.bytes));
    let points = all.iter().map(|t| CachePoint { bytes: t.bytes, reads: t.reads(), ..CachePoint::default() });
    let mut out = CacheFigures { points: points.collect(), ..CacheFigures::default() };
    if let Some(reason) = too_little(&all) {
        out.reason = reason;
        return out;
    }
    let (small, large) = (&all[0], &all[all.len() - 1]);
    let range = format!("{} to {}", size(small.bytes), size(large.bytes));
    let (threshold, difference) = threshold(&all);
    out.hit_ms = small.latencies.quantile_ns(0.5).map(|ns| ns as f64 / 1e6);
    if difference < SAME {
        out.finding = CacheFinding::None;
        out.reason = format!("reads of working sets of {range} take about the same time");
        return out;
    }
    out.threshold_ms = Some(threshold as f64 / 1e3);
    out.miss_ms = large.median_above(threshold);
    out.points
        .iter_mut()
        .zip(&all)
        .for_each(|(point, times)| point.fast_share = Some(times.share(threshold)));
    let below = small.median_up_to(threshold);
    // Without the second condition, a cache that is smaller than the smallest working set would be denied.
    let is_one_mode = below.zip(out.miss_ms).is_none_or(|(fast, slow)| slow < fast * TWO_MODES);
    if is_one_mode && out.hit_ms.zip(out.miss_ms).is_some_and(|(hit, miss)| miss < hit * MIN_RATIO) {
        out.finding = CacheFinding::None;
        out.reason = format!("times of reads of working sets of {range} differ by less than a quarter");
        return out;
    }
    match fitted(&all, threshold) {
        Err(reason) => out.reason = reason,
        Ok((fit, low, high)) => {
            out.finding = CacheFinding::Found;
            out.reason =
                "the share of fast reads falls as the size of the cache over that of the working set".into();
            (out.bytes, out.low_bytes, out.high_bytes) = (Some(fit.bytes), Some(low), Some(high));
            out.points.iter_mut().for_each(|point| point.expected_share = Some(fit.expected(point.bytes)));
        }
    }
    out
}

fn size(bytes: f64) -> String {
    format_bytes(bytes as u64)
}

/// Returns the reason why the working sets are too few or have too few reads.
fn too_little(all: &[Times]) -> Option<String> {
    if all.len() < MIN_POINTS {
        return Some(format!("a sweep needs at least {MIN_POINTS} working sets, each twice the one before"));
    }
    if let Some(short) = all.iter().find(|times| times.reads() < MIN_READS) {
        let (of, reads) = (size(short.bytes), short.reads());
        return Some(format!("the working set of {of} has {reads} reads, fewer than {MIN_READS}"));
    }
    let range = all[all.len() - 1].bytes / all[0].bytes;
    (range < MIN_RANGE)
        .then(|| format!("the largest working set is less than {MIN_RANGE} times the smallest"))
}

/// Returns the time that separates fast reads from slow ones, in microseconds, with the largest difference of the
/// shares in the smallest and the largest working set. Of times with nearly the largest difference, it is the one with
/// the fewest reads near it: hits may be slower in large working sets, and must still be on one side of it.
fn threshold(all: &[Times]) -> (u64, f64) {
    let (small, large) = (&all[0], &all[all.len() - 1]);
    let difference = |us: u64| small.share(us) - large.share(us);
    let mut ends: Vec<u64> = small.cumulative.iter().chain(&large.cumulative).map(|(us, _)| *us).collect();
    ends.sort_unstable();
    let between = ends.windows(2).map(|pair| ((pair[0] as f64) * (pair[1] as f64)).sqrt().round() as u64);
    let candidates: Vec<u64> = between.chain(ends.iter().copied()).collect();
    let most = candidates.iter().map(|us| difference(*us)).fold(0.0, f64::max);
    let near = |us: u64| all.iter().map(|times| times.near(us)).fold(0.0, f64::max);
    let good = candidates.into_iter().filter(|us| difference(*us) >= NEARLY * most).map(|us| (near(us), us));
    let least = good.clone().map(|(near, _)| near).fold(f64::INFINITY, f64::min);
    let mut best: Vec<u64> = good.filter(|(near, _)| *near <= least).map(|(_, us)| us).collect();
    best.sort_unstable();
    (best.get(best.len() / 2).copied().unwrap_or(0), most)
}

/// Returns the working sets that a cache holds in part, from a tenth to nine tenths, with the shares that it holds.
fn held_in_part<'a>(all: &'a [Times], fit: &Fit) -> impl Iterator<Item = (&'a Times, f64)> {
    let bytes = fit.bytes;
    let with_share = move |times: &'a Times| (times, (bytes / times.bytes).min(1.0));
    all[1..all.len() - 1].iter().map(with_share).filter(|(_, held)| (0.1..0.9).contains(held))
}

/// Returns the largest share of reads near the threshold among the working sets that a cache holds in part.
fn near_threshold(all: &[Times], fit: &Fit, threshold: u64) -> f64 {
    held_in_part(all, fit).map(|(times, _)| times.near(threshold)).fold(0.0, f64::max)
}

/// Returns the largest difference between the distribution of a working set that a cache holds in part, and the mixture
/// of hits and misses in the shares that the fit predicts (Kolmogorov-Smirnov distance). The
/// distribution of hits is that of the smallest working set; that of misses follows from the largest.
fn distance_from_mixture(all: &[Times], fit: &Fit) -> f64 {
    let (small, large) = (&all[0], &all[all.len() - 1]);
    let in_large = (fit.bytes / large.bytes).min(1.0);
    let distance = |(times, u): (&Times, f64)| {
        let ends = times.cumulative.iter().chain(&small.cumulative).chain(&large.cumulative);
        let at = |us: u64| {
            let hits = small.share(us);
            let misses = (large.share(us) - in_large * hits) / (1.0 - in_large);
            (times.share(us) - (u * hits + (1.0 - u) * misses)).abs()
        };
        ends.map(|(us, _)| at(*us)).fold(0.0, f64::max)
    };
    held_in_part(all, fit).map(distance).fold(0.0, f64::max)
}

/// Fits the law. Returns the fit with the ends of the interval of the size.
///
/// # Errors
/// The reason why the times do not show a cache.
fn fitted(all: &[Times], threshold: u64) -> Result<(Fit, f64, f64), String> {
    let point = |times: &Times| {
        let share = times.share(threshold);
        let n = times.reads() as f64;
        (times.bytes, share, 1.0 / (share * (1.0 - share) / n + MODEL_ERROR * MODEL_ERROR))
    };
    let points: Vec<(f64, f64, f64)> = all.iter().map(point).collect();
    let (first, last) = (points[0].0, points[points.len() - 1].0);
    let at = |step: usize| first * (last / first).powf(step as f64 / SIZES as f64);
    let fits: Vec<Fit> = (0..SIZES).filter_map(|step| Fit::at(at(step), &points)).collect();
    let law = "times change with the working set, but not as with one cache";
    let (before_last, share) = (&points[points.len() - 2], points[0].1);
    if before_last.1 > share - SAME {
        return Err(format!("only the largest working set, {}, is slower; read larger ones", size(last)));
    }
    let best = fits.iter().min_by(|a, b| a.chi2.total_cmp(&b.chi2)).ok_or(law)?;
    let scatter = (best.chi2 / (points.len() - 3) as f64).max(1.0);
    let inside = fits.iter().filter(|fit| fit.chi2 <= best.chi2 + CHI2_95 * scatter);
    let (low, high) =
        inside.fold((f64::INFINITY, 0.0_f64), |(low, high), fit| (low.min(fit.bytes), high.max(fit.bytes)));
    let worst = points.iter().map(|(w, share, _)| (share - best.expected(*w)).abs()).fold(0.0, f64::max);
    if best.bytes < first * 1.02 {
        let text = "a cache would not be larger than the smallest working set";
        return Err(format!("{text}, {}; read smaller ones", size(first)));
    }
    let is_separate = best.hits - best.misses >= MIN_SEPARATION;
    // If modes overlap, only the whole distribution distinguishes a mixture from one mode that moves. If they do not,
    // hits may well be faster when fewer of them compete for the client.
    let is_mixture =
        near_threshold(all, best, threshold) <= MAX_NEAR || distance_from_mixture(all, best) <= MAX_DISTANCE;
    if worst > MAX_RESIDUAL || !is_separate || !is_mixture {
        return Err(law.into());
    }
    Ok((Fit { ..*best }, low, high))
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use plimsoll_base::rng::Stream;
    use plimsoll_workload::schedule::SweepPlace;

    use super::*;

    const MIB: u64 = 1 << 20;

    /// Returns a window of one working set, whose reads take the times that `time_ms` returns for each number.
    fn window(mib: u64, reads: u64, time_ms: impl Fn(u64) -> f64) -> Window {
        let mut latencies = Latencies::default();
        (0..reads).for_each(|number| latencies.record((time_ms(number) * 1e6) as u64));
        Window {
            role: Role::Measure,
            operation: OperationKind::Get,
            sweep: Some(SweepPlace {
                of: "get".into(),
                at: [(FIELD.to_string(), format!("{mib} MiB"))].into(),
            }),
            histograms: [("service".to_string(), STANDARD.encode(latencies.to_bytes()))].into(),
            ..Window::default()
        }
    }

    const SETS: [u64; 6] = [4, 8, 16, 32, 64, 128];

    /// Judges a store whose times are functions of the size of the working set in MiB, and of two draws for each read:
    /// one from 0 to 1 and a normally distributed one.
    fn judged(reads: u64, seed: u64, time_ms: impl Fn(f64, f64, f64) -> f64) -> CacheFigures {
        let draws = Stream::new(seed, "reads");
        let of = |mib: u64| {
            window(mib, reads, |n| {
                time_ms(mib as f64, draws.unit((mib << 32) + n), draws.normal((mib << 40) + n))
            })
        };
        let windows: Vec<Window> = SETS.into_iter().map(of).collect();
        let [found] = &caches(&windows)[..] else { panic!() };
        found.clone()
    }

    /// Median `ms` with a lognormal spread of `sigma`.
    fn spread(ms: f64, sigma: f64, normal: f64) -> f64 {
        ms * (sigma * normal).exp()
    }

    #[test]
    fn the_size_of_a_cache_is_found_within_a_tenth() {
        for seed in 0..20 {
            let draws = Stream::new(seed, "caches");
            let cache = 4.5 * (60.0 / 4.5_f64).powf(draws.unit(0));
            let ratio = 1.5 + 20.0 * draws.unit(1);
            let sigma = 0.1 * draws.unit(2);
            let found = judged(2000, seed, |set, draw, normal| {
                let is_hit = draw < cache / set;
                spread(if is_hit { 1.0 } else { ratio }, sigma, normal)
            });
            assert_eq!(found.finding, CacheFinding::Found, "{cache} MiB, x{ratio}: {found:?}");
            let mib = |bytes: Option<f64>| bytes.unwrap() / MIB as f64;
            let error = mib(found.bytes) / cache - 1.0;
            assert!(error.abs() < 0.1, "{cache} MiB, x{ratio}: {error}");
            assert!(mib(found.low_bytes) < mib(found.bytes) && mib(found.bytes) < mib(found.high_bytes));
            assert!((found.hit_ms.unwrap() / 1.0 - 1.0).abs() < 0.1, "{found:?}");
            assert!((found.miss_ms.unwrap() / ratio - 1.0).abs() < 0.1, "{found:?}");
        }
    }

    /// Asserts that a cache was found whose size in MiB is within 10% of the true one.
    fn assert_is_found(found: &CacheFigures, mib: u64) {
        assert_eq!(found.finding, CacheFinding::Found, "{found:?}");
        assert!((found.bytes.unwrap() / (mib * MIB) as f64 - 1.0).abs() < 0.1, "{found:?}");
    }

    /// Regression test: with few misses, a fast client makes hits compete with one another. Their times changed from
    /// working set to working set, and the search was inconclusive although the modes were far apart.
    #[test]
    fn hits_may_be_faster_where_more_reads_miss() {
        let found = judged(2000, 11, |set, draw, normal| {
            let hit_ms = if set > 20.0 { 0.023 } else { 0.041 };
            spread(if draw < 20.0 / set { hit_ms } else { 5.0 }, 0.1, normal)
        });
        assert_is_found(&found, 20);
    }

    /// Regression test: with slower hits in large working sets, the largest difference of the times was among hits.
    #[test]
    fn hits_may_be_slower_where_more_reads_miss() {
        let found = judged(2000, 12, |set, draw, normal| {
            let hit_ms = if set > 20.0 { 0.5 } else { 0.25 };
            spread(if draw < 33.0 / set { hit_ms } else { 10.0 }, 0.4, normal)
        });
        assert_is_found(&found, 33);
    }

    /// Times of a store without a cache: a function of the working set and of the two draws.
    type WithoutCache = (&'static str, fn(f64, f64, f64) -> f64);

    #[test]
    fn no_cache_is_claimed_for_stores_without_one() {
        let stores: [WithoutCache; 11] = [
            ("constant", |_, _, _| 2.0),
            ("lognormal", |_, _, normal| spread(2.0, 0.8, normal)),
            ("two modes", |_, draw, normal| spread(if draw < 0.6 { 1.0 } else { 9.0 }, 0.1, normal)),
            ("rare stalls", |_, draw, normal| if draw < 0.02 { 500.0 } else { spread(2.0, 0.1, normal) }),
            ("an index that grows", |set, _, normal| spread(1.0 + 0.1 * set.ln(), 0.1, normal)),
            ("times that grow with the set", |set, _, normal| spread(1.0 + set / 20.0, 0.1, normal)),
            ("drift", |set, _, normal| spread(1.0 + (set / 4.0).log2(), 0.05, normal)),
            ("ten times slower from the middle on", |set, _, normal| {
                spread(if set > 20.0 { 10.0 } else { 1.0 }, 0.1, normal)
            }),
            ("slow in the middle", |set, _, normal| {
                spread(if set > 10.0 && set < 40.0 { 10.0 } else { 1.0 }, 0.1, normal)
            }),
            ("slow reads grow with the logarithm of the set", |set, draw, normal| {
                spread(if draw < (set / 4.0).log2() / 5.0 { 9.0 } else { 1.0 }, 0.1, normal)
            }),
            ("faster and faster", |set, _, normal| spread(20.0 / set.sqrt(), 0.1, normal)),
        ];
        for (name, time_ms) in stores {
            for seed in 0..5 {
                let found = judged(1000, seed, time_ms);
                assert_ne!(found.finding, CacheFinding::Found, "{name}: {found:?}");
            }
        }
        let constant = judged(1000, 1, |_, _, normal| spread(2.0, 0.8, normal));
        assert_eq!(constant.finding, CacheFinding::None, "{constant:?}");
    }

    #[test]
    fn a_cache_outside_the_working_sets_is_not_given_a_size() {
        for (cache, reason) in
            [(1.0, ""), (100.0, "read larger ones"), (3.0, "read smaller ones"), (1.8, "read smaller ones")]
        {
            let found = judged(2000, 3, |set, draw, _| if draw < cache / set { 1.0 } else { 10.0 });
            assert!(
                found.finding != CacheFinding::Found && found.reason.contains(reason),
                "{cache}: {found:?}"
            );
        }
        let half = judged(2000, 5, |set, draw, _| if draw < 2.0 / set { 0.5 } else { 5.1 });
        assert_eq!(half.finding, CacheFinding::Inconclusive, "{half:?}");
        let found = judged(50, 1, |_, _, _| 1.0);
        assert!(found.reason.contains("has 50 reads, fewer than 100"), "{found:?}");
        let few: Vec<Window> = [4, 8].map(|mib| window(mib, 200, |_| 1.0)).into();
        assert!(caches(&few)[0].reason.contains("at least 4 working sets"));
    }
}
