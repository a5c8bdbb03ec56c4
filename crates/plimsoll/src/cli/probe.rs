//! `plimsoll probe STORE`: tests which features a store supports by sending requests to it.
//!
//! Each check writes below its own prefix and deletes what it wrote. A check that fails for a reason other
//! than the tested one reports that reason.

use clap::Args;

use super::exit::Exit;
use super::out::say;
use super::record::Record;
use super::timeout::TimeoutArgument;
use crate::probe::policy::policy;
use crate::probe::{Finding, Findings, checks, connection, writing};
use crate::session::lifecycle::reach;
use crate::session::open;
use crate::session::runtime::block_on;
use plimsoll_document::{Table, terminal};
use plimsoll_engine::driver::background::Background;
use plimsoll_engine::store::ownership::{KeySpace, RunId};

/// Arguments of `plimsoll probe`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Store to test: a URL or a name from plimsoll.toml
    store: String,
    /// Print JSON instead of the table
    #[arg(long)]
    json: bool,
    /// Print the AWS policy with the rights that Plimsoll needs for this store, without contacting it
    #[arg(long, conflicts_with_all = ["json", "create_bucket"])]
    policy: bool,
    /// Create the bucket if it does not exist (it is not deleted afterwards)
    #[arg(long)]
    create_bucket: bool,
    /// PEM file of certificate authorities to trust instead of the system's
    #[arg(long, value_name = "FILE")]
    ca_bundle: Option<std::path::PathBuf>,
    /// Directory for the list of created objects; the list is deleted after a successful clean-up
    #[arg(long, value_name = "DIR", default_value = "plimsoll-runs")]
    out: std::path::PathBuf,
    #[command(flatten)]
    timeout: TimeoutArgument,
}

/// Tests a store and prints the findings.
///
/// # Errors
/// Exit code 2 for invalid input, 3 if the store cannot be used.
pub fn probe(arguments: &Arguments) -> Result<(), Exit> {
    arguments.timeout.apply()?;
    if arguments.policy {
        let url = open::url_of(&arguments.store)?;
        let text = policy(&url).map_err(|e| Exit::input(format!("{}: {e}", arguments.store)))?;
        return say(&text);
    }
    let opened = open::open(&arguments.store, arguments.ca_bundle.as_deref())?;
    let id = RunId::generate();
    let space = KeySpace::of_run(opened.store.prefix(), &id);
    let reached = reach(std::slice::from_ref(&opened), &id, arguments.create_bucket)?;
    let store = opened.store.as_ref();
    let mut findings = Findings::default();
    connection(&reached.facts[0], store, &mut findings);
    let mut background = Background::new(store);
    if store.capabilities().writes {
        let record = Record::create(&arguments.out, &id, reached)?;
        let root = format!("{}probe/", space.root());
        let work = writing(&mut background, &opened, &space, &root, &mut findings);
        block_on(record.control().unless_stopped(work))?;
        record.finish()?;
    } else {
        block_on(checks::reading(&mut background, store, &mut findings))?;
    }
    if arguments.json {
        say(&(serde_json::to_string_pretty(&findings.0).map_err(Exit::store)? + "\n"))
    } else {
        say(&format!("{}\n{}\n", opened.written, table(&findings.0)))
    }
}

fn table(findings: &[Finding]) -> String {
    let mut table = Table::new("", &["", "", ""]);
    for finding in findings {
        table.row([&finding.check, &finding.answer, &finding.detail]);
    }
    terminal::unwrapped(&table)
}
