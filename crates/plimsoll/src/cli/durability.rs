//! `plimsoll run durability`: checks whether a server keeps what it acknowledged when the power fails.

use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::cost::form::FormArguments;
use super::exit::Exit;
use super::out;
use super::signals;
use crate::durability::DurabilityError;
use crate::durability::findings::{Findings, Proof, Violation};
use crate::durability::history::OperationKind;
use crate::durability::proof::prove;
use crate::durability::server::profile;
use crate::durability::simulated::{Fault, Settings, Simulation};
use plimsoll_base::clock::{SECOND, now_ns};
use plimsoll_base::units::{format_count, parse_duration, parse_size};
use plimsoll_disk::Model;
use plimsoll_document::{Document, Table};
use plimsoll_engine::driver::Control;
use plimsoll_workload::experiment::spec::DEFAULT_SEED;

/// Rules of the disk.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum ModelName {
    /// ext4 with its default mount options
    Ext4,
    /// The promises of POSIX alone
    Posix,
}

/// Fault of the disk.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum FaultName {
    /// One sync fails with an input/output error, and its data is lost
    Eio,
    /// The disk is full from a random moment on
    Enospc,
    /// Each sync takes 5 to 105 ms
    SlowSync,
    /// One bit of the files flips while the server is stopped
    BitFlip,
}

impl FaultName {
    fn fault(self) -> Fault {
        match self {
            FaultName::Eio => Fault::Eio,
            FaultName::Enospc => Fault::Enospc,
            FaultName::SlowSync => Fault::SlowSync,
            FaultName::BitFlip => Fault::BitFlip,
        }
    }

    fn name(self) -> String {
        self.to_possible_value().map_or(String::new(), |value| value.get_name().to_string())
    }
}

/// Arguments of `plimsoll run durability`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Server to check: minio, plimsoll-gateway, rclone, seaweedfs, versitygw, or a shell command that starts it, with
    /// {dir} and {address} (or {port}, {port1} to {port9}, {access_key}, {secret_key})
    #[arg(long, value_name = "SERVER")]
    server: String,
    /// Rules of the disk
    #[arg(long, value_enum, default_value = "ext4")]
    model: ModelName,
    /// Number of power cuts
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    cuts: u64,
    /// Execute only this cut, counted from 0
    #[arg(long, value_name = "N")]
    only: Option<u64>,
    /// Acknowledged operations before a cut, at most
    #[arg(long, value_name = "N", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    operations: u64,
    /// Number of clients, each with keys of its own
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=64))]
    clients: u64,
    /// Seed of the operations and the cuts
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SEED)]
    seed: u64,
    /// Fault that the disk shows in each cut
    #[arg(long, value_enum)]
    fault: Option<FaultName>,
    /// Let syncs of paths that contain this text do nothing, to see whether the check finds the loss. With a slash at its
    /// end: syncs of directories whose path ends with it
    #[arg(long, value_name = "TEXT", default_value = "")]
    ignore_syncs: String,
    /// Size of the disk, which is in memory
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    disk_size: String,
    /// Time that the server has to start
    #[arg(long, value_name = "TIME", default_value = "60s")]
    start_limit: String,
    /// Do not search for the shortest proof of each kind of loss
    #[arg(long)]
    no_proof: bool,
    #[command(flatten)]
    form: FormArguments,
}

impl From<DurabilityError> for Exit {
    fn from(error: DurabilityError) -> Exit {
        match error {
            DurabilityError::Server(_) => Exit::input(error),
            DurabilityError::System(_) | DurabilityError::Store(_) => Exit::store(error),
        }
    }
}

impl Arguments {
    fn settings(&self) -> Result<Settings, Exit> {
        let limit =
            parse_duration(&self.start_limit).map_err(|e| Exit::input(format!("--start-limit: {e}")))?;
        let capacity = parse_size(&self.disk_size).map_err(|e| Exit::input(format!("--disk-size: {e}")))?;
        if !(16 << 20..=1 << 40).contains(&capacity) {
            return Err(Exit::input(format!("--disk-size {}: use 16MiB to 1TiB", self.disk_size)));
        }
        Ok(Settings {
            model: match self.model {
                ModelName::Ext4 => Model::Ext4,
                ModelName::Posix => Model::Posix,
            },
            cuts: self.cuts,
            only: self.only,
            operations: self.operations,
            clients: self.clients,
            seed: self.seed,
            fault: self.fault.map(FaultName::fault),
            capacity,
            ignored_syncs: self.ignore_syncs.clone(),
            start_limit: Duration::from_nanos(limit),
        })
    }
}

/// Cuts the power of a server again and again, and prints what it lost.
///
/// # Errors
/// Exit code 1 if a promise was broken, 2 for invalid input, 3 if the system does not allow the check, 130 after Ctrl-C.
pub fn durability(arguments: &Arguments) -> Result<(), Exit> {
    let (profile, settings) = (profile(&arguments.server)?, arguments.settings()?);
    arguments.form.check()?;
    let control = Arc::new(Control::default());
    signals::listen(Arc::clone(&control));
    // The mounts belong to one thread, which also starts the server.
    let work = || -> Result<Findings, Exit> {
        let began_ns = now_ns();
        let simulation = Simulation::prepare(profile, settings)?;
        let mut noted_s = 0;
        let (mut findings, broken) = simulation.run(&control, |cuts, findings| {
            let elapsed_s = (now_ns() - began_ns) / SECOND;
            if elapsed_s >= noted_s + 10 {
                noted_s = elapsed_s;
                out::progress(format_args!(
                    "{elapsed_s} s: {cuts} cuts, {} acknowledged operations, {} broken promises",
                    format_count(findings.acknowledged),
                    format_count(findings.broken_count())
                ));
            }
        })?;
        if !arguments.no_proof {
            prove(&simulation, &broken, &control, &mut findings)?;
        }
        findings.fault = arguments.fault.map_or(String::new(), FaultName::name);
        findings.duration_s = (now_ns() - began_ns) as f64 / SECOND as f64;
        Ok(findings)
    };
    let findings = std::thread::scope(|scope| scope.spawn(work).join());
    let findings = findings.map_err(|_| Exit::defect("the check panicked"))??;
    let document = document(&findings, &arguments.server);
    arguments.form.print(&document, &findings)?;
    if !findings.is_durable() {
        return Err(Exit::check(answer(&findings)));
    }
    match control.stopped_at() {
        Some(_) => Err(Exit::interrupted("interrupted; the answer is about the cuts so far")),
        None => Ok(()),
    }
}

/// Formats a number with a noun.
fn counted(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", format_count(count), if count == 1 { "" } else { "s" })
}

/// Returns the answer in a sentence.
fn answer(findings: &Findings) -> String {
    let (server, cuts) = (&findings.server, counted(findings.cuts, "cut"));
    let (broken, due) = (findings.broken_count(), counted(findings.due(), "acknowledged operation"));
    let mut parts = Vec::new();
    if broken > 0 {
        let kinds = Violation::ALL.into_iter().filter(|violation| findings.count(*violation) > 0);
        let kinds: Vec<String> = kinds
            .map(|violation| format!("{} {}", format_count(findings.count(violation)), violation.name()))
            .collect();
        let oldest_ms = findings.broken.iter().map(|broken| broken.age_ms).fold(0.0, f64::max);
        parts.push(format!(
            "broke its promise for {} of {due} in {cuts} ({}); the oldest was acknowledged {} before the cut",
            format_count(broken),
            kinds.join(", "),
            age(oldest_ms)
        ));
    }
    if !findings.not_starting.is_empty() {
        let count = format_count(findings.not_starting.len() as u64);
        parts.push(format!("did not start after {count} of {cuts}"));
    }
    if !findings.not_writable.is_empty() {
        let count = format_count(findings.not_writable.len() as u64);
        parts.push(format!("accepted no writes after {count} of {cuts}"));
    }
    match (parts.is_empty(), findings.due(), findings.flipped.0) {
        (false, ..) => format!("{server} {}", parts.join("; it ")),
        (true, 0, _) => format!("inconclusive: {server} acknowledged nothing in {cuts}"),
        (true, _, 0) => format!("{server} kept all {due} whose effect was due after {cuts}"),
        (true, _, bits) => format!(
            "{server} served no wrong byte after {}: it refused or lost {} of {due}",
            counted(bits, "flipped bit"),
            format_count(findings.flipped.1)
        ),
    }
}

/// Formats a time before the cut.
fn age(ms: f64) -> String {
    if ms < 1000.0 { format!("{ms:.0} ms") } else { format!("{:.1} s", ms / 1000.0) }
}

/// Returns the answer with its tables.
fn document(findings: &Findings, server: &str) -> Document {
    let disk = if findings.fault.is_empty() {
        format!("simulated disk with the rules of {}", findings.model)
    } else {
        format!("simulated disk with the rules of {}, fault {}", findings.model, findings.fault)
    };
    let version = findings.version.as_ref().map_or(String::new(), |version| format!(" ({version})"));
    let mut tables = vec![kinds(findings)];
    tables.extend(findings.proofs.iter().map(proof));
    let mut starts =
        Table::new("Cuts after which the server did not work", &["cut#", "problem", "last words"]);
    for (cut, words) in &findings.not_starting {
        starts.row([cut.to_string(), "does not start".into(), words.clone()]);
    }
    for (cut, words) in &findings.not_writable {
        starts.row([cut.to_string(), "accepts no writes".into(), words.clone()]);
    }
    if !starts.rows.is_empty() {
        tables.push(starts);
    }
    Document {
        title: format!("Durability of {}", findings.server),
        what: vec![format!("{}{version}, {disk}, seed {}", findings.server, findings.seed)],
        answer: answer(findings) + ".",
        figures: kinds(findings),
        tables,
        notes: notes(findings, server),
        ..Document::default()
    }
}

fn kinds(findings: &Findings) -> Table {
    let names: Vec<String> =
        Violation::ALL.iter().map(|violation| format!("{}#", violation.name())).collect();
    let mut columns = vec!["operation", "acknowledged#", "due after a cut#"];
    columns.extend(names.iter().map(String::as_str));
    let mut table = Table::new("", &columns);
    for kind in OperationKind::ALL {
        let Some(counts) = findings.kinds.get(&kind) else { continue };
        let broken =
            Violation::ALL.iter().map(|violation| counts.broken.get(violation).copied().unwrap_or(0));
        let numbers = [counts.acknowledged, counts.due].into_iter().chain(broken).map(format_count);
        table.row(std::iter::once(kind.name().to_string()).chain(numbers).collect::<Vec<_>>());
    }
    table
}

fn proof(proof: &Proof) -> Table {
    let broken = &proof.broken;
    let head = format!(
        "Proof: {} ({}), key {}, shown in {} of {} repetitions",
        broken.violation.name(),
        broken.detail,
        broken.key,
        proof.repeated.0,
        proof.repeated.1
    );
    let mut table = Table::new(head, &["step", ""]);
    for (number, operation) in (1..).zip(&proof.operations) {
        table.row([number.to_string(), format!("{operation}: acknowledged")]);
    }
    table.row(["cut".to_string(), format!("the power fails {} later; {}", age(broken.age_ms), proof.fate)]);
    for lost in &proof.lost {
        table.row(["not synced".to_string(), lost.clone()]);
    }
    table.row(["after".to_string(), broken.detail.clone()]);
    table
}

fn notes(findings: &Findings, server: &str) -> Vec<String> {
    let mut notes = Vec::new();
    if findings.cuts_during_start > 0 {
        notes.push(format!(
            "In {}, the power failed again while the server started.",
            counted(findings.cuts_during_start, "cut")
        ));
    }
    if let Some(first) = findings.broken.first() {
        notes.push(format!(
            "The same cut again: plimsoll run durability --server '{server}' --model {} --seed {} --only {}",
            findings.model, findings.seed, first.cut
        ));
    }
    if findings.is_durable() && findings.cuts > 3 {
        // The rule of three, as in the answer of `run consistency`.
        let percent = 300.0 / findings.cuts as f64;
        notes.push(format!(
            "A server that breaks a promise in {percent:.1}% of such cuts would have been found, with 95% confidence."
        ));
    }
    if findings.unanswered > 0 {
        notes.push(format!(
            "{} had no answer before the cut; any effect of them is accepted.",
            counted(findings.unanswered, "operation")
        ));
    }
    if !findings.tags {
        notes.push("The server keeps no tags, so these are not checked.".into());
    }
    notes.push(
        "Simulated: what the file system may lose. Not simulated: caches and firmware of controllers. A sync or syncfs of \
         the whole file system does not reach the simulated disk, and keeps nothing."
            .into(),
    );
    notes
}
