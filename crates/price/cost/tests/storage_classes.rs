//! Bills in storage classes whose prices depend on the last read of an object, or whose objects must be restored.

use plimsoll_cost::bill::{Bill, bill};
use plimsoll_cost::book::Prices;
use plimsoll_cost::money::Usd;
use plimsoll_cost::workload::parse;

/// Returns the bill of a workload at an offer in its first region.
fn priced(offer: &str, workload: &str) -> Bill {
    let tariff = Prices::built_in().unwrap().tariff(offer, None, "2026-11-01".parse().unwrap()).unwrap();
    bill(&tariff, &parse(workload).unwrap().resolve().unwrap().usage).unwrap()
}

#[test]
fn unread_data_has_the_price_of_its_last_read() {
    // 1,000 GiB in objects of 1 MiB: 30% read within 30 days, 20% within 90 days.
    let lines = |size: &str| {
        let text = format!("storage='1000 GiB'\nobject_size='{size}'\nunread='30d=70%,90d=50%'");
        let found = priced("aws-s3-intelligent-tiering", &text);
        found.lines.iter().map(|line| (line.item.clone(), line.amount_usd)).collect::<Vec<_>>()
    };
    let usd = |text: &str| Usd::parse(text).unwrap();
    assert_eq!(
        lines("1 MiB"),
        [
            ("storage, frequent access".to_string(), usd("6.9")),
            ("storage, infrequent access".to_string(), usd("2.5")),
            ("storage, archive instant access".to_string(), usd("2")),
            // 1,024,000 objects at $0.0025 per thousand.
            ("monitoring and automation".to_string(), usd("2.56")),
        ]
    );
    // Smaller objects stay where they are.
    assert_eq!(lines("100 KiB"), [("storage, frequent access".to_string(), usd("23"))]);
}

#[test]
fn archived_objects_have_an_index_and_are_restored_for_reads() {
    // The example of the price page: 1,000 objects of 1 GB, each with 32 KB at the price of the class, and 8 KB at the
    // price of S3 Standard. One is read once: a restore, its retrieval, a GET, and a day of a copy in S3 Standard.
    let found = priced("aws-s3-deep-archive", "storage='1000 GiB'\nobject_size='1 GiB'\nget='1'");
    let amounts: Vec<(&str, f64)> =
        found.lines.iter().map(|line| (line.item.as_str(), line.amount_usd.dollars())).collect();
    let day = 24.0 / 730.0;
    let overhead = |bytes: f64| 1000.0 * bytes / (1u64 << 30) as f64;
    let expected = [
        ("storage", (1000.0 + overhead(32.0 * 1024.0)) * 0.00099),
        ("GET, HEAD and all other", 0.000_000_4),
        ("restores, Standard", 0.0001),
        ("retrieval, Standard", 0.02),
        ("restored copies", 0.023 * day),
        ("index of objects", overhead(8.0 * 1024.0) * 0.023),
    ];
    assert_eq!(amounts.len(), expected.len(), "{amounts:?}");
    for ((item, amount), (name, cost)) in amounts.iter().zip(expected) {
        assert!(*item == name && (amount - cost).abs() < 1e-11, "{item}: {amount}, {name}: {cost}");
    }
    assert!(found.notes.iter().any(|note| note.contains("takes up to 12 hours")), "{:?}", found.notes);
}
