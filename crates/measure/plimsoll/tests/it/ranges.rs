//! `plimsoll cost` with a range in the place of one value.

use crate::support::ask::{good, json, name, refused, write};
use crate::support::scratch;

#[test]
fn the_ends_of_a_range_are_the_bills_of_both_amounts() {
    let of = |egress: &str| {
        let rest =
            ["--storage", "10TB", "--get", "50M", "--object-size", "64KiB", "--egress", egress, "--json"];
        json(&[&["cost"][..], &rest].concat())
    };
    let range = of("1TB..40TB");
    for (end, amount) in [("low", "1TB"), ("high", "40TB")] {
        assert_eq!(range[end]["bills"], of(amount)["bills"], "{end}");
    }
    assert_eq!((&range["from"], &range["to"]), (&1_000_000_000_000u64.into(), &40_000_000_000_000u64.into()));
}

#[test]
fn a_range_has_the_amounts_at_which_the_cheapest_provider_changes() {
    let rest = ["--storage", "1TB", "--object-size", "1MB", "--egress", "0%", "--provider"];
    let between = "backblaze-b2,cloudflare-r2";
    let range =
        json(&[&["cost", "--get", "1..100M", "--json"][..], &rest[..4], &["--provider", between]].concat());
    let breakeven = json(
        &[
            &[
                "cost",
                "breakeven",
                "--vary",
                "get",
                "--from",
                "1",
                "--to",
                "100M",
                "--between",
                between,
                "--json",
            ][..],
            &rest[..4],
        ]
        .concat(),
    );
    assert_eq!(range["segments"], breakeven["segments"]);
    let text = good(&[
        "cost",
        "--get",
        "1..100M",
        "--storage",
        "1TB",
        "--object-size",
        "1MB",
        "--provider",
        between,
    ]);
    assert!(text.contains("is the cheapest below 3,796,951 of objects read a month"), "{text}");
    assert!(text.contains("The cheapest bill goes from $6.88 to "), "{text}");
}

#[test]
fn a_range_may_be_in_a_file_and_only_one_value_is_one() {
    let file = write(&scratch("ranges"), "month.toml", "storage = \"1TB..2TB\"\nget = \"1M\"\n");
    let range = json(&["cost", "--workload", name(&file), "--provider", "aws-s3", "--json"]);
    assert_eq!((&range["vary"], &range["to"]), (&"storage".into(), &2_000_000_000_000u64.into()));
    let storage = ["cost", "--storage", "10TB", "--egress"];
    let with = |rest: &[&'static str]| [&storage[..], rest].concat();
    refused(&with(&["2TB..1TB"]), &["--egress: 2TB..1TB is not a range"]);
    refused(&with(&["1TB..x"]), &["--egress", "'x'"]);
    refused(&with(&["1..2TB"]), &["--egress: '1' has no unit"]);
    refused(&with(&["1TB..2TB", "--get", "1M..2M"]), &["--egress and --get are both ranges"]);
    refused(
        &["cost", "migrate", "--from", "aws-s3", "--to", "cloudflare-r2", "--storage", "1TB..2TB"],
        &["1TB..2TB"],
    );
}
