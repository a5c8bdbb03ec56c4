//! Whether two runs may be compared: the same operations on the same objects under the same load. And what differs about who measured.

use crate::report::directory::Environment;
use toml::{Table, Value};

/// Fields of an experiment that may differ: how long, how often, in which order, and what it is called.
const MAY_DIFFER: [&str; 9] =
    ["name", "description", "seed", "stores", "repeats", "order", "block", "rewarm", "phase"];
/// The same of a phase.
const OF_A_PHASE: [&str; 2] = ["duration", "drain"];

/// The first thing that keeps two experiments from being compared, for people.
pub fn difference(base: &Table, other: &Table) -> Option<String> {
    fields("", base, other, &MAY_DIFFER).or_else(|| {
        let (a, b) = (phases(base), phases(other));
        let names = |phases: &[&Table]| phases.iter().map(|p| name(p)).collect::<Vec<_>>().join(", ");
        if a.len() != b.len() {
            return Some(format!("the phases are {} in one and {} in the other", names(&a), names(&b)));
        }
        a.iter().zip(&b).find_map(|(a, b)| fields(&format!("phase.{}", name(a)), a, b, &OF_A_PHASE))
    })
}

fn name(phase: &Table) -> String {
    phase.get("name").and_then(Value::as_str).unwrap_or_default().to_string()
}

/// Phases that matter to the figures; a warm-up does not.
fn phases(experiment: &Table) -> Vec<&Table> {
    let all = experiment.get("phase").and_then(Value::as_array);
    let tables = all.into_iter().flatten().filter_map(Value::as_table);
    tables.filter(|p| p.get("role").and_then(Value::as_str) != Some("warmup")).collect()
}

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

/// What differs about the clients, in words; the verdict then is about them, too.
pub fn clients(base: &Environment, other: &Environment) -> Vec<String> {
    let (a, b) = (&base.machine, &other.machine);
    let named = |what: &str, a: String, b: String| (a != b).then(|| format!("{what}: {a} / {b}"));
    let blank = |text: &str| if text.is_empty() { "not named".to_string() } else { text.to_string() };
    let told = |text: &Option<String>| text.clone().unwrap_or_else(|| "not known".into());
    [
        named("vantage", blank(&base.vantage), blank(&other.vantage)),
        named("host", a.hostname.clone(), b.hostname.clone()),
        named("CPU", a.cpu.clone(), b.cpu.clone()),
        named("usable cores", a.usable_cores.to_string(), b.usable_cores.to_string()),
        named("instance type", told(&a.instance_type), told(&b.instance_type)),
        named("worker threads", base.workers.to_string(), other.workers.to_string()),
        named("Plimsoll", base.version.clone(), other.version.clone()),
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

    #[test]
    fn length_and_seed_may_differ_size_and_load_may_not() {
        let base = experiment("1 KiB", 16, "30s");
        assert_eq!(difference(&base, &experiment("1 KiB", 16, "60s")), None);
        let size = difference(&base, &experiment("2 KiB", 16, "30s")).unwrap();
        assert!(size.contains("phase.get.objects.size is \"1 KiB\" in one and \"2 KiB\""), "{size}");
        assert!(difference(&base, &experiment("1 KiB", 8, "30s")).unwrap().contains("phase.get.concurrency"));
        let more = "[[phase]]\nname = \"put\"\n".parse().unwrap();
        assert!(
            difference(&base, &more).unwrap().contains("phase.get") || difference(&base, &more).is_some()
        );
    }
}
