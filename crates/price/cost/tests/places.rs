//! Checks the prices of regions and classes against what providers' calculators and documents print.

use plimsoll_cost::bill::total;
use plimsoll_cost::book::Prices;
use plimsoll_cost::usage::Usage;
use plimsoll_cost::workload::parse;

fn usage(workload: &str) -> Usage {
    parse(workload).unwrap().resolve().unwrap().usage
}

/// Regions and classes, with what the providers' own examples and calculators print where they have any.
const PLACES: &[(&str, &str, &str, &str)] = &[
    // Azure calculator, eastus, hot: 10 GB, and 100,000 writes, lists and reads each, and 10,000 others.
    (
        "azure-blob-hot",
        "2026-11-01",
        "storage='10 GiB'\nput='100k'\nlist='100k'\nget='100k'\nhead='10k'\nobject_size='1B'",
        "$1.25",
    ),
    // The same with 15 TB.
    (
        "azure-blob-hot",
        "2026-11-01",
        "storage='15 TiB'\nput='100k'\nlist='100k'\nget='100k'\nhead='10k'\nobject_size='1B'",
        "$320.53",
    ),
    // Azure documentation: 200,000 writes, 10,240 GB stored, 20,000 reads of 1,024 GB, in cool and in cold.
    (
        "azure-blob-cool",
        "2026-11-01",
        "storage='10 TiB'\nput='200k'\nget='20k'\nread='1 TiB'\nobject_size='52MiB'",
        "$167.91",
    ),
    (
        "azure-blob-cold",
        "2026-11-01",
        "storage='10 TiB'\nput='200k'\nget='20k'\nread='1 TiB'\nobject_size='52MiB'",
        "$71.38",
    ),
    // Azure calculator: 30,720 GB of egress: 10,235 x 0.087 + 20,385 x 0.083.
    ("azure-blob-hot@westus2", "2026-11-01", "egress='30720 GiB'", "$2,582.40"),
    // 1 TiB in Frankfurt: 1,024 x 0.0245; and 1,000,000 PUT at 0.0054 and GET at 0.00043 per thousand.
    ("aws-s3@eu-central-1", "2026-11-01", "storage='1 TiB'", "$25.09"),
    ("aws-s3@eu-central-1", "2026-11-01", "put='1M'\nget='1M'\nobject_size='1B'", "$5.83"),
    // 1 TiB at 0.019, and a million reads of 1 MiB at 0.01 per thousand and 0.03 a GB.
    ("aws-s3-glacier-instant", "2026-11-01", "storage='1 TiB'", "$4.10"),
    ("aws-s3-glacier-instant", "2026-11-01", "get='1M'\nobject_size='1MiB'", "$39.30"),
    // 10 TiB of egress from Mumbai above the free 100 GB.
    ("aws-s3@ap-south-1", "2026-11-01", "egress='10340 GiB'", "$1,119.23"),
    // 1 TiB in Frankfurt at 0.023, and in the archive of Belgium at 0.0012.
    ("google-cloud-storage@europe-west3", "2026-11-01", "storage='1 TiB'", "$23.55"),
    ("google-cloud-storage-archive@europe-west1", "2026-11-01", "storage='1 TiB'", "$1.23"),
    // A dual-region costs the prices of both regions: 1,024 x 0.044.
    ("google-cloud-storage-dual-region@nam4", "2026-11-01", "storage='1 TiB'", "$45.06"),
];

#[test]
fn regions_and_classes_have_their_own_prices() {
    let prices = Prices::built_in().unwrap();
    for (offer, date, workload, expected) in PLACES {
        let (offer, region) = offer.split_once('@').map_or((*offer, None), |(o, r)| (o, Some(r)));
        let tariff = prices.tariff(offer, region, date.parse().unwrap()).unwrap();
        assert_eq!(
            total(&tariff, &usage(workload)).unwrap().rounded(),
            *expected,
            "{offer} {region:?} {workload}"
        );
    }
}

#[test]
fn at_least_120_offers_and_regions_are_priced() {
    let prices = Prices::built_in().unwrap();
    let date = "2026-11-21".parse().unwrap();
    let usage = usage("storage='1 TB'\nput='1k'\nget='1k'\nobject_size='256KiB'\negress='1 GB'");
    let mut priced = 0;
    for offer in prices.facts().iter().filter(|offer| offer.is_store) {
        for region in &offer.regions {
            let tariff = prices.tariff(&offer.name, Some(region), date).unwrap();
            total(&tariff, &usage).unwrap_or_else(|e| panic!("{} in {region}: {e}", offer.name));
            assert!(
                tariff
                    .meters
                    .iter()
                    .all(|m| !m.provenance.source.is_empty() && !m.provenance.as_of.is_empty())
            );
            priced += 1;
        }
    }
    assert!(priced >= 120, "{priced}");
}
