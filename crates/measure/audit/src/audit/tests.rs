//! Thirty constructed runs with one defect each, and thirty without any.

use std::path::PathBuf;

use super::rules::{Outcome, RULES};
use super::{Audit, audit, of_runs};
use plimsoll_base::machine::Machine;
use plimsoll_judge::run_dir::environment::{Environment, StoreFacts};
use plimsoll_judge::run_dir::run::Run;
use plimsoll_judge::summary::result::{
    ConfidenceInterval, LoopKind, Percentiles, RunInfo, RunResult, Window,
};
use plimsoll_workload::OperationKind;
use plimsoll_workload::schedule::Role;

const GIB: u64 = 1 << 30;

/// Properties of a constructed run that follows all rules.
#[derive(Clone, Copy)]
struct Kind {
    stores: usize,
    repeats: u32,
    loop_: LoopKind,
    operations: &'static [OperationKind],
    cache: &'static str,
}

impl Kind {
    /// Returns the run, with values of the repeats that vary by 0.5%.
    fn run(self) -> Run {
        let stores: Vec<String> = (0..self.stores).map(|i| format!("s3://bucket{i}")).collect();
        let mut result = RunResult {
            run: RunInfo {
                id: "20261128T000000-000000000000".into(),
                version: "0.1.0".into(),
                started_at: "2026-11-28T00:00:00Z".into(),
                stores: stores.clone(),
                labels: [("cache".to_string(), self.cache.to_string())].into(),
                ..RunInfo::default()
            },
            ..RunResult::default()
        };
        for store in &stores {
            // Objects that are read warm fit into the memory of 8 GiB.
            let bytes = if self.cache == "warm" { GIB } else { 64 * GIB };
            let prepared = Window {
                role: Role::Prepare,
                operation: OperationKind::Put,
                bytes,
                operations: 1000,
                ..self.window(store, 0)
            };
            result.windows.push(prepared);
            for (repeat, operation) in
                (0..self.repeats).flat_map(|r| self.operations.iter().map(move |o| (r, *o)))
            {
                result.windows.push(Window { operation, ..self.window(store, repeat) });
            }
            for operation in self.operations {
                let metric = if self.loop_ == LoopKind::Open { "p50" } else { "rate" };
                let figure = ConfidenceInterval {
                    store: store.clone(),
                    phase: "mix".into(),
                    operation: *operation,
                    metric: metric.into(),
                    value: Some(1000.0),
                    low: Some(985.0),
                    high: Some(1015.0),
                    ..ConfidenceInterval::default()
                };
                result.confidence.push(figure);
            }
        }
        let facts = |url: &String| StoreFacts {
            url: url.clone(),
            provider: "generic".into(),
            endpoint: "http://127.0.0.1:9000".into(),
            addresses: vec!["127.0.0.1:9000".into()],
            ..StoreFacts::default()
        };
        let environment = Environment {
            version: "0.1.0".into(),
            command: vec!["plimsoll".into(), "run".into()],
            machine: Machine {
                cpu: "cpu".into(),
                kernel: "Linux".into(),
                memory_bytes: 8 * GIB,
                ..Machine::default()
            },
            stores: stores.iter().map(facts).collect(),
            ..Environment::default()
        };
        let experiment =
            "order = 'interleaved'\n[[phase]]\nrole = 'warmup'\n[[phase]]\nname = 'mix'\nverify = 'on'\n";
        let (path, experiment) = (PathBuf::new(), experiment.into());
        Run { path, result, environment, experiment, series: Vec::new(), by_size: Vec::new() }
    }

    fn window(self, store: &str, repeat: u32) -> Window {
        let times = Percentiles {
            n: 30_000,
            p50: Some(1.0 + f64::from(repeat) / 200.0),
            p99: Some(4.0),
            ..Percentiles::default()
        };
        Window {
            store: store.into(),
            phase: "mix".into(),
            role: Role::Measure,
            repeat,
            loop_: self.loop_,
            offered_per_s: (self.loop_ == LoopKind::Open).then_some(1000.0),
            achieved_per_s: 1000.0 + f64::from(repeat) * 5.0,
            window_s: 30.0,
            operations: 30_000,
            response_ms: (self.loop_ == LoopKind::Open).then(|| times.clone()),
            service_ms: times,
            ..Window::default()
        }
    }
}

/// Returns thirty kinds of runs that follow all rules.
fn kinds() -> Vec<Kind> {
    use OperationKind::{Delete, Get, Put};
    let mut out = Vec::new();
    for (stores, repeats) in [(1, 3), (2, 3), (3, 5)] {
        for loop_ in [LoopKind::Closed, LoopKind::Open] {
            for operations in [&[Get][..], &[Put], &[Get, Put], &[Delete, Put]] {
                out.push(Kind { stores, repeats, loop_, operations, cache: "warm" });
            }
            out.push(Kind { stores, repeats, loop_, operations: &[Get], cache: "cold" });
        }
    }
    out
}

const CLEAN: Kind =
    Kind { stores: 1, repeats: 3, loop_: LoopKind::Closed, operations: &[OperationKind::Get], cache: "warm" };

fn judged(run: Run, contradictions: &[&str]) -> Audit {
    audit(&of_runs(&[run], contradictions.iter().map(ToString::to_string).collect(), None))
}

#[test]
fn no_clean_run_is_accused() {
    let kinds = kinds();
    assert_eq!(kinds.len(), 30);
    for (number, kind) in kinds.into_iter().enumerate() {
        let found = judged(kind.run(), &[]);
        let accused: Vec<_> =
            found.findings.iter().filter(|finding| finding.outcome != Outcome::Met).collect();
        assert!(accused.is_empty(), "run {number}: {accused:?}");
        assert!(
            found.answer().ends_with(&format!("follows all {} run rules", RULES.len())),
            "{}",
            found.answer()
        );
    }
}

/// Change of a clean run.
type Crime = fn(&mut Run);

/// Changes the measured windows.
fn each(run: &mut Run, change: impl Fn(&mut Window)) {
    run.result.windows.iter_mut().filter(|window| window.role == Role::Measure).for_each(change);
}

const CRIMES: [(&str, Outcome, Kind, Crime); 29] = {
    use Outcome::{NotShown, Violated};
    const OPEN: Kind = Kind { loop_: LoopKind::Open, ..CLEAN };
    const TWO: Kind = Kind { stores: 2, ..CLEAN };
    const ONCE: Kind = Kind { repeats: 1, ..CLEAN };
    const TWICE: Kind = Kind { repeats: 2, ..CLEAN };
    const COLD: Kind = Kind { cache: "cold", ..CLEAN };
    [
        ("complete", Violated, CLEAN, |run| run.result.run.partial = true),
        ("complete", Violated, CLEAN, |run| run.result.run.degraded = Some("a shard is missing".into())),
        ("length", Violated, CLEAN, |run| run.result.confidence[0].high = Some(1300.0)),
        ("length", Violated, OPEN, |run| run.result.confidence[0].low = Some(700.0)),
        ("length", NotShown, CLEAN, |run| run.result.confidence[0].low = None),
        ("length", NotShown, CLEAN, |run| run.result.confidence.clear()),
        ("repeats", NotShown, ONCE, |_| {}),
        ("repeats", NotShown, TWICE, |_| {}),
        ("repeats", Violated, CLEAN, |run| {
            each(run, |w| w.achieved_per_s = 500.0 + f64::from(w.repeat) * 400.0)
        }),
        ("warm-up", Violated, CLEAN, |run| {
            run.experiment = run.experiment.replace("[[phase]]\nrole = 'warmup'\n", "")
        }),
        ("cache", NotShown, CLEAN, |run| run.result.run.labels.clear()),
        ("cache", NotShown, CLEAN, |run| {
            run.result.run.labels = [("cache".to_string(), "lukewarm".to_string())].into()
        }),
        ("cache", Violated, COLD, |run| run.result.windows[0].bytes = GIB),
        ("cache", Violated, CLEAN, |run| run.result.windows[0].bytes = 64 * GIB),
        ("cache", NotShown, CLEAN, |run| run.environment.stores[0].addresses = vec!["192.0.2.1:443".into()]),
        ("cache", NotShown, CLEAN, |run| run.result.windows[0].bytes = 0),
        ("client", Violated, CLEAN, |run| run.result.windows[2].client_limited = Some("CPU".into())),
        ("failures", Violated, CLEAN, |run| each(run, |w| w.errors = [("503".to_string(), 2000)].into())),
        ("rate", Violated, OPEN, |run| run.result.windows[3].saturated = true),
        ("percentiles", Violated, CLEAN, |run| each(run, |w| w.service_ms.n = 20)),
        ("percentiles", Violated, CLEAN, |run| {
            each(run, |w| {
                w.service_ms = Percentiles { n: 30_000, mean: Some(2.0), ..Percentiles::default() }
            });
        }),
        ("content", Violated, CLEAN, |run| run.experiment = run.experiment.replace("'on'", "'off'")),
        ("disturbances", Violated, CLEAN, |run| each(run, |w| w.disturbances.pauses_s = 2.0)),
        ("comparison", Violated, TWO, |run| {
            run.experiment = run.experiment.replace("interleaved", "sequential")
        }),
        ("disclosure", NotShown, CLEAN, |run| run.environment.version.clear()),
        ("disclosure", NotShown, CLEAN, |run| run.environment.command.clear()),
        ("disclosure", NotShown, CLEAN, |run| run.environment.machine.cpu.clear()),
        ("disclosure", NotShown, CLEAN, |run| run.environment.stores[0].endpoint.clear()),
        ("disclosure", NotShown, CLEAN, |run| run.result.run.started_at.clear()),
    ]
};

#[test]
fn every_crime_is_found_and_nothing_else() {
    for (number, (rule, outcome, kind, crime)) in CRIMES.into_iter().enumerate() {
        let mut run = kind.run();
        crime(&mut run);
        if rule == "disclosure" {
            // An endpoint alone identifies a store.
            run.environment.stores[0].provider.clear();
        }
        let found = judged(run, &[]);
        let accused: Vec<_> =
            found.findings.iter().filter(|finding| finding.outcome != Outcome::Met).collect();
        assert_eq!(accused.len(), 1, "crime {number}, {rule}: {accused:?}");
        assert_eq!((accused[0].rule, accused[0].outcome), (rule, outcome), "crime {number}: {accused:?}");
        assert!(found.answer().contains(rule), "{}", found.answer());
    }
    let found = judged(CLEAN.run(), &["get: 5 operations in the log, 6 in result.json"]);
    assert_eq!(found.rules(Outcome::Violated), ["authentic"]);
}

#[test]
fn a_closed_loop_of_another_tool_does_not_show_response_times() {
    let mut run = CLEAN.run();
    run.result.run.imported = Some("warp, a.csv.zst".into());
    let found = judged(run, &[]);
    let unknown = found.rules(Outcome::NotShown);
    for rule in ["complete", "client", "response-times", "content", "disturbances", "warm-up"] {
        assert!(unknown.contains(&rule), "{rule}: {unknown:?}");
    }
    assert!(found.rules(Outcome::Violated).is_empty());
}

#[test]
fn runs_of_one_experiment_are_repeats() {
    let once = Kind { repeats: 1, ..CLEAN };
    let runs = |values: [f64; 3]| {
        let runs: Vec<Run> = values
            .into_iter()
            .map(|value| {
                let mut run = once.run();
                each(&mut run, |window| window.achieved_per_s = value);
                run
            })
            .collect();
        audit(&of_runs(&runs, Vec::new(), None))
    };
    assert!(runs([1000.0, 1005.0, 998.0]).rules(Outcome::Violated).is_empty());
    assert_eq!(runs([1000.0, 1300.0, 800.0]).rules(Outcome::Violated), ["repeats"]);
}
