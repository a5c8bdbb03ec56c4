//! Who may import whom. The table is the one in ARCHITECTURE.md; a new arrow is a decision, not an accident.

use std::collections::BTreeSet;
use std::path::Path;

/// Module, and the modules it may import. `cli` may import everything.
const ALLOWED: &[(&str, &[&str])] = &[
    ("clock", &[]),
    ("rng", &[]),
    ("units", &["clock"]),
    ("machine", &["clock"]),
    ("metrics", &[]),
    ("net", &["clock"]),
    ("text", &["net"]),
    ("s3", &["clock", "net", "text"]),
    ("provider", &["units"]),
    ("store", &["clock", "net", "provider", "rng", "s3", "text", "units"]),
    ("workload", &["rng"]),
    ("schedule", &["clock", "rng", "workload"]),
    ("experiment", &["clock", "schedule", "units", "workload"]),
    ("recorder", &["clock", "machine", "store", "workload", "rng"]),
    ("driver", &["clock", "net", "recorder", "rng", "schedule", "store", "workload"]),
    ("import", &["recorder", "schedule", "store", "workload"]),
    ("summary", &["recorder", "rng", "schedule", "store", "units", "workload"]),
    ("published", &[]),
    ("cost", &["provider", "published", "summary", "units"]),
    ("advise", &["cost", "provider", "summary"]),
    (
        "report",
        &[
            "advise",
            "cost",
            "machine",
            "metrics",
            "provider",
            "published",
            "recorder",
            "summary",
            "text",
            "units",
        ],
    ),
    ("server", &["clock", "metrics", "net", "rng", "s3", "units"]),
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

/// The modules named in `crate::module` paths of a file.
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
            if import != module && !allowed.contains(&import.as_str()) {
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
        let list = if allowed.is_empty() { "nothing".to_string() } else { allowed.join(", ") };
        let row = format!("| `{module}` | {list} |");
        assert!(page.contains(&row), "ARCHITECTURE.md lacks the row\n{row}");
    }
}

#[test]
fn files_stay_short_enough_to_read() {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    let long: Vec<_> =
        files.iter().filter(|f| std::fs::read_to_string(f).unwrap().lines().count() > 500).collect();
    assert!(long.is_empty(), "over 500 lines: {long:?}");
}
