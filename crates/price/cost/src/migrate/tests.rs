//! Tests of the cost of a move.

use super::*;
use crate::book::Prices;
use crate::workload::parse;

fn tariff(name: &str) -> Tariff {
    let (name, region) = name.split_once('@').map_or((name, None), |(name, region)| (name, Some(region)));
    Prices::built_in().unwrap().tariff(name, region, "2026-11-21".parse().unwrap()).unwrap()
}

fn moved(from: &str, to: &str, workload: &str, change: impl Fn(&mut Migration<'_>)) -> Moved {
    let (from, to) = (tariff(from), tariff(to));
    let month = parse(workload).unwrap().resolve().unwrap().usage;
    let bytes_per_s = 1_000_000_000;
    let mut migration = Migration {
        from: &from,
        to: &to,
        month,
        part_bytes: None,
        verifies: false,
        waived: false,
        bytes_per_s,
        kept_s: 0,
    };
    change(&mut migration);
    migration.cost().unwrap()
}

fn of(moved: &Moved, reason: Reason) -> f64 {
    moved.items.iter().filter(|item| item.reason == reason).map(|item| item.amount_usd.dollars()).sum()
}

const CASE: &str = "storage='300TB'\negress='40TB'\nget='600M'\nput='50M'\nobject_size='200KB'";

/// 1.5 billion reads at 0.0004 / 1000; 300 TB of egress on top of 40: 340 TB cost 19,718.69 and 40 TB 3,209.20;
/// 1.5 billion writes at 4.50 per million; 300 TB for half of 3.47 of 30 days at 0.015, less the free 10 GB.
#[test]
fn a_move_to_r2_costs_its_requests_and_its_marginal_egress() {
    let moved = moved("aws-s3", "cloudflare-r2", CASE, |_| {});
    assert_eq!((moved.objects, moved.copy_s), (1_500_000_000, 300_000));
    assert_eq!((of(&moved, Reason::Reads), of(&moved, Reason::Writes)), (600.0, 6750.0));
    assert!((of(&moved, Reason::Egress) - 16_509.49).abs() < 0.01, "{}", of(&moved, Reason::Egress));
    let double = of(&moved, Reason::DoubleStorage);
    assert!((double - 260.265).abs() < 0.05, "{double}");
    assert!((moved.once_usd.dollars() - double - 23_859.49).abs() < 0.01, "{}", moved.once_usd);
    assert!((moved.saved_usd.dollars() - 4_964.35).abs() < 0.05, "{}", moved.saved_usd);
    assert!((moved.payback_months.unwrap() - 4.86).abs() < 0.01, "{:?}", moved.payback_months);
}

/// The tiers of egress begin again each month, so a slow copy pays more: ten months of 30 + 40 TB.
#[test]
fn a_slow_copy_falls_into_the_tiers_of_each_month() {
    let quick = moved("aws-s3", "cloudflare-r2", CASE, |_| {});
    let slow = moved("aws-s3", "cloudflare-r2", CASE, |m| m.bytes_per_s = 30_000_000_000_000 / 2_628_000);
    let month = 921.6 + 3_481.6 + (65_092.58 - 51_200.0) * 0.07 - 3_209.20;
    assert!((of(&slow, Reason::Egress) - 10.0 * month).abs() < 5.0, "{}", of(&slow, Reason::Egress));
    assert!(of(&slow, Reason::Egress) > of(&quick, Reason::Egress));
    // R2 charges whole millions of requests each month.
    let writes = of(&slow, Reason::Writes);
    assert!(of(&slow, Reason::Reads) == 600.0 && (6750.0..6800.0).contains(&writes), "{writes}");
}

#[test]
fn copies_are_read_back_and_sources_are_kept_if_asked() {
    let plain = moved("aws-s3", "cloudflare-r2", CASE, |_| {});
    let careful = moved("aws-s3", "cloudflare-r2", CASE, |m| {
        (m.verifies, m.kept_s) = (true, 30 * DAY_S);
    });
    // 3 billion GET and HEAD requests at 0.36 per million, and another month of 300 TB at 0.015.
    assert!((of(&careful, Reason::ReadsBack) - 1_080.0).abs() < 1e-9);
    let more = of(&careful, Reason::DoubleStorage) - of(&plain, Reason::DoubleStorage);
    assert!((more - 4_499.85).abs() < 0.01, "{more}");
}

/// Objects of Standard-IA that live 60 days are up to 60 days old: half of them are younger than 30 days.
#[test]
fn minimum_durations_that_are_cut_short_are_charged() {
    let workload = "put='1M'\nobject_size='1MiB'\nkeep='60d'";
    let at_once = moved("aws-s3-standard-ia", "cloudflare-r2", workload, |m| m.bytes_per_s = 1 << 40);
    // Half of 1.93 TiB for 15 of 30.4 days on average.
    let bytes = 1_048_576e6 * 60.0 * 24.0 / 730.0;
    let expected = bytes / 2.0 * 15.0 * 24.0 / 730.0 / f64::from(1 << 30) * 0.0125;
    assert!((of(&at_once, Reason::EarlyDeletion) / expected - 1.0).abs() < 0.001);
    let slow = moved("aws-s3-standard-ia", "cloudflare-r2", workload, |m| m.bytes_per_s = 1_000_000);
    assert!(of(&slow, Reason::EarlyDeletion) < expected);
    assert!(slow.order_saves_usd > Usd::ZERO, "the youngest get older while the others move");
    assert_eq!(of(&moved("aws-s3", "cloudflare-r2", workload, |_| {}), Reason::EarlyDeletion), 0.0);
}

#[test]
fn a_waiver_leaves_out_the_egress_of_the_move_and_nothing_else() {
    let workload = "storage='300TB'\negress='40TB'\nobject_size='200KB'\nput='50M'\nget='600M'";
    let plain = moved("aws-s3", "cloudflare-r2", workload, |_| {});
    let waived = moved("aws-s3", "cloudflare-r2", workload, |m| m.waived = true);
    assert!(of(&plain, Reason::Egress) > 16_000.0);
    assert_eq!(of(&waived, Reason::Egress), 0.0);
    let saved = plain.once_usd - waived.once_usd;
    assert!((saved.dollars() - of(&plain, Reason::Egress)).abs() < 1e-9);
}

/// Regression: a move between regions of one provider cost no transfer.
#[test]
fn another_region_costs_its_transfer() {
    let (from, to) = (tariff("aws-s3"), tariff("aws-s3@eu-west-1"));
    let month = parse("storage='100TB'\nobject_size='1MB'").unwrap().resolve().unwrap().usage;
    let migration = Migration {
        from: &from,
        to: &to,
        month,
        part_bytes: None,
        verifies: false,
        waived: false,
        bytes_per_s: 1 << 30,
        kept_s: 0,
    };
    let moved = migration.cost().unwrap();
    // 93,132.26 GiB at 0.02.
    assert!((of(&moved, Reason::Transfer) - 1_862.645).abs() < 0.001);
    assert_eq!((of(&moved, Reason::Egress), of(&moved, Reason::Reads)), (0.0, 40.0));
}

/// Regression: objects were read and written although a lifecycle rule changes their class.
#[test]
fn a_lifecycle_rule_moves_objects_between_classes() {
    let moved =
        moved("aws-s3-standard-ia", "aws-s3-glacier-instant", "storage='300TB'\nobject_size='1MB'", |_| {});
    assert_eq!(moved.items.len(), 1);
    // 300 million transitions at 0.02 per thousand.
    assert_eq!((of(&moved, Reason::Transitions), moved.once_usd.to_string()), (6000.0, "6000.00".into()));
}

/// Regression: what Google and Backblaze charge after a deletion was missing, and Wasabi refused every destination
/// because the reads of the workload leave it.
#[test]
fn deleted_sources_and_limits_on_egress_are_those_of_the_stores() {
    let workload = "storage='300TB'\nobject_size='1MB'";
    let google = moved("google-cloud-storage", "cloudflare-r2", workload, |_| {});
    // 279,396.77 GiB for seven days of 730 hours at 0.02.
    assert!((of(&google, Reason::DeletedStorage) - 279_396.77 * 168.0 / 730.0 * 0.02).abs() < 0.01);
    let b2 = moved("backblaze-b2", "cloudflare-r2", workload, |_| {});
    assert!((of(&b2, Reason::DeletedStorage) - 2_085.0).abs() < 0.01);
    let wasabi = moved("aws-s3", "wasabi", "storage='100TB'\nget='1M'\nobject_size='1MB'", |_| {});
    assert!(of(&wasabi, Reason::DoubleStorage) > 0.0);
}

/// Regression: a copy of millions of years needed a bill for each month.
#[test]
fn a_slow_copy_fills_the_destination_month_by_month() {
    let slow =
        moved("cloudflare-r2", "aws-s3", "storage='300TB'\nobject_size='1MB'", |m| m.bytes_per_s = 5_000_000);
    // 22.8 months, each in the tiers of the mean of that month: 1,177.60 for the first 50 TB, and 0.022 above.
    let double = of(&slow, Reason::DoubleStorage);
    assert!((71_000.0..71_500.0).contains(&double), "{double}");
    let never =
        moved("aws-s3", "cloudflare-r2", "storage='1TB'\nobject_size='1MB'", |m| m.bytes_per_s = 1_000);
    assert!(of(&never, Reason::Reads) > 0.0);
}

#[test]
fn a_move_to_a_dearer_store_never_pays_back() {
    let moved = moved("cloudflare-r2", "aws-s3-express", "storage='1TB'\nobject_size='1MB'", |_| {});
    assert_eq!(moved.payback_months, None);
    assert!(moved.saved_usd < Usd::ZERO);
}
