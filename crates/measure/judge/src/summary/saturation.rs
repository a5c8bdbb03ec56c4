//! Saturation: whether a store answered fewer operations than were offered.

use plimsoll_recorder::tally::Tally;

/// Share of the offered rate below which an achieved rate means saturation (docs/method.md, "Windows").
const ACHIEVED_SHARE: f64 = 0.99;

/// Growth of the backlog, as a share of the window's operations, above which the store is saturated.
const BACKLOG_SHARE: f64 = 0.01;

/// Returns true if fewer operations ended than were offered, or if the backlog grew. Failed operations count as
/// ended, because throughput lost to failures is not saturation.
pub fn saturated(tally: &Tally, in_flight_mean: f64) -> bool {
    let (intended, ended) = (tally.intended as f64, (tally.completed + tally.failures()) as f64);
    let backlog = tally.intended.saturating_sub(tally.begun) as f64;
    tally.intended > 0
        && (falls_short(intended, ended, in_flight_mean) || backlog > (BACKLOG_SHARE * intended).max(1.0))
}

/// Returns true if fewer operations ended (successfully or not) than were offered, by more than 1% and by more
/// than chance at the window's edges explains. Operations in flight at its end do not end in it, and as many count in
/// their place as were in flight at its start. The numbers are two Poisson counts, so their difference has a standard
/// deviation of about the square root of twice their mean.
pub fn falls_short(intended: f64, ended: f64, in_flight_mean: f64) -> bool {
    let chance = 1.0 + 3.0 * (2.0 * in_flight_mean).sqrt();
    ended < ACHIEVED_SHARE * intended && intended - ended > chance
}
