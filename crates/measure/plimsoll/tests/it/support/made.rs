//! Synthetic run directories of any length with known latencies, for tests and benches of the code that reads them.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use plimsoll_base::rng::Stream;
use plimsoll_judge::run_dir::directory::RunDirectory;
use plimsoll_judge::run_dir::environment::{Environment, StoreFacts};
use plimsoll_judge::run_dir::intervals::IntervalKey;
use plimsoll_judge::summary::percentiles::percentiles;
use plimsoll_judge::summary::result::{RunInfo, RunResult, SCHEMA, ShardInfo, Window};
use plimsoll_recorder::collector::SecondRow;
use plimsoll_recorder::histogram::Latencies;
use plimsoll_recorder::latency::Latency;
use plimsoll_recorder::tally::Tally;
use plimsoll_workload::OperationKind;
use plimsoll_workload::schedule::Role;

/// Start of every synthetic run, in Unix seconds.
const ORIGIN_S: f64 = 1_800_000_000.0;

/// Parameters of a synthetic run.
#[derive(Clone)]
pub struct Made {
    /// Id of the run; also the name of its directory.
    pub id: String,
    /// URLs of the stores, each with a factor that multiplies its latencies.
    pub stores: Vec<(String, f64)>,
    /// Length of the run in seconds.
    pub seconds: u64,
    /// Operations per second.
    pub per_s: u64,
    /// Failed operations per second.
    pub failed: u64,
    /// Second from which all operations fail; `None` if the store does not break down.
    pub broken_from: Option<u64>,
    /// Standard deviation of the logarithm of the latency level from second to second.
    pub spread: f64,
    /// Vantage point of the client.
    pub vantage: String,
    /// Object size as written in the experiment.
    pub size: String,
    /// Provider and endpoint of the stores.
    pub place: (String, String),
    /// True if the experiment lists the stores in the reverse of the order in which they ran.
    pub ran_backwards: bool,
    /// Reason why the client limited the measurement at the last store; `None` if it did not.
    pub limited: Option<String>,
    /// Number of operations in flight.
    pub concurrency: usize,
    /// True if the run is an import of another tool's log.
    pub imported: bool,
    /// Number of the shard, from 1, and number of shards; `None` if the run is not a shard.
    pub shard: Option<(u64, u64)>,
}

impl Default for Made {
    fn default() -> Made {
        Made {
            id: "run".into(),
            stores: vec![("s3://a".into(), 1.0)],
            seconds: 60,
            per_s: 200,
            failed: 0,
            broken_from: None,
            spread: 0.05,
            vantage: String::new(),
            size: "1 KiB".into(),
            place: (String::new(), String::new()),
            ran_backwards: false,
            limited: None,
            concurrency: 16,
            imported: false,
            shard: None,
        }
    }
}

impl Made {
    fn tally(&self, draws: Stream, number: u64, factor: f64) -> Tally {
        let level = (self.spread * draws.normal(number)).exp() * factor;
        let broken = self.broken_from.is_some_and(|from| number % 1000 >= from);
        let failed = if broken { self.per_s } else { self.failed };
        let good = self.per_s - failed;
        let mut tally = Tally {
            operations: self.per_s,
            attempts: self.per_s,
            succeeded: good,
            completed: good,
            bytes: good as f64 * 1024.0,
            in_flight_ns: 16_000_000_000,
            ..Tally::default()
        };
        if failed > 0 {
            tally.errors.insert("503 SlowDown".into(), failed);
        }
        for i in 0..good {
            let ns = 3e6 * level * (0.5 * draws.normal((number << 24) + i + 1)).exp();
            tally.latencies[Latency::Service].record(ns as u64);
            tally.latencies[Latency::FirstByte].record((ns * 0.9) as u64);
        }
        tally
    }

    fn window(&self, store: &str, sums: &Tally) -> Window {
        let encode = |latencies: &Latencies| STANDARD.encode(latencies.to_bytes());
        let seconds = self.seconds as f64;
        Window {
            store: store.into(),
            provider: self.place.0.clone(),
            phase: "get".into(),
            role: Role::Measure,
            operation: plimsoll_workload::OperationKind::from_name("get").unwrap(),
            loop_: plimsoll_judge::summary::result::LoopKind::Closed,
            concurrency: self.concurrency,
            client_limited: self.limited.clone().filter(|_| self.stores.last().is_some_and(|s| s.0 == store)),
            start_unix_s: ORIGIN_S,
            window_s: seconds,
            operations: sums.operations,
            attempts: sums.operations,
            errors: sums.errors.clone(),
            achieved_per_s: sums.completed as f64 / seconds,
            throughput_bytes_per_s: sums.bytes / seconds,
            bytes: sums.bytes as u64,
            in_flight_mean: 16.0,
            service_ms: percentiles(&sums.latencies[Latency::Service]),
            first_byte_ms: percentiles(&sums.latencies[Latency::FirstByte]),
            histograms: BTreeMap::from([
                ("service".to_string(), encode(&sums.latencies[Latency::Service])),
                ("first_byte".to_string(), encode(&sums.latencies[Latency::FirstByte])),
            ]),
            ..Window::default()
        }
    }

    fn shard_info(&self, shard: u64, of: u64) -> ShardInfo {
        ShardInfo {
            shard,
            of,
            run: self.id.clone(),
            start_at_unix_s: ORIGIN_S,
            start_late_s: Some(0.0),
            ..ShardInfo::default()
        }
    }

    /// Writes the run below `out` and returns its directory.
    pub fn write(&self, out: &Path) -> io::Result<PathBuf> {
        let experiment = if self.imported {
            "name = \"imported\"\n".into()
        } else {
            format!(
                "seed = 1\n[[phase]]\nname = \"get\"\nrole = \"measure\"\nconcurrency = 16\n[phase.objects]\nsize = \"{}\"\n",
                self.size
            )
        };
        let mut directory = RunDirectory::create(out, &self.id, &experiment, false)?;
        let (provider, endpoint) = &self.place;
        let mut listed = self.stores.clone();
        if self.ran_backwards {
            listed.reverse();
        }
        let facts = listed.iter().map(|(url, _)| StoreFacts {
            url: url.clone(),
            provider: provider.clone(),
            endpoint: endpoint.clone(),
            ..StoreFacts::default()
        });
        let environment = Environment {
            origin_unix_s: ORIGIN_S,
            stores: facts.collect(),
            vantage: self.vantage.clone(),
            ..Environment::default()
        };
        // A store has at most 200 distinct seconds; longer runs draw from them at random.
        let draws = Stream::new(plimsoll_base::rng::hash_name(&self.id), "made");
        let pools: Vec<Vec<Tally>> = (0..self.stores.len())
            .map(|s| {
                (0..self.seconds.min(200))
                    .map(|n| self.tally(draws, s as u64 * 1000 + n, self.stores[s].1))
                    .collect()
            })
            .collect();
        let mut sums: Vec<Tally> = self.stores.iter().map(|_| Tally::default()).collect();
        for second in 0..self.seconds {
            for (number, (store, _)) in self.stores.iter().enumerate() {
                let pool = &pools[number];
                let pick = if self.seconds <= 200 { second } else { draws.below(second, 200) };
                let tally = &pool[pick as usize];
                let place =
                    IntervalKey { store, phase: "get", role: Role::Measure, repeat: 0, block: 0, step: None };
                directory
                    .second(place, &SecondRow { second, phase: number, kind: OperationKind::Get, tally });
                sums[number].merge(tally);
            }
        }
        let windows =
            self.stores.iter().zip(&sums).map(|((store, _), sums)| self.window(store, sums)).collect();
        let run = RunInfo {
            id: self.id.clone(),
            experiment: "get".into(),
            seed: 1,
            started_at: jiff::Timestamp::from_second(ORIGIN_S as i64).unwrap().to_string(),
            imported: self.imported.then(|| "log of a tool".into()),
            shards: self.shard.iter().map(|(shard, of)| self.shard_info(*shard, *of)).collect(),
            ..RunInfo::default()
        };
        let result = RunResult { schema: SCHEMA, run, windows, ..RunResult::default() };
        let (run, unwritten) = directory.finish(result, environment);
        unwritten.map_or(Ok(run.path), Err)
    }
}

/// Writes a default run, modified by `change`, below `out` and returns its directory.
pub fn made(out: &Path, id: &str, change: impl Fn(&mut Made)) -> PathBuf {
    let mut made = Made { id: id.into(), ..Made::default() };
    change(&mut made);
    made.write(out).unwrap()
}
