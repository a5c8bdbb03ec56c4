//! Conversion of a resolved experiment to TOML that resolves to the same experiment. Run directories contain this
//! form, and `--dry-run` prints it.

use std::collections::BTreeMap;

use super::Experiment;
use super::field_specs::{
    ConcurrencyRamp, ExponentialSpec, HotspotSpec, LognormalSpec, PaceSpec, RateRamp, SharesSpec, SumSpec,
    YcsbZipfianSpec,
};
use super::spec::{
    ArrivalSpec, ConcurrencySpec, EncodingSpec, ExperimentSpec, NamingSpec, ObjectsSpec, PhaseSpec,
    PopularitySpec, RateSpec, RecordsSpec, ScanSpec, SizeSpec, TraceSpec,
};
use plimsoll_base::units::{format_duration, format_rate, format_size};
use plimsoll_workload::dataset::ContentSource;
use plimsoll_workload::naming::{Naming, RecordOrder};
use plimsoll_workload::popularity::Popularity;
use plimsoll_workload::schedule::arrival::{Arrival, Gaps};
use plimsoll_workload::schedule::{Load, Phase};
use plimsoll_workload::size::Size;
use plimsoll_workload::size_classes::SizeClasses;
use plimsoll_workload::trace::{Logs, Recording};
use plimsoll_workload::{OperationKind, Workload};

/// Returns the experiment as TOML, with every default written out.
pub fn to_toml(experiment: &Experiment) -> String {
    let written = ExperimentSpec {
        name: experiment.name.clone(),
        description: experiment.description.clone(),
        seed: experiment.seed,
        stores: experiment.stores.clone(),
        store: experiment.named.clone(),
        repeats: Some(experiment.repeats),
        order: Some(experiment.order.name().into()),
        block: Some(format_duration(experiment.block_ns)),
        rewarm: Some(format_duration(experiment.rewarm_ns)),
        phase: experiment.phases.iter().map(|p| phase(p, experiment.repeats)).collect(),
    };
    toml::to_string(&written).unwrap_or_else(|e| format!("# cannot convert the experiment to TOML: {e}\n"))
}

fn phase(p: &Phase, repeats: u32) -> PhaseSpec {
    let w = &p.workload;
    let (mut rate, mut arrival, mut in_flight, mut concurrency) = (None, None, None, None);
    match p.load {
        Load::Closed { concurrency: n } => concurrency = Some(ConcurrencySpec::Fixed(n as u64)),
        Load::Open { rate_per_s, arrival: spread, in_flight: most } => {
            if spread != Arrival::Recorded {
                rate = Some(RateSpec::Fixed(format_rate(rate_per_s)));
                arrival = Some(match &p.gaps {
                    Some(Gaps { cdf, pace }) => ArrivalSpec::Gaps {
                        gaps: cdf.points().to_vec(),
                        pace: pace.as_ref().map(|pace| PaceSpec {
                            every: format_duration(pace.every_ns()),
                            rates: pace.rates().to_vec(),
                        }),
                    },
                    None => ArrivalSpec::Name(spread.name().to_string()),
                });
            }
            in_flight = Some(most as u64);
        }
    }
    if let Some(ramp) = p.ramp {
        let (every, stop) = (format_duration(ramp.every_ns), Some(ramp.stop.name().to_string()));
        if p.load.is_open() {
            let [from, step, to] = [ramp.from, ramp.step, ramp.to].map(format_rate);
            rate = Some(RateSpec::Ramp(RateRamp { from, step, every, to, stop }));
        } else {
            let [from, step, to] = [ramp.from, ramp.step, ramp.to].map(|n| n as u64);
            concurrency =
                Some(ConcurrencySpec::Ramp(ConcurrencyRamp { from, step, every, to: Some(to), stop }));
        }
    }
    PhaseSpec {
        name: p.name.clone(),
        role: Some(p.role.name().into()),
        operations: match &w.recording {
            None => w.mix.shares().iter().map(|(k, n)| (k.name().to_string(), *n)).collect(),
            Some(_) => Default::default(),
        },
        trace: w.recording.as_ref().map(trace),
        objects: ObjectsSpec { working_set: p.working_set.map(format_size), ..objects(w, repeats) },
        concurrency,
        rate,
        arrival,
        in_flight,
        duration: p.limit.duration_ns.filter(|_| p.ramp.is_none()).map(format_duration),
        stop_after: p.limit.operations.filter(|_| p.read_after_ns.is_none()),
        read_after: p.read_after_ns.map(format_duration),
        timeout: Some(format_duration(p.timeout_ns)),
        drain: Some(format_duration(p.drain_ns)),
        retries: Some(p.retries),
        verify: Some(p.verify.name().into()),
        sweep: None,
        sweep_of: p.sweep.as_ref().map(|sweep| sweep.of.clone()),
        sweep_at: p.sweep.as_ref().map_or_else(BTreeMap::new, |sweep| sweep.at.clone()),
        cache: p.cache.map(|state| state.name().to_string()),
        size_classes: p
            .size_classes
            .as_ref()
            .filter(|classes| **classes != SizeClasses::default())
            .map(|classes| classes.sizes().iter().copied().map(format_size).collect()),
        think_time: (p.think_time_ns > 0).then(|| format_duration(p.think_time_ns)),
    }
}

fn trace(recording: &Recording) -> TraceSpec {
    let Logs { files, format, columns, scan } = &recording.logs;
    TraceSpec {
        files: files.iter().map(|file| file.display().to_string()).collect(),
        format: format.clone(),
        columns: columns.iter().cloned().collect(),
        speed: scan.is_none().then_some(recording.speed),
        reader: scan.as_ref().map(|scan| scan.reader.name().into()),
        select: scan.as_ref().map_or_else(Vec::new, |scan| scan.select.clone()),
    }
}

fn objects(w: &Workload, repeats: u32) -> ObjectsSpec {
    if w.recording.is_some() {
        let from = w.read.as_ref().map(|read| read.name.clone());
        return ObjectsSpec { from, ..ObjectsSpec::default() };
    }
    let existing = w.read.as_ref().and_then(|d| d.existing.as_ref());
    let written = &w.written;
    let reads = w.mix.shares().iter().any(|(kind, _)| kind.reads());
    let writes = w.mix.shares().iter().any(|(kind, _)| !kind.reads());
    let count = match (&w.spare, existing, &w.read) {
        (Some(spare), _, _) if w.only_deletes() => spare.count / u64::from(repeats.max(1)),
        (_, Some(_), Some(read)) => read.count,
        _ => written.count,
    };
    ObjectsSpec {
        from: w.read.as_ref().filter(|d| existing.is_none() && d.at.is_none()).map(|d| d.name.clone()),
        records: w.written.at.as_ref().map(|at| records(w, at)),
        scan: (w.mix.share(OperationKind::Scan) > 0).then_some(ScanSpec {
            min: Some(w.scan.min),
            max: w.scan.max,
            theta: w.scan.theta,
        }),
        dataset: existing.filter(|e| e.keys_file().is_none()).map(|e| e.location.clone()),
        keys: existing.and_then(|e| e.keys_file()).map(str::to_string),
        count: ((writes || existing.is_some()) && w.written.at.is_none()).then_some(count),
        size: size(&written.size).filter(|_| writes || written.at.is_some()),
        part_size: (writes && written.upload.part_size > 0).then(|| format_size(written.upload.part_size)),
        parts_in_flight: (writes && written.upload.part_size > 0).then_some(written.upload.in_flight as u64),
        checksum: written.upload.checksum.clone().filter(|_| writes),
        file: match &written.source {
            Some(ContentSource::File(path)) if writes => Some(path.display().to_string()),
            _ => None,
        },
        compressible: written.reduction.filter(|_| writes).map(|reduction| reduction.compressible),
        dedup: written.reduction.filter(|_| writes).map(|reduction| reduction.dedup),
        working_set: None,
        range: (w.range > 0).then(|| format_size(w.range)),
        popularity: (reads && w.read.is_some()).then(|| popularity(&w.popularity)),
        naming: (writes && written.at.is_none()).then(|| naming(&written.naming)),
    }
}

fn records(w: &Workload, at: &str) -> RecordsSpec {
    let (prefix, order, digits, first) =
        w.written.naming.record_parts().unwrap_or(("", RecordOrder::Ordered, 1, 0));
    RecordsSpec {
        at: at.to_string(),
        count: w.written.count,
        first: Some(first),
        prefix: Some(prefix.to_string()),
        order: Some(order.name().into()),
        digits: Some(digits as u64),
        encoding: w.written.encoding.map(|e| EncodingSpec {
            fields: e.fields,
            length: e.length,
            writes_all: e.writes_all,
        }),
    }
}

/// Returns the size as written; `None` for recorded sizes.
fn size(size: &Size) -> Option<SizeSpec> {
    Some(match size {
        Size::Fixed(bytes) => SizeSpec::Fixed(format_size(*bytes)),
        Size::Uniform(min, max) => SizeSpec::Uniform { uniform: [format_size(*min), format_size(*max)] },
        Size::Lognormal { median, sigma, min, max } => SizeSpec::Lognormal {
            lognormal: LognormalSpec {
                median: format_size(*median),
                sigma: *sigma,
                min: Some(format_size(*min)),
                max: Some(format_size(*max)),
            },
        },
        Size::Sum(count, of) => {
            SizeSpec::Sum { sum: SumSpec { count: *count, of: Box::new(self::size(of)?) } }
        }
        Size::List(list) => SizeSpec::List { list: list.iter().copied().map(format_size).collect() },
        Size::Weighted(list) => {
            SizeSpec::Weighted { weighted: list.iter().map(|(b, w)| (format_size(*b), *w)).collect() }
        }
        Size::Cdf(cdf) | Size::Ordered(cdf, _) => {
            let point = |(p, bytes): &(f64, f64)| (*p, format_size(bytes.round() as u64));
            let trend = if let Size::Ordered(_, trend) = size { Some(*trend) } else { None };
            SizeSpec::Cdf { cdf: cdf.points().iter().map(point).collect(), trend }
        }
        Size::Recorded(_) => return None,
    })
}

fn popularity(popularity: &Popularity) -> PopularitySpec {
    match *popularity {
        Popularity::Uniform => PopularitySpec::Name("uniform".into()),
        Popularity::Sequential => PopularitySpec::Name("sequential".into()),
        Popularity::Reversed => PopularitySpec::Name("reversed".into()),
        Popularity::Shuffled => PopularitySpec::Name("shuffled".into()),
        Popularity::Shifted => PopularitySpec::Name("shifted".into()),
        Popularity::Ranges => PopularitySpec::Name("ranges".into()),
        Popularity::Zipfian { theta } => PopularitySpec::Zipfian { zipfian: theta },
        Popularity::Latest { theta } => PopularitySpec::Latest { latest: theta },
        Popularity::YcsbZipfian { items, order } => {
            let order = order.name().to_string();
            PopularitySpec::YcsbZipfian { ycsb_zipfian: YcsbZipfianSpec { items, order } }
        }
        Popularity::YcsbLatest => PopularitySpec::Name("ycsb_latest".into()),
        Popularity::Shares { operations, ref shares, ordered } => PopularitySpec::Shares {
            shares: SharesSpec { period: operations, points: shares.points().to_vec(), ordered },
        },
        Popularity::Exponential { percentile, objects } => {
            PopularitySpec::Exponential { exponential: ExponentialSpec { percentile, object_share: objects } }
        }
        Popularity::Hotspot { objects, operations } => PopularitySpec::Hotspot {
            hotspot: HotspotSpec { object_share: objects, operation_share: operations },
        },
    }
}

fn naming(naming: &Naming) -> NamingSpec {
    if *naming == Naming::default() {
        return NamingSpec::Name("sequential".into());
    }
    if *naming == Naming::hex() {
        return NamingSpec::Name("hex".into());
    }
    let prefixes = Some(naming.prefix_count()).filter(|n| *n > 0);
    let plain = prefixes.is_some_and(|n| *naming == Naming::prefixes(n));
    NamingSpec::Table { prefixes, template: (!plain).then(|| naming.to_string()) }
}
