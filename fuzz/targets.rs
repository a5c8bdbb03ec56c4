//! Fuzz targets: one function for each parser of untrusted input. `cargo fuzz` runs them with coverage guidance;
//! `tests/it/fuzz.rs` runs them on the committed corpus and on seeded mutations of it. A target must return normally
//! for every input.

use http::request::Parts;

use plimsoll_cost::book::Prices;
use plimsoll_experiment::resolve;
use plimsoll_experiment::ycsb::properties::{Family, Properties};
use plimsoll_experiment::ycsb::{RecordEncoding, YcsbPhase, to_spec};
use plimsoll_judge::run_dir::read::intervals;
use plimsoll_s3::chunked::{ChunkDecoder, ChunkSigner};
use plimsoll_s3::credentials::Credentials;
use plimsoll_s3::error::S3Error;
use plimsoll_s3::message::{Listing, completed, delete_many_failure, upload_id, uploads, versions};
use plimsoll_s3::sign::derive_key;
use plimsoll_s3::url;
use plimsoll_s3::xml::Element;
use plimsoll_server::features::Features;
use plimsoll_server::ops::get::parse_range;
use plimsoll_server::{accepts, auth, route};

/// A target and its name. Its corpus has the same name.
pub type Target = (&'static str, fn(&[u8]));

/// All fuzz targets.
pub const TARGETS: &[Target] = &[
    ("xml_client", xml_client),
    ("xml_server", xml_server),
    ("aws_chunked", aws_chunked),
    ("sigv4_header", sigv4_header),
    ("sigv4_query", sigv4_query),
    ("range", range),
    ("store_url", store_url),
    ("experiment", experiment),
    ("ycsb_properties", ycsb_properties),
    ("arrow_log", arrow_log),
    ("price_book", price_book),
    ("request_head", request_head),
];

/// Parses XML responses that the client reads.
pub fn xml_client(data: &[u8]) {
    let _ = Listing::parse(data);
    let _ = uploads(data);
    let _ = versions(data);
    let _ = upload_id(data);
    let _ = completed(data);
    let _ = delete_many_failure(data);
    let _ = S3Error::parse(500, "", data);
    let _ = S3Error::inside_success("", data);
}

/// Parses XML request bodies that the server reads.
pub fn xml_server(data: &[u8]) {
    if let Ok(root) = Element::parse(data) {
        let _: usize =
            root.all("Object").chain(root.all("Part")).filter_map(|e| e.text_of("Key")).map(str::len).sum();
    }
}

/// Decodes an aws-chunked body without and with chunk signatures.
pub fn aws_chunked(data: &[u8]) {
    let decode = |signer: Option<ChunkSigner>| {
        let mut decoder = ChunkDecoder::new(signer.map(Box::new));
        let mut input = bytes::Bytes::copy_from_slice(data);
        while let Ok(Some(_)) = decoder.next(&mut input) {}
        decoder.finish()
    };
    let _ = decode(None);
    let signer = ChunkSigner {
        key: derive_key("secret", "20261121", "us-east-1", "s3"),
        date_time: "20261121T000000Z".into(),
        scope: "20261121/us-east-1/s3/aws4_request".into(),
        previous: "0".repeat(64),
    };
    let _ = decode(Some(signer));
}

/// Builds a request from a method, a target and header lines; `None` if the request is not valid HTTP.
fn request(method: &str, target: &str, lines: &str) -> Option<Parts> {
    let mut builder = http::Request::builder().method(method).uri(target);
    for line in lines.lines() {
        let (name, value) = line.split_once(':')?;
        builder = builder.header(name.trim(), value.trim());
    }
    Some(builder.body(()).ok()?.into_parts().0)
}

/// Runs every check that the server makes before it reads the request body.
fn head(parts: &Parts) {
    let credentials = Credentials::new("AKID", "a-secret-that-no-input-knows", None);
    let query = plimsoll_base::net::encode::parse_query(parts.uri.query().unwrap_or(""));
    let _ = auth::access_key(parts, query.as_deref());
    let _ = auth::verify(parts, query.as_deref(), &credentials, 1_795_219_200);
    if let Ok(route) = route::route(parts) {
        let _ = accepts::check(parts, &route, "owner", &Features::default());
    }
}

/// Authenticates a request with the input as its header lines.
pub fn sigv4_header(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Some(parts) = request("GET", "/bucket/key?list-type=2", &text) {
        head(&parts);
    }
}

/// Authenticates a request with the first line of the input as its query.
pub fn sigv4_query(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let target = format!("/bucket/key?{}", text.lines().next().unwrap_or(""));
    if let Some(parts) = request("GET", &target, "host: localhost") {
        head(&parts);
    }
}

/// Parses a Range header for objects of several sizes.
pub fn range(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for size in [0, 1, 10, 1 << 20, u64::MAX] {
        let _ = parse_range(&text, size);
    }
}

/// Parses a store URL.
pub fn store_url(data: &[u8]) {
    let _ = url::parse(&String::from_utf8_lossy(data), &|_| None);
}

/// Parses and resolves an experiment file.
pub fn experiment(data: &[u8]) {
    let _ = resolve::parse("fuzz.toml", &String::from_utf8_lossy(data), &[]);
}

/// Parses YCSB properties and converts them to an experiment.
pub fn ycsb_properties(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(properties) = Properties::parse("fuzz", &text) {
        for (part, family) in [(YcsbPhase::Load, Family::Ycsb), (YcsbPhase::Run, Family::GoYcsb)] {
            let _ = to_spec(part, &properties, family, RecordEncoding::Bytes, 42);
        }
    }
}

/// Reads an interval log from a temporary run directory.
pub fn arrow_log(data: &[u8]) {
    let thread = format!("{:?}", std::thread::current().id());
    let number: String = thread.chars().filter(char::is_ascii_digit).collect();
    let run = std::env::temp_dir().join(format!("plimsoll-fuzz-{}-{number}", std::process::id()));
    if std::fs::create_dir_all(&run).is_ok() && std::fs::write(run.join("intervals.arrows"), data).is_ok() {
        let _ = intervals(&run);
    }
    let _ = std::fs::remove_dir_all(&run);
}

/// Parses a price book.
pub fn price_book(data: &[u8]) {
    let _ = Prices::only("fuzz.toml", &String::from_utf8_lossy(data));
}

/// Routes and authenticates a request whose first line has a method and a target, followed by header lines.
pub fn request_head(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (line, headers) = text.split_once('\n').unwrap_or((&text, ""));
    let (method, target) = line.trim().split_once(' ').unwrap_or((line, "/"));
    if let Some(parts) = request(method, target, headers) {
        head(&parts);
    }
}
