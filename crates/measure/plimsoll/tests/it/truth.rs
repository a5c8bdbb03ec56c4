//! The clock and the disturbances in results, groups of runs, and runs that measure until a question is answered.

use serde_json::Value;

use crate::support::ask::{fails, name, run};
use crate::support::made::made;
use crate::support::{scratch, text};

fn json(arguments: &[&str]) -> Value {
    let output = run(arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn window(result: &Value) -> &Value {
    let windows = result["windows"].as_array().unwrap();
    windows.iter().find(|w| w["role"] == "measure").unwrap()
}

#[test]
fn each_window_names_the_clock_of_its_figures() {
    let out = scratch("clock");
    for (store, clock) in [("embedded:", "kernel"), ("memory:", "process")] {
        let result = json(&[
            "run",
            "get",
            "--store",
            store,
            "--objects",
            "10",
            "--operations",
            "2000",
            "--warmup",
            "100ms",
            "--json",
            "--out",
            name(&out),
        ]);
        let found = &window(&result)["disturbances"];
        assert_eq!(found["receive_clock"], clock, "{store}");
        assert_eq!(found["client_delay_ms"]["n"], 2000, "{store}");
    }
}

#[test]
fn a_group_of_runs_is_judged_by_the_variation_between_its_runs() {
    let out = scratch("groups");
    let level = |label: &str, factor: f64| made(&out, label, |m| m.stores[0].1 = factor);
    let base = [level("a1", 1.0), level("a2", 1.02), level("a3", 0.99)];
    let slower = [level("b1", 1.3), level("b2", 1.28), level("b3", 1.31)];
    let varying = [level("c1", 0.8), level("c2", 1.3), level("c3", 1.02)];
    let compare = |other: &[std::path::PathBuf]| {
        let mut arguments = vec!["compare", "--json"];
        arguments.extend(base.iter().map(|p| name(p)));
        arguments.push("--");
        arguments.extend(other.iter().map(|p| name(p)));
        json(&arguments)["comparisons"][0].clone()
    };
    let found = compare(&slower);
    assert_eq!(found["runs"], serde_json::json!([3, 3]));
    assert_eq!(found["rows"][0]["verdict"], "slower");
    assert_eq!(compare(&varying)["rows"][0]["verdict"], "no difference shown");
    let table = text(&run(&["compare", name(&base[0]), "--", name(&slower[0])]).stdout);
    assert!(table.contains("needs more runs"), "{table}");
    let table = text(&run(&["compare", name(&base[0]), name(&slower[0])]).stdout);
    assert!(table.contains("one run each: differences between days are not included"), "{table}");
    let other = made(&out, "other", |m| m.size = "4 KiB".into());
    fails(&["compare", name(&base[0]), "--", name(&other)], 2, &["not comparable"]);
}

/// Regression test: two labelled runs of one store had their ids as names in the verdict.
#[test]
fn labels_name_the_sides_of_a_comparison_and_the_runs_of_a_check() {
    let out = scratch("labels");
    let labelled = |label: &str, factor: f64| {
        let run = made(&out, label, |m| m.stores[0].1 = factor);
        let file = run.join("result.json");
        let mut result: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        result["run"]["labels"] = serde_json::json!({ "version": label });
        std::fs::write(&file, result.to_string()).unwrap();
        run
    };
    let (old, new) = (labelled("old", 1.3), labelled("new", 1.0));
    let verdict = text(&run(&["compare", name(&old), name(&new)]).stdout);
    assert!(
        verdict.starts_with("version=new was 1.") && verdict.contains("faster than version=old"),
        "{verdict}"
    );
    let junit = out.join("junit.xml");
    run(&["check", name(&new), "--slo", "get.p99 < 1s", "--junit", name(&junit)]);
    let junit = std::fs::read_to_string(junit).unwrap();
    assert!(junit.contains("version=new (new)"), "{junit}");
}

#[test]
fn a_run_ends_when_its_question_is_answered() {
    let out = scratch("until");
    let arguments = [
        "run",
        "get",
        "--store",
        "embedded:",
        "--objects",
        "10",
        "--duration",
        "9s",
        "--warmup",
        "100ms",
        "--until",
        "get.rate +-100%",
        "--max-time",
        "9s",
        "--json",
        "--quiet",
        "--out",
        name(&out),
    ];
    let output = run(&arguments);
    assert!(!String::from_utf8_lossy(&output.stderr).contains("measuring until"), "{output:?}");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let until = &result["until"];
    assert_eq!((&until["looks"], &until["measured_s"]), (&Value::from(1), &Value::from(9.0)));
    assert_eq!(output.status.success(), until["answered"].as_bool().unwrap(), "{until}");
    let confidence = result["confidence"].as_array().unwrap();
    let scope = confidence.iter().find(|c| c["metric"] == "rate").unwrap();
    assert!((scope["measured_s"].as_f64().unwrap() - 9.0).abs() < 0.1, "{scope}");
    assert!((scope["rare_event_s"].as_f64().unwrap() - 3.0).abs() < 0.1, "{scope}");
}

#[test]
fn questions_that_cannot_be_answered_are_refused() {
    let get = ["run", "get", "--store", "memory:"];
    let refused = |more: &[&str], words: &[&str]| {
        let arguments: Vec<&str> = get.iter().chain(more).copied().collect();
        fails(&arguments, 2, words);
    };
    refused(&["--until", "conclusive"], &["--until conclusive", "at least two --store"]);
    refused(&["--until", "sure"], &["--until 'sure'", "conclusive", "+-5%"]);
    refused(&["--until", "get.p99 +-0%"], &["--until", "above 0%"]);
    refused(&["--until", "get.p50 +-5%", "--max-time", "0"], &["--max-time", "positive"]);
    refused(&["--until", "get.p50 +-5%", "--operations", "10"], &["--until", "--duration"]);
    refused(&["--until", "conclusive", "--margin", "5"], &["--margin 5", "5%"]);
    let both = run(&["run", "get", "--store", "memory:", "--until", "get.p50 +-5%", "--repeats", "2"]);
    assert!(both.status.code() == Some(2) && text(&both.stderr).contains("--repeats"));
    fails(
        &["run", "delete", "--store", "memory:", "--duration", "1s", "--until", "delete.p50 +-5%"],
        2,
        &["deletes"],
    );
}

#[test]
fn a_dry_run_predicts_the_detectable_difference_from_a_pilot() {
    let out = scratch("pilot");
    let pilot = made(&out, "pilot", |_| {});
    let dry_run = ["run", "get", "--duration", "60s", "--dry-run"];
    let plain = text(&run(&dry_run).stdout);
    assert!(plain.contains("--pilot RUN"), "{plain}");
    let arguments: Vec<&str> = dry_run.iter().copied().chain(["--pilot", name(&pilot)]).collect();
    let predicted = text(&run(&arguments).stdout);
    assert!(predicted.contains("detectable difference in get p50: "), "{predicted}");
    let alone = run(&["run", "get", "--store", "memory:", "--pilot", name(&pilot)]);
    assert!(alone.status.code() == Some(2) && text(&alone.stderr).contains("--dry-run"));
}
