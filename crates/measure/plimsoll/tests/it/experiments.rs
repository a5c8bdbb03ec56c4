//! Experiments through the binary: many phases, several stores, existing objects, directories, and multipart uploads.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::support::ask::{fails, good};
use crate::support::{Server, block_on, data, plimsoll, scratch, text};
use plimsoll_engine::store::{Body, Ignore, PartTag, Request, Store};
use plimsoll_judge::summary::result::{RunResult, Window};

fn write(dir: &Path, content: &str) -> String {
    let path = dir.join("experiment.toml");
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().into()
}

/// Runs an experiment, expects exit code 0, and returns the result.
fn measure(arguments: &[&str], out: &Path) -> RunResult {
    measure_to(0, arguments, out)
}

/// Runs an experiment, expects exit code `code`, and returns the result.
fn measure_to(code: i32, arguments: &[&str], out: &Path) -> RunResult {
    let run = plimsoll(&["run"]).args(arguments).args(["--json", "--out"]).arg(out).output().unwrap();
    assert_eq!(run.status.code(), Some(code), "{arguments:?}\n{}", text(&run.stderr));
    serde_json::from_slice(&run.stdout).unwrap()
}

fn url(server: &Server, bucket: &str) -> String {
    format!("s3://{bucket}/some/prefix?endpoint={}", server.endpoint())
}

fn keys(store: &dyn Store, prefix: &str) -> Vec<String> {
    block_on(async {
        let list = Request::List { prefix, start_after: "", token: "", max_keys: 1000 };
        let page = store.connection(0).execute(list, &mut Ignore).await.unwrap().listing.unwrap();
        page.objects.into_iter().map(|o| o.key).collect()
    })
}

fn measured(result: &RunResult) -> Vec<&Window> {
    result.windows.iter().filter(|w| w.role == plimsoll_workload::schedule::Role::Measure).collect()
}

const MANY: &str = "name = 'many'\nblock = '200ms'\nrewarm = '50ms'\nrepeats = 2\n\
    [[phase]]\nname = 'objects'\nrole = 'prepare'\noperations = { put = 1 }\n\
    objects = { count = 60, size = { lognormal = { median = '8 KiB', sigma = 1.0, max = '1 MiB' } }, naming = 'hex' }\n\
    [[phase]]\nname = 'warm'\nrole = 'warmup'\noperations = { get = 1 }\nobjects = { from = 'objects' }\nduration = '100ms'\n\
    [[phase]]\nname = 'mixed'\noperations = { get = 4, head = 2, put = 2, delete = 1, list = 1 }\n\
    objects = { from = 'objects', popularity = 'zipfian', naming = { prefixes = 4 } }\nconcurrency = 4\nduration = '800ms'\n\
    [[phase]]\nname = 'counted'\noperations = { delete = 1 }\nobjects = { count = 30 }\nconcurrency = 2\n\
    [[phase]]\nname = 'steps'\noperations = { get = 1 }\nobjects = { from = 'objects', popularity = 'latest' }\n\
    concurrency = { from = 1, step = 2, to = 5, every = '200ms', stop = 'never' }\n";

#[test]
fn several_stores_take_turns_and_windows_have_repeat_block_and_step() {
    let server = Server::start("", false);
    let store = server.ready("");
    let dir = scratch("many");
    let file = write(&dir, MANY);
    let (one, two) = (url(&server, "bucket"), url(&server, "bucket-two"));
    let result = measure(&[&file, "--store", &one, "--store", &two, "--create-bucket"], &dir.join("runs"));
    let windows = measured(&result);
    assert!(
        windows.iter().all(|w| w.errors.is_empty()),
        "{:?}",
        windows.iter().map(|w| &w.errors).collect::<Vec<_>>()
    );
    for store in [&one, &two] {
        let of = |phase: &str| -> BTreeSet<(u32, u32, Option<u32>)> {
            let own = windows.iter().filter(|w| w.store == *store && w.phase == phase);
            own.map(|w| (w.repeat, w.block, w.step)).collect()
        };
        // On a busy machine, nothing may be answered in a block or a step, which then has no window.
        let repeats = |found: BTreeSet<(u32, u32, Option<u32>)>| -> BTreeSet<u32> {
            found.into_iter().map(|(repeat, ..)| repeat).collect()
        };
        assert!(of("mixed").iter().all(|(_, block, step)| *block < 4 && step.is_none()), "{:?}", of("mixed"));
        assert_eq!(repeats(of("mixed")), BTreeSet::from([0, 1]));
        assert_eq!(of("counted"), BTreeSet::from([(0, 0, None), (1, 0, None)]));
        assert!(of("steps").iter().all(|(_, _, step)| step.is_some_and(|s| s < 3)), "{:?}", of("steps"));
        assert_eq!(repeats(of("steps")), BTreeSet::from([0, 1]));
        let deleted: u64 =
            windows.iter().filter(|w| w.store == *store && w.phase == "counted").map(|w| w.operations).sum();
        assert_eq!(deleted, 60, "each repeat deletes its 30 objects");
    }
    assert!(windows.iter().any(|w| w.key_group.as_deref() == Some("random prefixes")));
    assert!(keys(store.as_ref(), "").is_empty(), "nothing is left");

    // The experiment in the run directory has the same plan.
    let run = dir.join("runs").join(&result.run.id);
    let resolved = run.join("experiment.toml");
    let again = plimsoll(&["run", resolved.to_str().unwrap(), "--dry-run"]).output().unwrap();
    let first = plimsoll(&["run", &file, "--dry-run", "--store", &one, "--store", &two]).output().unwrap();
    assert_eq!(text(&again.stdout), text(&first.stdout));
    let shown = plimsoll(&["show"]).arg(&run).output().unwrap();
    for expected in ["side by side", "2 repeats merged", "steps get, repeat 2: ", "steps_3"] {
        assert!(text(&shown.stdout).contains(expected), "{expected}\n{}", text(&shown.stdout));
    }
}

#[test]
fn existing_objects_are_read_and_kept() {
    let server = Server::start("", false);
    let store = server.ready("");
    let mut before = vec!["data/folder/".to_string()];
    block_on(async {
        let mut connection = store.connection(0);
        connection
            .execute(Request::Put { key: "data/folder/", body: Body::Whole("".into()) }, &mut Ignore)
            .await
            .unwrap();
        for i in 0..20 {
            let key = format!("data/object {i}");
            let body = Body::Whole(vec![7; 100 + i].into());
            connection.execute(Request::Put { key: &key, body }, &mut Ignore).await.unwrap();
            before.push(key);
        }
    });
    before.sort();
    let dir = scratch("existing");
    let phase = |name: &str, operations: &str, more: &str| {
        format!(
            "[[phase]]\nname = '{name}'\noperations = {operations}\nobjects = {{ {more} }}\nconcurrency = 2\nstop_after = 200\n"
        )
    };
    let content = format!(
        "name = 'there'\n{}{}",
        phase("whole", "{ get = 2, head = 1 }", "dataset = 's3://bucket/data/', popularity = 'sequential'"),
        phase("ranges", "{ get_range = 1 }", "dataset = 'data/', range = '50 B', count = 10")
    );
    let file = write(&dir, &content);
    let result = measure(&[&file, "--store", &url(&server, "bucket")], &dir.join("runs"));
    assert!(measured(&result).iter().all(|w| w.errors.is_empty() && w.operations > 0));
    assert_eq!(measured(&result).iter().find(|w| w.phase == "ranges").map(|w| w.bytes), Some(200 * 50));
    let mut after = keys(store.as_ref(), "");
    after.sort();
    assert_eq!(after, before, "the bucket has the same objects as before");

    for (location, expected) in [
        ("s3://elsewhere/data/", "is not in bucket 'elsewhere'"),
        ("nothing/", "has no objects with this prefix"),
    ] {
        let set = format!("phase.whole.objects.dataset={location}");
        let run =
            plimsoll(&["run", &file, "--store", &url(&server, "bucket"), "--set", &set]).output().unwrap();
        let message = text(&run.stderr);
        assert!(run.status.code() == Some(2) && message.contains(expected), "{message}");
    }
}

/// The expected content of foreign objects is unknown, but the store keeps a checksum of it.
#[test]
fn foreign_content_is_verified_with_the_checksum_in_the_store() {
    let server = Server::start("corrupt=0.2,seed=3", false);
    let dir = scratch("checksum");
    let store = server.ready("");
    block_on(async {
        let mut connection = store.connection(0);
        let created =
            connection.execute(Request::CreateMultipart { key: "data/whole" }, &mut Ignore).await.unwrap();
        let upload_id = created.upload_id.unwrap();
        let part = |number: u32, len: usize| Request::UploadPart {
            key: "data/whole",
            upload_id: &upload_id,
            number,
            body: Body::Whole(vec![number as u8; len].into()),
        };
        let mut tags = Vec::new();
        for (number, len) in [(1, 5 << 20), (2, 1000)] {
            tags.push(PartTag {
                etag: connection.execute(part(number, len), &mut Ignore).await.unwrap().etag.unwrap(),
                checksum: None,
            });
        }
        let complete = Request::CompleteMultipart { key: "data/whole", upload_id: &upload_id, parts: &tags };
        connection.execute(complete, &mut Ignore).await.unwrap();
    });
    let content = "name = 'there'\n[[phase]]\nname = 'read'\noperations = { get = 1 }\n\
                   objects = { dataset = 'data/' }\nconcurrency = 1\nstop_after = 60\n";
    let result =
        measure_to(1, &[&write(&dir, content), "--store", &url(&server, "bucket")], &dir.join("runs"));
    let corrupt = measured(&result)[0].errors.get("corrupt").copied().unwrap_or(0);
    assert!((3..30).contains(&corrupt), "{corrupt} of 60 responses were corrupt; 12 are expected on average");
}

const SIZES: &str = "name = 'sizes'\n\
    [[phase]]\nname = 'load'\nrole = 'prepare'\noperations = { put = 1 }\n\
    objects = { count = 40, size = { weighted = { '100 B' = 1, '5 KiB' = 2, '70 KiB' = 1 } } }\n\
    [[phase]]\nname = 'read'\noperations = { get = 3, head = 1 }\nobjects = { from = 'load' }\n\
    size_classes = ['1 KiB', '64 KiB']\nstop_after = 400\n";

#[test]
fn latencies_are_divided_by_the_size_of_the_object() {
    let dir = scratch("sizes");
    let result = measure(&[&write(&dir, SIZES), "--store", "memory:"], &dir.join("runs"));
    let of = |phase: &str, operation: &str| -> Vec<(u64, Option<u64>, u64)> {
        let own = |w: &&Window| w.phase == phase && w.operation.name() == operation;
        let window = result.windows.iter().find(own).unwrap();
        window
            .size_classes
            .iter()
            .map(|class| (class.from_bytes, class.to_bytes, class.service_ms.n))
            .collect()
    };
    let ends = |classes: &[(u64, Option<u64>, u64)]| -> Vec<_> {
        classes.iter().map(|(from, to, _)| (*from, *to)).collect()
    };
    let (written, read) = (of("load", "put"), of("read", "get"));
    assert_eq!(ends(&written), [(0, Some(1 << 10)), (4 << 10, Some(16 << 10)), (64 << 10, Some(256 << 10))]);
    assert_eq!(ends(&read), [(0, Some(1 << 10)), (1 << 10, Some(64 << 10)), (64 << 10, None)]);
    assert_eq!(written.iter().map(|(.., n)| n).sum::<u64>(), 40);
    assert_eq!(read.iter().map(|(.., n)| n).sum::<u64>(), 300);
    assert!(of("read", "head").is_empty());
    let run = std::fs::read_dir(dir.join("runs")).unwrap().next().unwrap().unwrap().path();
    let shown = plimsoll(&["show"]).arg(&run).output().unwrap();
    assert!(text(&shown.stdout).contains("1 KiB to 64 KiB"), "{}", text(&shown.stdout));
    let verified = plimsoll(&["verify"]).arg(&run).output().unwrap();
    assert_eq!(verified.status.code(), Some(0), "{}", text(&verified.stdout));
}

/// Regression test: from the second repeat on, all reads of objects that a measured phase writes were called corrupt.
#[test]
fn each_repeat_reads_what_it_wrote() {
    let dir = scratch("repeats-write");
    let sizes = "size = { weighted = { '1 KiB' = 1, '20 KiB' = 1 } }";
    let content = format!(
        "name = 'again'\nrepeats = 3\n[[phase]]\nname = 'write'\noperations = {{ put = 1 }}\nstop_after = 30\n\
         objects = {{ count = 30, {sizes} }}\n[[phase]]\nname = 'whole'\noperations = {{ get = 1 }}\nstop_after = 40\n\
         objects = {{ from = 'write' }}\n[[phase]]\nname = 'ranges'\noperations = {{ get_range = 1 }}\nstop_after = 40\n\
         objects = {{ from = 'write', range = '3 KiB', popularity = 'ranges' }}\n"
    );
    let result = measure(&[&write(&dir, &content), "--store", "memory:"], &dir.join("runs"));
    assert_eq!(measured(&result).len(), 3 * 3);
    assert!(measured(&result).iter().all(|window| window.errors.is_empty()), "{:?}", result.windows);
}

#[test]
fn objects_are_read_once_some_time_after_they_were_written() {
    let dir = scratch("read-after");
    let runs = dir.join("runs");
    let base = ["put", "--store", "memory:", "--objects", "40", "--warmup", "0s", "--read-after", "300ms"];
    let record = ["--record", "operations", "--read-order", "reversed", "--concurrency", "1"];
    let result = measure(&[&base[..], &record].concat(), &runs);
    let [put, read] = &measured(&result)[..] else { panic!("{:?}", result.windows) };
    assert_eq!((put.operations, read.operations), (40, 40));
    assert!(read.errors.is_empty() && read.phase == "read");
    // The writes last at most as long as their window.
    assert!(read.start_unix_s >= put.start_unix_s + 0.3, "{} {}", put.start_unix_s, read.start_unix_s);
    let run = std::fs::read_dir(&runs).unwrap().next().unwrap().unwrap().path();
    let exported = good(&["export", "--format", "requests", run.to_str().unwrap()]);
    assert!(exported.contains("requests"), "{exported}");
    let table = std::fs::read_to_string(run.join("requests.csv")).unwrap();
    let keys = |operation: &str| -> Vec<String> {
        let rows = table.lines().map(|line| line.split(',').map(str::to_string).collect::<Vec<_>>());
        rows.filter(|row| row.iter().any(|cell| cell == operation)).map(|row| row[2].clone()).collect()
    };
    let (mut written, read) = (keys("put"), keys("get"));
    written.reverse();
    assert_eq!(written, read);
    fails(&["run", "get", "--store", "memory:", "--read-after", "1s"], 2, &["only put does"]);
    let order = ["run", "put", "--store", "memory:", "--read-after", "1s", "--read-order", "zipfian"];
    fails(&order, 2, &["sequential, reversed, shuffled or shifted"]);
}

#[test]
fn objectives_and_comparisons_may_be_about_a_size() {
    let dir = scratch("sizes-judged");
    let file = write(&dir, SIZES);
    for _ in 0..2 {
        measure(&[&file, "--store", "memory:"], &dir.join("runs"));
    }
    let runs: Vec<PathBuf> =
        std::fs::read_dir(dir.join("runs")).unwrap().map(|entry| entry.unwrap().path()).collect();
    let check = |slo: &str| plimsoll(&["check", "--json", "--slo", slo]).arg(&runs[0]).output().unwrap();
    let judged = |slo: &str| {
        let found: serde_json::Value = serde_json::from_slice(&check(slo).stdout).unwrap();
        let check = &found["checks"][0];
        (check["place"].as_str().unwrap().to_string(), check["outcome"].as_str().unwrap().to_string())
    };
    // A class that begins at 1 KiB contains 5 KiB. A miss would be undecided if the client was busy.
    let met = ("memory: read get 1 KiB to 64 KiB".into(), "pass".into());
    assert_eq!(judged("get[5KiB].p50 < 1h"), met);
    assert_ne!(judged("get[5KiB].p50 < 1ns").1, "pass", "no operation takes a nanosecond");
    let refused = check("put[5KiB].p50 < 1ms");
    assert!(text(&refused.stderr).contains("did not measure this"), "{}", text(&refused.stderr));

    let compared = plimsoll(&[
        "compare",
        "--json",
        "--primary",
        "get[5KiB].p99",
        "--fail-if",
        "get[5KiB].service.p50 > +900%",
    ])
    .args(&runs)
    .output()
    .unwrap();
    let found: serde_json::Value = serde_json::from_slice(&compared.stdout).unwrap();
    let rows = found["comparisons"][0]["rows"].as_array().unwrap();
    let classes: Vec<_> = rows.iter().filter(|row| row["size"].is_object()).collect();
    assert_eq!(classes.len(), 3 * 2, "p50 and p99 of each class");
    let primary = rows.iter().find(|row| row["primary"] == true).unwrap();
    assert_eq!((&primary["size"]["from_bytes"], &primary["metric"]), (&1024.into(), &"p99".into()));
    assert_eq!(found["checks"].as_array().unwrap().len(), 1);

    // A log of size classes that does not belong to the figures is found.
    std::fs::copy(runs[1].join("size_classes.arrows"), runs[0].join("size_classes.arrows")).unwrap();
    let verified = plimsoll(&["verify"]).arg(&runs[0]).output().unwrap();
    assert_eq!(verified.status.code(), Some(1), "{}", text(&verified.stdout));
}

#[test]
fn a_directory_works_as_a_store() {
    let dir = scratch("directory");
    let root = dir.join("store");
    std::fs::create_dir_all(root.join("mine")).unwrap();
    std::fs::write(root.join("mine/precious"), "precious").unwrap();
    let file = write(&dir, MANY);
    let store = format!("file://{}?fsync=off", root.display());
    let result = measure(&[&file, "--store", &store], &dir.join("runs"));
    assert!(measured(&result).iter().all(|w| w.errors.is_empty() && w.provider == "file"));
    let left: Vec<PathBuf> = std::fs::read_dir(&root).unwrap().flatten().map(|e| e.path()).collect();
    assert_eq!(left, [root.join("mine")], "only the existing directory is left");
    assert_eq!(std::fs::read_to_string(root.join("mine/precious")).unwrap(), "precious");

    let missing = format!("file://{}/none", root.display());
    let run = plimsoll(&["run", "put", "--store", &missing, "--operations", "5"]).output().unwrap();
    assert_eq!(run.status.code(), Some(3), "{}", text(&run.stderr));
}

const LARGE: &str = "name = 'large'\n\
    [[phase]]\nname = 'load'\nrole = 'prepare'\noperations = { put = 1 }\nobjects = { count = 1, size = '33 MiB', part_size = '5 MiB' }\n\
    [[phase]]\nname = 'read'\noperations = { get = 1, get_range = 1 }\nobjects = { from = 'load', range = '3 MiB' }\nstop_after = 6\n";

fn uploads(store: &dyn Store) -> Vec<(String, String)> {
    let list = Request::ListUploads { prefix: "", token: "" };
    block_on(async { store.connection(0).execute(list, &mut Ignore).await.unwrap().uploads })
}

#[test]
fn a_large_object_is_uploaded_in_parts_and_read_back_intact() {
    let server = Server::start("", false);
    let store = server.ready("");
    let dir = scratch("large");
    let result = measure(
        &[&write(&dir, LARGE), "--store", &url(&server, "bucket"), "--workers", "2"],
        &dir.join("runs"),
    );
    let load = result.windows.iter().find(|w| w.role == plimsoll_workload::schedule::Role::Prepare).unwrap();
    assert_eq!(
        (load.operations, load.attempts, load.bytes),
        (1, 1 + 7 + 1, 33 << 20),
        "create, seven parts, complete"
    );
    assert!(measured(&result).iter().all(|w| w.errors.is_empty() && w.operations == 3));
    assert!(uploads(store.as_ref()).is_empty() && keys(store.as_ref(), "").is_empty());
}

/// Regression: if a number of operations ends the phase, a worker without a connection waited for its end for ever.
#[test]
fn a_run_with_more_workers_than_operations_in_flight_completes() {
    let server = Server::start("", false);
    let _store = server.ready("");
    let dir = scratch("workers");
    let arguments = ["put", "--workers", "4", "--concurrency", "1", "--operations", "20", "--warmup", "0"];
    let store = url(&server, "bucket");
    let result = measure(&[&arguments[..], &["--store", &store]].concat(), &dir.join("runs"));
    assert_eq!((result.client.workers, measured(&result)[0].operations), (4, 20));
}

/// The server accepts four requests per second, so the interruption occurs during the upload.
#[test]
fn an_interrupted_upload_in_parts_is_aborted() {
    let server = Server::start("capacity=4/s", false);
    let store = server.ready("");
    let dir = scratch("aborted");
    let file = write(&dir, LARGE);
    let mut run = plimsoll(&["run", &file, "--store", &url(&server, "bucket"), "--out"]);
    let child = run
        .arg(dir.join("runs"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while uploads(store.as_ref()).is_empty() {}
    let id = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(uploads(store.as_ref()).is_empty(), "the upload is aborted, so its parts are no longer billed");
    assert!(keys(store.as_ref(), "").is_empty());
}

/// Regression: the interruption took effect only at the start time, an hour later.
#[test]
fn a_shard_that_waits_for_its_start_can_be_interrupted() {
    let server = Server::start("", false);
    let store = server.ready("");
    let dir = scratch("waiting");
    let file = write(&dir, LARGE);
    let target = url(&server, "bucket");
    let mut run =
        plimsoll(&["run", &file, "--store", &target, "--shard", "1/1", "--start-at", "+1h", "--out"]);
    run.arg(dir.join("runs")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = run.spawn().unwrap();
    // The marker object shows that the shard has prepared its objects and waits for the start.
    while !keys(store.as_ref(), "").iter().any(|key| key.contains("shard-prepared")) {}
    let id = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(130));
    assert!(keys(store.as_ref(), "").is_empty(), "the shard has removed its objects");
}

/// Regression: a lone shard did not remove every second object that it had written, because it attributed these objects
/// to the other shard.
#[test]
fn a_lone_shard_removes_all_its_objects_and_merges_as_degraded() {
    let server = Server::start("", false);
    let store = server.ready("");
    let dir = scratch("lone");
    let content = "name = 'lone'\n[[phase]]\nname = 'objects'\nrole = 'prepare'\noperations = { put = 1 }\nobjects = { count = 1 }\n\
                   [[phase]]\nname = 'mixed'\noperations = { head = 3, put = 1 }\nobjects = { from = 'objects', count = 101 }\n\
                   rate = '500/s'\nduration = '500ms'\n";
    let file = write(&dir, content);
    let target = url(&server, "bucket");
    let result =
        measure(&[&file, "--store", &target, "--shard", "1/2", "--start-at", "+1s"], &dir.join("runs"));
    assert!(
        measured(&result)
            .iter()
            .any(|w| w.operation == plimsoll_workload::OperationKind::Put && w.operations > 20)
    );
    assert!(keys(store.as_ref(), "").is_empty());
    let run = dir.join("runs").join(&result.run.id);
    let merged = plimsoll(&["merge", "--json", "--out"]).arg(dir.join("merged")).arg(&run).output().unwrap();
    let merged: RunResult = serde_json::from_slice(&merged.stdout).unwrap();
    let degraded = merged.run.degraded.unwrap();
    assert!(
        degraded.contains("shard 2 of 2 is missing") && degraded.contains("before all objects were prepared"),
        "{degraded}"
    );
}

#[test]
fn unsupported_shards_merges_and_imports_are_refused_with_a_reason() {
    let dir = scratch("unsplit");
    let file = write(&dir, MANY);
    let fails = |arguments: &[&str], expected: &str| {
        let run = plimsoll(arguments).output().unwrap();
        let message = text(&run.stderr);
        assert!(
            run.status.code() == Some(2) && message.contains(expected),
            "{arguments:?} lacks '{expected}'\n{message}"
        );
    };
    let sharded = |experiment: &str, shard: &str, store: &str, expected: &str| {
        fails(&["run", experiment, "--shard", shard, "--start-at", "+1s", "--store", store], expected);
    };
    sharded(
        &file,
        "1/8",
        "s3://b-u-c?endpoint=http://127.0.0.1:1",
        "has 4 operations in flight for 8 shards",
    );
    sharded("ramp", "1/1", "s3://b-u-c?endpoint=http://127.0.0.1:1", "ends at its plateau");
    sharded("throughput", "1/2", "embedded:", "shards cannot share an embedded: or memory: store");
    sharded("throughput", "3/2", "embedded:", "use I/N");
    fails(&["run", "throughput", "--shard", "1/2", "--store", "embedded:"], "--start-at");
    fails(
        &["run", "throughput", "--shard", "1/2", "--start-at", "noon", "--store", "embedded:"],
        "2026-11-21T12:00:00Z",
    );
    fails(&["merge", dir.to_str().unwrap()], "specify a run directory");
    fails(&["import", "warp", data("tls/ca.pem").to_str().unwrap()], "is the file warp's operation log");
    fails(&["import", "r2-bench", data("tls/ca.pem").to_str().unwrap()], "cannot read the file as Parquet");
    fails(&["export", "--format", "csv", dir.to_str().unwrap()], "specify a run directory");
    fails(&["run", "get", "--set", "phase.get.speed=3", "--store", "embedded:"], "--set phase.get.speed=3");
    fails(&["run", "get", "--set", "phase.put.duration=3s", "--store", "embedded:"], "put");
}

#[test]
fn a_sweep_measures_every_combination_and_prints_matrices() {
    let server = Server::start("", false);
    server.ready("");
    let dir = scratch("matrix");
    let store = url(&server, "bucket");
    let swept = ["run", "get", "--sweep", "size=1KiB,64KiB", "--sweep", "concurrency=1,4", "--store", &store];
    let limits = ["--operations", "30", "--objects", "8", "--warmup", "0", "--no-report", "--out"];
    let run = plimsoll(&swept).args(limits).arg(&dir).output().unwrap();
    let printed = text(&run.stdout);
    assert!(run.status.success(), "{printed}{}", text(&run.stderr));
    let lines: Vec<&str> = printed.lines().collect();
    assert!(lines[0].starts_with("get: up to ") && lines[0].contains("/s at size "), "{printed}");
    assert!(lines[1].starts_with("operations/s by size and concurrency"), "{printed}");
    let words = |line: &str| line.split_whitespace().map(String::from).collect::<Vec<_>>();
    assert_eq!(words(lines[2]), ["size", "1", "4"]);
    assert_eq!(words(lines[3])[..2], ["1", "KiB"]);
    let path = std::fs::read_dir(&dir).unwrap().next().unwrap().unwrap().path().join("result.json");
    let result: RunResult = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let [figures] = &result.sweeps[..] else { panic!("{:?}", result.sweeps) };
    let found: Vec<(&str, &str, u64, u64)> = figures
        .points
        .iter()
        .map(|p| (p.at["size"].as_str(), p.at["concurrency"].as_str(), p.operations, p.failed))
        .collect();
    assert_eq!(
        found,
        [("1 KiB", "1", 30, 0), ("1 KiB", "4", 30, 0), ("64 KiB", "1", 30, 0), ("64 KiB", "4", 30, 0)]
    );
    let bytes: Vec<u64> = measured(&result).iter().map(|w| w.bytes).collect();
    assert_eq!(bytes, [30 << 10, 30 << 10, 30 << 16, 30 << 16]);
    for (arguments, expected) in [
        (&["--sweep", "size=1KiB", "--size", "2KiB"][..], "the sweep sets size"),
        (&["--sweep", "concurrency=1", "--rate", "5/s"], "concurrency"),
        (&["--sweep", "colour=red"], "cannot be swept"),
        (&["--sweep", "size=1KiB", "--keys", "keys.txt"], "sweep another field"),
    ] {
        let refused = plimsoll(&["run", "get", "--store", &store]).args(arguments).output().unwrap();
        let message = text(&refused.stderr);
        assert!(refused.status.code() == Some(2) && message.contains(expected), "{arguments:?}: {message}");
    }
    let file = plimsoll(&["run", "quickstart", "--sweep", "size=1KiB"]).output().unwrap();
    assert!(text(&file.stderr).contains("--sweep: only the short forms"), "{}", text(&file.stderr));
}
