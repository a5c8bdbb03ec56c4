//! `plimsoll run sync` through the binary: both directions, several stores, turns with another tool, and clean-up.

use crate::support::{Server, block_on, plimsoll, scratch, text};
use plimsoll_engine::store::{Ignore, Request, Store};
use plimsoll_judge::summary::result::RunResult;

fn count(store: &dyn Store) -> usize {
    block_on(async {
        let list = Request::List { prefix: "", start_after: "", token: "", max_keys: 1000 };
        store.connection(0).execute(list, &mut Ignore).await.unwrap().listing.unwrap().objects.len()
    })
}

#[test]
fn plimsoll_and_another_tool_take_turns_in_both_directions() {
    let server = Server::start("", false);
    let store = server.ready("");
    let dir = scratch("sync");
    let there = dir.join("there");
    std::fs::create_dir_all(&there).unwrap();
    let s3 = format!("s3://bucket/some/prefix?endpoint={}", server.endpoint());
    let file = format!("file://{}", there.display());
    let copy = "mkdir -p {target} && cp -r {source}/. {target}";
    let run = plimsoll(&[
        "run", "sync", "--store", &file, "--files", "1100", "--size", "2KiB", "--loops", "2", "--json",
    ])
    .args(["--client", copy, "--out"])
    .arg(dir.join("runs"))
    .output()
    .unwrap();
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    let result: RunResult = serde_json::from_slice(&run.stdout).unwrap();
    let seen: Vec<(&str, &str, u32)> =
        result.sync.iter().map(|l| (l.direction.as_str(), l.client.as_str(), l.repeat)).collect();
    let expected = [
        ("up", "plimsoll", 0),
        ("up", "mkdir", 0),
        ("up", "mkdir", 1),
        ("up", "plimsoll", 1),
        ("down", "plimsoll", 0),
        ("down", "mkdir", 0),
        ("down", "mkdir", 1),
        ("down", "plimsoll", 1),
    ];
    assert_eq!(seen, expected, "the clients take turns");
    assert!(result.sync.iter().all(|l| l.objects == 1100 && l.bytes == 1100 * 2048 && l.wall_s > 0.0));
    assert_eq!(result.windows.iter().map(|w| w.operations).collect::<Vec<_>>(), [1100; 4]);
    assert!(std::fs::read_dir(&there).unwrap().next().is_none(), "nothing is left in the store");

    let directory = dir.join("runs").join(&result.run.id);
    let page = std::fs::read_to_string(directory.join("report.html")).unwrap();
    assert!(page.contains("Synchronisations") && page.contains("1,100 files of 2 KiB"));
    let shown = plimsoll(&["show"]).arg(&directory).output().unwrap();
    assert_eq!(shown.status.code(), Some(0), "{}", text(&shown.stderr));
    assert!(text(&shown.stdout).contains("speed-up") && text(&shown.stdout).contains("mkdir"));

    let large = plimsoll(&[
        "run",
        "sync",
        "--store",
        &s3,
        "--files",
        "3",
        "--size",
        "11MiB",
        "--part-size",
        "5MiB",
        "--loops",
        "1",
    ])
    .arg("--out")
    .arg(dir.join("runs"))
    .output()
    .unwrap();
    assert_eq!(large.status.code(), Some(0), "{}", text(&large.stderr));
    assert!(text(&large.stdout).contains("CPU s/GiB"), "{}", text(&large.stdout));
    assert_eq!(count(store.as_ref()), 0);
    for run in std::fs::read_dir(dir.join("runs")).unwrap().flatten() {
        assert!(!run.path().join("files").exists(), "the run deletes its files");
    }
}

#[test]
fn the_cost_of_loops_is_estimated_and_reported() {
    let server = Server::start("", false);
    let store = server.ready("");
    let dir = scratch("sync-cost");
    let s3 = format!(
        "s3://bucket/some/prefix?endpoint={}&provider=aws-s3&style=path&region=us-east-1",
        server.endpoint()
    );
    let run = |more: &[&str]| {
        let base =
            ["run", "sync", "--store", &s3, "--files", "60", "--size", "10KiB", "--loops", "2", "--json"];
        plimsoll(&base).args(more).arg("--out").arg(&dir).output().unwrap()
    };
    for (direction, reads, writes) in [("both", "0.12", 0.12), ("down", "0.12", 0.06), ("up", "0", 0.12)] {
        let output = run(&["--direction", direction, "--max-cost", "1"]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let result: RunResult = serde_json::from_slice(&output.stdout).unwrap();
        let cost = &result.cost[0];
        let quantity = |item: &str| {
            let line = cost.bill.lines.iter().find(|l| l.item.starts_with(item));
            line.map_or("0", |l| l.quantity.as_str()).to_string()
        };
        assert_eq!(quantity("GET"), reads, "{direction}: {cost:?}");
        let other = quantity("PUT").parse::<f64>().unwrap() - writes;
        assert!(
            (0.001..0.02).contains(&other),
            "{direction}: PUT-class requests other than PUT (listings of both sides): {other}"
        );
        let [estimated, total] = [cost.estimated_usd.unwrap(), cost.bill.total_usd];
        let ratio = estimated.pico() as f64 / total.pico() as f64;
        assert!((0.95..1.05).contains(&ratio), "{direction}: {estimated} against {total}");
    }
    for (more, expected) in [
        (vec!["--max-cost", "0.0005"], "estimated to cost"),
        (vec!["--max-cost", "1", "--client", "cp {source} {target}"], "omit --client or --max-cost"),
    ] {
        let output = run(&more);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
    }
    let output = run(&["--client", "true {source} {target}", "--direction", "down"]);
    assert!(text(&output.stdout).contains("requests of --client tools are not counted"));
    assert_eq!(count(store.as_ref()), 0);
}

#[test]
fn invalid_arguments_and_incomplete_transfers_fail() {
    let server = Server::start("", false);
    server.ready("");
    let dir = scratch("sync-bad");
    let s3 = format!("s3://bucket/some/prefix?endpoint={}", server.endpoint());
    for (arguments, code, expected) in [
        (vec!["--client", "aws s3 sync"], 2, "{source} and {target}"),
        (vec!["--size", "many"], 2, "--size"),
        (vec!["--files", "0"], 2, "above 0"),
        (
            vec!["--client", "false {source} {target}", "--loops", "1", "--files", "1"],
            2,
            "failed (exit status: 1)",
        ),
        (
            vec!["--client", "true {source} {target}", "--loops", "1", "--files", "1"],
            1,
            "the store lists 0 of 1 files",
        ),
    ] {
        let run =
            plimsoll(&["run", "sync", "--store", &s3, "--out"]).arg(&dir).args(&arguments).output().unwrap();
        let message = text(&run.stderr);
        assert!(run.status.code() == Some(code) && message.contains(expected), "{arguments:?}: {message}");
    }
    let web = plimsoll(&["run", "sync", "--store", "http://127.0.0.1:9/dir/"]).output().unwrap();
    assert!(text(&web.stderr).contains("the store is read-only"), "{}", text(&web.stderr));
}
