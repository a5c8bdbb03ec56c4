//! Measures the statistics: the coverage of confidence intervals, wrong verdicts, and the power of designs.
//!
//!     make bench-statistics                  # about ten minutes
//!     make bench-statistics | PERFORMANCE=write python3 benches/performance.py statistics
//!
//! The second command also writes the tables into docs/calibration.md.
//!
//! The bench simulates runs with known true values ([`processes`]). The number and latencies of the operations in
//! each second depend on the process of the case. Arguments: the number of simulations (default 1000), and substrings
//! of the names of cases and sections, of which at least one must match.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "prints its results")]

mod cases;
mod coverage;
mod decisions;
mod first_lines;
mod processes;

/// Runs `work` on two threads, each with one half of the seeds.
fn in_parallel<T: Send>(n: u64, work: impl Fn(std::ops::Range<u64>) -> T + Sync) -> [T; 2] {
    std::thread::scope(|scope| {
        let first = scope.spawn(|| work(0..n / 2));
        let second = work(n / 2..n);
        [first.join().expect("the simulation thread panicked"), second]
    })
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let n: u64 = arguments.first().and_then(|a| a.parse().ok()).unwrap_or(1000);
    let words: Vec<&String> = arguments.iter().filter(|a| a.parse::<u64>().is_err()).collect();
    let wanted = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word.as_str()));
    coverage::print(n, wanted);
    if wanted("comparisons") {
        decisions::print_comparisons(n);
    }
    if wanted("until") {
        decisions::print_until(200);
        decisions::print_until_precision(200);
    }
    if wanted("first lines") {
        first_lines::print(200);
    }
    if wanted("power") {
        decisions::print_power(400);
    }
}
