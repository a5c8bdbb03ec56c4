//! Finds out by requests, not by documentation, which features a store supports.
//!
//! Every check writes below the prefix of the probe; the caller deletes that prefix afterwards. A check that fails for an unrelated
//! reason reports that reason; nothing is guessed. `plimsoll probe` prints the findings.

pub mod checks;
mod parts;
mod presigned;

use serde::Serialize;

use crate::driver::background::Background;
use crate::run_dir::directory::StoreFacts;
use crate::session::open::Opened;
use crate::store::ownership::KeySpace;
use crate::store::{Failure, Store};

/// What one check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was asked.
    pub check: String,
    /// `yes`, `no`, or the figure.
    pub answer: String,
    /// How it showed.
    pub detail: String,
}

/// Findings, in order.
#[derive(Debug, Default)]
pub struct Findings(pub Vec<Finding>);

impl Findings {
    /// Adds one.
    pub fn add(&mut self, check: &str, answer: &str, detail: impl Into<String>) {
        self.0.push(Finding { check: check.into(), answer: answer.into(), detail: detail.into() });
    }

    /// Adds a yes or a no with its reason.
    pub fn tell(&mut self, check: &str, outcome: Result<String, String>) {
        match outcome {
            Ok(detail) => self.add(check, "yes", detail),
            Err(detail) => self.add(check, "no", detail),
        }
    }
}

/// What a failure is, in a few words.
pub(crate) fn brief(failure: &Failure) -> String {
    let message = failure.message.split(" (request id").next().unwrap_or("");
    let message: String = message.chars().take(90).collect();
    format!("{}: {message}", failure.class)
}

/// The checks of a store that takes objects.
pub async fn writing(
    background: &mut Background,
    opened: &Opened,
    (space, root): (&KeySpace, &str),
    findings: &mut Findings,
) {
    let store = opened.store.as_ref();
    checks::objects(background, store, (space, root), findings).await;
    checks::listings(background, store, root, findings).await;
    if store.capabilities().multipart {
        parts::multipart(background, root, findings).await;
    }
    presigned::urls(background, opened, root, findings).await;
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
    findings.add("round trip", &ms(facts.rtt_ms), "time of the TCP handshake");
    match facts.tls_ms {
        Some(took) => findings.add("TLS", "yes", format!("handshake {took:.2} ms")),
        None => findings.add("TLS", "no", "contents travel in the clear"),
    }
    if let Some(offset) = facts.clock_offset_s {
        let told = if offset.abs() > 300 {
            "signatures end at 15 minutes"
        } else {
            "store's clock minus ours, within one second"
        };
        findings.add("clock", &format!("{offset:+} s"), told);
    }
    findings.add("signing", &facts.signing, "how requests are signed");
}
