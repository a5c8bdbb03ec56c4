//! Renders the state of a run as a page.

use plimsoll_base::clock::SECOND;
use plimsoll_base::units::{format_count, format_ms, format_per_s, format_throughput};
use plimsoll_document::Table;
use plimsoll_document::live::plot::{Plot, PlotLine};
use plimsoll_document::live::{LivePage, Section, Tile};

use crate::screen::model::{KEPT, Model, Second};

/// Minimum length of the time axis in seconds.
const SHORTEST: u64 = 60;

/// Returns the page of a run at a time on the monotonic clock.
pub fn of(model: &Model, has_ended: bool, now_ns: u64) -> LivePage {
    let failed: u64 = model.errors.values().sum();
    let mut warnings = Vec::new();
    if failed > 0 {
        warnings.push(format!("{} operations have failed", format_count(failed)));
    }
    LivePage {
        title: "Plimsoll run".into(),
        what: vec![model.stores.join(", "), model.title.clone()],
        state: sentence(model, has_ended),
        warnings,
        every_s: 1,
        program: "the run".into(),
        tiles: tiles(model, failed, has_ended, now_ns),
        sections: vec![charts(model, now_ns), failures(model, failed), notes(model)],
    }
}

/// Formats seconds as minutes and seconds, such as `1:05`.
fn minutes(seconds: u64) -> String {
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

/// Returns the state of the run in a sentence.
fn sentence(model: &Model, has_ended: bool) -> String {
    if has_ended {
        return "The operations have ended; the results are being written.".into();
    }
    if model.stopping {
        return "The run is stopping; its results are kept.".into();
    }
    if model.title.is_empty() {
        return "The run has not started yet.".into();
    }
    "The run is in progress.".into()
}

fn tiles(model: &Model, failed: u64, has_ended: bool, now_ns: u64) -> Vec<Tile> {
    let mut tiles = Vec::new();
    match model.current(now_ns) {
        None => tiles.push(Tile::new("Throughput", "–", "no operation has ended yet")),
        Some(now) => {
            let bytes =
                if now.bytes_per_s > 0.0 { format_throughput(now.bytes_per_s) } else { String::new() };
            tiles.push(Tile::new("Throughput", format!("{}/s", format_per_s(now.per_s)), bytes));
            let names = ["Median service time", "99th percentile", "99.9th percentile"];
            for (name, value) in names.into_iter().zip(now.percentiles_ms) {
                let value = value.map_or("–".into(), |ms| format!("{} ms", format_ms(ms)));
                tiles.push(Tile::new(name, value, "of the last 5 seconds"));
            }
        }
    }
    if model.total_ns > 0 && !has_ended {
        let left = model.total_ns.saturating_sub(model.passed_ns).div_ceil(SECOND);
        tiles.push(Tile::new("Time left", minutes(left), "of the time limits"));
    }
    tiles.push(Tile::new(
        "Succeeded",
        format_count(model.completed),
        format!("{} failed", format_count(failed)),
    ));
    let client = &model.client;
    let mut parts = Vec::new();
    parts.extend(client.start_lag_ms.map(|lag| format!("start lag p99 {} ms", format_ms(lag))));
    parts.extend(client.link.as_ref().map(|(name, share)| format!("link {name} {:.0}%", share * 100.0)));
    tiles.push(Tile::new("CPU of the client", format!("{:.2} cores", client.cores), parts.join(", ")));
    if let Some(spent) = &model.spent {
        let limit = model.limit.as_ref().map_or(String::new(), |limit| format!("of at most {limit}"));
        tiles.push(Tile::new("Cost at list prices", spent.clone(), limit));
    }
    tiles
}

/// Returns charts of the last minutes.
fn charts(model: &Model, now_ns: u64) -> Section {
    let newest = model.last_second(now_ns).unwrap_or(0);
    let oldest = model.seconds.front().map_or(0, |second| second.second);
    let length = (newest - oldest + 1).clamp(SHORTEST, KEPT as u64);
    let first = (newest + 1).saturating_sub(length);
    // Seconds without an operation have no counts.
    let values = |none: Option<f64>, of: &dyn Fn(&Second) -> Option<f64>| {
        let mut values = vec![None; length as usize];
        if !model.seconds.is_empty() {
            let past = oldest.max(first)..=newest;
            past.for_each(|second| values[(second - first) as usize] = none);
        }
        for second in model.seconds.iter().filter(|second| second.second >= first) {
            if let Some(value) = values.get_mut((second.second - first) as usize) {
                *value = of(second);
            }
        }
        values
    };
    let from_to = [minutes(first), minutes(first + length - 1)];
    let plot = |title: &str, unit: &str, lines: Vec<PlotLine>, is_log| Plot {
        title: title.into(),
        unit: unit.into(),
        from_to: from_to.clone(),
        lines,
        is_log,
    };
    let rates = vec![
        PlotLine::new("succeeded", values(Some(0.0), &|second| Some(second.completed as f64))),
        PlotLine::new("failed", values(Some(0.0), &|second| Some(second.failed as f64))),
    ];
    let latencies = vec![
        PlotLine::new("median", values(None, &|second| second.p50_ms)),
        PlotLine::new("99th percentile", values(None, &|second| second.p99_ms)),
    ];
    Section {
        id: "charts".into(),
        head: "Last minutes".into(),
        follows: true,
        plots: vec![
            plot("Operations", "per second", rates, false),
            plot("Service time", "ms, logarithmic", latencies, true),
        ],
        ..Section::default()
    }
}

fn failures(model: &Model, failed: u64) -> Section {
    let all = model.completed + failed;
    let mut classes: Vec<(&String, &u64)> = model.errors.iter().collect();
    classes.sort_by(|a, b| b.1.cmp(a.1));
    let mut table = Table::new("Failures", &["class", "operations#", "share#"]);
    for (class, n) in classes {
        let share = 100.0 * *n as f64 / all.max(1) as f64;
        table.row([class.clone(), format_count(*n), format!("{share:.2}%")]);
    }
    Section {
        id: "failures".into(),
        head: "Failures".into(),
        follows: true,
        answer: if failed == 0 { "None.".into() } else { String::new() },
        tables: if failed == 0 { Vec::new() } else { vec![table] },
        ..Section::default()
    }
}

fn notes(model: &Model) -> Section {
    /// Number of the last notes that are shown.
    const SHOWN: usize = 20;
    let notes: Vec<String> =
        model.notes.iter().rev().take(SHOWN).map(|note| note.trim().to_string()).collect();
    Section {
        id: "notes".into(),
        head: "Notes".into(),
        follows: true,
        answer: if notes.is_empty() { "None.".into() } else { String::new() },
        notes,
        ..Section::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_recorder::collector::SecondRow;
    use plimsoll_recorder::tally::Tally;

    #[test]
    fn the_first_sentence_names_the_state() {
        let mut model = Model::new(Some("$1".into()));
        assert!(of(&model, false, 0).state.starts_with("The run has not started"));
        model.title = "get".into();
        model.total_ns = 90 * SECOND;
        let page = of(&model, false, 0);
        assert_eq!(page.state, "The run is in progress.");
        assert!(page.tiles.contains(&Tile::new("Time left", "1:30", "of the time limits")), "{page:?}");
        model.stopping = true;
        assert!(of(&model, false, 0).state.contains("stopping"));
        assert!(of(&model, true, 0).state.contains("have ended"));
    }

    #[test]
    fn charts_have_a_value_for_each_second_and_gaps_for_the_others() {
        let mut model = Model::new(None);
        for second in [100, 101, 350, 399] {
            let mut tally = Tally { completed: 7, ..Tally::default() };
            tally.errors.insert("503 <b>".into(), second);
            model.second(&SecondRow { second, phase: 0, kind: Default::default(), tally: &tally });
        }
        let page = of(&model, false, 0);
        let values = &page.sections[0].plots[0].lines[0].values;
        let sum: f64 = values.iter().flatten().sum();
        assert_eq!((values.len(), values.iter().flatten().count(), sum), (KEPT, KEPT, 28.0));
        assert_eq!(page.sections[0].plots[0].from_to, ["1:40", "6:39"]);
        assert_eq!(page.warnings, ["950 operations have failed"]);
        assert!(page.html().unwrap().contains("503 &lt;b&gt;"));
    }
}
