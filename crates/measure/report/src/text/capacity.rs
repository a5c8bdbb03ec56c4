//! The result of a search for the capacity in words.

use plimsoll_base::units::{format_per_s, format_throughput, short_names};
use plimsoll_judge::summary::result::{CapacityBy, CapacityFigures, CapacityStep, ClientLimit, RunResult};
use plimsoll_workload::schedule::Role;

/// Orders runs that searched for the capacity of one store each, in a sentence: `highest capacity first: b 720 get/s, a
/// 400 get/s; b takes 1.80x as many as the next`.
pub fn ranking(runs: &[&RunResult]) -> String {
    let mut found: Vec<(String, f64, bool)> = Vec::new();
    for run in runs {
        let Some(capacity) = &run.capacity else { continue };
        let known = capacity.per_s.filter(|_| !capacity.growing);
        let limit = capacity.client_limit.as_ref().filter(|_| capacity.objectives.is_empty());
        let least = capacity.highest_met_per_s.or(limit.map(|limit| limit.per_s)).or(capacity.per_s);
        found.push((
            run.stores().first().map_or(String::new(), |s| (*s).to_string()),
            known.or(least).unwrap_or(0.0),
            known.is_some(),
        ));
    }
    found.sort_by(|a, b| b.1.total_cmp(&a.1));
    let names = short_names(&found.iter().map(|(store, ..)| store.as_str()).collect::<Vec<_>>());
    let unit = runs.first().map_or_else(String::new, |run| unit(run));
    let each = names.iter().zip(&found).map(|(name, (_, per_s, is_known))| {
        if *per_s <= 0.0 {
            return format!("{} without a result", name.trim_end_matches(':'));
        }
        let least = if *is_known { "" } else { "at least " };
        format!("{} {least}{} {unit}/s", name.trim_end_matches(':'), format_per_s(*per_s))
    });
    let each = each.collect::<Vec<_>>().join(", ");
    // A bound on the first store can only widen the distance, and one on the second leaves it open.
    let factor = match found.as_slice() {
        [(_, first, true), (_, second, true), ..] if *second > 0.0 && first / second < 1.05 => {
            "; the first two differ by less than 5%".to_string()
        }
        [(_, first, is_known), (_, second, true), ..] if *second > 0.0 => {
            let (name, least) = (names[0].trim_end_matches(':'), if *is_known { "" } else { "at least " });
            format!("; {name} takes {least}{:.2}x as many as the next", first / second)
        }
        _ => String::new(),
    };
    let what = if found.iter().all(|(.., is_known)| *is_known) { "capacity" } else { "known rate" };
    format!("highest {what} first: {each}{factor}")
}

/// Returns the name of the operation that a run measured; a mixed run has several.
fn unit(result: &RunResult) -> String {
    let mut kinds: Vec<_> =
        result.windows.iter().filter(|w| w.role == Role::Measure).map(|w| w.operation.name()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    if let [kind] = kinds.as_slice() { (*kind).to_string() } else { "operations".into() }
}

/// Describes the capacity of the store of a run in a sentence.
pub fn sentence(result: &RunResult, found: &CapacityFigures) -> String {
    let mut stores = result.stores();
    stores.truncate(1);
    let store = short_names(&stores).into_iter().next().unwrap_or_else(|| "the store".into());
    let unit = unit(result);
    let is_local = |url: &&&str| ["//127.", "//localhost", "//[::1]"].iter().any(|host| url.contains(host));
    let advice = match stores.iter().find(is_local) {
        Some(_) => "the store shares this machine: measure from another one",
        None => "use a larger client, or several (plimsoll fleet run)",
    };
    of_store(store.trim_end_matches(':'), &unit, found, advice)
}

/// Ratio of the bounds of a search above which they are a bracket, and not a capacity.
const WIDE: f64 = 1.1;

/// Share of a step above which pauses of the client disturb it.
const DISTURBED: f64 = 0.05;

/// The words of one search.
struct Words<'a> {
    store: &'a str,
    /// Name of the operation.
    unit: &'a str,
    found: &'a CapacityFigures,
    objectives: String,
    /// Advice for a user whose client was the bottleneck.
    advice: &'a str,
}

fn of_store(store: &str, unit: &str, found: &CapacityFigures, advice: &str) -> String {
    let words = Words { store, unit, found, objectives: found.objectives.join(" and "), advice };
    let change = words.change();
    if let Some(limit) = &found.client_limit {
        return words.client_limited(limit) + &change;
    }
    let Some(per_s) = found.per_s else { return words.without_value() + &change };
    match found.by {
        CapacityBy::Concurrency => words.by_concurrency(per_s) + &change,
        CapacityBy::Rate => words.by_rate(per_s) + &change,
    }
}

impl Words<'_> {
    fn rate(&self, per_s: f64) -> String {
        format!("{} {}/s", format_per_s(per_s), self.unit)
    }

    /// Returns the objectives as a condition: ` within get.p99 < 10ms`.
    fn within(&self) -> String {
        if self.objectives.is_empty() { String::new() } else { format!(" within {}", self.objectives) }
    }

    /// Returns for how long the capacity was held: `, held for 60 s`.
    fn held(&self) -> String {
        self.found.held_s.map_or(String::new(), |held_s| format!(", held for {held_s:.0} s"))
    }

    /// Describes a change of the store.
    fn change(&self) -> String {
        self.found.change.as_ref().map_or(String::new(), |change| {
            format!(
                "; the store changed during the search: with {} in flight, it gave {} at first and {}/s later",
                change.in_flight,
                self.rate(change.before_per_s),
                format_per_s(change.after_per_s)
            )
        })
    }

    /// Returns the highest throughput of a closed loop, and its operations in flight; `None` with objectives: a closed
    /// loop slows down with the store, so its throughput is not a rate that meets them. The steps before a change of
    /// the store do not count.
    fn best_closed(&self) -> Option<(f64, u64)> {
        if !self.objectives.is_empty() {
            return None;
        }
        if let Some(change) = &self.found.change {
            return Some((change.after_per_s, change.in_flight));
        }
        let is_measured = |s: &&CapacityStep| s.in_flight.is_some() && !s.recovery && s.achieved_per_s > 0.0;
        let met = self.found.steps.iter().filter(is_measured).filter(|step| step.met);
        let best = met.max_by(|a, b| a.achieved_per_s.total_cmp(&b.achieved_per_s))?;
        Some((best.achieved_per_s, best.in_flight?))
    }

    fn client_limited(&self, limit: &ClientLimit) -> String {
        let (store, reason, advice) = (self.store, &limit.reason, self.advice);
        let closed = self.best_closed().map(|(per_s, _)| per_s);
        let own = self.objectives.is_empty().then_some(limit.per_s);
        let met = self.found.highest_met_per_s;
        // By concurrency, the limit has been measured by several steps; the best single one was lucky.
        let most = match self.found.by {
            CapacityBy::Concurrency => own,
            CapacityBy::Rate => met.or_else(|| [closed, own].into_iter().flatten().reduce(f64::max)),
        };
        match most {
            Some(per_s) => format!(
                "{store} takes at least {}{}{}; above that, this client was the limit ({reason}): {advice}",
                self.rate(per_s),
                self.within(),
                if met == Some(per_s) { self.held() } else { String::new() }
            ),
            None => format!(
                "this client is too busy to tell whether {store} meets {}: it was the limit at {} ({reason}); {advice}",
                self.objectives,
                self.rate(limit.per_s)
            ),
        }
    }

    fn by_concurrency(&self, per_s: f64) -> String {
        let found = self.found;
        let bytes =
            found.bytes_per_s.map_or(String::new(), |bytes| format!(", {}", format_throughput(bytes)));
        let interval = match (found.low_per_s, found.high_per_s) {
            (Some(low), Some(high)) => {
                format!(" (95%: {}-{}{bytes})", format_per_s(low), format_per_s(high))
            }
            _ if bytes.is_empty() => String::new(),
            _ => format!(" ({})", &bytes[2..]),
        };
        let reached = self.reached().map_or(String::new(), |n| format!(" with {n} in flight"));
        let (store, rate, held) = (self.store, self.rate(per_s), self.held());
        if found.growing {
            let least = self.rate(found.low_per_s.unwrap_or(per_s));
            // A store that has changed with the time did not grow by the concurrency.
            let advice = match found.change {
                Some(_) => "measure it again when it does not change",
                None => "it still grew at the maximum concurrency: raise --to",
            };
            return format!("capacity of {store}: at least {least}{interval}{reached}{held}; {advice}");
        }
        let least = match (found.in_flight, found.held_in_flight) {
            (Some(least), Some(held)) if least < held && found.change.is_none() => {
                format!("; {least} in flight reached 95% of it in a short step")
            }
            _ => String::new(),
        };
        format!("capacity of {store}: {rate}{interval}{reached}{held}{least}{}", self.beyond(per_s))
    }

    /// Returns the operations in flight of the capacity: those with which it was held.
    fn reached(&self) -> Option<u64> {
        self.found.held_in_flight.or(self.found.in_flight)
    }

    /// Describes the highest concurrency that was measured, if a lower concurrency reached the capacity.
    fn beyond(&self, per_s: f64) -> String {
        let reached = self.reached().unwrap_or(u64::MAX);
        let most = self.found.steps.iter().filter_map(|step| step.in_flight).max();
        let Some(n) = most.filter(|n| *n > reached) else { return String::new() };
        let steps = self.found.steps.iter().filter(|step| step.in_flight == Some(n));
        let achieved: Vec<f64> = steps.map(|step| step.achieved_per_s).collect();
        let achieved = achieved.iter().sum::<f64>() / achieved.len() as f64;
        match achieved / per_s {
            _ if self.found.change.is_some() => String::new(),
            share if share < 0.95 => format!("; {n} in flight gave only {}/s", format_per_s(achieved)),
            share if share > 1.02 => {
                format!("; {n} in flight gave {}/s in a short step", format_per_s(achieved))
            }
            _ => format!("; {n} in flight gave no more"),
        }
    }

    fn by_rate(&self, per_s: f64) -> String {
        let (store, rate, held) = (self.store, self.rate(per_s), self.held());
        let (meets, misses) = match self.objectives.as_str() {
            "" => ("is sustained".to_string(), "is not"),
            objectives => (format!("meets {objectives}"), "does not"),
        };
        match self.found.lowest_missed_per_s {
            // The time ended before the search came close to either bound.
            Some(missed) if !self.found.finished && missed > WIDE * per_s => format!(
                "capacity of {store}: between {} and {}: {rate} {meets}{held}; {}/s {misses}; the time ended before the \
                 search could tell more: raise --within",
                format_per_s(per_s),
                self.rate(missed),
                format_per_s(missed)
            ),
            Some(missed) => {
                let missed = format_per_s(missed);
                format!("capacity of {store}: {rate} {meets}{held}; {missed}/s {misses}")
            }
            None if self.found.finished => {
                format!(
                    "capacity of {store}: at least {rate}, which {meets}{held}; no higher rate was tried: raise --to"
                )
            }
            None => format!(
                "capacity of {store}: at least {rate}, which {meets}{held}; the time ended before a rate missed: raise \
                 --within"
            ),
        }
    }

    /// Describes a search that found no capacity.
    fn without_value(&self) -> String {
        let store = self.store;
        let missed = match (self.found.lowest_missed_per_s, self.objectives.as_str()) {
            (None, _) => String::new(),
            (Some(missed), "") => format!("; {} is not sustained", self.rate(missed)),
            (Some(missed), objectives) => format!("; {} misses {objectives}", self.rate(missed)),
        };
        let most = self.found.steps.iter().map(|step| step.achieved_per_s).fold(0.0, f64::max);
        match self.best_closed() {
            Some((per_s, in_flight)) => format!(
                "capacity of {store}: at least {}, with {in_flight} in flight{missed}; the time ended before the search \
                 found more: raise --within",
                self.rate(per_s),
            ),
            None if most <= 0.0 => format!("no operation of {store} succeeded; see the errors below"),
            None if self.objectives.is_empty() => format!(
                "capacity of {store}: at least {}, the highest throughput of a step{missed}: lower --from",
                self.rate(most)
            ),
            None if self.found.steps.iter().all(|step| step.in_flight.is_some()) => format!(
                "the time ended before the search tried whether {store} meets {} at any rate: raise --within",
                self.objectives
            ),
            None => format!(
                "{store} met {} at no rate that was tried{missed}; {}",
                self.objectives,
                self.way_out()
            ),
        }
    }

    /// Returns what to do if no rate met the objectives.
    fn way_out(&self) -> String {
        let missed = || self.found.steps.iter().filter(|step| step.in_flight.is_none() && !step.met);
        let is_disturbed =
            |step: &CapacityStep| step.client_limited.is_some() || step.paused_share > DISTURBED;
        if missed().count() > 0 && missed().all(is_disturbed) {
            return format!("this client was the limit at each of them: {}", self.advice);
        }
        match self.found.finished {
            true => "relax the objective".into(),
            false => "the time ended before lower rates were tried: lower --from, or raise --within".into(),
        }
    }
}

/// Describes the load of a step: `16 in flight`, `1000/s`.
pub fn load(step: &CapacityStep) -> String {
    match (step.in_flight, step.offered_per_s) {
        (Some(n), _) => format!("{n} in flight"),
        (None, Some(per_s)) => format!("{}/s", format_per_s(per_s)),
        (None, None) => "-".into(),
    }
}

/// Describes the result of a step: `meets`, `misses: 97.20% of operations within the limit of get.p99 < 10ms; limited
/// by the client (cpu: 95% ...)`. Empty for a closed loop, which has no objective.
pub fn verdict(step: &CapacityStep) -> String {
    let own = match (&step.missed, step.in_flight) {
        (Some(reason), _) => format!("misses: {reason}"),
        (None, Some(_)) => String::new(),
        (None, None) => "meets".to_string(),
    };
    let limited = step.client_limited.as_ref().map(|why| format!("limited by the client ({why})"));
    let paused = (step.paused_share > 0.05)
        .then(|| format!("the client was paused for {:.0}% of the step", 100.0 * step.paused_share));
    [Some(own).filter(|own| !own.is_empty()), limited, paused]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join("; ")
}

#[cfg(test)]
#[path = "capacity_tests.rs"]
mod tests;
