//! Runs an experiment without the command line: a closed loop of reads on a store in memory, watched by the program.
//!
//! ```sh
//! cargo run --example library_run
//! ```

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "prints its results")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll::session::observer::RunObserver;
use plimsoll::session::{Components, SessionSettings, execute};
use plimsoll_experiment::resolve;
use plimsoll_recorder::collector::SecondRow;

const EXPERIMENT: &str = r#"
name = "library"
stores = ["memory:"]

[[phase]]
name = "load"
role = "prepare"
operations = { put = 1 }
objects = { count = 100, size = "4KiB" }

[[phase]]
name = "read"
operations = { get = 1 }
objects = { from = "load" }
concurrency = 2
duration = "2s"
"#;

/// Counts the operations while the run is in progress.
#[derive(Default)]
struct Counter(AtomicU64);

impl RunObserver for Counter {
    fn second(&self, row: &SecondRow<'_>) {
        self.0.fetch_add(row.tally.completed, Ordering::Relaxed);
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let experiment = resolve::parse("library", EXPERIMENT, &[])?;
    let settings =
        SessionSettings { out: std::env::temp_dir().join("plimsoll-library"), ..SessionSettings::default() };
    let counter = Arc::new(Counter::default());
    let components = Components { observer: counter.clone(), ..Components::default() };
    let summary = execute(&experiment, &settings, &components)?;
    for window in &summary.run.result.windows {
        println!(
            "{} {}: {:.0}/s, p99 {:?} ms",
            window.phase, window.operation, window.achieved_per_s, window.service_ms.p99
        );
    }
    println!(
        "{} operations seen; results: {}",
        counter.0.load(Ordering::Relaxed),
        summary.run.path.display()
    );
    summary.problem.map_or(Ok(()), |problem| Err(problem.into()))
}
