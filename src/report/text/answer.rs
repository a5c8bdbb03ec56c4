//! Answers of a run to the question that it was started with. Every report starts with them.

use super::{capacity, sweep};
use crate::report::loops;
use crate::summary::result::RunResult;

/// Returns the answers of a run: its capacity, the answer to `--until`, the best points of a sweep, or the fastest
/// contender of a synchronization. Empty for a run that only measured.
pub fn of(result: &RunResult) -> Vec<String> {
    let capacity = result.capacity.iter().map(|found| capacity::sentence(result, found));
    let until = result.until.iter().map(|until| match until.answered {
        true => until.answer.clone(),
        false => format!("not answered after {:.0} s per store: {}", until.measured_s, until.answer),
    });
    capacity.chain(until).chain(sweep::sentences(result)).chain(loops::winners(&result.sync)).collect()
}
