//! `plimsoll verify`: every change of a run is found, and no run is accused that nobody changed.

use std::fs;
use std::path::{Path, PathBuf};

use plimsoll_audit::verify::verify;
use plimsoll_base::rng::Stream;
use plimsoll_judge::run_dir::sums;

use crate::support::made::Made;
use crate::support::{Server, create_through_faults, data, plimsoll, scratch, text};

/// Returns the exit code of `plimsoll`, and what it printed.
fn output(arguments: &[&str]) -> (i32, String) {
    let done = plimsoll(arguments).output().unwrap();
    (done.status.code().unwrap_or(-1), text(&done.stdout) + &text(&done.stderr))
}

/// Returns the only run below a directory.
fn only_run(out: &Path) -> PathBuf {
    let runs: Vec<PathBuf> = fs::read_dir(out).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(runs.len(), 1, "{runs:?}");
    runs[0].clone()
}

/// Phases with failures, retries, response times with censored operations, blocks, repeats, steps and groups of keys.
const MANY: &str = "name = 'many'\nblock = '200ms'\nrewarm = '50ms'\nrepeats = 2\n\
    [[phase]]\nname = 'objects'\nrole = 'prepare'\noperations = { put = 1 }\n\
    objects = { count = 60, size = { lognormal = { median = '8 KiB', sigma = 1.0, max = '1 MiB' } } }\n\
    [[phase]]\nname = 'mixed'\noperations = { get = 4, head = 2, put = 2, delete = 1, list = 1 }\nretries = 2\n\
    objects = { from = 'objects', naming = { prefixes = 4 } }\nconcurrency = 4\nduration = '800ms'\n\
    [[phase]]\nname = 'open'\noperations = { get = 1 }\nobjects = { from = 'objects' }\nrate = '500/s'\n\
    arrival = 'poisson'\ntimeout = '100ms'\nduration = '500ms'\n\
    [[phase]]\nname = 'steps'\noperations = { get = 1 }\nobjects = { from = 'objects', popularity = 'latest' }\n\
    concurrency = { from = 1, step = 2, to = 5, every = '200ms', stop = 'never' }\n";

/// Changes the seed in all files of a run, writes new checksums, and restores the files.
fn another_seed_is_found(run: &Path) {
    let files = ["experiment.toml", "result.json", sums::NAME].map(|name| run.join(name));
    let before = files.clone().map(|file| fs::read_to_string(file).unwrap());
    let seed = seed_of(&before[1]);
    for (file, text) in files.iter().zip(&before).take(2) {
        let changed = text.replace(&format!("seed = {seed}\n"), "seed = 77\n");
        fs::write(file, changed.replace(&format!("\"seed\": {seed},"), "\"seed\": 77,")).unwrap();
    }
    sums::write(run).unwrap();
    let problems = verify(run, None).unwrap().problems;
    let of_schedule = problems.iter().filter(|problem| problem.contains("the schedule of seed 77 has"));
    assert!(of_schedule.count() > 0, "{problems:?}");
    files.iter().zip(&before).for_each(|(file, text)| fs::write(file, text).unwrap());
    assert_eq!(verify(run, None).unwrap().problems, [""; 0]);
}

/// Regression test: a shorter window doubled the rate, another role hid a repeat, and an experiment that is none left
/// the schedule out.
fn forged_windows_are_found(run: &Path) {
    let files = ["experiment.toml", "result.json", sums::NAME].map(|name| run.join(name));
    let before = files.clone().map(|file| fs::read_to_string(file).unwrap());
    let result: serde_json::Value = serde_json::from_str(&before[1]).unwrap();
    let measured = |window: &serde_json::Value| window["role"] == "measure" && window["loop"] == "closed";
    let at = result["windows"].as_array().unwrap().iter().position(measured).unwrap();
    let problems = |file: usize, text: &str| {
        fs::write(&files[file], text).unwrap();
        sums::write(run).unwrap();
        let found = verify(run, None).map_or_else(|error| vec![error.to_string()], |found| found.problems);
        fs::write(&files[file], &before[file]).unwrap();
        found
    };
    let changes: [(&str, serde_json::Value, &str); 3] = [
        ("window_s", (result["windows"][at]["window_s"].as_f64().unwrap() / 2.0).into(), "in the experiment"),
        ("role", "warmup".into(), "its role is warmup, and measure in the experiment"),
        ("concurrency", 64.into(), "64 operations are in flight"),
    ];
    for (field, value, named) in changes {
        let mut changed = result.clone();
        changed["windows"][at][field] = value;
        let found = problems(1, &changed.to_string());
        assert!(found.iter().any(|problem| problem.contains(named)), "{field}: {found:?}");
    }
    for text in ["", "junk = 1\n"] {
        assert!(problems(0, text).iter().any(|problem| problem.contains("experiment.toml:")), "{text}");
    }
    let log = run.join("operations.arrows");
    let bytes = fs::read(&log).unwrap();
    fs::remove_file(&log).unwrap();
    sums::write(run).unwrap();
    let found = verify(run, None).unwrap().problems;
    assert!(found.iter().any(|problem| problem.contains("there is no operations.arrows")), "{found:?}");
    fs::write(&log, bytes).unwrap();
    fs::write(&files[2], &before[2]).unwrap();
    assert_eq!(verify(run, None).unwrap().problems, [""; 0]);
}

fn each_changed_bit_of_a_report_is_found(run: &Path) {
    let file = run.join("report.html");
    let bytes = fs::read(&file).unwrap();
    let draws = Stream::new(41, "report");
    for number in 0..12 {
        let bit = draws.below(number, bytes.len() as u64 * 8) as usize;
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        fs::write(&file, &changed).unwrap();
        let (code, shown) = output(&["verify", run.to_str().unwrap()]);
        assert!(code == 1 && shown.contains("NOT verified: 1 problem\n  report.html"), "bit {bit}: {shown}");
    }
    let footer =
        String::from_utf8(bytes.clone()).unwrap().replace("<footer>Plimsoll 0", "<footer>Plimsoll 8");
    fs::write(&file, footer).unwrap();
    assert_eq!(output(&["verify", run.to_str().unwrap()]).0, 1);
    fs::write(&file, bytes).unwrap();
    fs::write(run.join("notes.txt"), "").unwrap();
    let (code, shown) = output(&["verify", run.to_str().unwrap()]);
    assert!(code == 0 && shown.contains("not covered by SHA256SUMS: notes.txt"), "{shown}");
    fs::remove_file(run.join("notes.txt")).unwrap();
}

/// Returns the seed in the text of a result.
fn seed_of(result: &str) -> u64 {
    serde_json::from_str::<serde_json::Value>(result).unwrap()["run"]["seed"].as_u64().unwrap()
}

#[test]
fn runs_that_nobody_changed_are_verified() {
    let server = Server::start("error=0.02,latency=lognormal(1ms;1.2),stall=250ms/700ms,seed=3", false);
    create_through_faults(server.store("").as_ref());
    let out = scratch("verify-runs");
    let file = out.join("experiment.toml");
    fs::write(&file, MANY).unwrap();
    let url = format!("s3://bucket/some/prefix?endpoint={}", server.endpoint());
    let objectives = ["--slo", "get.p99 < 10s", "--slo", "errors < 90%"];
    let base = ["run", file.to_str().unwrap(), "--store", &url, "--json", "--record", "operations", "--out"];
    let runs = out.join("runs");
    let (code, shown) = output(&[&base[..], &[runs.to_str().unwrap()], &objectives].concat());
    assert!(code == 0 || code == 1, "{shown}");
    let run = only_run(&runs);
    let found = verify(&run, None).unwrap();
    assert_eq!(found.problems, [""; 0]);
    assert!(found.figures > 500, "{found:?}");
    assert!(found.schedule.skipped.is_none() && found.schedule.operations > 300, "{:?}", found.schedule);
    let (code, shown) = output(&["verify", run.to_str().unwrap()]);
    assert!(code == 0 && shown.contains(": verified: ") && shown.contains(&found.digest), "{shown}");
    // Whatever is done with a run that does not change its figures.
    output(&["clean", run.to_str().unwrap()]);
    let (code, shown) = output(&["verify", run.to_str().unwrap()]);
    assert!(code == 0 && shown.contains("report.html: the report of this run, byte for byte"), "{shown}");
    output(&["report", run.to_str().unwrap(), "--primary", "get.p99"]);
    let (code, shown) = output(&["verify", run.to_str().unwrap(), "--json"]);
    let found: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert!(code == 0 && found["verified"] == true && found["report"] == "same", "{shown}");
    another_seed_is_found(&run);
    forged_windows_are_found(&run);
    each_changed_bit_of_a_report_is_found(&run);
    fs::write(run.join("experiment.toml"), "seed = 7\n").unwrap();
    let (code, shown) = output(&["verify", run.to_str().unwrap()]);
    assert!(
        code == 1 && shown.contains(": NOT verified: ") && shown.contains("experiment.toml does not match"),
        "{shown}"
    );
    assert!(!shown.contains(": verified"), "{shown}");
    assert_eq!(output(&["verify", out.join("none").to_str().unwrap()]).0, 2);
    fs::remove_dir_all(out).unwrap();
}

/// Returns a small run that is verified.
fn small(out: &Path, seconds: u64) -> PathBuf {
    let made = Made { seconds, per_s: 40, failed: 1, ..Made::default() };
    let run = made.write(out).unwrap();
    let found = verify(&run, None).unwrap();
    assert_eq!(found.problems, [""; 0]);
    assert!(found.figures > 30 && found.files == 4, "{found:?}");
    run
}

#[test]
fn each_of_a_thousand_changed_bits_is_found() {
    let out = scratch("verify-bits");
    let run = small(&out, 6);
    let names: Vec<&str> = sums::FILES.into_iter().chain([sums::NAME]).collect();
    let whole: Vec<(&str, Vec<u8>)> =
        names.into_iter().filter_map(|name| Some((name, fs::read(run.join(name)).ok()?))).collect();
    assert_eq!(whole.len(), 5);
    let draws = Stream::new(40, "verify");
    for number in 0..1000 {
        let (name, bytes) = &whole[draws.below(2 * number, whole.len() as u64) as usize];
        let bit = draws.below(2 * number + 1, bytes.len() as u64 * 8) as usize;
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        fs::write(run.join(name), &changed).unwrap();
        let found = verify(&run, None);
        assert!(found.is_err() || !found.unwrap().problems.is_empty(), "bit {bit} of {name}");
        fs::write(run.join(name), bytes).unwrap();
    }
    assert_eq!(verify(&run, None).unwrap().problems, [""; 0]);
    fs::remove_dir_all(out).unwrap();
}

#[test]
fn a_public_key_needs_a_signature() {
    let out = scratch("verify-signed");
    let run = small(&out, 6);
    let shown_run = run.to_str().unwrap();
    let key = "RWQHGKdU/YIZYaDU6fVOj3ATT72nxbCkfD/ZGKyYvuDoPrcIAvHO2HN6";
    let (code, shown) = output(&["verify", shown_run, "--public-key", key]);
    assert!(code == 1 && shown.contains("there is no SHA256SUMS.minisig"), "{shown}");
    let (code, shown) = output(&["verify", shown_run, "--public-key", "no-such-key"]);
    assert!(
        code == 2 && shown.contains("--public-key no-such-key: neither a minisign public key"),
        "{shown}"
    );
    // A signature of another list.
    let signature = "untrusted comment: signature from minisign secret key\n\
        RUQHGKdU/YIZYRZgR12z225RCUcWo/7fpG77EPVVRRf6ejJpdAesLRatiuclo7xFljdXxZQ6Ug8s+5mZq6+348DYnliGui/QCAU=\n\
        trusted comment: run 7 of plimsoll\n\
        IyH9gEBg3nsl0pLICQt9u5Swf2t1amXt5JyyaRhIQSDKIefd+F+QR9p4k/Z2F9W3pmQpKOt3qXn+qmrrqdfdCQ==\n";
    fs::write(run.join("SHA256SUMS.minisig"), signature).unwrap();
    let (code, shown) = output(&["verify", shown_run, "--public-key", key]);
    assert!(code == 1 && shown.contains("does not match SHA256SUMS and the public key"), "{shown}");
    let (code, shown) = output(&["verify", shown_run]);
    assert!(code == 0 && shown.contains("signature: not checked: it is of key 611982FD54A71807"), "{shown}");
    fs::remove_dir_all(out).unwrap();
}

#[test]
fn a_changed_figure_is_found_although_the_checksums_are_new() {
    let out = scratch("verify-figures");
    let run = small(&out, 60);
    let file = run.join("result.json");
    let text = fs::read_to_string(&file).unwrap();
    let result: serde_json::Value = serde_json::from_str(&text).unwrap();
    let changes = [
        ("/windows/0/operations", "contains 2401 operations"),
        ("/windows/0/achieved_per_s", "windows[0].achieved_per_s"),
        ("/windows/0/bytes", "windows[0].bytes"),
        ("/windows/0/service_ms/p50", "p50 of get get is"),
        ("/windows/0/service_ms/mean", "the mean of service"),
        ("/windows/0/service_ms/max", "the maximum of service"),
        ("/windows/0/first_byte_ms/p90", "windows[0].first_byte_ms.p90"),
        ("/windows/0/errors/503 SlowDown", "windows[0].errors.503 SlowDown"),
        ("/confidence/0/value", "confidence[0].value"),
        ("/confidence/0/high", "confidence[0].high"),
        ("/run/seed", "the seed"),
    ];
    for (pointer, named) in changes {
        let mut changed = result.clone();
        let value = changed.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}"));
        *value = match value.as_u64() {
            Some(n) => (n + 1).into(),
            None => (value.as_f64().unwrap() * 1.5).into(),
        };
        fs::write(&file, serde_json::to_string_pretty(&changed).unwrap()).unwrap();
        sums::write(&run).unwrap();
        let found = verify(&run, None);
        let problems = found.map_or_else(|e| vec![e.to_string()], |found| found.problems);
        assert!(problems.iter().any(|problem| problem.contains(named)), "{pointer}: {problems:?}");
        assert!(!problems.iter().any(|problem| problem.contains("SHA256SUMS")), "{problems:?}");
    }
    let without = |names: &[&str]| {
        let mut changed = result.clone();
        for name in names {
            changed[name] = serde_json::json!([]);
        }
        fs::write(&file, changed.to_string()).unwrap();
        sums::write(&run).unwrap();
        verify(&run, None).unwrap().problems
    };
    assert_eq!(without(&[]), [""; 0]);
    assert!(!without(&["confidence"]).is_empty() && !without(&["windows", "confidence"]).is_empty());
    fs::remove_dir_all(out).unwrap();
}

#[test]
fn merged_and_imported_runs_are_verified() {
    let out = scratch("verify-merged");
    let shards: Vec<PathBuf> = (1..=2)
        .map(|number| {
            let (id, shard) = (format!("run.{number}of2"), Some((number, 2)));
            Made { id, shard, seconds: 6, failed: number, ..Made::default() }
                .write(&out.join("shards"))
                .unwrap()
        })
        .collect();
    let shards: Vec<&str> = shards.iter().map(|path| path.to_str().unwrap()).collect();
    let merged = out.join("merged");
    let (code, shown) = output(&["merge", shards[0], shards[1], "--out", merged.to_str().unwrap()]);
    assert_eq!(code, 0, "{shown}");
    assert_eq!(verify(&only_run(&merged), None).unwrap().problems, [""; 0]);
    let (log, imported) = (data("r2-bench/r2-c5n-9xlarge.parquet"), out.join("imported"));
    let words = ["import", "r2-bench", log.to_str().unwrap(), "--out", imported.to_str().unwrap()];
    let (code, shown) = output(&words);
    assert_eq!(code, 0, "{shown}");
    let found = verify(&only_run(&imported), None).unwrap();
    assert!(found.problems.is_empty() && found.files == 5, "{found:?}");
    fs::remove_dir_all(out).unwrap();
}
