//! Objectives of runs in sentences and tables.

use plimsoll_base::units::{format_duration, short_names};
use plimsoll_document::Table;
use plimsoll_judge::summary::objective_result::ObjectiveResult::{Fail, Inconclusive};
use plimsoll_judge::summary::objectives::{count, needed_s};
use plimsoll_judge::summary::result::{ObjectiveFigures, RunResult, UnseenStalls};

/// Returns the answer for all objectives in a sentence. A client that was the bottleneck can only hide that a store
/// meets an objective.
pub fn sentence(found: &[ObjectiveFigures]) -> String {
    let (all, missed, open) = (found.len(), count(found, Fail), count(found, Inconclusive));
    let limited = |outcome| found.iter().filter(move |f| f.outcome == outcome && f.client_limited.is_some());
    let by_client = limited(Inconclusive).count();
    let reason =
        limited(Inconclusive).chain(limited(Fail)).find_map(|figures| figures.client_limited.as_ref());
    let reason = reason.map_or("", String::as_str);
    match (missed, open) {
        (0, 0) => passed(found),
        (0, open) if by_client == open => {
            let repeat = "repeat it on a machine that is idle or larger";
            format!(
                "inconclusive: this client was the bottleneck for {open} of {all} objectives ({reason}); {repeat}"
            )
        }
        (0, open) => {
            let needed =
                needed_s(found).map_or(String::new(), |s| format!("; measure for about {}", time(s)));
            let also = match by_client {
                0 => String::new(),
                _ => format!(", and this client was the bottleneck for {by_client} ({reason})"),
            };
            let short = open - by_client;
            format!(
                "inconclusive: the measurement is too short for {short} of {all} objectives{also}{needed}"
            )
        }
        (missed, open) => {
            let undecided = if open == 0 { String::new() } else { format!(", {open} undecided") };
            let also = match limited(Fail).next() {
                None => String::new(),
                Some(_) => format!("; this client was busy, too ({reason})"),
            };
            format!("FAIL: {missed} of {all} objectives missed{undecided}{also}")
        }
    }
}

/// Describes that all objectives passed; in the measured seconds only, if stalls may have been missed.
fn passed(found: &[ObjectiveFigures]) -> String {
    let all = found.len();
    let unseen: Vec<UnseenStalls> = found.iter().filter_map(|figures| figures.unseen_stalls).collect();
    let shortest = unseen.iter().map(|stalls| stalls.measured_s).reduce(f64::min);
    let needed = unseen.iter().map(|stalls| stalls.needed_s).reduce(f64::max);
    match shortest.zip(needed) {
        Some((measured_s, needed_s)) => format!(
            "pass in these {measured_s:.0} s: {all} of {all} objectives met; measure for {} to include rare stalls",
            time(needed_s)
        ),
        None => format!("pass: {all} of {all} objectives met"),
    }
}

/// Formats a time in seconds, rounded to a length that a user would choose.
fn time(seconds: f64) -> String {
    let unit = if seconds > 600.0 { 60.0 } else { 5.0 };
    format_duration(((seconds / unit).ceil() * unit * 1e9) as u64)
}

/// Returns the measured value, with a remark if the client was the bottleneck or the run may have missed stalls.
pub fn detail(figures: &ObjectiveFigures) -> String {
    match &figures.client_limited {
        Some(why) if figures.outcome == Fail => {
            format!("{}; this client was busy, too ({why})", figures.detail)
        }
        Some(why) => format!("{}; limited by the client, not by the store ({why})", figures.detail),
        None => match figures.unseen_stalls {
            Some(stalls) => format!(
                "{}; in these {:.0} s, which may have missed rare stalls",
                figures.detail, stalls.measured_s
            ),
            None => figures.detail.clone(),
        },
    }
}

/// Returns the short name of the store, the phase and the operation; once, if these two have one name. `stores` are
/// the URLs of the run's stores.
pub fn place(stores: &[&str], figures: &ObjectiveFigures) -> String {
    let names = short_names(stores);
    let at = stores.iter().position(|store| *store == figures.store);
    let store = at.map_or(figures.store.as_str(), |at| &names[at]);
    let phase = &figures.phase;
    let phase = figures.step.map_or_else(|| phase.clone(), |step| format!("{phase}_{}", step + 1));
    let size = figures.size.map_or_else(String::new, |size| format!(" {size}"));
    match figures.operation.map(|operation| operation.name()) {
        Some(operation) if phase != operation => format!("{store} {phase} {operation}{size}"),
        _ => format!("{store} {phase}{size}"),
    }
}

/// Returns the objectives of a run as a table, with a column of stores and operations if there are several. Returns
/// `None` for a run without objectives.
pub fn table(result: &RunResult) -> Option<Table> {
    let stores = result.stores();
    let places: Vec<String> = result.objectives.iter().map(|figures| place(&stores, figures)).collect();
    let several = places.iter().any(|place| *place != places[0]);
    let columns = ["result", "objective", "measured", "store"];
    let mut table = Table::new("", &columns[..if several { 4 } else { 3 }]);
    for (figures, place) in result.objectives.iter().zip(&places) {
        let detail = detail(figures);
        let cells = [figures.outcome.describe(), &figures.objective, &detail, place];
        table.row(cells.into_iter().take(table.columns.len()).collect::<Vec<_>>());
    }
    (!table.rows.is_empty()).then_some(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_workload::OperationKind;

    #[test]
    fn the_sentence_counts_and_says_how_long_to_measure() {
        let one = |outcome, duration_needed_s| ObjectiveFigures {
            size: None,
            objective: "errors < 0.1%".into(),
            store: "s3://b?endpoint=http://127.0.0.1:1".into(),
            phase: "mixed".into(),
            step: None,
            operation: None,
            outcome,
            detail: "0.000%".into(),
            duration_needed_s,
            client_limited: None,
            unseen_stalls: None,
        };
        use plimsoll_judge::summary::objective_result::ObjectiveResult::Pass;
        let (pass, fail, open) = (one(Pass, None), one(Fail, None), one(Inconclusive, Some(16.5)));
        assert_eq!(sentence(&[pass.clone(), pass.clone()]), "pass: 2 of 2 objectives met");
        assert_eq!(
            sentence(&[pass.clone(), open.clone()]),
            "inconclusive: the measurement is too short for 1 of 2 objectives; measure for about 20s"
        );
        assert_eq!(sentence(&[fail.clone(), open.clone()]), "FAIL: 1 of 2 objectives missed, 1 undecided");
        let short = ObjectiveFigures {
            unseen_stalls: Some(UnseenStalls { measured_s: 24.0, needed_s: 300.0 }),
            ..pass.clone()
        };
        assert_eq!(
            sentence(&[pass.clone(), short]),
            "pass in these 24 s: 2 of 2 objectives met; measure for 5m to include rare stalls"
        );
        assert_eq!((time(601.0), time(600.0)), ("11m".into(), "10m".into()));
        let busy = |figures: &ObjectiveFigures| ObjectiveFigures {
            client_limited: Some("cpu: 97%".into()),
            ..figures.clone()
        };
        assert_eq!(
            sentence(&[busy(&fail)]),
            "FAIL: 1 of 1 objectives missed; this client was busy, too (cpu: 97%)"
        );
        assert_eq!(
            sentence(&[pass.clone(), busy(&open)]),
            "inconclusive: this client was the bottleneck for 1 of 2 objectives (cpu: 97%); repeat it on a machine that \
             is idle or larger"
        );
        assert_eq!(
            sentence(&[open.clone(), busy(&open)]),
            "inconclusive: the measurement is too short for 1 of 2 objectives, and this client was the bottleneck for 1 \
             (cpu: 97%); measure for about 20s"
        );
        let stores = [pass.store.as_str()];
        assert_eq!(place(&stores, &pass), "s3://b mixed");
        let get = ObjectiveFigures { operation: Some(OperationKind::Get), step: Some(1), ..fail };
        assert_eq!(place(&stores, &get), "s3://b mixed_2 get");
    }
}
