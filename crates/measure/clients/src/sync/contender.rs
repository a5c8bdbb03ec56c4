//! Runs one loop of one contender: empties the target, starts the clock, lists both sides, transfers the missing
//! files, stops the clock and checks the target.

use super::files::{self, Ground};
use super::tool::{self, quoted};
use plimsoll_base::clock::{SECOND, now_ns, process_cpu_ns};
use plimsoll_base::machine::children_cpu_s;
use plimsoll_engine::driver::Shard;
use plimsoll_engine::driver::background::{Background, Pages};
use plimsoll_engine::driver::clean::CleanupScope;
use plimsoll_engine::store::ownership::KeySpace;
use plimsoll_engine::store::{Failure, Store};
use plimsoll_experiment::Experiment;
use plimsoll_judge::run_dir::directory::RunDirectory;
use plimsoll_judge::summary::result::{SyncLoop, Window};
use plimsoll_recorder::ErrorClass;
use plimsoll_session::RunError;
use plimsoll_session::clean_up::clean_space;
use plimsoll_session::one_phase::{Ran, Timeline, each_once, run_phase};
use plimsoll_session::open::Opened;
use plimsoll_session::runtime::block_on;
use plimsoll_workload::dataset::{ContentSource, Upload};
use plimsoll_workload::naming::Naming;
use plimsoll_workload::schedule::Phase;
use plimsoll_workload::schedule::plan::Order;
use plimsoll_workload::size::Size;
use plimsoll_workload::{Dataset, OperationKind, Workload};

/// Client that transfers the files to and from one store.
pub struct Contender<'a> {
    /// Store with which the files are synchronized.
    pub store: &'a Opened,
    /// Key space of the files in the store.
    pub space: KeySpace,
    /// Command of another tool; `None` for Plimsoll.
    pub client: Option<String>,
}

impl Contender<'_> {
    /// Returns the names of the client and the store, for messages.
    pub fn name(&self) -> String {
        match &self.client {
            None => format!("plimsoll, {}", self.store.written),
            Some(command) => format!("{}, {}", name_of(command), self.store.written),
        }
    }
}

/// Returns the name of a command: its words before the first option or placeholder.
fn name_of(command: &str) -> String {
    let words = command.split_whitespace().take_while(|word| !word.contains('{') && !word.starts_with('-'));
    words.collect::<Vec<_>>().join(" ")
}

/// Destination of the per-second counts of a Plimsoll loop.
pub struct IntervalDestination<'a> {
    /// Run directory that contains the interval log.
    pub directory: &'a mut RunDirectory,
    /// Number of the loop, from 0.
    pub repeat: u32,
}

/// Measurements of one transfer.
#[derive(Default)]
struct Moved {
    wall_s: f64,
    cpu_s: f64,
    windows: Vec<Window>,
    workers: usize,
}

/// Result of one loop.
pub struct LoopResult {
    /// Wall time and the other figures that every contender has.
    pub figures: SyncLoop,
    /// Windows of Plimsoll's transfer, with the time of every file; empty for another tool.
    pub windows: Vec<Window>,
    /// Number of Plimsoll's worker threads; 0 for another tool.
    pub workers: usize,
}

const DATASET: &str = "files";

fn dataset(ground: &Ground) -> Dataset {
    let naming = Naming::template("{dir}/{index}", 0).unwrap_or_default();
    Dataset {
        naming,
        upload: Upload { part_size: ground.part_size, in_flight: 4, checksum: None },
        source: Some(ContentSource::Directory(ground.source.clone())),
        ..Dataset::new(DATASET, ground.seed, ground.count, Size::Fixed(ground.bytes))
    }
}

/// Returns the phase that transfers all files once: uploads if `up` is true, otherwise downloads.
pub fn phase(ground: &Ground, up: bool) -> Result<Phase, RunError> {
    let (name, kind) = if up { ("up", OperationKind::Put) } else { ("down", OperationKind::Get) };
    let base = each_once(name, kind, dataset(ground), ground.concurrency)?;
    let workload = Workload { sink: (!up).then(|| ground.target.clone()), ..base.workload };
    Ok(Phase { workload, timeout_ns: ground.timeout_ns, retries: 5, ..base })
}

/// Returns an experiment that uploads the files once. The run directory stores it, and `plimsoll clean` derives the
/// keys to delete from it.
pub fn recorded(ground: &Ground, loops: u32, opened: &[Opened]) -> Result<Experiment, RunError> {
    let upload = phase(ground, true)?;
    let workload = Workload { phase: DATASET.into(), ..upload.workload };
    Ok(Experiment {
        name: "sync".into(),
        description: format!("Files of `plimsoll run sync`, transferred {loops} times in each direction"),
        seed: ground.seed,
        stores: opened.iter().map(|o| o.written.clone()).collect(),
        named: opened.iter().filter_map(|o| Some((o.written.clone(), o.named.clone()?))).collect(),
        repeats: 1,
        order: Order::Sequential,
        block_ns: 10 * SECOND,
        rewarm_ns: 2 * SECOND,
        phases: vec![Phase { name: DATASET.into(), workload, ..upload }],
    })
}

/// Transfers the files with Plimsoll.
fn run_plimsoll(
    ground: &Ground,
    contender: &Contender<'_>,
    up: bool,
    destination: Option<IntervalDestination<'_>>,
) -> Result<Moved, RunError> {
    let store = &contender.store.store;
    let (began_ns, cpu) = (now_ns(), process_cpu_ns());
    // List both sides, as a tool must that does not know that one of them is empty.
    let here = files::scan(if up { &ground.source } else { &ground.target })
        .map_err(|e| RunError::input(format!("{}: {e}", ground.source.display())))?;
    let there =
        block_on(list(ground, store.as_ref(), &contender.space))?.map_err(|f| unusable(contender, &f))?;
    if up != there.is_empty() || (up && here.len() as u64 != ground.count) {
        return Err(RunError::check(format!(
            "{}: the source or the target changed before the loop; make sure that no other process uses them",
            contender.name()
        )));
    }
    if !up {
        files::directories(ground)
            .map_err(|e| RunError::input(format!("{}: {e}", ground.target.display())))?;
    }
    let (repeat, log) = match destination {
        Some(destination) => (destination.repeat, Some(destination.directory)),
        None => (0, None),
    };
    let timeline =
        Timeline { repeat, seed: ground.seed, origin_ns: ground.origin_ns, control: &ground.control };
    let ran = run_phase(store, &contender.space, phase(ground, up)?, timeline, log)?;
    let wall_s = (now_ns() - began_ns) as f64 / 1e9;
    let cpu_s = (process_cpu_ns() - cpu) as f64 / 1e9;
    let Ran { windows, workers, failures, .. } = ran;
    let failed: u64 = windows.iter().flat_map(|w| w.errors.values()).sum();
    if let Some(first) = failures.into_iter().next() {
        return Err(RunError::store(format!(
            "{}: {failed} files failed; the first failure was {first}",
            contender.name()
        )));
    }
    Ok(Moved { wall_s, cpu_s, windows, workers })
}

fn unusable(contender: &Contender<'_>, failure: &Failure) -> RunError {
    RunError::store(format!("{}: {failure}", contender.name()))
}

/// Returns the keys and sizes of the files in a store. Fails if there are more than 10,000 in addition to those of
/// the run.
async fn list(ground: &Ground, store: &dyn Store, space: &KeySpace) -> Result<Vec<(String, u64)>, Failure> {
    let (mut background, mut pages) = (Background::new(store), Pages::new(space.root()));
    let mut found = Vec::new();
    while let Some(page) = pages.next(&mut background).await? {
        found.extend(page.objects.into_iter().map(|o| (o.key, o.size)));
        if found.len() as u64 > ground.count + 10_000 {
            let message = format!(
                "the store lists at least {} files, but the run has only {}",
                found.len(),
                ground.count
            );
            return Err(Failure::new(ErrorClass::Corrupt, message, Default::default()));
        }
    }
    Ok(found)
}

/// Deletes the files that a loop may have written to a store.
pub fn empty(ground: &Ground, store: &dyn Store, space: &KeySpace) -> Result<(), RunError> {
    let owned = CleanupScope::of_phases(&[phase(ground, true)?], Shard::default());
    clean_space(store, space, &owned)?.map_err(RunError::store)?;
    Ok(())
}

/// Transfers the files with another tool.
fn run_tool(ground: &Ground, contender: &Contender<'_>, command: &str, up: bool) -> Result<Moved, RunError> {
    let description = contender.store.store.describe();
    let place = &contender.store.place;
    let remote = format!("{place}{}{DATASET}/", contender.space.root());
    let local = if up { &ground.source } else { &ground.target };
    let (source, target) =
        if up { (local.display().to_string(), remote) } else { (remote, local.display().to_string()) };
    // Tools that define their own names for stores need only the path: rclone sync {source} remote:{target_path}
    let path = |place: &str| quoted(place.split_once("://").map_or(place, |(_, path)| path));
    let line = command
        .replace("{source}", &quoted(&source))
        .replace("{target}", &quoted(&target))
        .replace("{source_path}", &path(&source))
        .replace("{target_path}", &path(&target));
    let (began_ns, cpu) = (now_ns(), children_cpu_s());
    let run = tool::run(&line, &[("AWS_ENDPOINT_URL_S3", description.endpoint)], &ground.control)
        .map_err(|e| RunError::input(format!("--client '{command}': {e}")))?;
    let wall_s = (now_ns() - began_ns) as f64 / 1e9;
    if !run.status.success() && ground.control.stopped_at().is_none() {
        let last = if run.last_line.is_empty() { "no error message" } else { &run.last_line };
        return Err(RunError::input(format!("--client '{command}' failed ({}): {last}", run.status)));
    }
    Ok(Moved { wall_s, cpu_s: children_cpu_s() - cpu, ..Moved::default() })
}

/// Runs one loop of a contender in one direction and checks the transferred files.
pub fn run_loop(
    ground: &Ground,
    contender: &Contender<'_>,
    up: bool,
    destination: IntervalDestination<'_>,
) -> Result<LoopResult, RunError> {
    let store = contender.store.store.as_ref();
    let io = |e: std::io::Error| RunError::input(format!("{}: {e}", ground.target.display()));
    if up {
        empty(ground, store, &contender.space)?;
    } else {
        files::empty_target(ground).map_err(io)?;
        if block_on(list(ground, store, &contender.space))?.map_err(|f| unusable(contender, &f))?.is_empty() {
            // A download needs the files in the store.
            let up_first = Contender { store: contender.store, space: contender.space.clone(), client: None };
            run_plimsoll(ground, &up_first, true, None)?;
        }
    }
    let repeat = destination.repeat;
    let moved = match &contender.client {
        None => run_plimsoll(ground, contender, up, Some(destination))?,
        Some(command) => run_tool(ground, contender, command, up)?,
    };
    let Moved { wall_s, cpu_s, windows, workers } = moved;
    check(ground, contender, up)?;
    let bytes = ground.count * ground.bytes;
    let figures = SyncLoop {
        store: contender.store.written.clone(),
        direction: if up { "up" } else { "down" }.into(),
        client: contender.client.as_deref().map_or("plimsoll".into(), name_of),
        repeat,
        wall_s,
        cpu_s,
        objects: ground.count,
        bytes,
        objects_per_s: ground.count as f64 / wall_s,
        bytes_per_s: bytes as f64 / wall_s,
    };
    Ok(LoopResult { figures, windows, workers })
}

/// Compares the target with the source, outside the measured time.
fn check(ground: &Ground, contender: &Contender<'_>, up: bool) -> Result<(), RunError> {
    if ground.control.stopped_at().is_some() {
        return Ok(());
    }
    let wrong = |problem: String| RunError::check(format!("{}: {problem}", contender.name()));
    if !up {
        let found = files::difference(ground).map_err(|e| wrong(e.to_string()))?;
        return found.map_or(Ok(()), |problem| Err(wrong(problem)));
    }
    let found = block_on(list(ground, contender.store.store.as_ref(), &contender.space))?;
    let found = found.map_err(|f| unusable(contender, &f))?;
    if found.len() as u64 != ground.count || found.iter().any(|(_, size)| *size != ground.bytes) {
        return Err(wrong(format!(
            "the store lists {} of {} files, or a file has the wrong size",
            found.len(),
            ground.count
        )));
    }
    Ok(())
}
