//! The result of a knee search in words.

use crate::summary::result::{KneeFigures, KneeStep};
use crate::units::format_per_s;

/// Describes the result of the search in a sentence.
pub fn sentence(knee: &KneeFigures) -> String {
    let objectives = knee.objectives.join(" and ");
    let end = if knee.finished { "" } else { " (the search did not complete)" };
    if let Some(limit) = &knee.client_limit {
        let met = match knee.highest_met_per_s {
            Some(low) => format!("; {}/s meets {objectives}", format_per_s(low)),
            None => format!("; no rate was shown to meet {objectives}"),
        };
        let (per_s, reason) = (format_per_s(limit.per_s), &limit.reason);
        return format!(
            "knee: not found: the client, not the store, was the bottleneck at {per_s}/s ({reason}){met}"
        );
    }
    match (knee.highest_met_per_s, knee.lowest_missed_per_s) {
        (Some(low), Some(high)) => format!(
            "knee: {}/s meets {objectives}; {}/s does not{end}",
            format_per_s(low),
            format_per_s(high)
        ),
        (Some(low), None) if knee.finished => format!(
            "knee: not reached: {}/s, the highest rate tried, meets {objectives}; raise --to",
            format_per_s(low)
        ),
        (Some(low), None) => {
            format!("knee: the search did not complete; {}/s meets {objectives}", format_per_s(low))
        }
        (None, Some(high)) => {
            format!("knee: none: {}/s, the lowest rate tried, misses {objectives}{end}", format_per_s(high))
        }
        (None, None) => "knee: not found: no step was completed".into(),
    }
}

/// Describes the result of a step: `meets`, `misses: 97.20% of operations within the limit of get.p99 < 10ms;
/// limited by the client (cpu: 95% ...)`.
pub fn verdict(step: &KneeStep) -> String {
    let own = step.missed.as_ref().map_or("meets".to_string(), |reason| format!("misses: {reason}"));
    match &step.client_limited {
        Some(why) => format!("{own}; limited by the client ({why})"),
        None => own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::result::ClientLimit;

    #[test]
    fn a_client_limit_is_not_called_a_knee_of_the_store() {
        let limit = ClientLimit { per_s: 1000.0, reason: "cpu: 99% of a core".into() };
        let figures = KneeFigures {
            objectives: vec!["get.p99 < 10ms".into()],
            highest_met_per_s: Some(800.0),
            client_limit: Some(limit),
            finished: true,
            ..KneeFigures::default()
        };
        let sentence = sentence(&figures);
        assert!(
            sentence.contains("the client, not the store, was the bottleneck at 1000/s (cpu: 99%"),
            "{sentence}"
        );
    }
}
