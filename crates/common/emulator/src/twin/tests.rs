use super::*;
use crate::twin::course::{Course, Stretch};
use crate::twin::curve::Curve;
use crate::twin::model::{RateLimit, SizePoint};
use crate::twin::overhead::{Delayed, Overhead};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use plimsoll_base::clock::SECOND;
use plimsoll_server::error_code::ErrorCode;
use plimsoll_server::request_kind::RequestKind;

const MS: f64 = 1e6;

/// Returns a curve with the median `ms` and the standard deviation `sigma` of the logarithm.
fn curve(ms: f64, sigma: f64) -> Curve {
    Curve::new(|score| ms * MS * (sigma * score).exp())
}

fn point(in_flight: f64, ms: f64) -> Point {
    Point {
        in_flight,
        total: curve(ms, 0.5),
        first: None,
        failed: None,
        failures: Vec::new(),
        course: Course::default(),
    }
}

fn twin(model: Model) -> Twin {
    Twin::new(model, Overhead::default(), 7)
}

fn of(points: Vec<(u64, Vec<Point>)>) -> Model {
    let sizes = points.into_iter().map(|(bytes, loads)| SizePoint { bytes, loads }).collect();
    Model { kinds: [(RequestKind::Get, sizes)].into(), ..Model::default() }
}

fn median(mut values: Vec<u64>) -> f64 {
    values.sort_unstable();
    values[values.len() / 2] as f64 / MS
}

/// Begins a request that is handled when it arrives.
fn begin(twin: &Twin, kind: RequestKind, at_ns: u64) -> (Draw, InFlight) {
    twin.begin(kind, 0, at_ns, at_ns)
}

/// Returns the times in milliseconds of 10,000 requests, one per millisecond, each alone.
fn alone(twin: &Twin, bytes: u64) -> Vec<u64> {
    let request = |i: u64| {
        let (draw, _in_flight) = begin(twin, RequestKind::Get, 1 + i * 1_000_000);
        twin.times(&draw, bytes).last_ns
    };
    (0..10_000).map(request).collect()
}

#[test]
fn times_have_the_measured_distribution() {
    let mut times = alone(&twin(of(vec![(1024, vec![point(1.0, 10.0)])])), 1024);
    times.sort_unstable();
    let quantile = |q: f64| times[(q * times.len() as f64) as usize] as f64 / MS;
    assert!((quantile(0.5) / 10.0 - 1.0).abs() < 0.03, "{}", quantile(0.5));
    // exp(0.5 * 2.326) = 3.2.
    assert!((quantile(0.99) / 32.0 - 1.0).abs() < 0.1, "{}", quantile(0.99));
}

#[test]
fn sizes_and_loads_between_the_measured_ones_are_interpolated() {
    let twin =
        twin(of(vec![(1_000, vec![point(1.0, 10.0), point(16.0, 40.0)]), (100_000, vec![point(1.0, 90.0)])]));
    let at = |in_flight: f64, bytes: u64| {
        let draw = Draw { kind: RequestKind::Get, score: 0.0, in_flight, failure: None };
        (twin.times(&draw, bytes).last_ns as f64 / MS).round()
    };
    assert_eq!([at(1.0, 10), at(1.0, 1_000), at(16.0, 1_000), at(4.0, 1_000)], [10.0, 10.0, 40.0, 20.0]);
    assert_eq!([at(1.0, 10_000), at(1.0, 900_000)], [30.0, 90.0]);
}

#[test]
fn failures_have_their_shares_and_their_own_times() {
    let refused = Failure::Response(ErrorCode::SlowDown);
    let failing = Point {
        failed: Some(curve(1.0, 0.0)),
        failures: vec![(refused.clone(), 0.2), (Failure::Reset, 0.1)],
        ..point(1.0, 10.0)
    };
    let twin = twin(of(vec![(1, vec![failing])]));
    let draws: Vec<Draw> = (0..10_000).map(|i| begin(&twin, RequestKind::Get, i * 1_000_000).0).collect();
    let count =
        |failure: &Failure| draws.iter().filter(|draw| draw.failure.as_ref() == Some(failure)).count();
    assert!((1_850..2_150).contains(&count(&refused)) && (850..1_150).contains(&count(&Failure::Reset)));
    let draw = draws.iter().find(|draw| draw.failure.is_some()).unwrap();
    assert_eq!(twin.times(draw, 1).last_ns / 1_000, 1_000);
}

#[test]
fn a_rate_limit_applies_to_its_kind() {
    let limit = RateLimit {
        kinds: vec![RequestKind::Put],
        per_s: 100.0,
        failure: Failure::Response(ErrorCode::SlowDown),
    };
    let twin = twin(Model { limits: vec![limit], ..of(vec![(1, vec![point(1.0, 1.0)])]) });
    let refused =
        |kind| (0..1_000u64).filter(|i| begin(&twin, kind, i * 1_000_000).0.failure.is_some()).count();
    assert_eq!(refused(RequestKind::Get), 0);
    assert!(
        (880..=900).contains(&refused(RequestKind::Put)),
        "1,000 requests in a second, of which 100 are allowed"
    );
}

#[test]
fn slow_stretches_follow_each_other_as_measured() {
    let stretch = |length_ns, points: &[(f32, f32)]| Stretch { length_ns, points: points.to_vec() };
    let course = Course::new(vec![
        stretch(3 * SECOND, &[(0.0, -4.0), (1.0, 0.0)]),
        stretch(SECOND, &[(0.0, 0.0), (1.0, 4.0)]),
    ]);
    let twin = twin(of(vec![(1, vec![Point { course, ..point(1.0, 10.0) }])]));
    let is_slow = |s: u64| {
        let times = (0..50).map(|i| {
            twin.times(&begin(&twin, RequestKind::Get, 1 + s * SECOND + i * 1_000_000).0, 1).last_ns
        });
        let slow = times.filter(|ns| *ns as f64 > 10.0 * MS).count();
        assert!(slow == 0 || slow == 50, "{s}: {slow}");
        slow == 50
    };
    let slow: Vec<u64> = (0..12).filter(|s| is_slow(*s)).collect();
    assert_eq!(slow, [3, 7, 11]);
}

#[test]
fn the_own_overhead_is_subtracted() {
    let model = of(vec![(1, vec![point(1.0, 10.0)])]);
    let own = |overhead_ns| Overhead::new(vec![Delayed { median_ns: 1.0, overhead_ns, spread_ns: 0.0 }]);
    let [plain, shortened] = [0.0, 2e6].map(|ns| median(alone(&Twin::new(model.clone(), own(ns), 7), 1)));
    assert!((plain - shortened - 2.0).abs() < 1e-3, "{plain} {shortened}");
}

#[test]
fn kinds_follow_from_requests() {
    let with = |name: &'static str| {
        HeaderMap::from_iter([(HeaderName::from_static(name), HeaderValue::from_static("x"))])
    };
    let of = |method: Method, path: &str| RequestKind::of(&method, path, &HeaderMap::new());
    assert_eq!(of(Method::GET, "/bucket/key"), Some(RequestKind::Get));
    assert_eq!(RequestKind::of(&Method::GET, "/bucket/a/b", &with("range")), Some(RequestKind::GetRange));
    assert_eq!(
        RequestKind::of(&Method::PUT, "/bucket/a/b", &with("x-amz-copy-source")),
        Some(RequestKind::Copy)
    );
    assert_eq!([of(Method::GET, "/bucket"), of(Method::GET, "/bucket/")], [Some(RequestKind::List); 2]);
    assert_eq!(
        [of(Method::PUT, "/bucket/key"), of(Method::POST, "/bucket/key")],
        [Some(RequestKind::Put); 2]
    );
    assert_eq!([of(Method::PUT, "/bucket"), of(Method::GET, "/")], [None; 2]);
}
