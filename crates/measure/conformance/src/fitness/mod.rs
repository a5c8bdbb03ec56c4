//! Fitness of a store for applications: `plimsoll probe STORE --for APPLICATION`.
//!
//! `requirements/` says what applications need, each requirement with its source, and names a check. `checks/` sends
//! the requests of an application to the store, also at the same time, and compares the answers with the rules of the
//! S3 API. A check that fails has the exchanges that show it.

pub mod application;
pub mod call;
pub mod check;
mod checks;
pub mod client;
pub mod problem;
pub mod scene;
pub mod verdict;

use std::collections::BTreeSet;

use plimsoll_base::clock::{SECOND, now_ns};
use plimsoll_engine::store::ownership::KeySpace;

use application::Application;
use check::Check;
use client::BucketClient;
use problem::Problem;
use scene::Scene;
use verdict::{CheckResult, Outcome};

/// Exchanges of a counter-example, at most. The last ones show it.
const MAX_EVIDENCE: usize = 24;

/// Returns the checks of some applications, each once, in the order of their execution.
pub fn checks_of(applications: &[Application]) -> Vec<Check> {
    let required: BTreeSet<Check> =
        applications.iter().flat_map(|one| &one.requirements).map(|one| one.check).collect();
    Check::ALL.iter().copied().filter(|check| required.contains(check)).collect()
}

/// Place and extent of the checks of a store.
pub struct CheckScope<'a> {
    /// Client of the store.
    pub client: &'a BucketClient,
    /// Keys that Plimsoll owns.
    pub space: &'a KeySpace,
    /// Prefix of all keys of the checks, in `space`.
    pub root: String,
    /// Repetitions of concurrent requests; `None` for as many as fit into ten seconds, from 20 to 300.
    pub rounds: Option<u64>,
    /// True to execute the checks that transfer gigabytes.
    pub large: bool,
}

/// Executes one check after others, whose results are `earlier`.
pub async fn run(check: Check, plan: &CheckScope<'_>, earlier: &[CheckResult]) -> CheckResult {
    let began_ns = now_ns();
    let mut result = CheckResult::of(check);
    if check.is_large() && !plan.large {
        result.outcome = Outcome::NotChecked;
        result.detail = "it transfers gigabytes; add --large".into();
        return result;
    }
    let is_late = |one: &CheckResult| one.outcome == Outcome::Violated && one.check.is_of_visibility();
    let scene = Scene {
        client: plan.client,
        space: plan.space,
        root: format!("{}{}/", plan.root, check.name()),
        began_ns,
        rounds: plan.rounds,
        settles: earlier.iter().any(is_late) && !check.is_of_visibility(),
    };
    scene.client.begin_trace(&scene.root);
    match check.run(&scene).await {
        Ok(detail) => (result.outcome, result.detail) = (Outcome::Met, detail),
        Err(Problem::Inconclusive(detail)) => {
            (result.outcome, result.detail) = (Outcome::Inconclusive, detail)
        }
        Err(Problem::Violated(detail)) => {
            (result.outcome, result.detail) = (Outcome::Violated, detail);
            result.exchanges = scene.client.trace();
            result.left_out = result.exchanges.len().saturating_sub(MAX_EVIDENCE);
            result.exchanges.drain(..result.left_out);
        }
    }
    result.duration_s = (now_ns() - began_ns) as f64 / SECOND as f64;
    result
}
