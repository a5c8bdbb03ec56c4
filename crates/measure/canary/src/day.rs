//! The history of one day: counts and service times by operation, and outages.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::outage::{Change, Failing, Outage};
use super::slow::{KNOWN, SlowTime, Slowing};
use super::target::Ended;
use plimsoll_judge::summary::percentiles::percentiles;
use plimsoll_judge::summary::result::Percentiles;
use plimsoll_recorder::histogram::Latencies;

/// Maximum number of outages of a day that are listed, so that a file stays small.
pub const MAX_OUTAGES: usize = 100;
/// Maximum number of classes of failures of a day.
const MAX_CLASSES: usize = 50;

/// One day in UTC, as its file has it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Day {
    /// Date of the day: `2026-11-28`.
    pub day: String,
    /// Store, without secrets.
    pub store: String,
    /// Counts and service times by the name of the operation.
    pub operations: BTreeMap<String, DayFigures>,
    /// Intervals without an operation, because the one before took longer than an interval.
    pub missed: u64,
    /// Time of the last operation (RFC 3339).
    pub until: String,
    /// Outages, of which at most 100 are listed: two or more failures before the same operation succeeded again.
    pub outages: Vec<Outage>,
    /// Number of outages, also of those that are not listed.
    pub outage_count: u64,
    /// Slow times, of which at most 100 are listed: successful operations that took far longer than usual.
    #[serde(default)]
    pub slow_times: Vec<SlowTime>,
    /// Number of slow times, also of those that are not listed.
    #[serde(default)]
    pub slow_count: u64,
    /// Slow operations that have not ended.
    #[serde(skip)]
    pub(super) slowing: Option<Slowing>,
    /// Medians of the day before by operation, in nanoseconds, until this day has its own.
    #[serde(skip)]
    pub(super) usual_ns: BTreeMap<String, u64>,
}

/// Counts and service times of one operation on one day.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct DayFigures {
    /// Number of operations, failed ones included.
    pub operations: u64,
    /// Failed operations by class.
    pub failed: BTreeMap<String, u64>,
    /// Start to end of the successful operations.
    pub service_ms: Percentiles,
    /// Histogram of these times: HdrHistogram V2, compressed, base64, in microseconds.
    pub service: String,
    /// The same histogram, while the day lasts.
    #[serde(skip)]
    latencies: Latencies,
}

impl Day {
    /// Returns the day with the histograms of its file, to be continued.
    pub fn continued(mut self) -> Day {
        for figures in self.operations.values_mut() {
            let bytes = STANDARD.decode(&figures.service).unwrap_or_default();
            figures.latencies = Latencies::from_bytes(&bytes).unwrap_or_default();
            let shown = &figures.service_ms;
            figures.latencies.sharpen(shown.min, shown.max, shown.mean);
        }
        self
    }

    /// Adds an operation that ended at `now`, and `missed` intervals without one. `failing` has the failures that have
    /// not ended. Returns the change from success to failure, from the usual speed to a slow one, or back, if the
    /// operation is one.
    pub fn add(
        &mut self,
        ended: &Ended,
        missed: u64,
        now: jiff::Timestamp,
        failing: &mut Option<Failing>,
    ) -> Option<Change> {
        let figures = self.operations.entry(ended.kind.name().to_string()).or_default();
        figures.operations += 1;
        self.missed += missed;
        self.until = now.to_string();
        let Some((class, message)) = &ended.failure else {
            let name = ended.kind.name();
            let usual_ns = median_ns(&figures.latencies).or(self.usual_ns.get(name).copied());
            figures.latencies.record(ended.service_ns);
            let (is_slow, slow) = Slowing::add(&mut self.slowing, ended, missed, usual_ns, now);
            if let Some(slow) = &slow {
                self.end_slow(slow.clone());
            }
            if let Some(over) = failing.take_if(|failing| failing.succeeded(ended)) {
                if let Some(outage) = over.outage() {
                    self.end(outage);
                }
                return Some(over.ended());
            }
            return match slow {
                Some(slow) => Some(Change::Usual(slow)),
                None if is_slow => self.slowing.as_ref().and_then(Slowing::time).map(Change::Slow),
                None => None,
            };
        };
        let is_known = figures.failed.contains_key(class) || figures.failed.len() < MAX_CLASSES;
        let class_name = if is_known { class.as_str() } else { "others" };
        *figures.failed.entry(class_name.to_string()).or_default() += 1;
        if let Some(failing) = failing {
            failing.add(ended, now);
            return None;
        }
        *failing = Some(Failing::begin(ended, format!("{class}: {message}"), now));
        Some(Change::Began)
    }

    fn end(&mut self, outage: Outage) {
        self.outage_count += 1;
        if self.outages.len() < MAX_OUTAGES {
            self.outages.push(outage);
        }
    }

    fn end_slow(&mut self, slow: SlowTime) {
        self.slow_count += 1;
        if self.slow_times.len() < MAX_OUTAGES {
            self.slow_times.push(slow);
        }
    }

    /// Returns the usual times by operation, in nanoseconds, for the next day.
    pub fn usual_ns(&self) -> BTreeMap<String, u64> {
        let of =
            |(name, figures): (&String, &DayFigures)| Some((name.clone(), median_ns(&figures.latencies)?));
        let own: BTreeMap<String, u64> = self.operations.iter().filter_map(of).collect();
        self.usual_ns.clone().into_iter().chain(own).collect()
    }

    /// Returns the day with the usual times of the day before it.
    #[must_use]
    pub fn after(mut self, usual_ns: BTreeMap<String, u64>) -> Day {
        self.usual_ns = usual_ns;
        self
    }

    /// Returns the longest slow time; `None` if there was none.
    pub fn longest_slow_time(&self) -> Option<&SlowTime> {
        self.slow_times.iter().max_by(|a, b| a.seconds.total_cmp(&b.seconds))
    }

    /// Returns the day as its file has it. An outage or a slow time that has not ended belongs to it.
    pub fn shown(&self, failing: Option<&Failing>) -> Day {
        let mut shown = self.clone();
        for figures in shown.operations.values_mut() {
            figures.service = STANDARD.encode(figures.latencies.to_bytes());
            figures.service_ms = percentiles(&figures.latencies);
        }
        if let Some(outage) = failing.and_then(Failing::outage) {
            shown.end(outage);
        }
        if let Some(slow) = self.slowing.as_ref().and_then(Slowing::time) {
            shown.end_slow(slow);
        }
        shown
    }

    /// Returns the number of operations, and of those that failed.
    pub fn counts(&self) -> (u64, u64) {
        let all = self.operations.values().map(|figures| figures.operations).sum();
        (all, self.operations.values().flat_map(|figures| figures.failed.values()).sum())
    }

    /// Returns the longest outage in seconds; 0 if there was none.
    pub fn longest_outage_s(&self) -> f64 {
        self.outages.iter().map(|outage| outage.seconds).fold(0.0, f64::max)
    }
}

/// Returns the median of enough latencies, in nanoseconds.
fn median_ns(latencies: &Latencies) -> Option<u64> {
    (latencies.len() >= KNOWN).then(|| latencies.quantile_ns(0.5)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_workload::OperationKind;

    fn ended(failure: Option<&str>) -> Ended {
        Ended {
            kind: OperationKind::Get,
            address: None,
            bytes: 1,
            service_ns: 5_000_000,
            response_ns: 1_000_000_000,
            failure: failure.map(|class| (class.to_string(), "no".to_string())),
        }
    }

    fn at(second: i64) -> jiff::Timestamp {
        jiff::Timestamp::from_second(1_795_824_000 + second).unwrap()
    }

    #[test]
    fn an_outage_lasts_from_the_first_failure_to_the_last() {
        let (mut day, mut failing) = (Day::default(), None);
        let failures = [None, Some("connect"), None, Some("connect"), Some("timeout"), Some("connect")];
        for (second, failure) in (10..).step_by(10).zip(failures) {
            day.add(&ended(failure), 0, at(second), &mut failing);
        }
        assert!(day.outages.is_empty(), "one failure is no outage");
        let shown = day.shown(failing.as_ref());
        assert_eq!((shown.outage_count, shown.outages[0].operations, shown.outages[0].seconds), (1, 3, 21.0));
        assert_eq!(shown.outages[0].first, "connect: no");
        day.add(&ended(None), 4, at(70), &mut failing);
        let done = day.shown(failing.as_ref());
        assert_eq!((&done.outages, failing), (&shown.outages, None));
        assert_eq!((done.counts(), done.missed, done.longest_outage_s()), ((7, 4), 4, 21.0));
        assert_eq!(done.operations["get"].failed["connect"], 3);
    }

    /// Regression test: the success that ended a slow time did not end the failures before it.
    #[test]
    fn one_operation_ends_a_slow_time_and_an_outage() {
        let (mut day, mut failing) = (Day::default(), None);
        let slow = |ms: u64| Ended { service_ns: ms * 1_000_000, ..ended(None) };
        let before = [vec![slow(5); 20], vec![slow(900); 3], vec![slow(5)]].concat();
        for (second, ended) in before.iter().enumerate() {
            day.add(ended, 0, at(second as i64), &mut failing);
        }
        assert_eq!(day.add(&ended(Some("connect")), 0, at(24), &mut failing), Some(Change::Began));
        let change = day.add(&slow(5), 0, at(25), &mut failing);
        assert!(matches!(change, Some(Change::Ended { operations: 1, .. })), "{change:?}");
        assert_eq!((failing, day.slow_count), (None, 1));
    }

    #[test]
    fn a_file_is_continued_after_a_restart() {
        let (mut day, mut failing) = (Day::default(), None);
        (0..30).for_each(|i| {
            day.add(&ended(None), 0, at(i), &mut failing);
        });
        let text = serde_json::to_string(&day.shown(None)).unwrap();
        let mut again = serde_json::from_str::<Day>(&text).unwrap().continued();
        again.add(&ended(None), 0, at(31), &mut failing);
        day.add(&ended(None), 0, at(31), &mut failing);
        assert_eq!(again.shown(None).operations["get"].service, day.shown(None).operations["get"].service);
        assert_eq!(again.shown(None).operations["get"].service_ms.n, 31);
    }

    #[test]
    fn a_day_stays_small() {
        let (mut day, mut failing) = (Day::default(), None);
        for i in 0..100_000 {
            let class = format!("500 Code{}", i % 7000);
            day.add(&ended((i % 3 > 0).then_some(class.as_str())), 0, at(i), &mut failing);
        }
        let shown = day.shown(None);
        assert!(serde_json::to_string(&shown).unwrap().len() < 50_000);
        assert_eq!((shown.outages.len(), shown.outage_count), (MAX_OUTAGES, 33_333));
        assert!(shown.operations["get"].failed.contains_key("others"));
    }
}
