//! The command line: arguments become typed settings here, and errors become one line and an exit code.

use clap::{Parser, Subcommand};

pub mod advise;
pub mod bucket;
pub mod calibrate;
mod cannot_tell;
pub mod check;
pub mod clean;
pub mod compare;
pub mod cost;
pub mod dry_run;
pub mod exit;
pub mod export;
pub mod import;
pub mod keys;
pub mod knee;
pub mod list;
pub mod merge;
mod money;
mod out;
pub mod prices;
pub mod probe;
pub mod progress;
pub mod published;
mod record;
pub mod report;
pub mod run;
pub mod serve;
pub mod show;
pub mod signals;
pub mod sync;
pub mod timeout;
pub mod ycsb;

use exit::Exit;
use out::note;

use crate::session::embedded::set_program;
use crate::store::url::web::redacted as redacted_url;
use crate::text;

/// Measures, judges and prices object stores, with a known measurement error.
#[derive(Debug, Parser)]
#[command(name = "plimsoll", version, max_term_width = 110)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run an experiment: a file, a built-in one, or a short form (get, put, mixed, head, list, delete)
    Run(Box<run::Arguments>),
    /// YCSB's core workload, from its own property files
    Ycsb(Box<ycsb::Arguments>),
    /// Bring a directory and a store to the same contents, in turn with other tools
    Sync(Box<sync::Arguments>),
    /// Show a run's results again
    Show(show::Arguments),
    /// Make the HTML report of runs
    Report(report::Arguments),
    /// Hold runs, or the stores of one run, against each other
    Compare(compare::Arguments),
    /// Hold a run against objectives: 'get.p99 < 10ms'
    Check(check::Arguments),
    /// Put the runs of several shards together
    Merge(merge::Arguments),
    /// Write a run as Parquet, CSV, Markdown or HdrHistogram log
    Export(export::Arguments),
    /// Turn another tool's log into a run directory
    Import(import::Arguments),
    /// Delete what a killed run left in its store
    Clean(clean::Arguments),
    /// Find out what a store really supports
    Probe(probe::Arguments),
    /// Create a bucket, or delete one that was created here
    Bucket(bucket::Arguments),
    /// Hold the instrument against servers whose truth is known
    Calibrate(calibrate::Arguments),
    /// Serve an S3-compatible store from memory
    Serve(Box<serve::Arguments>),
    /// What a month of work costs, at one provider or at all of them
    Cost(Box<cost::Arguments>),
    /// Which of the measured stores fits a workload, what each costs, and what would change the answer
    Advise(Box<advise::Arguments>),
    /// What others have published, and which of it holds
    Published(published::Arguments),
    /// List what is built in
    List(list::Arguments),
}

/// The words of the command line; bytes that are not UTF-8 are replaced.
pub fn arguments() -> impl Iterator<Item = String> {
    std::env::args_os().map(|word| word.to_string_lossy().into_owned())
}

/// Returns the command line for the record, without secrets.
pub fn command_line() -> Vec<String> {
    arguments().map(|word| text::redacted(&redacted_url(&word)).into_owned()).collect()
}

/// Runs the command line and returns the exit code: 0 done, 1 a check failed, 2 bad input, 3 store unusable, 4 measured but not all
/// results could be written, 130 interrupted.
pub fn main() -> i32 {
    text::register_secrets_in(arguments());
    if let Ok(program) = std::env::current_exe() {
        set_program(program);
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            if error.use_stderr() {
                note(text::without_assigned_secrets(error.render().to_string().trim_end()));
                return 2;
            }
            // Help and version.
            return i32::from(error.print().is_err_and(|e| e.kind() != std::io::ErrorKind::BrokenPipe)) * 2;
        }
    };
    let outcome = match cli.command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Ycsb(arguments) => ycsb::ycsb_command(&arguments),
        Command::Sync(arguments) => sync::sync(&arguments),
        Command::Show(arguments) => show::show(&arguments),
        Command::Report(arguments) => report::report(&arguments),
        Command::Compare(arguments) => compare::compare(&arguments),
        Command::Check(arguments) => check::check(&arguments),
        Command::Merge(arguments) => merge::merge(&arguments),
        Command::Import(arguments) => import::import(&arguments),
        Command::Export(arguments) => export::export(&arguments),
        Command::Clean(arguments) => clean::clean(&arguments),
        Command::Probe(arguments) => probe::probe(&arguments),
        Command::Bucket(arguments) => bucket::bucket(&arguments),
        Command::Calibrate(arguments) => calibrate::calibrate(&arguments),
        Command::Serve(arguments) => serve::serve(&arguments),
        Command::Cost(arguments) => cost::cost(&arguments),
        Command::Advise(arguments) => advise::advise(&arguments),
        Command::Published(arguments) => published::published(&arguments),
        Command::List(arguments) => list::list(&arguments),
    };
    match outcome {
        Ok(()) => 0,
        Err(Exit { code, message }) => {
            if !message.is_empty() {
                note(format_args!(
                    "plimsoll: {}",
                    text::single_line(&text::without_assigned_secrets(&message))
                ));
            }
            code
        }
    }
}
