//! Checks that two runs are comparable: the same operations on the same objects under the same load. Also
//! lists the differences between their clients.

use super::run::Run;
use crate::summary::arrangement::Arrangement;
use crate::summary::merge::merge;
use crate::summary::primary_figure::SeriesPair;
use crate::summary::result::{RunResult, Window};
use crate::summary::series::Series;
use plimsoll_base::machine::Machine;
use plimsoll_base::units::{format_bytes, format_per_s};
use toml::{Table, Value};

/// Fields of an experiment that may differ between comparable runs. `phase` is compared separately.
const MAY_DIFFER: [&str; 10] =
    ["name", "description", "seed", "store", "stores", "repeats", "order", "block", "rewarm", "phase"];
/// Fields of a phase that may differ between comparable runs.
const PHASE_MAY_DIFFER: [&str; 2] = ["duration", "drain"];

/// Describes the first difference that makes two experiments incomparable; `None` if they are comparable.
pub fn difference(base: &Table, other: &Table) -> Option<String> {
    fields("", base, other, &MAY_DIFFER).or_else(|| {
        let (a, b) = (phases(base), phases(other));
        let names = |phases: &[&Table]| phases.iter().map(|p| name(p)).collect::<Vec<_>>().join(", ");
        if a.len() != b.len() {
            return Some(format!("the phases are {} in one and {} in the other", names(&a), names(&b)));
        }
        let phase = |(a, b): (&&Table, &&Table)| {
            loops(a, b).or_else(|| fields(&format!("phase.{}", name(a)), a, b, &PHASE_MAY_DIFFER))
        };
        a.iter().zip(&b).find_map(phase)
    })
}

/// Returns a sentence if one phase is an open loop and the other a closed one. Their settings have different names.
fn loops(a: &Table, b: &Table) -> Option<String> {
    let kind = |phase: &Table| match (phase.get("rate"), phase.get("concurrency")) {
        (Some(rate), _) => format!("an open loop (rate {rate})"),
        (None, Some(slots)) => format!("a closed loop (concurrency {slots})"),
        (None, None) => "a closed loop".into(),
    };
    let differ = a.contains_key("rate") != b.contains_key("rate");
    differ.then(|| format!("phase.{} is {} in one and {} in the other", name(a), kind(a), kind(b)))
}

fn name(phase: &Table) -> String {
    phase.get("name").and_then(Value::as_str).unwrap_or_default().to_string()
}

/// Returns the phases that affect the figures: all except warm-ups.
fn phases(experiment: &Table) -> Vec<&Table> {
    let all = experiment.get("phase").and_then(Value::as_array);
    let tables = all.into_iter().flatten().filter_map(Value::as_table);
    tables.filter(|p| p.get("role").and_then(Value::as_str) != Some("warmup")).collect()
}

/// Describes the first difference between two tables, except in the `ignored` fields; `None` if there is none.
fn fields(path: &str, base: &Table, other: &Table, ignored: &[&str]) -> Option<String> {
    let mut keys: Vec<&String> =
        base.keys().chain(other.keys()).filter(|k| !ignored.contains(&k.as_str())).collect();
    keys.sort();
    keys.dedup();
    keys.into_iter().find_map(|key| {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        match (base.get(key), other.get(key)) {
            (Some(Value::Table(a)), Some(Value::Table(b))) => fields(&path, a, b, &[]),
            (a, b) if a == b => None,
            (a, b) => {
                let show = |v: Option<&Value>| v.map_or("absent".into(), ToString::to_string);
                Some(format!("{path} is {} in one and {} in the other", show(a), show(b)))
            }
        }
    })
}

/// Largest relative difference between the loads of imported runs that is not reported. The load in a log
/// varies slightly.
const LOAD_TOLERANCE: f64 = 0.05;

/// Returns the differences between the loads of two runs if at least one is imported; else nothing. An
/// imported run has no experiment, so the loads are compared by their windows.
pub fn loads(base: &RunResult, other: &RunResult, series: &[SeriesPair<'_>]) -> Vec<String> {
    if base.run.imported.is_none() && other.run.imported.is_none() {
        return Vec::new();
    }
    let window = |result: &RunResult, s: &Series| {
        let own = |w: &&Window| {
            (&w.store, &w.phase, w.step, &w.operation) == (&s.store, &s.phase, s.step, &s.operation)
        };
        merge(&result.windows.iter().filter(own).collect::<Vec<_>>(), Arrangement::Consecutive)
    };
    let both = |pair: &SeriesPair<'_>| Some((window(base, pair.base)?, window(other, pair.other)?));
    series.iter().filter_map(both).flat_map(|(a, b)| load_differs(&a, &b)).collect()
}

fn load_differs(a: &Window, b: &Window) -> Vec<String> {
    let place = a.place();
    let differ = |x: f64, y: f64| (x - y).abs() > LOAD_TOLERANCE * x.max(y);
    let mut out = Vec::new();
    if a.loop_ != b.loop_ {
        out.push(format!("{place}: {} loop / {} loop", a.loop_.name(), b.loop_.name()));
    }
    match (a.offered_per_s, b.offered_per_s) {
        (Some(x), Some(y)) if differ(x, y) => {
            out.push(format!("{place}: {}/s / {}/s offered", format_per_s(x), format_per_s(y)));
        }
        (None, None) if differ(a.concurrency as f64, b.concurrency as f64) => {
            out.push(format!("{place}: {} / {} in flight", a.concurrency, b.concurrency));
        }
        _ => {}
    }
    let size =
        |w: &Window| w.bytes.checked_div(w.operations - w.errors.values().sum::<u64>().min(w.operations));
    if let (Some(x), Some(y)) = (size(a), size(b))
        && differ(x as f64, y as f64)
    {
        out.push(format!("{place}: {} / {} per operation", format_bytes(x), format_bytes(y)));
    }
    out
}

/// Returns the differences between the clients of two runs. If there are any, the verdict includes their
/// effect. The client of an imported run is unknown and differs from every other.
pub fn clients(base: &Run, other: &Run) -> Vec<String> {
    let unknown =
        |run: &Run| run.result.run.imported.is_some() && run.environment.machine == Machine::default();
    if unknown(base) || unknown(other) {
        let name = |run: &Run| match (unknown(run), &run.environment.machine.instance_type) {
            (true, _) => "not in the imported log".to_string(),
            (false, Some(name)) => name.clone(),
            (false, None) => "not known".into(),
        };
        return vec![format!("instance type: {} / {}", name(base), name(other))];
    }
    let (base, other) = (&base.environment, &other.environment);
    let (a, b) = (&base.machine, &other.machine);
    let difference = |name: &str, a: String, b: String| (a != b).then(|| format!("{name}: {a} / {b}"));
    let or_unnamed = |text: &str| if text.is_empty() { "not named".to_string() } else { text.to_string() };
    let or_unknown = |text: &Option<String>| text.clone().unwrap_or_else(|| "not known".into());
    [
        difference("vantage", or_unnamed(&base.vantage), or_unnamed(&other.vantage)),
        difference("host", a.hostname.clone(), b.hostname.clone()),
        difference("CPU", a.cpu.clone(), b.cpu.clone()),
        difference("usable cores", a.usable_cores.to_string(), b.usable_cores.to_string()),
        difference("instance type", or_unknown(&a.instance_type), or_unknown(&b.instance_type)),
        difference("worker threads", base.workers.to_string(), other.workers.to_string()),
        difference("Plimsoll", base.version.clone(), other.version.clone()),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment(size: &str, concurrency: u32, duration: &str) -> Table {
        let text = format!(
            "seed = {concurrency}\n[[phase]]\nname = \"get\"\nrole = \"measure\"\nconcurrency = {concurrency}\nduration = \"{duration}\"\n[phase.objects]\nsize = \"{size}\"\n"
        );
        text.parse().unwrap()
    }

    /// Regression: runs on stores with different names in `plimsoll.toml` were not comparable.
    #[test]
    fn runs_on_differently_named_stores_are_comparable() {
        let named = |name: &str| {
            let mut table = experiment("1 KiB", 16, "30s");
            let store: Table = format!("[{name}]\nurl = \"s3://{name}\"\n").parse().unwrap();
            table.insert("store".into(), Value::Table(store));
            table
        };
        assert_eq!(difference(&named("old"), &named("new")), None);
    }

    #[test]
    fn length_and_seed_may_differ_size_and_load_may_not() {
        let base = experiment("1 KiB", 16, "30s");
        assert_eq!(difference(&base, &experiment("1 KiB", 16, "60s")), None);
        let size = difference(&base, &experiment("2 KiB", 16, "30s")).unwrap();
        assert!(size.contains("phase.get.objects.size is \"1 KiB\" in one and \"2 KiB\""), "{size}");
        assert!(difference(&base, &experiment("1 KiB", 8, "30s")).unwrap().contains("phase.get.concurrency"));
        let open = "[[phase]]\nname = \"get\"\nrate = \"100/s\"\narrival = \"constant\"\n".parse().unwrap();
        assert_eq!(
            difference(&base, &open).unwrap(),
            "phase.get is a closed loop (concurrency 16) in one and an open loop (rate \"100/s\") in the other"
        );
        let more = "[[phase]]\nname = \"put\"\n".parse().unwrap();
        assert!(
            difference(&base, &more).unwrap().contains("phase.get") || difference(&base, &more).is_some()
        );
    }
}
