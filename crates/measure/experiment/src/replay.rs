//! Resolution of phases that repeat recorded requests.

use std::path::PathBuf;
use std::sync::Arc;

use super::Problem;
use super::phase_fields::{
    DEFAULT_CONCURRENCY, DEFAULT_IN_FLIGHT, PREPARE_RETRIES, length, resolve_size_classes, resolve_verify,
    resolve_waits, role_of, slots,
};
use super::spec::{ConcurrencySpec, ExperimentSpec, ObjectsSpec, PhaseSpec, TraceSpec};
use crate::logs::{Collected, FORMATS, LogError, collect};
use crate::parquet_scan;
use plimsoll_base::units::{format_bytes, parse_duration};
use plimsoll_workload::mix::Mix;
use plimsoll_workload::naming::Naming;
use plimsoll_workload::popularity::Popularity;
use plimsoll_workload::scan::{READERS, Reader, Scan};
use plimsoll_workload::schedule::arrival::Arrival;
use plimsoll_workload::schedule::{Limit, Load, Phase, Role};
use plimsoll_workload::size::Size;
use plimsoll_workload::trace::{Logs, Recording, Trace};
use plimsoll_workload::{Dataset, OperationKind, ScanLength, Workload};

/// Options of `plimsoll replay`. `None` selects the default.
#[derive(Debug, Clone, Default)]
pub struct Replay {
    /// Logs and speed of the trace.
    pub trace: TraceSpec,
    /// Number of requests to repeat (`--operations`).
    pub operations: Option<u64>,
    /// Maximum number of operations in flight (`--in-flight`).
    pub in_flight: Option<u64>,
    /// Closed loop: number of operations in flight, which follow each other without their times (`--concurrency`).
    pub concurrency: Option<u64>,
    /// Maximum number of retries of a request (`--retries`).
    pub retries: Option<u32>,
    /// Verification of content (`--verify`).
    pub verify: Option<String>,
    /// Deadline of an operation (`--timeout`).
    pub timeout: Option<String>,
    /// Seed for all random choices (`--seed`).
    pub seed: u64,
}

impl Replay {
    /// Builds the experiment: a phase that writes the objects which existed before the first request, and one that
    /// repeats the requests.
    pub fn to_spec(&self) -> ExperimentSpec {
        let trace = self.trace.clone();
        let prepare = PhaseSpec {
            name: "objects".into(),
            role: Some("prepare".into()),
            trace: Some(trace.clone()),
            timeout: self.timeout.clone(),
            ..PhaseSpec::default()
        };
        let replay = PhaseSpec {
            name: "replay".into(),
            trace: Some(trace),
            objects: ObjectsSpec { from: Some("objects".into()), ..ObjectsSpec::default() },
            stop_after: self.operations,
            in_flight: self.in_flight,
            concurrency: self.concurrency.map(ConcurrencySpec::Fixed),
            retries: self.retries,
            verify: self.verify.clone(),
            timeout: self.timeout.clone(),
            ..PhaseSpec::default()
        };
        ExperimentSpec {
            name: "replay".into(),
            description: "recorded requests: plimsoll replay".into(),
            seed: self.seed,
            phase: vec![prepare, replay],
            ..ExperimentSpec::default()
        }
    }
}

/// Options of `plimsoll run parquet`. `None` selects the default.
#[derive(Debug, Clone, Default)]
pub struct ScanExperiment {
    /// Files, reader and columns of the scan.
    pub trace: TraceSpec,
    /// Number of requests in flight (`--concurrency`).
    pub concurrency: Option<u64>,
    /// Length of the measurement (`--duration`).
    pub duration: Option<String>,
    /// Number of requests (`--operations`).
    pub operations: Option<u64>,
    /// Length of the warm-up; zero for none (`--warmup`).
    pub warmup: String,
    /// Maximum number of retries of a request (`--retries`).
    pub retries: Option<u32>,
    /// Verification of content (`--verify`).
    pub verify: Option<String>,
    /// Deadline of an operation (`--timeout`).
    pub timeout: Option<String>,
    /// Seed for all random choices (`--seed`).
    pub seed: u64,
}

impl ScanExperiment {
    /// Builds the experiment: a phase that writes objects of the sizes of the files, a warm-up, and a phase that sends
    /// the requests of the scan again and again.
    pub fn to_spec(&self) -> ExperimentSpec {
        let phase = |name: &str, role: &str| PhaseSpec {
            name: name.into(),
            role: Some(role.into()),
            trace: Some(self.trace.clone()),
            timeout: self.timeout.clone(),
            ..PhaseSpec::default()
        };
        let reading = |name: &str, role: &str| PhaseSpec {
            objects: ObjectsSpec { from: Some("files".into()), ..ObjectsSpec::default() },
            concurrency: self.concurrency.map(ConcurrencySpec::Fixed),
            retries: self.retries,
            verify: self.verify.clone(),
            ..phase(name, role)
        };
        let warmup = PhaseSpec { duration: Some(self.warmup.clone()), ..reading("warmup", "warmup") };
        let scan = PhaseSpec {
            duration: self.duration.clone().or_else(|| self.operations.is_none().then(|| "30s".into())),
            stop_after: self.operations,
            ..reading("scan", "measure")
        };
        let warms = parse_duration(&self.warmup) != Ok(0);
        let phases = [Some(phase("files", "prepare")), warms.then_some(warmup), Some(scan)];
        let reader = self.trace.reader.as_deref().unwrap_or_default();
        ExperimentSpec {
            name: "parquet".into(),
            description: format!("scan of Parquet files by {reader}: plimsoll run parquet"),
            seed: self.seed,
            phase: phases.into_iter().flatten().collect(),
            ..ExperimentSpec::default()
        }
    }
}

/// Resolves a phase with a trace. `before` lists the earlier phases, of which one may have prepared the objects.
///
/// # Errors
/// Returns a [`Problem`] that names the field, the error and the fix.
pub fn resolve_replay(
    written: &PhaseSpec,
    trace: &TraceSpec,
    seed: u64,
    repeats: u32,
    before: &[Phase],
) -> Result<Phase, Problem> {
    check_fields(written)?;
    let role = role_of(written)?;
    let recording = resolve_trace(trace, role != Role::Prepare, before)?;
    if repeats > 1 && role != Role::Prepare && !(is_closed(written) && recording.trace.only_reads()) {
        let text = "a trace with times or writes cannot be repeated; remove repeats";
        return Err(Problem::new("trace", text));
    }
    let trace = Arc::clone(&recording.trace);
    let dataset = dataset(written, seed, &trace, before)?;
    let (load, limit, mix) = match role {
        Role::Prepare => prepare(written, &trace)?,
        _ => repeat(written, &trace)?,
    };
    let (timeout_ns, drain_ns) = resolve_waits(written)?;
    let workload = Workload {
        seed,
        phase: written.name.clone(),
        mix,
        read: (role != Role::Prepare).then(|| dataset.clone()),
        written: dataset,
        spare: None,
        copies: None,
        range: 0,
        popularity: Popularity::Uniform,
        inserts: None,
        scan: ScanLength::default(),
        sink: None,
        recording: Some(recording),
        written_in: None,
    };
    Ok(Phase {
        name: written.name.clone(),
        role,
        load,
        ramp: None,
        gaps: None,
        limit,
        timeout_ns,
        drain_ns,
        retries: written.retries.unwrap_or(if role == Role::Prepare { PREPARE_RETRIES } else { 0 }),
        verify: resolve_verify(written)?,
        think_time_ns: 0,
        read_after_ns: None,
        cache: None,
        working_set: None,
        size_classes: resolve_size_classes(written, &workload)?,
        sweep: None,
        workload,
    })
}

/// Returns whether a phase sends its requests one after the other, instead of at their recorded times.
pub(super) fn is_closed(written: &PhaseSpec) -> bool {
    let scans = written.trace.as_ref().is_some_and(|trace| trace.reader.is_some());
    scans || written.concurrency.is_some()
}

/// Checks that the phase has no field that the trace replaces.
fn check_fields(written: &PhaseSpec) -> Result<(), Problem> {
    let objects = &written.objects;
    let replaced = [
        ("operations", !written.operations.is_empty()),
        ("rate", written.rate.is_some()),
        ("arrival", written.arrival.is_some()),
        ("duration", written.duration.is_some() && !is_closed(written)),
        ("sweep", written.sweep.is_some()),
        ("read_after", written.read_after.is_some()),
        ("think_time", written.think_time.is_some()),
        ("objects.size", objects.size.is_some()),
        ("objects.count", objects.count.is_some()),
        ("objects.naming", objects.naming.is_some()),
        ("objects.popularity", objects.popularity.is_some()),
        ("objects.dataset", objects.dataset.is_some()),
        ("objects.keys", objects.keys.is_some()),
        ("objects.records", objects.records.is_some()),
        ("objects.file", objects.file.is_some()),
    ];
    match replaced.into_iter().find(|(_, given)| *given) {
        Some((field, _)) => {
            Err(Problem::new(field, format!("the trace of the phase determines {field}; remove {field}")))
        }
        None => Ok(()),
    }
}

/// Reads the logs of a trace, unless an earlier phase has the same.
///
/// # Errors
/// Returns a [`Problem`] if a field is invalid or a log cannot be read.
pub fn resolve_trace(written: &TraceSpec, repeats: bool, before: &[Phase]) -> Result<Recording, Problem> {
    let speed = written.speed.unwrap_or(1.0);
    if !(speed.is_finite() && speed > 0.0) {
        return Err(Problem::new("trace.speed", "trace.speed must be above 0, such as 2.0"));
    }
    if written.files.is_empty() {
        return Err(Problem::new("trace.files", "trace.files must name at least one log"));
    }
    let scan = resolve_scan(written)?;
    if let Some(format) = written.format.as_deref().filter(|format| !FORMATS.contains(format)) {
        let text = format!("unknown trace.format '{format}'; use one of {}", FORMATS.join(", "));
        return Err(Problem::new("trace.format", text));
    }
    let logs = Logs {
        files: written.files.iter().map(PathBuf::from).collect(),
        format: written.format.clone(),
        columns: written.columns.clone().into_iter().collect(),
        scan,
    };
    let known = before.iter().filter_map(|phase| phase.workload.recording.as_ref());
    if let Some(same) = known.into_iter().find(|known| known.logs == logs && known.speed == speed) {
        return Ok(Recording { repeats, ..same.clone() });
    }
    let unreadable = |e: LogError| Problem::new("trace.files", e.to_string());
    if let Some(scan) = &logs.scan {
        let trace = Arc::new(parquet_scan::trace(&logs.files, scan).map_err(unreadable)?);
        let notes = vec![describe_scan(scan, &trace)];
        return Ok(Recording { logs, speed, repeats, trace, notes });
    }
    let collected = collect(&logs).map_err(unreadable)?;
    let notes = notes(&collected);
    let trace = collected.trace.at_speed(speed);
    Ok(Recording { logs, speed, repeats, trace: Arc::new(trace), notes })
}

/// Returns the scan of a trace; `None` if its files are logs.
fn resolve_scan(written: &TraceSpec) -> Result<Option<Scan>, Problem> {
    let Some(name) = &written.reader else {
        if !written.select.is_empty() {
            let text = "trace.select needs a trace.reader, which reads the columns";
            return Err(Problem::new("trace.select", text));
        }
        return Ok(None);
    };
    let reader = Reader::of(name).ok_or_else(|| {
        let text = format!("unknown trace.reader '{name}'; use one of {}", READERS.join(", "));
        Problem::new("trace.reader", text)
    })?;
    let of_logs = [
        ("trace.format", written.format.is_some()),
        ("trace.columns", !written.columns.is_empty()),
        ("trace.speed", written.speed.is_some()),
    ];
    if let Some((field, _)) = of_logs.into_iter().find(|(_, given)| *given) {
        return Err(Problem::new(field, format!("a scan has no log; remove {field}")));
    }
    Ok(Some(Scan { reader, select: written.select.clone() }))
}

/// Describes the requests of a scan.
fn describe_scan(scan: &Scan, trace: &Trace) -> String {
    let requests = trace.requests();
    let heads = requests.iter().filter(|request| request.kind == OperationKind::Head).count();
    let read = requests.iter().map(|request| request.length).sum();
    let size = (0..trace.objects()).map(|object| trace.size(object, 0)).sum();
    format!(
        "one scan by {} is {} requests: {heads} head, {} get_range of {} in all; the files have {}",
        scan.reader.name(),
        requests.len(),
        requests.len() - heads,
        format_bytes(read),
        format_bytes(size)
    )
}

/// Returns remarks about what the logs lack.
fn notes(collected: &Collected) -> Vec<String> {
    let mut notes = Vec::new();
    let (cut, lost) = collected.cut_ranges;
    if cut > 0 {
        notes.push(format!(
            "{cut} range reads are cut by {} in all: another version of their object is shorter, and may be read in its \
             place",
            format_bytes(lost)
        ));
    }
    if collected.failed > 0 {
        notes.push(format!("{} requests that failed when they were logged are left out", collected.failed));
    }
    if !collected.left_out.is_empty() {
        let names: Vec<String> = collected.left_out.iter().map(|(name, n)| format!("{name} {n}")).collect();
        notes.push(format!("requests of other kinds are left out: {}", names.join(", ")));
    }
    if collected.unknown_sizes > 0 {
        let n = collected.unknown_sizes;
        notes.push(format!(
            "the logs do not have the sizes of {n} objects; they get the median of the known sizes"
        ));
    }
    if collected.sizes_of_ranges > 0 {
        let n = collected.sizes_of_ranges;
        notes.push(format!("of {n} objects, the logs only have ranges; they are as long as the longest"));
    }
    if collected.resolution_ns > 1_000_000 {
        let seconds = collected.resolution_ns as f64 / 1e9;
        notes.push(format!(
            "the times of the logs have a resolution of {seconds} s; the requests of an interval are spread over it at \
             random, in their order"
        ));
    }
    notes
}

/// Returns the objects of a trace, which an earlier phase may have prepared.
fn dataset(written: &PhaseSpec, seed: u64, trace: &Arc<Trace>, before: &[Phase]) -> Result<Dataset, Problem> {
    let is_prepare = written.role.as_deref() == Some("prepare");
    let Some(from) = &written.objects.from else {
        if trace.existing() > 0 && !is_prepare {
            let text = "the requests need objects that existed before; add a prepare phase with the same trace, and \
                        name it in objects.from";
            return Err(Problem::new("objects.from", text));
        }
        let size = Size::Recorded(Arc::clone(trace));
        let dataset = Dataset::new(&written.name, seed, trace.objects().max(1), size);
        return Ok(Dataset { naming: Naming::hex(), ..dataset });
    };
    let phase = before.iter().find(|phase| phase.name == *from && phase.role == Role::Prepare);
    let same = phase.filter(|phase| {
        phase.workload.recording.as_ref().is_some_and(|recording| Arc::ptr_eq(&recording.trace, trace))
    });
    let missing = || {
        let text = format!("objects.from = '{from}' must name an earlier prepare phase with the same trace");
        Problem::new("objects.from", text)
    };
    Ok(same.ok_or_else(missing)?.workload.written.clone())
}

/// Returns load, limit and operations of a phase that writes the objects which existed before the first request.
fn prepare(written: &PhaseSpec, trace: &Trace) -> Result<(Load, Limit, Mix), Problem> {
    let load = closed(written)?;
    let limit = Limit { duration_ns: None, operations: Some(trace.existing()) };
    Ok((load, limit, mix_of([(OperationKind::Put, 1)])?))
}

/// Returns the load of a closed loop.
fn closed(written: &PhaseSpec) -> Result<Load, Problem> {
    let concurrency = match &written.concurrency {
        None => DEFAULT_CONCURRENCY,
        Some(ConcurrencySpec::Fixed(n)) => *n,
        Some(_) => return Err(Problem::new("concurrency", "a trace cannot have a ramp; use a number")),
    };
    if written.in_flight.is_some() {
        let text = "a closed loop has as many operations in flight as concurrency says; remove in_flight";
        return Err(Problem::new("in_flight", text));
    }
    Ok(Load::Closed { concurrency: slots("concurrency", concurrency)? })
}

/// Returns the limit of a closed loop. Only requests that change nothing begin again after the last one.
fn closed_limit(written: &PhaseSpec, trace: &Trace) -> Result<Limit, Problem> {
    let most = trace.requests().len() as u64;
    if written.stop_after == Some(0) {
        return Err(Problem::new("stop_after", "stop_after must be above 0"));
    }
    let duration_ns = written.duration.as_deref().map(|text| length("duration", text)).transpose()?;
    if duration_ns == Some(0) {
        return Err(Problem::new("duration", "duration must be above 0"));
    }
    let operations = match (trace.only_reads(), written.stop_after) {
        (true, Some(n)) => Some(n),
        (true, None) if duration_ns.is_some() => None,
        (_, stop_after) => Some(stop_after.map_or(most, |n| n.min(most))),
    };
    Ok(Limit { duration_ns, operations })
}

/// Returns load, limit and operations of a phase that repeats the requests.
fn repeat(written: &PhaseSpec, trace: &Trace) -> Result<(Load, Limit, Mix), Problem> {
    let requests = trace.requests();
    let most = requests.len() as u64;
    let (load, limit) = if is_closed(written) {
        (closed(written)?, closed_limit(written, trace)?)
    } else {
        let in_flight = slots("in_flight", written.in_flight.unwrap_or(DEFAULT_IN_FLIGHT))?;
        let operations = written.stop_after.map_or(most, |n| n.min(most));
        let load = Load::Open { rate_per_s: trace.rate_per_s(), arrival: Arrival::Recorded, in_flight };
        (load, Limit { duration_ns: None, operations: Some(operations) })
    };
    let counts = OperationKind::ALL.map(|kind| (kind, requests.iter().filter(|r| r.kind == kind).count()));
    // Weights of at most 5,000 in all; the operations themselves come from the trace.
    let scaled = |n: usize| if n == 0 { 0 } else { (n as u64 * 5_000 / most).max(1) as u32 };
    let mix = mix_of(counts.map(|(kind, n)| (kind, scaled(n))))?;
    Ok((load, limit, mix))
}

fn mix_of<const N: usize>(weights: [(OperationKind, u32); N]) -> Result<Mix, Problem> {
    Mix::new(&weights).map_err(|e| Problem::new("trace", e.to_string()))
}
