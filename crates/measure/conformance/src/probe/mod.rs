//! Determines which features a store supports by sending requests, not from its documentation.
//!
//! Every check writes below the prefix of the probe; the caller deletes that prefix afterwards. A check that fails
//! for an unrelated reason reports that reason instead of guessing. `plimsoll probe` prints the findings.

pub mod checks;
mod features;
mod parts;
pub mod policy;
mod presigned;

use serde::Serialize;

use plimsoll_engine::driver::background::Background;
use plimsoll_engine::store::ownership::KeySpace;
use plimsoll_engine::store::{Failure, Store};
use plimsoll_judge::run_dir::environment::StoreFacts;
use plimsoll_session::open::Opened;

/// Finding of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Name of the check, such as `put and get`.
    pub check: String,
    /// Result: `yes`, `no`, or a value.
    pub answer: String,
    /// Evidence for the result, such as the store's error.
    pub detail: String,
}

/// Findings in the order of the checks.
#[derive(Debug, Default)]
pub struct Findings(pub Vec<Finding>);

impl Findings {
    /// Adds a finding.
    pub fn add(&mut self, check: &str, answer: &str, detail: impl Into<String>) {
        self.0.push(Finding { check: check.into(), answer: answer.into(), detail: detail.into() });
    }

    /// Adds a finding with the result `yes` for `Ok` and `no` for `Err`; both contain the detail.
    pub fn tell(&mut self, check: &str, result: Result<String, String>) {
        match result {
            Ok(detail) => self.add(check, "yes", detail),
            Err(detail) => self.add(check, "no", detail),
        }
    }
}

/// Returns the error class and the first 90 characters of the message, without the request id.
pub(crate) fn brief(failure: &Failure) -> String {
    let message = failure.message.split(" (request id").next().unwrap_or("");
    let message: String = message.chars().take(90).collect();
    format!("{}: {message}", failure.class)
}

/// Runs all checks of a store that accepts writes. `root` is the prefix of the probe in `space`.
pub async fn writing(
    background: &mut Background,
    opened: &Opened,
    space: &KeySpace,
    root: &str,
    findings: &mut Findings,
) {
    let store = opened.store.as_ref();
    checks::objects(background, store, space, root, findings).await;
    checks::listings(background, store, root, findings).await;
    if store.capabilities().multipart {
        parts::multipart(background, root, findings).await;
    }
    presigned::urls(background, opened, root, findings).await;
    if store.capabilities().conditions {
        features::contention(background, store, root, findings).await;
    }
    features::tags_and_copies(background, opened, root, findings).await;
    features::configurations(opened, findings).await;
}

/// Adds the facts that the preflight found: addresses, handshake times, clock, signing.
pub fn connection(facts: &StoreFacts, store: &dyn Store, findings: &mut Findings) {
    findings.add("provider", &facts.provider, store.profile().map_or(String::new(), |p| p.title.clone()));
    if facts.addresses.is_empty() {
        return;
    }
    let addresses = format!("{}: {}", facts.endpoint, facts.addresses.join(", "));
    findings.add("addresses", &facts.addresses.len().to_string(), addresses);
    let ms = |ms: Option<f64>| ms.map_or("-".into(), |ms| format!("{ms:.2} ms"));
    findings.add("round trip", &ms(facts.rtt_ms), "duration of the TCP handshake");
    match facts.tls_ms {
        Some(took) => findings.add("TLS", "yes", format!("handshake {took:.2} ms")),
        None => findings.add("TLS", "no", "data is transferred unencrypted"),
    }
    if let Some(offset) = facts.clock_offset_s {
        let detail = if offset.abs() > 300 {
            "signatures are only valid for 15 minutes"
        } else {
            "store's clock minus this machine's, to within 1 s"
        };
        findings.add("clock", &format!("{offset:+} s"), detail);
    }
    findings.add("signing", &facts.signing, "how requests are signed");
}
