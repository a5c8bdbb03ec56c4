//! From the file as written to phases with every default filled in, and back. All checks are here; every error names the
//! line of the phase and the fix.

use std::collections::BTreeMap;

use toml::Spanned;

use super::written::{ExperimentWritten, ObjectsWritten, PhaseWritten};
use super::{Experiment, ExperimentError};
use crate::clock::SECOND;
use crate::schedule::arrival::Arrival;
use crate::schedule::{Limit, Load, Phase, Role};
use crate::units::{format_duration, format_rate, format_size, parse_duration, parse_rate, parse_size};
use crate::workload::mix::Mix;
use crate::workload::{Dataset, OperationKind, Workload};

/// Operations in flight of a closed loop, where nothing is written.
pub const DEFAULT_CONCURRENCY: u64 = 16;
/// Most operations in flight of an open loop, where nothing is written.
pub const DEFAULT_IN_FLIGHT: u64 = 1024;
/// Objects, where nothing is written.
pub const DEFAULT_OBJECTS: u64 = 1000;
/// Bytes of an object, where nothing is written.
pub const DEFAULT_SIZE: u64 = 1024;
const DEFAULT_DURATION_NS: u64 = 30 * SECOND;
const DEFAULT_TIMEOUT_NS: u64 = 60 * SECOND;
const DEFAULT_DRAIN_NS: u64 = 10 * SECOND;
/// Objects must be there before they can be read, so writing them is tried again.
const PREPARE_RETRIES: u32 = 5;
/// More lanes than this exceed what one host can hold open.
const MOST_LANES: u64 = 65_536;

/// Parses and resolves the text of an experiment file.
///
/// # Errors
/// [`ExperimentError::At`].
pub fn parse(file: &str, text: &str) -> Result<Experiment, ExperimentError> {
    let line_of = |offset: usize| text[..offset.min(text.len())].matches('\n').count() + 1;
    let at = |offset: usize, message: String| ExperimentError::At {
        file: file.into(),
        line: line_of(offset),
        message,
    };
    let written: ExperimentWritten = toml::from_str(text)
        .map_err(|e| at(e.span().map_or(0, |s| s.start), e.message().replace('\n', " ")))?;
    resolve(written).map_err(|(offset, message)| at(offset, message))
}

type Located<T> = Result<T, (usize, String)>;

/// Resolves an experiment; an error carries the offset of the phase it is about.
///
/// # Errors
/// What is wrong and how to fix it.
pub fn resolve(written: ExperimentWritten) -> Located<Experiment> {
    if written.phase.is_empty() {
        return Err((0, "an experiment needs at least one [[phase]]".into()));
    }
    let mut phases: Vec<Phase> = Vec::new();
    for spanned in &written.phase {
        let offset = spanned.span().start;
        let phase = resolve_phase(spanned.get_ref(), written.seed, &phases)
            .map_err(|message| (offset, format!("phase '{}': {message}", spanned.get_ref().name)))?;
        phases.push(phase);
    }
    let spares: Vec<Phase> = phases.iter().filter_map(|p| spare_phase(p, &phases)).collect();
    let place = phases.iter().position(|p| p.role != Role::Prepare).unwrap_or(phases.len());
    phases.splice(place..place, spares);
    let ExperimentWritten { name, description, seed, stores, .. } = written;
    Ok(Experiment { name, description, seed, stores, phases })
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 64
        && text.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.'))
}

fn resolve_phase(written: &PhaseWritten, seed: u64, before: &[Phase]) -> Result<Phase, String> {
    if !is_name(&written.name) {
        return Err("a name has 1 to 64 letters, digits, '-', '_' or '.'".into());
    }
    if before.iter().any(|p| p.name == written.name) {
        return Err("the name is taken by an earlier phase; choose another".into());
    }
    let role = match written.role.as_deref() {
        None | Some("measure") => Role::Measure,
        Some("warmup") => Role::Warmup,
        Some("prepare") => Role::Prepare,
        Some(other) => return Err(format!("role '{other}' must be prepare, warmup or measure")),
    };
    let mix = resolve_mix(&written.operations)?;
    if role == Role::Prepare && mix.share(OperationKind::Put) != mix.total() {
        return Err("a prepare phase only writes: operations = { put = 1 }".into());
    }
    if mix.share(OperationKind::Delete) > mix.share(OperationKind::Put)
        && mix.share(OperationKind::Delete) != mix.total()
    {
        return Err(
            "more deletes than puts run out of objects; give put at least the weight of delete".into()
        );
    }
    let load = resolve_load(written)?;
    let (read, written_set, spare) =
        resolve_objects(written, &mix, load.lanes() as u64, load.is_open(), before)?;
    let range = resolve_range(written, &mix, read.as_ref())?;
    let duration = |name: &str, text: &Option<String>, default: u64| match text {
        None => Ok(default),
        Some(text) => parse_duration(text).map_err(|e| format!("{name}: {e}")),
    };
    let stop_after = if role == Role::Prepare {
        Some(written.stop_after.unwrap_or(written_set.count))
    } else {
        written.stop_after
    };
    let duration_ns = match (&written.duration, stop_after) {
        (None, Some(_)) => None,
        (text, _) => Some(duration("duration", text, DEFAULT_DURATION_NS)?),
    };
    if duration_ns == Some(0) || stop_after == Some(0) {
        return Err("duration and stop_after must be above 0".into());
    }
    let verify = match written.verify.as_deref() {
        None | Some("on") => true,
        Some("off") => false,
        Some(other) => return Err(format!("verify '{other}' must be on or off")),
    };
    let timeout_ns = duration("timeout", &written.timeout, DEFAULT_TIMEOUT_NS)?;
    if timeout_ns == 0 {
        return Err("timeout must be above 0".into());
    }
    let workload =
        Workload { seed, phase: written.name.clone(), mix, read, written: written_set, spare, range };
    let operations = match (stop_after, workload.exhausted_after()) {
        (Some(asked), Some(there)) => Some(asked.min(there)),
        (asked, there) => asked.or(there),
    };
    Ok(Phase {
        name: written.name.clone(),
        role,
        load,
        limit: Limit { duration_ns, operations },
        timeout_ns,
        drain_ns: duration("drain", &written.drain, DEFAULT_DRAIN_NS)?,
        retries: written.retries.unwrap_or(if role == Role::Prepare { PREPARE_RETRIES } else { 0 }),
        verify,
        workload,
    })
}

fn resolve_mix(operations: &BTreeMap<String, u32>) -> Result<Mix, String> {
    let mut weights = Vec::new();
    for (name, weight) in operations {
        let kind = OperationKind::from_name(name).ok_or_else(|| {
            let known: Vec<&str> = OperationKind::ALL.iter().map(|k| k.name()).collect();
            format!("operation '{name}' is unknown; known are {}", known.join(", "))
        })?;
        weights.push((kind, *weight));
    }
    Mix::new(&weights).map_err(|e| e.to_string())
}

fn resolve_load(written: &PhaseWritten) -> Result<Load, String> {
    let lanes = |name: &str, value: Option<u64>, default: u64| match value.unwrap_or(default) {
        n if (1..=MOST_LANES).contains(&n) => Ok(n as usize),
        n => Err(format!("{name} = {n} must be between 1 and {MOST_LANES}")),
    };
    let Some(rate) = &written.rate else {
        if written.arrival.is_some() || written.in_flight.is_some() {
            return Err(
                "arrival and in_flight belong to an open loop; add rate = \"500/s\" or drop them".into()
            );
        }
        return Ok(Load::Closed {
            concurrency: lanes("concurrency", written.concurrency, DEFAULT_CONCURRENCY)?,
        });
    };
    if written.concurrency.is_some() {
        return Err("a phase has either concurrency (closed loop) or rate (open loop), not both".into());
    }
    let rate_per_s = parse_rate(rate).map_err(|e| format!("rate: {e}"))?;
    let arrival = match written.arrival.as_deref() {
        None => Arrival::Constant,
        Some(name) => {
            Arrival::from_name(name).ok_or_else(|| format!("arrival '{name}' must be constant or poisson"))?
        }
    };
    Ok(Load::Open {
        rate_per_s,
        arrival,
        in_flight: lanes("in_flight", written.in_flight, DEFAULT_IN_FLIGHT)?,
    })
}

type Datasets = (Option<Dataset>, Dataset, Option<Dataset>);

fn resolve_objects(
    written: &PhaseWritten,
    mix: &Mix,
    lanes: u64,
    open: bool,
    before: &[Phase],
) -> Result<Datasets, String> {
    let objects = &written.objects;
    let read = match &objects.from {
        None => None,
        Some(from) => {
            let source = before.iter().find(|p| p.name == *from && p.role == Role::Prepare);
            let source = source.ok_or_else(|| {
                format!("objects.from = '{from}' must name a prepare phase that stands before this one")
            })?;
            Some(source.workload.written.clone())
        }
    };
    if read.is_none() && mix.shares().iter().any(|(kind, _)| kind.reads()) {
        return Err(
            "what it reads must be written first; add a prepare phase and name it in objects.from".into()
        );
    }
    let default_size = read.as_ref().map_or(DEFAULT_SIZE, |d| d.size);
    let size = match &objects.size {
        None => default_size,
        Some(text) => parse_size(text).map_err(|e| format!("objects.size: {e}"))?,
    };
    if size > 5 << 30 {
        return Err(format!(
            "objects.size: {} is more than one request can carry (5 GiB)",
            format_size(size)
        ));
    }
    let count = objects.count.unwrap_or_else(|| read.as_ref().map_or(DEFAULT_OBJECTS, |d| d.count));
    if count == 0 {
        return Err("objects.count must be above 0".into());
    }
    let only_deletes = mix.share(OperationKind::Delete) == mix.total();
    let spare_count = if only_deletes {
        count
    } else if open {
        64
    } else {
        // Twice the lanes: the put that a delete meets was begun at least a full round earlier.
        (2 * lanes).max(16)
    };
    let spare = (mix.share(OperationKind::Delete) > 0).then(|| Dataset {
        name: format!("{}.spare", written.name),
        count: spare_count,
        size,
    });
    // A ring shorter than the distance between put and delete would overwrite what is about to be deleted.
    let ring = if spare.is_some() { count.max(8 * spare_count) } else { count };
    Ok((read, Dataset { name: written.name.clone(), count: ring, size }, spare))
}

fn resolve_range(written: &PhaseWritten, mix: &Mix, read: Option<&Dataset>) -> Result<u64, String> {
    let Some(text) = &written.objects.range else {
        let needed = mix.share(OperationKind::GetRange) > 0;
        return if needed { Err("get_range needs objects.range, such as \"1 MiB\"".into()) } else { Ok(0) };
    };
    let range = parse_size(text).map_err(|e| format!("objects.range: {e}"))?;
    match read {
        Some(read) if range == 0 || range > read.size => Err(format!(
            "objects.range must be between 1 B and the objects' size, {}",
            format_size(read.size)
        )),
        _ => Ok(range),
    }
}

/// The phase that writes what `phase` will delete, unless the file has it already.
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
        range: 0,
    };
    let concurrency = phase.load.lanes().min(DEFAULT_CONCURRENCY as usize);
    Some(Phase {
        name: spare.name.clone(),
        role: Role::Prepare,
        limit: Limit { duration_ns: None, operations: Some(spare.count) },
        load: Load::Closed { concurrency },
        timeout_ns: phase.timeout_ns,
        drain_ns: phase.drain_ns,
        retries: PREPARE_RETRIES,
        verify: phase.verify,
        workload,
    })
}

/// The experiment with everything written out, as TOML that resolves to itself.
pub fn to_toml(experiment: &Experiment) -> String {
    let phase = |p: &Phase| {
        let w = &p.workload;
        let (rate, arrival, in_flight, concurrency) = match p.load {
            Load::Closed { concurrency } => (None, None, None, Some(concurrency as u64)),
            Load::Open { rate_per_s, arrival, in_flight } => (
                Some(format_rate(rate_per_s)),
                Some(arrival.name().to_string()),
                Some(in_flight as u64),
                None,
            ),
        };
        PhaseWritten {
            name: p.name.clone(),
            role: Some(p.role.name().into()),
            operations: w.mix.shares().iter().map(|(k, n)| (k.name().to_string(), *n)).collect(),
            objects: ObjectsWritten {
                from: w.read.as_ref().map(|d| d.name.clone()),
                count: Some(w.exhausted_after().unwrap_or(w.written.count)),
                size: Some(format_size(w.written.size)),
                range: (w.range > 0).then(|| format_size(w.range)),
            },
            concurrency,
            rate,
            arrival,
            in_flight,
            duration: p.limit.duration_ns.map(format_duration),
            stop_after: p.limit.operations,
            timeout: Some(format_duration(p.timeout_ns)),
            drain: Some(format_duration(p.drain_ns)),
            retries: Some(p.retries),
            verify: Some(if p.verify { "on" } else { "off" }.into()),
        }
    };
    let written = ExperimentWritten {
        name: experiment.name.clone(),
        description: experiment.description.clone(),
        seed: experiment.seed,
        stores: experiment.stores.clone(),
        phase: experiment.phases.iter().map(|p| Spanned::new(0..0, phase(p))).collect(),
    };
    toml::to_string(&written).unwrap_or_else(|e| format!("# could not be written: {e}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::BUILT_IN;

    #[test]
    fn built_in_experiments_resolve_to_themselves() {
        for (name, text) in BUILT_IN {
            let experiment = parse(name, text).unwrap();
            let again = parse("resolved", &to_toml(&experiment)).unwrap();
            assert_eq!(experiment, again, "{name}");
        }
    }

    #[test]
    fn a_phase_that_deletes_gets_its_objects_beforehand() {
        let text =
            "name='x'\n[[phase]]\nname='gone'\noperations={delete=1}\nobjects={count=50}\nduration='1s'\n";
        let experiment = parse("f", text).unwrap();
        let [spare, gone] = &experiment.phases[..] else { panic!() };
        assert_eq!(
            (spare.name.as_str(), spare.role, spare.limit.operations),
            ("gone.spare", Role::Prepare, Some(50))
        );
        assert_eq!(gone.limit.operations, Some(50), "it ends when the objects are gone");
        assert_eq!(experiment, parse("f", &to_toml(&experiment)).unwrap());
    }

    #[test]
    fn errors_name_the_line_and_the_fix() {
        let error = |text: &str| parse("e.toml", text).unwrap_err().to_string();
        let phase = |body: &str| error(&format!("name = 'x'\n\n[[phase]]\nname = 'p'\n{body}\n"));
        for (body, expected) in [
            ("operations = { get = 1 }", "e.toml:3: phase 'p': what it reads must be written first"),
            ("operations = { put = 0 }", "e.toml:3: phase 'p': operations must give at least one"),
            ("operations = { post = 1 }", "operation 'post' is unknown; known are put, get,"),
            ("operations = { put = 1 }\nrate = '5'", "rate: '5' is not a rate"),
            ("operations = { put = 1 }\nrate = '5/s'\nconcurrency = 3", "not both"),
            ("operations = { put = 1 }\nin_flight = 3", "add rate"),
            ("operations = { put = 1 }\nconcurrency = 0", "between 1 and"),
            ("operations = { put = 1 }\nduration = '30'", "is not a duration"),
            ("operations = { put = 1 }\nobjects = { from = 'q' }", "must name a prepare phase"),
            ("operations = { put = 1 }\nobjects = { size = '6 GiB' }", "5 GiB"),
            ("operations = { put = 1, delete = 2 }", "more deletes than puts"),
            ("operations = { put = 1 }\nverify = 'maybe'", "on or off"),
            ("operations = { put = 1 }\nrole = 'main'", "prepare, warmup or measure"),
            ("operations = { put = 1 }\nconcurency = 3", "e.toml:6: unknown field `concurency`"),
            ("operations = { put = 1 }\nduration = 3", "e.toml:6: invalid type"),
        ] {
            assert!(phase(body).contains(expected), "{body}\n -> {}", phase(body));
        }
        assert!(error("name = 'x'").contains("at least one [[phase]]"));
        assert!(error("name = ").starts_with("e.toml:1:"));
    }
}
