//! The cost of runs: estimated before, itemized after, and bounded by `--max-cost`.

use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;

use crate::support::ask::{refused, usd, write};
use crate::support::{Server, block_on, plimsoll, scratch, text};
use plimsoll_engine::store::{Body, Ignore, Reply, Request, Store};
use serde_json::Value;

/// A server that is billed as Amazon S3, and the directory for its runs.
struct Ground {
    server: Server,
    store: Arc<dyn Store>,
    url: String,
    out: PathBuf,
}

impl Ground {
    fn new(name: &str) -> Ground {
        let server = Server::start("", false);
        let store = server.ready("");
        let url = format!(
            "s3://bucket/team?endpoint={}&provider=aws-s3&style=path&region=us-east-1",
            server.endpoint()
        );
        Ground { server, store, url, out: scratch(name) }
    }

    fn ask(&self, request: Request<'_>) -> Reply {
        block_on(async { self.store.connection(0).execute(request, &mut Ignore).await.unwrap() })
    }

    /// Writes `count` objects of `bytes` bytes each, and returns a file with their keys and sizes.
    fn objects(&self, count: u64, bytes: u64) -> PathBuf {
        let mut keys = String::new();
        for number in 0..count {
            let key = format!("team/there/{number}");
            self.ask(Request::Put { key: &key, body: Body::Whole(vec![7; bytes as usize].into()) });
            keys += &format!("{key}\t{bytes}\n");
        }
        write(&self.out, "sizes", &keys)
    }

    fn run(&self, form: &str, more: &[&str]) -> Output {
        let base = ["run", form, "--store", &self.url, "--warmup", "0s", "--json", "--out"];
        plimsoll(&base).arg(&self.out).args(more).output().unwrap()
    }

    /// Runs, expects that `--max-cost` ends the run, and returns its cost in dollars and its result.
    fn ended(&self, form: &str, more: &[&str]) -> (f64, Value) {
        let output = self.run(form, more);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{more:?}: {message}");
        assert!(
            message.contains("--max-cost $") && message.contains("stopped before it exceeded the limit"),
            "{message}"
        );
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(value["run"]["partial"], true);
        (usd("total_usd")(&value["cost"][0]), value)
    }

    /// Runs, and expects that the run is refused with a message that contains `expected`.
    fn not_run(&self, form: &str, more: &[&str], expected: &str) {
        let output = self.run(form, more);
        assert_eq!(output.status.code(), Some(2), "{more:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(expected), "{more:?}: {}", text(&output.stderr));
    }
}

const SMALL: [&str; 4] = ["--objects", "50", "--size", "64KiB"];

#[test]
fn a_run_reports_its_cost() {
    let ground = Ground::new("budget-reported");
    let output = ground.run("get", &[&SMALL[..], &["--operations", "200", "--max-cost", "1"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let cost = &value["cost"][0];
    assert_eq!((cost["provider"].as_str(), cost["emulated"].as_bool()), (Some("aws-s3"), Some(true)));
    let line = |item: &str| {
        let lines = cost["lines"].as_array().unwrap();
        lines.iter().find(|l| l["item"].as_str().unwrap().starts_with(item)).unwrap().clone()
    };
    // 200 reads of 64 KiB, 50 writes, a check of the bucket, and the listings of the clean-up.
    assert_eq!(line("GET")["quantity"], "0.2");
    let writes: f64 = line("PUT")["quantity"].as_str().unwrap().parse().unwrap();
    assert!((0.052..0.056).contains(&writes), "{writes}");
    assert_eq!(line("egress")["quantity"], "0.01220703125");
    let sum: f64 = cost["lines"].as_array().unwrap().iter().map(usd("amount_usd")).sum();
    assert!((sum - usd("total_usd")(cost)).abs() < 1e-12);
    let estimated = usd("estimated_usd")(cost);
    assert!((estimated / usd("total_usd")(cost) - 1.0).abs() < 0.05, "{estimated} {cost:#}");
}

/// Regression: the bound was checked only after requests, so it did not stop due requests, parts, or requests in
/// flight.
#[test]
fn no_run_exceeds_its_maximum_cost() {
    let ground = Ground::new("budget-ended");
    // One second of requests to this store costs more than the maximum of any of these runs.
    let closed = ["--duration", "30m", "--concurrency", "4", "--max-cost", "0.02"];
    let (spent, _) = ground.ended("get", &[&SMALL[..], &closed].concat());
    assert!((0.018..=0.02).contains(&spent), "{spent}");
    // The plan does not know the size of existing objects: the requests cost 0.016 and the egress 0.2.
    let keys = ground.objects(50, 64 << 10);
    // A busy machine reaches the maximum after a fifth of the requests, however slowly.
    let open =
        ["--rate", "1000/s", "--duration", "40s", "--max-cost", "0.05", "--keys", keys.to_str().unwrap()];
    let (spent, value) = ground.ended("get", &open);
    assert!((0.03..=0.05).contains(&spent), "{spent}");
    assert!(
        value["windows"]
            .as_array()
            .unwrap()
            .iter()
            .all(|w| w["errors"].as_object().is_none_or(|e| e.is_empty()))
    );
    let parts = ["--size", "6MiB", "--part-size", "5MiB", "--parts-in-flight", "3", "--max-cost", "0.001"];
    let (spent, _) =
        ground.ended("put", &[&parts[..], &["--duration", "30m", "--concurrency", "4"]].concat());
    assert!((0.0005..=0.001).contains(&spent), "{spent}");
    let (spent, _) = ground.ended("list", &["--objects", "20", "--duration", "30m", "--max-cost", "0.01"]);
    assert!((0.008..=0.01).contains(&spent), "{spent}");
    // The maximum includes the clean-up, which always runs.
    let list = Request::List { prefix: "team/", start_after: "", token: "", max_keys: 1000 };
    let left = ground.ask(list).listing.unwrap().objects;
    assert_eq!(left.len(), 50, "only the objects that existed before");
}

/// Regression: one of several hosts reported that it had been interrupted.
#[test]
fn each_host_of_a_sharded_run_spends_at_most_its_share() {
    let ground = Ground::new("budget-shards");
    let host = ["--shard", "1/2", "--start-at", "+1s", "--duration", "30m", "--max-cost", "0.04"];
    let output = ground.run("get", &[&SMALL[..], &host].concat());
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(
        message.contains("$0.0200 on each of 2 hosts") && message.contains("plimsoll clean"),
        "{message}"
    );
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(usd("total_usd")(&value["cost"][0]) <= 0.02);
}

/// A run is refused if its estimate or a single request exceeds the maximum, or if a price is missing.
#[test]
fn a_run_that_exceeds_max_cost_or_lacks_a_price_is_refused() {
    let ground = Ground::new("budget-refused");
    ground.not_run("get", &["--operations", "1000000", "--max-cost", "0.1"], "estimated to cost");
    ground.not_run(
        "get",
        &["--operations", "1000000", "--max-cost", "0.1", "--dry-run"],
        "cannot be used with",
    );
    ground.not_run("get", &["--duration", "1s", "--max-cost", "0.0000001"], "--max-cost");
    ground.not_run(
        "get",
        &["--duration", "1s", "--max-cost", "free"],
        "--max-cost 'free' is not a dollar amount",
    );
    let keys = write(&ground.out, "keys", "team/a\nteam/b\n");
    let unknown = ["--keys", keys.to_str().unwrap(), "--duration", "1s", "--max-cost", "1"];
    ground.not_run("get", &unknown, "KEY<tab>BYTES");
    let of = |store: &str, form: &str, more: &[&str], expected: &[&str]| {
        let base = ["run", form, "--store", store, "--max-cost", "1", "--duration", "1s"];
        refused(&[&base[..], more].concat(), expected);
    };
    let unpriced = ground.url.replace("provider=aws-s3", "provider=minio");
    of(&unpriced, "get", &[], &["--max-cost", "are unknown", "--prices"]);
    of(&unpriced, "get", &["--dry-run"], &["--max-cost", "are unknown"]);
    let elsewhere = ground.url.replace("us-east-1", "sa-east-1");
    of(&elsewhere, "get", &[], &["--max-cost", "sa-east-1", "--prices"]);
    let table = format!("dynamodb://table?region=us-east-1&endpoint={}", ground.server.endpoint());
    of(&table, "list", &[], &["--max-cost", "no price is known for ListObjects at aws-dynamodb", "--prices"]);
    let eventual = format!("{table}&consistent=off");
    let dry = plimsoll(&["run", "get", "--store", &eventual, "--dry-run", "--operations", "1000"])
        .output()
        .unwrap();
    assert!(text(&dry.stdout).contains("aws-dynamodb-eventual"), "{}", text(&dry.stdout));

    // A price file without prices for egress or parts: a missing price is not zero.
    let book = cellar(&ground.out);
    let own = ground.url.replace("provider=aws-s3", "provider=minio");
    let prices = ["--prices", book.to_str().unwrap()];
    of(&own, "get", &prices, &["no price is known for egress to the internet at cellar"]);
    let parts = [&prices[..], &["--in-region", "--size", "11MiB", "--part-size", "5MiB"]].concat();
    of(&own, "put", &parts, &["no price is known for CreateMultipartUpload at cellar"]);
    let host = ["--shard", "1/4", "--start-at", "+60s", "--duration", "1s", "--max-cost", "0.00000001"];
    ground.not_run("get", &host, "--max-cost $0.00000001 ($0.00000000250 on each of 4 hosts)");
}

/// Regression: B2 was refused in Plimsoll's default region, and Google's `auto` became us-central1 without a note.
#[test]
fn max_cost_accepts_the_default_region_of_every_provider() {
    let ground = Ground::new("budget-regions");
    for provider in ["aws-s3", "backblaze-b2", "cloudflare-r2", "google-cloud-storage", "tigris", "wasabi"] {
        let url =
            format!("s3://bucket/team?endpoint={}&provider={provider}&style=path", ground.server.endpoint());
        let arguments = ["run", "put", "--store", &url, "--max-cost", "1", "--operations", "10", "--dry-run"];
        let output = plimsoll(&arguments).output().unwrap();
        let table = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{provider}: {}", text(&output.stderr));
        let assumed = table.contains("prices of us-central1 are assumed; the store's region is not known");
        assert_eq!(assumed, provider == "google-cloud-storage", "{table}");
    }
}

/// Regression: B2 charges deleted objects until their versions are removed, but the bound counted only the hour of the
/// run.
#[test]
fn max_cost_includes_charges_for_deleted_bytes() {
    let mut ground = Ground::new("budget-deleted");
    ground.url =
        ground.url.replace("provider=aws-s3", "provider=backblaze-b2").replace("&region=us-east-1", "");
    // 200 MiB cost 0.00146 for an hour and a month, and 0.000002 for the hour alone.
    let put = ["--size", "1MiB", "--objects", "50", "--max-cost", "0.001"];
    ground.not_run("put", &[&put[..], &["--operations", "200"]].concat(), "estimated to cost");
    let (spent, value) =
        ground.ended("put", &[&put[..], &["--duration", "30m", "--concurrency", "4"]].concat());
    assert!((0.0008..=0.001).contains(&spent), "{spent}");
    let notes = value["cost"][0]["notes"].to_string();
    assert!(notes.contains("until a request or a lifecycle rule deletes their versions"), "{notes}");
}

/// Regression: a price with two entries in one file was ignored silently.
#[test]
fn a_price_file_with_a_duplicate_price_is_refused() {
    let ground = Ground::new("budget-doubt");
    let price = "[[price]]\noffers=['aws-s3']\nmeter='storage'\nper='GiB-month'\nusd='0.02'\nfrom='2026-01-01'\n\
                 source='a contract'\nas_of='2026-01'\nconfidence='high'\n";
    let book = write(&ground.out, "twice.toml", &format!("title='t'\n{price}{price}"));
    ground.not_run("get", &["--duration", "1s", "--prices", book.to_str().unwrap()], "twice.toml");
}

/// Writes a price file for the invented offer `cellar`, without prices for egress and parts.
fn cellar(directory: &Path) -> PathBuf {
    let price = |more: &str| {
        format!(
            "[[price]]\noffers=['cellar']\n{more}\nfrom='2026-01-01'\nsource='a bill'\nas_of='2026-01'\nconfidence='high'\n"
        )
    };
    let requests = "meter='requests'\nitem='all'\nper='1000 requests'\nusd='0.001'\n\
                    calls=['PutObject','GetObject','ListObjects','HeadObject','DeleteObject']";
    let text = format!(
        "title='t'\n[[offer]]\nname='cellar'\ntitle='Cellar'\nprovider='minio'\nregions=['here']\n{}{}",
        price("meter='storage'\nper='GB-month'\nusd='0.01'"),
        price(requests)
    );
    write(directory, "cellar.toml", &text)
}
