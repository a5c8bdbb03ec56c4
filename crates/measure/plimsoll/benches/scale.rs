//! Generates synthetic run directories of any size, for which `benches/judge.py` measures the time of reports.
//!
//!     cargo bench --bench scale -- DIRECTORY RUNS STORES SECONDS OPERATIONS_PER_SECOND [shards]
//!
//! With `shards`, the runs are the shards of one run.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "prints its results")]

use std::path::Path;

#[path = "../tests/it/support/made.rs"]
mod made;

use made::Made;

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let number = |i: usize, default: u64| arguments.get(i).and_then(|a| a.parse().ok()).unwrap_or(default);
    let Some(out) = arguments.first() else {
        eprintln!(
            "usage: cargo bench --bench scale -- DIRECTORY RUNS STORES SECONDS OPERATIONS_PER_SECOND [shards]"
        );
        return Ok(());
    };
    let (runs, shards) = (number(1, 1), arguments.get(5).is_some_and(|word| word == "shards"));
    for run in 0..runs {
        let made = Made {
            id: if shards { format!("run.{}of{runs}", run + 1) } else { format!("run-{run:02}") },
            shard: shards.then_some((run + 1, runs)),
            stores: (0..number(2, 1)).map(|s| (format!("s3://store-{s}"), 1.0)).collect(),
            seconds: number(3, 60),
            per_s: number(4, 1000),
            spread: 0.2,
            ..Made::default()
        };
        made.write(Path::new(out))?;
    }
    Ok(())
}
