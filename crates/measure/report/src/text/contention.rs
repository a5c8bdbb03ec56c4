//! Compare-and-swap by number of writers: the highest rate in a sentence, and a table of rates, conflicts and fairness.

use plimsoll_base::units::{format_count, format_ms, format_per_s, short_names};
use plimsoll_document::Table;
use plimsoll_judge::summary::contention::fairness;
use plimsoll_judge::summary::merge::overall;
use plimsoll_judge::summary::result::{RunResult, Window};
use plimsoll_workload::schedule::Role;

/// Returns the number of conflicts per commit.
fn conflicts(window: &Window) -> f64 {
    window.retries as f64 / window.commits_by_writer.iter().sum::<u64>().max(1) as f64
}

/// Returns the windows of a store with compare-and-swaps at one load each, with blocks and repeats merged.
fn windows(result: &RunResult, store: &str) -> Vec<Window> {
    let own = |w: &&Window| {
        (w.store == store && w.role == Role::Measure && w.step.is_none() && w.sweep.is_none())
            && !w.commits_by_writer.is_empty()
    };
    overall(&result.windows.iter().filter(own).cloned().collect::<Vec<_>>())
}

/// Returns the highest rate of each store that was measured with several numbers of writers, in a sentence.
pub fn sentences(result: &RunResult) -> Vec<String> {
    let stores = result.stores();
    let names = short_names(&stores);
    let sentence = |(store, name): (&&str, &String)| {
        let merged = windows(result, store);
        let contended: Vec<_> =
            merged.iter().filter_map(|w| Some((w, fairness(&w.commits_by_writer)?))).collect();
        let writers = |w: &Window| w.commits_by_writer.len();
        if contended.iter().all(|(w, _)| writers(w) == writers(contended[0].0)) {
            return None;
        }
        let (best, fairness) =
            contended.into_iter().max_by(|a, b| a.0.achieved_per_s.total_cmp(&b.0.achieved_per_s))?;
        let prefix = if stores.len() > 1 { format!("{name}: ") } else { String::new() };
        let plural = if writers(best) == 1 { "" } else { "s" };
        Some(format!(
            "{prefix}up to {} compare-and-swaps/s, with {} writer{plural} ({:.2} conflicts per commit, fairness {:.2})",
            format_per_s(best.achieved_per_s),
            writers(best),
            conflicts(best),
            fairness
        ))
    };
    stores.iter().zip(&names).filter_map(sentence).collect()
}

fn row(window: &Window) -> Option<[String; 8]> {
    let commits = &window.commits_by_writer;
    let fairness = fairness(commits)?;
    let ms = |ms: Option<f64>| ms.map_or("-".into(), format_ms);
    let (fewest, most) = (commits.first().copied().unwrap_or(0), commits.last().copied().unwrap_or(0));
    Some([
        commits.len().to_string(),
        format!("{:.1}/s", window.achieved_per_s),
        ms(window.service_ms.p50),
        ms(window.service_ms.p99),
        ms(window.service_ms.max),
        format!("{:.2}", conflicts(window)),
        format!("{fairness:.2}"),
        format!("{} to {}", format_count(fewest), format_count(most)),
    ])
}

/// Returns the loads of one store as a table; `None` if none has a compare-and-swap.
pub fn table(result: &RunResult, store: &str) -> Option<Table> {
    let head = "compare-and-swap (conflicts: per commit; fairness: 1 if all writers have the same number of commits, \
                1/writers if one has all)";
    let columns =
        ["writers", "commits#", "p50 ms#", "p99 ms#", "max ms#", "conflicts#", "fairness#", "per writer#"];
    let mut table = Table::new(head, &columns);
    windows(result, store).iter().filter_map(row).for_each(|cells| table.row(cells));
    (!table.rows.is_empty()).then_some(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_writers_with_the_highest_rate_is_named() {
        let window = |phase: &str, achieved_per_s: f64, commits: &[u64], retries: u64| Window {
            store: "s3://b".into(),
            phase: phase.into(),
            role: Role::Measure,
            achieved_per_s,
            operations: commits.iter().sum(),
            retries,
            commits_by_writer: commits.to_vec(),
            ..Window::default()
        };
        let one = window("writers-1", 180.0, &[540], 0);
        let two = window("writers-2", 230.0, &[100, 300], 600);
        let result = |windows: Vec<Window>| RunResult { windows, ..RunResult::default() };
        assert_eq!(
            sentences(&result(vec![one.clone(), two.clone()])),
            ["up to 230 compare-and-swaps/s, with 2 writers (1.50 conflicts per commit, fairness 0.80)"]
        );
        assert!(sentences(&result(vec![one.clone()])).is_empty(), "a single load answers no question");
        let table = table(&result(vec![one, two]), "s3://b").unwrap();
        assert_eq!(table.rows[1][..2], ["2", "230.0/s"]);
        assert_eq!(table.rows[1][5..], ["1.50", "0.80", "100 to 300"]);
    }
}
