//! `plimsoll run sync`: times the synchronisation of a directory with a store, by Plimsoll and by other tools in
//! turn.
//!
//! Each loop begins with an empty target, because a second synchronisation of the same data transfers
//! nothing. The measured time is what a user waits for: listing both sides, then transferring the missing
//! files. Contenders take turns, and their order shifts from loop to loop, so that a machine that slows down
//! favours none of them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};

use super::command_line;
use super::exit::Exit;
use super::money::MoneyArguments;
use super::out::{is_quiet, note, progress, say};
use super::progress::Terminal;
use super::report::conclude;
use super::timeout;
use plimsoll_base::clock::{SECOND, now_ns, wall_now};
use plimsoll_base::machine::Machine;
use plimsoll_base::provider::calls::{Call, Calls};
use plimsoll_base::units::{parse_duration, parse_size};
use plimsoll_clients::sync::contender::{self, Contender, IntervalDestination, run_loop};
use plimsoll_clients::sync::files::{self, Ground};
use plimsoll_clients::sync::scratch;
use plimsoll_engine::driver::clean::CleanupScope;
use plimsoll_engine::driver::{Control, Shard, Site};
use plimsoll_engine::store::ownership::RunId;
use plimsoll_experiment::to_toml::to_toml;
use plimsoll_judge::run_dir::directory::RunDirectory;
use plimsoll_judge::run_dir::json;
use plimsoll_judge::summary::result::{CostFigures, RunResult};
use plimsoll_report::terminal::{self, cost};
use plimsoll_session::budget::{Budget, Planned};
use plimsoll_session::lifecycle::{Reached, begin, delete_written, end, open_stores, reach, require_writes};
use plimsoll_session::observer::RunObserver;
use plimsoll_session::open::{Named, Opened};
use plimsoll_session::{self, RunError, RunSummary, SessionSettings};
use plimsoll_workload::schedule::{Phase, Role};

/// Arguments of `plimsoll run sync`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Store to synchronise with; may be repeated; the first store is the baseline
    #[arg(long, value_name = "STORE", required = true)]
    store: Vec<String>,
    /// Number of files
    #[arg(long, value_name = "N", default_value_t = 1000)]
    files: u64,
    /// Size of each file
    #[arg(long, default_value = "100KiB")]
    size: String,
    /// Number of loops of each contender in each direction
    #[arg(long, value_name = "N", default_value_t = 5)]
    loops: u32,
    /// Direction of the synchronisation
    #[arg(long, value_enum, default_value = "both")]
    direction: Direction,
    /// Number of files in flight
    #[arg(long, value_name = "N", default_value_t = 16)]
    concurrency: u64,
    /// Transfer files larger than this in parts of this size
    #[arg(long, value_name = "SIZE", default_value = "16MiB")]
    part_size: String,
    /// Command of another tool that takes turns with Plimsoll on the same data: 'aws s3 sync {source}
    /// {target}'; {source_path} and {target_path} omit the scheme, for tools with named remotes; may be
    /// repeated
    #[arg(long, value_name = "COMMAND")]
    client: Vec<String>,
    /// Directory in which a temporary directory for the files is created [default: the run directory]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Directory in which the run directory is created
    #[arg(long, value_name = "DIR", default_value = "plimsoll-runs")]
    out: PathBuf,
    /// Seed of the files' contents
    #[arg(long, value_name = "N", default_value_t = plimsoll_experiment::spec::DEFAULT_SEED)]
    seed: u64,
    /// Location of the client, recorded with the results
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    vantage: String,
    /// Print result.json instead of the table
    #[arg(long)]
    json: bool,
    /// Create the bucket if it does not exist (it is not deleted afterwards)
    #[arg(long)]
    create_bucket: bool,
    /// PEM file of certificate authorities to trust instead of the system's
    #[arg(long, value_name = "FILE")]
    ca_bundle: Option<PathBuf>,
    /// Deadline of each file and of every other request [default: 10m for a file, 60s for a request]
    #[arg(long, value_name = "TIME")]
    timeout: Option<String>,
    #[command(flatten)]
    money: MoneyArguments,
}

/// Direction of the synchronisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Direction {
    /// From the directory to the store
    Up,
    /// From the store to the directory
    Down,
    /// Up, then down
    Both,
}

/// Default deadline of one file, in nanoseconds: 10 minutes.
const FILE_TIMEOUT_NS: u64 = 600 * SECOND;

impl Arguments {
    fn directions(&self) -> &'static [bool] {
        match self.direction {
            Direction::Up => &[true],
            Direction::Down => &[false],
            Direction::Both => &[true, false],
        }
    }

    fn settings(&self) -> SessionSettings {
        SessionSettings {
            out: self.out.clone(),
            vantage: self.vantage.clone(),
            keep: false,
            create_bucket: self.create_bucket,
            ca_bundle: self.ca_bundle.clone(),
            workers: None,
            record_operations: false,
            sharding: None,
            cost: self.money.settings(),
            command: command_line(),
            ..SessionSettings::default()
        }
    }

    fn check(&self) -> Result<(u64, u64), Exit> {
        let size = |flag: &str, text: &str| parse_size(text).map_err(|e| Exit::input(format!("{flag}: {e}")));
        let (bytes, part_size) = (size("--size", &self.size)?, size("--part-size", &self.part_size)?);
        if self.files == 0 || self.loops == 0 || self.concurrency == 0 {
            return Err(Exit::input("--files, --loops and --concurrency must be above 0"));
        }
        if part_size < 5 << 20 {
            return Err(Exit::input("--part-size must be at least 5MiB"));
        }
        if self.money.settings().max_cost.is_some() && !self.client.is_empty() {
            return Err(Exit::input(
                "--max-cost cannot limit the requests of another tool; omit --client or --max-cost",
            ));
        }
        for client in &self.client {
            let names = |side: &str| {
                client.contains(&format!("{{{side}}}")) || client.contains(&format!("{{{side}_path}}"))
            };
            if !names("source") || !names("target") {
                return Err(Exit::input(format!(
                    "--client '{client}': the command does not contain both sides; add {{source}} and \
                     {{target}}"
                )));
            }
        }
        Ok((bytes, part_size))
    }
}

impl Arguments {
    /// Returns the data to synchronise, with its local directories below `files`, and the transfer settings.
    fn ground(&self, files: &Path, bytes: u64, part_size: u64) -> Ground {
        let timeout = self.timeout.as_deref().and_then(|text| parse_duration(text).ok());
        Ground {
            timeout_ns: timeout.unwrap_or(FILE_TIMEOUT_NS),
            source: files.join("source"),
            target: files.join("target"),
            count: self.files,
            bytes,
            part_size,
            concurrency: self.concurrency as usize,
            seed: self.seed,
            control: Arc::new(Control::default()),
            origin_ns: now_ns(),
        }
    }

    /// Returns the cost limit of Plimsoll's own loops, and prints their estimated cost.
    ///
    /// # Errors
    /// [`RunError::Input`] if a price is missing or invalid, or the estimate exceeds `--max-cost`.
    fn budget(&self, ground: &Ground, opened: &mut [Opened], machine: &Machine) -> Result<Budget, RunError> {
        let mut phases = Vec::new();
        let (loops, pages) = (u64::from(self.loops), self.files.div_ceil(1000));
        let mut besides = Calls::default();
        for up in self.directions() {
            phases.push(contender::phase(ground, *up)?);
            // Each loop lists the target before and after the transfer. An upload empties it first.
            besides.add(Call::ListObjects, loops * (1 + pages));
            besides.add(Call::ListObjects, if *up { loops * pages } else { loops * pages.saturating_sub(1) });
            besides.add(Call::DeleteObjects, if *up { loops * pages } else { 0 });
        }
        if self.directions() == [false] {
            // A download needs the files in the store, so upload them first.
            phases.push(Phase { role: Role::Prepare, ..contender::phase(ground, true)? });
        }
        let planned = Planned { phases: &phases, repeats: self.loops, hosts: 1, besides };
        let budget = Budget::of(&self.money.settings(), planned, opened, machine)?;
        budget.wrap(opened);
        if !self.json {
            budget.announce().iter().for_each(note);
        }
        Ok(budget)
    }

    /// Returns the cost of Plimsoll's requests to each store.
    fn spent(&self, budget: &Budget) -> Vec<CostFigures> {
        let mut figures = budget.figures();
        if !self.client.is_empty() {
            let note = "requests of --client tools are not counted";
            figures.iter_mut().for_each(|store| store.bill.notes.push(note.into()));
        }
        figures
    }
}

/// Runs the loops of all contenders and prints their times.
///
/// # Errors
/// Exit code 1 if the contents differ at the end, 2 for invalid input, 3 if a store or a tool cannot be used.
pub fn sync(arguments: &Arguments) -> Result<(), Exit> {
    let (bytes, part_size) = arguments.check()?;
    timeout::apply(arguments.timeout.as_deref())?;
    let settings = arguments.settings();
    let id = RunId::generate();
    let mut opened = open_stores(&arguments.store, &Named::new(), settings.ca_bundle.as_deref(), None)?;
    require_writes(&opened)?;
    let mut environment = plimsoll_session::environment(&settings, id.as_str());
    let path = settings.out.join(id.as_str());
    let files = scratch::place(arguments.dir.as_deref().unwrap_or(&path), id.as_str());
    let ground = arguments.ground(&files, bytes, part_size);
    let budget = arguments.budget(&ground, &mut opened, &environment.machine)?;
    let Reached { sites, facts } = reach(&opened, &id, settings.create_bucket)?;
    environment.stores = facts;
    environment.files = Some(std::path::absolute(&files).map_err(|e| settings.out_error(&e))?);
    let recorded = contender::recorded(&ground, arguments.loops, &opened)?;
    let observer: Arc<dyn RunObserver> = Arc::new(Terminal::new(arguments.json || is_quiet()));
    let mut directory = begin(&settings, &to_toml(&recorded), &environment, &opened, &observer)?;
    budget.arm(&ground.control);
    super::signals::listen(Arc::clone(&ground.control));
    let mut result = plimsoll_session::blank(&settings, id.as_str(), "sync", arguments.seed);
    environment.origin_unix_s =
        wall_now().as_nanosecond() as f64 / 1e9 - (now_ns() - ground.origin_ns) as f64 / 1e9;
    let contenders = contenders(&opened, &sites, &arguments.client);
    let written = scratch::create(&files, id.as_str()).and_then(|()| files::write(&ground));
    let written =
        written.map_err(|e| RunError::input(format!("{}: {e}; choose another --dir", files.display())));
    let outcome =
        written.and_then(|()| loops(arguments, &ground, &budget, &contenders, &mut result, &mut directory));
    budget.lift();
    let removed = scratch::remove(&files, id.as_str());
    let problem = outcome.err().map(|error| budget.ended().unwrap_or(error));
    let owned = CleanupScope::of_phases(&recorded.phases, Shard::default());
    let (facts, control) = (&mut environment.stores, &ground.control);
    let failed = delete_written(&sites, &owned, facts, observer.as_ref(), &path, control);
    observer.ended();
    let problem = match (problem, failed) {
        (Some(problem), Some(_)) => Some(problem.with_left_behind(&path)),
        (problem, failed) => problem.or(failed),
    };
    result.run.partial = problem.is_some();
    environment.workers = result.client.workers;
    if was_removed(removed, &files) {
        environment.files = None;
    }
    result.cost = arguments.spent(&budget);
    let (run, problem) = end(directory, result, environment, problem);
    let (run, problem) = conclude(RunSummary { run, problem }, true);
    let text = if arguments.json {
        json::to_string(&run.result)
    } else {
        let tables = terminal::loops(&run.result.sync) + &cost::render(&run.result.cost);
        format!("{tables}results: {}\n", path.display())
    };
    let printed = say(&text);
    problem.map_or(printed, Err)
}

/// Returns true if the local files were removed. Otherwise, prints why they remain.
fn was_removed(removed: std::io::Result<bool>, files: &Path) -> bool {
    match removed {
        Ok(true) => return true,
        Ok(false) => {
            note(format_args!("note: {}: not removed, because it contains other files", files.display()));
        }
        Err(error) => {
            note(format_args!("note: {}: {error}; remove it with `plimsoll clean`", files.display()));
        }
    }
    false
}

/// Returns the contenders: Plimsoll on every store, then each tool on every store.
fn contenders<'a>(opened: &'a [Opened], sites: &[Site], clients: &[String]) -> Vec<Contender<'a>> {
    let each = |client: Option<&String>| {
        let contender = |(store, site): (&'a Opened, &Site)| Contender {
            store,
            space: site.space.clone(),
            client: client.cloned(),
        };
        opened.iter().zip(sites).map(contender).collect::<Vec<_>>()
    };
    std::iter::once(None).chain(clients.iter().map(Some)).flat_map(each).collect()
}

fn loops(
    arguments: &Arguments,
    ground: &Ground,
    budget: &Budget,
    contenders: &[Contender<'_>],
    result: &mut RunResult,
    directory: &mut RunDirectory,
) -> Result<(), RunError> {
    for up in arguments.directions() {
        for loop_ in 0..arguments.loops {
            for place in 0..contenders.len() {
                let contender = &contenders[(place + loop_ as usize) % contenders.len()];
                if !arguments.json {
                    progress(format_args!(
                        "{}, loop {} of {}: {}",
                        if *up { "up" } else { "down" },
                        loop_ + 1,
                        arguments.loops,
                        contender.name()
                    ));
                }
                budget.watch();
                let done =
                    run_loop(ground, contender, *up, IntervalDestination { directory, repeat: loop_ })?;
                if ground.control.stopped_at().is_some() {
                    // An interrupted loop has no valid time.
                    return Err(RunError::interrupted(
                        "interrupted; completed loops are kept and the run is marked partial",
                    ));
                }
                result.windows.extend(done.windows);
                if done.workers > 0 {
                    let client = &mut result.client;
                    let operations: u64 = result.windows.iter().map(|w| w.operations).sum();
                    client.workers = client.workers.max(done.workers);
                    client.cpu_seconds += done.figures.cpu_s;
                    client.cpu_us_per_operation = client.cpu_seconds * 1e6 / operations.max(1) as f64;
                }
                result.sync.push(done.figures);
                directory.result(result);
            }
        }
    }
    Ok(())
}
