//! Break-even points, tiering, advice and the cost of runs through the binary.

use crate::support::ask::{good, json, name, refused, usd};
use crate::support::made::made;
use crate::support::scratch;

#[test]
fn breakeven_finds_the_point_where_bills_cross() {
    // Storing 1 TB costs 102.45 a month at S3 Express and 14.85 at R2. Each further million reads costs 0.03 at
    // S3 Express and 0.36 at R2, which bills whole millions. 300 million reads cost 108 at R2 and bring the total at
    // S3 Express to 111.45.
    let arguments = [
        "cost",
        "breakeven",
        "--between",
        "aws-s3-express,cloudflare-r2",
        "--vary",
        "get",
        "--storage",
        "1TB",
        "--read",
        "0B",
    ];
    let value = json(&[&arguments[..], &["--json", "--as-of", "2026-11-21"]].concat());
    let segments = value["segments"].as_array().unwrap();
    assert_eq!(segments[0]["cheapest"], 1);
    let first = segments[1]["from"].as_u64().unwrap();
    assert!((260_000_000..290_000_000).contains(&first), "{first}");
    let at = |n: &str| {
        let value = json(&[
            "cost",
            "--provider",
            "aws-s3-express,cloudflare-r2",
            "--storage",
            "1TB",
            "--read",
            "0B",
            "--get",
            n,
            "--json",
            "--as-of",
            "2026-11-21",
        ]);
        (usd("total_usd")(&value["bills"][0]), usd("total_usd")(&value["bills"][1]))
    };
    let (express, r2) = at(&first.to_string());
    assert!(express < r2, "{express} {r2}");
    let (express, r2) = at(&(first - 1).to_string());
    assert!(express >= r2, "{express} {r2}");
    assert!(good(&arguments).contains("R2 Standard is the cheapest below"));
}

#[test]
fn tiering_mixes_distributions_instead_of_percentiles() {
    let arguments = [
        "cost",
        "tiering",
        "--hot",
        "aws-s3-express",
        "--cold",
        "cloudflare-r2",
        "--hot-days",
        "7",
        "--hot-reads",
        "80%",
        "--put",
        "360M",
        "--object-size",
        "4MB",
        "--keep",
        "90d",
        "--get",
        "1500M",
        "--egress",
        "1.5PB",
        "--published",
        "000",
        "--as-of",
        "2026-11-21",
    ];
    let value = json(&[&arguments[..], &["--json"]].concat());
    let requested = &value["asked"];
    assert_eq!(requested["p99_ms"]["low_ms"], 18.0);
    assert_eq!(requested["p99_ms"]["high_ms"], 26.0);
    assert!((requested["hot_reads"].as_f64().unwrap() - 0.8).abs() < 1e-9);
    assert_eq!(value["best"]["hot_days"], 0, "R2 charges no egress");
    assert!(usd("migration_usd")(requested) > 60_000.0, "moving 1.44 PB out of S3 Express");
    let table = good(&arguments);
    assert!(table.contains("published by others, not measured here"), "{table}");
    // Only the hot store alone is certain to meet a p99 of 10 ms.
    let value = json(&[&arguments[..], &["--json", "--p99", "10ms"]].concat());
    assert_eq!(value["best"]["hot_days"], 90);
}

#[test]
fn a_run_is_extrapolated_to_a_month() {
    let out = scratch("from-run");
    let run = made(&out, "run", |m| m.per_s = 100);
    // 100 reads of 1 KiB a second for 2,628,000 seconds.
    let value =
        json(&["cost", "--from-run", name(&run), "--provider", "aws-s3", "--json", "--as-of", "2026-11-21"]);
    assert_eq!(value["bills"][0]["lines"][0]["quantity"], "262800");
    let value = json(&[
        "cost",
        "--from-run",
        name(&run),
        "--scale",
        "50/s",
        "--egress",
        "100%",
        "--provider",
        "aws-s3",
        "--json",
    ]);
    assert_eq!(value["bills"][0]["lines"][0]["quantity"], "131400");
    let egress: f64 = value["bills"][0]["lines"].as_array().unwrap()[1..]
        .iter()
        .map(|l| l["quantity"].as_str().unwrap().parse::<f64>().unwrap())
        .sum();
    assert!((egress - 131_400_000.0 / 1_048_576.0).abs() < 1e-6);
    // `tiering` accepts a run even though the run sets workload fields that tiering refuses as flags.
    let tiers =
        ["--hot", "aws-s3", "--cold", "cloudflare-r2", "--hot-reads", "80%", "--put", "1M", "--keep", "90d"];
    good(&[&["cost", "tiering", "--from-run", name(&run)], &tiers[..]].concat());
    refused(&["cost", "--from-run", name(&run), "--scale", "much"], &["--scale", "500/s"]);
    // Regression test: only paths were accepted.
    good(&["cost", "--from-run", name(&out.join("r*")), "--provider", "aws-s3"]);
    refused(&["cost", "--from-run", "latest~99"], &["latest~99"]);
    let two = made(&out, "two", |m| m.stores.push(("s3://b".into(), 2.0)));
    refused(&["cost", "--from-run", name(&out.join("*"))], &["2 runs match"]);
    refused(&["cost", "--from-run", name(&two)], &["several stores", "--store", "s3://b"]);
    good(&["cost", "--from-run", name(&two), "--store", "s3://b"]);
}

#[test]
fn advice_combines_objectives_and_bills_and_lists_unmeasured_providers() {
    let out = scratch("advise");
    // One store has a median of 3 ms and a p99 near 10 ms; the other is five times slower.
    let run = made(&out, "stores", |m| {
        m.stores = vec![("s3://quick".into(), 1.0), ("s3://slow".into(), 5.0)];
        (m.seconds, m.per_s) = (120, 400);
    });
    let workload = ["--storage", "10TB", "--get", "100M", "--object-size", "1KiB", "--as-of", "2026-11-21"];
    let prices = ["--price", "s3://quick=aws-s3-express", "--price", "s3://slow=cloudflare-r2"];
    let advise = |more: &[&'static str]| [&["advise", name(&run)][..], &workload, &prices, more].concat();
    refused(
        &[&["advise", name(&run)][..], &workload].concat(),
        &["s3://quick: no prices are known", "--price"],
    );
    let strict = json(&advise(&["--slo", "get.p99 < 20ms", "--json"]));
    assert_eq!(
        (strict["recommended"].as_str(), strict["candidates"][1]["outcome"].as_str()),
        (Some("s3://quick"), Some("FAIL"))
    );
    let loose = json(&advise(&["--slo", "get.p99 < 200ms", "--json"]));
    assert_eq!(loose["recommended"], "s3://slow", "the cheaper of two stores that meet the objective");
    assert!(loose["caveat"].as_str().unwrap().contains("emulated"));
    assert_eq!(loose["candidates"][0]["front"], true, "faster but more expensive");
    let bound = &loose["bounds"][0];
    assert_eq!((bound["tighter"].as_bool(), bound["to_store"].as_str()), (Some(true), Some("s3://quick")));
    // Reads cost more at R2 than at S3 Express, and storage costs less. A large enough change of either changes the
    // recommendation.
    let changed = loose["sensitivity"].as_array().unwrap().iter().any(|c| c["to_store"] == "s3://quick");
    assert!(changed, "{:#}", loose["sensitivity"]);
    let missing = loose["not_measured"].as_array().unwrap();
    assert!(missing.iter().any(|m| m.as_str().unwrap().starts_with("backblaze-b2")));
    // The recommendation and its caveat are on one line.
    let table = good(&advise(&["--slo", "get.p99 < 200ms"]));
    let line = table.lines().find(|l| l.contains("is the cheapest store that meets")).unwrap();
    assert!(line.contains("s3://slow") && line.contains("emulated"), "{line}");
    let table = good(&[
        "advise",
        "--published",
        "000",
        "--slo",
        "get.p99 < 20ms",
        "--storage",
        "10TB",
        "--get",
        "1M",
    ]);
    let line = table.lines().find(|l| l.contains("is the cheapest store that meets")).unwrap();
    assert!(line.contains("S3 Express") && line.contains("published by others, not measured here"), "{line}");
    refused(&advise(&["--slo", "get.p99 10ms"]), &["--slo", "neither < nor >"]);
    refused(&["advise", "--published", "003", "--storage", "1TB"], &["--published 003", "published show"]);
}

#[test]
fn a_run_measured_at_its_provider_has_no_caveat() {
    let out = scratch("home");
    let run = made(&out, "home", |m| {
        m.stores = vec![("s3://data?region=us-east-1".into(), 1.0)];
        m.place = ("aws-s3".into(), "https://s3.us-east-1.amazonaws.com:443".into());
    });
    let value = json(&["advise", name(&run), "--storage", "1TB", "--slo", "get.p50 < 1s", "--json"]);
    assert_eq!((value["recommended"].is_string(), value["caveat"].is_null()), (true, true));
    assert_eq!(value["candidates"][0]["known_by"], "measured");
}

/// Regression: two stores with the same name were indistinguishable, and a recommendation appeared far above its gaps.
#[test]
fn a_recommendation_names_its_run_and_its_gaps() {
    let out = scratch("apart");
    let of = |id: &str, provider: &str, host: &str| {
        made(&out, id, |m| {
            m.stores = vec![("s3://data".into(), 1.0)];
            m.place = (provider.into(), format!("https://{host}:443"));
            (m.seconds, m.per_s) = (120, 400);
        })
    };
    let runs = [
        of("one", "aws-s3", "s3.us-east-1.amazonaws.com"),
        of("two", "cloudflare-r2", "a.r2.cloudflarestorage.com"),
    ];
    let advise = |more: &[&str]| {
        let workload = ["--storage", "2TB", "--get", "1M", "--put", "1M", "--object-size", "1MiB"];
        json(
            &[
                &["advise", name(&runs[0]), name(&runs[1]), "--slo", "get.p99 < 1s", "--json"],
                &workload[..],
                more,
            ]
            .concat(),
        )
    };
    let value = advise(&[]);
    let names: Vec<&str> =
        value["candidates"].as_array().unwrap().iter().map(|c| c["store"].as_str().unwrap()).collect();
    assert_eq!(names, ["s3://data (one)", "s3://data (two)"]);
    assert!(names.contains(&value["recommended"].as_str().unwrap()));
    let gaps = value["candidates"][0]["gaps"].to_string();
    assert!(gaps.contains("objects of 1 KiB") && gaps.contains("the run did not measure put"), "{gaps}");
    let assumption =
        value["sensitivity"].as_array().unwrap().iter().find(|c| c["assumption"] == "leaving").unwrap();
    assert_eq!(assumption["up"], true, "egress is varied even if none is stated");
    let table = good(&[
        "advise",
        name(&runs[0]),
        name(&runs[1]),
        "--slo",
        "get.p99 < 1s",
        "--get",
        "1M",
        "--object-size",
        "1MiB",
    ]);
    let line = table.lines().find(|l| l.contains("is the cheapest store that meets")).unwrap();
    assert!(line.contains("get was measured with objects of 1 KiB"), "{line}");
    // `--price` accepts the full name of one of the two stores; the short name applies to both.
    let value = advise(&["--price", "s3://data (two)=wasabi"]);
    let billed: Vec<&str> = value["candidates"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["bill"]["provider"].as_str().unwrap())
        .collect();
    assert_eq!(billed, ["aws-s3", "wasabi"]);
    // If no store can meet the objective, the advice does not suggest a longer measurement.
    let table =
        good(&["advise", name(&runs[0]), "--slo", "get.p99 < 1ms", "--get", "1M", "--object-size", "1KiB"]);
    assert!(table.contains("No store meets") && !table.contains("measure this store for longer"), "{table}");
}

/// Regression: some options were accepted but had no effect.
#[test]
fn options_without_effect_are_refused() {
    let tiering = [
        "cost",
        "tiering",
        "--hot",
        "aws-s3",
        "--cold",
        "cloudflare-r2",
        "--hot-reads",
        "80%",
        "--put",
        "1M",
        "--keep",
        "30d",
    ];
    for (flag, value) in [
        ("--list", "1M"),
        ("--delete", "1M"),
        ("--instance", "c7g.4xlarge=1h"),
        ("--storage", "1TB"),
        ("--written", "1GB"),
    ] {
        refused(&[&tiering[..], &[flag, value]].concat(), &[flag, "not supported by tiering"]);
    }
    refused(&[&tiering[..], &["--hot-run", "/nowhere"]].concat(), &["--cold-run"]);
    let ages: Vec<&str> =
        tiering.iter().copied().filter(|word| !["--hot-reads", "80%"].contains(word)).collect();
    refused(
        &[&ages[..], &["--reads-by-age", "1d=40%,100d=90%"]].concat(),
        &["--reads-by-age", "100d=90%", "--keep"],
    );
    let one: Vec<&str> =
        tiering.iter().map(|word| if *word == "cloudflare-r2" { "aws-s3" } else { word }).collect();
    refused(&one, &["--cold", "is also the hot store"]);
    refused(&["cost", "--storage", "1TB", "--egress", "30%"], &["--egress", "share of the data read"]);
    refused(&["cost", "--keep", "7d", "--get", "1"], &["--keep", "--storage"]);
    refused(
        &[
            "cost",
            "breakeven",
            "--between",
            "aws-s3,cloudflare-r2",
            "--vary",
            "egress",
            "--egress",
            "1TB",
            "--storage",
            "1TB",
        ],
        &["--egress: this value varies", "--from"],
    );
    let out = scratch("no-effect");
    let run = made(&out, "run", |_| {});
    let advise = ["advise", name(&run), "--storage", "1TB", "--price"];
    refused(&[&advise[..], &["a=wasabi"]].concat(), &["--price a=wasabi", "s3://a"]);
    refused(
        &[&advise[..], &["s3://a=wasabi", "--slo", "list.p99 < 1s"]].concat(),
        &["--slo", "no run measured", "get.get"],
    );
}

/// Regression: the first line named neither the missing rate nor a cheaper undecided store. Without a recommendation,
/// the table of changes was missing.
#[test]
fn the_first_line_names_what_speaks_against_the_recommendation() {
    let out = scratch("against");
    let run = made(&out, "rates", |m| {
        m.stores = vec![("s3://quick".into(), 1.0), ("s3://slow".into(), 5.0)];
        (m.seconds, m.per_s) = (120, 400);
    });
    let prices = ["--price", "s3://quick=aws-s3-express", "--price", "s3://slow=cloudflare-r2"];
    let advise = |more: &[&'static str]| {
        good(
            &[&["advise", name(&run), "--storage", "10TB", "--object-size", "1KiB"][..], &prices, more]
                .concat(),
        )
    };
    let table = advise(&["--get", "13000M", "--slo", "get.p99 < 200ms"]);
    let line = table.lines().find(|l| l.contains("is the cheapest store that meets")).unwrap();
    assert!(line.contains("the workload needs 4947/s"), "{line}");
    // If no store meets the objective, the bounds at which one would are shown.
    let table = advise(&["--get", "1M", "--slo", "get.p99 < 1ms"]);
    assert!(table.contains("No store meets"), "{table}");
    let rows: Vec<&str> = table.lines().filter(|l| l.contains("objective get.p99")).collect();
    assert!(rows.len() == 2 && rows.iter().all(|row| row.contains("at least")), "{table}");
    assert!(!table.contains("no storage"), "{table}");
    // The size of the objects is that of the runs.
    let value = json(
        &[&["advise", name(&run), "--get", "1M", "--slo", "get.p99 < 200ms", "--json"][..], &prices].concat(),
    );
    assert!(value["assumptions"].to_string().contains("objects are 1 KiB, as in the runs"), "{value:#}");
    let table =
        good(&[&["advise", name(&run), "--get", "1M", "--slo", "get.p99 < 200ms"][..], &prices].concat());
    assert!(table.contains("the bills contain no storage"), "{table}");
}
