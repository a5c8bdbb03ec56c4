//! YCSB through the binary: load, run and clean with every core workload, output in both YCSB formats, invalid input.

use std::path::Path;
use std::process::Output;

use crate::support::{ACCESS, SECRET, Server, block_on, plimsoll, scratch, text};
use plimsoll_engine::store::{Ignore, Request, Store};
use plimsoll_judge::summary::result::RunResult;

fn ycsb(server: &Server, command: &str, arguments: &[&str], out: &Path) -> Output {
    let store = format!("s3://bucket/some/prefix?endpoint={}", server.endpoint());
    let mut process = plimsoll(&["ycsb", command]);
    process.args(arguments).args(["--store", &store]);
    if command != "clean" {
        process.arg("--out").arg(out);
    }
    process.output().unwrap()
}

fn count(store: &dyn Store, prefix: &str) -> usize {
    block_on(async {
        let list = Request::List { prefix, start_after: "", token: "", max_keys: 1000 };
        store.connection(0).execute(list, &mut Ignore).await.unwrap().listing.unwrap().objects.len()
    })
}

fn good(run: &Output) -> String {
    assert_eq!(run.status.code(), Some(0), "{}\n{}", text(&run.stdout), text(&run.stderr));
    text(&run.stdout)
}

#[test]
fn every_core_workload_loads_runs_and_cleans() {
    let server = Server::start("", false);
    let store = server.ready("");
    let out = scratch("ycsb");
    for (encoding, workloads) in [("bytes", "abcdef"), ("go-ycsb", "af")] {
        for workload in workloads.chars() {
            let file = format!("workload{workload}");
            let more = [
                "-p",
                "recordcount=300",
                "-p",
                "operationcount=400",
                "--threads",
                "4",
                "--encoding",
                encoding,
            ];
            let all = [&["-P", &file][..], &more].concat();
            good(&ycsb(&server, "load", &all, &out));
            assert_eq!(count(store.as_ref(), "some/prefix/plimsoll/records-usertable/user"), 300);
            let run = good(&ycsb(&server, "run", &[&all[..], &["--json"]].concat(), &out));
            let result: RunResult = serde_json::from_str(&run).unwrap();
            let operations: u64 = result.windows.iter().map(|w| w.operations).sum();
            assert_eq!(operations, 400, "{file}");
            assert!(
                result.windows.iter().all(|w| w.errors.is_empty()),
                "{file}: {:?}",
                result.windows[0].errors
            );
            let kinds: Vec<&str> = result.windows.iter().map(|w| w.operation.name()).collect();
            let expected: &[&str] = match workload {
                'a' | 'b' => &["get", "update"],
                'c' => &["get"],
                'd' => &["put", "get"],
                'e' => &["put", "scan"],
                _ => &["get", "read_modify_write"],
            };
            assert_eq!(kinds, expected, "{file}");
            if workload == 'e' {
                let scan = result
                    .windows
                    .iter()
                    .find(|w| w.operation == plimsoll_workload::OperationKind::Scan)
                    .unwrap();
                assert!(scan.attempts > 10 * scan.operations && scan.bytes > 10_000 * scan.operations);
            }
            good(&ycsb(&server, "clean", &["-P", &file, "-p", "recordcount=900"], &out));
            assert_eq!(count(store.as_ref(), "some/prefix/"), 0, "{file}");
        }
    }
}

#[test]
fn updates_keep_the_record_size_except_in_go_ycsb_encoding() {
    let server = Server::start("", false);
    let store = server.ready("");
    let out = scratch("sizes");
    let sizes = || {
        block_on(async {
            let list = Request::List {
                prefix: "some/prefix/plimsoll/records-t/",
                start_after: "",
                token: "",
                max_keys: 1000,
            };
            let page = store.connection(0).execute(list, &mut Ignore).await.unwrap().listing.unwrap();
            let mut sizes: Vec<u64> = page.objects.iter().map(|o| o.size).collect();
            sizes.sort_unstable();
            sizes.dedup();
            sizes
        })
    };
    for (encoding, loaded, updated) in [("bytes", 1000, vec![1000]), ("go-ycsb", 1091, vec![110, 1091])] {
        let arguments = [
            "-P",
            "workloada",
            "--table",
            "t",
            "-p",
            "recordcount=50",
            "-p",
            "operationcount=40",
            "--encoding",
            encoding,
        ];
        good(&ycsb(&server, "load", &arguments, &out));
        assert_eq!(sizes(), [loaded], "{encoding}");
        good(&ycsb(&server, "run", &arguments, &out));
        assert_eq!(sizes(), updated, "{encoding}");
    }
}

#[test]
fn results_are_printed_in_both_ycsb_formats() {
    let server = Server::start("", false);
    server.ready("");
    let out = scratch("words");
    let common = ["-P", "workloada", "-p", "recordcount=100", "-p", "operationcount=200", "--threads", "2"];
    let load = good(&ycsb(&server, "load", &[&common[..], &["--format", "go-ycsb"]].concat(), &out));
    assert!(load.contains("\nINSERT - Takes(s): ") && load.contains("Count: 100, OPS: "), "{load}");
    let run = good(&ycsb(
        &server,
        "run",
        &[&common[..], &["--format", "go-ycsb", "--target", "2000"]].concat(),
        &out,
    ));
    for start in ["READ   - Takes(s): ", "UPDATE - Takes(s): ", "TOTAL  - Takes(s): ", "Run finished, takes "]
    {
        assert!(run.lines().any(|l| l.starts_with(start)), "{start}\n{run}");
    }
    let java = good(&ycsb(&server, "run", &[&common[..], &["--format", "ycsb"]].concat(), &out));
    assert!(
        java.contains("[OVERALL], Throughput(ops/sec), ") && java.contains("[UPDATE], Return=OK, "),
        "{java}"
    );
}

#[test]
fn credentials_in_properties_are_used_but_never_stored() {
    let server = Server::start("", false);
    server.ready("");
    let out = scratch("hidden");
    let properties = format!(
        "recordcount=10\ns3.bucket=bucket\ns3.endpoint={}\ns3.access_key={ACCESS}\ns3.secret_key={SECRET}\n",
        server.endpoint()
    );
    let file = out.join("workload");
    std::fs::write(&file, properties).unwrap();
    let runs = out.join("runs");
    let run = plimsoll(&["ycsb", "load", "s3", "-P", file.to_str().unwrap(), "--format", "go-ycsb", "--out"])
        .arg(&runs)
        .args(["-p", &format!("s3.secret_key={SECRET}")])
        .env("AWS_ACCESS_KEY_ID", "wrong")
        .output()
        .unwrap();
    assert!(!good(&run).contains(SECRET));
    for run in std::fs::read_dir(&runs).unwrap().flatten() {
        for file in std::fs::read_dir(run.path()).unwrap().flatten() {
            assert!(!text(&std::fs::read(file.path()).unwrap()).contains(SECRET), "{:?}", file.path());
        }
    }
}

/// Regression: loads of several hosts, each with its own seed and first record, were reported as corrupt.
#[test]
fn split_loads_verify_each_others_records() {
    let server = Server::start("", false);
    server.ready("");
    let out = scratch("split");
    for encoding in [&[][..], &["-p", "fieldlengthdistribution=uniform"]] {
        let common = [&["-P", "workloadc", "-p", "recordcount=300", "--threads", "4"][..], encoding].concat();
        for (start, seed) in [("0", "1"), ("100", "2"), ("200", "3")] {
            let start = format!("insertstart={start}");
            let part = ["-p", &start, "-p", "insertcount=100", "--seed", seed];
            good(&ycsb(&server, "load", &[&common[..], &part].concat(), &out));
        }
        let all =
            ["-p", "requestdistribution=sequential", "-p", "operationcount=300", "--seed", "4", "--json"];
        let run = good(&ycsb(&server, "run", &[&common[..], &all].concat(), &out));
        let result: RunResult = serde_json::from_str(&run).unwrap();
        let operations: u64 = result.windows.iter().map(|w| w.operations).sum();
        assert_eq!(operations, 300);
        assert!(result.windows.iter().all(|w| w.errors.is_empty()), "{:?}", result.windows[0].errors);
    }
}

#[test]
fn invalid_input_is_reported_with_its_location() {
    let server = Server::start("", false);
    server.ready("");
    let out = scratch("ycsb-bad");
    let file = out.join("mine");
    std::fs::write(&file, "recordcount=10\nreadpropotion=0.5\n").unwrap();
    let express = format!("s3://data--use1-az4--x-s3?endpoint={}", server.endpoint());
    for (arguments, expected) in [
        (
            vec!["-P", file.to_str().unwrap()],
            "mine:2: property 'readpropotion' is unknown; did you mean readproportion?",
        ),
        (vec!["-P", "/nowhere/workloadx"], "workloada to workloadf"),
        (
            vec!["-P", "workloada", "-p", "updateproportion=-1"],
            "updateproportion=-1 must be a number, 0 or more",
        ),
        (vec!["-P", "workloada", "-p", "novalue"], "is not in the form name=value"),
        (vec!["-P", "workloada", "-p", "plimsoll.foo=1"], "property 'plimsoll.foo' is unknown"),
        (vec!["-P", "workloada", "-p", "s3.sizee=1"], "property 's3.sizee' is unknown"),
        (vec!["-P", "workloade", "-p", "maxscanlength=2000"], "between 1 and 1000"),
        (vec!["-P", "workloadd", "-p", "warmuptime=5"], "a warm-up cannot insert"),
        (vec![], "-P FILE is missing"),
    ] {
        let run = ycsb(&server, "run", &arguments, &out);
        let message = text(&run.stderr);
        assert!(run.status.code() == Some(2) && message.contains(expected), "{arguments:?}: {message}");
    }
    // A store with unordered listings does not support scans.
    let created = plimsoll(&["bucket", "create", &express]).output().unwrap();
    assert_eq!(created.status.code(), Some(0), "{}", text(&created.stderr));
    let run = plimsoll(&["ycsb", "run", "-P", "workloade", "--store", &express]).output().unwrap();
    let message = text(&run.stderr);
    assert!(run.status.code() == Some(2) && message.contains("remove scan from operations"), "{message}");
}
