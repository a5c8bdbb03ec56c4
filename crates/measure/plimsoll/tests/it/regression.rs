//! Regression tests for defects that users reported. Each test is named after the correct behaviour. Defects of one
//! module have their tests in that module.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::support::hostile::{Peer, SERVERS};
use crate::support::{ACCESS, SECRET, Server, block_on, kill, plimsoll, scratch, text};
use plimsoll_engine::store::{Body, Ignore, Request, Store};
use plimsoll_judge::run_dir::directory::RunDirectory;
use plimsoll_s3::credentials::Credentials;
use plimsoll_s3::sign::Signer;

fn run(arguments: &[&str]) -> Output {
    plimsoll(arguments).stdin(Stdio::null()).output().unwrap()
}

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

/// Returns the keys and the number of unfinished uploads of a bucket.
fn left(store: &dyn Store) -> (Vec<String>, usize) {
    block_on(async {
        let mut connection = store.connection(0);
        let list = Request::List { prefix: "", start_after: "", token: "", max_keys: 1000 };
        let page = connection.execute(list, &mut Ignore).await.unwrap().listing.unwrap();
        let uploads =
            connection.execute(Request::ListUploads { prefix: "", token: "" }, &mut Ignore).await.unwrap();
        (page.objects.into_iter().map(|o| o.key).collect(), uploads.uploads.len())
    })
}

fn put(store: &dyn Store, key: &str, content: &str) {
    let body = Body::Whole(content.to_string().into());
    block_on(async {
        store.connection(0).execute(Request::Put { key, body }, &mut Ignore).await.map(|_| ())
    })
    .unwrap();
}

fn only_entry(directory: &Path) -> PathBuf {
    let mut found: Vec<PathBuf> = std::fs::read_dir(directory).unwrap().flatten().map(|e| e.path()).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

/// Starts a command and waits until it has written objects to the store.
fn start(arguments: &[&str], store: &dyn Store) -> Child {
    let child =
        plimsoll(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    while left(store).0.is_empty() {
        std::thread::yield_now();
    }
    child.unwrap()
}

/// Returns all files below a directory, with their content.
fn files(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        match entry.path() {
            path if path.is_dir() => out.extend(files(&path)),
            path => out.push((path.clone(), std::fs::read(path).unwrap())),
        }
    }
    out
}

#[test]
fn sync_keeps_an_existing_directory_named_files() {
    let dir = scratch("thesis");
    let thesis = dir.join("d/files/thesis.txt");
    std::fs::create_dir_all(thesis.parent().unwrap()).unwrap();
    std::fs::write(&thesis, "x").unwrap();
    let output = plimsoll(&[
        "run", "sync", "--store", "memory:", "--files", "2", "--size", "1KiB", "--loops", "1", "--json",
    ])
    .args(["--dir", "d", "--out", "runs"])
    .current_dir(&dir)
    .output()
    .unwrap();
    assert_eq!(code(&output), Some(0), "{}", text(&output.stderr));
    assert_eq!(std::fs::read_to_string(&thesis).unwrap(), "x");
    assert_eq!(only_entry(&dir.join("d")), dir.join("d/files"), "the run deletes its own files");
}

#[test]
fn clean_removes_the_objects_of_a_killed_sync() {
    let server = Server::start("", false);
    let store = server.ready("");
    put(store.as_ref(), "thesis.txt", "x");
    let dir = scratch("killed-sync");
    let (out, files_dir) = (dir.join("runs"), dir.join("d"));
    std::fs::create_dir_all(&files_dir).unwrap();
    std::fs::write(files_dir.join("notes.txt"), "x").unwrap();
    let url = format!("s3://bucket/team?endpoint={}", server.endpoint());
    let arguments = [
        "run",
        "sync",
        "--store",
        &url,
        "--files",
        "2000",
        "--size",
        "4KiB",
        "--loops",
        "100",
        "--direction",
        "up",
        "--dir",
        files_dir.to_str().unwrap(),
        "--out",
        out.to_str().unwrap(),
    ];
    let child = plimsoll(&arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut child = child.unwrap();
    while left(store.as_ref()).0.len() < 100 {
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let cleaned = run(&["clean", only_entry(&out).to_str().unwrap()]);
    assert_eq!(code(&cleaned), Some(0), "{}", text(&cleaned.stderr));
    assert_eq!(left(store.as_ref()), (vec!["thesis.txt".to_string()], 0));
    assert_eq!(only_entry(&files_dir), files_dir.join("notes.txt"), "only the files of the run are deleted");
}

#[test]
fn clean_removes_the_records_of_a_killed_ycsb_load() {
    let server = Server::start("latency=2ms", false);
    let store = server.ready("");
    put(store.as_ref(), "usertable/user1", "foreign");
    let out = scratch("killed-load").join("runs");
    let url = format!("s3://bucket/team?endpoint={}", server.endpoint());
    let line = [
        "ycsb",
        "load",
        "-P",
        "workloada",
        "-p",
        "recordcount=5000",
        "--store",
        &url,
        "--out",
        out.to_str().unwrap(),
    ];
    let mut child =
        plimsoll(&line).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while left(store.as_ref()).0.len() < 50 {
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let below = left(store.as_ref()).0;
    let prefix = "team/plimsoll/records-usertable/user";
    assert!(below.iter().all(|k| k == "usertable/user1" || k.starts_with(prefix)), "{below:?}");
    let cleaned = run(&["clean", only_entry(&out).to_str().unwrap()]);
    assert_eq!(code(&cleaned), Some(0), "{}", text(&cleaned.stderr));
    assert_eq!(left(store.as_ref()).0, ["usertable/user1"]);
}

#[test]
fn two_runs_cannot_share_a_directory() {
    let out = scratch("exclusive");
    RunDirectory::create(&out, "20261121T000000-0001", "name = 'x'\n", false).unwrap();
    let again = RunDirectory::create(&out, "20261121T000000-0001", "name = 'y'\n", false);
    assert_eq!(again.map(|_| ()).unwrap_err().kind(), std::io::ErrorKind::AlreadyExists);
}

#[test]
fn a_hang_up_or_repeated_interrupt_leaves_no_objects() {
    let server = Server::start("", false);
    let store = server.ready("");
    for signals in [&["-HUP"][..], &["-INT", "-INT"], &["-TERM", "-INT"]] {
        let out = scratch("signals").join("runs");
        let url = format!("s3://bucket/team?endpoint={}", server.endpoint());
        let line = [
            "run",
            "put",
            "--store",
            &url,
            "--duration",
            "10m",
            "--warmup",
            "0s",
            "--out",
            out.to_str().unwrap(),
        ];
        let child = start(&line, store.as_ref());
        signals.iter().for_each(|name| assert!(kill(name, child.id())));
        let output = child.wait_with_output().unwrap();
        assert_eq!(code(&output), Some(130), "{signals:?}: {}", text(&output.stderr));
        assert_eq!(left(store.as_ref()), (vec![], 0), "{signals:?}");
        assert!(only_entry(&out).join("report.html").exists());
    }
}

#[test]
fn a_full_or_closed_standard_error_does_not_panic() {
    let out = scratch("stderr");
    let program = env!("CARGO_BIN_EXE_plimsoll");
    let line = format!(
        "{program} run get --store memory: --objects 2 --operations 5 --warmup 0s --out {} >/dev/null",
        out.join("runs").display()
    );
    for redirect in ["2>/dev/full", "2>&-"] {
        let status = Command::new("sh").args(["-c", &format!("{line} {redirect}")]).status().unwrap();
        assert_eq!(status.code(), Some(0), "{redirect}");
        let refused = format!("{program} run get --store nonsense: {redirect}");
        assert_eq!(Command::new("sh").args(["-c", &refused]).status().unwrap().code(), Some(2), "{redirect}");
    }
}

#[test]
fn a_disk_that_fills_up_during_the_report_exits_with_code_4() {
    let out = scratch("full").join("runs");
    // The file size limit is 200 KiB: the results fit, the report does not.
    let line = format!(
        "trap '' XFSZ; ulimit -f 400; exec {} run get --store memory: --objects 2 --operations 5 --warmup 0s --json --out {} >/dev/null",
        env!("CARGO_BIN_EXE_plimsoll"),
        out.display()
    );
    let output = Command::new("sh").args(["-c", &line]).output().unwrap();
    assert_eq!(code(&output), Some(4), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("results are kept in"), "{}", text(&output.stderr));
    let run_directory = only_entry(&out);
    assert!(run_directory.join("result.json").exists());
    let reported = run(&["report", run_directory.to_str().unwrap()]);
    assert_eq!(code(&reported), Some(0), "{}", text(&reported.stderr));
}

#[test]
fn secrets_in_arguments_reach_no_file_or_message() {
    let server = Server::start("", false);
    server.ready("");
    let out = scratch("secrets");
    let runs = out.join("runs");
    let url = format!("s3://bucket/team?endpoint={}", server.endpoint());
    let with_user =
        format!("s3://bucket?endpoint=http://somebody:hush-userinfo@127.0.0.1:{}", server.address.port());
    let presigned = format!("stores=['{}/bucket/k?X-Amz-Signature=hush-signature']", server.endpoint());
    let memory = ["--store", "memory:", "--loops", "1", "--files", "1", "--size", "1KiB"];
    let client = "TOOL_KEY=hush-client false {source} {target}";
    let lines: Vec<Vec<&str>> = vec![
        [&["run", "sync"][..], &memory, &["--client", client]].concat(),
        vec![
            "ycsb",
            "load",
            "-P",
            "workloada",
            "-p",
            "recordcount=5",
            "-p",
            "s3.secretKey=hush-property",
            "-p",
            "s3.accessKeyId=AK",
            "--store",
            &url,
        ],
        vec![
            "ycsb",
            "load",
            "-P",
            "workloada",
            "-p",
            "recordcount=5",
            "-p",
            "S3.SecretKey=hush-property",
            "--store",
            &url,
        ],
        vec!["run", "get", "--store", &with_user, "--operations", "1"],
        vec!["run", "micro", "--set", &presigned],
        vec!["run", "get", "--store", "memory:", "--password=hush-unknown"],
    ];
    for line in lines {
        let output = plimsoll(&line).args(["--out", runs.to_str().unwrap()]).output().unwrap();
        let printed = text(&output.stdout) + &text(&output.stderr);
        assert!(!printed.contains("hush-"), "{line:?}: {printed}");
    }
    for (path, content) in files(&out) {
        let found = content.windows(5).any(|w| w == b"hush-")
            || content.windows(SECRET.len()).any(|w| w == SECRET.as_bytes());
        assert!(!found, "a secret is in {}", path.display());
    }
}

#[test]
fn the_preflight_accepts_a_presigned_get_url() {
    let server = Server::start("", false);
    let store = server.ready("");
    put(store.as_ref(), "some/prefix/k", "content");
    let credentials = Credentials::new(ACCESS, SECRET, None);
    let host = server.address.to_string();
    let now = plimsoll_base::clock::wall_now().as_second();
    let query = Signer::new("us-east-1", "s3").presign_at(
        &credentials,
        now,
        "GET",
        &host,
        "/bucket/some/prefix/k",
        (&[], &[]),
        900,
    );
    let url = format!("{}/bucket/some/prefix/k?{query}", server.endpoint());
    let out = scratch("presigned").join("runs");
    let line = [
        "run",
        "get",
        "--store",
        &url,
        "--operations",
        "5",
        "--warmup",
        "0s",
        "--json",
        "--out",
        out.to_str().unwrap(),
    ];
    let output = run(&line);
    assert_eq!(code(&output), Some(0), "{}", text(&output.stderr));
    let signature = query.split("X-Amz-Signature=").nth(1).unwrap().to_string();
    for (path, content) in files(&out) {
        assert!(!text(&content).contains(&signature), "{}", path.display());
    }
}

#[test]
fn a_run_at_an_unreachable_rate_ends() {
    let out = scratch("rate").join("runs");
    let line = [
        "run",
        "get",
        "--store",
        "memory:",
        "--objects",
        "5",
        "--rate",
        "9000000/s",
        "--duration",
        "300ms",
        "--warmup",
        "0s",
        "--json",
        "--out",
        out.to_str().unwrap(),
    ];
    let output = run(&line);
    assert_eq!(code(&output), Some(0), "{}", text(&output.stderr));
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let window =
        result["windows"].as_array().unwrap().iter().find(|w| w["role"] == "measure").unwrap().clone();
    assert_eq!(
        window["offered_per_s"].as_f64().unwrap().round(),
        9e6,
        "the offered rate counts every intended operation"
    );
    assert!(window["censored"].as_u64().unwrap() > 1_000_000 && window["saturated"] == true);
    assert!(result["client"]["peak_rss_bytes"].as_u64().unwrap() < 400 << 20);
}

#[test]
fn a_run_directory_with_a_named_store_runs_again_elsewhere() {
    let server = Server::start("", false);
    server.ready("");
    let (here, there) = (scratch("named-here"), scratch("named-there"));
    let url = format!("s3://bucket/team?endpoint={}", server.endpoint());
    let table = format!(
        "[store.mine]\nurl = \"{url}\"\naccess_key_env = \"MY_KEY\"\nsecret_key_env = \"MY_SECRET\"\n"
    );
    std::fs::write(here.join("plimsoll.toml"), table).unwrap();
    let short = ["--objects", "2", "--operations", "5", "--warmup", "0s", "--json", "--keep"];
    let mut command = plimsoll(&["run", "get", "--store", "mine", "--out", "runs"]);
    command
        .args(short)
        .env("MY_KEY", ACCESS)
        .env("MY_SECRET", SECRET)
        .env_remove("AWS_ACCESS_KEY_ID")
        .current_dir(&here);
    let output = command.output().unwrap();
    assert_eq!(code(&output), Some(0), "{}", text(&output.stderr));
    let first = only_entry(&here.join("runs"));
    let kept = std::fs::read_to_string(first.join("experiment.toml")).unwrap();
    assert!(kept.contains("MY_SECRET") && !kept.contains(SECRET), "{kept}");
    let again = |arguments: &[&str]| {
        let mut command = plimsoll(&["run", first.to_str().unwrap(), "--json", "--out", "runs"]);
        command
            .args(arguments)
            .env("MY_KEY", ACCESS)
            .env("MY_SECRET", SECRET)
            .current_dir(&there)
            .output()
            .unwrap()
    };
    let elsewhere = again(&[]);
    assert_eq!(code(&elsewhere), Some(0), "{}", text(&elsewhere.stderr));
    let mapped = again(&["--store", "mine=memory:"]);
    assert_eq!(code(&mapped), Some(0), "{}", text(&mapped.stderr));
    let unknown = again(&["--store", "other=memory:"]);
    assert!(
        code(&unknown) == Some(2) && text(&unknown.stderr).contains("no store 'other'"),
        "{}",
        text(&unknown.stderr)
    );
    let mut clean = plimsoll(&["clean", first.to_str().unwrap()]);
    let cleaned = clean.env("MY_KEY", ACCESS).env("MY_SECRET", SECRET).current_dir(&there).output().unwrap();
    assert_eq!(code(&cleaned), Some(0), "{}", text(&cleaned.stderr));
    assert!(left(server.store("").as_ref()).0.is_empty());
}

#[test]
fn clean_removes_the_objects_of_a_killed_probe() {
    let server = Server::start("latency=50ms", false);
    let store = server.ready("");
    let out = scratch("killed-probe").join("runs");
    let url = format!("s3://bucket/team?endpoint={}", server.endpoint());
    let mut child = start(&["probe", &url, "--out", out.to_str().unwrap()], store.as_ref());
    child.kill().unwrap();
    child.wait().unwrap();
    let cleaned = run(&["clean", only_entry(&out).to_str().unwrap()]);
    assert_eq!(code(&cleaned), Some(0), "{}", text(&cleaned.stderr));
    assert_eq!(left(store.as_ref()), (vec![], 0));
    let whole = run(&["probe", &url, "--out", out.join("new").to_str().unwrap()]);
    assert_eq!(code(&whole), Some(0), "{}", text(&whole.stderr));
    assert!(
        left(store.as_ref()) == (vec![], 0) && !out.join("new").exists(),
        "a completed probe leaves no objects and no run directory"
    );
}

/// Starts the hostile server with this name.
fn hostile(name: &str) -> Peer {
    Peer::start(SERVERS.iter().find(|server| server.name == name).unwrap())
}

#[test]
fn sync_deletes_no_foreign_objects_if_the_server_ignores_prefixes() {
    let peer = hostile("foreign keys");
    let url = format!("s3://bucket/team?endpoint=http://127.0.0.1:{}", peer.port);
    let out = scratch("ignores-prefix");
    let line = ["run", "sync", "--store", &url, "--files", "2", "--size", "1KiB", "--loops", "1", "--out"];
    let output = plimsoll(&line).arg(out.join("runs")).stdin(Stdio::null()).output().unwrap();
    assert_eq!(code(&output), Some(3));
    assert!(text(&output.stderr).contains("does not filter by prefix"), "{}", text(&output.stderr));
    assert_eq!(peer.foreign_deletions(), Vec::<String>::new());
}

#[test]
fn clean_times_out_on_a_silent_server() {
    let peer = hostile("silence");
    let out = scratch("silent");
    let server = Server::start("", false);
    server.ready("");
    let url = format!("s3://bucket/team?endpoint={}", server.endpoint());
    let line =
        ["run", "put", "--store", &url, "--operations", "2", "--warmup", "0s", "--keep", "--json", "--out"];
    let kept = plimsoll(&line).arg(out.join("runs")).output().unwrap();
    assert_eq!(code(&kept), Some(0), "{}", text(&kept.stderr));
    let run_directory = only_entry(&out.join("runs"));
    for file in ["environment.json", "experiment.toml"] {
        let path = run_directory.join(file);
        let content = std::fs::read_to_string(&path).unwrap();
        let silent = format!("127.0.0.1:{}", peer.port);
        std::fs::write(&path, content.replace(&server.address.to_string(), &silent)).unwrap();
    }
    let output = run(&["clean", run_directory.to_str().unwrap(), "--timeout", "300ms"]);
    assert_eq!(code(&output), Some(3));
    assert!(text(&output.stderr).contains("no answer within 0.3 s"), "{}", text(&output.stderr));
}

#[test]
fn an_experiment_in_place_of_a_command_is_answered_with_the_command() {
    for name in ["quickstart", "get", "capacity", "sync", "consistency"] {
        crate::support::ask::refused(&[name, "--store", "memory:"], &[&format!("plimsoll run {name}")]);
    }
}
