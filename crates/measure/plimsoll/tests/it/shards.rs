//! Runs eight shards as eight processes, each in its own network namespace if the system permits it. The merged result
//! must match the operation logs, and each operation must run exactly once.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{Server, block_on, plimsoll, scratch, text};
use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, UInt64Type};
use plimsoll_engine::store::{Ignore, Request};
use plimsoll_judge::run_dir::read::{batches, intervals};
use plimsoll_judge::summary::result::RunResult;

const SHARDS: u64 = 8;

/// A network bridge with one namespace per shard. Both are deleted when it is dropped.
struct Network {
    name: String,
}

fn ip(arguments: &str) -> bool {
    let run =
        Command::new("ip").args(arguments.split(' ')).stdout(Stdio::null()).stderr(Stdio::null()).status();
    run.is_ok_and(|status| status.success())
}

impl Network {
    const ADDRESS: &str = "10.213.7.1";

    /// Creates the bridge and the namespaces; `None` if the system does not permit it.
    fn new() -> Option<Network> {
        let network = Network { name: format!("pl{}", std::process::id() % 100_000) };
        let name = &network.name;
        let bridged = ip(&format!("link add {name} type bridge"))
            && ip(&format!("addr add {}/24 dev {name}", Network::ADDRESS))
            && ip(&format!("link set {name} up"));
        let joined = |shard: u64| {
            let (space, outer, inner) =
                (network.space(shard), format!("{name}o{shard}"), format!("{name}i{shard}"));
            ip(&format!("netns add {space}"))
                && ip(&format!("link add {outer} type veth peer name {inner}"))
                && ip(&format!("link set {inner} netns {space}"))
                && ip(&format!("link set {outer} master {name}"))
                && ip(&format!("link set {outer} up"))
                && ip(&format!("-n {space} addr add 10.213.7.{}/24 dev {inner}", shard + 1))
                && ip(&format!("-n {space} link set {inner} up"))
        };
        (bridged && (1..=SHARDS).all(joined)).then_some(network)
    }

    fn space(&self, shard: u64) -> String {
        format!("{}n{shard}", self.name)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for shard in 1..=SHARDS {
            ip(&format!("netns del {}", self.space(shard)));
        }
        ip(&format!("link del {}", self.name));
    }
}

const EXPERIMENT: &str = "name = 'shards'\nstores = []\n\
    [[phase]]\nname = 'objects'\nrole = 'prepare'\noperations = { put = 1 }\n\
    objects = { count = 50, size = { uniform = ['1 KiB', '20 KiB'] } }\n\
    [[phase]]\nname = 'open'\noperations = { get = 3, put = 1 }\nobjects = { from = 'objects', popularity = 'zipfian' }\n\
    rate = '600/s'\narrival = 'poisson'\nduration = '4s'\n\
    [[phase]]\nname = 'counted'\noperations = { get = 1 }\nobjects = { from = 'objects' }\nconcurrency = 16\nstop_after = 2001\n";

/// An operation in the log.
struct Row {
    phase: String,
    kind: String,
    number: u64,
    service_us: u64,
    /// False if the operation failed, as operations do on a machine that is too busy to connect within ten seconds.
    is_ok: bool,
}

fn rows(batch: &RecordBatch, out: &mut Vec<Row>) {
    let word = |name: &str, i: usize| {
        let column = batch.column_by_name(name).unwrap().as_dictionary::<Int32Type>().clone();
        let key = column.keys().value(i) as usize;
        column.values().as_string::<i32>().value(key).to_string()
    };
    let number = |name: &str| batch.column_by_name(name).unwrap().as_primitive::<UInt64Type>().clone();
    let (numbers, starts, ends) = (number("number"), number("start_ns"), number("end_ns"));
    for i in 0..batch.num_rows() {
        let service_us = ends.value(i).saturating_sub(starts.value(i)).saturating_add(500) / 1000;
        let (phase, kind, is_ok) = (word("phase", i), word("operation", i), word("outcome", i) == "ok");
        out.push(Row { phase, kind, number: numbers.value(i), service_us, is_ok });
    }
}

fn shard_runs(server: &Server, network: Option<&Network>, dir: &Path) -> Vec<PathBuf> {
    let file = dir.join("shards.toml");
    std::fs::write(&file, EXPERIMENT).unwrap();
    let host = if network.is_some() { Network::ADDRESS } else { "127.0.0.1" };
    let store = format!("s3://bucket/some/prefix?endpoint=http://{host}:{}", server.address.port());
    // Four seconds are enough for eight processes to start and prepare on a busy machine. A late shard reports the
    // delay, and its operations still count.
    let at = plimsoll_base::clock::wall_now().as_second() + 4;
    let children: Vec<_> = (1..=SHARDS)
        .map(|shard| {
            let (part, at, out) = (format!("{shard}/{SHARDS}"), at.to_string(), dir.join("runs"));
            let arguments =
                ["run", file.to_str().unwrap(), "--store", &store, "--shard", &part, "--start-at", &at];
            let inner = plimsoll(&arguments);
            let mut command = match network {
                None => inner,
                Some(network) => {
                    let mut outer = Command::new("ip");
                    outer
                        .args(["netns", "exec", &network.space(shard)])
                        .arg(inner.get_program())
                        .args(inner.get_args());
                    for (name, value) in inner.get_envs() {
                        outer.env(name, value.unwrap_or_default());
                    }
                    outer
                }
            };
            command.args(["--record", "operations", "--json", "--out"]).arg(out);
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }
    std::fs::read_dir(dir.join("runs")).unwrap().flatten().map(|e| e.path()).collect()
}

/// Asserts that each operation of a phase ran on exactly one shard.
fn assert_once(logged: &[Row]) {
    let mut numbers: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    logged.iter().for_each(|row| numbers.entry(row.phase.clone()).or_default().push(row.number));
    for (phase, numbers) in &mut numbers {
        numbers.sort_unstable();
        let distinct: BTreeSet<u64> = numbers.iter().copied().collect();
        assert!(
            distinct.iter().copied().eq(0..numbers.len() as u64),
            "{phase}: each operation runs exactly once"
        );
    }
    assert_eq!((numbers["objects"].len(), numbers["counted"].len()), (50, 2001));
    assert!(numbers["open"].len() > 2000);
}

/// Asserts that the log of the size classes of all shards, added up, has the histograms of the merged windows.
fn assert_classes(result: &RunResult, merged_run: &Path, operations: u64) {
    let classes = result.windows.iter().flat_map(|window| &window.size_classes);
    assert_eq!(
        classes.map(|class| class.service_ms.n).sum::<u64>(),
        operations,
        "each operation has a size class"
    );
    let verified = plimsoll(&["verify"]).arg(merged_run).output().unwrap();
    assert_eq!(verified.status.code(), Some(0), "{}", text(&verified.stdout));
}

#[test]
fn eight_shards_merge_into_one_run() {
    let network = Network::new();
    if network.is_none() {
        eprintln!("skipped: network namespaces: `ip` is not installed, or this user cannot create them");
    }
    // With namespaces, the server listens on the bridge for the shards and on loopback for this test.
    let address = if network.is_some() { "0.0.0.0:0" } else { "127.0.0.1:0" };
    let server = Server::start_on(address, "latency=lognormal(3ms;0.5)", false);
    let store = server.ready("");
    let dir = scratch("shards");
    let mut runs = shard_runs(&server, network.as_ref(), &dir);
    runs.sort();
    assert_eq!(runs.len() as u64, SHARDS);

    let merged =
        plimsoll(&["merge", "--json", "--out"]).arg(dir.join("merged")).args(&runs).output().unwrap();
    assert_eq!(merged.status.code(), Some(0), "{}", text(&merged.stderr));
    let result: RunResult = serde_json::from_slice(&merged.stdout).unwrap();
    assert_eq!(result.run.shards.len() as u64, SHARDS);

    let mut logged = Vec::new();
    for run in &runs {
        batches(&run.join("operations.arrows")).unwrap().iter().for_each(|batch| rows(batch, &mut logged));
    }
    assert_once(&logged);

    let mut compared = 0;
    for window in &result.windows {
        let of_window = |row: &&Row| row.phase == window.phase && row.kind == window.operation.name();
        if logged.iter().filter(of_window).any(|row| !row.is_ok) {
            continue;
        }
        let mut values: Vec<u64> = logged.iter().filter(of_window).map(|row| row.service_us).collect();
        values.sort_unstable();
        assert_eq!(window.operations, values.len() as u64);
        for (name, q) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)] {
            let Some(reported) = window.service_ms.get(name) else { continue };
            let logged_us = values[((q * values.len() as f64).ceil() as usize).max(1) - 1] as f64;
            assert!(
                (reported * 1000.0 - logged_us).abs() <= logged_us * 0.001 + 1.0,
                "{} {name}: reported {reported} ms, logged {logged_us} us",
                window.phase
            );
            compared += 1;
        }
    }
    let has_failures = logged.iter().any(|row| !row.is_ok);
    assert!(compared >= 6 || has_failures, "only {compared} percentiles were compared");

    let merged_run = dir.join("merged").join(&result.run.id);
    let seconds: u64 = intervals(&merged_run).unwrap().iter().map(|row| row.tally.operations).sum();
    assert!(
        has_failures || seconds == logged.len() as u64,
        "the merged interval log holds every operation once"
    );

    if !has_failures {
        assert_classes(&result, &merged_run, logged.len() as u64);
    }

    let seven =
        plimsoll(&["merge", "--json", "--out"]).arg(dir.join("seven")).args(&runs[1..]).output().unwrap();
    let seven: RunResult = serde_json::from_slice(&seven.stdout).unwrap();
    assert!(seven.run.degraded.unwrap().contains("is missing"));

    block_on(async {
        let list = Request::List { prefix: "some/prefix/", start_after: "", token: "", max_keys: 1000 };
        let left = store.connection(0).execute(list, &mut Ignore).await.unwrap().listing.unwrap();
        assert!(left.objects.is_empty(), "a shard left objects: {:?}", left.objects.first());
    });
}
