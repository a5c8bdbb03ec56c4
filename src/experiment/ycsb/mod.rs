//! YCSB's core workload as an experiment: the same properties, the same records, the same proportions and distributions (YCSB
//! `CoreWorkload`, go-ycsb `workload/core.go`).
//!
//! A record is an object of fixed size under `table/`, so that an update keeps its size; `go-ycsb` encoding writes their msgpack map
//! instead. Reads never address a record that is not there. `target` is an open loop: times count from when an operation was meant.

mod lines;
mod names;
pub mod properties;
mod shares;

use std::collections::BTreeMap;

use super::written::{
    ConcurrencyWritten, EncodingWritten, ExperimentWritten, ObjectsWritten, PhaseWritten, PopularityWritten,
    RateWritten, RecordsWritten, ScanWritten, SizeWritten,
};
use crate::experiment::choices::{ExponentialWritten, HotspotWritten, SumWritten, YcsbZipfianWritten};
use properties::{Family, Properties, PropertyError};

/// How records are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordEncoding {
    /// Bytes, as many as all fields together.
    Bytes,
    /// go-ycsb's msgpack map.
    GoYcsb,
}

/// Which half of a benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Writes the records.
    Load,
    /// Does operations on them.
    Run,
}

/// Most reads of one scan: one page of a listing.
const MOST_SCANNED: u64 = 1000;

/// Lengths of fields, as a size.
fn field_size(p: &Properties) -> Result<SizeWritten, PropertyError> {
    let length = p.whole("fieldlength", 100)?;
    let least = p.whole("minfieldlength", 1)?;
    if length == 0 || least > length {
        return Err(p.wrong("fieldlength", "above 0 and not below minfieldlength"));
    }
    let plain = |n: u64| format!("{n} B");
    let kind = p.word("fieldlengthdistribution", &["constant", "uniform", "zipfian", "histogram"])?;
    Ok(match kind {
        "uniform" => SizeWritten::Uniform { uniform: [plain(least), plain(length)] },
        "zipfian" => {
            let weight = |n: u64| (((n - least + 1) as f64).powf(-0.99) * 1e6).round().max(1.0) as u32;
            SizeWritten::Weighted { weighted: (least..=length).map(|n| (plain(n), weight(n))).collect() }
        }
        "histogram" => SizeWritten::Weighted { weighted: histogram(p)? },
        _ => SizeWritten::Fixed(plain(length)),
    })
}

/// Field lengths out of a histogram file: `BlockSize<tab>N`, then `length<tab>weight` lines.
fn histogram(p: &Properties) -> Result<BTreeMap<String, u32>, PropertyError> {
    const NAME: &str = "fieldlengthhistogram";
    let file = p.get(NAME).unwrap_or("hist.txt");
    let text = std::fs::read_to_string(file)
        .map_err(|e| p.wrong(NAME, &format!("a file that can be read ({e})")))?;
    let bad = || p.wrong(NAME, "a file of 'BlockSize<tab>N' and then 'block<tab>weight' lines");
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

fn record_size(p: &Properties) -> Result<SizeWritten, PropertyError> {
    let count = p.whole("fieldcount", 10)?;
    if !(1..=10_000).contains(&count) {
        return Err(p.wrong("fieldcount", "between 1 and 10000"));
    }
    Ok(match field_size(p)? {
        SizeWritten::Fixed(_) => SizeWritten::Fixed(format!("{} B", count * p.whole("fieldlength", 100)?)),
        of => SizeWritten::Sum { sum: SumWritten { count: count as u32, of: Box::new(of) } },
    })
}

/// The keys of YCSB's modulus: the records, twice the inserts that are expected, and one (`CoreWorkload.init`).
fn scrambled(p: &Properties, family: Family, count: u64) -> Result<PopularityWritten, PropertyError> {
    let inserts = p.number("insertproportion", 0.0)? * p.whole("operationcount", 0)? as f64 * 2.0;
    let order = match family {
        Family::Ycsb => "hashed",
        Family::GoYcsb => "hashed-go",
    };
    let items = count.saturating_add(inserts as u64).saturating_add(1);
    Ok(PopularityWritten::YcsbZipfian { ycsb_zipfian: YcsbZipfianWritten { items, order: order.into() } })
}

fn popularity(p: &Properties, family: Family, count: u64) -> Result<PopularityWritten, PropertyError> {
    let kinds = ["uniform", "sequential", "zipfian", "latest", "hotspot", "exponential"];
    let share = |name: &str, default: f64| {
        let value = p.number(name, default)?;
        if value > 0.0 && value <= 1.0 { Ok(value) } else { Err(p.wrong(name, "above 0 and at most 1")) }
    };
    Ok(match p.word("requestdistribution", &kinds)? {
        "zipfian" => scrambled(p, family, count)?,
        "latest" => PopularityWritten::Name("ycsb_latest".into()),
        "hotspot" => {
            let hotspot = HotspotWritten {
                objects: share("hotspotdatafraction", 0.2)?.min(0.999_999),
                operations: share("hotspotopnfraction", 0.8)?.min(0.999_999),
            };
            PopularityWritten::Hotspot { hotspot }
        }
        "exponential" => {
            let percentile = p.number("exponential.percentile", 95.0)?;
            let exponential =
                ExponentialWritten { percentile, objects: share("exponential.frac", 0.857_142_857_1)? };
            PopularityWritten::Exponential { exponential }
        }
        name => PopularityWritten::Name(name.into()),
    })
}

fn records(
    p: &Properties,
    family: Family,
    encoding: RecordEncoding,
    (first, count): (u64, u64),
) -> Result<RecordsWritten, PropertyError> {
    let table = p.get("table").unwrap_or("usertable");
    if table.starts_with('/') || table.ends_with('/') {
        return Err(p.wrong("table", "a prefix without slashes around it, such as usertable"));
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
        RecordEncoding::GoYcsb => Some(EncodingWritten {
            fields: p.whole("fieldcount", 10)? as u32,
            length: p.whole("fieldlength", 100)? as u32,
            writes_all: p.flag("writeallfields", false)?,
        }),
    };
    Ok(RecordsWritten {
        at: format!("{table}/"),
        count,
        first: Some(first),
        prefix: Some(p.get("keyprefix").unwrap_or("user").to_string()),
        order: Some(order.into()),
        digits: Some(p.whole("zeropadding", 1)?.max(1)),
        encoding,
    })
}

/// Shares of the operations; YCSB's names of them are ours but for insert and read.
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
        return Err(p.wrong("readproportion", "such that the proportions add up to more than 0"));
    }
    let least = "0, or at least 1/10000 of the sum of all proportions and a multiple of that within 1%";
    let weights = shares::weights(&proportions).map_err(|at| p.wrong(shares[at].1, least))?;
    Ok(shares.iter().zip(weights).filter(|(_, w)| *w > 0).map(|((n, ..), w)| ((*n).to_string(), w)).collect())
}

/// Lengths of scans: a listing of one page finds the records.
fn scan(p: &Properties) -> Result<ScanWritten, PropertyError> {
    let (min, max) = (p.whole("minscanlength", 1)?, p.whole("maxscanlength", MOST_SCANNED)?);
    if !(1..=MOST_SCANNED).contains(&max) {
        return Err(p.wrong("maxscanlength", "between 1 and 1000, the keys of one listing"));
    }
    if !(1..=max).contains(&min) {
        return Err(p.wrong("minscanlength", "at least 1 and not above maxscanlength"));
    }
    let zipfian = p.word("scanlengthdistribution", &["uniform", "zipfian"])? == "zipfian";
    Ok(ScanWritten { min: Some(min), max, theta: zipfian.then_some(0.99) })
}

/// How reads are verified: compared, unless `dataintegrity=false` says otherwise.
fn verify(p: &Properties, encoding: RecordEncoding) -> Result<Option<String>, PropertyError> {
    match (p.get("dataintegrity"), p.flag("dataintegrity", false)?, encoding) {
        (Some(_), true, RecordEncoding::GoYcsb) => {
            Err(p.wrong("dataintegrity", "false with --encoding go-ycsb, whose records are not compared"))
        }
        (Some(_), false, _) => Ok(Some("off".into())),
        _ => Ok(None),
    }
}

/// Phases with the warm-up of `warmuptime` before them.
///
/// # Errors
/// If the operations insert: a warm-up would insert the records that the measured phase inserts.
fn with_warmup(p: &Properties, phase: PhaseWritten) -> Result<Vec<PhaseWritten>, PropertyError> {
    let warmup = p.whole("warmuptime", 0)?;
    if warmup == 0 {
        return Ok(vec![phase]);
    }
    if phase.operations.contains_key("put") {
        let expected =
            "0 for a load and with insertproportion; a warm-up cannot insert what is measured afterwards";
        return Err(p.wrong("warmuptime", expected));
    }
    let before = PhaseWritten {
        name: "warmup".into(),
        role: Some("warmup".into()),
        duration: Some(format!("{warmup}s")),
        stop_after: None,
        ..phase.clone()
    };
    Ok(vec![before, phase])
}

/// What is done to the records, and for how long.
fn transactions(
    p: &Properties,
    family: Family,
    phase: &mut PhaseWritten,
    objects: &mut ObjectsWritten,
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

/// The experiment that YCSB's properties describe.
///
/// # Errors
/// See [`PropertyError`].
pub fn to_written(
    part: Part,
    p: &Properties,
    family: Family,
    encoding: RecordEncoding,
    seed: u64,
) -> Result<ExperimentWritten, PropertyError> {
    let class = p.get("workload").unwrap_or("core");
    if !(class == "core" || class.ends_with("CoreWorkload")) {
        return Err(p.wrong("workload", "core, the only one there is"));
    }
    let recordcount = p.whole("recordcount", 0)?;
    let first = p.whole("insertstart", 0)?;
    let count = p.whole("insertcount", recordcount.saturating_sub(first))?;
    if recordcount == 0 || count == 0 {
        return Err(p.wrong("recordcount", "the number of records, above 0"));
    }
    let threads = p.whole("threadcount", 1)?.max(1);
    let target = p.number("target", 0.0)?;
    let mut objects = ObjectsWritten {
        records: Some(records(p, family, encoding, (first, count))?),
        size: Some(record_size(p)?),
        ..ObjectsWritten::default()
    };
    let name = if part == Part::Load { "load" } else { "run" };
    let mut phase = PhaseWritten {
        name: name.into(),
        concurrency: (target == 0.0).then_some(ConcurrencyWritten::Fixed(threads)),
        rate: (target > 0.0).then(|| RateWritten::Fixed(format!("{target}/s"))),
        in_flight: (target > 0.0).then_some(threads),
        ..PhaseWritten::default()
    };
    if part == Part::Load {
        phase.operations = BTreeMap::from([("put".to_string(), 1)]);
        phase.stop_after = Some(count);
        phase.retries = Some(p.whole("core_workload_insertion_retry_limit", 0)?.min(100) as u32);
    } else {
        transactions(p, family, &mut phase, &mut objects)?;
    }
    phase.objects = objects;
    phase.verify = verify(p, encoding)?;
    Ok(ExperimentWritten {
        name: format!("ycsb-{name}"),
        description: format!("YCSB core workload, {name} part"),
        seed,
        phase: with_warmup(p, phase)?,
        ..ExperimentWritten::default()
    })
}

/// The store that a binding's own properties name, when they name one: go-ycsb's `s3.bucket`, or YCSB's table as a bucket.
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
mod tests {
    use super::*;
    use crate::experiment::back::to_toml;
    use crate::experiment::resolve::{parse, resolve};
    use crate::workload::naming::RecordOrder;
    use crate::workload::popularity::Popularity;

    fn read(files: &[&str], single: &[&str], family: Family) -> Properties {
        let own = |list: &[&str]| list.iter().map(|s| (*s).to_string()).collect::<Vec<_>>();
        Properties::read(&own(files), &own(single), family).unwrap()
    }

    #[test]
    fn every_workload_of_both_families_resolves_to_itself() {
        for family in [Family::Ycsb, Family::GoYcsb] {
            for name in ["workloada", "workloadb", "workloadc", "workloadd", "workloade", "workloadf"] {
                for encoding in [RecordEncoding::Bytes, RecordEncoding::GoYcsb] {
                    let p = read(&[name], &["threadcount=8"], family);
                    for part in [Part::Load, Part::Run] {
                        let written = to_written(part, &p, family, encoding, 42).unwrap();
                        let experiment = resolve(written).unwrap_or_else(|e| panic!("{name}: {e:?}"));
                        let again =
                            parse("f", &to_toml(&experiment), &[]).unwrap_or_else(|e| panic!("{name}: {e}"));
                        assert_eq!(again, experiment, "{name} {part:?} {encoding:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn proportions_become_shares_and_target_an_open_loop() {
        let p = read(&["workloadd"], &["target=500", "threadcount=32"], Family::Ycsb);
        let written = to_written(Part::Run, &p, Family::Ycsb, RecordEncoding::Bytes, 1).unwrap();
        let experiment = resolve(written).unwrap();
        let run = &experiment.phases[0];
        assert!(run.load.is_open() && run.load.lanes() == 32);
        assert_eq!(run.workload.inserts.map(|i| i.from), Some(1000));
        let shares: Vec<(&str, u32)> =
            run.workload.mix.shares().iter().map(|(k, n)| (k.name(), *n)).collect();
        assert_eq!(shares, [("put", 1), ("get", 19)]);
    }

    #[test]
    fn reads_never_address_a_record_that_is_not_there() {
        for name in ["workloada", "workloadd", "workloade"] {
            let p = read(&[name], &["recordcount=200", "threadcount=4"], Family::Ycsb);
            let written = to_written(Part::Run, &p, Family::Ycsb, RecordEncoding::Bytes, 1).unwrap();
            let experiment = resolve(written).unwrap();
            let workload = &experiment.phases[0].workload;
            let mut sequence = workload.sequence();
            let mut inserted = 0;
            let mut newest = 0;
            for i in 0..20_000 {
                let operation = sequence.at(i);
                if operation.kind == crate::workload::OperationKind::Put {
                    assert_eq!(operation.index, 200 + inserted);
                    inserted += 1;
                } else {
                    assert!(operation.index < 200 + inserted, "{name}: operation {i}");
                    newest = newest.max(operation.index);
                }
            }
            assert!(name != "workloadd" || newest > 1000, "what was inserted is read: {newest}");
        }
    }

    #[test]
    fn refusals_name_the_property() {
        let refused = |single: &[&str]| {
            let p = read(&["workloada"], single, Family::Ycsb);
            to_written(Part::Run, &p, Family::Ycsb, RecordEncoding::Bytes, 1).unwrap_err().to_string()
        };
        for (single, said) in [
            (
                vec!["readproportion=-0.5"],
                "-p readproportion: readproportion=-0.5 must be a number, 0 or more",
            ),
            (vec!["readproportion=0", "updateproportion=0"], "add up to more than 0"),
            (vec!["recordcount=0"], "above 0"),
            (vec!["requestdistribution=pareto"], "uniform, sequential, zipfian"),
            (vec!["workload=site.ycsb.TimeSeries"], "core"),
            (
                vec!["fieldlengthdistribution=histogram", "fieldlengthhistogram=/nowhere"],
                "a file that can be read",
            ),
            (vec!["operationcount=0"], "maxexecutiontime"),
        ] {
            let message = refused(&single);
            assert!(message.contains(said), "{message}");
        }
    }

    fn refusal(part: Part, files: &[&str], single: &[&str], encoding: RecordEncoding) -> String {
        let p = read(files, single, Family::Ycsb);
        to_written(part, &p, Family::Ycsb, encoding, 1).unwrap_err().to_string()
    }

    fn run_of(files: &[&str], single: &[&str], family: Family) -> crate::schedule::Phase {
        let p = read(files, single, family);
        let written = to_written(Part::Run, &p, family, RecordEncoding::Bytes, 1).unwrap();
        resolve(written).unwrap().phases.pop().unwrap()
    }

    /// Scans were cut to 1,000 records, a warm-up was left out, and small proportions were dropped, each without a word.
    #[test]
    fn what_cannot_be_honoured_is_refused() {
        use RecordEncoding::{Bytes, GoYcsb};
        for (part, file, property, encoding, said) in [
            (Part::Run, "workloade", "maxscanlength=5000", Bytes, "between 1 and 1000"),
            (Part::Run, "workloade", "maxscanlength=0", Bytes, "between 1 and 1000"),
            (Part::Run, "workloade", "minscanlength=0", Bytes, "not above maxscanlength"),
            (Part::Run, "workloade", "minscanlength=200", Bytes, "not above maxscanlength"),
            (Part::Run, "workloadd", "warmuptime=10", Bytes, "a warm-up cannot insert"),
            (Part::Load, "workloada", "warmuptime=10", Bytes, "a warm-up cannot insert"),
            (Part::Run, "workloada", "scanproportion=0.00001", Bytes, "at least 1/10000"),
            (Part::Run, "workloada", "dataintegrity=true", GoYcsb, "not compared"),
            (Part::Load, "workloada", "dataintegrity=maybe", Bytes, "true or false"),
        ] {
            let message = refusal(part, &[file], &[property], encoding);
            assert!(message.contains(said), "{property}: {message}");
        }
    }

    #[test]
    fn warmuptime_scan_lengths_dataintegrity_and_small_proportions_are_honoured() {
        let p = read(&["workloada"], &["warmuptime=7"], Family::Ycsb);
        let written = to_written(Part::Run, &p, Family::Ycsb, RecordEncoding::Bytes, 1).unwrap();
        assert_eq!(written.phase[0].duration.as_deref(), Some("7s"));
        let scan =
            run_of(&["workloade"], &["minscanlength=3", "maxscanlength=9"], Family::Ycsb).workload.scan;
        assert_eq!((scan.min, scan.max), (3, 9));
        let verify = |value: &str| run_of(&["workloada"], &[value], Family::Ycsb).verify;
        assert_eq!(verify("dataintegrity=true"), crate::schedule::Verify::On);
        assert_eq!(verify("dataintegrity=false"), crate::schedule::Verify::Off);
        let small = ["readproportion=0.9999", "updateproportion=0.0001"];
        let mix = run_of(&["workloada"], &small, Family::Ycsb).workload.mix;
        assert_eq!((mix.share(crate::workload::OperationKind::Update), mix.total()), (1, 10_000));
    }

    /// Zipfian draws were of the records themselves, not of YCSB's 10^10 items.
    #[test]
    fn zipfian_and_latest_are_ycsbs_own() {
        let of = |file: &str, single: &[&str], family| run_of(&[file], single, family).workload.popularity;
        let zipfian = |items, order| Popularity::YcsbZipfian { items, order };
        assert_eq!(of("workloadc", &[], Family::Ycsb), zipfian(1001, RecordOrder::Hashed));
        // 5% of 1,000 operations insert; YCSB expects twice as many.
        assert_eq!(of("workloade", &[], Family::Ycsb), zipfian(1101, RecordOrder::Hashed));
        let go = of("workloada", &["requestdistribution=zipfian"], Family::GoYcsb);
        assert_eq!(go, zipfian(1001, RecordOrder::HashedGo));
        assert_eq!(of("workloadd", &[], Family::Ycsb), Popularity::YcsbLatest);
    }

    /// A second load, with its own seed and first record, wrote other bytes, and every read of them was "corrupt".
    #[test]
    fn content_does_not_depend_on_the_seed_or_insertstart() {
        let dataset = |part, single: &[&str], seed| {
            let single = [&["fieldlengthdistribution=uniform", "recordcount=200"][..], single].concat();
            let p = read(&["workloadc"], &single, Family::Ycsb);
            let written = to_written(part, &p, Family::Ycsb, RecordEncoding::Bytes, seed).unwrap();
            resolve(written).unwrap().phases.pop().unwrap().workload.written
        };
        let [first, second] = [7, 8].map(crate::workload::payload::Block::new);
        let loaded = dataset(Part::Load, &["insertstart=100", "insertcount=100"], 7);
        let expected = dataset(Part::Run, &[], 8);
        for index in 0..100 {
            let (mut one, mut other) = (String::new(), String::new());
            loaded.key_into(&mut one, "", index);
            expected.key_into(&mut other, "", index + 100);
            assert_eq!(one, other);
            let (one, other) = (loaded.content(&first, index, 0), expected.content(&second, index + 100, 0));
            assert_eq!(one.total(), other.total());
            assert_eq!(one.segment(0), other.segment(0));
        }
    }

    #[test]
    fn bindings_name_their_stores() {
        let p =
            read(&[], &["s3.bucket=b", "s3.endpoint=http://h:1", "s3.use_path_style=true"], Family::GoYcsb);
        assert_eq!(store_of(&p, Family::GoYcsb).as_deref(), Some("s3://b?endpoint=http://h:1&style=path"));
        let p = read(&[], &["s3.endPoint=h", "table=t"], Family::Ycsb);
        assert_eq!(store_of(&p, Family::Ycsb).as_deref(), Some("s3://t?endpoint=https://h"));
        assert_eq!(store_of(&read(&[], &["table=t"], Family::Ycsb), Family::Ycsb), None);
    }
}
