//! Checks the imports between modules against the table in ARCHITECTURE.md. A new entry must be a deliberate decision.

use std::collections::BTreeSet;
use std::path::Path;

/// Modules, each with the modules that it may import. `cli` may import every module.
const ALLOWED: &[(&str, &str)] = &[
    ("clock", ""),
    ("rng", ""),
    ("units", "clock"),
    ("machine", "clock"),
    ("metrics", "net"),
    ("net", "clock"),
    ("text", "net"),
    ("s3", "clock, net, text"),
    ("provider", "units"),
    ("store", "clock, net, provider, rng, s3, text, units"),
    ("workload", "rng"),
    ("schedule", "clock, rng, workload"),
    ("logs", "rng, workload"),
    ("experiment", "clock, logs, schedule, units, workload"),
    ("recorder", "clock, machine, rng, store, workload"),
    ("driver", "clock, machine, net, recorder, rng, schedule, store, workload"),
    ("consistency", "clock, driver, recorder, rng, store"),
    ("history", "rng, summary"),
    ("import", "logs, recorder, schedule, store, workload"),
    ("fit", "experiment, rng, schedule, units, workload"),
    ("published", ""),
    ("cost", "provider, published, units"),
    ("summary", "cost, machine, recorder, rng, schedule, store, units, workload"),
    ("advise", "cost, provider, published, run_dir, schedule, summary, units, workload"),
    ("run_dir", "machine, recorder, schedule, summary, text, units, workload"),
    (
        "report",
        "advise, cost, experiment, fit, history, provider, published, recorder, run_dir, schedule, summary, text, units, workload",
    ),
    (
        "session",
        "clock, cost, driver, experiment, machine, metrics, provider, recorder, rng, run_dir, s3, schedule, store, summary, text, units, workload",
    ),
    ("screen", "clock, driver, recorder, schedule, session, summary, text, units"),
    (
        "sync",
        "clock, driver, experiment, machine, recorder, run_dir, schedule, session, store, summary, workload",
    ),
    (
        "fleet",
        "clock, consistency, driver, experiment, machine, net, recorder, rng, run_dir, s3, schedule, session, store, text",
    ),
    ("probe", "clock, driver, net, run_dir, s3, session, store"),
    (
        "calibrate",
        "clock, driver, experiment, machine, recorder, schedule, server, session, store, summary, workload",
    ),
    ("server", "clock, machine, metrics, net, rng, s3, units"),
];

fn sources(dir: &Path, out: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

/// Returns the modules named in `crate::module` paths of a file.
fn imports(text: &str) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    for (at, _) in text.match_indices("crate::") {
        if text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$') {
            continue;
        }
        let rest = &text[at + 7..];
        let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
        out.insert(rest[..end].to_string());
    }
    out
}

#[test]
fn modules_import_only_what_the_table_allows() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    assert!(files.len() > 50);
    let mut wrong = Vec::new();
    for file in files {
        let relative = file.strip_prefix(&root).unwrap();
        let module = relative.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs");
        if matches!(module, "cli" | "main" | "lib") {
            continue;
        }
        let allowed = ALLOWED
            .iter()
            .find(|(m, _)| *m == module)
            .unwrap_or_else(|| panic!("{module} is not in the table"))
            .1;
        for import in imports(&std::fs::read_to_string(&file).unwrap()) {
            if import != module && !allowed.split(", ").any(|name| name == import) {
                wrong.push(format!("{} imports {import}", relative.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_architecture_page_has_the_same_table() {
    let page =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("ARCHITECTURE.md")).unwrap();
    for (module, allowed) in ALLOWED {
        let list = if allowed.is_empty() { "nothing" } else { allowed };
        let row = format!("| `{module}` | {list} |");
        assert!(page.contains(&row), "ARCHITECTURE.md lacks the row\n{row}");
    }
}

#[test]
fn source_files_have_at_most_500_lines() {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    let long: Vec<_> =
        files.iter().filter(|f| std::fs::read_to_string(f).unwrap().lines().count() > 500).collect();
    assert!(long.is_empty(), "over 500 lines: {long:?}");
}

/// The command line only parses arguments, prints and exits. All other code belongs to modules that library users can
/// call.
#[test]
fn the_command_line_is_at_most_a_tenth_of_the_source() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let lines = |dir: &Path| {
        let mut files = Vec::new();
        sources(dir, &mut files);
        files.iter().map(|file| std::fs::read_to_string(file).unwrap().lines().count()).sum::<usize>()
    };
    let (cli, all) = (lines(&root.join("cli")), lines(&root));
    assert!(cli * 10 <= all, "src/cli has {cli} of {all} lines");
}

#[test]
fn html_pages_do_not_use_the_terminal() {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/report/html"), &mut files);
    let wrong: Vec<_> =
        files.iter().filter(|file| std::fs::read_to_string(file).unwrap().contains("terminal::")).collect();
    assert!(wrong.is_empty(), "{wrong:?} use report::terminal; move the shared text to report::text");
}
