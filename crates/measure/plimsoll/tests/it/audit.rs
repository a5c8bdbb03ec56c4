//! `plimsoll audit`: runs, files of other tools and published documents.

use std::fs;
use std::path::Path;

use plimsoll_audit::audit::rules::RULES;
use serde_json::Value;

use crate::support::{plimsoll, scratch, text};

/// Returns the exit code, the outcomes by rule, and what was printed.
fn audit(arguments: &[&str]) -> (i32, Vec<(String, String)>, String) {
    let done = plimsoll(&[&["audit", "--json"], arguments].concat()).output().unwrap();
    let shown = text(&done.stdout) + &text(&done.stderr);
    let value: Value = serde_json::from_str(&text(&done.stdout)).unwrap_or_default();
    let findings = value["audits"][0]["findings"].as_array().cloned().unwrap_or_default();
    let word = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let findings = findings.iter().map(|finding| (word(&finding["rule"]), word(&finding["outcome"])));
    (done.status.code().unwrap_or(-1), findings.collect(), shown)
}

fn with<'a>(findings: &'a [(String, String)], outcome: &str) -> Vec<&'a str> {
    findings.iter().filter(|(_, own)| own == outcome).map(|(rule, _)| rule.as_str()).collect()
}

/// Measures three repeats in memory, and returns the run directory.
fn measured(out: &Path, more: &[&str]) -> String {
    let file = out.join("experiment.toml");
    let experiment = "name = 'three'\nrepeats = 3\n\
        [[phase]]\nname = 'objects'\nrole = 'prepare'\noperations = { put = 1 }\nobjects = { count = 20, size = '4 KiB' }\n\
        [[phase]]\nname = 'warmup'\nrole = 'warmup'\noperations = { get = 1 }\nobjects = { from = 'objects' }\n\
        duration = '100ms'\n\
        [[phase]]\nname = 'get'\noperations = { get = 1 }\nobjects = { from = 'objects' }\nduration = '300ms'\n";
    fs::write(&file, experiment).unwrap();
    let runs = out.join("runs");
    let arguments =
        ["run", file.to_str().unwrap(), "--store", "memory:", "--json", "--out", runs.to_str().unwrap()];
    let done = plimsoll(&[&arguments[..], more].concat()).output().unwrap();
    assert!(done.status.success(), "{}", text(&done.stderr));
    let mut found = fs::read_dir(&runs).unwrap();
    found.next().unwrap().unwrap().path().display().to_string()
}

#[test]
fn a_run_is_judged_by_all_rules_and_a_changed_one_is_not_authentic() {
    let out = scratch("audit-run");
    let run = measured(&out, &["--label", "cache=warm"]);
    let (_, findings, shown) = audit(&[&run]);
    assert_eq!(findings.len(), RULES.len(), "{shown}");
    for rule in
        ["complete", "authentic", "warm-up", "content", "failures", "disclosure", "comparison", "cache"]
    {
        assert!(with(&findings, "met").contains(&rule), "{rule}: {shown}");
    }
    // A second is too short for an interval; on a busy machine, it may have a wide one.
    assert!(!with(&findings, "met").contains(&"length"), "{shown}");
    let path = Path::new(&run).join("result.json");
    let changed =
        fs::read_to_string(&path).unwrap().replace("\"role\": \"measure\"", "\"role\":  \"measure\"");
    fs::write(&path, changed).unwrap();
    let (code, findings, shown) = audit(&[&run, "--inconclusive", "pass"]);
    assert_eq!((code, with(&findings, "violated").contains(&"authentic")), (1, true), "{shown}");
}

#[test]
fn results_of_other_tools_show_less() {
    let out = scratch("audit-tools");
    let ycsb = out.join("ycsb.txt");
    let lines = "Run finished, takes 10s\n\
        READ   - Takes(s): 10.0, Count: 900, OPS: 90.0, Avg(us): 1, 50th(us): 1, 99.9th(us): 1\n\
        READ_ERROR - Takes(s): 10.0, Count: 100, OPS: 10.0, Avg(us): 1, 99th(us): 1\n";
    fs::write(&ycsb, lines).unwrap();
    let (code, findings, shown) = audit(&[ycsb.to_str().unwrap()]);
    assert_eq!((code, with(&findings, "violated")), (1, vec!["failures", "percentiles"]), "{shown}");
    assert!(with(&findings, "not-shown").contains(&"response-times"), "{shown}");
    assert!(shown.contains("100 of 1000 operations failed (10%)"), "{shown}");

    let warp = out.join("warp.csv");
    let head = "idx\tthread\top\tclient_id\tn_objects\tbytes\tendpoint\tfile\terror\tstart\tfirst_byte\tend\tduration_ns\n";
    let row = |i: usize| {
        let at = |ms: usize| format!("2023-04-14T20:27:{:02}.{:03}Z", ms / 1000, ms % 1000);
        let (start, end) = (at(i * 10), at(i * 10 + 5));
        format!("{i}\t0\tGET\ta\t1\t1000\thttp://h:9000\tf\t\t{start}\t{start}\t{end}\t5000000\n")
    };
    fs::write(&warp, format!("{head}{}", (0..1000).map(row).collect::<String>())).unwrap();
    let (_, findings, shown) = audit(&[warp.to_str().unwrap()]);
    assert!(with(&findings, "violated").is_empty(), "{shown}");
    let met = with(&findings, "met");
    assert!(met.contains(&"failures") && met.contains(&"percentiles") && !met.contains(&"client"), "{shown}");
}

#[test]
fn the_errors_of_published_documents_are_findings() {
    let (code, findings, shown) = audit(&["express-vs-r2"]);
    assert_eq!((code, with(&findings, "violated").contains(&"known-errors")), (1, true), "{shown}");
}

#[test]
fn unknown_subjects_are_refused() {
    let out = scratch("audit-unknown");
    let file = out.join("other.txt");
    for (content, message) in [
        ("hello\n", "not a result that Plimsoll knows"),
        ("{", "EOF"),
        ("{\"metrics\": {}}", "no http_reqs"),
        ("Run finished, takes 1s\n", "no figures after"),
        ("op\tstart\n\u{0}\n", "other.txt"),
        ("ISO date,operation\n", "there are no rows"),
    ] {
        fs::write(&file, content).unwrap();
        let (code, _, shown) = audit(&[file.to_str().unwrap()]);
        assert_eq!(code, 2, "{content:?}: {shown}");
        assert!(shown.contains(message), "{content:?}: {shown}");
    }
    assert_eq!(audit(&["no-such-run"]).0, 2);
    assert_eq!(audit(&["latest", "--server-memory", "much"]).0, 2);
}

#[test]
fn the_documentation_has_the_rules() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/run-rules.md");
    let page = fs::read_to_string(path).unwrap();
    for rule in RULES {
        let row = format!("| {} | {} | {} |", rule.name, rule.text, rule.source);
        assert!(page.contains(&row), "docs/run-rules.md lacks: {row}");
    }
}
