//! Resolution of the objects that a phase reads, writes and deletes.

use super::Problem;
use super::contents::{resolve_file, resolve_reduction};
use super::field_specs::SharesSpec;
use super::records::resolve_records;
use super::spec::{NamingSpec, ObjectsSpec, PhaseSpec, PopularitySpec, SizeSpec};
use plimsoll_base::units::{format_size, parse_size};
use plimsoll_workload::cdf::Cdf;
use plimsoll_workload::dataset::{ContentSource, Existing, Upload};
use plimsoll_workload::mix::Mix;
use plimsoll_workload::naming::{Naming, RecordOrder};
use plimsoll_workload::popularity::{DEFAULT_THETA, Popularity};
use plimsoll_workload::reduction::Reduction;
use plimsoll_workload::schedule::{Phase, Role};
use plimsoll_workload::size::Size;
use plimsoll_workload::{Dataset, Inserts, OperationKind};

/// Default number of objects.
pub const DEFAULT_OBJECTS: u64 = 1000;
/// Default size of an object, in bytes.
pub const DEFAULT_SIZE: u64 = 1024;
/// Default maximum number of objects of an existing dataset.
pub const DEFAULT_EXISTING: u64 = 100_000;
/// Maximum body of one request, in bytes: 5 GiB (S3 user guide, "Uploading objects").
pub const MAX_BYTES_PER_REQUEST: u64 = 5 << 30;
/// Maximum size of an object, in bytes: 5 TiB (same source).
const MAX_BYTES: u64 = 5 << 40;
/// Maximum number of parts (S3 user guide, "Amazon S3 multipart upload limits").
const MAX_PARTS: u64 = 10_000;
/// Maximum number of parts of one object in flight at the same time.
const MAX_PARTS_IN_FLIGHT: u64 = 256;
/// Valid values of `objects.checksum`: `auto`, or a checksum of the S3 API.
const CHECKSUMS: [&str; 7] = ["auto", "md5", "crc32", "crc32c", "crc64nvme", "sha1", "sha256"];

/// The objects of a phase, resolved.
pub struct Datasets {
    /// Objects that reads address; `None` if the phase does not read.
    pub read: Option<Dataset>,
    /// Objects that puts write.
    pub written: Dataset,
    /// Objects that the first deletes address; `None` if the phase does not delete.
    pub spare: Option<Dataset>,
    /// Objects that copies write; `None` if the phase does not copy.
    pub copies: Option<Dataset>,
    /// Distribution of reads over the objects.
    pub popularity: Popularity,
    /// Settings of puts that add new objects; `None` if puts write the same objects repeatedly.
    pub inserts: Option<Inserts>,
}

/// Resolves the objects of a phase. `before` lists the earlier phases, whose objects it may read.
///
/// # Errors
/// Returns a [`Problem`] that names the field, the error and the fix.
pub fn resolve_objects(
    written: &PhaseSpec,
    mix: &Mix,
    slots: u64,
    open: bool,
    seed: u64,
    repeats: u32,
    before: &[Phase],
) -> Result<Datasets, Problem> {
    let objects = &written.objects;
    if let Some(records) = &objects.records {
        return record_datasets(objects, records, mix, slots, open, seed);
    }
    let read = resolve_read(objects, seed, before)?;
    check_use(objects, mix, read.as_ref())?;
    let existing = read.as_ref().is_some_and(|d| d.existing.is_some());
    let size = match (&objects.size, &read) {
        (None, Some(read)) => read.size.clone(),
        (None, None) => Size::Fixed(DEFAULT_SIZE),
        (Some(size), _) => resolve_size(size)?,
    };
    let source = resolve_file(objects)?;
    let size = match &source {
        Some((_, size)) => Size::Fixed(*size),
        None => size,
    };
    let upload = resolve_upload(objects, read.as_ref())?;
    // A sweep may contain points that the store rejects: the rejections are part of its result.
    if !existing && !written.sweep_at.contains_key("part_size") {
        check_size(&size, upload.part_size)?;
    }
    let count = objects.count.unwrap_or_else(|| read.as_ref().map_or(DEFAULT_OBJECTS, |d| d.count));
    if count == 0 {
        return Err(Problem::new("objects.count", "objects.count must be above 0"));
    }
    let naming = resolve_naming(objects.naming.as_ref())?;
    let popularity = resolve_popularity(objects.popularity.as_ref())?;
    if objects.popularity.is_some() && read.is_none() {
        let text = "objects.popularity applies only to phases that read, because puts write the objects in \
                    turn; remove it";
        return Err(Problem::new("objects.popularity", text));
    }
    let only_deletes = mix.share(OperationKind::Delete) == mix.total();
    let spare_count = match (only_deletes, open) {
        (true, _) => count * u64::from(repeats),
        (false, true) => 64,
        // Twice the connection slots: at least a full pass over the slots lies between a put and its delete.
        (false, false) => (2 * slots).max(16),
    };
    let reduction = resolve_reduction(objects, read.as_ref(), count)?;
    let dataset = |name: &str, count| Dataset {
        naming: naming.clone(),
        upload: upload.clone(),
        source: source.as_ref().map(|(path, _)| ContentSource::File(path.clone())),
        reduction: reduction.map(|(compressible, dedup)| Reduction::new(compressible, dedup, count)),
        ..Dataset::new(name, seed, count, size.clone())
    };
    let spare = (mix.share(OperationKind::Delete) > 0)
        .then(|| dataset(&format!("{}.spare", written.name), spare_count));
    // Puts must not overwrite objects that are about to be deleted, so the ring of objects must be longer than the
    // distance between a put and its delete.
    let ring = if spare.is_some() { count.max(8 * spare_count) } else { count };
    let copies = copies(&written.name, mix, read.as_ref());
    Ok(Datasets { read, written: dataset(&written.name, ring), spare, copies, popularity, inserts: None })
}

/// Returns the objects that the copies of phase `name` write; `None` if it does not copy. They have the numbers, sizes
/// and contents of the objects that the phase reads.
fn copies(name: &str, mix: &Mix, read: Option<&Dataset>) -> Option<Dataset> {
    let read = read.filter(|_| mix.share(OperationKind::Copy) > 0)?;
    Some(Dataset { name: format!("{name}.copies"), existing: None, ..read.clone() })
}

/// Checks that the fields of `objects` fit the operations of the phase.
fn check_use(objects: &ObjectsSpec, mix: &Mix, read: Option<&Dataset>) -> Result<(), Problem> {
    if read.is_none() && mix.shares().iter().any(|(kind, _)| kind.reads()) {
        let text = "no phase writes the objects that this phase reads; add a prepare phase and specify it \
                    in objects.from, or specify existing objects in objects.dataset or objects.keys";
        return Err(Problem::new("objects", text));
    }
    let writes =
        mix.shares().iter().any(|(kind, _)| matches!(kind, OperationKind::Put | OperationKind::Delete));
    let existing = read.is_some_and(|d| d.existing.is_some());
    let of_written = [
        ("objects.size", objects.size.is_some()),
        ("objects.part_size", objects.part_size.is_some()),
        ("objects.checksum", objects.checksum.is_some()),
        ("objects.file", objects.file.is_some()),
        ("objects.compressible", objects.compressible.is_some()),
        ("objects.dedup", objects.dedup.is_some()),
        ("objects.naming", objects.naming.is_some()),
        ("objects.count", objects.count.is_some() && !existing),
    ];
    if let Some((field, _)) = of_written.iter().find(|(_, given)| *given && !writes) {
        let text = format!("{field} applies only to phases that put or delete objects; remove {field}");
        return Err(Problem::new(field, text));
    }
    if existing && mix.shares().iter().any(|(kind, _)| kind.rewrites()) {
        let text = "existing objects (objects.dataset, objects.keys) are read-only; update and read_modify_write \
                    need objects that the run itself writes (objects.from)";
        return Err(Problem::new("operations", text));
    }
    if existing && writes {
        let text = "existing objects (objects.dataset, objects.keys) are read-only; remove put and delete, or \
                    use objects that the run itself writes (objects.from)";
        return Err(Problem::new("operations", text));
    }
    Ok(())
}

/// Resolves how objects are uploaded: part size, parts in flight and checksum.
fn resolve_upload(objects: &ObjectsSpec, read: Option<&Dataset>) -> Result<Upload, Problem> {
    let problem = |field: &str, text: String| Err(Problem::new(field, text));
    // A phase that takes the size of another phase's objects also uploads in the same way.
    let like = read.filter(|_| objects.size.is_none() && objects.file.is_none()).map(|d| d.upload.clone());
    let mut upload = like.unwrap_or_default();
    if let Some(text) = &objects.part_size {
        upload.part_size = bytes("objects.part_size", text)?;
    }
    if let Some(n) = objects.parts_in_flight {
        if upload.part_size == 0 {
            let text =
                "objects.parts_in_flight has no effect without parts; add objects.part_size = \"64 MiB\"";
            return problem("objects.parts_in_flight", text.into());
        }
        if !(1..=MAX_PARTS_IN_FLIGHT).contains(&n) {
            let text = format!("objects.parts_in_flight = {n} must be between 1 and {MAX_PARTS_IN_FLIGHT}");
            return problem("objects.parts_in_flight", text);
        }
        upload.in_flight = n as usize;
    }
    if let Some(name) = &objects.checksum {
        if !CHECKSUMS.contains(&name.as_str()) {
            let text = format!("unknown objects.checksum '{name}'; use one of {}", CHECKSUMS.join(", "));
            return problem("objects.checksum", text);
        }
        upload.checksum = Some(name.clone());
    }
    Ok(upload)
}

/// Resolves the objects of a phase that works on records.
fn record_datasets(
    objects: &ObjectsSpec,
    records: &super::spec::RecordsSpec,
    mix: &Mix,
    slots: u64,
    open: bool,
    seed: u64,
) -> Result<Datasets, Problem> {
    if mix.share(OperationKind::Copy) > 0 {
        let text =
            "records are not copied, because their keys are those of the table; remove copy from operations";
        return Err(Problem::new("operations", text));
    }
    if mix.share(OperationKind::Delete) > 0 {
        let text = "records are kept from run to run; remove delete from operations (`plimsoll ycsb clean` \
                    deletes records)";
        return Err(Problem::new("operations", text));
    }
    let reduced = [("objects.compressible", objects.compressible), ("objects.dedup", objects.dedup)];
    if let Some((field, _)) = reduced.iter().find(|(_, given)| given.is_some()) {
        let text =
            format!("{field} does not apply to records, whose contents later runs must know; remove {field}");
        return Err(Problem::new(field, text));
    }
    let size = objects.size.as_ref().map_or(Ok(Size::Fixed(DEFAULT_SIZE)), resolve_size)?;
    let upload = resolve_upload(objects, None)?;
    check_size(&size, upload.part_size)?;
    let dataset = Dataset { upload, ..resolve_records(objects, records, size, seed)? };
    let reads = mix.shares().iter().any(|(kind, _)| kind.reads());
    let popularity = resolve_popularity(objects.popularity.as_ref())?;
    let margin = if open { 64 } else { (2 * slots).max(16) };
    let inserts =
        (reads && mix.share(OperationKind::Put) > 0).then_some(Inserts { from: dataset.count, margin });
    let read = reads.then(|| dataset.clone());
    Ok(Datasets { read, written: dataset, spare: None, copies: None, popularity, inserts })
}

fn resolve_read(objects: &ObjectsSpec, seed: u64, before: &[Phase]) -> Result<Option<Dataset>, Problem> {
    let keys = objects.keys.as_ref().map(|file| format!("keys:{file}"));
    if keys.is_some() && (objects.from.is_some() || objects.dataset.is_some()) {
        let text = "objects.keys already names the objects to read; remove objects.from and objects.dataset";
        return Err(Problem::new("objects.keys", text));
    }
    match (&objects.from, objects.dataset.as_ref().or(keys.as_ref())) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err(Problem::new(
            "objects.dataset",
            "a phase reads either objects.from or objects.dataset, not both; remove one",
        )),
        (Some(from), None) => {
            // A measured phase also qualifies if it puts every object once.
            let writes_all = |p: &Phase| {
                let puts = p.workload.mix.share(OperationKind::Put) == p.workload.mix.total();
                let most = p.limit.operations.filter(|_| p.limit.duration_ns.is_none());
                puts && p.role == Role::Measure && most.is_some_and(|n| n == p.workload.written.count)
            };
            let fit = |p: &&Phase| p.name == *from && (p.role == Role::Prepare || writes_all(p));
            let source = before.iter().find(fit);
            let missing = || {
                let known: Vec<&str> =
                    before.iter().filter(|p| p.role == Role::Prepare).map(|p| p.name.as_str()).collect();
                let known = if known.is_empty() {
                    "there are no prepare phases".into()
                } else {
                    format!("the prepare phases are {}", known.join(", "))
                };
                let text = format!(
                    "objects.from = '{from}' must name an earlier prepare phase (or an earlier measured phase that puts each of its objects once); {known}"
                );
                Problem::new("objects.from", text)
            };
            Ok(Some(source.ok_or_else(missing)?.workload.written.clone()))
        }
        (None, Some(location)) => {
            if location.contains('?') || location.split_once("://").is_some_and(|(_, place)| place.is_empty())
            {
                let text = format!(
                    "objects.dataset '{location}' must be s3://bucket/prefix, or a prefix in the store's bucket"
                );
                return Err(Problem::new("objects.dataset", text));
            }
            let count = objects.count.unwrap_or(DEFAULT_EXISTING);
            let mut dataset = Dataset::new(location, seed, count, Size::Fixed(DEFAULT_SIZE));
            dataset.existing = Some(Existing { location: location.clone(), found: None });
            Ok(Some(dataset))
        }
    }
}

pub(super) fn bytes(field: &str, text: &str) -> Result<u64, Problem> {
    parse_size(text).map_err(|e| Problem::new(field, format!("{field}: {e}")))
}

fn resolve_size(written: &SizeSpec) -> Result<Size, Problem> {
    const FIELD: &str = "objects.size";
    match written {
        SizeSpec::Fixed(text) => Ok(Size::Fixed(bytes(FIELD, text)?)),
        SizeSpec::Uniform { uniform: [min, max] } => {
            let (min, max) = (bytes(FIELD, min)?, bytes(FIELD, max)?);
            if min > max {
                let text =
                    "objects.size.uniform must list the smaller size first, such as [\"1 KiB\", \"1 MiB\"]";
                return Err(Problem::new(FIELD, text));
            }
            Ok(Size::Uniform(min, max))
        }
        SizeSpec::Sum { sum } => {
            if sum.count == 0 {
                return Err(Problem::new(FIELD, "objects.size.sum.count must be above 0"));
            }
            Ok(Size::Sum(sum.count, Box::new(resolve_size(&sum.of)?)))
        }
        SizeSpec::Cdf { cdf, trend } => {
            let point = |(p, size): &(f64, String)| Ok((*p, bytes(FIELD, size)? as f64));
            let points = cdf.iter().map(point).collect::<Result<Vec<_>, Problem>>()?;
            let cdf = Cdf::new(points).map_err(|e| Problem::new(FIELD, format!("objects.size.cdf: {e}")))?;
            match trend {
                Some(trend) if !(-1.0..=1.0).contains(trend) => {
                    Err(Problem::new(FIELD, "objects.size.trend must be between -1 and 1"))
                }
                Some(trend) => Ok(Size::Ordered(cdf, *trend)),
                None => Ok(Size::Cdf(cdf)),
            }
        }
        SizeSpec::Lognormal { lognormal } => {
            let median = bytes(FIELD, &lognormal.median)?;
            let min = lognormal.min.as_deref().map_or(Ok(1), |t| bytes(FIELD, t))?;
            let max = lognormal.max.as_deref().map_or(Ok(MAX_BYTES_PER_REQUEST), |t| bytes(FIELD, t))?;
            let sigma = lognormal.sigma;
            if !(sigma > 0.0 && sigma <= 10.0) {
                return Err(Problem::new(
                    FIELD,
                    format!("objects.size.lognormal.sigma = {sigma} must be above 0 and at most 10"),
                ));
            }
            if !(min <= median && median <= max && median > 0) {
                let text = "objects.size.lognormal: median must be above 0 and between min and max";
                return Err(Problem::new(FIELD, text));
            }
            Ok(Size::Lognormal { median, sigma, min, max })
        }
        SizeSpec::List { list } => {
            let sizes = list.iter().map(|size| bytes(FIELD, size)).collect::<Result<Vec<u64>, Problem>>()?;
            if sizes.is_empty() {
                return Err(Problem::new(FIELD, "objects.size.list needs at least one size"));
            }
            Ok(Size::List(sizes))
        }
        SizeSpec::Weighted { weighted } => {
            let mut list = Vec::new();
            for (size, weight) in weighted.iter().filter(|(_, weight)| **weight > 0) {
                list.push((bytes(FIELD, size)?, *weight));
            }
            list.sort_unstable();
            if list.is_empty() {
                let text = "objects.size.weighted needs at least one size with a weight above 0";
                return Err(Problem::new(FIELD, text));
            }
            Ok(Size::Weighted(list))
        }
    }
}

fn check_size(size: &Size, part_size: u64) -> Result<(), Problem> {
    let largest = size.largest();
    if part_size == 0 {
        if largest > MAX_BYTES_PER_REQUEST {
            let text = format!(
                "objects.size: {} exceeds the limit of one request (5 GiB); add objects.part_size = \"64 MiB\"",
                format_size(largest)
            );
            return Err(Problem::new("objects.size", text));
        }
        return Ok(());
    }
    if part_size > MAX_BYTES_PER_REQUEST {
        let text = format!("objects.part_size: {} must be at most 5 GiB", format_size(part_size));
        return Err(Problem::new("objects.part_size", text));
    }
    if largest > MAX_BYTES {
        return Err(Problem::new(
            "objects.size",
            format!("objects.size: {} exceeds the limit of 5 TiB; use a smaller size", format_size(largest)),
        ));
    }
    if largest.div_ceil(part_size) > MAX_PARTS {
        let needed = largest.div_ceil(MAX_PARTS).div_ceil(1 << 20) << 20;
        let text = format!(
            "objects.part_size: an object of {} needs more than 10,000 parts of {}; use at least {}",
            format_size(largest),
            format_size(part_size),
            format_size(needed)
        );
        return Err(Problem::new("objects.part_size", text));
    }
    Ok(())
}

fn resolve_naming(written: Option<&NamingSpec>) -> Result<Naming, Problem> {
    let problem = |text: String| Problem::new("objects.naming", format!("objects.naming: {text}"));
    match written {
        None => Ok(Naming::default()),
        Some(NamingSpec::Name(name)) => match name.as_str() {
            "sequential" => Ok(Naming::default()),
            "hex" => Ok(Naming::hex()),
            other => Err(problem(format!(
                "unknown value '{other}'; use sequential, hex or a table such as {{ prefixes = 16 }} \
                 or {{ template = \"logs/{{hex}}/{{index}}\" }}"
            ))),
        },
        Some(NamingSpec::Table { prefixes: Some(0), .. }) => Err(problem("prefixes must be above 0".into())),
        Some(NamingSpec::Table { prefixes: Some(count), template: None }) => Ok(Naming::prefixes(*count)),
        Some(NamingSpec::Table { prefixes, template }) => {
            let template = template.as_deref().unwrap_or("{index}");
            Naming::template(template, prefixes.unwrap_or(0)).map_err(|e| problem(e.to_string()))
        }
    }
}

fn resolve_popularity(written: Option<&PopularitySpec>) -> Result<Popularity, Problem> {
    let problem = |text: String| Problem::new("objects.popularity", format!("objects.popularity: {text}"));
    let exponent = |theta: f64| {
        let fit = theta > 0.0 && theta <= 10.0;
        fit.then_some(theta)
            .ok_or_else(|| problem(format!("the exponent {theta} must be above 0 and at most 10")))
    };
    match written {
        None => Ok(Popularity::Uniform),
        Some(PopularitySpec::Name(name)) => match name.as_str() {
            "uniform" => Ok(Popularity::Uniform),
            "sequential" => Ok(Popularity::Sequential),
            "reversed" => Ok(Popularity::Reversed),
            "shuffled" => Ok(Popularity::Shuffled),
            "shifted" => Ok(Popularity::Shifted),
            "ranges" => Ok(Popularity::Ranges),
            "zipfian" => Ok(Popularity::Zipfian { theta: DEFAULT_THETA }),
            "latest" => Ok(Popularity::Latest { theta: DEFAULT_THETA }),
            // The defaults of YCSB's hotspotdatafraction and hotspotopnfraction.
            "hotspot" => Ok(Popularity::Hotspot { objects: 0.2, operations: 0.8 }),
            "ycsb_latest" => Ok(Popularity::YcsbLatest),
            other => {
                let known =
                    "uniform, sequential, reversed, shuffled, shifted, ranges, zipfian, latest or hotspot";
                Err(problem(format!("unknown value '{other}'; use {known}")))
            }
        },
        Some(PopularitySpec::YcsbZipfian { ycsb_zipfian }) => {
            let hashes = [RecordOrder::Hashed, RecordOrder::HashedGo];
            let order = hashes.into_iter().find(|o| o.name() == ycsb_zipfian.order);
            let fit = order.filter(|_| ycsb_zipfian.items > 0);
            let text = "ycsb_zipfian: items must be above 0, and order must be hashed or hashed-go";
            let order = fit.ok_or_else(|| problem(text.into()))?;
            Ok(Popularity::YcsbZipfian { items: ycsb_zipfian.items, order })
        }
        Some(PopularitySpec::Zipfian { zipfian }) => Ok(Popularity::Zipfian { theta: exponent(*zipfian)? }),
        Some(PopularitySpec::Shares { shares: SharesSpec { period: operations, points, ordered } }) => {
            if *operations == 0 {
                return Err(problem("shares: operations must be above 0".into()));
            }
            let shares = Cdf::new(points.clone()).map_err(|e| problem(format!("shares: {e}")))?;
            if shares.range().1 > 1.0 {
                return Err(problem("shares: the share of the objects must be at most 1".into()));
            }
            Ok(Popularity::Shares { operations: *operations, shares, ordered: *ordered })
        }
        Some(PopularitySpec::Exponential { exponential }) => {
            let (percentile, objects) = (exponential.percentile, exponential.object_share);
            if !(percentile > 0.0 && percentile < 100.0 && objects > 0.0 && objects <= 1.0) {
                return Err(problem(
                    "exponential: percentile must be between 0 and 100, and object_share above 0 and at most 1"
                        .into(),
                ));
            }
            Ok(Popularity::Exponential { percentile, objects })
        }
        Some(PopularitySpec::Latest { latest }) => Ok(Popularity::Latest { theta: exponent(*latest)? }),
        Some(PopularitySpec::Hotspot { hotspot }) => {
            let inside = |share: f64| share > 0.0 && share < 1.0;
            if !inside(hotspot.object_share) || !inside(hotspot.operation_share) {
                return Err(problem(
                    "the shares of a hotspot must be between 0 and 1, such as { object_share = 0.2, operation_share = 0.8 }"
                        .into(),
                ));
            }
            Ok(Popularity::Hotspot { objects: hotspot.object_share, operations: hotspot.operation_share })
        }
    }
}
