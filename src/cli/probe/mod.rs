//! `plimsoll probe STORE`: what a store really does, found out by asking it, not by reading its documentation.
//!
//! Every check writes under a prefix of its own and removes what it wrote. A check that fails for another reason than the one it
//! looks at says so; nothing is guessed.

mod checks;
mod parts;
mod presigned;

use clap::Args;
use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;

use super::exit::{Exit, block_on};
use super::preflight::preflight;
use super::session::run_id;
use super::stores;
use crate::driver::clean::{delete, insist};
use crate::report::directory::StoreFacts;
use crate::store::{Failure, Lane, Request, Store};

/// Arguments of `plimsoll probe`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Store to ask: a URL or a name from plimsoll.toml
    store: String,
    /// Print JSON instead of the table
    #[arg(long)]
    json: bool,
    /// Create the bucket when it is missing (it is never deleted)
    #[arg(long)]
    create_bucket: bool,
    /// PEM file of certificate authorities to trust instead of the system's
    #[arg(long, value_name = "FILE")]
    ca_bundle: Option<std::path::PathBuf>,
}

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
pub struct Findings(Vec<Finding>);

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
pub fn brief(failure: &Failure) -> String {
    let message = failure.message.split(" (request id").next().unwrap_or("");
    let message: String = message.chars().take(90).collect();
    format!("{}: {message}", failure.class)
}

/// Probes.
///
/// # Errors
/// 2 for bad input, 3 when the store cannot be used at all.
pub fn probe(arguments: &Arguments) -> Result<(), Exit> {
    let opened = stores::open(&arguments.store, arguments.ca_bundle.as_deref())?;
    let facts = preflight(&opened, &run_id(), arguments.create_bucket)?;
    let store = opened.store.as_ref();
    let mut findings = Findings::default();
    surroundings(&facts, store, &mut findings);
    let root = format!("{}probe/", facts.root);
    let outcome = block_on(async {
        let mut lane = store.lane(0);
        if store.capabilities().writes {
            checks::objects(lane.as_mut(), store, &root, &mut findings).await;
            checks::listings(lane.as_mut(), store, &root, &mut findings).await;
            if store.capabilities().multipart {
                parts::multipart(lane.as_mut(), &root, &mut findings).await;
            }
            presigned::urls(lane.as_mut(), &opened, &root, &mut findings).await;
            clean(lane.as_mut(), &root).await
        } else {
            checks::reading(lane.as_mut(), store, &mut findings).await;
            Ok(())
        }
    })?;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&findings.0).map_err(Exit::store)?);
    } else {
        println!("{}\n{}", opened.written, table(&findings.0));
    }
    outcome.map_err(|f| Exit::store(format!("{}: {root} could not be cleaned: {f}", opened.written)))
}

fn surroundings(facts: &StoreFacts, store: &dyn Store, findings: &mut Findings) {
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

async fn clean(lane: &mut dyn Lane, root: &str) -> Result<(), Failure> {
    let mut one_by_one = false;
    if let Ok(reply) = insist(lane, Request::ListUploads { prefix: root }).await {
        for (key, upload_id) in &reply.uploads {
            insist(lane, Request::AbortMultipart { key, upload_id }).await?;
        }
    }
    let mut token = String::new();
    loop {
        let list = Request::List { prefix: root, start_after: "", token: &token, max_keys: 1000 };
        let page = insist(lane, list).await?.listing.unwrap_or_default();
        let keys: Vec<String> = page.objects.into_iter().map(|o| o.key).collect();
        if !keys.is_empty() {
            delete(lane, &keys, &mut one_by_one).await?;
        }
        match page.next_token {
            Some(next) => token = next,
            None => return Ok(()),
        }
    }
}

fn table(findings: &[Finding]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    for finding in findings {
        table.add_row([&finding.check, &finding.answer, &finding.detail]);
    }
    crate::report::terminal::table::lines(&table)
}
