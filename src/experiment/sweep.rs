//! A sweep: one phase, written once, that runs at every combination of part size and parts in flight.

use super::Problem;
use super::spec::{PhaseSpec, SweepSpec};
use crate::units::{format_size, parse_size};

/// Maximum number of points in a sweep.
const MAX_POINTS: usize = 200;

/// Returns the phases of a file, with each phase that has a sweep replaced by one phase per point, such as
/// `upload-8MiB-x4`.
///
/// # Errors
/// If a sweep has no values, too many points or an invalid part size, if its phase has no `stop_after`, or if
/// `objects` also sets `part_size` or `parts_in_flight`.
pub fn expand(phases: &[PhaseSpec]) -> Result<Vec<PhaseSpec>, Problem> {
    let mut out = Vec::new();
    for phase in phases {
        match &phase.sweep {
            None => out.push(phase.clone()),
            Some(sweep) => out.extend(points(phase, sweep)?),
        }
    }
    Ok(out)
}

fn points(phase: &PhaseSpec, sweep: &SweepSpec) -> Result<Vec<PhaseSpec>, Problem> {
    let problem = |field: &str, text: String| {
        let path = format!("phase.{}.{field}", phase.name);
        Problem::new(&path, format!("phase '{}': {text}", phase.name))
    };
    if sweep.part_size.is_empty() || sweep.parts_in_flight.is_empty() {
        let text = "a sweep needs values for both fields, such as sweep = { part_size = [\"8 MiB\", \"64 MiB\"], parts_in_flight = [1, 8] }";
        return Err(problem("sweep", text.into()));
    }
    if phase.objects.part_size.is_some() || phase.objects.parts_in_flight.is_some() {
        let text = "the sweep sets part_size and parts_in_flight; remove them from objects";
        return Err(problem("objects", text.into()));
    }
    if phase.stop_after.is_none() {
        let text = "a sweep needs a number of operations per point; add stop_after = 3";
        return Err(problem("stop_after", text.into()));
    }
    if sweep.part_size.len() * sweep.parts_in_flight.len() > MAX_POINTS {
        return Err(problem(
            "sweep",
            format!("the sweep has more than {MAX_POINTS} points; use fewer values"),
        ));
    }
    let mut out = Vec::new();
    for part_size in &sweep.part_size {
        let bytes = parse_size(part_size).map_err(|e| problem("sweep", format!("sweep.part_size: {e}")))?;
        for parts_in_flight in &sweep.parts_in_flight {
            let mut point = phase.clone();
            point.name = format!("{}-{}-x{parts_in_flight}", phase.name, format_size(bytes).replace(' ', ""));
            point.sweep = None;
            point.sweep_of = Some(phase.name.clone());
            point.objects.part_size = Some(part_size.clone());
            point.objects.parts_in_flight = Some(*parts_in_flight);
            out.push(point);
        }
    }
    Ok(out)
}
