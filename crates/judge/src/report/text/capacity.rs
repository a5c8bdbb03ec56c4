//! The result of a search for the capacity in words.

use crate::summary::result::{CapacityBy, CapacityFigures, CapacityStep, RunResult};
use plimsoll_base::units::{format_per_s, format_throughput, short_names};
use plimsoll_workload::schedule::Role;

/// Describes the capacity of the store of a run in a sentence.
pub fn sentence(result: &RunResult, found: &CapacityFigures) -> String {
    let mut stores = result.stores();
    stores.truncate(1);
    let store = short_names(&stores).into_iter().next().unwrap_or_else(|| "the store".into());
    // A mixed run has several operations.
    let mut kinds: Vec<_> =
        result.windows.iter().filter(|w| w.role == Role::Measure).map(|w| w.operation.name()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let unit = if let [kind] = kinds.as_slice() { (*kind).to_string() } else { "operations".into() };
    let is_local = |url: &&&str| ["//127.", "//localhost", "//[::1]"].iter().any(|host| url.contains(host));
    let advice = match stores.iter().find(is_local) {
        Some(_) => "the store shares this machine: measure from another one",
        None => "use a larger client, or several (plimsoll fleet run)",
    };
    of_store(store.trim_end_matches(':'), &unit, found, advice)
}

/// `advice` is for a user whose client was the bottleneck.
fn of_store(store: &str, unit: &str, found: &CapacityFigures, advice: &str) -> String {
    let rate = |per_s: f64| format!("{} {unit}/s", format_per_s(per_s));
    if let Some(limit) = &found.client_limit {
        let objectives = found.objectives.join(" and ");
        let reached = match found.highest_met_per_s {
            Some(met) if !objectives.is_empty() => format!(
                "{store} takes at least {} within {objectives}, and this client was the bottleneck at {}/s",
                rate(met),
                format_per_s(limit.per_s)
            ),
            met => format!(
                "the capacity of {store} was not reached, and this client can send {}",
                rate(met.map_or(limit.per_s, |met| met.max(limit.per_s)))
            ),
        };
        return format!("client-limited: {reached} ({}); {advice}", limit.reason);
    }
    let Some(per_s) = found.per_s else { return without_value(store, &rate, found) };
    let bytes = found.bytes_per_s.map_or(String::new(), |bytes| format!(", {}", format_throughput(bytes)));
    let early = if found.finished { "" } else { "; the search ran out of time: raise --within" };
    match found.by {
        CapacityBy::Concurrency => {
            let interval = match (found.low_per_s, found.high_per_s) {
                (Some(low), Some(high)) => {
                    format!(" (95%: {}-{}{bytes})", format_per_s(low), format_per_s(high))
                }
                _ if bytes.is_empty() => String::new(),
                _ => format!(" ({})", &bytes[2..]),
            };
            let reached = found.in_flight.map_or(String::new(), |n| format!(" with {n} in flight"));
            let end = match found.growing {
                true => "; the throughput still grew at the maximum concurrency: raise --to",
                false => "; more in flight only adds latency",
            };
            format!("capacity of {store}: {}{interval}{reached}{end}{early}", rate(per_s))
        }
        CapacityBy::Rate => {
            let (meets, misses) = match found.objectives.join(" and ") {
                none if none.is_empty() => ("is sustained".to_string(), "is not".to_string()),
                objectives => (format!("meets {objectives}"), "does not".to_string()),
            };
            match found.lowest_missed_per_s {
                Some(missed) => format!(
                    "capacity of {store}: {} {meets}; {}/s {misses}{early}",
                    rate(per_s),
                    format_per_s(missed)
                ),
                None => format!(
                    "capacity of {store}: at least {}, the highest rate tried, which {meets}; raise --to or --within",
                    rate(per_s)
                ),
            }
        }
    }
}

/// Describes a search that found no capacity.
fn without_value(store: &str, rate: &dyn Fn(f64) -> String, found: &CapacityFigures) -> String {
    let objectives = found.objectives.join(" and ");
    match found.lowest_missed_per_s {
        Some(missed) if !objectives.is_empty() => format!(
            "{store} misses {objectives} at {}, the lowest rate tried; relax the objective or lower --from",
            rate(missed)
        ),
        Some(missed) => {
            format!("{store} does not sustain {}, the lowest rate tried; lower --from", rate(missed))
        }
        None if found.steps.iter().any(|step| step.achieved_per_s > 0.0) => {
            format!("the time of the search was too short for the capacity of {store}; raise --within")
        }
        None => format!("no operation of {store} succeeded; see the errors below"),
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

/// Describes the result of a step: `meets`, `misses: 97.20% of operations within the limit of get.p99 < 10ms;
/// limited by the client (cpu: 95% ...)`. Empty for a closed loop, which has no objective.
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
mod tests {
    use super::*;
    use crate::summary::result::ClientLimit;

    #[test]
    fn each_end_of_a_search_has_a_sentence() {
        let by_rate = CapacityFigures {
            objectives: vec!["get.p99 < 10ms".into()],
            per_s: Some(1000.0),
            highest_met_per_s: Some(1000.0),
            lowest_missed_per_s: Some(1020.0),
            finished: true,
            ..CapacityFigures::default()
        };
        let say = |found: &CapacityFigures| of_store("a", "get", found, "use a larger client");
        assert_eq!(say(&by_rate), "capacity of a: 1000 get/s meets get.p99 < 10ms; 1020/s does not");
        let without = CapacityFigures { objectives: Vec::new(), ..by_rate.clone() };
        assert_eq!(say(&without), "capacity of a: 1000 get/s is sustained; 1020/s is not");
        let by_concurrency = CapacityFigures {
            by: CapacityBy::Concurrency,
            per_s: Some(200.0),
            low_per_s: Some(198.0),
            high_per_s: Some(202.0),
            bytes_per_s: Some(2e8),
            in_flight: Some(8),
            finished: true,
            ..CapacityFigures::default()
        };
        assert_eq!(
            say(&by_concurrency),
            "capacity of a: 200 get/s (95%: 198-202, 200 MB/s) with 8 in flight; more in flight only adds latency"
        );
        let limit = ClientLimit { per_s: 1500.0, reason: "cpu: 99% of a core".into() };
        let limited = CapacityFigures { client_limit: Some(limit), per_s: None, ..by_rate };
        assert!(
            say(&limited).starts_with(
                "client-limited: a takes at least 1000 get/s within get.p99 < 10ms, and this client was the bottleneck at \
                 1500/s (cpu: 99% of a core); use"
            ),
            "{}",
            say(&limited)
        );
        let without = CapacityFigures { objectives: Vec::new(), highest_met_per_s: None, ..limited };
        let start =
            "client-limited: the capacity of a was not reached, and this client can send 1500 get/s (";
        assert!(say(&without).starts_with(start), "{}", say(&without));
    }
}
