//! Outages: the time from a failure until the operation that failed, and the address that failed, succeed again.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::slow::SlowTime;
use super::target::Ended;
use plimsoll_workload::OperationKind;

/// Smallest number of failed operations that are called an outage.
const OUTAGE: u64 = 2;

/// A time in which operations failed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Outage {
    /// Intended start of the first failed operation (RFC 3339).
    pub from: String,
    /// End of the last failed operation (RFC 3339).
    pub to: String,
    /// Length in seconds.
    pub seconds: f64,
    /// Number of failed operations.
    pub operations: u64,
    /// Class and message of the first failure.
    pub first: String,
}

/// A kind of operation that failed at an address.
#[derive(Debug, Clone, PartialEq)]
struct Failed {
    kind: OperationKind,
    address: Option<String>,
    /// True if an operation of this kind has succeeded since, at any address.
    kind_succeeded: bool,
    /// True if an operation of any kind has succeeded since at this address.
    address_succeeded: bool,
}

/// Failures that have not ended yet.
#[derive(Debug, Clone, PartialEq)]
pub struct Failing {
    from: Timestamp,
    to: Timestamp,
    operations: u64,
    first: String,
    failed: Vec<Failed>,
}

/// A change from success to failure or back, or from the usual speed to a slow one or back.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// The first failure.
    Began,
    /// Everything that failed has succeeded again.
    Ended {
        /// Number of failed operations.
        operations: u64,
        /// Time from the first to the last failure in seconds.
        seconds: f64,
    },
    /// Operations take far longer than usual; the slow time so far.
    Slow(SlowTime),
    /// Operations take as long as usual again, after this slow time.
    Usual(SlowTime),
}

impl Failing {
    /// Returns failures that begin with the operation `ended`, which failed at `now` with these words.
    pub fn begin(ended: &Ended, first: String, now: Timestamp) -> Failing {
        let took = jiff::SignedDuration::from_nanos(i64::try_from(ended.response_ns).unwrap_or(i64::MAX));
        let from = now.checked_sub(took).unwrap_or(now);
        let mut failing = Failing { from, to: now, operations: 0, first, failed: Vec::new() };
        failing.add(ended, now);
        failing
    }

    /// Adds an operation that failed at `now`.
    pub fn add(&mut self, ended: &Ended, now: Timestamp) {
        (self.to, self.operations) = (now, self.operations + 1);
        self.failed.retain(|one| one.kind != ended.kind || one.address != ended.address);
        self.failed.push(Failed {
            kind: ended.kind,
            address: ended.address.clone(),
            kind_succeeded: false,
            address_succeeded: false,
        });
    }

    /// Takes a successful operation into account; returns true if nothing is failing any more.
    pub fn succeeded(&mut self, ended: &Ended) -> bool {
        for one in &mut self.failed {
            one.kind_succeeded |= one.kind == ended.kind;
            one.address_succeeded |= one.address == ended.address;
        }
        self.failed.retain(|one| !one.kind_succeeded || !one.address_succeeded);
        self.failed.is_empty()
    }

    /// Returns the change that the end of these failures is.
    pub fn ended(&self) -> Change {
        Change::Ended { operations: self.operations, seconds: self.seconds() }
    }

    fn seconds(&self) -> f64 {
        self.to.duration_since(self.from).as_secs_f64()
    }

    /// Returns the outage, if there were at least two failures.
    pub fn outage(&self) -> Option<Outage> {
        (self.operations >= OUTAGE).then(|| Outage {
            from: self.from.to_string(),
            to: self.to.to_string(),
            seconds: self.seconds(),
            operations: self.operations,
            first: self.first.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [OperationKind; 3] = [OperationKind::Put, OperationKind::Get, OperationKind::Delete];

    fn at(kind: OperationKind, address: &str) -> Ended {
        Ended { kind, address: Some(address.into()), bytes: 0, service_ns: 0, response_ns: 0, failure: None }
    }

    /// Regression test: a store whose reads were all corrupt had no outage, because its writes succeeded between them.
    #[test]
    fn an_operation_that_always_fails_is_an_outage_although_others_succeed() {
        let [put, get, _] = KINDS.map(|kind| at(kind, "a"));
        let mut failing = Failing::begin(&get, "corrupt".into(), Timestamp::UNIX_EPOCH);
        for _ in 0..3 {
            assert!(!failing.succeeded(&put));
            failing.add(&get, Timestamp::UNIX_EPOCH);
        }
        assert_eq!(failing.outage().map(|outage| outage.operations), Some(4));
        assert!(!failing.succeeded(&put) && failing.succeeded(&get));
    }

    /// Regression test: a canary with an endpoint that was gone alternated between failure and success.
    #[test]
    fn an_address_that_always_fails_is_an_outage_although_others_succeed() {
        let mut failing = Failing::begin(&at(KINDS[0], "gone"), "connect".into(), Timestamp::UNIX_EPOCH);
        for turn in 1..20 {
            let kind = KINDS[turn / 2 % 3];
            match turn % 2 {
                0 => failing.add(&at(kind, "gone"), Timestamp::UNIX_EPOCH),
                _ => assert!(!failing.succeeded(&at(kind, "well"))),
            }
        }
        let returned = [1, 2, 0].map(|kind| failing.succeeded(&at(KINDS[kind], "gone")));
        assert_eq!(returned, [true, true, true], "all kinds have succeeded at the other address");
    }

    #[test]
    fn one_failure_is_no_outage() {
        let put = at(KINDS[0], "a");
        let mut failing = Failing::begin(&put, "timeout".into(), Timestamp::UNIX_EPOCH);
        assert!(failing.succeeded(&put));
        assert_eq!(failing.outage(), None);
        assert_eq!(failing.ended(), Change::Ended { operations: 1, seconds: 0.0 });
    }
}
