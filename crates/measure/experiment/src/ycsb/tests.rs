//! Tests of the conversion of YCSB properties into experiments.

use super::*;
use crate::resolve::{parse, resolve};
use crate::to_toml::to_toml;
use plimsoll_workload::naming::RecordOrder;
use plimsoll_workload::popularity::Popularity;

fn read(files: &[&str], single: &[&str], family: Family) -> Properties {
    let own = |list: &[&str]| list.iter().map(|s| (*s).to_string()).collect::<Vec<_>>();
    Properties::read(&own(files), &own(single), family).unwrap()
}

#[test]
fn every_workload_of_both_families_survives_a_round_trip() {
    for family in [Family::Ycsb, Family::GoYcsb] {
        for name in ["workloada", "workloadb", "workloadc", "workloadd", "workloade", "workloadf"] {
            for encoding in [RecordEncoding::Bytes, RecordEncoding::GoYcsb] {
                let p = read(&[name], &["threadcount=8"], family);
                for part in [YcsbPhase::Load, YcsbPhase::Run] {
                    let written = to_spec(part, &p, family, encoding, 42).unwrap();
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
fn proportions_become_shares_and_target_becomes_an_open_loop() {
    let p = read(&["workloadd"], &["target=500", "threadcount=32"], Family::Ycsb);
    let written = to_spec(YcsbPhase::Run, &p, Family::Ycsb, RecordEncoding::Bytes, 1).unwrap();
    let experiment = resolve(written).unwrap();
    let run = &experiment.phases[0];
    assert!(run.load.is_open() && run.load.slots() == 32);
    assert_eq!(run.workload.inserts.map(|i| i.from), Some(1000));
    let shares: Vec<(&str, u32)> = run.workload.mix.shares().iter().map(|(k, n)| (k.name(), *n)).collect();
    assert_eq!(shares, [("put", 1), ("get", 19)]);
}

#[test]
fn reads_never_address_a_record_that_does_not_exist() {
    for name in ["workloada", "workloadd", "workloade"] {
        let p = read(&[name], &["recordcount=200", "threadcount=4"], Family::Ycsb);
        let written = to_spec(YcsbPhase::Run, &p, Family::Ycsb, RecordEncoding::Bytes, 1).unwrap();
        let experiment = resolve(written).unwrap();
        let workload = &experiment.phases[0].workload;
        let mut sequence = workload.sequence();
        let mut inserted = 0;
        let mut newest = 0;
        for i in 0..20_000 {
            let operation = sequence.at(i);
            if operation.kind == plimsoll_workload::OperationKind::Put {
                assert_eq!(operation.index, 200 + inserted);
                inserted += 1;
            } else {
                assert!(operation.index < 200 + inserted, "{name}: operation {i}");
                newest = newest.max(operation.index);
            }
        }
        assert!(name != "workloadd" || newest > 1000, "inserted records are read: {newest}");
    }
}

#[test]
fn errors_name_the_property() {
    let error = |single: &[&str]| {
        let p = read(&["workloada"], single, Family::Ycsb);
        to_spec(YcsbPhase::Run, &p, Family::Ycsb, RecordEncoding::Bytes, 1).unwrap_err().to_string()
    };
    for (single, expected) in [
        (vec!["readproportion=-0.5"], "-p readproportion: readproportion=-0.5 must be a number, 0 or more"),
        (vec!["readproportion=0", "updateproportion=0"], "add up to more than 0"),
        (vec!["recordcount=0"], "above 0"),
        (vec!["requestdistribution=pareto"], "uniform, sequential, zipfian"),
        (vec!["workload=site.ycsb.TimeSeries"], "core"),
        (vec!["fieldlengthdistribution=histogram", "fieldlengthhistogram=/nowhere"], "a readable file"),
        (vec!["operationcount=0"], "maxexecutiontime"),
    ] {
        let message = error(&single);
        assert!(message.contains(expected), "{message}");
    }
}

fn error_of(part: YcsbPhase, files: &[&str], single: &[&str], encoding: RecordEncoding) -> String {
    let p = read(files, single, Family::Ycsb);
    to_spec(part, &p, Family::Ycsb, encoding, 1).unwrap_err().to_string()
}

fn run_of(files: &[&str], single: &[&str], family: Family) -> plimsoll_workload::schedule::Phase {
    let p = read(files, single, family);
    let written = to_spec(YcsbPhase::Run, &p, family, RecordEncoding::Bytes, 1).unwrap();
    resolve(written).unwrap().phases.pop().unwrap()
}

/// Regression test: Plimsoll silently limited scans to 1,000 records, omitted a warm-up and dropped small
/// proportions.
#[test]
fn unsupported_values_are_rejected() {
    use RecordEncoding::{Bytes, GoYcsb};
    for (part, file, property, encoding, expected) in [
        (YcsbPhase::Run, "workloade", "maxscanlength=5000", Bytes, "between 1 and 1000"),
        (YcsbPhase::Run, "workloade", "maxscanlength=0", Bytes, "between 1 and 1000"),
        (YcsbPhase::Run, "workloade", "minscanlength=0", Bytes, "not above maxscanlength"),
        (YcsbPhase::Run, "workloade", "minscanlength=200", Bytes, "not above maxscanlength"),
        (YcsbPhase::Run, "workloadd", "warmuptime=10", Bytes, "a warm-up cannot insert"),
        (YcsbPhase::Load, "workloada", "warmuptime=10", Bytes, "a warm-up cannot insert"),
        (YcsbPhase::Run, "workloada", "scanproportion=0.00001", Bytes, "at least 1/10000"),
        (YcsbPhase::Run, "workloada", "dataintegrity=true", GoYcsb, "does not compare these records"),
        (YcsbPhase::Load, "workloada", "dataintegrity=maybe", Bytes, "true or false"),
    ] {
        let message = error_of(part, &[file], &[property], encoding);
        assert!(message.contains(expected), "{property}: {message}");
    }
}

#[test]
fn warmuptime_scan_lengths_dataintegrity_and_small_proportions_take_effect() {
    let p = read(&["workloada"], &["warmuptime=7"], Family::Ycsb);
    let written = to_spec(YcsbPhase::Run, &p, Family::Ycsb, RecordEncoding::Bytes, 1).unwrap();
    assert_eq!(written.phase[0].duration.as_deref(), Some("7s"));
    let scan = run_of(&["workloade"], &["minscanlength=3", "maxscanlength=9"], Family::Ycsb).workload.scan;
    assert_eq!((scan.min, scan.max), (3, 9));
    let verify = |value: &str| run_of(&["workloada"], &[value], Family::Ycsb).verify;
    assert_eq!(verify("dataintegrity=true"), plimsoll_workload::schedule::Verify::On);
    assert_eq!(verify("dataintegrity=false"), plimsoll_workload::schedule::Verify::Off);
    let small = ["readproportion=0.9999", "updateproportion=0.0001"];
    let mix = run_of(&["workloada"], &small, Family::Ycsb).workload.mix;
    assert_eq!((mix.share(plimsoll_workload::OperationKind::Update), mix.total()), (1, 10_000));
}

/// Regression test: zipfian draws were over the number of records instead of YCSB's 10^10 items.
#[test]
fn zipfian_and_latest_are_those_of_ycsb() {
    let of = |file: &str, single: &[&str], family| run_of(&[file], single, family).workload.popularity;
    let zipfian = |items, order| Popularity::YcsbZipfian { items, order };
    assert_eq!(of("workloadc", &[], Family::Ycsb), zipfian(1001, RecordOrder::Hashed));
    // 5% of the 1,000 operations are inserts; YCSB doubles that number.
    assert_eq!(of("workloade", &[], Family::Ycsb), zipfian(1101, RecordOrder::Hashed));
    let go = of("workloada", &["requestdistribution=zipfian"], Family::GoYcsb);
    assert_eq!(go, zipfian(1001, RecordOrder::HashedGo));
    assert_eq!(of("workloadd", &[], Family::Ycsb), Popularity::YcsbLatest);
}

/// Regression test: a second load with another seed and first record wrote different bytes, so every read of them was
/// reported as corrupt.
#[test]
fn content_does_not_depend_on_the_seed_or_insertstart() {
    let dataset = |part, single: &[&str], seed| {
        let single = [&["fieldlengthdistribution=uniform", "recordcount=200"][..], single].concat();
        let p = read(&["workloadc"], &single, Family::Ycsb);
        let written = to_spec(part, &p, Family::Ycsb, RecordEncoding::Bytes, seed).unwrap();
        resolve(written).unwrap().phases.pop().unwrap().workload.written
    };
    let [first, second] = [7, 8].map(plimsoll_workload::payload::Block::new);
    let loaded = dataset(YcsbPhase::Load, &["insertstart=100", "insertcount=100"], 7);
    let expected = dataset(YcsbPhase::Run, &[], 8);
    for index in 0..100 {
        let (mut one, mut other) = (String::new(), String::new());
        loaded.key_into(&mut one, "", index);
        expected.key_into(&mut other, "", index + 100);
        assert_eq!(one, other);
        let (one, other) = (loaded.content(&first, index, 0), expected.content(&second, index + 100, 0));
        assert_eq!(one.total(), other.total());
        assert_eq!(one.whole(), other.whole());
    }
}

#[test]
fn binding_properties_determine_the_store() {
    let p = read(&[], &["s3.bucket=b", "s3.endpoint=http://h:1", "s3.use_path_style=true"], Family::GoYcsb);
    assert_eq!(store_of(&p, Family::GoYcsb).as_deref(), Some("s3://b?endpoint=http://h:1&style=path"));
    let p = read(&[], &["s3.endPoint=h", "table=t"], Family::Ycsb);
    assert_eq!(store_of(&p, Family::Ycsb).as_deref(), Some("s3://t?endpoint=https://h"));
    assert_eq!(store_of(&read(&[], &["table=t"], Family::Ycsb), Family::Ycsb), None);
}
