//! The command line: parses arguments into typed settings, and reports an error as one line and an exit code.

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

pub mod advise;
pub mod audit;
mod bucket;
pub mod calibrate;
mod canary;
mod capacity;
pub mod check;
pub mod clean;
pub mod clients;
pub mod compare;
mod consistency;
mod contention;
pub mod cost;
#[cfg(target_os = "linux")]
mod durability;
mod edge;
mod examples;
pub mod exit;
pub mod export;
mod fit;
mod flags;
mod fleet;
mod gateway;
mod groups;
mod history;
pub mod import;
mod inconclusive;
pub mod list;
pub mod merge;
mod meter;
mod money;
mod out;
mod page;
mod parquet;
pub mod prices;
pub mod probe;
pub mod progress;
mod publish;
pub mod published;
mod record;
mod replay;
pub mod report;
pub mod run;
mod run_options;
mod runs;
pub mod serve;
pub mod show;
pub mod signals;
pub mod sync;
pub mod timeout;
mod until;
mod verify;
pub mod ycsb;

use exit::Exit;
use out::note;

use plimsoll_base::{redaction, text, version};
use plimsoll_experiment::closest;
use plimsoll_s3::url::web::redacted as redacted_url;
use plimsoll_session::embedded::set_program;

/// Benchmark object stores, check objectives and estimate costs, with a known measurement error
#[derive(Debug, Parser)]
#[command(name = "plimsoll", version = version::line(), max_term_width = usize::from(groups::HELP_WIDTH))]
pub struct Cli {
    /// Print no progress, only results, warnings and errors
    #[arg(long, global = true)]
    quiet: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run an experiment: a file, a built-in experiment, or a short form (get, put, mixed, head, list, delete, copy)
    Run(Box<run::Arguments>),
    /// Repeat the requests of a log at their recorded times
    Replay(Box<replay::Arguments>),
    /// Write an experiment whose operations, sizes, popularity and arrivals resemble those of a log
    Fit(fit::Arguments),
    /// Run YCSB's core workloads from YCSB property files
    Ycsb(Box<ycsb::Arguments>),
    /// Show the results of runs
    Show(show::Arguments),
    /// Write an HTML report of one or more runs
    Report(report::Arguments),
    /// Compare runs, or the stores of one run
    Compare(compare::Arguments),
    /// Check runs against objectives, such as 'get.p99 < 10ms'
    Check(check::Arguments),
    /// Compute the figures of runs again from their logs, and compare them
    Verify(verify::Arguments),
    /// Judge runs, and results of other tools, by rules for trustworthy figures
    Audit(audit::Arguments),
    /// List runs, and show the trend of a figure with its changes
    History(history::Arguments),
    /// Run an experiment on several nodes: with ssh, Slurm, Ray or Kubernetes
    Fleet(fleet::Arguments),
    /// Measure from other places, such as Cloudflare's data centres
    Edge(edge::Arguments),
    /// Merge the runs of several shards
    Merge(merge::Arguments),
    /// Export runs as Parquet, CSV, Markdown or HdrHistogram logs
    Export(export::Arguments),
    /// Convert another tool's log into a run directory
    Import(import::Arguments),
    /// Delete the objects and files that a killed run left behind
    Clean(clean::Arguments),
    /// Test which features a store supports
    Probe(probe::Arguments),
    /// Create or delete a bucket
    Bucket(bucket::Arguments),
    /// Measure Plimsoll's own error against servers with known latencies
    Calibrate(calibrate::Arguments),
    /// Serve an S3-compatible store from memory
    Serve(Box<serve::Arguments>),
    /// Run plimsoll-gateway, the durable S3 store
    Gateway(gateway::Arguments),
    /// Estimate the monthly bill of a workload at one or all providers
    Cost(Box<cost::Arguments>),
    /// Count the requests of any S3 client at a local endpoint, and price them
    Meter(Box<meter::Arguments>),
    /// Recommend one of the measured stores for a workload, and show what would change the recommendation
    Advise(Box<advise::Arguments>),
    /// Show published benchmarks and check whether their figures are consistent
    Published(published::Arguments),
    /// List built-in experiments, providers, prices and published documents
    List(list::Arguments),
}

/// Returns the arguments of the command line, the program name first. Invalid UTF-8 is replaced.
pub fn arguments() -> impl Iterator<Item = String> {
    std::env::args_os().map(|word| word.to_string_lossy().into_owned())
}

/// Returns the command line for the run record, with secrets redacted.
pub fn command_line() -> Vec<String> {
    arguments().map(|word| redaction::redacted(&redacted_url(&word)).into_owned()).collect()
}

/// Returns the error of a command line that has an experiment or a run in place of a command; `None` for other errors.
fn not_a_command(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    let before: Vec<String> = arguments().skip(1).take_while(|argument| argument != word).collect();
    match before.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => {
            let command = Cli::command();
            let is_known = closest(word) == Some(word.as_str())
                || command.find_subcommand("run").is_some_and(|run| run.find_subcommand(word).is_some());
            is_known.then(|| format!("plimsoll: '{word}' is an experiment; use `plimsoll run {word}`"))
        }
        ["cost", ..] if error.get(ContextKind::SuggestedSubcommand).is_none() => Some(format!(
            "plimsoll: cost '{}': there is no such command; for the cost of a run, use --from-run RUN",
            text::single_line(word)
        )),
        _ => None,
    }
}

/// Returns an error of the command line as one line: the problem, and what the parser suggests instead.
fn in_one_line(rendered: &str) -> String {
    let mut paragraphs = rendered.trim().split("\n\n");
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let problem = words(paragraphs.next().unwrap_or_default().trim_start_matches("error:"));
    let tips: String = paragraphs
        .flat_map(str::lines)
        .filter_map(|line| line.trim().strip_prefix("tip:"))
        .map(|tip| format!("; {}", words(tip)))
        .collect();
    format!("plimsoll: {problem}{tips}; see --help")
}

/// Returns the command line of the program, with the groups and the examples of its help.
pub fn command() -> clap::Command {
    groups::add(examples::add(Cli::command()))
}

/// Runs the command line and returns the exit code: 0 for success, 1 for a failed check, 2 for invalid input,
/// 3 for an unusable store, 4 if the run was measured but not all results could be written, 101 for a defect
/// in Plimsoll, and 130 for an interrupted run.
pub fn main() -> i32 {
    redaction::register_secrets_in(arguments());
    if let Ok(program) = std::env::current_exe() {
        set_program(program);
    }
    if let Some(json) = version::json(arguments().skip(1)) {
        return out::say(&json).map_or_else(|exit| exit.code, |()| 0);
    }
    let parsed = command().try_get_matches();
    let cli = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => {
            if error.use_stderr() {
                let problem =
                    not_a_command(&error).unwrap_or_else(|| in_one_line(&error.render().to_string()));
                note(redaction::redact_assignments(problem.trim_end()));
                return 2;
            }
            // --help and --version are not errors.
            return i32::from(error.print().is_err_and(|e| e.kind() != std::io::ErrorKind::BrokenPipe)) * 2;
        }
    };
    out::set_quiet(cli.quiet);
    let result = match cli.command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Replay(arguments) => replay::replay(&arguments),
        Command::Fit(arguments) => fit::fit(&arguments),
        Command::Ycsb(arguments) => ycsb::ycsb_command(&arguments),
        Command::Show(arguments) => show::show(&arguments),
        Command::Report(arguments) => report::report(&arguments),
        Command::Compare(arguments) => compare::compare(&arguments),
        Command::Check(arguments) => check::check(&arguments),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Audit(arguments) => audit::run(&arguments),
        Command::History(arguments) => history::history(&arguments),
        Command::Fleet(arguments) => fleet::fleet(&arguments),
        Command::Edge(arguments) => edge::edge(&arguments),
        Command::Merge(arguments) => merge::merge(&arguments),
        Command::Import(arguments) => import::import(&arguments),
        Command::Export(arguments) => export::export(&arguments),
        Command::Clean(arguments) => clean::clean(&arguments),
        Command::Probe(arguments) => probe::probe(&arguments),
        Command::Bucket(arguments) => bucket::bucket(&arguments),
        Command::Calibrate(arguments) => calibrate::calibrate(&arguments),
        Command::Serve(arguments) => serve::serve(&arguments),
        Command::Gateway(arguments) => gateway::gateway(&arguments),
        Command::Cost(arguments) => cost::cost(&arguments),
        Command::Meter(arguments) => meter::meter(&arguments),
        Command::Advise(arguments) => advise::advise(&arguments),
        Command::Published(arguments) => published::published(&arguments),
        Command::List(arguments) => list::list(&arguments),
    };
    match result {
        Ok(()) => 0,
        Err(Exit { code, message }) => {
            if !message.is_empty() {
                note(format_args!(
                    "plimsoll: {}",
                    text::single_line(&redaction::redact_assignments(&message))
                ));
            }
            code
        }
    }
}
