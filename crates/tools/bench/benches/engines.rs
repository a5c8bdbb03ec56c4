//! Compares engines for the catalog: durable puts of 1 KiB in groups of 64, gets, a mix, the time of a start after a
//! clean stop and after a kill, disk and memory.
//!
//! `cargo bench -p plimsoll-bench --bench engines -- RECORDS [ENGINE]` (default: 1,000,000 records, all engines).
//! Each engine runs in its own process, so CPU time and memory are those of one engine.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "prints its results")]

use std::path::{Path, PathBuf};

use plimsoll_base::clock::{now_ns, process_cpu_ns};
use plimsoll_base::rng::mix;
use plimsoll_catalog::committer::Durability;
use plimsoll_catalog::embedded::catalog::{CatalogSettings, EmbeddedCatalog};
use plimsoll_catalog::embedded::head_only;
use plimsoll_catalog::{Catalog, Value, Work};
use redb::ReadableDatabase;

/// Records per durable group, as with 64 requests in flight.
const GROUP: u64 = 64;
/// Size of a value in bytes.
const SIZE: usize = 1024;

type Pair = (Vec<u8>, Vec<u8>);

/// An engine under test.
trait Engine {
    fn put(&mut self, pairs: Vec<Pair>);
    fn get(&mut self, key: &[u8]) -> Option<Vec<u8>>;
    /// Stops the engine cleanly.
    fn close(self: Box<Self>);
}

struct Log(EmbeddedCatalog);

impl Engine for Log {
    fn put(&mut self, pairs: Vec<Pair>) {
        let work: Work = Box::new(move |t| {
            for (key, body) in pairs.clone() {
                t.get(&key)?;
                let value = Value { body: body.into(), ..head_only(vec![1; 48]) };
                t.put(key, value);
            }
            Ok(true)
        });
        plimsoll_catalog::blocking::block_on(self.0.commit(work, 0)).unwrap();
    }

    fn get(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        let row = self.0.get(key).unwrap()?;
        Some(self.0.value(key, &row).unwrap().body.to_vec())
    }

    fn close(self: Box<Log>) {
        self.0.close().unwrap();
    }
}

struct Fjall(fjall::Database, fjall::Keyspace);

impl Engine for Fjall {
    fn put(&mut self, pairs: Vec<Pair>) {
        let mut batch = self.0.batch();
        for (key, value) in pairs {
            self.1.get(&key).unwrap();
            batch.insert(&self.1, key, value);
        }
        batch.durability(Some(fjall::PersistMode::SyncData)).commit().unwrap();
    }

    fn get(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        self.1.get(key).unwrap().map(|value| value.to_vec())
    }

    fn close(self: Box<Fjall>) {}
}

struct Redb(redb::Database);

const TABLE: redb::TableDefinition<'_, &[u8], &[u8]> = redb::TableDefinition::new("objects");

impl Engine for Redb {
    fn put(&mut self, pairs: Vec<Pair>) {
        let transaction = self.0.begin_write().unwrap();
        {
            let mut table = transaction.open_table(TABLE).unwrap();
            for (key, value) in pairs {
                table.insert(&key[..], &value[..]).unwrap();
            }
        }
        transaction.commit().unwrap();
    }

    fn get(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        let transaction = self.0.begin_read().unwrap();
        let table = transaction.open_table(TABLE).unwrap();
        table.get(key).unwrap().map(|value| value.value().to_vec())
    }

    fn close(self: Box<Redb>) {}
}

fn open(name: &str, path: &Path) -> Box<dyn Engine> {
    match name {
        "log" => {
            let settings = CatalogSettings { durability: Durability::Sync, ..CatalogSettings::default() };
            Box::new(Log(EmbeddedCatalog::open(path, settings).unwrap().0))
        }
        "fjall" => {
            let database = fjall::Database::builder(path).cache_size(64 << 20).open().unwrap();
            let options = || {
                let separation = fjall::KvSeparationOptions::default().separation_threshold(512);
                fjall::KeyspaceCreateOptions::default().with_kv_separation(Some(separation))
            };
            let keyspace = database.keyspace("objects", options).unwrap();
            Box::new(Fjall(database, keyspace))
        }
        _ => {
            std::fs::create_dir_all(path).unwrap();
            let database = redb::Database::builder().set_cache_size(64 << 20).create(path.join("redb"));
            Box::new(Redb(database.unwrap()))
        }
    }
}

fn key(i: u64) -> Vec<u8> {
    format!("o0001user{:020}", mix(i)).into_bytes()
}

fn body(i: u64) -> Vec<u8> {
    (0..SIZE / 8).flat_map(|j| mix(i * 131 + j as u64).to_le_bytes()).collect()
}

fn bytes_of(path: &Path) -> u64 {
    std::fs::read_dir(path)
        .unwrap()
        .flatten()
        .map(|entry| {
            let meta = entry.metadata().unwrap();
            if meta.is_dir() { bytes_of(&entry.path()) } else { meta.len() }
        })
        .sum()
}

fn rss_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

fn seconds_since(start_ns: u64) -> f64 {
    (now_ns() - start_ns) as f64 / 1e9
}

/// Runs `work` and prints operations per second and CPU time per operation.
fn timed(name: &str, what: &str, operations: u64, work: impl FnOnce()) {
    let (start, cpu) = (now_ns(), process_cpu_ns());
    work();
    let (seconds, cpu) = (seconds_since(start), process_cpu_ns() - cpu);
    let cpu_us = cpu as f64 / 1000.0 / operations as f64;
    println!("{name:6} {what:10} {:>9.0}/s  {cpu_us:6.2} us CPU", operations as f64 / seconds);
}

fn measure(name: &str, records: u64, path: &Path) {
    let mut engine = open(name, path);
    timed(name, "put", records, || {
        for start in (0..records).step_by(GROUP as usize) {
            engine.put((start..records.min(start + GROUP)).map(|i| (key(i), body(i))).collect());
        }
    });
    let gets = 300_000;
    timed(name, "get", gets, || {
        for i in 0..gets {
            let i = mix(i) % records;
            assert_eq!(engine.get(&key(i)).unwrap().len(), SIZE);
        }
    });
    timed(name, "mix 80/20", gets, || {
        let mut pending = Vec::new();
        for i in 0..gets {
            let at = mix(i + 7) % records;
            if i % 5 != 0 {
                engine.get(&key(at)).unwrap();
                continue;
            }
            pending.push((key(at), body(at)));
            if pending.len() as u64 == GROUP / 4 {
                engine.put(std::mem::take(&mut pending));
            }
        }
    });
    engine.close();
    let start = now_ns();
    let mut engine = open(name, path);
    assert!(engine.get(&key(0)).is_some());
    println!("{name:6} clean start {:.2} s, peak memory {} MB", seconds_since(start), rss_mb());
    // The process ends without closing, as after a kill.
    std::mem::forget(engine);
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let records = arguments.first().and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    let base = std::env::temp_dir().join("plimsoll-engines");
    if let [_, name, path] = arguments.as_slice() {
        if let Some(restart) = path.strip_prefix("restart:") {
            let start = now_ns();
            assert!(open(name, Path::new(restart)).get(&key(0)).is_some());
            println!("{name:6} start after a kill {:.2} s", seconds_since(start));
        } else {
            measure(name, records, Path::new(path));
        }
        return;
    }
    let only = arguments.get(1);
    let program = std::env::current_exe().unwrap();
    for name in ["log", "fjall", "redb"].into_iter().filter(|name| only.is_none_or(|only| only == name)) {
        let _ = std::fs::remove_dir_all(&base);
        let path: PathBuf = base.clone();
        std::fs::create_dir_all(&path).unwrap();
        let run = |place: String| {
            let status = std::process::Command::new(&program)
                .args([records.to_string(), name.to_string(), place])
                .status();
            assert!(status.unwrap().success());
        };
        run(path.display().to_string());
        run(format!("restart:{}", path.display()));
        let bytes = bytes_of(&path);
        println!("{name:6} disk {:.2} x the values", bytes as f64 / (records * SIZE as u64) as f64);
    }
    let _ = std::fs::remove_dir_all(&base);
}
