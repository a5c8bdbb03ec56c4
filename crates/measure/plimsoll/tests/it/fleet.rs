//! Fleets of processes on this machine: merged results, a lost node, and clean-up.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use plimsoll_engine::store::{Ignore, Request};
use plimsoll_judge::run_dir::json;
use plimsoll_judge::summary::result::RunResult;

use crate::support::ask::{fails, good, write};
use crate::support::{Server, block_on, kill, plimsoll, scratch, text};

const EXPERIMENT: &str = "name = 'fleet'\nstores = []\n\
    [[phase]]\nname = 'objects'\nrole = 'prepare'\noperations = { put = 1 }\nobjects = { count = 40, size = '2 KiB' }\n\
    [[phase]]\nname = 'read'\noperations = { get = 3, put = 1 }\nobjects = { from = 'objects' }\nrate = '300/s'\n\
    in_flight = 32\nduration = '2s'\n";

fn fleet(dir: &Path, server: &Server, experiment: &str, nodes: u32) -> Command {
    let file = write(dir, "fleet.toml", experiment);
    let store = format!("s3://bucket/a/prefix?endpoint={}", server.endpoint());
    let on = format!("local:{nodes}");
    let mut command =
        plimsoll(&["fleet", "run", file.to_str().unwrap(), "--on", &on, "--store", &store, "--json"]);
    command.arg("--out").arg(dir.join("runs"));
    command
}

fn objects_left(server: &Server) -> usize {
    let store = server.store("");
    let list = Request::List { prefix: "", start_after: "", token: "", max_keys: 1000 };
    let listed = block_on(store.connection(0).execute(list, &mut Ignore)).unwrap();
    listed.listing.unwrap().objects.len()
}

fn node_runs(dir: &Path) -> Vec<PathBuf> {
    let fleet = std::fs::read_dir(dir.join("runs")).unwrap().flatten().map(|entry| entry.path());
    let fleet = fleet.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("fleet-"));
    let runs = fleet.flat_map(|path| std::fs::read_dir(path).unwrap().flatten().map(|entry| entry.path()));
    runs.collect()
}

#[test]
fn a_fleet_executes_every_operation_once_and_starts_together() {
    let dir = scratch("fleet");
    let server = Server::start("latency=1ms", false);
    server.ready("");
    let run = fleet(&dir, &server, EXPERIMENT, 4).output().unwrap();
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    let result: RunResult = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(result.run.degraded, None);
    let operations =
        |phase: &str| result.windows.iter().filter(|w| w.phase == phase).map(|w| w.operations).sum::<u64>();
    assert_eq!((operations("objects"), operations("read")), (40, 600));
    assert_eq!(result.run.shards.len(), 4);
    assert!(result.run.shards.iter().all(|shard| shard.prepared == Some(4) && !shard.partial));
    assert!(result.run.shards.iter().all(|shard| shard.host_offset_s.is_some()), "{:?}", result.run.shards);
    assert_eq!(objects_left(&server), 0);
    // The run directories of the nodes are complete, and merge to the same result.
    let runs = node_runs(&dir);
    assert_eq!(runs.len(), 4);
    let sum: u64 = runs.iter().flat_map(|run| json::read(run).unwrap().windows).map(|w| w.operations).sum();
    assert_eq!(sum, 640);
}

#[test]
fn a_lost_node_costs_its_share_and_nothing_else() {
    let dir = scratch("fleet-lost");
    let server = Server::start("latency=1ms", false);
    server.ready("");
    let experiment = EXPERIMENT.replace("'2s'", "'4s'");
    let mut command = fleet(&dir, &server, &experiment, 4);
    let mut running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The first line of progress shows that the measurement is under way.
    let mut notes = String::new();
    for line in BufReader::new(running.stderr.take().unwrap()).lines() {
        let line = line.unwrap();
        let measuring = line.starts_with("read: ");
        notes += &format!("{line}\n");
        if measuring {
            break;
        }
    }
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", running.id())).unwrap();
    let third = children.split_whitespace().nth(2).unwrap();
    assert!(kill("-9", third.parse().unwrap()));
    let run = running.wait_with_output().unwrap();
    assert_eq!(run.status.code(), Some(1), "{notes}");
    let result: RunResult = serde_json::from_slice(&run.stdout).unwrap();
    let degraded = result.run.degraded.unwrap();
    assert!(degraded.contains("shard 3 of 4 is missing"), "{degraded}");
    let operations: u64 = result.windows.iter().filter(|w| w.phase == "read").map(|w| w.operations).sum();
    assert_eq!(operations, 900, "the other nodes executed all of their operations");
    let failed: u64 = result.windows.iter().flat_map(|w| w.errors.values()).sum();
    assert_eq!(failed, 0);
    assert_eq!(objects_left(&server), 0, "the objects of the lost node are deleted too");
}

#[test]
fn a_store_that_cannot_be_reached_ends_the_fleet_with_its_error() {
    let dir = scratch("fleet-unreachable");
    let file = write(&dir, "fleet.toml", EXPERIMENT);
    let out = dir.join("runs");
    let base =
        ["fleet", "run", file.to_str().unwrap(), "--timeout", "2s", "--out", out.to_str().unwrap(), "--on"];
    let store = ["--store", "s3://bucket/x?endpoint=http://127.0.0.1:1"];
    fails(&[&base[..], &["local:2"], &store].concat(), 3, &["failed before the measurement", "127.0.0.1:1"]);
    assert!(!out.exists() || std::fs::read_dir(&out).unwrap().count() == 0);
    // Invalid input is refused before any process starts.
    for (on, code, expected) in [
        ("nomad", 2, "unknown engine"),
        ("local:0", 2, "from 1 to"),
        ("ssh:/no/such/file", 2, "/no/such/file"),
        ("ray", 2, "--nodes"),
        ("slurm", 2, "salloc"),
        ("local:64", 2, "operations in flight"),
    ] {
        fails(&[&base[..], &[on], &store].concat(), code, &[expected]);
    }
}

#[test]
fn ssh_gets_one_command_for_each_host() {
    let dir = scratch("fleet-ssh");
    // A stand-in for ssh runs the command on this machine, as a host would, without the options of ssh.
    let ssh = write(&dir, "ssh", "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done; shift; exec \"$@\"\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&ssh, mode).unwrap();
    let hosts = write(&dir, "hosts.txt", "# two hosts\nhost-a\nuser@host-b\n");
    let server = Server::start("", false);
    server.ready("");
    let file = write(&dir, "fleet.toml", EXPERIMENT);
    let store = format!("s3://bucket/x?endpoint={}", server.endpoint());
    let on = format!("ssh:{}", hosts.display());
    let program = env!("CARGO_BIN_EXE_plimsoll");
    let out = dir.join("runs");
    let path = format!("{}:{}", dir.display(), std::env::var("PATH").unwrap());
    let run = plimsoll(&["fleet", "run", file.to_str().unwrap(), "--on", &on, "--store", &store])
        .args(["--program", program, "--forward-credentials", "--out", out.to_str().unwrap()])
        .env("PATH", path)
        .output()
        .unwrap();
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    let shown = text(&run.stdout);
    assert!(shown.contains("host-a") && shown.contains("user@host-b"), "{shown}");
}

#[test]
fn a_manifest_describes_an_indexed_job() {
    let manifest = good(&["fleet", "manifest", "--nodes", "8", "--image", "plimsoll:1", "--secret", "keys"]);
    let job: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    assert_eq!(job["spec"]["completionMode"], "Indexed");
    assert_eq!(job["spec"]["completions"], 8);
    let container = &job["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["args"], serde_json::json!(["--of", "8"]));
    assert_eq!(container["envFrom"][0]["secretRef"]["name"], "keys");
}

#[test]
fn a_ramp_ends_at_the_plateau_of_all_nodes() {
    let dir = scratch("fleet-ramp");
    let server = Server::start("latency=5ms,capacity=300/s", false);
    server.ready("");
    let experiment = "name = 'ramp'\nstores = []\n\
        [[phase]]\nname = 'objects'\nrole = 'prepare'\noperations = { put = 1 }\nobjects = { count = 10, size = '1 KiB' }\n\
        [[phase]]\nname = 'climb'\noperations = { get = 1 }\nobjects = { from = 'objects' }\n\
        concurrency = { from = 2, step = 2, to = 100, every = '1s', stop = 'plateau' }\n";
    let run = fleet(&dir, &server, experiment, 2).output().unwrap();
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    let result: RunResult = serde_json::from_slice(&run.stdout).unwrap();
    let ramp = &result.ramps[0];
    assert!(ramp.reached && ramp.steps < 50, "{ramp:?}");
    let steps: Vec<Vec<u32>> = node_runs(&dir)
        .iter()
        .map(|run| json::read(run).unwrap().windows.iter().filter_map(|w| w.step).collect())
        .collect();
    assert_eq!(steps[0], steps[1], "both nodes count the same steps");
}
