//! Declared and detected caches through the binary.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{Server, create_through_faults, plimsoll, scratch, text};
use plimsoll_judge::run_dir::json;
use plimsoll_judge::summary::result::{RunResult, Window};
use plimsoll_report::text::cache::sentence;
use plimsoll_workload::schedule::Role;

/// Runs `plimsoll` with a directory for its runs. Returns the exit code and what it printed.
fn output(out: &Path, arguments: &[&str]) -> (i32, String) {
    let done = plimsoll(&[arguments, &["--out", out.to_str().unwrap()]].concat()).output().unwrap();
    (done.status.code().unwrap_or(-1), text(&done.stdout) + &text(&done.stderr))
}

/// Returns the only run below a directory.
fn only_run(out: &Path) -> PathBuf {
    fs::read_dir(out).unwrap().next().unwrap().unwrap().path()
}

fn result_of(run: &Path) -> RunResult {
    json::read(run).unwrap()
}

fn url(server: &Server) -> String {
    create_through_faults(server.store("").as_ref());
    format!("s3://bucket/prefix?endpoint={}", server.endpoint())
}

#[test]
fn a_sweep_of_working_sets_shows_the_cache_of_a_server() {
    let server = Server::start("cache=2MiB/20ms", false);
    let out = scratch("caches-sweep");
    let sweep = "working_set=512KiB,1MiB,2MiB,4MiB,8MiB";
    let store = url(&server);
    let words = ["run", "get", "--store", &store, "--size", "16KiB", "--sweep", sweep, "--operations", "300"];
    let (code, shown) = output(&out, &[&words[..], &["--concurrency", "4"]].concat());
    assert_eq!(code, 0, "{shown}");
    let result: RunResult = result_of(&only_run(&out));
    let [found] = &result.caches[..] else { panic!("{:?}", result.caches) };
    assert_eq!(found.points.len(), 5);
    assert!(found.points.iter().all(|point| point.reads == 300), "{found:?}");
    // The conclusion depends on the times; its sentence is the answer of the run.
    assert!(shown.contains(&sentence(found)), "{shown}");
    let verified = plimsoll(&["verify", only_run(&out).to_str().unwrap()]).output().unwrap();
    assert!(verified.status.success(), "{}", text(&verified.stdout));
    fs::remove_dir_all(out).unwrap();
}

#[test]
fn a_cold_run_reads_no_object_twice_and_drops_caches_between_writes_and_reads() {
    let server = Server::start("", false);
    let out = scratch("caches-cold");
    let (store, mark) = (url(&server), out.join("dropped"));
    let command = format!("touch {}", mark.display());
    let words = ["run", "get", "--store", &store, "--objects", "50", "--cache", "cold", "--warmup", "50ms"];
    let (code, shown) = output(&out.join("runs"), &[&words[..], &["--drop-caches", &command]].concat());
    assert!(code == 0 && mark.exists() && shown.contains("drop caches: touch "), "{shown}");
    let result: RunResult = result_of(&only_run(&out.join("runs")));
    let measured = result.windows.iter().filter(|window| window.role == Role::Measure);
    assert_eq!(measured.map(|window| window.operations).sum::<u64>(), 50);
    assert!(!shown.contains("those of a cache"), "{shown}");
    let repeated = output(&out.join("repeated"), &[&words[..], &["--repeats", "3"]].concat());
    assert_eq!(repeated.0, 0, "{}", repeated.1);
    let run = only_run(&out.join("repeated"));
    let measured = |window: &&Window| window.role == Role::Measure;
    let counts = result_of(&run).windows.iter().filter(measured).map(|w| w.operations).collect::<Vec<_>>();
    assert_eq!(counts, [16, 16, 16], "each repeat reads other objects");
    let verified = plimsoll(&["verify", run.to_str().unwrap()]).output().unwrap();
    assert!(verified.status.success(), "{}", text(&verified.stdout));
    let (code, shown) = output(&out.join("failed"), &[&words[..], &["--drop-caches", "exit 7"]].concat());
    assert!(code == 2 && shown.contains("--drop-caches 'exit 7'"), "{shown}");
    let result: RunResult = result_of(&only_run(&out.join("failed")));
    assert!(result.run.degraded.unwrap().contains("nothing was read"));
    assert!(result.windows.iter().all(|window| window.role == Role::Prepare));
    fs::remove_dir_all(out).unwrap();
}

#[test]
fn reads_that_fit_into_the_memory_of_a_local_server_are_named_unless_declared() {
    let server = Server::start("", false);
    let out = scratch("caches-note");
    let store = url(&server);
    let words = ["run", "get", "--store", &store, "--objects", "20", "--operations", "40", "--warmup", "0"];
    let (code, shown) = output(&out.join("plain"), &words);
    assert!(
        code == 0 && shown.contains("your figures are those of a cache: the objects that 'get' reads"),
        "{shown}"
    );
    let result: RunResult = result_of(&only_run(&out.join("plain")));
    assert!(result.run.notes.iter().any(|note| note.contains("those of a cache")), "{:?}", result.run.notes);
    let (code, shown) = output(&out.join("warm"), &[&words[..8], &["--cache", "warm"]].concat());
    assert!(code == 0 && !shown.contains("those of a cache"), "{shown}");
    let put = ["run", "put", "--store", &store, "--objects", "20", "--operations", "40", "--warmup", "0"];
    let (code, shown) = output(&out.join("put"), &put);
    assert!(code == 0 && !shown.contains("those of a cache"), "{shown}");
    fs::remove_dir_all(out).unwrap();
}
