//! The binary as a user runs it: exit codes, one-line errors, kept results, untouched foreign objects, hidden secrets.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};

use crate::support::{ACCESS, SECRET, Server, block_on, plimsoll, repository, scratch, text};
use plimsoll_base::net::lasting_port::listen_on_lasting_port;
use plimsoll_engine::store::{Body, Collect, Ignore, Request};

fn run(arguments: &[&str]) -> Output {
    plimsoll(arguments).stdin(Stdio::null()).output().unwrap()
}

/// Runs a command and expects exit code `code` and an error that contains every part of `expected`. The error must be
/// one line, unless clap printed it.
fn fails(arguments: &[&str], code: i32, expected: &[&str]) {
    let output = run(arguments);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}\n{message}");
    for part in expected {
        assert!(message.contains(part), "{arguments:?} lacks '{part}'\n{message}");
    }
    assert!(!message.contains(SECRET));
    assert!(
        code == 2 && message.starts_with("error:") || message.lines().count() == 1,
        "the error is not one line\n{message}"
    );
}

fn only_run(out: &Path) -> PathBuf {
    let mut runs: Vec<PathBuf> = std::fs::read_dir(out).unwrap().flatten().map(|e| e.path()).collect();
    assert_eq!(runs.len(), 1, "{runs:?}");
    runs.remove(0)
}

fn result(run: &Path) -> serde_json::Value {
    serde_json::from_str(&std::fs::read_to_string(run.join("result.json")).unwrap()).unwrap()
}

fn no_secret_below(path: &Path) {
    for entry in std::fs::read_dir(path).unwrap().flatten() {
        if entry.path().is_dir() {
            no_secret_below(&entry.path());
            continue;
        }
        let bytes = std::fs::read(entry.path()).unwrap();
        let found = [SECRET, ACCESS].iter().any(|s| bytes.windows(s.len()).any(|w| w == s.as_bytes()));
        assert!(!found, "a credential is in {}", entry.path().display());
    }
}

#[test]
fn a_run_leaves_a_valid_result_and_nothing_in_the_store() {
    let out = scratch("valid");
    let server = Server::start("", false);
    let store = server.ready("");
    let url = format!("s3://bucket/team?endpoint={}", server.endpoint());
    let schema = std::fs::read_to_string(repository("schema/result.schema.json")).unwrap();
    let validator = jsonschema::validator_for(&serde_json::from_str(&schema).unwrap()).unwrap();
    for form in ["get", "put", "mixed", "head", "list", "delete", "copy"] {
        let output = plimsoll(&[
            "run",
            form,
            "--store",
            &url,
            "--objects",
            "50",
            "--operations",
            "200",
            "--warmup",
            "0s",
            "--json",
            "--out",
        ])
        .arg(&out)
        .output()
        .unwrap();
        assert_eq!(output.status.code(), Some(0), "{form}: {}", text(&output.stderr));
        assert!(
            output.stderr.is_empty(),
            "{form}: nothing on stderr without a terminal: {}",
            text(&output.stderr)
        );
        let value: serde_json::Value =
            serde_json::from_slice(&output.stdout).expect("stdout contains exactly the result");
        let errors: Vec<String> = validator.iter_errors(&value).map(|e| e.to_string()).collect();
        assert!(errors.is_empty(), "{form}: {errors:?}");
        let windows = value["windows"].as_array().unwrap();
        let measured = windows.iter().filter(|w| w["role"] == "measure");
        let operations: u64 = measured.map(|w| w["operations"].as_u64().unwrap()).sum();
        assert_eq!(operations, if form == "delete" { 50 } else { 200 }, "{form}");
        assert!(windows.iter().all(|w| w["errors"].as_object().unwrap().is_empty()), "{form}");
    }
    let left = block_on(async {
        let request = Request::List { prefix: "", start_after: "", token: "", max_keys: 1000 };
        store.connection(0).execute(request, &mut Ignore).await.unwrap().listing.unwrap().objects
    });
    assert!(left.is_empty(), "{left:?}");
    no_secret_below(&out);
}

#[test]
fn an_open_loop_experiment_runs_and_can_be_shown_and_repeated() {
    let out = scratch("experiment");
    let file = out.join("e.toml");
    std::fs::write(&file, "name = 'two'\nstores = ['embedded:']\n[[phase]]\nname = 'o'\nrole = 'prepare'\noperations = { put = 1 }\nobjects = { count = 10 }\n\
        [[phase]]\nname = 'w'\nrole = 'warmup'\noperations = { get = 1 }\nobjects = { from = 'o' }\nduration = '200ms'\n\
        [[phase]]\nname = 'g'\noperations = { get = 1 }\nobjects = { from = 'o' }\nrate = '300/s'\narrival = 'poisson'\nduration = '1s'\n").unwrap();
    let runs = out.join("runs");
    let output =
        plimsoll(&["run", file.to_str().unwrap(), "--out", runs.to_str().unwrap()]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    assert!(
        table.contains("get response") && table.contains("get service") && table.contains("intended time"),
        "{table}"
    );
    let run_directory = only_run(&runs);
    for file in ["experiment.toml", "environment.json", "result.json", "intervals.arrows"] {
        assert!(run_directory.join(file).is_file(), "{file}");
    }
    let shown = run(&["show", run_directory.to_str().unwrap()]);
    assert!(table.starts_with(&text(&shown.stdout)), "show repeats the table");
    assert_eq!(result(&run_directory)["run"]["partial"], false);
    let again = run(&[
        "run",
        run_directory.join("experiment.toml").to_str().unwrap(),
        "--out",
        runs.to_str().unwrap(),
    ]);
    assert_eq!(again.status.code(), Some(0), "the resolved experiment runs again: {}", text(&again.stderr));
}

#[test]
fn invalid_input_is_reported_in_one_line_that_names_the_fix() {
    let out = scratch("cli-bad");
    let out = out.to_str().unwrap();
    let server = Server::start("", false);
    server.ready("");
    let good = format!("s3://bucket?endpoint={}", server.endpoint());
    fails(&["run", "get"], 2, &["--store is missing"]);
    fails(
        &["run", "gett", "--store", &good],
        2,
        &[
            "'gett' is neither an experiment nor a readable file",
            "did you mean get?",
            "plimsoll list experiments",
        ],
    );
    fails(&["capacity", "--store", &good], 2, &["use `plimsoll run capacity`"]);
    fails(&["cost", "latest"], 2, &["--from-run RUN"]);
    fails(&["run", "get", "--store", "bucket"], 2, &["'bucket' is not a store"]);
    fails(&["run", "get", "--store", &format!("{good}&stile=path")], 2, &["unknown store parameter 'stile'"]);
    fails(&["run", "get", "--store", &good, "--size", "1 XB"], 2, &["--size", "1 XB", "1KiB"]);
    fails(&["run", "get", "--store", &good, "--rate", "500"], 2, &["--rate", "500/s"]);
    fails(&["run", "get", "--store", &good, "--duration", "30"], 2, &["--duration", "30s"]);
    fails(&["run", "get", "--store", &good, "--concurrency", "0"], 2, &["--concurrency", "between 1"]);
    fails(&["run", "quickstart", "--size", "1KiB"], 2, &["--size: only the short forms"]);
    fails(&["run", "get", "--frobnicate"], 2, &["--frobnicate"]);
    fails(&["show", "nowhere"], 2, &["nowhere", "run directory"]);
    fails(&["clean", "nowhere"], 2, &["nowhere", "run directory"]);
    fails(&["serve", "--listen", "127.0.0.1:0", "--inject", "jitter=1"], 2, &["use latency=5ms"]);
    fails(&["run", "get", "--store", &good, "--out", "/dev/null/x"], 2, &["--out /dev/null/x"]);
    let missing = good.replace("bucket?", "nobucket?");
    fails(&["run", "get", "--store", &missing, "--out", out], 3, &["NoSuchBucket", "--create-bucket"]);
    fails(
        &["run", "get", "--store", "s3://bucket?endpoint=http://127.0.0.1:1", "--out", out],
        3,
        &["127.0.0.1:1", "is the server running"],
    );
    fails(
        &["run", "get", "--store", "s3://bucket?endpoint=http://no.such.host.invalid", "--out", out],
        3,
        &["no.such.host.invalid", "endpoint="],
    );
    let tls = good.replace("http://", "https://");
    fails(&["run", "get", "--store", &tls, "--out", out], 3, &["TLS", "http://"]);
    let output = plimsoll(&["run", "get", "--store", &good, "--out", out])
        .env("AWS_SECRET_ACCESS_KEY", "wrong")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(
        text(&output.stderr).contains("SignatureDoesNotMatch")
            && text(&output.stderr).contains("check AWS_SECRET_ACCESS_KEY")
    );
}

#[test]
fn errors_resets_and_corruption_are_counted_and_the_run_continues() {
    for (inject, class, code) in [
        ("error=0.3,seed=1", "503 SlowDown", 0),
        ("reset=0.3,seed=1", "reset", 0),
        ("truncate=0.3,seed=1", "reset", 0),
        ("corrupt=0.3,seed=1", "corrupt", 1),
    ] {
        let out = scratch(&format!("storm-{}", &inject[..5]));
        let file = out.join("e.toml");
        // Reads can only be verified if the writes succeed, so the writes are retried up to 40 times.
        std::fs::write(&file, "name = 'storm'\n[[phase]]\nname = 'o'\nrole = 'prepare'\noperations = { put = 1 }\nobjects = { count = 20 }\nretries = 40\n\
            [[phase]]\nname = 'g'\noperations = { get = 1 }\nobjects = { from = 'o' }\nstop_after = 300\n").unwrap();
        let server = Server::start(inject, false);
        let store = server.store("");
        crate::support::create_through_faults(store.as_ref());
        let url = format!("s3://bucket?endpoint={}", server.endpoint());
        // An injected fault may also hit the listing before the run, so the test starts the run up to 50 times.
        let value = (0..50)
            .find_map(|i| {
                let runs = out.join(format!("runs{i}"));
                let output = run(&[
                    "run",
                    file.to_str().unwrap(),
                    "--store",
                    &url,
                    "--keep",
                    "--out",
                    runs.to_str().unwrap(),
                ]);
                (output.status.code() == Some(code)).then(|| result(&only_run(&runs)))
            })
            .expect("one of fifty runs starts");
        let window = value["windows"].as_array().unwrap().iter().find(|w| w["phase"] == "g").unwrap().clone();
        let failed = window["errors"][class].as_u64().unwrap_or(0);
        if inject.starts_with("reset") {
            // A request that is reset before any response is sent once more and counted.
            let resent = window["reconnects"].as_u64().unwrap();
            assert!((5..60).contains(&failed) && resent > 50, "{failed} failed, {resent} sent again");
        } else {
            assert!((50..140).contains(&failed), "{inject}: {}", window["errors"]);
        }
        assert_eq!(window["operations"], 300);
        assert_eq!(
            window["service_ms"]["n"].as_u64().unwrap() + window["failed_ms"]["n"].as_u64().unwrap(),
            300
        );
    }
}

/// Starts a long run in the background and waits until its result has a measured operation.
fn long_run(url: &str, out: &Path) -> Child {
    let mut command =
        plimsoll(&["run", "mixed", "--store", url, "--duration", "10m", "--warmup", "0s", "--out"]);
    let child = command.arg(out).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let measured = || {
        let run = std::fs::read_dir(out).ok()?.flatten().next()?.path();
        let value: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(run.join("result.json")).ok()?).ok()?;
        let windows = value["windows"].as_array()?.clone();
        windows.iter().find(|w| w["role"] == "measure" && w["operations"].as_u64() > Some(0)).cloned()
    };
    while measured().is_none() {
        std::thread::yield_now();
    }
    child
}

const FOREIGN: [&str; 3] = ["precious", "plimsoll/notes", "plimsoll/20200101T000000-0000/objects/00000001"];

fn write_foreign(server: &Server) {
    let store = server.ready("");
    block_on(async {
        let mut connection = store.connection(0);
        for key in FOREIGN {
            connection
                .execute(Request::Put { key, body: Body::Whole("mine".into()) }, &mut Ignore)
                .await
                .unwrap();
        }
    });
}

fn keys(server: &Server) -> Vec<String> {
    let store = server.store("");
    block_on(async {
        let mut connection = store.connection(0);
        let request = Request::List { prefix: "", start_after: "", token: "", max_keys: 1000 };
        let listed = connection.execute(request, &mut Ignore).await.unwrap().listing.unwrap();
        for key in FOREIGN {
            let mut content = Collect::default();
            connection.execute(Request::Get { key, range: None }, &mut content).await.unwrap();
            assert_eq!(content.0, b"mine");
        }
        listed.objects.into_iter().map(|o| o.key).collect()
    })
}

#[test]
fn ctrl_c_keeps_the_results_and_removes_only_the_objects_of_the_run() {
    let out = scratch("interrupt");
    let server = Server::start("", false);
    write_foreign(&server);
    let url = format!("s3://bucket?endpoint={}", server.endpoint());
    let child = long_run(&url, &out);
    let pid = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("partial"), "{}", text(&output.stdout));
    let value = result(&only_run(&out));
    assert_eq!(value["run"]["partial"], true);
    assert!(value["windows"].as_array().unwrap().iter().all(|w| w["instrument_error"].is_null()));
    let mut left = keys(&server);
    left.sort();
    let mut expected = FOREIGN.to_vec();
    expected.sort_unstable();
    assert_eq!(left, expected);
    no_secret_below(&out);
}

#[test]
fn after_kill_9_the_results_are_readable_and_clean_removes_the_objects() {
    let out = scratch("kill");
    let server = Server::start("", false);
    write_foreign(&server);
    let url = format!("s3://bucket?endpoint={}", server.endpoint());
    let mut child = long_run(&url, &out);
    child.kill().unwrap();
    child.wait().unwrap();
    let run_directory = only_run(&out);
    assert_eq!(result(&run_directory)["run"]["partial"], true);
    let shown = run(&["show", run_directory.to_str().unwrap()]);
    assert_eq!(shown.status.code(), Some(0));
    assert!(text(&shown.stdout).contains("partial"));
    assert!(keys(&server).len() > FOREIGN.len(), "the run left objects");
    let cleaned = run(&["clean", run_directory.to_str().unwrap()]);
    assert_eq!(cleaned.status.code(), Some(0), "{}", text(&cleaned.stderr));
    assert_eq!(keys(&server).len(), FOREIGN.len());
    no_secret_below(&out);
}

#[test]
fn a_server_restart_is_recorded_as_errors_and_the_schedule_continues() {
    let out = scratch("restart");
    let serve = |listen: &str| {
        let mut child = plimsoll(&["serve", "--listen", listen]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        (child, line.trim().rsplit('/').next().unwrap().to_string())
    };
    let address = listen_on_lasting_port().unwrap().local_addr().unwrap().to_string();
    let (mut server, _) = serve(&address);
    let url = format!("s3://bucket?endpoint=http://{address}");
    // Long enough for any machine; the run is interrupted when the events have happened.
    let line = "--create-bucket --rate 400/s --duration 10m --warmup 0s --json --out";
    let words: Vec<&str> = ["run", "put", "--store", &url].into_iter().chain(line.split(' ')).collect();
    let mut command = plimsoll(&words);
    let child = command.arg(&out).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let written = || -> Option<serde_json::Value> {
        let run = std::fs::read_dir(&out).ok()?.flatten().next()?.path();
        serde_json::from_str(&std::fs::read_to_string(run.join("result.json")).ok()?).ok()
    };
    let wait_for = |event: &dyn Fn(&serde_json::Value) -> bool| {
        while !written().is_some_and(|value| event(&value["windows"][0])) {
            std::thread::yield_now();
        }
    };
    wait_for(&|window| window["operations"].as_u64().is_some_and(|n| n >= 100));
    server.kill().unwrap();
    server.wait().unwrap();
    let (mut server, _) = serve(&address);
    // The bucket was lost with the old server, so the new server answers every put with NoSuchBucket.
    wait_for(&|window| window["errors"]["404 NoSuchBucket"].as_u64().is_some_and(|n| n >= 400));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let window = &value["windows"][0];
    let offered = 400.0 * window["window_s"].as_f64().unwrap();
    let operations = window["operations"].as_f64().unwrap();
    assert!((operations - offered).abs() < 0.01 * offered + 2.0, "the schedule continues: {window}");
    assert_eq!(output.status.code(), Some(130));
    let messages = text(&output.stderr);
    assert!(
        !messages.contains("plimsoll clean"),
        "a bucket that no longer exists needs no clean-up: {messages}"
    );
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn a_report_is_written_through_a_symbolic_link() {
    let dir = scratch("device");
    let out = dir.join("runs");
    let line = "run get --store memory: --objects 2 --operations 5 --warmup 0s --out";
    let line: Vec<&str> = line.split(' ').collect();
    assert_eq!(plimsoll(&line).arg(&out).output().unwrap().status.code(), Some(0));
    let (target, link) = (dir.join("page.html"), dir.join("link.html"));
    std::fs::write(&target, "").unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    let output = plimsoll(&["report"]).arg(only_run(&out)).arg("--output").arg(&link).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(std::fs::read_to_string(&target).unwrap().contains("<html"));
}

#[test]
fn a_named_store_with_half_of_its_credentials_is_refused() {
    let dir = scratch("half");
    let table =
        "[store.half]\nurl = \"s3://bucket?endpoint=http://127.0.0.1:9\"\naccess_key_env = \"NOT_SET\"\n";
    std::fs::write(dir.join("plimsoll.toml"), table).unwrap();
    let output = plimsoll(&["run", "get", "--store", "half"]).current_dir(&dir).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("belong together"), "{}", text(&output.stderr));
}

#[test]
fn invalid_utf_8_and_line_breaks_in_arguments_give_a_proper_error() {
    use std::os::unix::ffi::OsStrExt;
    let odd = std::ffi::OsStr::from_bytes(b"no\xfftext");
    let output = plimsoll(&["run"]).arg(odd).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    let output = run(&["run", "first\nplimsoll: forged"]);
    assert_eq!((output.status.code(), text(&output.stderr).lines().count()), (Some(2), 1));
    let output = run(&["run", "get", "--store", "memory:", "--workers", "99999"]);
    assert!(
        output.status.code() == Some(2) && text(&output.stderr).contains("--workers"),
        "{}",
        text(&output.stderr)
    );
}
