//! `plimsoll probe` on stores with known capabilities.

use std::collections::BTreeMap;

use crate::support::{Server, plimsoll, scratch, text};
use plimsoll_conformance::fitness::application::names;

fn probe(store: &str) -> BTreeMap<String, String> {
    let run = plimsoll(&["probe", store, "--json", "--create-bucket"]).output().unwrap();
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    let findings: Vec<BTreeMap<String, String>> = serde_json::from_slice(&run.stdout).unwrap();
    findings.into_iter().map(|f| (f["check"].clone(), f["answer"].clone())).collect()
}

#[test]
fn probe_reports_the_capabilities_of_the_embedded_server() {
    let server = Server::start("", false);
    let found = probe(&format!("s3://bucket/p?endpoint={}", server.endpoint()));
    for check in [
        "put and get",
        "read after overwrite",
        "ETag is MD5",
        "ranges",
        "put if absent",
        "put if unchanged",
        "checksum md5",
        "checksum crc64nvme",
        "checksum sha256",
        "multi-object delete",
        "list in key order",
        "list after a key",
        "pagination",
        "multipart upload",
        "multipart ETag is MD5 of MD5s",
        "parts of different sizes",
        "unfinished uploads are listed",
        "presigned URL",
        "presigned URLs expire",
        "put if absent, 8 at once",
        "put if unchanged, 8 at once",
    ] {
        assert_eq!(found.get(check).map(String::as_str), Some("yes"), "{check}: {found:?}");
    }
    assert_eq!(found["parts below 5 MiB"], "no");
    assert_eq!(found["TLS"], "no");
    for check in ["versioning", "lifecycle", "CORS", "copy", "object tags"] {
        assert_eq!(found.get(check).map(String::as_str), Some("yes"), "{check}: {found:?}");
    }
    for check in ["object lock", "bucket policy"] {
        assert_eq!(found.get(check).map(String::as_str), Some("unknown"), "{check}: {found:?}");
    }
}

#[test]
fn several_stores_are_the_columns_of_one_table() {
    let server = Server::start("", false);
    let stores = ["one", "two"].map(|name| format!("{name}=s3://{name}/p?endpoint={}", server.endpoint()));
    let arguments = ["probe", &stores[0], &stores[1], "memory:", "--create-bucket", "--quiet"];
    let run = plimsoll(&arguments).output().unwrap();
    let table = text(&run.stdout);
    assert!(run.status.success() && run.stderr.is_empty(), "{}", text(&run.stderr));
    let line = |check: &str| {
        let found = table.lines().find(|line| line.trim_start().starts_with(check)).unwrap_or_default();
        found[check.len() + 1..].split_whitespace().map(str::to_string).collect::<Vec<_>>()
    };
    assert_eq!(line("check"), ["one", "two", "memory:"], "{table}");
    assert_eq!(line("put and get"), ["yes", "yes", "yes"]);
    assert_eq!(line("versioning"), ["yes", "yes", "-"]);
    assert_eq!(line("parts below 5 MiB"), ["no", "no", "yes"]);
    let reason = table.lines().rev().find(|line| line.trim_start().starts_with("parts below")).unwrap();
    assert!(reason.contains("one") || reason.contains("two"), "the reason follows the table: {table}");
    assert!(reason.contains("400 EntityTooSmall"), "{reason}");
}

#[test]
fn probe_reports_the_differences_of_directory_buckets() {
    let server = Server::start("", false);
    let found = probe(&format!("s3://data--use1-az4--x-s3/p?endpoint={}", server.endpoint()));
    assert_eq!(found["ETag is MD5"], "no");
    assert_eq!(found["list in key order"], "no");
    assert_eq!(found["checksum md5"], "no");
    assert_eq!(found["checksum crc32c"], "yes");
    assert!(!found.contains_key("list after a key") && found["signing"].starts_with("session"));
}

#[test]
fn directories_and_memory_can_be_probed() {
    let dir = scratch("probe");
    let found = probe(&format!("file://{}", dir.display()));
    assert_eq!((found["put and get"].as_str(), found["list in key order"].as_str()), ("yes", "yes"));
    assert!(std::fs::read_dir(&dir).unwrap().next().is_none(), "nothing is left");
    assert_eq!(probe("memory:")["ranges"], "yes");
    let refused = plimsoll(&["probe", "s3://b"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
}

#[test]
fn the_help_names_every_application() {
    let help = text(&plimsoll(&["probe", "--help"]).output().unwrap().stdout);
    let start = help.find("--for <APPLICATION>").unwrap();
    let described = help[start..].split("--rounds").next().unwrap();
    for name in names() {
        let is_named = described.split([',', ' ', '\n']).any(|word| word == name);
        assert!(is_named, "{name}: {described}");
    }
}

#[test]
fn fitness_of_directory_buckets_is_refused() {
    let store = "s3://data--use1-az4--x-s3?endpoint=http://127.0.0.1:1";
    let mut command = plimsoll(&["probe", store, "--for", "nix"]);
    let refused = command.env("AWS_ACCESS_KEY_ID", "a").env("AWS_SECRET_ACCESS_KEY", "b").output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("directory buckets"));
}
