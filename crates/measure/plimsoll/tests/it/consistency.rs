//! Finds injected violations of consistency, and none in a linearizable store.

use serde_json::Value;

use crate::support::ask::{fails, write};
use crate::support::{Server, plimsoll, scratch, text};

/// Checks a server with injected faults for a second or more; returns the exit code and the findings.
fn check(name: &str, inject: &str, more: &[&str]) -> (Option<i32>, Value) {
    let dir = scratch(name);
    let server = Server::start(inject, false);
    server.ready("");
    let store = format!("s3://bucket/shared?endpoint={}", server.endpoint());
    let out = dir.join("runs");
    let base = [
        "run",
        "consistency",
        "--store",
        &store,
        "--json",
        "--turn",
        "300ms",
        "--out",
        out.to_str().unwrap(),
    ];
    let run = plimsoll(&[&base, more].concat()).output().unwrap();
    let findings = serde_json::from_slice(&run.stdout).unwrap_or_else(|_| panic!("{}", text(&run.stderr)));
    // A clean-up may stop at a corrupt listing, and keeps the record.
    assert!(!out.exists() || inject.contains("corrupt"), "the record is deleted after the clean-up");
    (run.status.code(), findings)
}

/// Repeats the check for 1, 2, 4 and up to 32 seconds until the findings are `enough`, because a busy machine answers
/// few requests per second.
fn check_until(
    name: &str,
    inject: &str,
    more: &[&str],
    enough: impl Fn(&Value) -> bool,
) -> (Option<i32>, Value) {
    let longer = (0..6).map(|doubled| {
        let duration = format!("{}s", 1 << doubled);
        check(name, inject, &[more, &["--duration", &duration]].concat())
    });
    let mut last = None;
    for result in longer {
        let done = enough(&result.1);
        last = Some(result);
        if done {
            break;
        }
    }
    last.expect("the check ran")
}

/// Repeats the check until it finds a violation.
fn check_until_violated(name: &str, inject: &str, more: &[&str]) -> (Option<i32>, Value) {
    check_until(name, inject, more, |findings| findings["violations"].as_u64() > Some(0))
}

fn count(findings: &Value, guarantee: &str, field: &str) -> u64 {
    findings["guarantees"][guarantee][field].as_u64().unwrap_or(0)
}

#[test]
fn a_linearizable_store_has_no_violation() {
    let guarantees =
        ["read_after_put", "read_after_delete", "list_after_put", "put_if_absent", "put_if_unchanged"];
    let enough = |findings: &Value| {
        guarantees.iter().all(|guarantee| count(findings, guarantee, "checked") > 10)
            && findings["keys"].as_u64() > Some(8 * 3)
    };
    let (code, findings) = check_until("consistency-clean", "latency=lognormal(1ms;0.8)", &[], enough);
    assert_eq!((code, findings["violations"].as_u64()), (Some(0), Some(0)), "{findings:#}");
    assert_eq!(findings["lag"]["late"], 0);
    assert_eq!(findings["undecided"], 0);
    assert!(enough(&findings), "{findings:#}");
}

#[test]
fn throttled_and_broken_requests_are_no_violations() {
    let faults = "error=0.02,reset=0.02,truncate=0.02";
    let enough = |findings: &Value| findings["unknown"].as_u64() > Some(0);
    let (code, findings) = check_until("consistency-faults", faults, &[], enough);
    assert_eq!((code, findings["violations"].as_u64()), (Some(0), Some(0)), "{findings:#}");
    assert!(findings["unknown"].as_u64().unwrap() > 0, "{findings:#}");
}

#[test]
fn stale_reads_are_found_with_their_lag() {
    let lag = |findings: &Value| findings["lag"]["max_ms"].as_f64().unwrap();
    let enough =
        |findings: &Value| count(findings, "read_after_put", "violations") > 0 && lag(findings) > 10.0;
    let (code, findings) = check_until("consistency-stale", "stale=50ms", &[], enough);
    assert_eq!(code, Some(1));
    assert!(enough(&findings), "{findings:#}");
    assert!(lag(&findings) <= 50.5, "the lag is at most the injected one: {findings:#}");
    let shortest = findings["shortest"][0]["operations"].as_array().unwrap();
    // A write if absent that is refused after a delete proves a violation alone: nothing before it has to be known.
    assert!(
        (1..=3).contains(&shortest.len()),
        "a write, perhaps an earlier one, and the stale read; or a refused write: {findings:#}"
    );
}

#[test]
fn lost_conditional_writes_are_found_and_other_reads_are_not_blamed() {
    let blamed = ["read_after_conditional_put", "put_if_unchanged", "put_if_absent", "list_after_put"];
    let sum = |findings: &Value| blamed.iter().map(|name| count(findings, name, "violations")).sum::<u64>();
    // Either of two guarantees may explain a single violation, which is then counted for neither.
    let (code, findings) =
        check_until("consistency-lost", "lost-conditional=0.3", &[], |findings| sum(findings) > 0);
    assert_eq!(code, Some(1));
    assert_eq!(count(&findings, "read_after_put", "violations"), 0, "{findings:#}");
    assert_eq!(count(&findings, "read_after_delete", "violations"), 0, "{findings:#}");
    assert!(sum(&findings) > 0, "{findings:#}");
}

#[test]
fn corrupt_content_is_a_violation() {
    let (_, findings) = check_until_violated("consistency-corrupt", "corrupt=0.2", &[]);
    let all = findings["shortest"].to_string();
    assert!(all.contains("content that no client wrote"), "{findings:#}");
}

#[test]
fn stores_and_options_that_cannot_be_checked_are_refused() {
    let dir = scratch("consistency-refused");
    let file = write(&dir, "object", "x");
    let web = format!("http://127.0.0.1:1/{}", file.file_name().unwrap().to_str().unwrap());
    let base = ["run", "consistency", "--store"];
    fails(&[&base[..], &[&web]].concat(), 2, &["read-only"]);
    fails(&[&base[..], &["memory:", "--size", "4B"]].concat(), 2, &["--size", "16B"]);
    fails(&[&base[..], &["memory:", "--turn", "1ms"]].concat(), 2, &["--turn 1ms", "10ms"]);
}

#[test]
fn clients_on_several_nodes_find_stale_reads_and_no_false_ones() {
    let nodes = ["--on", "local:3", "--keys", "6"];
    let enough = |findings: &Value| findings["keys"].as_u64() >= Some(6 * 4);
    let (code, findings) = check_until("consistency-nodes", "latency=lognormal(1ms;0.8)", &nodes, enough);
    assert_eq!((code, findings["violations"].as_u64()), (Some(0), Some(0)), "{findings:#}");
    assert_eq!(findings["undecided"], 0);
    assert!(enough(&findings), "{findings:#}");
    let stale = |findings: &Value| count(findings, "read_after_put", "violations") > 0;
    let (code, findings) = check_until("consistency-nodes-stale", "stale=100ms", &nodes, stale);
    assert_eq!(code, Some(1));
    assert!(stale(&findings), "{findings:#}");
}
