//! Fields that every kind of phase has, and their defaults.

use super::Problem;
use super::spec::PhaseSpec;
use plimsoll_base::clock::SECOND;
use plimsoll_base::units::{parse_duration, parse_size};
use plimsoll_workload::schedule::{Role, Verify};
use plimsoll_workload::size_classes::SizeClasses;
use plimsoll_workload::{Dataset, Workload};

/// Default number of operations in flight of a closed loop.
pub const DEFAULT_CONCURRENCY: u64 = 16;

/// Default maximum number of operations in flight of an open loop.
pub const DEFAULT_IN_FLIGHT: u64 = 1024;

const DEFAULT_TIMEOUT_NS: u64 = 60 * SECOND;

const DEFAULT_DRAIN_NS: u64 = 10 * SECOND;

/// Default number of retries in prepare phases. They retry because later phases need every object.
pub(super) const PREPARE_RETRIES: u32 = 10;

/// Maximum number of connection slots; one host cannot keep more connections open.
const MAX_SLOTS: u64 = 65_536;

pub(super) fn role_of(written: &PhaseSpec) -> Result<Role, Problem> {
    match written.role.as_deref() {
        None | Some("measure") => Ok(Role::Measure),
        Some("warmup") => Ok(Role::Warmup),
        Some("prepare") => Ok(Role::Prepare),
        Some(other) => {
            Err(Problem::new("role", format!("unknown role '{other}'; use prepare, warmup or measure")))
        }
    }
}

/// Resolves the deadline of an operation and the maximum length of the drain, in nanoseconds.
pub(super) fn resolve_waits(written: &PhaseSpec) -> Result<(u64, u64), Problem> {
    let timeout_ns = written.timeout.as_deref().map_or(Ok(DEFAULT_TIMEOUT_NS), |t| length("timeout", t))?;
    if timeout_ns == 0 {
        return Err(Problem::new("timeout", "timeout must be above 0"));
    }
    let drain_ns = written.drain.as_deref().map_or(Ok(DEFAULT_DRAIN_NS), |t| length("drain", t))?;
    Ok((timeout_ns, drain_ns))
}

/// Resolves the verification of contents.
pub(super) fn resolve_verify(written: &PhaseSpec) -> Result<Verify, Problem> {
    let verify = written.verify.as_deref().unwrap_or("on");
    let verify = Verify::from_name(verify).ok_or_else(|| {
        Problem::new("verify", format!("unknown value '{verify}' of verify; use on, off or readback"))
    })?;
    let read_only = ["get", "get_range", "head", "list", "scan", "delete"];
    if verify == Verify::Readback && written.operations.keys().all(|name| read_only.contains(&name.as_str()))
    {
        let problem = "verify readback: the phase writes nothing that could be read back; use on, which compares every \
                       byte that is read";
        return Err(Problem::new("verify", problem));
    }
    Ok(verify)
}

/// Returns true if the objects of a dataset may have different sizes.
pub(super) fn varies(dataset: &Dataset) -> bool {
    dataset.existing.is_some() || dataset.size.smallest() != dataset.size.largest()
}

/// Resolves the classes of sizes by which latencies are divided; `None` if all objects have one size.
pub(super) fn resolve_size_classes(
    written: &PhaseSpec,
    workload: &Workload,
) -> Result<Option<SizeClasses>, Problem> {
    let problem = |text: String| Problem::new("size_classes", format!("size_classes: {text}"));
    let varies = workload.read.iter().chain([&workload.written]).any(varies);
    let Some(sizes) = &written.size_classes else { return Ok(varies.then(SizeClasses::default)) };
    if !varies {
        return Err(problem("all objects of the phase have one size; remove size_classes".into()));
    }
    let bytes = sizes.iter().map(|text| parse_size(text).map_err(|e| problem(e.to_string())));
    let bytes = bytes.collect::<Result<Vec<u64>, Problem>>()?;
    SizeClasses::between(&bytes).map(Some).map_err(|e| problem(e.to_string()))
}

pub(super) fn slots(field: &str, n: u64) -> Result<usize, Problem> {
    match n {
        n if (1..=MAX_SLOTS).contains(&n) => Ok(n as usize),
        n => Err(Problem::new(field, format!("{field} = {n} must be between 1 and {MAX_SLOTS}"))),
    }
}

pub(super) fn length(field: &str, text: &str) -> Result<u64, Problem> {
    parse_duration(text).map_err(|e| Problem::new(field, format!("{field}: {e}")))
}
