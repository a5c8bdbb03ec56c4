//! The limit of connections of a measured store, which breaks the connections above the limit and serves the others as
//! before.

use plimsoll_judge::summary::result::{LoopKind, Window};
use plimsoll_workload::schedule::Role;

/// Share of broken connections among the operations from which on a load was above the limit.
const BROKEN: f64 = 0.01;
/// Ratio of two estimates up to which they are one limit.
const SAME_LIMIT: f64 = 1.25;

/// Returns true for a class of failures with which stores refuse connections.
pub fn is_broken(class: &str) -> bool {
    matches!(class, "reset" | "connect")
}

/// The operations of one load.
#[derive(Default)]
struct Load {
    slots: f64,
    operations: f64,
    broken: f64,
    /// Successful operations per second.
    per_s: f64,
    /// Successful operations in flight.
    succeeding: f64,
    window_s: f64,
    in_flight: f64,
}

impl Load {
    /// Returns the number of connections whose operations succeed, or slightly less: successful operations in flight,
    /// with the mean pause between the operations of a slot.
    fn connections(&self) -> f64 {
        let all_per_s = self.operations / self.window_s.max(1e-9);
        let pause_s = (self.slots - self.in_flight).max(0.0) / all_per_s.max(1e-9);
        self.succeeding + self.per_s * pause_s
    }
}

/// Returns the loads of closed loops, each with all its kinds of operations. A preparation without a failure and a
/// retry is one, too.
fn loads(all: &[&Window]) -> Vec<Load> {
    let mut found: Vec<(&Window, Load)> = Vec::new();
    let is_usable = |window: &Window| match window.role {
        Role::Measure => true,
        Role::Prepare => window.errors.is_empty() && window.retries == 0 && window.operations > 0,
        Role::Warmup => false,
    };
    let is_closed = |window: &&&Window| window.loop_ == LoopKind::Closed && is_usable(window);
    for window in all.iter().filter(is_closed) {
        let is_same = |known: &Window| {
            (&known.phase, known.repeat, known.block, known.step)
                == (&window.phase, window.repeat, window.block, window.step)
        };
        let at = found.iter().position(|(known, _)| is_same(known)).unwrap_or_else(|| {
            found.push((window, Load::default()));
            found.len() - 1
        });
        let load = &mut found[at].1;
        let broken: u64 = window.errors.iter().filter(|(class, _)| is_broken(class)).map(|(_, n)| n).sum();
        load.slots = window.concurrency as f64;
        load.operations += window.operations as f64;
        load.broken += broken as f64;
        load.per_s += window.achieved_per_s;
        load.succeeding += window.achieved_per_s * window.service_ms.mean.unwrap_or(0.0) / 1e3;
        load.window_s = window.window_s;
        load.in_flight += window.in_flight_mean;
    }
    found.into_iter().map(|(_, load)| load).collect()
}

/// Returns the largest number of connections that the store served; `None` if the measurement shows no limit.
pub fn limit(all: &[&Window]) -> Option<u32> {
    let (above, below): (Vec<Load>, Vec<Load>) =
        loads(all).into_iter().partition(|load| load.broken > BROKEN * load.operations);
    let estimates = || above.iter().map(Load::connections);
    let (lowest, highest) = (estimates().fold(f64::INFINITY, f64::min), estimates().fold(0.0, f64::max));
    let mean = estimates().sum::<f64>() / above.len().max(1) as f64;
    let limit = (mean - 0.1).ceil().max(below.iter().map(|load| load.slots).fold(0.0, f64::max));
    // At one load, connections that break at random look the same.
    let is_one = highest <= SAME_LIMIT * lowest && limit <= SAME_LIMIT * mean;
    let is_exceeded = above.iter().all(|load| load.slots > limit);
    (!above.is_empty() && !below.is_empty() && is_one && is_exceeded && limit >= 1.0).then_some(limit as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(slots: usize, per_s: f64, mean_ms: f64, broken: u64) -> Window {
        let mut window = Window {
            role: Role::Measure,
            concurrency: slots,
            loop_: LoopKind::Closed,
            step: Some(slots as u32),
            achieved_per_s: per_s,
            window_s: 10.0,
            operations: (per_s * 10.0) as u64 + broken,
            in_flight_mean: slots as f64,
            ..Window::default()
        };
        window.service_ms.mean = Some(mean_ms);
        if broken > 0 {
            window.errors.insert("reset".into(), broken);
        }
        window
    }

    fn of(windows: &[Window]) -> Option<u32> {
        limit(&windows.iter().collect::<Vec<_>>())
    }

    #[test]
    fn above_the_limit_connections_break_and_the_others_are_as_busy_as_before() {
        let [one, eight] = [window(1, 250.0, 4.0, 0), window(8, 2_000.0, 4.0, 0)];
        assert_eq!(of(&[one.clone(), eight.clone(), window(32, 3_000.0, 4.0, 90_000)]), Some(12));
        let [more, most] = [window(32, 3_000.0, 4.0, 90_000), window(64, 3_010.0, 4.0, 200_000)];
        assert_eq!(of(&[one.clone(), more, most]), Some(12));
        // Regression: the limit was one connection below those of the preparation, of which none broke.
        let prepared = Window { role: Role::Prepare, ..window(13, 3_000.0, 4.0, 0) };
        assert_eq!(of(&[one.clone(), prepared, window(32, 3_000.0, 4.0, 90_000)]), Some(13));
        // A share of all connections breaks at every load, or more of them succeed at higher loads.
        let broken = |slots: usize| window(slots, 240.0 * slots as f64, 4.0, 100 * slots as u64);
        assert_eq!(of(&[broken(1), broken(8), broken(32)]), None);
        assert_eq!(of(&[one, eight, broken(16), broken(64)]), None);
        assert_eq!(of(&[window(32, 3_000.0, 4.0, 90_000)]), None, "one load shows no limit");
    }
}
