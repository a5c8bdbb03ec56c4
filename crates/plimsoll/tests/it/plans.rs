//! Compares the resolved built-in experiments and the output of `--dry-run` with files in `tests/golden`.
//! `UPDATE_GOLDEN=1 cargo test --test it plans` rewrites these files; review the difference before you commit it.

use std::path::Path;

use crate::support::{plimsoll, text};
use plimsoll_workload::experiment::to_toml::to_toml;
use plimsoll_workload::experiment::{BUILT_IN, load};

fn golden(name: &str, content: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, content).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(content, expected, "{name} differs; `UPDATE_GOLDEN=1 cargo test --test it plans` rewrites it");
}

#[test]
fn built_in_experiments_match_their_golden_files() {
    for (name, _) in BUILT_IN {
        golden(&format!("{name}.toml"), &to_toml(&load(name, &[]).unwrap()));
    }
}

#[test]
fn dry_runs_match_their_golden_files() {
    for (name, _) in BUILT_IN {
        let run = plimsoll(&["run", name, "--dry-run"]).output().unwrap();
        assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
        golden(&format!("{name}.txt"), &text(&run.stdout));
    }
    let two = plimsoll(&[
        "run",
        "throughput",
        "--dry-run",
        "--store",
        "s3://one?provider=generic&endpoint=http://127.0.0.1:1",
        "--store",
        "s3://two?provider=generic&endpoint=http://127.0.0.1:1",
    ])
    .output()
    .unwrap();
    golden("throughput-two-stores.txt", &text(&two.stdout));
}
