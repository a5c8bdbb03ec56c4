//! Runs every command against every hostile server. Each command must end in time, use less than 64 MiB of memory, exit
//! with code 1, 2 or 3, print one line, and leave foreign objects alone. A new command needs one line in `COMMANDS`, a
//! new server one line in `SERVERS`.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::hostile::{Hostile, Peer, SERVERS};
use crate::support::{data, kill, plimsoll, scratch};

/// A command line. `S3`, `WEB`, `GS`, `AZ`, `DYNAMO` and `EXPRESS` are replaced by stores on the server, `OUT` and
/// `RUN` by directories, and `PYTHON` by a program that stands for a Python with boto3, because the output of
/// `run clients` depends on the clients that are installed.
struct Case {
    name: &'static str,
    line: &'static str,
    /// True if the command fetches its credentials from the hostile server.
    asks_for_credentials: bool,
}

const fn case(name: &'static str, line: &'static str) -> Case {
    Case { name, line, asks_for_credentials: false }
}

const COMMANDS: &[Case] = &[
    case("get", "run get --store S3 --objects 5 --duration 1s --warmup 0s --json --timeout 1s --out OUT"),
    case("put", "run put --store S3 --objects 5 --duration 1s --warmup 0s --json --timeout 1s --out OUT"),
    case("list", "run list --store S3 --objects 5 --duration 1s --warmup 0s --json --timeout 1s --out OUT"),
    case(
        "delete",
        "run delete --store S3 --objects 5 --duration 1s --warmup 0s --json --timeout 1s --out OUT",
    ),
    case(
        "parts",
        "run put --store S3 --objects 2 --operations 2 --warmup 0s --size 6MiB --part-size 5MiB --json --timeout 1s --out OUT",
    ),
    case(
        "capacity",
        "run capacity --store S3 --slo get.p99<10ms --objects 5 --from 10/s --to 20/s --step 1s --json --timeout 1s --out OUT",
    ),
    case("web", "run get --store WEB --duration 1s --warmup 0s --json --timeout 1s --out OUT"),
    case(
        "presigned",
        "run get --store WEB?X-Amz-Signature=abcdefgh --duration 1s --warmup 0s --json --timeout 1s --out OUT",
    ),
    case("google", "run get --store GS --objects 5 --duration 1s --warmup 0s --json --timeout 1s --out OUT"),
    case("azure", "run get --store AZ --objects 5 --duration 1s --warmup 0s --json --timeout 1s --out OUT"),
    case(
        "azure parts",
        "run put --store AZ --objects 2 --operations 2 --warmup 0s --size 6MiB --part-size 5MiB --json --timeout 1s --out OUT",
    ),
    case(
        "dynamodb",
        "run get --store DYNAMO --objects 5 --duration 1s --warmup 0s --json --timeout 1s --out OUT",
    ),
    case(
        "express",
        "run get --store EXPRESS --objects 5 --duration 1s --warmup 0s --json --timeout 1s --out OUT",
    ),
    Case {
        name: "credentials",
        line: "run get --store S3 --objects 5 --duration 1s --warmup 0s --json --timeout 1s --out OUT",
        asks_for_credentials: true,
    },
    case("canary", "run canary --store S3 --operations 3 --every 1ms --timeout 1s --dir OUT --quiet"),
    case(
        "clients",
        "run clients --store S3 --objects 3 --rounds 1 --json --timeout 1s --out OUT --python PYTHON --clients boto3 \
         --program same=true",
    ),
    case("consistency", "run consistency --store S3 --duration 1s --json --timeout 1s --out OUT"),
    case("contention", "run contention --store S3 --writers 1,2 --duration 1s --json --timeout 1s --out OUT"),
    case("probe", "probe S3 --timeout 1s --json --out OUT"),
    case("fitness", "probe S3 --for all --rounds 1 --timeout 1s --json --quiet --out OUT"),
    case(
        "parquet",
        "run parquet PARQUET --store S3 --operations 9 --warmup 0s --json --quiet --timeout 1s --out OUT",
    ),
    case("sync", "run sync --store S3 --files 3 --size 1KiB --loops 1 --json --timeout 1s --out OUT"),
    case("ycsb load", "ycsb load -P workloada -p recordcount=10 --store S3 --json --timeout 1s --out OUT"),
    case(
        "ycsb run",
        "ycsb run -P workloada -p recordcount=10 -p operationcount=10 --store S3 --json --timeout 1s --out OUT",
    ),
    case("ycsb clean", "ycsb clean -P workloada -p recordcount=10 --store S3 --timeout 1s"),
    case("bucket create", "bucket create S3 --timeout 1s"),
    case("bucket delete", "bucket delete S3 --force --timeout 1s"),
    case("clean", "clean RUN --timeout 1s"),
];

/// Time limit per command. A command ends after at most one second of work, one second of timeout and five further
/// seconds. The limit is far higher because several commands run in parallel on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// Exit code, error output and peak memory of a command.
struct Ended {
    /// Exit code; `None` if the process was killed.
    code: Option<i32>,
    stderr: String,
    peak_kib: u64,
}

/// Returns the peak memory of a `plimsoll` process so far in KiB; 0 if it no longer runs.
///
/// Another child may reuse the process id. Until it calls exec, it shows the memory of this test, so the image is
/// checked first.
fn peak_kib(pid: u32) -> u64 {
    let image = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    if image.file_name() != Path::new(env!("CARGO_BIN_EXE_plimsoll")).file_name() {
        return 0;
    }
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|text| text.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

/// Runs a command until it ends, and kills it after `LIMIT`.
fn run(mut command: Command) -> Ended {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let mut stderr = child.stderr.take().unwrap();
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = stderr.read_to_end(&mut text);
        let _ = sender.send((child.wait(), text));
    });
    let (mut peak, step) = (0, Duration::from_millis(20));
    let mut left = LIMIT;
    loop {
        peak = peak.max(peak_kib(pid));
        match receiver.recv_timeout(step) {
            Ok((status, text)) => {
                let stderr = String::from_utf8_lossy(&text).into_owned();
                return Ended { code: status.unwrap().code(), stderr, peak_kib: peak };
            }
            Err(_) if left.is_zero() => {
                kill("-9", pid);
                return Ended { code: None, stderr: "the command did not end".into(), peak_kib: peak };
            }
            Err(_) => left = left.saturating_sub(step),
        }
    }
}

/// Creates a run directory as a killed run leaves it.
fn killed_run(directory: &Path, url: &str) -> std::path::PathBuf {
    let run = directory.join("killed");
    std::fs::create_dir_all(&run).unwrap();
    let experiment = "name = 'put'\n[[phase]]\nname = 'put'\noperations = { put = 1 }\nobjects = { count = 5 }\nduration = '1s'\n";
    std::fs::write(run.join("experiment.toml"), experiment).unwrap();
    let environment = serde_json::json!({
        "version": "0", "command": [], "vantage": "", "pid": 1, "machine": {}, "workers": 1,
        "stores": [{
            "url": url, "provider": "generic", "endpoint": "", "addresses": [], "signing": "", "rtt_ms": null, "tls_ms": null,
            "root": "some/prefix/plimsoll/20261121T000000-0123456789ab/", "clock_offset_s": null, "uncleaned": true,
        }],
    });
    std::fs::write(run.join("environment.json"), environment.to_string()).unwrap();
    run
}

/// Runs one command against one server. Returns a description of the first problem, or `None`.
fn pair(case: &Case, hostile: &'static Hostile, out: &Path) -> Option<String> {
    let peer = Peer::start(hostile);
    let port = peer.port;
    let s3 = format!("s3://bucket/some/prefix?endpoint=http://127.0.0.1:{port}");
    let run_directory = killed_run(out, &s3);
    let line: Vec<String> = case
        .line
        .split(' ')
        .map(|word| match word {
            "S3" => s3.clone(),
            "GS" => format!("gs://bucket/some/prefix?endpoint=http://127.0.0.1:{port}&sign=off"),
            "AZ" => format!("az://box/some/prefix?account=acme1&endpoint=http://127.0.0.1:{port}&sign=off"),
            "DYNAMO" => format!("dynamodb://table?endpoint=http://127.0.0.1:{port}"),
            "EXPRESS" => format!("s3://base--use1-az4--x-s3?endpoint=http://127.0.0.1:{port}"),
            "OUT" => out.join("runs").display().to_string(),
            "PARQUET" => data("r2-bench/r2-c5n-9xlarge.parquet").display().to_string(),
            "PYTHON" => data("python-with-boto3").display().to_string(),
            "RUN" => run_directory.display().to_string(),
            word => word.replace("WEB", &format!("http://127.0.0.1:{port}/object")),
        })
        .collect();
    let mut command = plimsoll(&line.iter().map(String::as_str).collect::<Vec<_>>());
    command.current_dir(out);
    if case.asks_for_credentials {
        command.env_remove("AWS_ACCESS_KEY_ID").env_remove("AWS_SECRET_ACCESS_KEY");
        command
            .env("HOME", out)
            .env("AWS_CONTAINER_CREDENTIALS_FULL_URI", format!("http://127.0.0.1:{port}/creds"));
    }
    let ended = run(command);
    let touched = peer.foreign_deletions();
    let lines = ended.stderr.lines().count();
    let problem = match () {
        () if !matches!(ended.code, Some(1..=3)) => format!("exit {:?}", ended.code),
        () if lines != 1 => format!("{lines} lines"),
        () if ended.stderr.chars().any(|c| c.is_control() && c != '\n') => "control characters".into(),
        () if ended.peak_kib >= 64 << 10 => format!("{} KiB of memory", ended.peak_kib),
        () if !touched.is_empty() => format!("touched {touched:?}"),
        () if peer.led_astray() => "followed a redirect".into(),
        () => return None,
    };
    Some(format!("{} x {}: {problem}: {}", case.name, hostile.name, ended.stderr))
}

#[test]
fn every_command_survives_every_hostile_server() {
    let out = scratch("hostile");
    let mut pairs: Vec<(usize, usize)> = Vec::new();
    for command in 0..COMMANDS.len() {
        pairs.extend((0..SERVERS.len()).map(|server| (command, server)));
    }
    let only = std::env::var("HOSTILE").unwrap_or_default();
    pairs.retain(|(c, s)| format!("{} x {}", COMMANDS[*c].name, SERVERS[*s].name).contains(&only));
    let queue = Arc::new(Mutex::new(pairs));
    let problems = Arc::new(Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            let (queue, problems, out) = (Arc::clone(&queue), Arc::clone(&problems), &out);
            scope.spawn(move || {
                while let Some((command, server)) = { queue.lock().unwrap().pop() } {
                    let place = out.join(format!("{command}-{server}"));
                    std::fs::create_dir_all(&place).unwrap();
                    if let Some(problem) = pair(&COMMANDS[command], &SERVERS[server], &place) {
                        problems.lock().unwrap().push(problem);
                    }
                }
            });
        }
    });
    let problems = problems.lock().unwrap();
    assert!(problems.is_empty(), "{} of the pairs have problems:\n{}", problems.len(), problems.join("\n"));
}
