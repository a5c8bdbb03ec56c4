//! Price books through the binary: dates, and price files of the user.

use std::path::Path;

use crate::support::ask::{good, json, name, refused, write};
use crate::support::scratch;

#[test]
fn a_price_file_overrides_built_in_prices_and_its_errors_name_a_line() {
    let out = scratch("prices");
    let book = |change: &str| {
        format!(
            "title = \"ours\"\n[[price]]\noffers = [\"aws-s3\"]\nmeter = \"storage\"\nper = \"GiB-month\"\nusd = \"0.015\"\n\
             from = \"2026-01-01\"\nsource = \"our contract\"\nas_of = \"2026-01\"\nconfidence = \"high\"\n{change}"
        )
    };
    let file = write(&out, "ours.toml", &book(""));
    let on = |day: &str| {
        let arguments =
            ["cost", "--storage", "1TiB", "--provider", "aws-s3", "--prices", name(&file), "--json"];
        json(&[&arguments[..], &["--as-of", day]].concat())["bills"][0].clone()
    };
    let now = on("2026-11-21");
    assert_eq!(now["total_usd"], "15.36");
    assert_eq!(now["lines"][0]["source"], "our contract");
    assert_eq!(on("2025-11-21")["total_usd"], "23.552", "the contract was not yet in force");
    // A new price of a built-in request class does not need to repeat its `calls`.
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
        ("2026-01-01", "January", &["bad.toml:2", "not a date"]),
        (
            "per = \"GiB-month\"",
            "per = \"GiB-month\"\nminimum_bytes_per_request = \"1 MiB\"",
            &["bad.toml:2", "free_bytes_per_request = and minimum_bytes_per_request = are valid only with"],
        ),
        ("our contract", "contract", &["bad.toml:2", "[sources]"]),
        ("confidence = \"high\"", "confidence = \"sure\"", &["bad.toml:10"]),
        ("meter = \"storage\"", "meter = \"tape\"", &["bad.toml:4"]),
    ] {
        let file = write(&out, "bad.toml", &book("").replace(wrong, right));
        refused(&["cost", "--storage", "1TiB", "--prices", name(&file)], expected);
    }
    refused(&["cost", "--storage", "1TiB", "--prices", "/nowhere.toml"], &["--prices /nowhere.toml"]);
    // Regression: two classes of one file that charge the same request were both charged for every PUT.
    let class = |item: &str| {
        format!(
            "[[price]]\noffers = [\"aws-s3\"]\nmeter = \"requests\"\nitem = \"{item}\"\ncalls = [\"PutObject\"]\nper = \"1000 requests\"\n\
             usd = \"0.001\"\nfrom = \"2026-01-01\"\nsource = \"our contract\"\nas_of = \"2026-01\"\nconfidence = \"high\"\n"
        )
    };
    let file = write(&out, "twice.toml", &book(&(class("ours") + &class("theirs"))));
    let expected = ["twice.toml:22", "PutObject belongs to 'ours' and to 'theirs'"];
    refused(&["cost", "--put", "1M", "--prices", name(&file)], &expected);
}

/// Regression: a price from a file under another name was added to the built-in price, or ignored.
#[test]
fn a_price_from_a_file_replaces_the_built_in_price() {
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
    // At built-in prices, storage costs 23.552 and two million reads cost 0.80.
    let reads = price(
        "meter = \"requests\"\nitem = \"GETS\"\ncalls = [\"GetObject\"]\nper = \"1000 requests\"\nusd = \"0.0001\"",
    );
    assert_eq!(total(&reads), "24.052", "0.10 for a million GetObject, 0.40 for a million HeadObject");
    let stored = price("meter = \"storage\"\nitem = \"our storage\"\nper = \"GiB-month\"\nusd = \"0.01\"");
    assert_eq!(total(&stored), "11.04");
    let typo = price("meter = \"requests\"\nitem = \"GETZ\"\nper = \"1000 requests\"\nusd = \"0.0001\"");
    refused(
        &["cost", "--get", "1", "--prices", name(&typo)],
        &["own.toml:5", "'GETZ' is not a class of requests of aws-s3"],
    );
    let region = price("regions = [\"mars\"]\nmeter = \"storage\"\nper = \"GiB-month\"\nusd = \"0.01\"");
    refused(&["cost", "--get", "1", "--prices", name(&region)], &["own.toml:4", "not in 'mars'"]);
}

/// `--max-cost` refuses a provider whose default region has no prices.
#[test]
fn the_default_region_of_every_provider_has_prices() {
    let prices = plimsoll_cost::book::Prices::built_in().unwrap();
    let mut priced = 0;
    for profile in plimsoll_base::provider::all().unwrap() {
        let found =
            prices.of_store(&profile.name, Some(&profile.region), None, "2026-11-21".parse().unwrap());
        let Some(found) = found.unwrap() else { continue };
        priced += 1;
        assert!(!found.elsewhere, "{} in {}", profile.name, profile.region);
    }
    assert!(priced >= 7, "{priced}");
    // If all regions have one price, an unlisted region has it too. If prices differ, an unlisted region is
    // `elsewhere`.
    let of = |provider: &str, region: &str| {
        prices.of_store(provider, Some(region), None, "2026-11-21".parse().unwrap()).unwrap().unwrap()
    };
    for (provider, region) in
        [("backblaze-b2", "us-west-009"), ("cloudflare-r2", "us-east-1"), ("cloudflare-r2", "auto")]
    {
        let found = of(provider, region);
        assert_eq!((found.elsewhere, found.note, found.tariff.region.as_str()), (false, None, region));
    }
    assert!(of("google-cloud-storage", "us-east7").elsewhere);
    assert!(of("google-cloud-storage", "auto").note.unwrap().contains("us-central1 are assumed"));
}

/// The price history of machines is shorter than that of stores, which must not matter for a bill without machines.
#[test]
fn a_missing_machine_price_does_not_hide_a_store() {
    let value =
        json(&["cost", "--storage", "1TiB", "--provider", "aws-s3", "--as-of", "2022-12-31", "--json"]);
    assert_eq!(value["bills"][0]["total_usd"], "23.552");
    refused(
        &["cost", "--instance", "r5.xlarge=1h", "--provider", "aws-s3", "--as-of", "2022-12-31"],
        &["no price is known for machines of type r5.xlarge"],
    );
}

#[test]
fn as_of_selects_the_prices_of_that_day() {
    let total = |date: &str| {
        let value =
            json(&["cost", "--provider", "aws-s3-express", "--storage", "1TiB", "--as-of", date, "--json"]);
        value["bills"][0]["total_usd"].as_str().unwrap().to_string()
    };
    assert_eq!(
        (total("2024-06-01"), total("2025-04-09"), total("2025-04-10")),
        ("163.84".into(), "163.84".into(), "112.64".into())
    );
    refused(
        &["cost", "--provider", "aws-s3-express", "--storage", "1TiB", "--as-of", "2020-01-01"],
        &["no price for storage on 2020-01-01", "2023-11-28", "--prices"],
    );
    refused(&["cost", "--storage", "1TiB", "--as-of", "1999-01-01"], &["no price", "1999-01-01"]);
    refused(&["cost", "--storage", "1TiB", "--as-of", "June"], &["--as-of", "2024-06-01"]);
}

#[test]
fn all_prices_are_exported_with_their_sources() {
    let out = scratch("prices-export");
    let table = good(&["list", "prices", "--format", "csv"]);
    let header = table.lines().next().unwrap();
    assert!(header.starts_with("offer,provider,region,") && header.contains(",source,as_of,"), "{header}");
    let rows = json(&["list", "prices", "--format", "json"]);
    assert_eq!(rows.as_array().unwrap().len(), table.lines().count() - 1);
    let one = json(&["list", "prices", "aws-s3@eu-central-1", "--format", "json"]);
    assert!(
        one.as_array().unwrap().iter().all(|row| row["region"] == "eu-central-1" && row["offer"] == "aws-s3")
    );
    let file = out.join("prices.parquet");
    good(&["list", "prices", "--format", "parquet", "--output", name(&file)]);
    assert_eq!(&std::fs::read(&file).unwrap()[..4], b"PAR1");
    refused(&["list", "prices", "--format", "parquet"], &["--output"]);
    refused(&["list", "prices", "nowhere", "--format", "csv"], &["nowhere"]);
    refused(&["list", "providers", "--format", "csv"], &["apply only to prices"]);
    let stale = good(&["list", "prices", "--stale", "--as-of", "2026-11-21"]);
    assert!(
        stale.contains("more than a year before 2026-11-21") && stale.contains("aws-s3-standard-ia"),
        "{stale}"
    );
}

#[test]
fn offers_near_a_place_are_compared() {
    let value = json(&["cost", "--storage", "1TB", "--region", "eu", "--as-of", "2026-11-21", "--json"]);
    let regions: Vec<String> = value["bills"]
        .as_array()
        .unwrap()
        .iter()
        .map(|bill| bill["region"].as_str().unwrap().to_string())
        .collect();
    assert!(
        regions.iter().any(|region| region == "eu-west-1")
            && !regions.iter().any(|region| region == "us-east-1")
    );
    let left_out = value["not_priced"].to_string();
    assert!(left_out.contains("wasabi has no prices in eu"), "{left_out}");
    refused(&["cost", "--storage", "1TB", "--region", "mars"], &["--region", "eu"]);
    refused(
        &["cost", "--storage", "1TB", "--region", "eu", "--provider", "nowhere"],
        &["--provider", "nowhere"],
    );
    refused(
        &["cost", "--storage", "1TB", "--region", "asia", "--provider", "wasabi"],
        &["no prices in asia"],
    );
}

#[test]
fn a_discount_lowers_the_prices_of_one_offer() {
    let of = |more: &[&str]| {
        let words = ["cost", "--storage", "1000GiB", "--egress", "1100GiB", "--provider", "aws-s3", "--json"];
        json(&[&words[..], more].concat())
    };
    let total = |value: &serde_json::Value| value["bills"][0]["total_usd"].as_str().unwrap().to_string();
    // 1,000 x 0.023 + 1,000 x 0.09.
    assert_eq!(total(&of(&[])), "113.00");
    let lower = of(&["--discount", "aws-s3=15%"]);
    assert_eq!(total(&lower), "109.55", "the network has its own prices");
    assert!(lower["assumptions"].to_string().contains("15% below the list prices"));
    assert_eq!(total(&of(&["--discount", "aws-s3=15%", "--discount", "aws-network=12.5%"])), "98.30");
    for wrong in ["aws-s3", "aws-s3=15", "aws-s3=101%", "aws-s3=-1%", "nowhere=1%"] {
        refused(&["cost", "--storage", "1TB", "--discount", wrong], &["--discount"]);
    }
}
