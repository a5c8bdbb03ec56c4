//! The measured figures of a store: times and failures by kind of operation, size and load.

use plimsoll_server::request_kind::RequestKind;
use std::collections::BTreeMap;

use super::course::Course;
use super::curve::{Curve, load_and_share};
use plimsoll_server::error_code::ErrorCode;

/// A failure of the measured store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// Response with an error code.
    Response(ErrorCode),
    /// Reset of the connection.
    Reset,
    /// No answer at all.
    Silence,
    /// Content that was changed.
    Corrupt,
}

/// Times and failures at one load.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Operations in flight, averaged over time.
    pub in_flight: f64,
    /// Start to end of the successful operations.
    pub total: Curve,
    /// Start to first byte of the response; `None` if it is the end.
    pub first: Option<Curve>,
    /// Start to end of the failed operations; `None` if none failed.
    pub failed: Option<Curve>,
    /// Failures, and their shares of the operations.
    pub failures: Vec<(Failure, f64)>,
    /// Order of slow and fast stretches.
    pub course: Course,
}

/// Times and failures of objects of one size.
#[derive(Debug, Clone, PartialEq)]
pub struct SizePoint {
    /// Size of the objects in bytes.
    pub bytes: u64,
    /// Loads, in ascending order; not empty.
    pub loads: Vec<Point>,
}

impl SizePoint {
    /// Returns the number of the last measured load that is at most `in_flight`, and the place of `in_flight` between
    /// it and the next one (0 to 1).
    pub fn place(&self, in_flight: f64) -> (usize, f64) {
        load_and_share(&self.loads, |point| point.in_flight, in_flight)
    }
}

/// Rate above which requests are refused.
#[derive(Debug, Clone, PartialEq)]
pub struct RateLimit {
    /// Kinds of the limited operations, which have it together.
    pub kinds: Vec<RequestKind>,
    /// Accepted operations per second.
    pub per_s: f64,
    /// Answer to the others.
    pub failure: Failure,
}

/// Everything that a twin imitates.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Model {
    /// Sizes of each measured kind, in ascending order; not empty.
    pub kinds: BTreeMap<RequestKind, Vec<SizePoint>>,
    /// Limits of rates.
    pub limits: Vec<RateLimit>,
}

impl Model {
    /// Returns the sizes of a kind, or of the most similar measured kind; `None` if no similar kind was measured.
    pub fn of(&self, kind: RequestKind) -> Option<&[SizePoint]> {
        let sizes = std::iter::once(&kind).chain(kind.substitutes()).find_map(|kind| self.kinds.get(kind))?;
        Some(sizes)
    }
}
