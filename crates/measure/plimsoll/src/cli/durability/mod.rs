//! `plimsoll run durability`: checks whether a server keeps what it acknowledged when the power fails.

mod answer;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};

use answer::{answer, document};

use super::cost::form::FormArguments;
use super::exit::Exit;
use super::record::RunRecord;
use super::{out, signals, timeout};
use plimsoll_base::clock::{SECOND, now_ns};
use plimsoll_base::units::{counted, parse_duration, parse_size};
use plimsoll_disk::Model;
use plimsoll_durability::findings::Findings;
use plimsoll_durability::proof::prove;
use plimsoll_durability::server::profile;
use plimsoll_durability::signed::SignedClient;
use plimsoll_durability::simulated::{Fault, Settings, Simulation};
use plimsoll_durability::work::CheckedStore;
use plimsoll_durability::{DurabilityError, real};
use plimsoll_engine::driver::Control;
use plimsoll_engine::store::ownership::{KeySpace, RunId};
use plimsoll_experiment::spec::DEFAULT_SEED;
use plimsoll_s3::url::StoreUrl;
use plimsoll_session::lifecycle::{reach, require_writes};
use plimsoll_session::open;

/// Number of cuts of a simulated machine.
const DEFAULT_CUTS: u64 = 40;
/// Deadline of a request.
const TIMEOUT: &str = "10s";

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
    /// Server to check: ceph, garage, juicefs, minio, plimsoll-gateway, plimsoll-gateway-postgres, rclone, s3proxy,
    /// seaweedfs, versitygw, or a shell command that starts it, with {dir} and {address} (or {port}, {port1} to
    /// {port9}, {access_key}, {secret_key})
    #[arg(long, value_name = "SERVER", required_unless_present = "store")]
    server: Option<String>,
    /// Store on a real machine to check instead of a server: a URL or a name from plimsoll.toml
    #[arg(long, value_name = "STORE", requires = "cut",
        conflicts_with_all = ["server", "model", "until_violation", "only", "fault", "ignore_syncs", "disk_size", "no_proof"])]
    store: Option<String>,
    /// Shell command that cuts the power of that machine. Acknowledgements after its end do not count
    #[arg(long, value_name = "COMMAND", requires = "store", conflicts_with = "server")]
    cut: Option<String>,
    /// Rules of the disk
    #[arg(long, value_enum, default_value = "ext4")]
    model: ModelName,
    /// Number of power cuts [default: 40, with --store 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    cuts: Option<u64>,
    /// End the check after the first violation
    #[arg(long)]
    until_violation: bool,
    /// Execute only this cut, counted from 0
    #[arg(long, value_name = "N")]
    only: Option<u64>,
    /// Acknowledged operations before a cut, at most
    #[arg(long, value_name = "N", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    operations: u64,
    /// Number of clients; they share no keys
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=64))]
    clients: u64,
    /// Seed of the operations and the cuts
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SEED)]
    seed: u64,
    /// Fault that the disk shows in each cut
    #[arg(long, value_enum)]
    fault: Option<FaultName>,
    /// Let syncs of paths that contain this text do nothing, to see whether the check finds the loss. With a slash at
    /// its end: syncs of directories whose path ends with it
    #[arg(long, value_name = "TEXT", default_value = "")]
    ignore_syncs: String,
    /// Size of the disk, which is in memory
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    disk_size: String,
    /// Time that the server has to start, or the store to answer again
    #[arg(long, value_name = "TIME", default_value = "60s")]
    start_limit: String,
    /// Do not search for a short proof of each kind of loss
    #[arg(long)]
    no_proof: bool,
    /// Deadline of each request [default: 10s]
    #[arg(long, value_name = "TIME")]
    timeout: Option<String>,
    /// PEM file of certificate authorities to trust instead of the system's
    #[arg(long, value_name = "FILE", requires = "store", conflicts_with = "server")]
    ca_bundle: Option<PathBuf>,
    /// Directory for the list of created objects; the list is deleted after a successful clean-up
    #[arg(long, value_name = "DIR", default_value = "plimsoll-runs")]
    out: PathBuf,
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
            cuts: self.cuts.unwrap_or(DEFAULT_CUTS),
            until_violation: self.until_violation,
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

/// Notes the progress of a check every 10 s.
struct Progress {
    began_ns: u64,
    noted_s: u64,
}

impl Progress {
    fn new() -> Progress {
        Progress { began_ns: now_ns(), noted_s: 0 }
    }

    fn note(&mut self, findings: &Findings) {
        let elapsed_s = (now_ns() - self.began_ns) / SECOND;
        if elapsed_s >= self.noted_s + 10 {
            self.noted_s = elapsed_s;
            out::progress(format_args!(
                "{elapsed_s} s: {}, {}, {}",
                counted(findings.cuts, "cut"),
                counted(findings.acknowledged, "acknowledged operation"),
                counted(findings.violation_count(), "violation")
            ));
        }
    }
}

/// Cuts the power of a server again and again, and prints what it lost.
///
/// # Errors
/// Exit code 1 if a violation was found or no operation was acknowledged, 2 for invalid input, 3 if the system does not
/// allow the check, 130 after Ctrl-C.
pub fn durability(arguments: &Arguments) -> Result<(), Exit> {
    arguments.form.check()?;
    timeout::apply(Some(arguments.timeout.as_deref().unwrap_or(TIMEOUT)))?;
    let began_ns = now_ns();
    let (mut findings, stopped, finished) = match (&arguments.server, &arguments.store) {
        (Some(server), _) => {
            let (findings, stopped) = simulated(arguments, server)?;
            (findings, stopped, Ok(()))
        }
        (None, Some(store)) => on_machine(arguments, store)?,
        (None, None) => return Err(Exit::input("give --server, or --store with --cut")),
    };
    findings.fault = arguments.fault.map_or(String::new(), FaultName::name);
    findings.duration_s = (now_ns() - began_ns) as f64 / SECOND as f64;
    let mut document = document(&findings, arguments);
    if stopped {
        document
            .notes
            .insert(0, "Interrupted: the answer is about the cuts so far, and proofs may be missing.".into());
    }
    arguments.form.print(&document, &findings)?;
    if !findings.is_durable() {
        return Err(Exit::check(answer(&findings)));
    }
    finished?;
    if findings.due() == 0 && findings.flipped.0 == 0 && !stopped {
        // Nothing was acknowledged, so nothing is known.
        return Err(Exit::check(answer(&findings)));
    }
    match stopped {
        true => Err(Exit::interrupted("interrupted; the answer is about the cuts so far")),
        false => Ok(()),
    }
}

/// Checks a server on a simulated disk. Returns the findings, and true if Ctrl-C ended the check.
fn simulated(arguments: &Arguments, server: &str) -> Result<(Findings, bool), Exit> {
    let (profile, settings) = (profile(server)?, arguments.settings()?);
    let control = Arc::new(Control::default());
    signals::listen(Arc::clone(&control));
    // The mounts belong to one thread, which also starts the server.
    let work = || -> Result<Findings, Exit> {
        let simulation = Simulation::prepare(profile, settings)?;
        let mut progress = Progress::new();
        let (mut findings, violated) = simulation.run(&control, |findings| progress.note(findings))?;
        if !arguments.no_proof {
            prove(&simulation, &violated, &control, &mut findings, |kind| {
                out::progress(format_args!("searching for a proof of '{}'", kind.name()));
            })?;
        }
        Ok(findings)
    };
    let findings = std::thread::scope(|scope| scope.spawn(work).join());
    let findings = findings.map_err(|_| Exit::defect("the check panicked"))??;
    Ok((findings, control.stopped_at().is_some()))
}

/// Checks a store on a real machine. Returns the findings, true if Ctrl-C ended the check, and the result of the
/// clean-up.
fn on_machine(arguments: &Arguments, store: &str) -> Result<(Findings, bool, Result<(), Exit>), Exit> {
    let settings = arguments.settings()?;
    let opened = open::open(store, arguments.ca_bundle.as_deref())?;
    require_writes(std::slice::from_ref(&opened))?;
    let (Some(StoreUrl::S3(url)), Some(source)) = (&opened.url, &opened.credentials) else {
        return Err(Exit::input(format!("--store {store}: use an s3:// URL with credentials")));
    };
    let id = RunId::generate();
    let target = CheckedStore {
        store: Arc::clone(&opened.store),
        signed: SignedClient::new((**url).clone(), (*source.current()).clone()),
        space: KeySpace::of_run(opened.store.prefix(), &id),
        folder: "durability/".into(),
        tags: false,
        versions: None,
        seed: settings.seed,
    };
    let reached = reach(std::slice::from_ref(&opened), &id, false)?;
    let record = RunRecord::create(&arguments.out, &id, reached)?;
    let control = Arc::clone(record.control());
    let settings = real::Settings {
        command: arguments.cut.clone().unwrap_or_default(),
        cuts: arguments.cuts.unwrap_or(1),
        operations: settings.operations,
        clients: settings.clients,
        seed: settings.seed,
        start_limit: settings.start_limit,
    };
    let mut progress = Progress::new();
    let ran = real::run(&target, &settings, &opened.written, &control, |findings| progress.note(findings));
    let finished = record.finish();
    Ok((ran?, control.stopped_at().is_some(), finished))
}
