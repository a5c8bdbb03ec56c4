//! `plimsoll cost`, `advise` and the cost of runs, by the binary: known bills, every form, and input that cannot be.

#[path = "support/made.rs"]
mod made;
mod support;

use std::path::{Path, PathBuf};
use std::process::Output;

use made::Made;
use serde_json::Value;
use support::{Server, plimsoll, scratch, text};

fn run(arguments: &[&str]) -> Output {
    plimsoll(arguments).output().unwrap()
}

fn good(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&good(arguments)).unwrap()
}

/// Runs, expects exit code 2 and one line on standard error that holds all of `expected`.
fn fails(arguments: &[&str], expected: &[&str]) {
    let output = run(arguments);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}\n{message}");
    assert_eq!(message.lines().count(), 1, "{arguments:?}: one line\n{message}");
    for part in expected {
        assert!(message.contains(part), "{arguments:?} lacks '{part}'\n{message}");
    }
}

fn name(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn write(directory: &Path, file: &str, text: &str) -> PathBuf {
    let path = directory.join(file);
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn published_calculators_come_to_what_they_printed() {
    let totals = |document: &str| -> Vec<String> {
        let value = json(&["cost", "--as-published", document, "--as-of", "2026-11-21", "--json"]);
        let bills = value["bills"].as_array().unwrap().clone();
        for bill in &bills {
            // Line by line the differences explain the whole difference.
            let sum: f64 = bill["differences"].as_array().unwrap().iter().map(usd("difference_usd")).sum();
            let whole = usd("total_usd")(&bill["real"]) - usd("total_usd")(&bill["published"]);
            assert!((sum - whole).abs() < 1e-6, "{sum} {whole}");
        }
        bills.iter().map(|b| b["published"]["total_usd"].as_str().unwrap().to_string()).collect()
    };
    assert_eq!(totals("000"), ["2900006.00", "150006.00"]);
    assert_eq!(totals("002"), ["1504.00", "6805.00", "6254.00"]);
    assert_eq!(totals("large-uploads"), totals("002"));
}

fn usd(field: &str) -> impl Fn(&Value) -> f64 + '_ {
    move |value| value[field].as_str().unwrap().parse().unwrap()
}

#[test]
fn every_printed_cost_that_does_not_follow_is_listed_with_the_right_one() {
    let wrong = |document: &str| -> Vec<(String, String, String)> {
        let value = json(&["cost", "--as-published", document, "--as-of", "2026-11-21", "--json"]);
        let claims = value["claims"].as_array().unwrap().clone();
        let text = |c: &Value, field: &str| c[field].as_str().unwrap().to_string();
        claims
            .iter()
            .filter(|c| c["holds"] == false)
            .map(|c| (text(c, "says").chars().take(12).collect(), text(c, "printed"), text(c, "follows")))
            .collect()
    };
    let expected = |list: &[(&str, &str, &str)]| -> Vec<(String, String, String)> {
        list.iter().map(|(a, b, c)| ((*a).into(), (*b).into(), (*c).into())).collect()
    };
    // 10 PB x 0.09 x 12; 1.5 x 2^20 GB x 0.09; 80% of that; 336 TB x 0.20; and what they come to together. A year of 100 Gbit/s is
    // 394.2 PB, 32.85 PB a month: 10,485,760 GB x 0.09 and the rest x 0.085, times 12.
    let first = expected(&[
        ("8x cost diff", "8.00", "19.332600029332"),
        ("$42k a year ", "42000.00", "34136145.60"),
        ("$380k a year", "380000.00", "10800000.00"),
        ("$189k a mont", "189000.00", "141557.76"),
        ("$11.8k a mon", "11800.00", "113246.208"),
        ("$177k a mont", "177000.00", "28311.552"),
        ("$2.1k a mont", "2100.00", "67200.00"),
        ("$174.9k a mo", "174900.00", "-38888.448"),
        ("92% saved by", "0.92", "-0.274717881944"),
    ]);
    assert_eq!(wrong("000"), first);
    let second = expected(&[
        ("R2: Class A ", "4.00", "8008.00"),
        ("S3: the same", "5.00", "10010.00"),
        ("$12,400 a ye", "12400.00", "108000.00"),
        ("1 TB of egre", "120.00", "90.00"),
        ("about $720,0", "720000.00", "636000.00"),
    ]);
    assert_eq!(wrong("002"), second);
}

const WORKLOAD: &[&str] =
    &["--storage", "10PB", "--egress", "10PB", "--put", "12M", "--get", "12M", "--object-size", "1MiB"];

fn with<'a>(head: &[&'a str], tail: &[&'a str]) -> Vec<&'a str> {
    [head, WORKLOAD, tail].concat()
}

#[test]
fn bills_have_the_promised_shape_in_every_form() {
    let arguments = with(&["cost"], &["--provider", "aws-s3-express,cloudflare-r2", "--as-of", "2026-11-21"]);
    let value = json(&[&arguments[..], &["--json"]].concat());
    let schema =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("schema/bills.schema.json"));
    let validator = jsonschema::validator_for(&serde_json::from_str(&schema.unwrap()).unwrap()).unwrap();
    let errors: Vec<String> = validator.iter_errors(&value).map(|e| e.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    let bills = value["bills"].as_array().unwrap();
    assert_eq!(bills.len(), 2);
    for bill in bills {
        for field in ["provider", "region", "total_usd", "lines"] {
            assert!(!bill[field].is_null(), "{field}");
        }
        for line in bill["lines"].as_array().unwrap() {
            for field in
                ["item", "quantity", "unit", "unit_price_usd", "amount_usd", "source", "as_of", "confidence"]
            {
                assert!(line[field].is_string(), "{field}: {line}");
            }
        }
    }
    assert_eq!(bills[1]["total_usd"], "150050.07");
    let csv = good(&[&arguments[..], &["--format", "csv"]].concat());
    assert!(csv.starts_with(
        "provider,region,item,part,quantity,unit,unit_price_usd,amount_usd,source,as_of,confidence\n"
    ));
    assert!(csv.contains("cloudflare-r2,auto,Class A,requests,11,1000000 requests,4.50,49.50,"));
    let markdown = good(&[&arguments[..], &["--format", "markdown"]].concat());
    assert!(markdown.contains("| cloudflare-r2 | auto | $149,999.85 | $50.22 |"), "{markdown}");
    let out = scratch("forms").join("bills.html");
    good(&[&arguments[..], &["--format", "html", "--output", name(&out)]].concat());
    let page = std::fs::read_to_string(out).unwrap();
    assert!(page.contains("$150,050.07") && page.contains("echarts"));
    let table = good(&arguments);
    for said in [
        "x the cheapest",
        "$150,050.07",
        "free allowance",
        "assumed: ",
        "developers.cloudflare.com/r2/pricing",
    ] {
        assert!(table.contains(said), "{said}: {table}");
    }
}

#[test]
fn prices_of_another_day_are_those_of_that_day() {
    let total = |date: &str| {
        let value =
            json(&["cost", "--provider", "aws-s3-express", "--storage", "1TiB", "--as-of", date, "--json"]);
        value["bills"][0]["total_usd"].as_str().unwrap().to_string()
    };
    assert_eq!(
        (total("2024-06-01"), total("2025-04-09"), total("2025-04-10")),
        ("163.84".into(), "163.84".into(), "112.64".into())
    );
    fails(
        &["cost", "--provider", "aws-s3-express", "--storage", "1TiB", "--as-of", "2020-01-01"],
        &["no price of storage for 2020-01-01", "2023-11-28", "--prices"],
    );
    fails(&["cost", "--storage", "1TiB", "--as-of", "1999-01-01"], &["no price", "1999-01-01"]);
    fails(&["cost", "--storage", "1TiB", "--as-of", "June"], &["--as-of", "2024-06-01"]);
}

#[test]
fn what_cannot_be_is_one_line_that_names_the_fix() {
    for (arguments, expected) in [
        (&["cost"][..], &["nothing is asked for", "--storage"][..]),
        (&["cost", "--storage", "100"], &["--storage", "unit"]),
        (&["cost", "--storage", "-5TB"], &["--storage", "-5TB"]),
        (&["cost", "--storage", "99EB"], &["--storage", "at most"]),
        (&["cost", "--storage", "1TB", "--get", "12 many"], &["--get", "12M"]),
        (&["cost", "--get", "1000T", "--object-size", "5TB"], &["--get", "--object-size"]),
        (&["cost", "--get", "1M", "--object-size", "7"], &["--object-size", "7KiB"]),
        (&["cost", "--storage", "1TB", "--egress", "150%"], &["--egress", "150%"]),
        (&["cost", "--storage", "1TB", "--provider", "s4"], &["--provider", "'s4' has no prices", "aws-s3"]),
        (&["cost", "--storage", "1TB", "--provider", "aws-ec2"], &["--provider", "stores no objects"]),
        (&["cost", "--storage", "1TB", "--provider", "aws-s3@mars"], &["--provider", "'mars'", "us-east-1"]),
        (
            &["cost", "--put", "1", "--object-size", "1MiB", "--provider", "aws-dynamodb"],
            &["--provider", "400 KiB at most"],
        ),
        (&["cost", "--storage", "1TB", "--egress", "2TB", "--provider", "wasabi"], &["no more may leave"]),
        (&["cost", "--list", "5", "--provider", "aws-dynamodb"], &["no known price for ListObjects"]),
        (&["cost", "--storage", "1TB", "--instance", "c7g.4xlarge"], &["--instance", "730h"]),
        (&["cost", "--from-run", "/nowhere"], &["--from-run /nowhere"]),
        (&["cost", "--workload", "/nowhere.toml"], &["--workload /nowhere.toml"]),
        (&["cost", "--as-published", "003"], &["--as-published 003", "express-vs-r2"]),
        (&["cost", "--as-published", "nothing"], &["--as-published nothing", "large-uploads"]),
        (&["cost", "--storage", "1TB", "--output", "/nowhere/bill.csv"], &["--output /nowhere/bill.csv"]),
        (
            &["cost", "breakeven", "--between", "aws-s3", "--vary", "egress", "--storage", "1TB"],
            &["--between", "two different"],
        ),
        (
            &["cost", "breakeven", "--between", "aws-s3,wasabi", "--vary", "egress", "--from", "10"],
            &["--from", "unit"],
        ),
        (
            &[
                "cost",
                "breakeven",
                "--between",
                "aws-s3,wasabi",
                "--vary",
                "egress",
                "--from",
                "1TB",
                "--to",
                "1GB",
            ],
            &["--from must be less"],
        ),
        (
            &[
                "cost",
                "tiering",
                "--hot",
                "aws-s3",
                "--cold",
                "cloudflare-r2",
                "--hot-reads",
                "80%",
                "--storage",
                "1TB",
            ],
            &["--put is missing"],
        ),
        (
            &[
                "cost",
                "tiering",
                "--hot",
                "aws-s3",
                "--cold",
                "cloudflare-r2",
                "--put",
                "1M",
                "--keep",
                "30d",
            ],
            &["--hot-reads"],
        ),
        (
            &[
                "cost",
                "tiering",
                "--hot",
                "aws-s3",
                "--cold",
                "cloudflare-r2",
                "--put",
                "1M",
                "--keep",
                "30d",
                "--hot-reads",
                "80",
            ],
            &["--hot-reads", "80%"],
        ),
        (&["advise", "--storage", "1TB"], &["name the runs"]),
        (&["advise", "/nowhere", "--storage", "1TB"], &["/nowhere"]),
        (&["list", "prices", "s4"], &["'s4' has no prices"]),
        (&["list", "providers", "aws-s3"], &["plimsoll list prices"]),
    ] {
        fails(arguments, expected);
    }
}

#[test]
fn a_workload_file_is_read_and_its_mistakes_have_a_line() {
    let out = scratch("workload");
    let file = write(&out, "w.toml", "storage = \"1 TiB\"\negress = \"10 TiB\"\n");
    let total = |more: &[&str]| {
        let arguments =
            [&["cost", "--workload", name(&file), "--provider", "aws-s3", "--json"][..], more].concat();
        json(&arguments)["bills"][0]["total_usd"].as_str().unwrap().to_string()
    };
    // 1,024 x 0.023 and (10,240 - 100) x 0.09; a flag comes before the file.
    assert_eq!(total(&[]), "936.152");
    assert_eq!(total(&["--egress", "0 TiB"]), "23.552");
    let bad = write(&out, "bad.toml", "storage = \"1 TiB\"\n\nput = \"lots\"\n");
    fails(&["cost", "--workload", name(&bad)], &["bad.toml:3: put", "12M"]);
    let typo = write(&out, "typo.toml", "storage = \"1 TiB\"\npust = \"1M\"\n");
    fails(&["cost", "--workload", name(&typo)], &["typo.toml:2", "pust"]);
}

#[test]
fn a_price_file_of_ones_own_comes_first_and_its_mistakes_have_a_line() {
    let out = scratch("prices");
    let book = |change: &str| {
        format!(
            "title = \"ours\"\n[[price]]\noffers = [\"aws-s3\"]\nmeter = \"storage\"\nper = \"GiB-month\"\nusd = \"0.015\"\n\
             from = \"2026-01-01\"\nsource = \"our contract\"\nas_of = \"2026-01\"\nconfidence = \"high\"\n{change}"
        )
    };
    let file = write(&out, "ours.toml", &book(""));
    let value = json(&[
        "cost",
        "--storage",
        "1TiB",
        "--provider",
        "aws-s3",
        "--prices",
        name(&file),
        "--json",
        "--as-of",
        "2026-11-21",
    ]);
    assert_eq!(value["bills"][0]["total_usd"], "15.36");
    assert_eq!(value["bills"][0]["lines"][0]["source"], "our contract");
    let before = json(&[
        "cost",
        "--storage",
        "1TiB",
        "--provider",
        "aws-s3",
        "--prices",
        name(&file),
        "--json",
        "--as-of",
        "2025-11-21",
    ]);
    assert_eq!(before["bills"][0]["total_usd"], "23.552", "the contract did not hold yet");
    // A new request price need not say again which requests it is for.
    let class = "[[price]]\noffers = [\"aws-s3\"]\nmeter = \"requests\"\nitem = \"PUT, COPY, POST, LIST\"\nper = \"1000 requests\"\n\
                 usd = \"0.001\"\nfrom = \"2026-01-01\"\nsource = \"our contract\"\nas_of = \"2026-01\"\nconfidence = \"high\"\n";
    let file = write(&out, "class.toml", &book(class));
    let value = json(&["cost", "--put", "1M", "--provider", "aws-s3", "--prices", name(&file), "--json"]);
    assert_eq!(value["bills"][0]["total_usd"], "1.00");
    for (wrong, right, expected) in [
        ("usd = \"0.015\"", "usd = 0.015", &["bad.toml:6"][..]),
        ("usd = \"0.015\"", "usd = \"-1\"", &["bad.toml:2", "$-1.00 for one GiB-month"]),
        ("GiB-month", "GiB", &["bad.toml:2", "GiB-month"]),
        ("aws-s3", "aws-s9", &["bad.toml:3", "aws-s9", "neither in this file nor built in"]),
        ("2026-01-01", "January", &["bad.toml:2", "no date"]),
        ("our contract", "contract", &["bad.toml:2", "[sources]"]),
        ("confidence = \"high\"", "confidence = \"sure\"", &["bad.toml:10"]),
        ("meter = \"storage\"", "meter = \"tape\"", &["bad.toml:4"]),
    ] {
        let file = write(&out, "bad.toml", &book("").replace(wrong, right));
        fails(&["cost", "--storage", "1TiB", "--prices", name(&file)], expected);
    }
    fails(&["cost", "--storage", "1TiB", "--prices", "/nowhere.toml"], &["--prices /nowhere.toml"]);
}

#[test]
fn bills_cross_where_they_do() {
    // A TB at S3 Express is 102.45 a month, at R2 14.85; a million reads more cost 0.03 there and 0.36 here, in whole millions: 300 of them
    // are 108 here and make 111.45 there.
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
fn tiering_mixes_distributions_and_not_percentiles() {
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
    let asked = &value["asked"];
    assert_eq!(asked["p99_ms"]["low_ms"], 18.0);
    assert_eq!(asked["p99_ms"]["high_ms"], 26.0);
    assert!((asked["hot_reads"].as_f64().unwrap() - 0.8).abs() < 1e-9);
    assert_eq!(value["best"]["hot_days"], 0, "R2 asks nothing for what leaves");
    assert!(usd("migration_usd")(asked) > 60_000.0, "1.44 PB leave S3 Express to be moved");
    let told = good(&arguments);
    assert!(told.contains("published by others, not measured here"), "{told}");
    // Within 10 ms only the hot store alone is sure.
    let value = json(&[&arguments[..], &["--json", "--p99", "10ms"]].concat());
    assert_eq!(value["best"]["hot_days"], 90);
}

fn made(out: &Path, id: &str, change: impl Fn(&mut Made)) -> PathBuf {
    let mut made = Made { id: id.into(), ..Made::default() };
    change(&mut made);
    made.write(out).unwrap()
}

#[test]
fn a_run_goes_on_for_a_month() {
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
    let gone: f64 = value["bills"][0]["lines"].as_array().unwrap()[1..]
        .iter()
        .map(|l| l["quantity"].as_str().unwrap().parse::<f64>().unwrap())
        .sum();
    assert!((gone - 131_400_000.0 / 1_048_576.0).abs() < 1e-6);
    fails(&["cost", "--from-run", name(&run), "--scale", "much"], &["--scale", "500/s"]);
    let two = made(&out, "two", |m| m.stores.push(("s3://b".into(), 2.0)));
    fails(&["cost", "--from-run", name(&two)], &["several stores", "--store", "s3://b"]);
    good(&["cost", "--from-run", name(&two), "--store", "s3://b"]);
}

#[test]
fn advice_joins_objectives_and_bills_and_says_what_was_not_measured() {
    let out = scratch("advise");
    // 3 ms in the median, spread so that the p99 is near 10; the other store is five times slower.
    let run = made(&out, "stores", |m| {
        m.stores = vec![("s3://quick".into(), 1.0), ("s3://slow".into(), 5.0)];
        (m.seconds, m.per_s) = (120, 400);
    });
    let workload = ["--storage", "10TB", "--get", "100M", "--object-size", "1KiB", "--as-of", "2026-11-21"];
    let prices = ["--price", "s3://quick=aws-s3-express", "--price", "s3://slow=cloudflare-r2"];
    let advise = |more: &[&'static str]| [&["advise", name(&run)][..], &workload, &prices, more].concat();
    fails(
        &[&["advise", name(&run)][..], &workload].concat(),
        &["nothing is known of what s3://quick costs", "--price"],
    );
    let strict = json(&advise(&["--slo", "get.p99 < 20ms", "--json"]));
    assert_eq!(
        (strict["recommended"].as_str(), strict["candidates"][1]["outcome"].as_str()),
        (Some("s3://quick"), Some("FAIL"))
    );
    let loose = json(&advise(&["--slo", "get.p99 < 200ms", "--json"]));
    assert_eq!(loose["recommended"], "s3://slow", "the cheaper of two that hold it");
    assert!(loose["caveat"].as_str().unwrap().contains("emulated"));
    assert_eq!(loose["candidates"][0]["front"], true, "faster, if dearer");
    let bound = &loose["bounds"][0];
    assert_eq!((bound["tighter"].as_bool(), bound["to_store"].as_str()), (Some(true), Some("s3://quick")));
    // R2's reads and storage are dearer or cheaper than S3 Express's, so moving them far enough changes the answer.
    let moved = loose["sensitivity"].as_array().unwrap().iter().any(|c| c["to_store"] == "s3://quick");
    assert!(moved, "{:#}", loose["sensitivity"]);
    let missing = loose["not_measured"].as_array().unwrap();
    assert!(missing.iter().any(|m| m.as_str().unwrap().starts_with("backblaze-b2")));
    // The recommendation and its caveat are one line.
    let told = good(&advise(&["--slo", "get.p99 < 200ms"]));
    let line = told.lines().find(|l| l.contains("is the cheapest that does")).unwrap();
    assert!(line.contains("s3://slow") && line.contains("emulated"), "{line}");
    let told = good(&[
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
    let line = told.lines().find(|l| l.contains("is the cheapest that does")).unwrap();
    assert!(line.contains("S3 Express") && line.contains("published by others, not measured here"), "{line}");
    fails(&advise(&["--slo", "get.p99 10ms"]), &["--slo", "neither < nor >"]);
    fails(&["advise", "--published", "003", "--storage", "1TB"], &["--published 003", "published show"]);
}

#[test]
fn what_was_measured_at_its_provider_needs_no_caveat() {
    let out = scratch("home");
    let run = made(&out, "home", |m| {
        m.stores = vec![("s3://data?region=us-east-1".into(), 1.0)];
        m.place = ("aws-s3".into(), "https://s3.us-east-1.amazonaws.com:443".into());
    });
    let value = json(&["advise", name(&run), "--storage", "1TB", "--slo", "get.p50 < 1s", "--json"]);
    assert_eq!((value["recommended"].is_string(), value["caveat"].is_null()), (true, true));
    assert_eq!(value["candidates"][0]["known_by"], "measured");
}

#[test]
fn a_run_says_what_it_cost_and_ends_before_it_costs_more() {
    let out = scratch("run-cost");
    let server = Server::start("", false);
    server.ready("");
    let url = format!(
        "s3://bucket/team?endpoint={}&provider=aws-s3&style=path&region=us-east-1",
        server.endpoint()
    );
    let run = |more: &[&str]| {
        let base = [
            "run",
            "get",
            "--store",
            &url,
            "--objects",
            "50",
            "--size",
            "64KiB",
            "--warmup",
            "0s",
            "--json",
            "--out",
        ];
        plimsoll(&base).arg(&out).args(more).output().unwrap()
    };
    let output = run(&["--operations", "200", "--max-cost", "1"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let cost = &value["cost"][0];
    assert_eq!((cost["provider"].as_str(), cost["emulated"].as_bool()), (Some("aws-s3"), Some(true)));
    let line = |item: &str| {
        let lines = cost["lines"].as_array().unwrap();
        lines.iter().find(|l| l["item"].as_str().unwrap().starts_with(item)).unwrap().clone()
    };
    // 200 reads of 64 KiB; 50 writes, a look at the bucket, and the listings of the clean-up.
    assert_eq!(line("GET")["quantity"], "0.2");
    let writes: f64 = line("PUT")["quantity"].as_str().unwrap().parse().unwrap();
    assert!((0.052..0.056).contains(&writes), "{writes}");
    assert_eq!(line("egress")["quantity"], "0.01220703125");
    let sum: f64 = cost["lines"].as_array().unwrap().iter().map(usd("amount_usd")).sum();
    assert!((sum - usd("total_usd")(cost)).abs() < 1e-12);
    let estimated = usd("estimated_usd")(cost);
    assert!((estimated / usd("total_usd")(cost) - 1.0).abs() < 0.05, "{estimated} {cost:#}");

    // Ended in time, although a second of this store costs more than the whole run may.
    let output = run(&["--duration", "30s", "--concurrency", "4", "--max-cost", "0.02"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("--max-cost $0.02"));
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let spent = usd("total_usd")(&value["cost"][0]);
    assert!((0.01..=0.02).contains(&spent), "{spent}");
    assert_eq!(value["run"]["partial"], true);

    // Refused: known beforehand to cost more, more in flight than it may cost, or nothing known of the price.
    let refused = |more: &[&str], expected: &str| {
        let output = run(more);
        assert_eq!(output.status.code(), Some(2), "{more:?}");
        assert!(text(&output.stderr).contains(expected), "{more:?}: {}", text(&output.stderr));
    };
    refused(&["--operations", "1000000", "--max-cost", "1"], "estimated to cost");
    refused(&["--duration", "1s", "--max-cost", "0.0000001"], "--max-cost");
    refused(&["--duration", "1s", "--max-cost", "free"], "--max-cost 'free' is not an amount");
    let unpriced = url.replace("provider=aws-s3", "provider=minio");
    fails(
        &["run", "get", "--store", &unpriced, "--max-cost", "1", "--duration", "1s"],
        &["--max-cost", "nothing is known of what", "--prices"],
    );
}

/// A price of one's own under another name was added to the built-in one, or left aside.
#[test]
fn a_price_of_ones_own_is_never_added_to_the_built_in_one() {
    let out = scratch("overlap");
    let price = |text: &str| {
        write(
            &out,
            "own.toml",
            &format!(
                "title = \"ours\"\n[[price]]\noffers = [\"aws-s3\"]\n{text}\nfrom = \"2026-01-01\"\nsource = \"our contract\"\n\
                 as_of = \"2026-01\"\nconfidence = \"high\"\n"
            ),
        )
    };
    let total = |file: &Path| {
        let arguments = [
            "cost",
            "--storage",
            "1 TiB",
            "--get",
            "1M",
            "--head",
            "1M",
            "--object-size",
            "1B",
            "--provider",
            "aws-s3",
            "--json",
        ];
        let value = json(&[&arguments[..], &["--prices", name(file), "--as-of", "2026-11-21"]].concat());
        value["bills"][0]["total_usd"].as_str().unwrap().to_string()
    };
    // 23.552 stored, 0.80 for two million reads.
    let reads = price(
        "meter = \"requests\"\nitem = \"GETS\"\ncalls = [\"GetObject\"]\nper = \"1000 requests\"\nusd = \"0.0001\"",
    );
    assert_eq!(total(&reads), "24.052", "0.10 for ours, 0.40 for the other million");
    let stored = price("meter = \"storage\"\nitem = \"our storage\"\nper = \"GiB-month\"\nusd = \"0.01\"");
    assert_eq!(total(&stored), "11.04");
    let typo = price("meter = \"requests\"\nitem = \"GETZ\"\nper = \"1000 requests\"\nusd = \"0.0001\"");
    fails(
        &["cost", "--get", "1", "--prices", name(&typo)],
        &["own.toml:5", "'GETZ' is no class of requests of aws-s3"],
    );
    let region = price("regions = [\"mars\"]\nmeter = \"storage\"\nper = \"GiB-month\"\nusd = \"0.01\"");
    fails(&["cost", "--get", "1", "--prices", name(&region)], &["own.toml:4", "not in 'mars'"]);
}

/// Prices of machines begin later than those of stores, and nobody asked for a machine.
#[test]
fn a_machine_without_a_price_hides_no_store() {
    let value =
        json(&["cost", "--storage", "1TiB", "--provider", "aws-s3", "--as-of", "2022-12-31", "--json"]);
    assert_eq!(value["bills"][0]["total_usd"], "23.552");
    fails(
        &["cost", "--instance", "r5.xlarge=1h", "--provider", "aws-s3", "--as-of", "2022-12-31"],
        &["no known price for machines of type r5.xlarge"],
    );
}

/// Options were taken and had no effect.
#[test]
fn what_has_no_effect_is_refused() {
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
        fails(&[&tiering[..], &[flag, value]].concat(), &[flag, "does not go with tiering"]);
    }
    fails(&[&tiering[..], &["--hot-run", "/nowhere"]].concat(), &["--cold-run"]);
    fails(&["cost", "--storage", "1TB", "--egress", "30%"], &["--egress", "share of what is read"]);
    fails(&["cost", "--keep", "7d", "--get", "1"], &["--keep", "--storage"]);
    fails(
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
        &["--egress is what changes", "--from"],
    );
    let out = scratch("no-effect");
    let run = made(&out, "run", |_| {});
    let advise = ["advise", name(&run), "--storage", "1TB", "--price"];
    fails(&[&advise[..], &["a=wasabi"]].concat(), &["--price a=wasabi", "s3://a"]);
    fails(
        &[&advise[..], &["s3://a=wasabi", "--slo", "list.p99 < 1s"]].concat(),
        &["--slo", "no run measured", "get.get"],
    );
}

/// One provider that does not take the workload ended the comparison of the others.
#[test]
fn who_does_not_take_the_workload_is_left_out() {
    let arguments = [
        "cost",
        "--storage",
        "1TB",
        "--egress",
        "5TB",
        "--provider",
        "backblaze-b2,wasabi",
        "--as-of",
        "2026-11-21",
    ];
    let value = json(&[&arguments[..], &["--json"]].concat());
    assert_eq!(value["bills"].as_array().unwrap().len(), 1);
    assert_eq!(value["not_priced"][0]["provider"], "wasabi");
    assert!(good(&arguments).contains("left out: wasabi does not take this workload"));
}
