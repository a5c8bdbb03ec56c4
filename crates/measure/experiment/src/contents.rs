//! Resolution of the contents of the objects that a phase writes: a file, or how far generated contents can be reduced.

use std::path::PathBuf;

use super::Problem;
use super::spec::ObjectsSpec;
use plimsoll_workload::Dataset;
use plimsoll_workload::reduction::MAX_COMPRESSIBLE;

/// Returns the file whose content is written, with its length in bytes; `None` if no file is set.
///
/// # Errors
/// If a size is set, too, or if the file is not a regular file.
pub fn resolve_file(objects: &ObjectsSpec) -> Result<Option<(PathBuf, u64)>, Problem> {
    let Some(path) = &objects.file else { return Ok(None) };
    if objects.size.is_some() {
        let text = "objects.file determines the size; remove objects.size";
        return Err(Problem::new("objects.size", text));
    }
    let facts = std::fs::metadata(path)
        .map_err(|e| Problem::new("objects.file", format!("objects.file {path}: {e}")))?;
    if !facts.is_file() {
        return Err(Problem::new(
            "objects.file",
            format!("objects.file {path} is not a regular file; use the path of a regular file"),
        ));
    }
    Ok(Some((PathBuf::from(path), facts.len())))
}

/// Returns the share of the bytes that compression can remove, and the number of the `count` objects that have the same
/// content; `None` if neither is set, here or for the objects of the same size that the phase reads.
///
/// # Errors
/// If a value is out of range, or if the content comes from a file.
pub fn resolve_reduction(
    objects: &ObjectsSpec,
    read: Option<&Dataset>,
    count: u64,
) -> Result<Option<(f64, f64)>, Problem> {
    let (compressible, dedup) = (objects.compressible, objects.dedup);
    if compressible.is_none() && dedup.is_none() {
        let like = read.filter(|_| objects.size.is_none() && objects.file.is_none());
        return Ok(like
            .and_then(|read| read.reduction)
            .map(|reduction| (reduction.compressible, reduction.dedup)));
    }
    if objects.file.is_some() {
        let field = if compressible.is_some() { "objects.compressible" } else { "objects.dedup" };
        return Err(Problem::new(field, format!("objects.file determines the content; remove {field}")));
    }
    let (compressible, dedup) = (compressible.unwrap_or(0.0), dedup.unwrap_or(1.0));
    if !(0.0..=MAX_COMPRESSIBLE).contains(&compressible) {
        let text = format!(
            "objects.compressible = {compressible} must be from 0 to {MAX_COMPRESSIBLE}: the share of the bytes that \
             compression removes"
        );
        return Err(Problem::new("objects.compressible", text));
    }
    if !(1.0..=count as f64).contains(&dedup) {
        let text = format!(
            "objects.dedup = {dedup} must be from 1 to the number of objects ({count}): the number of objects with the \
             same content"
        );
        return Err(Problem::new("objects.dedup", text));
    }
    Ok(Some((compressible, dedup)))
}
