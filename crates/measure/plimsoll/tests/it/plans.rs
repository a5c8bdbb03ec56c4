//! Compares the resolved built-in experiments and the output of `--dry-run` with files in `tests/golden`.
//! `UPDATE_GOLDEN=1 cargo test --test it plans` rewrites these files; review the difference before you commit it.

use std::path::Path;

use crate::support::ask::good;
use crate::support::{plimsoll, text};
use plimsoll_experiment::to_toml::to_toml;
use plimsoll_experiment::{BUILT_IN, load};

fn golden(name: &str, content: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, content).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(content, expected, "{name} differs; `UPDATE_GOLDEN=1 cargo test --test it plans` rewrites it");
}

/// Regression test: the plan of a mix showed the objects that it reads and not the sizes that it writes, and the plan
/// of a sweep of uploads had no total.
#[test]
fn a_plan_shows_the_sizes_of_puts_and_the_bytes_of_all_phases() {
    let plan = |arguments: &[&str]| good(&[arguments, &["--dry-run"]].concat());
    let mixed = plan(&["run", "mixed", "--size", "4KiB"]);
    assert!(mixed.contains("4 KiB in objects/{index}; puts of 4 KiB"), "{mixed}");
    let uploads = plan(&["run", "upload-sweep"]);
    assert!(uploads.contains("; 72 GiB written and 0 B read on each store"), "{uploads}");
}

/// Regression test: only some commands accepted `--quiet`.
#[test]
fn every_command_accepts_quiet() {
    for command in ["run", "ycsb", "replay", "fleet", "calibrate", "probe", "merge", "clean", "compare"] {
        assert!(good(&[command, "--help"]).contains("--quiet"), "{command}");
    }
    for experiment in ["capacity", "consistency", "contention", "sync", "upload-sweep", "get"] {
        assert!(good(&["run", experiment, "--help"]).contains("--quiet"), "{experiment}");
    }
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
