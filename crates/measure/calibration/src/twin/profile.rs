//! Profiles of stores for `plimsoll serve --like NAME`: published times of small objects, the rate of a connection, and
//! documented limits. The files in `profiles/` name their sources.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Likeness, describe_limit, kind_named};
use plimsoll_base::rng::normal_quantile;
use plimsoll_base::units::format_size;
use plimsoll_emulator::inject::Spec;
use plimsoll_emulator::twin::course::Course;
use plimsoll_emulator::twin::curve::Curve;
use plimsoll_emulator::twin::model::{Failure, Model, Point, RateLimit, SizePoint};
use plimsoll_server::error_code::ErrorCode;
use plimsoll_server::request_kind::RequestKind;

/// Names of the profiles, and their files.
const FILES: [(&str, &str); 2] = [
    ("s3-express", include_str!("../../profiles/s3-express.toml")),
    ("s3-standard", include_str!("../../profiles/s3-standard.toml")),
];

/// Ratio of neighbouring sizes in a model. Between them, times are interpolated.
const SIZE_STEP: u64 = 2;
/// Largest size in a model, in bytes.
const LARGEST: u64 = 5 << 40;

/// A profile as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProfileSpec {
    /// Store that was measured, and from where.
    title: String,
    /// Size of the objects whose times are known, in bytes.
    bytes: u64,
    /// Operations in flight when they were measured.
    in_flight: f64,
    /// Rate at which one connection transfers the bytes beyond `bytes`, in bytes per second.
    bytes_per_s: f64,
    /// Quantiles of the times by operation: shares (0 to 1) and milliseconds, both in ascending order.
    times: BTreeMap<String, Vec<(f64, f64)>>,
    /// Limits of the rate.
    #[serde(default)]
    limit: Vec<LimitSpec>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitSpec {
    /// Operations that have the limit together.
    operations: Vec<String>,
    /// Operations per second; the others get 503 SlowDown.
    per_s: f64,
}

/// Returns the names of the profiles.
pub fn names() -> [&'static str; FILES.len()] {
    FILES.map(|(name, _)| name)
}

/// Returns the time in milliseconds at a normal score. Between the known quantiles and beyond the last ones, its
/// logarithm is linear in the score.
fn time_ms(quantiles: &[(f64, f64)], scores: &[f64], score: f64) -> f64 {
    let after = scores.partition_point(|known| *known <= score).clamp(1, scores.len() - 1);
    let [from, to] = [after - 1, after];
    let place = ((score - scores[from]) / (scores[to] - scores[from])).clamp(0.0, 1.0);
    let [low, high] = [from, to].map(|at| quantiles[at].1.ln());
    (low + (high - low) * place).exp()
}

impl ProfileSpec {
    /// Returns the times of one operation by size. Larger sizes have the times of the measured size and the transfer of
    /// the further bytes.
    fn sizes(&self, kind: RequestKind, quantiles: &[(f64, f64)]) -> Vec<SizePoint> {
        let scores: Vec<f64> = quantiles.iter().map(|(share, _)| normal_quantile(*share)).collect();
        let first = Curve::new(|score| time_ms(quantiles, &scores, score) * 1e6);
        let size = |bytes: u64| {
            let transfer_ns = (bytes - self.bytes) as f64 / self.bytes_per_s * 1e9;
            let point = Point {
                in_flight: self.in_flight,
                total: Curve::new(|score| first.log_at(score).exp() + transfer_ns),
                first: matches!(kind, RequestKind::Get).then(|| first.clone()),
                failed: None,
                failures: Vec::new(),
                course: Course::default(),
            };
            SizePoint { bytes, loads: vec![point] }
        };
        let next = |bytes: &u64| bytes.checked_mul(SIZE_STEP).filter(|bytes| *bytes <= LARGEST);
        std::iter::successors(Some(self.bytes), next).map(size).collect()
    }

    /// Returns the model of the profile. `None` if an operation has no such name.
    fn model(&self) -> Option<Model> {
        let kind = |(name, quantiles): (&String, &Vec<(f64, f64)>)| {
            let kind = kind_named(name)?;
            Some((kind, self.sizes(kind, quantiles)))
        };
        let limit = |limit: &LimitSpec| {
            let kinds = limit.operations.iter().map(|name| kind_named(name)).collect::<Option<_>>()?;
            let failure = Failure::Response(ErrorCode::SlowDown);
            Some(RateLimit { kinds, per_s: limit.per_s, failure })
        };
        let kinds = self.times.iter().map(kind).collect::<Option<_>>()?;
        Some(Model { kinds, limits: self.limit.iter().map(limit).collect::<Option<_>>()? })
    }
}

/// Returns the twin of a profile; `None` if there is none of this name.
pub fn of_name(name: &str) -> Option<Likeness> {
    let (_, text) = FILES.into_iter().find(|(known, _)| *known == name)?;
    let profile: ProfileSpec = toml::from_str(text).ok()?;
    let model = profile.model()?;
    let operations: Vec<&str> = profile.times.keys().map(String::as_str).collect();
    let mut lines = vec![format!(
        "{}: published times of {}; larger objects take longer by the transfer at {:.1} MB/s; sources in the \
         repository: crates/measure/calibration/profiles/{name}.toml",
        operations.join(", "),
        format_size(profile.bytes),
        profile.bytes_per_s / 1e6
    )];
    lines.extend(model.limits.iter().map(describe_limit));
    Some(Likeness { model: Some(model), faults: Spec::default(), store: profile.title, lines })
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_emulator::twin::Twin;
    use plimsoll_emulator::twin::overhead::Overhead;

    /// Returns the sorted times to the first and the last byte of 20,000 answers, in ms.
    fn times(name: &str, kind: RequestKind, bytes: u64) -> (Vec<f64>, Vec<f64>) {
        let twin = Twin::new(of_name(name).unwrap().model.unwrap(), Overhead::default(), 3);
        let one = |i: u64| {
            let (draw, _in_flight) = twin.begin(kind, 0, 1 + i * 1_000_000_000, 1 + i * 1_000_000_000);
            let times = twin.times(&draw, bytes);
            (times.first_ns as f64 / 1e6, times.last_ns as f64 / 1e6)
        };
        let (mut first, mut last): (Vec<f64>, Vec<f64>) = (0..20_000).map(one).unzip();
        first.sort_by(f64::total_cmp);
        last.sort_by(f64::total_cmp);
        (first, last)
    }

    #[test]
    fn profiles_have_the_published_percentiles() {
        // Medians and 99th percentiles of Skyrise.
        for (name, kind, p50, p99) in [
            ("s3-standard", RequestKind::Get, 26.893, 105.509),
            ("s3-standard", RequestKind::Put, 40.360, 123.355),
            ("s3-express", RequestKind::Get, 4.782, 7.052),
            ("s3-express", RequestKind::Put, 7.347, 12.491),
        ] {
            let (_, last) = times(name, kind, 1024);
            for (share, expected) in [(0.5, p50), (0.99, p99)] {
                let found = last[(share * last.len() as f64) as usize];
                assert!((found / expected - 1.0).abs() < 0.06, "{name} {kind:?} {share}: {found}");
            }
        }
    }

    #[test]
    fn large_objects_take_the_time_of_their_transfer() {
        // The median of R2-bench for 100 MiB is 1,120.7 ms.
        let (first, last) = times("s3-standard", RequestKind::Get, 100 << 20);
        let [first, last] = [first, last].map(|times| times[times.len() / 2]);
        assert!((first / 26.9 - 1.0).abs() < 0.05 && (last / 1_120.7 - 1.0).abs() < 0.02, "{first} {last}");
    }

    #[test]
    fn limits_are_those_of_a_prefix() {
        let model = of_name("s3-standard").unwrap().model.unwrap();
        let limits: Vec<(bool, f64)> =
            model.limits.iter().map(|limit| (limit.kinds.contains(&RequestKind::Get), limit.per_s)).collect();
        assert_eq!(limits, [(false, 3_500.0), (true, 5_500.0)]);
        assert!(of_name("s3").is_none());
    }
}
