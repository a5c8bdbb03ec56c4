//! `compare`, `check`, `show`, `report` and `published` through the binary, on synthetic runs with known latencies and
//! on invalid run directories.

use std::path::Path;

use crate::support::ask::{fails, name, run};
use crate::support::made::made;
use crate::support::{scratch, text};
use serde_json::Value;

fn comparison(base: &Path, other: &Path) -> Value {
    let output = run(&["compare", "--json", name(base), name(other)]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn row<'a>(document: &'a Value, metric: &str) -> &'a Value {
    let rows = document["comparisons"][0]["rows"].as_array().unwrap();
    rows.iter().find(|r| r["metric"] == metric).unwrap()
}

#[test]
fn a_store_that_is_20_percent_slower_is_reported_as_slower() {
    let out = scratch("compare");
    let base = made(&out, "base", |_| {});
    let slower = made(&out, "slower", |m| m.stores[0].1 = 1.2);
    let again = made(&out, "again", |_| {});
    let document = comparison(&base, &slower);
    for metric in ["p50", "p99"] {
        let found = row(&document, metric);
        let (low, high) = (found["change_low"].as_f64().unwrap(), found["change_high"].as_f64().unwrap());
        assert!(low < 1.2 && 1.2 < high && low > 1.05, "{metric}: {low}..{high}");
        assert_eq!(found["verdict"], "slower");
    }
    let same = comparison(&base, &again);
    assert_eq!(row(&same, "p50")["verdict"], "no difference shown");
    assert!(row(&same, "p50")["smallest"].as_f64().unwrap() < 0.1);
    let table = text(&run(&["compare", name(&base), name(&slower)]).stdout);
    assert!(
        table.starts_with("base was 1.2")
            && table.contains("x faster than slower at get p50 in these two runs of 60 s (95%: "),
        "{table}"
    );
}

#[test]
fn a_bound_is_broken_only_if_the_whole_interval_exceeds_it() {
    let out = scratch("fail-if");
    let base = made(&out, "base", |_| {});
    let slower = made(&out, "slower", |m| m.stores[0].1 = 1.2);
    let (base, slower) = (name(&base), name(&slower));
    fails(&["compare", base, slower, "--fail-if", "get.p50 > +5%"], 1, &["1 of 1 bounds exceeded"]);
    for bound in ["get.p50 > +20%", "get.p50 > +40%", "rate < -50%"] {
        let output = run(&["compare", base, slower, "--fail-if", bound, "--inconclusive", "pass"]);
        assert!(output.status.success(), "{bound}: {}", text(&output.stdout));
    }
    // The interval contains the bound, so the result is undecided. It fails by default, as in `check`.
    fails(
        &["compare", base, slower, "--fail-if", "get.p50 > +20%"],
        1,
        &["does not decide", "--inconclusive pass"],
    );
    let within = run(&["compare", base, slower, "--fail-if", "get.p50 > +40%"]);
    assert!(within.status.success(), "{}", text(&within.stdout));
    fails(
        &["compare", base, slower, "--fail-if", "put.p50 > +5%"],
        2,
        &["--fail-if", "at least one of the runs did not measure this"],
    );
    fails(&["compare", base, slower, "--fail-if", "get.p50 > 5"], 2, &["--fail-if", "+5%"]);
    fails(&["compare", base, slower, "--primary", "put.p50"], 2, &["--primary put.p50"]);
}

#[test]
fn runs_of_different_work_are_refused_and_different_clients_are_noted() {
    let out = scratch("comparable");
    let base = made(&out, "base", |_| {});
    let larger = made(&out, "larger", |m| m.size = "4 KiB".into());
    let elsewhere = made(&out, "elsewhere", |m| m.vantage = "another city".into());
    fails(&["compare", name(&base), name(&larger)], 2, &["phase.get.objects.size", "4 KiB"]);
    fails(&["compare", name(&base)], 2, &["measured only one store"]);
    let table = text(&run(&["compare", name(&base), name(&elsewhere)]).stdout);
    assert!(table.contains("different clients") || table.contains("clients differ: vantage"), "{table}");
}

#[test]
fn a_short_run_has_no_interval_and_reports_the_length_it_needs() {
    let out = scratch("short");
    let short = made(&out, "short", |m| m.seconds = 5);
    let other = made(&out, "other", |m| m.seconds = 5);
    let document = comparison(&short, &other);
    assert_eq!(row(&document, "p50")["verdict"], "inconclusive");
    assert!(row(&document, "p50")["duration_needed_s"].as_f64().unwrap() >= 8.0);
    fails(
        &["check", name(&short), "--slo", "get.p99 < 50ms"],
        1,
        &["does not decide", "--inconclusive pass"],
    );
    let lenient = run(&["check", name(&short), "--slo", "get.p99 < 50ms", "--inconclusive", "pass"]);
    assert!(lenient.status.success());
}

#[test]
fn a_failed_store_misses_its_objectives_even_with_inconclusive_pass() {
    let out = scratch("broke-down");
    let broken = made(&out, "broken", |m| m.broken_from = Some(15));
    for slo in ["errors < 1%", "get.p99 < 10s"] {
        let check = ["check", name(&broken), "--slo", slo, "--inconclusive", "pass"];
        fails(&check, 1, &["1 objective missed"]);
        assert!(text(&run(&check).stdout).contains("FAIL"), "{slo}");
    }
    // A run of five seconds without any operation in time is short, but conclusive.
    let late = made(&out, "late", |m| m.seconds = 5);
    fails(
        &["check", name(&late), "--slo", "get.p99 < 10us", "--inconclusive", "pass"],
        1,
        &["1 objective missed"],
    );
    let few = made(&out, "few", |m| (m.seconds, m.per_s) = (1, 3));
    fails(&["check", name(&few), "--slo", "get.p99 < 10us"], 1, &["does not decide"]);
}

/// The seed decides which of two stores runs first.
#[test]
fn the_base_is_the_first_store_of_the_experiment_in_any_run_order() {
    let out = scratch("base-store");
    for ran_backwards in [false, true] {
        let stores = [("s3://listed-first".to_string(), 1.0), ("s3://listed-second".to_string(), 1.3)];
        let two = made(&out, if ran_backwards { "backwards" } else { "forwards" }, |m| {
            m.stores = stores.to_vec();
            if ran_backwards {
                m.stores.reverse();
                m.ran_backwards = true;
            }
        });
        let document: Value =
            serde_json::from_slice(&run(&["compare", "--json", name(&two)]).stdout).unwrap();
        assert_eq!(document["comparisons"][0]["base"]["store"], "s3://listed-first");
        assert_eq!(row(&document, "p50")["verdict"], "slower");
        fails(&["compare", name(&two), "--fail-if", "get.p50 > +5%"], 1, &["1 of 1 bounds exceeded"]);
        let shown = text(&run(&["show", name(&two)]).stdout);
        let (first, second) = (shown.find("s3://listed-first"), shown.find("s3://listed-second"));
        assert!(first.unwrap() < second.unwrap(), "{shown}");
    }
}

#[test]
fn sides_with_the_same_store_have_distinct_names() {
    let out = scratch("names");
    let side = |directory: &str, id: &str| made(&out.join(directory), id, |_| {});
    for (base, other, names) in [
        (side("a", "first"), side("a", "second"), ["first", "second"]),
        (side("x", "same"), side("y", "same"), ["x/same", "y/same"]),
    ] {
        let document = comparison(&base, &other);
        for (role, expected) in ["base", "other"].into_iter().zip(names) {
            let found = document["comparisons"][0][role]["name"].as_str().unwrap();
            assert!(found.ends_with(expected), "{found} for {expected}");
        }
    }
    let base = side("one", "itself");
    let document = comparison(&base, &base);
    assert_ne!(document["comparisons"][0]["base"]["name"], document["comparisons"][0]["other"]["name"]);
}

#[test]
fn comparisons_of_imported_runs_note_different_loads_and_unknown_clients() {
    let out = scratch("imported");
    let import = |id: &str, concurrency| {
        made(&out, id, |m| {
            m.imported = true;
            m.concurrency = concurrency;
        })
    };
    let (base, other, same_load) = (import("base", 16), import("other", 64), import("same", 16));
    let table = text(&run(&["compare", name(&base), name(&other)]).stdout);
    assert!(table.contains("! the loads differ: get: 16 / 64 in flight"), "{table}");
    assert!(table.contains("! the clients differ: instance type: not in the imported log"), "{table}");
    let document = comparison(&base, &same_load);
    assert_eq!(document["comparisons"][0]["loads"].as_array().unwrap().len(), 0);
    let measured = made(&out, "measured", |_| {});
    fails(&["compare", name(&base), name(&measured)], 2, &["are not comparable"]);
}

#[test]
fn every_output_marks_client_limited_figures() {
    let out = scratch("limited");
    let why = "cpu: 97% of a core by the busiest of 2 workers";
    let base = made(&out, "base", |_| {});
    let limited = made(&out, "limited", |m| {
        m.stores[0].1 = 1.3;
        m.limited = Some(why.into());
        m.failed = 3;
    });
    let table = text(&run(&["compare", name(&base), name(&limited)]).stdout);
    assert!(table.lines().next().unwrap().contains("the client, not the store, limited limited"), "{table}");
    assert!(table.contains("slower; only a bound (other)"), "{table}");
    let document = comparison(&base, &limited);
    assert_eq!(row(&document, "p50")["other"]["client_limited"], why);
    assert!(row(&document, "p50")["base"].get("client_limited").is_none());
    let junit = out.join("junit.xml");
    let checked = run(&["check", name(&limited), "--slo", "get.p50 < 1s", "--junit", name(&junit)]);
    for shown in [text(&checked.stdout), std::fs::read_to_string(&junit).unwrap()] {
        assert!(shown.contains(&format!("limited by the client, not by the store ({why})")), "{shown}");
    }
    let checked = run(&["check", name(&limited), "--slo", "get.p50 < 1s", "--json"]);
    let document: Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!(
        (&document["checks"][0]["outcome"], &document["checks"][0]["client_limited"]),
        (&"pass".into(), &why.into())
    );
    assert!(run(&["report", name(&limited)]).status.success());
    let page = std::fs::read_to_string(limited.join("report.html")).unwrap();
    let at = |part: &str| page.find(part).unwrap_or_else(|| panic!("the page lacks '{part}'"));
    let (failed, mark) = (at("get: 1.50% failed"), at("get: limited by the client, not by the store"));
    assert!(failed < mark, "the page lists failures first");
}

/// Regression test: a slot of a store that never waits kept the other slots and the reports to the log from running, so
/// all operations of a run were logged in its first second.
#[test]
fn a_store_that_never_waits_is_logged_by_second() {
    let out = scratch("seconds");
    let load: Vec<&str> =
        "run mixed --store memory: --objects 20 --duration 3s --warmup 0s".split(' ').collect();
    let shown = run(&[&load[..], &["--slo", "rate > 1/s", "--out", name(&out)]].concat());
    assert!(shown.status.success(), "{}", text(&shown.stderr));
    let path = std::fs::read_dir(&out).unwrap().flatten().next().unwrap().path();
    let read = plimsoll_judge::run_dir::run::read(&path, &[]).unwrap();
    let measured: Vec<_> = read.series.iter().filter(|s| s.phase == "mixed").collect();
    assert!(measured.len() > 1 && measured.iter().all(|s| s.seconds.len() >= 3), "{measured:?}");
    // The operations of the mix share the three seconds.
    let page = std::fs::read_to_string(path.join("report.html")).unwrap();
    assert!(page.contains("operations in 3 s of measurement"), "the time is counted once");
}

#[test]
fn every_operation_with_content_has_a_body_time() {
    let out = scratch("bodies");
    let shown = run(&[
        "run",
        "get",
        "--store",
        "embedded:",
        "--size",
        "1KiB",
        "--objects",
        "20",
        "--operations",
        "500",
        "--warmup",
        "0s",
        "--json",
        "--out",
        name(&out),
    ]);
    assert!(shown.status.success(), "{}", text(&shown.stderr));
    let result: Value = serde_json::from_slice(&shown.stdout).unwrap();
    for window in result["windows"].as_array().unwrap() {
        assert_eq!(window["body_ms"]["n"], window["operations"], "{}", window["phase"]);
    }
}

/// A store in the client's memory is as fast as the client, so the client reaches its limit first.
#[test]
fn a_client_limited_search_for_the_capacity_reports_the_limit_and_stops() {
    let out = scratch("client-capacity");
    let search = [
        "run",
        "capacity",
        "--store",
        "memory:",
        "--slo",
        "get.p99 < 1ms",
        "--within",
        "30s",
        "--from",
        "500000/s",
        "--to",
        "500000/s",
        "--step",
        "1s",
        "--json",
        "--out",
        name(&out),
    ];
    let done = run(&search);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let result: Value = serde_json::from_slice(&done.stdout).unwrap();
    let found = &result["capacity"];
    assert!(found["client_limit"]["per_s"].as_f64().unwrap() > 0.0, "{found}");
    assert!(found["per_s"].is_null(), "the limit of the store is not known: {found}");
    let path = std::fs::read_dir(&out).unwrap().flatten().next().unwrap().path();
    let shown = text(&run(&["show", name(&path)]).stdout);
    for part in ["this client", "misses; client-limited"] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    let judged = run(&["check", name(&path), "--slo", "get.p99 < 1ms"]);
    let said = text(&judged.stderr);
    assert!(judged.status.code() == Some(2) && said.contains("is a search for the capacity"), "{said}");
}

#[test]
fn a_run_answers_its_objectives_first() {
    let out = scratch("run-slo");
    let measure = |into: &str, slo: &[&str]| {
        let load = ["run", "get", "--store", "embedded:", "--objects", "20", "--operations", "500"];
        // At a rate that leaves the client idle: it could otherwise be the reason of a miss.
        let into = out.join(into);
        let more = ["--rate", "500/s", "--warmup", "0s", "--out", name(&into)];
        run(&[&load[..], &more, slo].concat())
    };
    let met = measure("met", &["--slo", "get.rate > 1/s"]);
    let shown = text(&met.stdout);
    assert!(met.status.success() && shown.starts_with("pass: 1 of 1 objectives met\n"), "{shown}");
    let missed = measure("missed", &["--slo", "get.rate > 1/s", "--slo", "get.p99 < 1us"]);
    let shown = text(&missed.stdout);
    assert_eq!(missed.status.code(), Some(1));
    assert!(shown.starts_with("FAIL: 1 of 2 objectives missed"), "{shown}");
    assert!(
        shown.lines().take(5).any(|line| line.starts_with(" FAIL") && line.contains("get.p99")),
        "{shown}"
    );
    assert!(text(&missed.stderr).contains("1 objective missed"), "{}", text(&missed.stderr));
    let path = std::fs::read_dir(out.join("missed")).unwrap().flatten().next().unwrap().path();
    let page = std::fs::read_to_string(path.join("report.html")).unwrap();
    assert!(page.contains("<h1>Does embedded meet its objectives?</h1>"), "the title is the question");
    let read = |file| serde_json::from_slice::<Value>(&std::fs::read(path.join(file)).unwrap()).unwrap();
    let judged = &read("result.json")["objectives"];
    assert_eq!((&judged[0]["outcome"], &judged[1]["outcome"]), (&"pass".into(), &"fail".into()));
    for (wrong, part) in [("put.p99 < 1s", "use one of get.get"), ("p99", "neither < nor >")] {
        let refused = measure("refused", &["--slo", wrong]);
        assert_eq!(refused.status.code(), Some(2));
        assert!(text(&refused.stderr).contains(part), "{}", text(&refused.stderr));
    }
}

#[test]
fn objectives_pass_or_fail_and_appear_in_junit() {
    let out = scratch("check");
    // Latencies are lognormal with a median of 3 ms and sigma 0.5, so the p99 is 9.6 ms.
    let run_dir = made(&out, "run", |m| m.seconds = 120);
    let junit = out.join("junit.xml");
    let good = run(&[
        "check",
        name(&run_dir),
        "--slo",
        "get.p99 < 15ms",
        "--slo",
        "errors < 0.1%",
        "--junit",
        name(&junit),
    ]);
    assert!(good.status.success(), "{}", text(&good.stdout));
    let xml = std::fs::read_to_string(&junit).unwrap();
    assert!(
        xml.contains("tests=\"2\" failures=\"0\" errors=\"0\"") && xml.contains("get.p99 &lt; 15ms"),
        "{xml}"
    );
    fails(&["check", name(&run_dir), "--slo", "get.p99 < 6ms"], 1, &["1 objective missed"]);
    let failing = made(&out, "failing", |m| m.failed = 4);
    // Two percent of the operations fail, so no objective above the 98th percentile can be met.
    fails(&["check", name(&failing), "--slo", "get.p99 < 10s"], 1, &["1 objective missed"]);
    fails(&["check", name(&failing), "--slo", "errors < 0.1%"], 1, &["1 objective missed"]);
    let file = out.join("slo.txt");
    std::fs::write(&file, "# weekly\nget.p99 < 15ms\nget.p99 < 15\n").unwrap();
    fails(&["check", name(&run_dir), "--slo-file", name(&file)], 2, &["slo.txt:3", "unit"]);
    fails(&["check", name(&run_dir), "--slo", "put.p99 < 1ms"], 2, &["did not measure this", "get.get"]);
    fails(&["check", name(&run_dir)], 2, &["--slo is missing"]);
}

#[test]
fn invalid_run_directories_are_reported_in_one_line() {
    let out = scratch("judge-bad");
    let good = made(&out, "good", |_| {});
    let copy = |to: &str| {
        let to = out.join(to);
        std::fs::create_dir_all(&to).unwrap();
        for entry in std::fs::read_dir(&good).unwrap().flatten() {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
        to
    };
    let (missing, foreign) = (out.join("missing"), out.join("foreign"));
    std::fs::create_dir_all(&foreign).unwrap();
    std::fs::write(foreign.join("result.json"), "{\"totally\": \"else\"}").unwrap();
    let older = copy("older");
    let text_of = std::fs::read_to_string(older.join("result.json")).unwrap();
    std::fs::write(older.join("result.json"), text_of.replacen("\"schema\": 3", "\"schema\": 0", 1)).unwrap();
    let cut = copy("cut");
    std::fs::write(cut.join("result.json"), &text_of[..text_of.len() / 2]).unwrap();
    let short_log = copy("short-log");
    let log = std::fs::read(short_log.join("intervals.arrows")).unwrap();
    std::fs::write(short_log.join("intervals.arrows"), &log[..log.len() / 2]).unwrap();
    let no_log = copy("no-log");
    std::fs::remove_file(no_log.join("intervals.arrows")).unwrap();
    let garbage = copy("garbage");
    std::fs::write(garbage.join("intervals.arrows"), b"not an arrow stream at all").unwrap();
    let tampered = copy("tampered");
    let mut result: Value = serde_json::from_str(&text_of).unwrap();
    result["windows"][0]["service_ms"]["p99"] = serde_json::json!(1.0);
    std::fs::write(tampered.join("result.json"), result.to_string()).unwrap();
    let exchanged = copy("exchanged");
    let longer = made(&out, "longer", |m| m.seconds = 70);
    std::fs::copy(longer.join("intervals.arrows"), exchanged.join("intervals.arrows")).unwrap();
    let cases: [(&Path, &[&str]); 9] = [
        (&missing, &["does not exist"]),
        (&foreign, &["is not a result file of schema version"]),
        (&older, &["schema"]),
        (&cut, &["is not a result file of schema version"]),
        (&short_log, &["the files are from different runs", "truncated"]),
        (&no_log, &["intervals.arrows"]),
        (&garbage, &["not an interval log"]),
        (&tampered, &["contradicts itself", "changed after the run"]),
        (&exchanged, &["the files are from different runs"]),
    ];
    for (path, expected) in cases {
        if path == tampered {
            fails(&["show", name(path)], 2, expected);
        }
        for command in [&["check", "--slo", "get.p99 < 1s"][..], &["compare"], &["report"]] {
            let mut arguments = command.to_vec();
            arguments.push(name(path));
            if command[0] == "compare" {
                arguments.push(name(&good));
            }
            fails(&arguments, 2, expected);
        }
    }
}

#[test]
fn the_report_is_one_page_without_external_requests() {
    let out = scratch("report");
    let two = made(&out, "two", |m| {
        m.stores = vec![("s3://a".into(), 1.0), ("s3://b".into(), 1.3)];
        m.failed = 2;
    });
    let output = run(&["report", name(&two), "--published", "tigris-ycsb"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let page = std::fs::read_to_string(two.join("report.html")).unwrap();
    assert!(
        page.contains("s3:&#x2f;&#x2f;a was 1.3")
            && page.contains("x faster than s3:&#x2f;&#x2f;b at get p50"),
        "the page has the conclusion"
    );
    assert!(page.contains("default-src &#x27;none&#x27;") || page.contains("default-src 'none'"));
    assert!(!page.contains("src=\"http") && !page.contains("href=\"http"), "the page fetches nothing");
    assert!(page.contains("published, not measured here"));
    assert!(page.len() < 3_000_000, "{} bytes", page.len());
    fails(&["report", name(&two), "--published", "nobody"], 2, &["--published", "tigris-ycsb"]);
}

/// A store name is untrusted input and must not become markup of the page.
#[test]
fn store_names_are_escaped_in_the_report() {
    let out = scratch("markup");
    let odd = made(&out, "odd", |m| m.stores[0].0 = "s3://</script><b>bold".into());
    assert!(run(&["report", name(&odd)]).status.success());
    let page = std::fs::read_to_string(odd.join("report.html")).unwrap();
    assert!(!page.contains("</script><b>bold"), "the name is escaped");
}

#[test]
fn published_figures_are_listed_shown_and_recomputed() {
    let listed = text(&run(&["list", "published"]).stdout);
    assert_eq!(listed.lines().count(), 5);
    let checked = text(&run(&["published", "check"]).stdout);
    assert!(checked.contains("DOES NOT HOLD") && checked.contains("R2 run get"), "{checked}");
    assert!(text(&run(&["published", "show", "r2-bench"]).stdout).contains("published, not measured here"));
    fails(&["published", "show", "nobody"], 2, &["'nobody'", "r2-bench"]);
}

/// Regression test: `--store NAME=URL` was refused except for stores of an experiment file, and lost its name there.
#[test]
fn a_store_with_a_name_has_it_in_every_result() {
    let out = scratch("named-stores");
    let load = ["run", "get", "--store", "fast=memory:", "--store", "slow=embedded:", "--objects", "20"];
    let more = ["--operations", "2000", "--warmup", "0s", "--slo", "get.p99 < 10s", "--out", name(&out)];
    let done = run(&[&load[..], &more].concat());
    let shown = text(&done.stdout);
    assert!(shown.contains("fast get") && shown.contains("slow get"), "{shown}\n{}", text(&done.stderr));
    assert!(!shown.contains("memory:") && !shown.contains("embedded:"), "{shown}");
    let path = std::fs::read_dir(&out).unwrap().flatten().next().unwrap().path();
    let junit = out.join("junit.xml");
    run(&["check", name(&path), "--slo", "get.p99 < 10s", "--junit", name(&junit)]);
    let cases = std::fs::read_to_string(junit).unwrap();
    assert!(cases.contains("classname=\"fast get\"") && cases.contains("classname=\"slow get\""), "{cases}");
    let probed = run(&["probe", "fast=memory:", "--out", name(&out.join("probe"))]);
    assert!(text(&probed.stdout).starts_with("fast\n"), "{}", text(&probed.stderr));
    let twice = run(&[&load[..4], &["--store", "fast=embedded:"]].concat());
    assert!(text(&twice.stderr).contains("two stores have this name"), "{}", text(&twice.stderr));
}
