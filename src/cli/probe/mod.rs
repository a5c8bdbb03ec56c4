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
use super::out::say;
use super::preflight::preflight;
use super::record::Record;
use super::stores::{self, Opened};
use super::timeout::TimeoutArgument;
use crate::driver::background::Background;
use crate::driver::clean::{Owned, clean};
use crate::run_dir::directory::StoreFacts;
use crate::store::ownership::{KeySpace, RunId};
use crate::store::{Failure, Store};

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
    /// Directory for the record of what the probe creates; it is deleted again at the end
    #[arg(long, value_name = "DIR", default_value = "plimsoll-runs")]
    out: std::path::PathBuf,
    #[command(flatten)]
    timeout: TimeoutArgument,
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
    arguments.timeout.apply()?;
    let opened = stores::open(&arguments.store, arguments.ca_bundle.as_deref())?;
    let id = RunId::fresh();
    let space = KeySpace::of_run(opened.store.prefix(), &id);
    let facts = preflight(&opened, &space, arguments.create_bucket)?;
    let store = opened.store.as_ref();
    let mut findings = Findings::default();
    surroundings(&facts, store, &mut findings);
    let mut background = Background::new(store);
    if store.capabilities().writes {
        let record = Record::create(&arguments.out, &id, facts)?;
        let root = format!("{}probe/", space.root());
        let work = writing(&mut background, &opened, (&space, &root), &mut findings);
        block_on(record.control().unless_stopped(work))?;
        let cleaned = block_on(async {
            let mut background = Background::new(store);
            clean(store, &mut background, &space, &Owned::everything(), |_| {}).await
        })?;
        record.finish(&opened.written, cleaned.map(|_| ()))?;
    } else {
        block_on(checks::reading(&mut background, store, &mut findings))?;
    }
    if arguments.json {
        say(&(serde_json::to_string_pretty(&findings.0).map_err(Exit::store)? + "\n"))
    } else {
        say(&format!("{}\n{}\n", opened.written, table(&findings.0)))
    }
}

/// The checks of a store that takes objects.
async fn writing(
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

fn table(findings: &[Finding]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    for finding in findings {
        table.add_row([&finding.check, &finding.answer, &finding.detail]);
    }
    crate::report::terminal::table::lines(&table)
}
