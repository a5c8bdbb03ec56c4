//! The artifact appendix of a run: what a reader of a paper needs to judge and to repeat it.
//!
//! It follows the checklist of the artifact evaluations of conferences (<https://ctuning.org/ae/checklist.html>):
//! program, environment, hardware, execution, metrics, output, experiments, time and space, and how to repeat.

use std::fs;
use std::io;

use plimsoll_base::units::{format_bytes, format_duration, format_ms};
use plimsoll_document::{Document, Table};
use plimsoll_workload::schedule::Role;

use super::html::measurement;
use super::shell::{command_line, quoted};
use super::text::{answer, confidence};
use plimsoll_judge::run_dir::environment::StoreFacts;
use plimsoll_judge::run_dir::run::Run;
use plimsoll_judge::run_dir::sums;
use plimsoll_judge::summary::result::Window;
use plimsoll_judge::summary::unit::Unit;

/// Maximum number of windows that are named because the client limited them.
const MAX_LIMITED: usize = 3;

/// Text to cite for the methods.
const METHODS: &str = "Methods: latencies are measured from the intended start in open loops (no coordinated omission) \
    and from the actual start in closed loops, up to the arrival of the last byte. Percentiles come from \
    HDR histograms with three significant digits, merged bucket by bucket. Intervals are 95% confidence intervals that \
    allow for autocorrelation. Every operation is drawn from the seed. CITATION.cff of Plimsoll has the reference.";

/// Returns the appendix of a run.
///
/// # Errors
/// If the files of the run cannot be listed.
pub fn document(run: &Run) -> io::Result<Document> {
    let result = &run.result;
    let stores = result.stores();
    Ok(Document {
        title: format!("Artifact appendix of run {}", result.run.id),
        what: vec![measurement(result, &run.environment, &stores)],
        answer: answer::of(result).join(" "),
        warnings: warnings(run),
        tables: vec![checklist(run)?, expected(run)],
        notes: notes(run),
        ..Document::default()
    })
}

/// Returns the appendix as Markdown, with the commands and the experiment at its end.
///
/// # Errors
/// The errors of [`document`].
pub fn markdown(run: &Run) -> io::Result<String> {
    let mut out = document(run)?.markdown();
    out.push_str(&format!("\n#### How to repeat\n\n{}", fenced("sh", &repeat(run))));
    out.push_str(&format!("\n#### experiment.toml\n\n{}", fenced("toml", &run.experiment)));
    Ok(out)
}

/// Returns a text as a block of code. Its fence is longer than any in the text, which therefore cannot end it.
fn fenced(language: &str, text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}\n", text.trim_end())
}

fn warnings(run: &Run) -> Vec<String> {
    let info = &run.result.run;
    let mut out = Vec::new();
    if info.partial {
        out.push("the run did not complete".to_string());
    }
    out.extend(info.degraded.iter().map(|why| format!("the run is degraded: {why}")));
    out.extend(info.notes.iter().cloned());
    out.extend(limited(run));
    let from = info.imported.iter();
    out.extend(from.map(|from| format!("Plimsoll did not make the run, it was imported: {from}")));
    out
}

/// Returns a warning for each window that the client limited, up to [`MAX_LIMITED`].
fn limited(run: &Run) -> Vec<String> {
    let measured = run.result.windows.iter().filter(|window| window.role == Role::Measure);
    let warning = |window: &Window| {
        let why = window.client_limited.as_ref()?;
        let (label, operation, store) = (window.label(), window.operation, &window.store);
        Some(format!("{label} {operation} on {store}: limited by the client, not by the store ({why})"))
    };
    let mut out: Vec<String> = measured.filter_map(warning).collect();
    let more = out.len().saturating_sub(MAX_LIMITED);
    out.truncate(MAX_LIMITED);
    if more > 0 {
        out.push(format!("{more} more windows are limited by the client"));
    }
    out
}

/// Returns the facts of the checklist.
fn checklist(run: &Run) -> io::Result<Table> {
    let (info, environment) = (&run.result.run, &run.environment);
    let mut table = Table::new("Checklist", &["item", "fact"]);
    let mut add = |item: &str, fact: String| {
        if !fact.is_empty() {
            table.row([item.to_string(), fact]);
        }
    };
    let commit = environment.commit.as_ref().map(|commit| format!(", commit {commit}")).unwrap_or_default();
    add("program", format!("Plimsoll {}{commit}, Apache-2.0", info.version));
    add(
        "program file",
        environment.program_sha256.as_ref().map_or(String::new(), |hex| format!("SHA-256 {hex}")),
    );
    add("run", format!("{}, started {}, seed {}", info.id, info.started_at, info.seed));
    let labels: Vec<String> = info.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    add("labels", labels.join(", "));
    let machine = &environment.machine;
    if !machine.cpu.is_empty() {
        add("client: hardware", hardware(run));
        add("client: system", format!("{}, host {}", machine.kernel, machine.hostname));
    }
    add("client: vantage", environment.vantage.clone());
    if environment.workers > 0 {
        add("client: threads", environment.workers.to_string());
    }
    for (number, store) in environment.stores.iter().enumerate() {
        add(&format!("store {}", number + 1), described(store));
    }
    add("experiments", phases(run));
    add("metrics", "latency percentiles, rate, throughput, failed operations".into());
    let (files, bytes) = size_of(run)?;
    add("output", format!("{files} files, {}", format_bytes(bytes)));
    if let Ok(digest) = sums::sha256_of(&run.path.join(sums::NAME)) {
        add("SHA-256 of SHA256SUMS", digest);
    }
    if info.imported.is_none() {
        add("time to repeat", time(run));
    }
    let cost: Vec<String> = run
        .result
        .cost
        .iter()
        .map(|cost| format!("{} at prices of {}", cost.bill.total_usd.rounded(), cost.bill.as_of))
        .collect();
    add("cost to repeat", cost.join(", "));
    Ok(table)
}

fn hardware(run: &Run) -> String {
    let machine = &run.environment.machine;
    let mut out = format!(
        "{}, {} of {} cores usable, {} of memory",
        machine.cpu,
        machine.usable_cores,
        machine.cores,
        format_bytes(machine.memory_bytes)
    );
    for (name, value) in [
        ("instance type", &machine.instance_type),
        ("vendor", &machine.vendor),
        ("frequency governor", &machine.governor),
    ] {
        if let Some(value) = value {
            out.push_str(&format!(", {name} {value}"));
        }
    }
    let speeds = machine
        .links
        .iter()
        .filter_map(|link| Some(format!(", {} at {} Mbit/s", link.name, link.bits_per_s? / 1_000_000)));
    out.extend(speeds);
    out
}

fn described(store: &StoreFacts) -> String {
    let mut out = format!("{}: {} at {}", store.url, store.provider, store.endpoint);
    let mut add = |name: &str, value: &Option<String>| {
        if let Some(value) = value {
            out.push_str(&format!(", {name} {value}"));
        }
    };
    add("region", &store.region);
    add("storage class", &store.storage_class);
    add("round trip", &store.rtt_ms.map(|ms| format!("{} ms", format_ms(ms))));
    add("TLS handshake", &store.tls_ms.map(|ms| format!("{} ms", format_ms(ms))));
    add("signing", &Some(store.signing.clone()).filter(|signing| !signing.is_empty()));
    add("addresses", &Some(store.addresses.join(" ")).filter(|addresses| !addresses.is_empty()));
    out
}

/// Returns the names of the phases with their roles.
fn phases(run: &Run) -> String {
    let table = run.experiment_table();
    let phases = table.get("phase").and_then(toml::Value::as_array).cloned().unwrap_or_default();
    let named = |phase: &toml::Value| {
        let text = |field: &str| phase.get(field).and_then(toml::Value::as_str);
        Some(format!("{} ({})", text("name")?, text("role").unwrap_or(Role::Measure.name())))
    };
    let names: Vec<String> = phases.iter().filter_map(named).collect();
    format!("{}: {}", run.result.run.experiment, names.join(", ")).trim_end_matches(": ").to_string()
}

/// Returns the number of files of the run, and their size in bytes.
fn size_of(run: &Run) -> io::Result<(usize, u64)> {
    let mut sum = (0, 0);
    for entry in fs::read_dir(&run.path)? {
        let about = entry?.metadata()?;
        if about.is_file() {
            sum = (sum.0 + 1, sum.1 + about.len());
        }
    }
    Ok(sum)
}

/// Returns the time from the start of the first window to the end of the last one.
fn time(run: &Run) -> String {
    let windows = &run.result.windows;
    let first = windows.iter().map(|w| w.start_unix_s).fold(f64::INFINITY, f64::min);
    let last = windows.iter().map(|w| w.start_unix_s + w.window_s).fold(f64::NEG_INFINITY, f64::max);
    if last > first { format_duration(((last - first).round().max(1.0) * 1e9) as u64) } else { String::new() }
}

/// Returns the figures that a repeat should show.
fn expected(run: &Run) -> Table {
    let columns = ["store", "phase", "operation", "figure", "value#", "95% interval"];
    let mut table = Table::new("Expected results", &columns);
    for judged in &run.result.confidence {
        let (Some(value), Some(unit)) = (judged.value, Unit::of(&judged.unit)) else { continue };
        let interval = match (judged.low, judged.high) {
            (Some(low), Some(high)) => format!("{} to {}", unit.text(low), unit.text(high)),
            _ if judged.client_limited.is_some() => "none: the client limited the measurement".into(),
            _ => "none: the run is too short or not steady".into(),
        };
        let step = judged.step.map(|step| format!(", step {}", step + 1)).unwrap_or_default();
        let place = [judged.store.clone(), format!("{}{step}", judged.phase), judged.operation.name().into()];
        table.row([&place[..], &[judged.metric.clone(), unit.text(value), interval]].concat());
    }
    table
}

/// Returns the commands that repeat the run, each with a comment.
fn repeat(run: &Run) -> String {
    let path = quoted(&run.path.display().to_string());
    let version = &run.result.run.version;
    let mut out = String::new();
    let mut add = |step: &str, command: String| out.push_str(&format!("# {step}\n{command}\n"));
    add(&format!("version {version}"), "plimsoll --version".into());
    if !run.result.run.partial {
        add("the published run is intact", format!("plimsoll verify {path}"));
    }
    let is_merged = run.result.run.shards.len() > 1;
    if run.result.run.imported.is_none() && !is_merged && !run.environment.command.is_empty() {
        add("repeat", command_line(&run.environment.command));
        add("compare with the new run", format!("plimsoll compare {path} NEW"));
    }
    add("judge by the run rules", format!("plimsoll audit {path}"));
    out
}

fn notes(run: &Run) -> Vec<String> {
    let mut out = Vec::new();
    if let Some(judged) = run.result.confidence.iter().find(|judged| judged.low.is_some()) {
        out.push(format!("The intervals are {}.", confidence::scope(judged)));
    }
    out.push(
        "Plimsoll cannot see the hardware, the version and the configuration of a server. State them here, and publish \
         the run directory."
            .into(),
    );
    if run.result.run.imported.is_none() {
        out.push(METHODS.into());
    }
    out
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use plimsoll_base::machine::Machine;
    use plimsoll_judge::run_dir::environment::Environment;
    use plimsoll_judge::summary::result::{ConfidenceInterval, RunInfo, RunResult};

    fn run(experiment: &str) -> Run {
        let path = std::env::temp_dir().join(format!("plimsoll-appendix-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join(sums::NAME), "").unwrap();
        let command = ["/opt/plimsoll", "run", "get", "--slo", "get.p99 < 5ms"].map(String::from).to_vec();
        let machine = Machine { cpu: "EPYC | 9".into(), kernel: "Linux 6.1".into(), ..Machine::default() };
        let judged = |metric: &str, low: Option<f64>| ConfidenceInterval {
            store: "s3://a".into(),
            phase: "get".into(),
            metric: metric.into(),
            unit: "ms".into(),
            value: Some(5.0),
            low,
            high: low.map(|low| low + 0.5),
            measured_s: 30.0,
            rare_event_s: 10.0,
            ..ConfidenceInterval::default()
        };
        Run {
            path: PathBuf::from(&path),
            result: RunResult {
                run: RunInfo { id: "r1".into(), experiment: "get".into(), seed: 7, ..RunInfo::default() },
                confidence: vec![judged("p50", Some(4.75)), judged("p99", None)],
                ..RunResult::default()
            },
            environment: Environment { command, machine, workers: 2, ..Environment::default() },
            experiment: experiment.into(),
            series: Vec::new(),
            by_size: Vec::new(),
        }
    }

    #[test]
    fn an_appendix_has_what_a_repeat_needs() {
        let page = markdown(&run("name = 'get'\n[[phase]]\nname = 'get'\n")).unwrap();
        for part in [
            "| EPYC \\| 9, ",
            "| Linux 6.1, host ",
            "| get: get (measure) |",
            "| p50 | 5.00 ms | 4.75 ms to 5.25 ms |",
            "| p99 | 5.00 ms | none: the run is too short or not steady |",
            "\n# repeat\nplimsoll run get --slo 'get.p99 < 5ms'\n",
            "The intervals are about these 30 s of measurement",
            "\n```toml\nname = 'get'\n",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }

    #[test]
    fn an_experiment_cannot_end_its_block() {
        let page = markdown(&run("name = '```'\n# ````\n")).unwrap();
        assert!(page.contains("\n`````toml\n") && page.ends_with("\n`````\n"), "{page}");
    }
}
