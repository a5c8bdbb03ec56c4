//! Resolution of phases that read exactly what was written, some time after it was.

use super::Problem;
use super::phase_fields::length;
use super::spec::PhaseSpec;
use plimsoll_workload::popularity::Popularity;
use plimsoll_workload::schedule::Limit;
use plimsoll_workload::{OperationKind, Workload};

/// Resolves the field `read_after`: the phase reads each of its objects once, in order unless it has another one.
///
/// # Errors
/// If the value is no time, or the phase does more than to read the objects of another phase once.
pub(super) fn resolve_read_after(
    written: &PhaseSpec,
    workload: &mut Workload,
    limit: &mut Limit,
) -> Result<Option<u64>, Problem> {
    let Some(text) = &written.read_after else { return Ok(None) };
    let wrong = |text: &str| Err(Problem::new("read_after", format!("read_after: {text}")));
    let delay_ns = length("read_after", text)?;
    if workload.mix.share(OperationKind::Get) != workload.mix.total() {
        return wrong("the phase reads each object once; write operations = { get = 1 }");
    }
    let Some(read) =
        workload.read.as_ref().filter(|read| read.existing.is_none() && written.objects.from.is_some())
    else {
        return wrong("name the phase that writes the objects in objects.from");
    };
    for (field, is_given) in
        [("duration", written.duration.is_some()), ("stop_after", written.stop_after.is_some())]
    {
        if is_given {
            return wrong(&format!("the phase ends when it has read each object; remove {field}"));
        }
    }
    if written.objects.popularity.is_none() {
        workload.popularity = Popularity::Sequential;
    }
    use Popularity::{Reversed, Sequential, Shifted, Shuffled};
    if !matches!(workload.popularity, Sequential | Reversed | Shuffled | Shifted) {
        return wrong(
            "objects.popularity must be sequential, reversed, shuffled or shifted, so that each object is read",
        );
    }
    *limit = Limit { duration_ns: None, operations: Some(read.count) };
    Ok(Some(delay_ns))
}
