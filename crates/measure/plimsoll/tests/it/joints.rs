//! Joints of a run: a phase and the one before it, a speed and its failures, a preparation and its
//! benchmark. Each test has a store whose true value is known.

use std::path::Path;

use crate::support::ask::{fails, name, run};
use crate::support::made::made;
use crate::support::{Server, plimsoll, scratch, text};
use serde_json::Value;

/// Executes and verifies an experiment on a server whose responses take `latency_ms`. Returns the measured windows.
fn measured(test: &str, latency_ms: u64, experiment: &str) -> Vec<Value> {
    let out = scratch(test);
    let server = Server::start(&format!("latency={latency_ms}ms"), false);
    server.ready("");
    let file = out.join("experiment.toml");
    std::fs::write(&file, experiment).unwrap();
    let store = format!("s3://bucket/joints?endpoint={}", server.endpoint());
    let arguments = ["run", name(&file), "--store", &store, "--json", "--out", name(&out)];
    let done = plimsoll(&arguments).output().unwrap();
    assert!(done.status.success(), "{}", text(&done.stderr));
    let result: Value = serde_json::from_slice(&done.stdout).unwrap();
    let verified = run(&["verify", name(&out.join(result["run"]["id"].as_str().unwrap()))]);
    assert!(verified.status.success(), "{}", text(&verified.stdout));
    let windows = result["windows"].as_array().unwrap();
    windows.iter().filter(|window| window["role"] == "measure").cloned().collect()
}

fn number(window: &Value, field: &str) -> f64 {
    window[field].as_f64().unwrap_or_else(|| panic!("{field}: {window}"))
}

/// Checks that number, rate, throughput and operations in flight of a window of a closed loop say the same, and that
/// the rate is not above what a store with this latency can have.
fn agrees(window: &Value, latency_ms: u64, size: f64) {
    let (rate, length) = (number(window, "achieved_per_s"), number(window, "window_s"));
    let concurrency = number(window, "concurrency");
    let same =
        |a: f64, b: f64, what: &str| assert!((a / b - 1.0).abs() < 1e-6, "{what}: {a} and {b}: {window}");
    same(number(window, "operations") / length, rate, "number / window");
    same(number(window, "throughput_bytes_per_s") / size, rate, "throughput / size");
    let mean_s = window["service_ms"]["mean"].as_f64().unwrap() / 1e3;
    // Durations are recorded in whole microseconds.
    let in_flight = number(window, "in_flight_mean");
    assert!((in_flight / (rate * mean_s) - 1.0).abs() < 1e-3, "Little's law: {window}");
    assert!(in_flight <= concurrency + 1e-9, "{in_flight} in flight: {window}");
    assert!(rate <= concurrency * 1e3 / latency_ms as f64, "{rate}/s: {window}");
}

/// Regression test: after 64 operations in flight, a phase with two had a rate of 30/s where ten were possible, and a
/// first phase without a warm-up had a rate of 26.7/s beside a throughput of 32.0/s.
#[test]
fn rates_do_not_count_operations_of_the_phase_before() {
    let phase = |name: &str, concurrency: u64, role: &str| {
        format!(
            "[[phase]]\nname = '{name}'\nrole = '{role}'\noperations = {{ get = 1 }}\nobjects = {{ from = 'objects' }}\n\
             concurrency = {concurrency}\nduration = '500ms'\n"
        )
    };
    let head = "name = 'joints'\nseed = 1\n[[phase]]\nname = 'objects'\nrole = 'prepare'\noperations = { put = 1 }\n\
                objects = { count = 16, size = '4 KiB' }\nconcurrency = 16\n";
    for warm in ["", &phase("warm", 32, "warmup")] {
        let text = [head, warm, &phase("many", 32, "measure"), &phase("few", 2, "measure")].concat();
        let found = measured("joints-phases", 100, &text);
        assert_eq!(found.len(), 2);
        found.iter().for_each(|window| agrees(window, 100, 4096.0));
    }
    let ramp = "[[phase]]\nname = 'ramp'\noperations = { get = 1 }\nobjects = { from = 'objects' }\n\
                concurrency = { from = 1, step = 15, to = 16, every = '300ms', stop = 'never' }\n";
    measured("joints-ramp", 100, &[head, ramp].concat())
        .iter()
        .for_each(|window| agrees(window, 100, 4096.0));
}

/// An open loop after a heavier one: nothing of the heavier one counts, and what it lacks at its end counts once.
#[test]
fn an_open_loop_has_its_rate_after_a_heavier_one() {
    let text = "name = 'joints'\nseed = 1\n[[phase]]\nname = 'objects'\nrole = 'prepare'\noperations = { put = 1 }\n\
                objects = { count = 16, size = '4 KiB' }\nconcurrency = 16\n\
                [[phase]]\nname = 'heavy'\noperations = { get = 1 }\nobjects = { from = 'objects' }\nrate = '200/s'\n\
                duration = '1s'\n\
                [[phase]]\nname = 'light'\noperations = { get = 1 }\nobjects = { from = 'objects' }\nrate = '20/s'\n\
                duration = '2s'\n";
    for window in measured("joints-open", 200, text) {
        let (offered, achieved) = (number(&window, "offered_per_s"), number(&window, "achieved_per_s"));
        assert!(achieved <= offered, "{window}");
        assert!((number(&window, "throughput_bytes_per_s") / 4096.0 - achieved).abs() < 1e-6, "{window}");
    }
}

fn compared(base: &Path, other: &Path) -> (String, Value) {
    let done = run(&["compare", "--json", name(base), name(other)]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let first = text(&run(&["compare", name(base), name(other)]).stdout).lines().next().unwrap().to_string();
    (first, serde_json::from_slice(&done.stdout).unwrap())
}

/// Regression test: a store that failed 40% of its gets was 1.31x faster, with exit code 0, and more errors were
/// "slower".
#[test]
fn failures_come_before_a_verdict_and_exceed_every_bound() {
    let out = scratch("joints-failures");
    let sound = made(&out, "sound", |_| {});
    let failing = made(&out, "failing", |m| (m.failed, m.stores[0].1) = (80, 0.76));
    let (first, document) = compared(&sound, &failing);
    let said = "failing failed 40% of its get operations (sound: 0%); for the others, failing was 1.3";
    assert!(first.starts_with(said), "{first}");
    let rows = document["comparisons"][0]["rows"].as_array().unwrap();
    let errors = rows.iter().find(|row| row["metric"] == "errors").unwrap();
    assert_eq!(errors["verdict"], "more failures");
    let (sound_name, failing_name) = (name(&sound), name(&failing));
    for bound in ["get.p50 > +5%", "rate < -90%"] {
        let judged = ["compare", sound_name, failing_name, "--fail-if", bound];
        fails(&judged, 1, &["1 of 1 bounds exceeded"]);
        assert!(text(&run(&judged).stdout).contains("more operations failed"));
    }
    let all = made(&out, "nothing", |m| m.failed = 200);
    let (first, document) = compared(&sound, &all);
    assert_eq!(first, "nothing failed all of its get operations (sound: 0%)");
    for row in document["comparisons"][0]["rows"].as_array().unwrap() {
        assert!(row["metric"] == "errors" || row["duration_needed_s"].is_null(), "{row}");
    }
    let both = made(&out, "both", |m| m.failed = 82);
    let (first, _) = compared(&failing, &both);
    assert!(
        first.starts_with("failing failed 40% of its get operations (both: 41%); for the others, "),
        "{first}"
    );
    let few = made(&out, "few", |m| m.stores[0].1 = 0.76);
    assert!(compared(&sound, &few).0.starts_with("few was 1.3"), "no failures, no remark");
}

/// Regression test: the puts of the preparation and the gets of the benchmark had one window, so that both rates were
/// too low, and `cost --from-run` billed the preparation.
#[test]
fn a_log_of_warp_has_a_window_for_its_preparation_and_one_for_its_benchmark() {
    let out = scratch("joints-warp");
    let mut log =
        "idx\tthread\top\tclient_id\tn_objects\tbytes\tendpoint\tfile\terror\tstart\tfirst_byte\tend\tduration_ns\n"
            .to_string();
    let mut row = |op: &str, start_ms: u64, end_ms: u64| {
        let at = |ms: u64| format!("2026-11-21T10:00:{:02}.{:03}Z", ms / 1000, ms % 1000);
        let (start, end) = (at(start_ms), at(end_ms));
        log.push_str(&format!(
            "0\t1\t{op}\tc\t1\t1000000\thttp://h:9000\tf\t\t{start}\t\t{end}\t{}\n",
            (end_ms - start_ms) * 1_000_000
        ));
    };
    (0..100).for_each(|i| row("PUT", i * 25, i * 25 + 25));
    (0..4000).for_each(|i| row("GET", 5000 + i / 4 * 20, 5020 + i / 4 * 20));
    let file = out.join("warp.csv");
    std::fs::write(&file, &log).unwrap();
    let done = run(&["import", "warp", name(&file), "--json", "--out", name(&out)]);
    assert!(
        text(&done.stderr).contains("the first 100 puts, in 2.5 s (40.0/s, 40.00 MB/s)"),
        "{}",
        text(&done.stderr)
    );
    let result: Value = serde_json::from_slice(&done.stdout).unwrap();
    let windows = result["windows"].as_array().unwrap();
    let figures = |window: &Value| {
        ["window_s", "achieved_per_s", "throughput_bytes_per_s"].map(|field| number(window, field).round())
    };
    assert_eq!((&windows[0]["role"], figures(&windows[0])), (&"prepare".into(), [3.0, 40.0, 4e7]));
    assert_eq!((&windows[1]["role"], figures(&windows[1])), (&"measure".into(), [20.0, 200.0, 2e8]));
    let path = out.join(result["run"]["id"].as_str().unwrap());
    let costs = run(&["cost", "--from-run", name(&path), "--provider", "aws-s3", "--json"]);
    let bill: Value = serde_json::from_slice(&costs.stdout).unwrap();
    assert!(!bill.to_string().contains("PUT"), "{bill}");
}
