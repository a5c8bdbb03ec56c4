//! Failures of a measured store as a server sends them, and limits of rates, which explain a part of them.

use std::collections::BTreeMap;

use super::connections::is_broken;
use super::kind_of;
use plimsoll_emulator::twin::model::{Failure, RateLimit};
use plimsoll_judge::summary::result::Window;
use plimsoll_server::error_code::ErrorCode;
use plimsoll_server::request_kind::RequestKind;
use plimsoll_workload::schedule::Role;

/// Ratio of the rates of two windows up to which they are one limit.
const SAME_RATE: f64 = 1.1;
/// Share of refused operations from which on a limit of the rate is likely.
const MANY_REFUSED: f64 = 0.2;
/// Ratio of two rates of operations from which on they are different loads.
const OTHER_LOAD: f64 = 1.3;
/// Share of refused operations from which on a window was above the limit.
const REFUSED: f64 = 0.01;

/// Number of operations, and failed ones by class.
#[derive(Default, Clone)]
pub struct FailureCounts {
    /// Number of operations, failed ones included.
    pub operations: u64,
    /// Failed operations by class, as in results.
    pub errors: BTreeMap<String, u64>,
}

impl FailureCounts {
    /// Returns the counts of a window.
    pub fn of(window: &Window) -> FailureCounts {
        FailureCounts { operations: window.operations, errors: window.errors.clone() }
    }

    /// Adds other counts.
    pub fn merge(&mut self, other: &FailureCounts) {
        self.operations += other.operations;
        for (class, n) in &other.errors {
            *self.errors.entry(class.clone()).or_default() += n;
        }
    }
}

/// Returns what a server does so that a client counts a failure in this class; `None` for failures of the client.
fn failure_of(class: &str) -> Option<Failure> {
    match class {
        "timeout" => return Some(Failure::Silence),
        "reset" | "connect" | "tls" => return Some(Failure::Reset),
        "corrupt" => return Some(Failure::Corrupt),
        _ => {}
    }
    let (status, name) = class.split_once(' ').unwrap_or((class, ""));
    let status: u16 = status.parse().ok()?;
    let is_same = |code: &&ErrorCode| code.status().as_u16() == status && code.name() == name;
    let similar = match status {
        429 | 503 => ErrorCode::SlowDown,
        500..600 => ErrorCode::InternalError,
        _ => ErrorCode::BadRequest,
    };
    Some(Failure::Response(ErrorCode::ALL.iter().find(is_same).copied().unwrap_or(similar)))
}

/// Returns true for a class of failures with which stores refuse requests above a rate.
fn is_refusal(class: &str) -> bool {
    class.starts_with("503 ") || class.starts_with("429")
}

/// Returns the failures and their shares of the operations. Failures that a limit of the rate or of the connections
/// explains are left out.
pub fn failures(
    counts: &FailureCounts,
    limit: Option<&RateLimit>,
    has_connection_limit: bool,
) -> Vec<(Failure, f64)> {
    let is_explained =
        |class: &str| limit.is_some() && is_refusal(class) || has_connection_limit && is_broken(class);
    let explained: u64 = counts.errors.iter().filter(|(class, _)| is_explained(class)).map(|(_, n)| n).sum();
    let unexplained = counts.errors.iter().filter(|(class, _)| !is_explained(class));
    let share = |n: &u64| *n as f64 / counts.operations.saturating_sub(explained).max(1) as f64;
    unexplained.filter_map(|(class, n)| Some((failure_of(class)?, share(n)))).collect()
}

/// Returns the limits of rates: the refusing windows of a kind have one rate of successes, which is above those of all
/// other windows.
pub fn limits(all: &[&Window]) -> Vec<RateLimit> {
    let mut kinds: BTreeMap<RequestKind, Vec<&Window>> = BTreeMap::new();
    for window in all.iter().filter(|window| window.role == Role::Measure) {
        if let Some(kind) = kind_of(window) {
            kinds.entry(kind).or_default().push(window);
        }
    }
    kinds.into_iter().filter_map(|(kind, windows)| limit(kind, &windows)).collect()
}

/// Returns sentences about operations that were often refused at a single load, so that a limit of the rate cannot be
/// distinguished from failures at random.
pub fn doubts(all: &[&Window], limits: &[RateLimit]) -> Vec<String> {
    let refused = |window: &Window| -> u64 {
        window.errors.iter().filter(|(class, _)| is_refusal(class)).map(|(_, n)| n).sum()
    };
    let is_doubtful = |window: &&&Window| {
        window.role == Role::Measure
            && kind_of(window).is_some_and(|kind| limits.iter().all(|limit| !limit.kinds.contains(&kind)))
            && refused(window) as f64 > MANY_REFUSED * window.operations as f64
    };
    let sentence = |window: &&Window| {
        format!(
            "{}: {:.0}% were refused; if the store limits the rate, measure a lower rate, too, so that the twin has the limit",
            window.place(),
            100.0 * refused(window) as f64 / window.operations.max(1) as f64
        )
    };
    all.iter().filter(is_doubtful).take(1).map(sentence).collect()
}

fn limit(kind: RequestKind, windows: &[&Window]) -> Option<RateLimit> {
    let refused = |window: &Window| {
        window.errors.iter().filter(|(class, _)| is_refusal(class)).map(|(_, n)| n).sum::<u64>()
    };
    let is_refusing = |window: &&&Window| refused(window) as f64 > REFUSED * window.operations as f64;
    let refusing: Vec<&&Window> = windows.iter().filter(is_refusing).collect();
    let rates = || refusing.iter().map(|window| window.achieved_per_s);
    let (lowest, highest) = (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max));
    let mut accepted =
        windows.iter().filter(|window| !is_refusing(window)).map(|window| window.achieved_per_s).peekable();
    let has_accepted = accepted.peek().is_some();
    let is_one_rate = highest <= SAME_RATE * lowest && accepted.all(|rate| rate <= SAME_RATE * highest);
    let sent = || refusing.iter().map(|window| window.operations as f64 / window.window_s.max(1e-9));
    let (least, most) = (sent().fold(f64::INFINITY, f64::min), sent().fold(0.0, f64::max));
    // At one load, operations that fail at random have one rate of successes, too.
    let has_loads = has_accepted || most > OTHER_LOAD * least;
    if refusing.is_empty() || !is_one_rate || !has_loads || lowest <= 0.0 {
        return None;
    }
    let counts = refusing.iter().map(|window| FailureCounts::of(window)).fold(
        FailureCounts::default(),
        |mut sum, counts| {
            sum.merge(&counts);
            sum
        },
    );
    let class = counts.errors.iter().filter(|(class, _)| is_refusal(class)).max_by_key(|(_, n)| **n)?.0;
    let time: f64 = refusing.iter().map(|window| window.window_s).sum();
    let succeeded: f64 = refusing.iter().map(|window| window.achieved_per_s * window.window_s).sum();
    Some(RateLimit { kinds: vec![kind], per_s: succeeded / time, failure: failure_of(class)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(per_s: f64, refused: u64) -> Window {
        let mut window = Window {
            role: Role::Measure,
            operation: plimsoll_workload::OperationKind::Get,
            achieved_per_s: per_s,
            window_s: 10.0,
            operations: (per_s * 10.0) as u64 + refused,
            ..Window::default()
        };
        if refused > 0 {
            window.errors.insert("503 SlowDown".into(), refused);
        }
        window
    }

    #[test]
    fn a_limit_is_one_rate_of_successes_above_all_others() {
        let of = |windows: &[Window]| limits(&windows.iter().collect::<Vec<_>>());
        let found = of(&[window(500.0, 0), window(1000.0, 5_000), window(1010.0, 20_000)]);
        assert_eq!((found.len(), found[0].per_s.round()), (1, 1005.0));
        assert_eq!(found[0].failure, Failure::Response(ErrorCode::SlowDown));
        // A share of all operations fails at every rate.
        assert!(of(&[window(450.0, 500), window(900.0, 1_000), window(1_800.0, 2_000)]).is_empty());
        // More than the limit was accepted.
        assert!(of(&[window(2_000.0, 0), window(1_000.0, 5_000)]).is_empty());
        assert!(of(&[window(1_000.0, 5_000)]).is_empty());
        // Regression: repeats at one load, of which a share fails at random, had a limit.
        assert!(of(&[window(1_000.0, 500), window(1_010.0, 510)]).is_empty());
        assert_eq!(of(&[window(1_000.0, 5_000), window(1_010.0, 20_000)]).len(), 1);
    }

    #[test]
    fn failures_have_the_code_that_was_measured_or_a_similar_one() {
        let code = |class: &str| match failure_of(class) {
            Some(Failure::Response(code)) => code.name(),
            _ => "",
        };
        let classes = [
            "503 ServiceUnavailable",
            "503",
            "500 InternalError",
            "502 BadGateway",
            "429 TooMany",
            "404 NoSuchKey",
        ];
        let codes =
            ["ServiceUnavailable", "SlowDown", "InternalError", "InternalError", "SlowDown", "NoSuchKey"];
        assert_eq!(classes.map(code), codes);
        assert_eq!([failure_of("file"), failure_of("withheld")], [None, None]);
        assert_eq!(failure_of("timeout"), Some(Failure::Silence));
    }
}
