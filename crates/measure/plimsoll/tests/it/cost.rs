//! `plimsoll cost` through the binary: published calculators, every format, workload files, and invalid input.

use crate::support::ask::{good, json, name, refused, usd, write};
use crate::support::{repository, scratch};
use serde_json::Value;

#[test]
fn published_calculators_reproduce_their_printed_totals() {
    let totals = |document: &str| -> Vec<String> {
        let value = json(&["cost", "--as-published", document, "--as-of", "2026-11-21", "--json"]);
        let bills = value["bills"].as_array().unwrap().clone();
        for bill in &bills {
            // The differences of the lines add up to the difference of the totals.
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

#[test]
fn wrong_published_costs_are_listed_with_the_correct_value() {
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
    // 10 PB x 0.09 x 12; 1.5 x 2^20 GB x 0.09; 80% of that; 336 TB x 0.20; and their combinations. A year at
    // 100 Gbit/s is 394.2 PB, 32.85 PB a month: 10,485,760 GB x 0.09 and the rest x 0.085, times 12.
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
        ("S3: Class A ", "5.00", "10010.00"),
        ("$12,400 a ye", "12400.00", "108000.00"),
        ("1 TB of egre", "120.00", "85.00"),
        ("about $720,0", "720000.00", "636000.00"),
    ]);
    assert_eq!(wrong("002"), second);
}

/// Regression: the real bill used today's prices, and the calculator's replication was refused for R2.
#[test]
fn a_published_calculator_is_compared_with_the_prices_of_its_date() {
    let value = json(&["cost", "--as-published", "000", "--as-of", "2026-11-21", "--json"]);
    let express = &value["bills"][0];
    assert_eq!(
        (express["real"]["as_of"].as_str(), express["today"]["as_of"].as_str()),
        (Some("2024-06-01"), Some("2026-11-21"))
    );
    let storage = &express["differences"][0];
    // 10 PB are 9,313,225.746 GiB, at 0.16 then and at 0.11 now.
    assert_eq!(
        (storage["real_usd"].as_str(), storage["today_usd"].as_str()),
        (Some("1490116.119384765625"), Some("1024454.832077026367"))
    );
    let replicated =
        json(&["cost", "--as-published", "000", "--cross-az", "--as-of", "2026-11-21", "--json"]);
    let line = |bill: &Value, name: &str| -> Option<Value> {
        bill["differences"].as_array().unwrap().iter().find(|d| d["line"] == name).cloned()
    };
    // Published: 10 PB x 0.01. Real: transfer between zones is free, but the copy is stored, written and uploaded.
    let copied = line(&replicated["bills"][0], "replication").unwrap();
    assert_eq!(
        (copied["published_usd"].as_str(), copied["real_usd"].as_str()),
        (Some("100000.00"), Some("0.00"))
    );
    for name in ["storage", "put", "upload"] {
        let of = |value: &Value| -> f64 {
            line(&value["bills"][0], name).unwrap()["today_usd"].as_str().unwrap().parse().unwrap()
        };
        assert!((of(&replicated) / of(&value) - 2.0).abs() < 1e-9, "{name}");
    }
    assert_eq!(replicated["bills"][0]["published"]["total_usd"], "3000006.00");
    assert_eq!(line(&replicated["bills"][1], "replication"), None, "R2 includes replication");
    assert_eq!(replicated["bills"][1]["published"]["total_usd"], "150006.00");
    refused(&["cost", "--as-published", "002", "--cross-az"], &["--cross-az", "has no replication"]);
    let table = good(&["cost", "--as-published", "000", "--as-of", "2026-11-21"]);
    assert!(table.contains("real, 2024-06-01") && table.contains("2026-11-21"), "{table}");
    let other = good(&["cost", "--as-published", "002", "--as-of", "2026-11-21"]);
    assert!(!other.contains("asked nowhere") && !other.contains("egress from S3, at the $0.12"), "{other}");
}

/// Regression: B2 was the cheapest at $6.88, and the headline did not state the assumption behind it.
#[test]
fn every_headline_states_the_assumption_about_reads() {
    let month = ["--storage", "1TB", "--get", "100M", "--object-size", "1MB", "--as-of", "2026-11-21"];
    let assumption = "all reads from providers that sell no compute";
    let bills = [&["cost"][..], &month].concat();
    let value = json(&[&bills[..], &["--json"]].concat());
    let b2 = value["bills"].as_array().unwrap().iter().find(|b| b["provider"] == "backblaze-b2").unwrap();
    assert_eq!(b2["total_usd"], "976.8805");
    assert!(value["headline"].as_str().unwrap().contains(assumption), "{}", value["headline"]);
    let between = [
        "cost",
        "breakeven",
        "--between",
        "backblaze-b2,aws-s3",
        "--vary",
        "get",
        "--storage",
        "1TB",
        "--object-size",
        "1MB",
    ];
    let tiering = [
        "cost",
        "tiering",
        "--hot",
        "aws-s3",
        "--cold",
        "backblaze-b2",
        "--hot-reads",
        "80%",
        "--put",
        "1M",
        "--get",
        "10M",
        "--keep",
        "90d",
    ];
    for command in [&bills[..], &between, &tiering] {
        let first = |form: &str, marker: &str| {
            let text = good(&[command, &["--format", form]].concat());
            text.lines().find(|l| l.contains(marker)).map(str::to_string).unwrap_or_default()
        };
        let table = good(command);
        assert!(table.lines().take(3).any(|l| l.contains(assumption)), "{table}");
        assert!(
            first("markdown", "**").contains(assumption)
                && first("html", "class=\"sentence\"").contains(assumption)
        );
        let csv = good(&[command, &["--format", "csv"]].concat());
        assert!(
            csv.lines().next().unwrap().ends_with(",assumed")
                && csv.lines().nth(1).unwrap().contains(assumption),
            "{csv}"
        );
        assert!(json(&[command, &["--json"]].concat())["headline"].as_str().unwrap().contains(assumption));
    }
    let stated = json(&[&bills[..], &["--egress", "0%", "--json"]].concat());
    assert!(!stated["headline"].as_str().unwrap().contains("egress"), "{}", stated["headline"]);
}

#[test]
fn a_fraction_of_a_binary_unit_is_accepted() {
    let value =
        json(&["cost", "--storage", "1.3TiB", "--provider", "aws-s3", "--as-of", "2026-11-21", "--json"]);
    // 1,331.2 GiB x 0.023.
    assert_eq!(value["bills"][0]["total_usd"], "30.617600000004");
}

#[test]
fn a_default_region_is_reported_as_an_assumption() {
    let table = good(&["cost", "--storage", "1TB", "--provider", "google-cloud-storage"]);
    assert!(table.contains("assumed: google-cloud-storage is priced as in us-central1"), "{table}");
}

const WORKLOAD: &[&str] =
    &["--storage", "10PB", "--egress", "10PB", "--put", "12M", "--get", "12M", "--object-size", "1MiB"];

fn with<'a>(head: &[&'a str], tail: &[&'a str]) -> Vec<&'a str> {
    [head, WORKLOAD, tail].concat()
}

#[test]
fn bills_have_the_documented_shape_in_every_format() {
    let arguments = with(&["cost"], &["--provider", "aws-s3-express,cloudflare-r2", "--as-of", "2026-11-21"]);
    let value = json(&[&arguments[..], &["--json"]].concat());
    let schema = std::fs::read_to_string(repository("schema/bills.schema.json"));
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
        "provider,region,item,part,quantity,unit,unit_price_usd,amount_usd,source,as_of,confidence,note\n"
    ));
    assert!(csv.contains(",total,total,,,,150050.07,,"), "{csv}");
    assert!(csv.contains("cloudflare-r2,auto,Class A,requests,11,1000000 requests,4.50,49.50,"));
    let markdown = good(&[&arguments[..], &["--format", "markdown"]].concat());
    assert!(markdown.contains("| cloudflare-r2 | auto | $149,999.85 | $50.22 |"), "{markdown}");
    let out = scratch("forms").join("bills.html");
    good(&[&arguments[..], &["--format", "html", "--output", name(&out)]].concat());
    let page = std::fs::read_to_string(out).unwrap();
    assert!(page.contains("$150,050.07") && page.contains("echarts"));
    let table = good(&arguments);
    for expected in [
        "x the cheapest",
        "$150,050.07",
        "free allowance",
        "assumed: ",
        "developers.cloudflare.com/r2/pricing",
    ] {
        assert!(table.contains(expected), "{expected}: {table}");
    }
}

/// Invalid command lines, with parts of the message that each prints.
const WRONG: &[(&[&str], &[&str])] = &[
    (&["cost"], &["the workload is empty", "--storage"]),
    (&["cost", "--storage", "100"], &["--storage", "unit"]),
    (&["cost", "--storage", "-5TB"], &["--storage", "-5TB"]),
    (&["cost", "--storage", "99EB"], &["--storage", "at most"]),
    (&["cost", "--storage", "1TB", "--get", "12 many"], &["--get", "12M"]),
    (&["cost", "--get", "1000T", "--object-size", "5TB"], &["--get", "--object-size"]),
    (&["cost", "--get", "1M", "--object-size", "7"], &["--object-size", "7KiB"]),
    (&["cost", "--storage", "1TB", "--egress", "150%"], &["--egress", "150%"]),
    (&["cost", "--storage", "1TB", "--provider", "s4"], &["--provider", "'s4' has no prices", "aws-s3"]),
    (&["cost", "--storage", "1TB", "--provider", "aws-ec2"], &["--provider", "is not an object store"]),
    (&["cost", "--storage", "1TB", "--provider", "aws-s3@mars"], &["--provider", "'mars'", "us-east-1"]),
    (
        &["cost", "--put", "1", "--object-size", "1MiB", "--provider", "aws-dynamodb"],
        &["--provider", "limited to 400 KiB"],
    ),
    (&["cost", "--storage", "1TB", "--egress", "2TB", "--provider", "wasabi"], &["must not exceed"]),
    (&["cost", "--list", "5", "--provider", "aws-dynamodb"], &["no price is known for ListObjects"]),
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
        &["cost", "tiering", "--hot", "aws-s3", "--cold", "cloudflare-r2", "--put", "1M", "--keep", "30d"],
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
    (&["advise", "--storage", "1TB"], &["RUN is missing"]),
    (&["advise", "/nowhere", "--storage", "1TB"], &["/nowhere"]),
    (&["list", "prices", "s4"], &["'s4' has no prices"]),
    (&["list", "providers", "aws-s3"], &["plimsoll list prices"]),
];

#[test]
fn invalid_input_is_reported_in_one_line_that_names_the_fix() {
    for (arguments, expected) in WRONG {
        refused(arguments, expected);
    }
}

#[test]
fn a_workload_file_is_read_and_its_errors_name_the_line() {
    let out = scratch("workload");
    let file = write(&out, "w.toml", "storage = \"1 TiB\"\negress = \"10 TiB\"\n");
    let total = |more: &[&str]| {
        let arguments =
            [&["cost", "--workload", name(&file), "--provider", "aws-s3", "--json"][..], more].concat();
        json(&arguments)["bills"][0]["total_usd"].as_str().unwrap().to_string()
    };
    // 1,024 x 0.023 + (10,240 - 100) x 0.09. A flag overrides the file.
    assert_eq!(total(&[]), "936.152");
    assert_eq!(total(&["--egress", "0 TiB"]), "23.552");
    let bad = write(&out, "bad.toml", "storage = \"1 TiB\"\n\nput = \"lots\"\n");
    refused(&["cost", "--workload", name(&bad)], &["bad.toml:3: put", "12M"]);
    let typo = write(&out, "typo.toml", "storage = \"1 TiB\"\npust = \"1M\"\n");
    refused(&["cost", "--workload", name(&typo)], &["typo.toml:2", "pust"]);
}

/// Regression: a provider that does not accept the workload ended the comparison of all others.
#[test]
fn a_provider_that_does_not_accept_the_workload_is_left_out() {
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
    assert!(good(&arguments).contains("left out: wasabi does not accept this workload"));
}

/// The examples of the providers' own price pages.
#[test]
fn functions_cost_what_the_providers_print() {
    let compute = |arguments: &[&str]| -> f64 {
        let value = json(&[&["cost", "--as-of", "2026-11-21", "--json"], arguments].concat());
        let lines = value["bills"][0]["lines"].as_array().unwrap().clone();
        lines.iter().filter(|line| line["part"] == "compute").map(usd("amount_usd")).sum()
    };
    let worker = ["--provider", "cloudflare-r2", "--invocations", "15M", "--cpu-time", "7ms"];
    assert_eq!(compute(&worker), 5.0 + 1.5 + 1.5);
    let lambda = ["--provider", "aws-s3", "--invocations"];
    let first = compute(&[&lambda[..], &["3M", "--run-time", "1s", "--memory", "512MiB"]].concat());
    assert!((first - (18.33337 + 0.40)).abs() < 1e-9, "{first}");
    let second = compute(&[&lambda[..], &["30M", "--run-time", "200ms", "--memory", "128MiB"]].concat());
    assert!((second - (5.833345 + 5.80)).abs() < 1e-9, "{second}");
    let used_up = compute(
        &[&lambda[..], &["3M", "--run-time", "1s", "--memory", "512MiB", "--without-allowances"]].concat(),
    );
    assert!((used_up - (25.00005 + 0.60)).abs() < 1e-9, "{used_up}");
}

#[test]
fn values_of_functions_are_checked() {
    let base = ["cost", "--provider", "aws-s3"];
    let with = |more: &[&'static str]| [&base[..], more].concat();
    refused(&with(&["--get", "1", "--cpu-time", "5ms"]), &["--invocations"]);
    refused(&with(&["--invocations", "1M", "--cpu-time", "5ms", "--run-time", "1ms"]), &["CPU time"]);
    refused(&with(&["--invocations", "1M", "--memory", "20GiB"]), &["10GiB"]);
    refused(&with(&["--invocations", "1M", "--run-time", "1h"]), &["15 minutes"]);
    let wasabi = ["cost", "--provider", "wasabi", "--storage", "1TB", "--invocations", "1M"];
    assert!(!good(&["cost", "--storage", "1TB", "--invocations", "1M"]).is_empty());
    refused(&wasabi, &["functions"]);
}

/// Regression: these values contradicted each other or had no effect, and were accepted without a word.
#[test]
fn contradictions_are_refused_and_unused_values_are_named() {
    let kept = ["cost", "--storage", "10TB", "--put", "1M", "--object-size", "1MB", "--keep", "30d"];
    refused(&kept, &["--storage", "986.3 GB are stored, not 10 TB"]);
    refused(&["cost", "--put", "1M", "--object-size", "1MB", "--written", "1KB"], &["--written", "are 1 TB"]);
    refused(
        &["cost", "--put", "1M", "--object-size", "100MB", "--part-size", "1MiB"],
        &["--part-size", "at least 5 MiB"],
    );
    refused(&["cost", "--storage", "1TB", "--as-of", "2099-01-01"], &["--as-of", "after today"]);
    refused(&["cost", "--storage", "1TB", "--cross-az"], &["--as-published"]);
    let vary =
        ["cost", "breakeven", "--between", "aws-s3,cloudflare-r2", "--vary", "object-size", "--put", "1M"];
    refused(
        &[&vary[..], &["--written", "1TB"]].concat(),
        &["--written", "the size of the objects, which varies"],
    );
    let parts = ["cost", "--put", "1M", "--object-size", "1MB", "--part-size", "8MiB", "--json"];
    assert!(json(&parts)["not_used"][0].as_str().unwrap().contains("--part-size"));
    for (provider, size, reason) in [
        ("aws-s3", "1MiB", "no price depends on the last read"),
        ("aws-s3-intelligent-tiering", "64KiB", "objects below 128 KiB stay"),
    ] {
        let unread = ["--unread", "30d=70%", "--object-size", size, "--provider", provider, "--json"];
        let found = json(&[&["cost", "--storage", "1TB"][..], &unread].concat());
        assert!(found["not_used"][0].as_str().unwrap().contains(reason), "{found}");
    }
    let out = scratch("future");
    let book = out.join("contract.toml");
    let text = "title = 'x'\n[[price]]\noffers = ['aws-s3']\nmeter = 'storage'\nper = 'GiB-month'\nusd = '0.01'\n\
                from = '2099-01-01'\nsource = 'a contract'\nas_of = '2026-11'\nconfidence = 'high'\n";
    std::fs::write(&book, text).unwrap();
    let later = ["cost", "--storage", "1GiB", "--provider", "aws-s3", "--prices", name(&book)];
    let table = good(&later);
    assert!(table.lines().any(|l| l.starts_with("! not used:") && l.contains("from 2099-01-01")), "{table}");
    let then = json(&[&later[..], &["--as-of", "2099-06-01", "--json"]].concat());
    assert_eq!(then["bills"][0]["total_usd"], "0.01");
}

/// Regression: `0%` needed reads, and a retention had whole days.
#[test]
fn values_that_every_workload_can_have_are_accepted() {
    good(&["cost", "--storage", "1TB", "--egress", "0%"]);
    good(&["cost", "--put", "1M", "--object-size", "1MB", "--keep", "12h"]);
}

/// The case of a published question: 300 TB at S3, of which 40 TB are sent to the internet each month.
#[test]
fn a_move_is_priced_with_its_payback() {
    let workload =
        ["--storage", "300TB", "--egress", "40TB", "--get", "600M", "--put", "50M", "--object-size", "200KB"];
    let names = ["--from", "aws-s3@us-east-1", "--to", "cloudflare-r2", "--as-of", "2026-11-21"];
    let of = |more: &[&'static str]| [&["cost", "migrate"][..], &names, &workload, more].concat();
    let value = json(&of(&["--json"]));
    let usd = |value: &Value| -> f64 { value.as_str().unwrap().parse().unwrap() };
    let double: f64 = value["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|item| item["reason"] == "double-storage")
        .map(|item| usd(&item["amount_usd"]))
        .sum();
    assert!((usd(&value["once_usd"]) - double - 23_860.0).abs() < 1.0, "{value:#}");
    assert!((usd(&value["saved_usd"]) - 4_964.0).abs() < 1.0, "{value:#}");
    let table = good(&of(&[]));
    assert!(table.contains("costs $24,119.77 once and saves $4,964.38 a month"), "{table}");
    refused(
        &["cost", "migrate", "--from", "aws-s3", "--to", "aws-s3", "--storage", "1TB"],
        &["--to", "the source"],
    );
    refused(
        &["cost", "migrate", "--from", "aws-s3", "--to", "tigris", "--get", "1"],
        &["--storage is missing"],
    );
    refused(&of(&["--rate", "5"]), &["--rate", "not a throughput"]);
    refused(&of(&["--keep-source", "soon"]), &["--keep-source"]);
    for format in ["csv", "markdown", "html"] {
        assert!(good(&of(&["--format", format])).contains("750"), "{format}");
    }
}

/// Regression: a replica was left out of the bills of a range without a word.
#[test]
fn what_is_added_to_a_bill_is_refused_where_it_would_not_count() {
    let workload = ["cost", "--storage", "1TB", "--get", "1M", "--object-size", "1MB"];
    let cases: [(&[&str], &[&str]); 5] = [
        (&["--egress", "1TB..2TB", "--replicate-to", "us-west-2"], &["--replicate-to", "range"]),
        (&["--egress", "1TB", "--machines", "aws@us-east-1"], &["--machines", "--egress"]),
        (&["--machines", "aws@moon-1"], &["--machines", "moon-1"]),
        (&["--machines", "aws"], &["--machines", "aws@us-east-1", "google"]),
        (&["--machines", "google@us-east1", "--nat-gateway"], &["--nat-gateway"]),
    ];
    for (more, words) in cases {
        refused(&[&workload[..], more].concat(), words);
    }
}
