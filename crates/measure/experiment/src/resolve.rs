//! Resolution of an experiment file into phases with every default filled in. All checks are in this module and in
//! the modules that it calls, such as [`super::objects`]. Every error names the field, from which [`parse`] finds
//! the line.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::caches::{of_one_pass, resolve_cache, resolve_working_set};
use super::field_specs::PaceSpec;
use super::locate::{line_of, parse_set, set};
use super::objects::{Datasets, resolve_objects};
use super::phase_fields::{
    DEFAULT_CONCURRENCY, DEFAULT_IN_FLIGHT, PREPARE_RETRIES, length, resolve_size_classes, resolve_verify,
    resolve_waits, role_of, slots, varies,
};
use super::ranges::{check_ranges, resolve_range};
use super::read_after::resolve_read_after;
use super::records::resolve_scan;
use super::replay::{is_closed, resolve_replay};
use super::spec::{ArrivalSpec, ConcurrencySpec, ExperimentSpec, ObjectsSpec, PhaseSpec, RateSpec};
use super::sweep::expand;
use super::{Experiment, ExperimentError, Problem};
use plimsoll_base::clock::SECOND;
use plimsoll_base::units::parse_rate;
use plimsoll_workload::cdf::Cdf;
use plimsoll_workload::mix::Mix;
use plimsoll_workload::popularity::Popularity;
use plimsoll_workload::schedule::arrival::{Arrival, Gaps};
use plimsoll_workload::schedule::pace::Pace;
use plimsoll_workload::schedule::plan::Order;
use plimsoll_workload::schedule::ramp::{Ramp, Stop};
use plimsoll_workload::schedule::{Limit, Load, Phase, Role, SweepPlace};
use plimsoll_workload::size_classes::SizeClasses;
use plimsoll_workload::{OperationKind, ScanLength, Workload};

/// Default maximum number of operations in flight of a ramp that ends at its plateau.
pub const DEFAULT_RAMP_TO: u64 = 512;
const DEFAULT_DURATION_NS: u64 = 30 * SECOND;
const DEFAULT_BLOCK: &str = "10s";
const DEFAULT_REWARM: &str = "1s";
const MAX_STEPS: u32 = 1_000;

/// Parses and resolves the text of an experiment file; the `--set` options in `sets` override its values.
///
/// # Errors
/// Returns an [`ExperimentError`] that names the line or the `--set` option at fault.
pub fn parse(file: &str, text: &str, sets: &[String]) -> Result<Experiment, ExperimentError> {
    let at = |line: usize, message: String| ExperimentError::At { file: file.into(), line, message };
    let read = |text: &str| -> Result<ExperimentSpec, toml::de::Error> { toml::from_str(text) };
    let mut written = read(text).map_err(|e| {
        let offset = e.span().map_or(0, |s| s.start).min(text.len());
        at(text[..offset].matches('\n').count() + 1, parser_message(&e))
    })?;
    let mut changed = Vec::new();
    if !sets.is_empty() {
        let mut table: toml::Table = toml::from_str(text).map_err(|e| at(1, e.message().to_string()))?;
        for one in sets {
            let (path, value) = parse_set(one)?;
            set(&mut table, &path, value)?;
            written = ExperimentSpec::deserialize(table.clone())
                .map_err(|e| ExperimentError::Set { set: one.clone(), message: parser_message(&e) })?;
            changed.push((path, one.clone()));
        }
    }
    resolve(written).map_err(|problem| {
        let culprit = changed
            .iter()
            .rev()
            .find(|(path, _)| problem.path.starts_with(path.as_str()) || path.starts_with(&problem.path));
        match culprit {
            Some((_, set)) if !problem.path.is_empty() => {
                ExperimentError::Set { set: set.clone(), message: problem.message }
            }
            _ => at(line_of(text, &problem.path), problem.message),
        }
    })
}

/// Returns the parser's message on one line, with a fix where the parser does not give one.
fn parser_message(error: &toml::de::Error) -> String {
    let message = error.message().trim().replace('\n', " ");
    let message = message
        .replace("expected u64", "expected a whole number, 0 or more")
        .replace("expected u32", "expected a whole number, 0 or more");
    match () {
        () if message.ends_with("expected a string") => format!("{message}; put the value in quotes"),
        () if message == "duplicate key" => {
            "the key appears twice; a phase begins with [[phase]], with two brackets on each side".into()
        }
        () => message,
    }
}

/// Resolves an experiment: validates its fields and fills in the defaults.
///
/// # Errors
/// Returns a [`Problem`] that names the field, the error and the fix.
pub fn resolve(written: ExperimentSpec) -> Result<Experiment, Problem> {
    if written.phase.is_empty() {
        return Err(Problem::new("", "an experiment needs at least one [[phase]]"));
    }
    let repeats = written.repeats.unwrap_or(1);
    if !(1..=10_000).contains(&repeats) {
        return Err(Problem::new("repeats", "repeats must be between 1 and 10000"));
    }
    let has_trace = written.phase.iter().any(|phase| phase.trace.is_some() && !is_closed(phase));
    let order = match written.order.as_deref() {
        None if has_trace => Order::Sequential,
        None => Order::Interleaved,
        Some(name) => Order::from_name(name).ok_or_else(|| {
            Problem::new("order", format!("unknown order '{name}'; use interleaved or sequential"))
        })?,
    };
    if has_trace && order == Order::Interleaved {
        let text = "a trace cannot be divided into blocks; set order = \"sequential\"";
        return Err(Problem::new("order", text));
    }
    let block_ns = length("block", written.block.as_deref().unwrap_or(DEFAULT_BLOCK))?;
    if block_ns == 0 {
        return Err(Problem::new("block", "block must be above 0, such as \"10s\""));
    }
    let rewarm_ns = length("rewarm", written.rewarm.as_deref().unwrap_or(DEFAULT_REWARM))?;
    let mut phases: Vec<Phase> = Vec::new();
    for phase in &expand(&written.phase)? {
        let named = |problem: Problem| Problem {
            path: format!("phase.{}.{}", phase.name, problem.path).trim_end_matches('.').to_string(),
            message: format!("phase '{}': {}", phase.name, problem.message),
        };
        phases.push(resolve_phase(phase, written.seed, repeats, &phases).map_err(named)?);
    }
    let spares: Vec<Phase> = phases.iter().filter_map(|p| spare_phase(p, &phases)).collect();
    let place = phases.iter().position(|p| p.role != Role::Prepare).unwrap_or(phases.len());
    phases.splice(place..place, spares);
    let ExperimentSpec { name, description, seed, stores, store: named, .. } = written;
    Ok(Experiment { name, description, seed, stores, named, repeats, order, block_ns, rewarm_ns, phases })
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 64
        && text.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.'))
}

fn check_name(written: &PhaseSpec, before: &[Phase]) -> Result<(), Problem> {
    if !is_name(&written.name) {
        return Err(Problem::new("name", "the name must have 1 to 64 letters, digits, '-', '_' or '.'"));
    }
    if before.iter().any(|p| p.name == written.name) {
        return Err(Problem::new("name", "the name is taken by an earlier phase; choose another"));
    }
    Ok(())
}

/// Checks that a phase of this role can have these operations.
fn check_mix(mix: &Mix, role: Role) -> Result<(), Problem> {
    let writes_only = mix.share(OperationKind::Put) == mix.total();
    if role == Role::Prepare && !writes_only {
        return Err(Problem::new(
            "operations",
            "a prepare phase can only put objects; write operations = { put = 1 }",
        ));
    }
    let deletes = mix.share(OperationKind::Delete);
    if deletes > mix.share(OperationKind::Put) && deletes != mix.total() {
        let text = "with more deletes than puts, the phase runs out of objects; give put at least the weight of delete";
        return Err(Problem::new("operations", text));
    }
    Ok(())
}

/// Resolves the pause after each operation, in nanoseconds.
fn resolve_think_time(written: &PhaseSpec, load: &Load) -> Result<u64, Problem> {
    let think_time_ns = written.think_time.as_deref().map_or(Ok(0), |t| length("think_time", t))?;
    if think_time_ns > 0 && load.is_open() {
        let text = "think_time applies only to a closed loop; an open loop starts operations at their intended times";
        return Err(Problem::new("think_time", text));
    }
    Ok(think_time_ns)
}

fn resolve_phase(written: &PhaseSpec, seed: u64, repeats: u32, before: &[Phase]) -> Result<Phase, Problem> {
    check_name(written, before)?;
    if let Some(trace) = &written.trace {
        return resolve_replay(written, trace, seed, repeats, before);
    }
    let role = role_of(written)?;
    let mix = resolve_mix(&written.operations)?;
    check_mix(&mix, role)?;
    let deletes = mix.share(OperationKind::Delete);
    let (load, ramp) = resolve_load(written)?;
    let gaps = resolve_gaps(written)?;
    if ramp.is_some() && role != Role::Measure {
        return Err(Problem::new(
            "role",
            "only a measure phase can have a ramp; use a fixed load, or role = \"measure\"",
        ));
    }
    let slots = ramp.filter(|_| !load.is_open()).map_or(load.slots() as u64, |r| r.to as u64);
    let Datasets { mut read, written: objects, spare, copies, popularity, inserts } =
        resolve_objects(written, &mix, slots, load.is_open(), seed, repeats, before)?;
    let working_set = resolve_working_set(written, read.as_mut())?;
    let range = resolve_range(written, &mix, read.as_ref())?;
    check_ranges(&popularity, &mix, read.as_ref())?;
    let per_repeat =
        (deletes == mix.total()).then(|| spare.as_ref().map_or(0, |s| s.count / u64::from(repeats)));
    let one_pass = of_one_pass(written, role, &popularity, read.as_ref());
    let mut limit =
        one_pass.map_or_else(|| resolve_limit(written, role, ramp, objects.count, per_repeat), Ok)?;
    let verify = resolve_verify(written)?;
    let think_time_ns = resolve_think_time(written, &load)?;
    let (timeout_ns, drain_ns) = resolve_waits(written)?;
    let mut workload = Workload {
        seed,
        phase: written.name.clone(),
        mix,
        read,
        written: objects,
        spare,
        copies,
        range,
        popularity,
        inserts,
        scan: resolve_scan(written.objects.scan.as_ref())?,
        sink: None,
        recording: None,
        written_in: written_in(&written.objects, before),
    };
    let cache = resolve_cache(written, repeats, &mut workload, &mut limit, before)?;
    let read_after_ns = resolve_read_after(written, &mut workload, &mut limit)?;
    Ok(Phase {
        size_classes: resolve_size_classes(written, &workload)?,
        name: written.name.clone(),
        role,
        load,
        ramp,
        gaps,
        limit,
        timeout_ns,
        drain_ns,
        retries: written.retries.unwrap_or(if role == Role::Prepare { PREPARE_RETRIES } else { 0 }),
        verify,
        think_time_ns,
        read_after_ns,
        cache,
        working_set,
        sweep: written.sweep_of.clone().map(|of| SweepPlace { of, at: written.sweep_at.clone() }),
        workload,
    })
}

/// Returns the first repeat if a measured phase writes the objects, because each repeat then writes them again.
fn written_in(objects: &ObjectsSpec, before: &[Phase]) -> Option<u32> {
    let from = objects.from.as_ref()?;
    before.iter().any(|phase| phase.name == *from && phase.role == Role::Measure).then_some(0)
}

fn resolve_limit(
    written: &PhaseSpec,
    role: Role,
    ramp: Option<Ramp>,
    objects: u64,
    exhausted: Option<u64>,
) -> Result<Limit, Problem> {
    if let Some(ramp) = ramp {
        for (field, given) in
            [("duration", written.duration.is_some()), ("stop_after", written.stop_after.is_some())]
        {
            if given {
                let text = format!(
                    "a ramp does not accept {field}: its steps (every) determine its length; remove {field}"
                );
                return Err(Problem::new(field, text));
            }
        }
        let duration_ns = Some(ramp.every_ns * u64::from(ramp.steps()));
        return Ok(Limit { duration_ns, operations: None });
    }
    let stop_after = match role {
        Role::Prepare => Some(written.stop_after.unwrap_or(objects)),
        _ => written.stop_after,
    };
    let duration_ns = match (&written.duration, stop_after) {
        (None, Some(_)) => None,
        (text, _) => Some(text.as_deref().map_or(Ok(DEFAULT_DURATION_NS), |t| length("duration", t))?),
    };
    if duration_ns == Some(0) {
        return Err(Problem::new("duration", "duration must be above 0"));
    }
    if stop_after == Some(0) {
        return Err(Problem::new("stop_after", "stop_after must be above 0"));
    }
    let operations = match (stop_after, exhausted) {
        (Some(requested), Some(available)) => Some(requested.min(available)),
        (requested, available) => requested.or(available),
    };
    Ok(Limit { duration_ns, operations })
}

fn resolve_mix(operations: &BTreeMap<String, u32>) -> Result<Mix, Problem> {
    let mut weights = Vec::new();
    for (name, weight) in operations {
        let kind = OperationKind::from_name(name).ok_or_else(|| {
            let known: Vec<&str> = OperationKind::ALL.iter().map(|k| k.name()).collect();
            let text = format!("unknown operation '{name}'; the operations are {}", known.join(", "));
            Problem::new(&format!("operations.{name}"), text)
        })?;
        weights.push((kind, *weight));
    }
    Mix::new(&weights).map_err(|e| Problem::new("operations", e.to_string()))
}

fn stop_of(field: &str, text: Option<&str>) -> Result<Stop, Problem> {
    let name = text.unwrap_or("plateau");
    Stop::from_name(name).ok_or_else(|| {
        let field = format!("{field}.stop");
        Problem::new(&field, format!("unknown value '{name}' of {field}; use plateau or never"))
    })
}

fn checked(field: &str, ramp: Ramp) -> Result<Ramp, Problem> {
    if ramp.every_ns == 0 {
        return Err(Problem::new(
            &format!("{field}.every"),
            format!("{field}.every must be above 0, such as \"30s\""),
        ));
    }
    if ramp.step <= 0.0 {
        return Err(Problem::new(&format!("{field}.step"), format!("{field}.step must be above 0")));
    }
    if ramp.to < ramp.from {
        return Err(Problem::new(
            &format!("{field}.to"),
            format!("{field}.to must not be below {field}.from"),
        ));
    }
    if ramp.steps() > MAX_STEPS {
        let text =
            format!("{field}: the ramp has {} steps, more than {MAX_STEPS}; use a larger step", ramp.steps());
        return Err(Problem::new(&format!("{field}.step"), text));
    }
    Ok(ramp)
}

fn resolve_load(written: &PhaseSpec) -> Result<(Load, Option<Ramp>), Problem> {
    let Some(rate) = &written.rate else {
        if written.arrival.is_some() || written.in_flight.is_some() {
            let field = if written.arrival.is_some() { "arrival" } else { "in_flight" };
            let text =
                "arrival and in_flight apply only to an open loop; add rate = \"500/s\" or remove them";
            return Err(Problem::new(field, text));
        }
        return resolve_closed(written.concurrency.as_ref());
    };
    if written.concurrency.is_some() {
        let text = "a phase has either concurrency (closed loop) or rate (open loop), not both; remove one";
        return Err(Problem::new("rate", text));
    }
    let arrival = match &written.arrival {
        None => Arrival::Constant,
        Some(ArrivalSpec::Gaps { .. }) => Arrival::Gaps,
        Some(ArrivalSpec::Name(name)) => Arrival::from_name(name).ok_or_else(|| {
            Problem::new("arrival", format!("unknown arrival '{name}'; use constant or poisson"))
        })?,
    };
    let in_flight = slots("in_flight", written.in_flight.unwrap_or(DEFAULT_IN_FLIGHT))?;
    let per_s =
        |field: &str, text: &str| parse_rate(text).map_err(|e| Problem::new(field, format!("{field}: {e}")));
    let open = |rate_per_s| Load::Open { rate_per_s, arrival, in_flight };
    match rate {
        RateSpec::Fixed(text) => Ok((open(per_s("rate", text)?), None)),
        RateSpec::Ramp(ramp) => {
            let every_ns = length("rate.every", &ramp.every)?;
            let (from, step) = (per_s("rate.from", &ramp.from)?, per_s("rate.step", &ramp.step)?);
            let (to, stop) = (per_s("rate.to", &ramp.to)?, stop_of("rate", ramp.stop.as_deref())?);
            let ramp = checked("rate", Ramp { from, step, to, every_ns, stop })?;
            Ok((open(from), Some(ramp)))
        }
    }
}

/// Resolves the distribution of the gaps between the intended start times; `None` if they have a name.
fn resolve_gaps(written: &PhaseSpec) -> Result<Option<Gaps>, Problem> {
    let Some(ArrivalSpec::Gaps { gaps, pace }) = &written.arrival else { return Ok(None) };
    let problem = |e: String| Problem::new("arrival", format!("arrival.gaps: {e}"));
    let cdf = Cdf::new(gaps.clone()).map_err(problem)?;
    if cdf.mean() <= 0.0 {
        return Err(problem("the mean gap must be above 0".into()));
    }
    let resolved = |written: &PaceSpec| {
        let every_ns = length("arrival.pace.every", &written.every)?;
        let pace = Pace::new(every_ns, &written.rates);
        pace.map_err(|e| Problem::new("arrival", format!("arrival.pace: {e}")))
    };
    Ok(Some(Gaps { cdf, pace: pace.as_ref().map(resolved).transpose()? }))
}

fn resolve_closed(written: Option<&ConcurrencySpec>) -> Result<(Load, Option<Ramp>), Problem> {
    match written {
        None => Ok((Load::Closed { concurrency: DEFAULT_CONCURRENCY as usize }, None)),
        Some(ConcurrencySpec::Fixed(n)) => {
            Ok((Load::Closed { concurrency: slots("concurrency", *n)? }, None))
        }
        Some(ConcurrencySpec::Ramp(ramp)) => {
            let from = slots("concurrency.from", ramp.from)?;
            let stop = stop_of("concurrency", ramp.stop.as_deref())?;
            let to = match (ramp.to, stop) {
                (Some(to), _) => to,
                (None, Stop::Plateau) => DEFAULT_RAMP_TO.max(ramp.from),
                (None, Stop::Never) => {
                    let text = "a ramp with stop = \"never\" needs concurrency.to, such as to = 256";
                    return Err(Problem::new("concurrency", text));
                }
            };
            let to = slots("concurrency.to", to)? as f64;
            let every_ns = length("concurrency.every", &ramp.every)?;
            let ramp = Ramp { from: from as f64, step: ramp.step as f64, to, every_ns, stop };
            Ok((Load::Closed { concurrency: from }, Some(checked("concurrency", ramp)?)))
        }
    }
}

/// Returns the prepare phase that writes the objects which `phase` deletes first. Returns `None` if `phase` does not
/// delete, or if `all` already contains that prepare phase.
fn spare_phase(phase: &Phase, all: &[Phase]) -> Option<Phase> {
    let spare = phase.workload.spare.as_ref()?;
    if all.iter().any(|p| p.name == spare.name) {
        return None;
    }
    let put = Mix::new(&[(OperationKind::Put, 1)]).ok()?;
    let workload = Workload {
        seed: phase.workload.seed,
        phase: spare.name.clone(),
        mix: put,
        read: None,
        written: spare.clone(),
        spare: None,
        copies: None,
        range: 0,
        popularity: Popularity::Uniform,
        inserts: None,
        scan: ScanLength::default(),
        sink: None,
        recording: None,
        written_in: None,
    };
    let concurrency = phase.load.slots().min(DEFAULT_CONCURRENCY as usize);
    Some(Phase {
        name: spare.name.clone(),
        role: Role::Prepare,
        limit: Limit { duration_ns: None, operations: Some(spare.count) },
        load: Load::Closed { concurrency },
        ramp: None,
        gaps: None,
        timeout_ns: phase.timeout_ns,
        drain_ns: phase.drain_ns,
        retries: PREPARE_RETRIES,
        verify: phase.verify,
        think_time_ns: 0,
        read_after_ns: None,
        cache: None,
        working_set: None,
        size_classes: varies(spare).then(SizeClasses::default),
        sweep: None,
        workload,
    })
}

#[cfg(test)]
#[path = "resolve_tests.rs"]
mod tests;
