//! Runs that are labelled, aborted, found again by reference, and compared over time.

use serde_json::Value;

use crate::support::ask::{fails, write};
use crate::support::{Server, plimsoll, scratch, text};

#[test]
fn a_run_is_aborted_if_a_condition_holds_and_its_results_are_kept() {
    let dir = scratch("abort");
    let server = Server::start("latency=20ms", false);
    server.ready("");
    let store = format!("s3://bucket?endpoint={}", server.endpoint());
    let out = dir.join("runs");
    let base =
        ["run", "head", "--store", &store, "--objects", "5", "--rate", "50/s", "--warmup", "0s", "--json"];
    let more = [
        "--duration",
        "10m",
        "--abort-if",
        "head.p50 > 10ms",
        "--label",
        "ci=yes",
        "--out",
        out.to_str().unwrap(),
    ];
    let run = plimsoll(&[&base[..], &more].concat()).output().unwrap();
    assert_eq!(run.status.code(), Some(1), "{}", text(&run.stderr));
    assert!(text(&run.stderr).contains("--abort-if 'head.p50 > 10ms': "), "{}", text(&run.stderr));
    let result: Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!((&result["run"]["partial"], &result["run"]["labels"]["ci"]), (&true.into(), &"yes".into()));
    assert!(result["windows"].as_array().unwrap().iter().any(|w| w["operations"].as_u64() > Some(100)));
}

/// Regression test: the trend of a directory with a replay and an open loop reported a change between them.
#[test]
fn a_trend_contains_only_comparable_runs() {
    let dir = scratch("history-comparable");
    let runs = dir.join("plimsoll-runs");
    (0..12).for_each(|hour| {
        run_at(&runs, hour, if hour < 6 { 10.0 } else { 30.0 });
        let rate = if hour < 6 { "100/s" } else { "900/s" };
        let id = format!("20261101T{hour:02}0000-{hour:012x}");
        write(&runs.join(&id), "experiment.toml", &format!("[[phase]]\nname = 'get'\nrate = '{rate}'\n"));
    });
    let done = plimsoll(&["history", "--figure", "get.p99"]).current_dir(&dir).output().unwrap();
    let shown = text(&done.stdout);
    let first = shown.lines().next().unwrap();
    assert_eq!(first.matches("no change in 6 runs").count(), 2, "{shown}");
    assert!(first.contains("runs like 20261101T050000-") && !first.contains("changed"), "{shown}");
}

/// Writes a run directory of the given hour with one figure.
fn run_at(runs: &std::path::Path, hour: usize, p99_ms: f64) {
    let id = format!("20261101T{hour:02}0000-{hour:012x}");
    std::fs::create_dir_all(runs.join(&id)).unwrap();
    let label = if hour < 2 { "first" } else { "later" };
    let result = serde_json::json!({
        "run": { "id": id, "experiment": "get", "started_at": format!("2026-11-01T{hour:02}:00:00Z"), "seed": 1,
                 "stores": ["s3://b"], "version": "0", "partial": false, "labels": { "when": label } },
        "confidence": [{ "store": "s3://b", "phase": "get", "operation": "get", "metric": "p99", "unit": "ms",
                         "value": p99_ms, "low": p99_ms * 0.98, "high": p99_ms * 1.02 }],
    });
    write(&runs.join(&id), "result.json", &result.to_string());
}

#[test]
fn a_history_lists_runs_and_finds_the_change_of_a_figure() {
    let dir = scratch("history");
    let runs = dir.join("plimsoll-runs");
    (0..20).for_each(|hour| {
        let noise = 1.0 + 0.01 * ((hour * 7) % 5) as f64;
        run_at(&runs, hour, if hour < 12 { 10.0 } else { 13.0 } * noise);
    });
    let history = |arguments: &[&str]| {
        let done = plimsoll(&[&["history"], arguments].concat()).current_dir(&dir).output().unwrap();
        assert!(done.status.success(), "{}", text(&done.stderr));
        text(&done.stdout)
    };
    let list = history(&[]);
    assert!(list.starts_with("20 runs; the latest is 20261101T190000-"), "{list}");
    assert!(history(&["--label", "when=first"]).starts_with("2 runs"));
    assert!(history(&["--since", "2026-11-01T15", "--last", "3"]).starts_with("3 runs"));
    let trend = history(&["--figure", "get.p99"]);
    let first = trend.lines().next().unwrap();
    assert!(
        first.contains("(+3")
            && first.contains("%) at 2026-11-01 12:00")
            && first.contains("one change in 20 runs"),
        "{first}"
    );
    let json: Value = serde_json::from_str(&history(&["--figure", "get.p99", "--json"])).unwrap();
    assert_eq!(json["lines"][0]["changes"].as_array().unwrap().len(), 1, "{json:#}");
    // The result is too short to be shown; the error names the run that was found.
    let shown = plimsoll(&["show", "latest~3"]).current_dir(&dir).output().unwrap();
    assert!(text(&shown.stderr).contains("20261101T160000-"), "{}", text(&shown.stderr));
}

/// Regression test: a search for the capacity was listed with the figures of its first step, and equal buckets of two
/// servers had one name.
#[test]
fn a_history_shows_capacities_and_tells_servers_apart() {
    let dir = scratch("history-capacity");
    for (number, host) in ["one:9000", "two:9000&provider=aws-s3", "two:9000"].iter().enumerate() {
        let id = format!("20261101T0{number}0000-{number:012x}");
        let store = format!("s3://b?endpoint=http://{host}");
        let mut result = serde_json::json!({
            "run": { "id": id, "experiment": "get", "started_at": format!("2026-11-01T0{number}:00:00Z"), "seed": 1,
                     "stores": [store], "version": "0", "partial": false },
            "confidence": [{ "store": store, "phase": "get", "operation": "get", "metric": "rate", "unit": "per_s",
                             "value": 77.0 }],
        });
        if number == 0 {
            result["capacity"] = serde_json::json!({ "per_s": 437.0 });
            result["confidence"][0]["step"] = 0.into();
        }
        std::fs::create_dir_all(dir.join(&id)).unwrap();
        write(&dir.join(&id), "result.json", &result.to_string());
    }
    let done = plimsoll(&["history", dir.to_str().unwrap()]).output().unwrap();
    let list = text(&done.stdout);
    let rows: Vec<&str> =
        list.lines().filter(|line| line.contains("20261101T0") && line.contains("get")).collect();
    assert!(rows[0].contains("one:9000 ") && rows[0].contains("437/s (capacity)"), "{list}");
    assert!(
        rows[1].contains("two:9000 ") && rows[2].contains("two:9000 ") && rows[2].contains("77.0/s"),
        "{list}"
    );
}

#[test]
fn unknown_figures_references_and_conditions_are_refused() {
    let dir = scratch("history-refused");
    fails(
        &["history", dir.to_str().unwrap(), "--figure", "get.p99"],
        2,
        &["none of the 0 runs has this figure"],
    );
    fails(&["history", "no-such-directory"], 2, &["no-such-directory", "run directories"]);
    fails(&["show", "latest"], 2, &["latest", "neither a run directory nor a run in plimsoll-runs"]);
    let get = ["run", "get", "--store", "memory:"];
    fails(&[&get[..], &["--abort-if", "errors < 5%"]].concat(), 2, &["--abort-if"]);
    let label = plimsoll(&[&get[..], &["--label", "branch"]].concat()).output().unwrap();
    assert!(text(&label.stderr).contains("NAME=VALUE, such as branch"), "{}", text(&label.stderr));
    fails(
        &["run", "capacity", "--store", "memory:", "--by", "concurrency", "--slo", "get.p99 < 1s"],
        2,
        &["--by"],
    );
}
