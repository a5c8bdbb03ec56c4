//! Replays logs of known requests, and fits experiments to them.

use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, UInt64Type};
use plimsoll_base::rng::Stream;
use plimsoll_judge::run_dir::read::batches;
use plimsoll_judge::summary::result::{RunResult, Window};

use crate::support::ask::{fails, good, write};
use crate::support::{Server, plimsoll, scratch, text};

/// A log with 300 requests in 1.5 s: half of them are reads of 20 existing objects, the others write ten objects and
/// read, list and delete them.
fn log(dir: &Path) -> PathBuf {
    let mut lines = vec!["time,operation,key,size,bytes,status".to_string()];
    for i in 0..300u64 {
        let ns = i * 5_000_000 + i % 7 * 100_000;
        let at = format!("{}.{:09}", 1_770_336_000 + ns / 1_000_000_000, ns % 1_000_000_000);
        let (own, existing) = (format!("customer/new {}", i % 10), format!("customer/old {}", i % 20));
        let old_size = 1_000 + i % 20;
        lines.push(match i {
            _ if i % 2 == 0 => format!("{at},GET,{existing},{old_size},{old_size},200"),
            _ if i < 100 => format!("{at},PUT,{own},{},,200", 500 + i),
            _ if i < 150 => format!("{at},GET,{existing},{old_size},100,206"),
            _ if i < 200 => format!("{at},HEAD,{own},,,200"),
            _ if i < 250 => format!("{at},GET,missing,,,404"),
            _ if i < 280 => format!("{at},list,,,,200"),
            _ => format!("{at},DELETE,{own},,,204"),
        });
    }
    write(dir, "requests.csv", &format!("{}\n", lines.join("\n")))
}

fn server(dir: &Path) -> (Server, String) {
    let server = Server::start("", false);
    server.ready("");
    let store = format!("s3://bucket/replayed?endpoint={}", server.endpoint());
    assert!(dir.is_dir());
    (server, store)
}

#[test]
fn a_replay_sends_every_request_at_its_recorded_time() {
    let dir = scratch("replay");
    let file = log(&dir);
    let (_server, store) = server(&dir);
    let out = dir.join("runs");
    let run = plimsoll(&[
        "replay",
        file.to_str().unwrap(),
        "--store",
        &store,
        "--record",
        "operations",
        "--json",
        "--out",
    ])
    .arg(&out)
    .output()
    .unwrap();
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    assert!(
        text(&run.stderr).contains("25 requests that failed when they were logged are left out"),
        "{}",
        text(&run.stderr)
    );
    let result: RunResult = serde_json::from_slice(&run.stdout).unwrap();
    let window = |name: &str| {
        result.windows.iter().find(|w| w.phase == "replay" && w.operation.name() == name).unwrap()
    };
    let counts = ["get", "put", "get_range", "head", "list", "delete"].map(|name| window(name).operations);
    assert_eq!(counts, [150, 50, 25, 25, 15, 10]);
    assert_eq!(window("get").bytes, (0..300u64).step_by(2).map(|i| 1_000 + i % 20).sum::<u64>());
    assert_eq!(
        (window("put").bytes, window("get_range").bytes),
        ((1..100).step_by(2).map(|i| 500 + i).sum(), 2_500)
    );
    let prepared = result.windows.iter().find(|w| w.phase == "objects").unwrap();
    assert_eq!(prepared.operations, 20);
    // The intended times differ from each other as the recorded ones do, to the nanosecond.
    let directory = std::fs::read_dir(&out).unwrap().flatten().next().unwrap().path();
    let mut intended = Vec::new();
    for batch in batches(&directory.join("operations.arrows")).unwrap() {
        let phases = batch.column_by_name("phase").unwrap().as_dictionary::<Int32Type>().clone();
        let names = phases.values().as_string::<i32>().clone();
        let times = batch.column_by_name("intended_ns").unwrap().as_primitive::<UInt64Type>().clone();
        let replayed =
            (0..batch.num_rows()).filter(|row| names.value(phases.keys().value(*row) as usize) == "replay");
        intended.extend(replayed.map(|row| times.value(row)));
    }
    intended.sort_unstable();
    let recorded = (0..300u64).filter(|i| i % 2 == 0 || !(200..250).contains(i));
    let recorded: Vec<u64> = recorded.map(|i| i * 5_000_000 + i % 7 * 100_000).collect();
    let offsets: Vec<u64> = intended.iter().map(|at| at - intended[0]).collect();
    assert_eq!(offsets, recorded);
    // Neither the run nor the store has a name of the log.
    for entry in std::fs::read_dir(&directory).unwrap().flatten() {
        let bytes = std::fs::read(entry.path()).unwrap();
        assert!(!bytes.windows(8).any(|piece| piece == b"customer"), "{}", entry.path().display());
    }
}

#[test]
fn a_run_directory_of_a_replay_can_be_repeated_at_another_speed() {
    let dir = scratch("replay-again");
    let file = log(&dir);
    let (_server, store) = server(&dir);
    let out = dir.join("runs");
    let base = [
        "replay",
        file.to_str().unwrap(),
        "--store",
        &store,
        "--speed",
        "4x",
        "--operations",
        "100",
        "--out",
    ];
    let run = plimsoll(&base).arg(&out).output().unwrap();
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    let directory = std::fs::read_dir(&out).unwrap().flatten().next().unwrap().path();
    let again = good(&["run", directory.to_str().unwrap(), "--json", "--out", out.to_str().unwrap()]);
    let result: RunResult = serde_json::from_str(&again).unwrap();
    let operations: u64 = result.windows.iter().filter(|w| w.phase == "replay").map(|w| w.operations).sum();
    assert_eq!(operations, 100);
}

#[test]
fn a_replay_in_a_closed_loop_sends_the_requests_one_after_the_other() {
    let dir = scratch("replay-closed");
    let file = log(&dir);
    let (_server, store) = server(&dir);
    let out = dir.join("runs");
    let base = ["replay", file.to_str().unwrap(), "--store", &store, "--concurrency", "1", "--json", "--out"];
    let replayed = |json: &str| {
        let result: RunResult = serde_json::from_str(json).unwrap();
        let own: Vec<Window> = result.windows.into_iter().filter(|w| w.phase == "replay").collect();
        assert!(own.iter().all(|w| w.errors.is_empty() && w.offered_per_s.is_none()), "{own:?}");
        own.iter().map(|w| w.operations).sum::<u64>()
    };
    let run = plimsoll(&base).arg(&out).output().unwrap();
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    assert_eq!(replayed(&text(&run.stdout)), 275, "each request once, because some of them write");
    let directory = std::fs::read_dir(&out).unwrap().flatten().next().unwrap().path();
    let again = good(&["run", directory.to_str().unwrap(), "--json", "--out", out.to_str().unwrap()]);
    assert_eq!(replayed(&again), 275);
    // Requests that only read begin again after the last one.
    let reads = write(&dir, "reads.csv", "time,operation,key,size\n1,GET,a,9\n2,HEAD,b,9\n3,GET,b,9\n");
    let file = format!(
        "name = 'x'\n[[phase]]\nname = 'o'\nrole = 'prepare'\ntrace = {{ files = ['{0}'] }}\n[[phase]]\nname = 'replay'\n\
         trace = {{ files = ['{0}'] }}\nobjects = {{ from = 'o' }}\nconcurrency = 2\nstop_after = 10\n",
        reads.display()
    );
    let file = write(&dir, "reads.toml", &file);
    let run = ["run", file.to_str().unwrap(), "--store", &store, "--json", "--out", out.to_str().unwrap()];
    assert_eq!(replayed(&good(&run)), 10);
}

#[test]
fn a_fitted_experiment_resembles_the_log() {
    let dir = scratch("fit");
    let file = log(&dir);
    let (output, page) = (dir.join("fitted.toml"), dir.join("fit.html"));
    let printed = good(&[
        "fit",
        file.to_str().unwrap(),
        "--output",
        output.to_str().unwrap(),
        "--page",
        page.to_str().unwrap(),
    ]);
    assert!(printed.contains("No difference between the experiment and the trace"), "{printed}");
    let plan = good(&["run", output.to_str().unwrap(), "--dry-run"]);
    assert!(plan.contains("get_range") && plan.contains("delete"), "{plan}");
    assert!(std::fs::read_to_string(&page).unwrap().contains("reads per object"));
}

/// A log of 6,000 reads in 60 s: 100 bursts of 60 reads within about 0.15 s, at irregular times. Small objects are read
/// most often. With `in_a_row`, all reads of an object follow each other.
fn bursts(dir: &Path, in_a_row: bool) -> PathBuf {
    let draws = Stream::new(3, "bursts");
    let mut starts: Vec<f64> = (0..100).map(|i| 59.5 * draws.unit(i)).collect();
    starts.sort_by(f64::total_cmp);
    let mut times: Vec<f64> =
        (0..6_000).map(|i| starts[(i / 60) as usize] + 0.15 * draws.unit(1_000 + i)).collect();
    times.sort_by(f64::total_cmp);
    let object = |i: u64| if in_a_row { i / 20 } else { (300.0 * draws.unit(10_000 + i).powi(3)) as u64 };
    let line = |(i, at): (u64, &f64)| {
        let (object, at) = (object(i), (at * 1e9) as u64);
        let (s, ns, size) = (1_770_336_000 + at / 1_000_000_000, at % 1_000_000_000, 1_000 + 100 * object);
        format!("{s}.{ns:09},GET,key {object},{size},{size},200")
    };
    let lines: Vec<String> = (0..).zip(&times).map(line).collect();
    write(dir, "bursts.csv", &format!("time,operation,key,size,bytes,status\n{}\n", lines.join("\n")))
}

/// Regression test: an experiment for a trace with bursts had independent gaps, and was called equal to the trace.
#[test]
fn a_fitted_experiment_has_the_bursts_of_the_log_and_its_small_objects_are_popular() {
    let dir = scratch("fit-bursts");
    let output = dir.join("fitted.toml");
    let fit = |file: PathBuf| good(&["fit", file.to_str().unwrap(), "--output", output.to_str().unwrap()]);
    let printed = fit(bursts(&dir, false));
    let headline = printed.lines().nth(1).unwrap();
    assert!(headline.starts_with("The experiment differs") && !headline.contains("bursts"), "{printed}");
    let experiment = std::fs::read_to_string(&output).unwrap();
    assert!(experiment.contains("pace") && experiment.contains("trend = 0.8"), "{experiment}");
    let figure = |name: &str| {
        let line = printed.lines().find(|line| line.contains(name)).unwrap();
        let mut values = line.split_whitespace().rev().map(|v| v.parse::<f64>().unwrap());
        let (model, trace) = (values.next().unwrap(), values.next().unwrap());
        (trace, model)
    };
    for name in ["operations in 0.1 s", "operations in 1 s"] {
        let (trace, model) = figure(name);
        assert!(trace > 20.0 && (model / trace - 1.0).abs() < 0.25, "{name}: {trace} and {model}");
    }
    let (trace, model) = figure("rank correlation of size");
    assert!(trace < -0.7 && (trace - model).abs() < 0.05, "{trace} and {model}");
}

/// Regression test: what a fitted experiment lacks was only in its notes.
#[test]
fn the_headline_names_what_a_fitted_experiment_lacks() {
    let dir = scratch("fit-lacks");
    let (file, output) = (bursts(&dir, true), dir.join("fitted.toml"));
    let printed = good(&["fit", file.to_str().unwrap(), "--output", output.to_str().unwrap()]);
    let headline = printed.lines().nth(1).unwrap();
    assert!(headline.contains("how soon an object is read again"), "{printed}");
}

#[test]
fn unusable_logs_and_options_are_rejected() {
    let dir = scratch("replay-wrong");
    let log = log(&dir);
    let log = log.to_str().unwrap();
    let empty = write(&dir, "empty.csv", "time,operation,key\n");
    let cut = write(&dir, "cut.csv", "time,operation,key\n1770336000,GET,a\nnoon,GET,b\n");
    for (arguments, expected) in [
        (vec![empty.to_str().unwrap()], "contains no operation"),
        (vec![cut.to_str().unwrap()], "cut.csv:3: time 'noon'"),
        (vec!["nothing.csv"], "No such file"),
        (vec![log, "--speed", "0"], "--speed 0: use a factor above 0"),
        (vec![log, "--format", "s3"], "requests.csv:1:"),
        (vec![log, "--columns", "key"], "--columns key: write COLUMN=NAME"),
        (vec![log, "--columns", "key=path"], "the header has no column path"),
        (vec![log], "--store is missing"),
    ] {
        let arguments: Vec<&str> = ["replay"].into_iter().chain(arguments).collect();
        fails(&arguments, 2, &[expected]);
    }
    let text =
        format!("name = 'x'\nrepeats = 2\n[[phase]]\nname = 'replay'\ntrace = {{ files = ['{log}'] }}\n");
    let file = write(&dir, "repeats.toml", &text);
    fails(&["run", file.to_str().unwrap(), "--dry-run"], 2, &["cannot be repeated; remove repeats"]);
    let text =
        text.replace("repeats = 2\n", "").replace("name = 'replay'\n", "name = 'replay'\nrate = '5/s'\n");
    let file = write(&dir, "rate.toml", &text);
    fails(&["run", file.to_str().unwrap(), "--dry-run"], 2, &["the trace of the phase determines rate"]);
}

#[test]
fn recorded_operations_are_replayed() {
    let dir = scratch("replay-own");
    let (_server, store) = server(&dir);
    let out = dir.join("runs");
    let common = ["--store", &store, "--json", "--out", out.to_str().unwrap()];
    let run = |arguments: &[&str]| -> RunResult {
        let run = plimsoll(&[arguments, &common].concat()).output().unwrap();
        assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
        serde_json::from_slice(&run.stdout).unwrap()
    };
    let options =
        ["--rate", "200/s", "--duration", "2s", "--warmup", "0s", "--objects", "30", "--size", "3KiB"];
    let first = run(&[&["run", "mixed", "--record", "operations"], &options[..]].concat());
    let recorded = out.join(&first.run.id);
    let listed =
        good(&["export", "--format", "requests", recorded.to_str().unwrap(), "--out", dir.to_str().unwrap()]);
    let second = run(&["replay", listed.trim()]);
    let sums = |result: &RunResult| -> Vec<(String, u64)> {
        let measured = result.windows.iter().filter(|w| w.role == plimsoll_workload::schedule::Role::Measure);
        let counted = measured.map(|w| {
            // On a busy machine, a put may be answered after the end of its window, which then lacks its bytes.
            if w.operation.name() == "put" {
                assert!(w.bytes > 0 && w.bytes.is_multiple_of(3072), "{}", w.bytes);
            }
            (w.operation.name().to_string(), w.operations)
        });
        let mut sums: Vec<_> = counted.collect();
        sums.sort();
        sums
    };
    assert_eq!(sums(&first), sums(&second));
    fails(
        &["export", "--format", "requests", out.join(&second.run.id).to_str().unwrap()],
        2,
        &["--record operations"],
    );
}
