//! YCSB's core workload as an experiment, with the same properties, records, proportions and distributions (YCSB
//! `CoreWorkload`, go-ycsb `workload/core.go`).
//!
//! A record is an object under `table/`. With fields of constant length its size is fixed, so that an update keeps
//! it. The `go-ycsb` encoding writes go-ycsb's msgpack map instead of plain bytes. Reads never address a record
//! that does not exist. `target` sets an open loop: response times count from the intended time of an operation.

mod lines;
mod names;
pub mod properties;
mod shares;

use std::collections::BTreeMap;

use super::spec::{
    ConcurrencySpec, EncodingSpec, ExperimentSpec, ObjectsSpec, PhaseSpec, PopularitySpec, RateSpec,
    RecordsSpec, ScanSpec, SizeSpec,
};
use crate::field_specs::{ExponentialSpec, HotspotSpec, SumSpec, YcsbZipfianSpec};
use properties::{Family, Properties, PropertyError};

/// Encoding of the content of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordEncoding {
    /// Plain bytes, with the total length of all fields.
    Bytes,
    /// go-ycsb's msgpack map of fields.
    GoYcsb,
}

/// Part of a YCSB benchmark: load or run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum YcsbPhase {
    /// The load part, which writes the records.
    Load,
    /// The run part, which performs operations on the records.
    Run,
}

/// Maximum number of records in one scan: one page of a listing.
const MAX_SCANNED: u64 = 1000;

/// Returns the distribution of field lengths.
fn field_size(p: &Properties) -> Result<SizeSpec, PropertyError> {
    let length = p.whole("fieldlength", 100)?;
    let least = p.whole("minfieldlength", 1)?;
    if length == 0 || least > length {
        return Err(p.wrong("fieldlength", "above 0 and not below minfieldlength"));
    }
    let plain = |n: u64| format!("{n} B");
    let kind = p.word("fieldlengthdistribution", &["constant", "uniform", "zipfian", "histogram"])?;
    Ok(match kind {
        "uniform" => SizeSpec::Uniform { uniform: [plain(least), plain(length)] },
        "zipfian" => {
            let weight = |n: u64| (((n - least + 1) as f64).powf(-0.99) * 1e6).round().max(1.0) as u32;
            SizeSpec::Weighted { weighted: (least..=length).map(|n| (plain(n), weight(n))).collect() }
        }
        "histogram" => SizeSpec::Weighted { weighted: histogram(p)? },
        _ => SizeSpec::Fixed(plain(length)),
    })
}

/// Reads field lengths from a histogram file: `BlockSize<tab>N`, then `block<tab>weight` lines. Block `b` stands
/// for a length of `(b + 1) * N` bytes.
fn histogram(p: &Properties) -> Result<BTreeMap<String, u32>, PropertyError> {
    const NAME: &str = "fieldlengthhistogram";
    let file = p.get(NAME).unwrap_or("hist.txt");
    let text = std::fs::read_to_string(file).map_err(|e| p.wrong(NAME, &format!("a readable file ({e})")))?;
    let bad = || p.wrong(NAME, "a file with a line 'BlockSize<tab>N' followed by lines 'block<tab>weight'");
    let mut lines = text.lines().filter(|l| !l.trim().is_empty());
    let pair = |line: &str| -> Option<(String, u64)> {
        let mut words = line.split_whitespace();
        Some((words.next()?.to_string(), words.next()?.parse().ok()?))
    };
    let (_, block) = lines.next().and_then(pair).filter(|(name, _)| name == "BlockSize").ok_or_else(bad)?;
    let mut out = BTreeMap::new();
    for line in lines {
        let (number, weight) = pair(line).ok_or_else(bad)?;
        let number: u64 = number.parse().map_err(|_| bad())?;
        out.insert(format!("{} B", (number + 1) * block), u32::try_from(weight).map_err(|_| bad())?);
    }
    if out.is_empty() { Err(bad()) } else { Ok(out) }
}

fn record_size(p: &Properties) -> Result<SizeSpec, PropertyError> {
    let count = p.whole("fieldcount", 10)?;
    if !(1..=10_000).contains(&count) {
        return Err(p.wrong("fieldcount", "between 1 and 10000"));
    }
    Ok(match field_size(p)? {
        SizeSpec::Fixed(_) => SizeSpec::Fixed(format!("{} B", count * p.whole("fieldlength", 100)?)),
        of => SizeSpec::Sum { sum: SumSpec { count: count as u32, of: Box::new(of) } },
    })
}

/// Returns YCSB's scrambled zipfian popularity. Its modulus is the number of records, plus twice the number of
/// expected inserts, plus one (`CoreWorkload.init`).
fn scrambled(p: &Properties, family: Family, count: u64) -> Result<PopularitySpec, PropertyError> {
    let inserts = p.number("insertproportion", 0.0)? * p.whole("operationcount", 0)? as f64 * 2.0;
    let order = match family {
        Family::Ycsb => "hashed",
        Family::GoYcsb => "hashed-go",
    };
    let items = count.saturating_add(inserts as u64).saturating_add(1);
    Ok(PopularitySpec::YcsbZipfian { ycsb_zipfian: YcsbZipfianSpec { items, order: order.into() } })
}

fn popularity(p: &Properties, family: Family, count: u64) -> Result<PopularitySpec, PropertyError> {
    let kinds = ["uniform", "sequential", "zipfian", "latest", "hotspot", "exponential"];
    let share = |name: &str, default: f64| {
        let value = p.number(name, default)?;
        if value > 0.0 && value <= 1.0 { Ok(value) } else { Err(p.wrong(name, "above 0 and at most 1")) }
    };
    Ok(match p.word("requestdistribution", &kinds)? {
        "zipfian" => scrambled(p, family, count)?,
        "latest" => PopularitySpec::Name("ycsb_latest".into()),
        "hotspot" => {
            let hotspot = HotspotSpec {
                object_share: share("hotspotdatafraction", 0.2)?.min(0.999_999),
                operation_share: share("hotspotopnfraction", 0.8)?.min(0.999_999),
            };
            PopularitySpec::Hotspot { hotspot }
        }
        "exponential" => {
            let percentile = p.number("exponential.percentile", 95.0)?;
            let exponential =
                ExponentialSpec { percentile, object_share: share("exponential.frac", 0.857_142_857_1)? };
            PopularitySpec::Exponential { exponential }
        }
        name => PopularitySpec::Name(name.into()),
    })
}

fn records(
    p: &Properties,
    family: Family,
    encoding: RecordEncoding,
    first: u64,
    count: u64,
) -> Result<RecordsSpec, PropertyError> {
    let table = p.get("table").unwrap_or("usertable");
    if table.starts_with('/') || table.ends_with('/') {
        return Err(p.wrong("table", "a name without a leading or trailing slash, such as usertable"));
    }
    let hashed = match family {
        Family::Ycsb => "hashed",
        Family::GoYcsb => "hashed-go",
    };
    let order = match p.word("insertorder", &["hashed", "ordered"])? {
        "ordered" => "ordered",
        _ => hashed,
    };
    let fixed = p.word("fieldlengthdistribution", &["constant", "uniform", "zipfian", "histogram"])?;
    let encoding = match encoding {
        RecordEncoding::Bytes => None,
        RecordEncoding::GoYcsb if fixed != "constant" => {
            return Err(p.wrong("fieldlengthdistribution", "constant with --encoding go-ycsb"));
        }
        RecordEncoding::GoYcsb => Some(EncodingSpec {
            fields: p.whole("fieldcount", 10)? as u32,
            length: p.whole("fieldlength", 100)? as u32,
            writes_all: p.flag("writeallfields", false)?,
        }),
    };
    Ok(RecordsSpec {
        at: format!("{table}/"),
        count,
        first: Some(first),
        prefix: Some(p.get("keyprefix").unwrap_or("user").to_string()),
        order: Some(order.into()),
        digits: Some(p.whole("zeropadding", 1)?.max(1)),
        encoding,
    })
}

/// Returns the operation weights. Plimsoll's operations have YCSB's names, except `put` (insert) and `get` (read).
fn operations(p: &Properties) -> Result<BTreeMap<String, u32>, PropertyError> {
    let mut shares = Vec::new();
    for (name, property, default) in [
        ("get", "readproportion", 0.95),
        ("update", "updateproportion", 0.05),
        ("put", "insertproportion", 0.0),
        ("scan", "scanproportion", 0.0),
        ("read_modify_write", "readmodifywriteproportion", 0.0),
    ] {
        shares.push((name, property, p.number(property, default)?));
    }
    let proportions: Vec<f64> = shares.iter().map(|(_, _, share)| *share).collect();
    if proportions.iter().sum::<f64>() <= 0.0 {
        return Err(p.wrong("readproportion", "set so that the proportions add up to more than 0"));
    }
    let least = "0, or at least 1/10000 of the sum of all proportions and within 1% of a multiple of that";
    let weights = shares::weights(&proportions).map_err(|at| p.wrong(shares[at].1, least))?;
    Ok(shares.iter().zip(weights).filter(|(_, w)| *w > 0).map(|((n, ..), w)| ((*n).to_string(), w)).collect())
}

/// Returns the distribution of scan lengths. One page of a listing finds the records, so it limits the length.
fn scan(p: &Properties) -> Result<ScanSpec, PropertyError> {
    let (min, max) = (p.whole("minscanlength", 1)?, p.whole("maxscanlength", MAX_SCANNED)?);
    if !(1..=MAX_SCANNED).contains(&max) {
        return Err(p.wrong("maxscanlength", "between 1 and 1000, the limit of one page of a listing"));
    }
    if !(1..=max).contains(&min) {
        return Err(p.wrong("minscanlength", "at least 1 and not above maxscanlength"));
    }
    let zipfian = p.word("scanlengthdistribution", &["uniform", "zipfian"])? == "zipfian";
    Ok(ScanSpec { min: Some(min), max, theta: zipfian.then_some(0.99) })
}

/// Returns the verification of reads: off with `dataintegrity=false`, otherwise the default, which compares content.
fn verify(p: &Properties, encoding: RecordEncoding) -> Result<Option<String>, PropertyError> {
    match (p.get("dataintegrity"), p.flag("dataintegrity", false)?, encoding) {
        (Some(_), true, RecordEncoding::GoYcsb) => Err(p.wrong(
            "dataintegrity",
            "false with --encoding go-ycsb: Plimsoll does not compare these records",
        )),
        (Some(_), false, _) => Ok(Some("off".into())),
        _ => Ok(None),
    }
}

/// Returns the phase, preceded by a warm-up of `warmuptime` seconds if it is set.
///
/// # Errors
/// If the phase inserts records: the warm-up would insert the same records as the measured phase.
fn with_warmup(p: &Properties, phase: PhaseSpec) -> Result<Vec<PhaseSpec>, PropertyError> {
    let warmup = p.whole("warmuptime", 0)?;
    if warmup == 0 {
        return Ok(vec![phase]);
    }
    if phase.operations.contains_key("put") {
        let expected =
            "0 for a load or with inserts; a warm-up cannot insert the records of the measured phase";
        return Err(p.wrong("warmuptime", expected));
    }
    let before = PhaseSpec {
        name: "warmup".into(),
        role: Some("warmup".into()),
        duration: Some(format!("{warmup}s")),
        stop_after: None,
        ..phase.clone()
    };
    Ok(vec![before, phase])
}

/// Sets the operations, popularity, scan lengths and limits of the run part.
fn transactions(
    p: &Properties,
    family: Family,
    phase: &mut PhaseSpec,
    objects: &mut ObjectsSpec,
) -> Result<(), PropertyError> {
    phase.operations = operations(p)?;
    let count = objects.records.as_ref().map_or(0, |r| r.count);
    objects.popularity = Some(popularity(p, family, count)?);
    if phase.operations.contains_key("scan") {
        objects.scan = Some(scan(p)?);
    }
    let (most, seconds) = (p.whole("operationcount", 0)?, p.whole("maxexecutiontime", 0)?);
    if most == 0 && seconds == 0 {
        return Err(p.wrong("operationcount", "the number of operations, above 0 (or set maxexecutiontime)"));
    }
    phase.stop_after = (most > 0).then_some(most);
    phase.duration = (seconds > 0).then(|| format!("{seconds}s"));
    Ok(())
}

/// Builds the experiment that YCSB's properties describe.
///
/// # Errors
/// Returns a [`PropertyError`] that names the property whose value is invalid or not supported.
pub fn to_spec(
    part: YcsbPhase,
    p: &Properties,
    family: Family,
    encoding: RecordEncoding,
    seed: u64,
) -> Result<ExperimentSpec, PropertyError> {
    let class = p.get("workload").unwrap_or("core");
    if !(class == "core" || class.ends_with("CoreWorkload")) {
        return Err(p.wrong("workload", "core, the only supported workload"));
    }
    let recordcount = p.whole("recordcount", 0)?;
    let first = p.whole("insertstart", 0)?;
    let count = p.whole("insertcount", recordcount.saturating_sub(first))?;
    if recordcount == 0 || count == 0 {
        return Err(p.wrong("recordcount", "the number of records, above 0"));
    }
    let threads = p.whole("threadcount", 1)?.max(1);
    let target = p.number("target", 0.0)?;
    let mut objects = ObjectsSpec {
        records: Some(records(p, family, encoding, first, count)?),
        size: Some(record_size(p)?),
        ..ObjectsSpec::default()
    };
    let name = if part == YcsbPhase::Load { "load" } else { "run" };
    let mut phase = PhaseSpec {
        name: name.into(),
        concurrency: (target == 0.0).then_some(ConcurrencySpec::Fixed(threads)),
        rate: (target > 0.0).then(|| RateSpec::Fixed(format!("{target}/s"))),
        in_flight: (target > 0.0).then_some(threads),
        ..PhaseSpec::default()
    };
    if part == YcsbPhase::Load {
        phase.operations = BTreeMap::from([("put".to_string(), 1)]);
        phase.stop_after = Some(count);
        phase.retries = Some(p.whole("core_workload_insertion_retry_limit", 0)?.min(100) as u32);
    } else {
        transactions(p, family, &mut phase, &mut objects)?;
    }
    phase.objects = objects;
    phase.verify = verify(p, encoding)?;
    Ok(ExperimentSpec {
        name: format!("ycsb-{name}"),
        description: format!("YCSB core workload, {name} part"),
        seed,
        phase: with_warmup(p, phase)?,
        ..ExperimentSpec::default()
    })
}

/// Returns the URL of the store that the properties of the S3 binding name: the bucket is `s3.bucket` or, in YCSB
/// with `s3.endPoint`, the table. `None` if they name no bucket.
pub fn store_of(p: &Properties, family: Family) -> Option<String> {
    let bucket = match family {
        Family::GoYcsb => p.get("s3.bucket")?,
        Family::Ycsb => p.get("s3.bucket").or_else(|| p.get("s3.endPoint").and(p.get("table")))?,
    };
    let mut query = Vec::new();
    if let Some(endpoint) = p.get("s3.endpoint").or_else(|| p.get("s3.endPoint")) {
        let scheme = p.get("s3.protocol").map_or("https".into(), str::to_ascii_lowercase);
        let endpoint =
            if endpoint.contains("://") { endpoint.to_string() } else { format!("{scheme}://{endpoint}") };
        query.push(format!("endpoint={endpoint}"));
    }
    if let Some(region) = p.get("s3.region") {
        query.push(format!("region={region}"));
    }
    if p.get("s3.use_path_style") == Some("true") {
        query.push("style=path".into());
    }
    let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
    Some(format!("s3://{bucket}{query}"))
}

#[cfg(test)]
mod tests;
