//! `plimsoll cost from-log` against `plimsoll cost` with the same counts.

use serde_json::Value;

use crate::support::ask::{good, json, name, refused};
use crate::support::scratch;

/// Returns a line of an S3 server access log at a second of an hour.
fn line(second: u32, operation: &str, key: &str, status: u16, sent: &str, size: &str) -> String {
    let (minute, second) = (second / 60, second % 60);
    format!(
        "79a59df900b949e5 data [06/Feb/2026:00:{minute:02}:{second:02} +0000] 192.0.2.3 79a59df900b949e5 3E57427F3EXAMPLE \
         {operation} {key} \"- /{key} HTTP/1.1\" {status} - {sent} {size} 7 5 \"-\" \"-\" - id SigV4\n"
    )
}

/// A log of an hour: 360 uploads of 1 MiB in parts, 720 reads of 1 MiB, 90 copies, 10 failed reads, 30 of another kind.
fn log() -> String {
    let mut out = String::new();
    for at in 0..3600 {
        let key = if at % 2 == 0 { "logs/a/b" } else { "images/c" };
        match at % 10 {
            0 => out += &line(at, "REST.PUT.OBJECT", key, 200, "-", "1048576"),
            1 | 2 => out += &line(at, "REST.GET.OBJECT", key, 200, "1048576", "1048576"),
            3 if at % 40 == 3 => out += &line(at, "REST.COPY.OBJECT", key, 200, "-", "1048576"),
            4 if at % 360 == 4 => out += &line(at, "REST.GET.OBJECT", key, 503, "-", "-"),
            5 if at % 120 == 5 => out += &line(at, "REST.GET.ACL", "-", 200, "-", "-"),
            9 if at == 3599 => out += &line(at, "REST.HEAD.OBJECT", key, 200, "-", "1048576"),
            _ => {}
        }
    }
    out
}

fn totals(value: &Value) -> Vec<(String, String)> {
    let of = |bill: &Value, field: &str| bill[field].as_str().unwrap().to_string();
    let bills = value["bills"].as_array().unwrap();
    bills.iter().map(|bill| (of(bill, "provider"), of(bill, "total_usd"))).collect()
}

#[test]
fn a_log_costs_what_its_counts_cost() {
    let out = scratch("log-costs");
    let path = out.join("access.log");
    std::fs::write(&path, log()).unwrap();
    let day = [
        "--as-of",
        "2026-11-21",
        "--provider",
        "aws-s3,aws-s3-express,cloudflare-r2,cloudflare-r2-ia,tigris",
    ];
    let value = json(
        &[&["cost", "from-log", name(&path), "--as-month", "--storage", "1TB", "--json"][..], &day].concat(),
    );
    let counts = ["--put", "360", "--get", "720", "--copy", "90", "--head", "1", "--object-size", "1MiB"];
    let same = json(&[&["cost", "--storage", "1TB", "--json"][..], &counts, &day].concat());
    // R2 and Tigris charge the ten requests that failed with status 503; AWS does not.
    let aws = |all: Vec<(String, String)>| all.into_iter().take(2).collect::<Vec<_>>();
    assert_eq!(aws(totals(&value)), aws(totals(&same)));
    assert!(value["assumptions"].to_string().contains("30 REST.GET.ACL"), "{value:#}");
    // All prefixes together have all requests.
    let prefixes = value["prefixes"].as_array().unwrap();
    let requests: u64 = prefixes.iter().map(|p| p["requests"].as_u64().unwrap()).sum();
    assert_eq!((requests, prefixes.len()), (360 + 720 + 90 + 1 + 10, 2));
    // A month at the rate of the hour: the first and the last request are 3,599 seconds apart.
    let month = json(&["cost", "from-log", name(&path), "--provider", "aws-s3", "--json"]);
    let puts =
        month["bills"][0]["lines"].as_array().unwrap().iter().find(|l| l["item"] == "PUT, COPY, POST, LIST");
    let quantity: f64 = puts.unwrap()["quantity"].as_str().unwrap().parse().unwrap();
    assert!((quantity - 450.0 * 2_628_000.0 / 3599.0 / 1000.0).abs() < 0.01, "{quantity}");
}

#[test]
fn a_log_of_seconds_and_unusable_values_are_refused() {
    let out = scratch("log-refused");
    let path = out.join("short.log");
    std::fs::write(&path, line(0, "REST.GET.OBJECT", "a", 200, "1", "1")).unwrap();
    let of = |more: &[&'static str]| [&["cost", "from-log", name(&path)][..], more].concat();
    refused(&of(&[]), &["less than ten seconds", "--as-month"]);
    refused(&of(&["--as-month", "--egress", "1TB"]), &["--egress", "share"]);
    refused(&of(&["--as-month", "--provider", "nowhere"]), &["--provider", "nowhere"]);
    refused(&of(&["--as-month", "--storage", "1"]), &["--storage"]);
    refused(&["cost", "from-log", "/nowhere.log"], &["/nowhere.log"]);
    let table = good(&of(&["--as-month"]));
    assert!(table.contains("! the bills contain no storage") && table.contains("By prefix"), "{table}");
    // Regression: a time far in the future ended the program.
    std::fs::write(&path, line(0, "REST.GET.OBJECT", "a", 200, "1", "1").replace("2026", "9999")).unwrap();
    refused(&of(&["--log-format", "s3"]), &["short.log:1", "is not a time"]);
}
