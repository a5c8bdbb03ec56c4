//! Answers of a run to the question that it was started with. Every report starts with them.

use super::{capacity, contention, objectives, sweep};
use crate::comparison::bound;
use crate::{clients, loops};
use plimsoll_base::units::short_names;
use plimsoll_judge::summary::result::{RunResult, UntilFigures};
use plimsoll_workload::schedule::Role;

/// Returns the answer to `--until`. If the client limited a store, a comparison is only a bound.
fn until(result: &RunResult, until: &UntilFigures) -> String {
    if !until.answered {
        return format!("no sure answer after {:.0} s per store: {}", until.measured_s, until.answer);
    }
    let stores = result.stores();
    let is_limited = |store: &&str| {
        let mut measured = result.windows.iter().filter(|w| w.role == Role::Measure && w.store == **store);
        measured.any(|window| window.client_limited.is_some())
    };
    let names = short_names(&stores);
    let limited = stores.iter().zip(&names).filter(|(store, _)| is_limited(store));
    let limited: Vec<&str> = limited.map(|(_, name)| name.as_str()).collect();
    format!("{}{}", until.answer, if stores.len() > 1 { bound(&limited) } else { String::new() })
}

/// Returns whether a run met its objectives, in a sentence; `None` if it has none.
pub fn judged(result: &RunResult) -> Option<String> {
    let found = Some(&result.objectives).filter(|found| !found.is_empty())?;
    Some(objectives::sentence(found))
}

/// Returns the answers of a run: whether it met its objectives, its capacity, the answer to `--until`, the best points
/// of a sweep or of a contention, the fastest contender of a synchronization, or the fastest client. Empty for a run
/// that only measured.
pub fn of(result: &RunResult) -> Vec<String> {
    let capacity = result.capacity.iter().map(|found| capacity::sentence(result, found));
    // In a broken-off run, some clients had fewer turns than others.
    let fastest = if result.run.partial { Vec::new() } else { clients::winners(&result.clients) };
    let until = result.until.iter().map(|figures| until(result, figures));
    judged(result)
        .into_iter()
        .chain(capacity)
        .chain(until)
        .chain(sweep::sentences(result))
        .chain(contention::sentences(result))
        .chain(loops::winners(&result.sync))
        .chain(fastest)
        .collect()
}
