//! Resolution of range reads: their length, and whether they are in order.

use plimsoll_base::units::format_size;

use super::Problem;
use super::objects::bytes;
use super::spec::PhaseSpec;
use plimsoll_workload::mix::Mix;
use plimsoll_workload::popularity::Popularity;
use plimsoll_workload::ranges_in_order::MAX_COUNTED;
use plimsoll_workload::{Dataset, OperationKind};

/// Resolves the length of a range read, in bytes; 0 if none is set.
///
/// # Errors
/// If `get_range` has no length, or if the length is zero, not a size, or larger than every object.
pub fn resolve_range(written: &PhaseSpec, mix: &Mix, read: Option<&Dataset>) -> Result<u64, Problem> {
    let Some(text) = &written.objects.range else {
        let needed = mix.share(OperationKind::GetRange) > 0;
        return if needed {
            Err(Problem::new("operations", "get_range needs objects.range, such as \"1 MiB\""))
        } else {
            Ok(0)
        };
    };
    let range = bytes("objects.range", text)?;
    if range == 0 {
        return Err(Problem::new("objects.range", "objects.range must be above 0"));
    }
    match read {
        Some(read) if read.existing.is_none() && range > read.size.largest() => {
            let text = format!(
                "objects.range: {} exceeds the size of the largest object, {}; use a smaller range",
                format_size(range),
                format_size(read.size.largest())
            );
            Err(Problem::new("objects.range", text))
        }
        _ => Ok(range),
    }
}

/// Checks that a phase with ranges in order reads nothing else, and that all ranges are known.
///
/// # Errors
/// If the phase has other reads, or if its objects are not its own, are too many, or are empty.
pub fn check_ranges(popularity: &Popularity, mix: &Mix, read: Option<&Dataset>) -> Result<(), Problem> {
    let (Popularity::Ranges, Some(read)) = (popularity, read) else { return Ok(()) };
    let problem =
        |text: &str| Err(Problem::new("objects.popularity", format!("objects.popularity = ranges: {text}")));
    if mix.share(OperationKind::GetRange) != mix.total() {
        return problem("only get_range reads ranges; remove the other operations");
    }
    if read.existing.is_some() {
        return problem("the sizes of existing objects are not known here; use objects of an earlier phase");
    }
    if read.size.smallest() != read.size.largest() && read.count > MAX_COUNTED {
        return problem("objects of different sizes must be at most a million");
    }
    if read.size.largest() == 0 {
        return problem("all objects are empty");
    }
    Ok(())
}
