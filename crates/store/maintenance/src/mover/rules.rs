//! The rules that move and pack bodies, with the numbers of their tiers.

use std::collections::BTreeMap;

use plimsoll_cost::period::DAY_S;
use plimsoll_cost::tariff::Tariff;

use super::condition::Condition;
use crate::mover::limits::DayLimits;
use plimsoll_bodies::location::Location;
use plimsoll_bodies::pricing::Gate;
use plimsoll_catalog::ambient::now_ms;

/// A rule with the numbers of its tiers.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// Number of the tier that bodies leave.
    pub from: u16,
    /// Number of the tier that receives them.
    pub to: u16,
    /// Condition on the object.
    pub when: Condition,
    /// Milliseconds for which the source stays.
    pub keep_source_ms: u64,
    /// Milliseconds for which a blob stays where it is before it moves again.
    pub min_stay_ms: u64,
    /// Decides whether a move pays for itself; `None` if every move is wanted.
    pub gate: Option<Gate>,
}

impl Rule {
    /// Returns true if the blob may leave its place, and this pays.
    pub fn allows(&self, place: &Location, size: u64) -> bool {
        // The name of an adopted object has no time. It has been in its tier since before the gateway, so it may leave.
        lived_ms(place).is_none_or(|ms| ms >= self.min_stay_ms) && self.pays(place, size)
    }

    /// Returns true if the move of a blob pays, or need not.
    pub fn pays(&self, place: &Location, size: u64) -> bool {
        self.gate.as_ref().is_none_or(|gate| gate.pays(size, size, lived_days(place)))
    }
}

/// Returns the milliseconds since the bytes at a place were written; `None` if the time is unknown.
fn lived_ms(place: &Location) -> Option<u64> {
    let now_ms = now_ms();
    place.written_ms().map(|ms| now_ms.saturating_sub(ms))
}

/// Returns the number of whole days since the bytes at a place were written; 0 if it is unknown.
pub fn lived_days(place: &Location) -> u64 {
    // With 0, the whole minimum duration of the store is a part of the cost, so no move looks too cheap.
    lived_ms(place).unwrap_or(0) / (DAY_S * 1000)
}

/// Rules of pack files.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Packing {
    /// Number of the tier that receives small bodies; `None` if they stay where they are.
    pub tier: Option<u16>,
    /// Size in bytes of the largest body in a pack file.
    pub max_body: u64,
    /// Size in bytes at which a pack file is complete.
    pub file_size: u64,
    /// Age in milliseconds from which a body is packed.
    pub min_age_ms: u64,
    /// Age in milliseconds from which a body is packed even if its pack file stays smaller.
    pub max_wait_ms: u64,
    /// Decides by tier whether a pack file is written again without its garbage. Without an entry, it always is.
    pub gates: BTreeMap<u16, Gate>,
}

/// Rules of moves; the first one that applies to an object wins.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rules {
    /// Rules of moves between tiers.
    pub moves: Vec<Rule>,
    /// Rules of pack files.
    pub packing: Packing,
    /// Limits of the cost of all moves of a day.
    pub budget: DayLimits,
    /// Tariffs of the tiers whose prices are known.
    pub tariffs: BTreeMap<u16, Tariff>,
    /// Number of the tier in whose network the gateway runs.
    pub home: u16,
    /// Length of a day of lifecycle rules in milliseconds.
    pub day_ms: u64,
}
