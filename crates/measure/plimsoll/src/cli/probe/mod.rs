//! `plimsoll probe STORE...`: tests which features stores support by sending requests to them, or with `--for` whether
//! they fit applications.
//!
//! Each check writes below its own prefix and deletes what it wrote. A check that fails for a reason other
//! than the tested one reports that reason.

mod fitness;

use clap::Args;
use serde::Serialize;

use super::cost::form::{FormArguments, Format};
use super::exit::Exit;
use super::out::{progress, say};
use super::record::RunRecord;
use super::timeout::TimeoutArgument;
use plimsoll_base::units::short_names;
use plimsoll_conformance::probe::policy::policy;
use plimsoll_conformance::probe::{Finding, Findings, checks, connection, writing};
use plimsoll_document::{Document, Table};
use plimsoll_engine::driver::background::Background;
use plimsoll_engine::store::ownership::{KeySpace, RunId};
use plimsoll_s3::url::web::redacted as redacted_url;
use plimsoll_session::lifecycle::reach;
use plimsoll_session::open;
use plimsoll_session::runtime::block_on;

/// Arguments of `plimsoll probe`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Stores to test: URLs, NAME=URL, or names from plimsoll.toml. Several stores are the columns of one table
    #[arg(required = true, value_name = "STORE")]
    stores: Vec<String>,
    /// Check whether the stores fit applications, separated by commas: all, a TOML file with requirements, delta,
    /// docker-registry, elasticsearch, fluent-bit, iceberg, kopia, litestream, loki, nix, opentofu, restic, s3-api,
    /// slatedb, terraform, thanos or velero
    #[arg(long = "for", value_name = "APPLICATION", value_delimiter = ',')]
    applications: Vec<String>,
    /// Repetitions of each check of concurrent requests [default: as many as fit into 10 s, from 20 to 300]. With fewer
    /// than 20, large objects and listings of more than 1,000 keys are left out
    #[arg(long, value_name = "N", requires = "applications", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    rounds: Option<u64>,
    /// Also execute the checks that transfer gigabytes (54 GiB for s3-api)
    #[arg(long, requires = "applications")]
    large: bool,
    /// Print the AWS policy with the rights that Plimsoll needs for this store, without contacting it
    #[arg(long, conflicts_with_all = ["json", "format", "output", "create_bucket", "applications"])]
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
    #[command(flatten)]
    form: FormArguments,
}

/// Findings of one store.
#[derive(Debug, Serialize)]
struct Probed {
    /// Store as the user wrote it, without credentials.
    store: String,
    findings: Vec<Finding>,
}

/// Tests stores and prints the findings.
///
/// # Errors
/// Exit code 2 for invalid input, 3 if a store cannot be used.
pub fn probe(arguments: &Arguments) -> Result<(), Exit> {
    arguments.timeout.apply()?;
    if arguments.policy {
        let policies = arguments.stores.iter().map(|store| {
            let url = open::url_of(store)?;
            policy(&url).map_err(|e| Exit::input(format!("{store}: {e}")))
        });
        return policies.collect::<Result<Vec<_>, _>>()?.iter().try_for_each(|text| say(text));
    }
    arguments.form.check()?;
    if !arguments.applications.is_empty() {
        return fitness::fitness(arguments);
    }
    let mut probed = Vec::new();
    for store in &arguments.stores {
        if arguments.stores.len() > 1 {
            progress(format_args!("{}: probing", redacted_url(store)));
        }
        probed.push(probe_store(arguments, store)?);
    }
    let json = |value: serde_json::Result<String>| value.map(|text| text + "\n").map_err(Exit::store);
    match (&probed[..], arguments.form.format()) {
        ([one], Format::Json) => arguments.form.write(&json(serde_json::to_string_pretty(&one.findings))?),
        (several, Format::Json) => arguments.form.write(&json(serde_json::to_string_pretty(several))?),
        (several, _) => arguments.form.print(&document(several), &several),
    }
}

/// Returns the findings as tables.
fn document(probed: &[Probed]) -> Document {
    let what: Vec<String> = probed.iter().map(|one| one.store.clone()).collect();
    let title = "Features of the store".into();
    match probed {
        [one] => Document {
            title,
            what,
            figures: table(&one.findings),
            tables: vec![table(&one.findings)],
            ..Document::default()
        },
        several => {
            let (answers, details) = comparison(several);
            let figures = answers.clone();
            let tables = [answers, details].into_iter().filter(|table| !table.rows.is_empty()).collect();
            Document { title: "Features of stores".into(), what, figures, tables, ..Document::default() }
        }
    }
}

/// Tests one store.
fn probe_store(arguments: &Arguments, store: &str) -> Result<Probed, Exit> {
    let opened = open::open(store, arguments.ca_bundle.as_deref())?;
    let id = RunId::generate();
    let space = KeySpace::of_run(opened.store.prefix(), &id);
    let reached = reach(std::slice::from_ref(&opened), &id, arguments.create_bucket)?;
    let store = opened.store.as_ref();
    let mut findings = Findings::default();
    connection(&reached.facts[0], store, &mut findings);
    let mut background = Background::new(store);
    if store.capabilities().writes {
        let record = RunRecord::create(&arguments.out, &id, reached)?;
        let root = format!("{}probe/", space.root());
        let work = writing(&mut background, &opened, &space, &root, &mut findings);
        block_on(record.control().unless_stopped(work))?;
        record.finish()?;
    } else {
        block_on(checks::reading(&mut background, store, &mut findings))?;
    }
    Ok(Probed { store: opened.written, findings: findings.0 })
}

fn table(findings: &[Finding]) -> Table {
    let mut table = Table::new("", &["check", "answer", "detail"]);
    for finding in findings {
        table.row([&finding.check, &finding.answer, &finding.detail]);
    }
    table
}

/// Returns the answers of several stores as one table, a column for each, and the details of answers that differ.
fn comparison(probed: &[Probed]) -> (Table, Table) {
    let stores: Vec<&str> = probed.iter().map(|one| one.store.as_str()).collect();
    let names = short_names(&stores);
    let mut columns = vec!["check"];
    columns.extend(names.iter().map(String::as_str));
    let (mut table, mut details) = (
        Table::new("", &columns),
        Table::new("Answers that differ", &["check", "store", "answer", "detail"]),
    );
    let mut checks: Vec<&str> = Vec::new();
    for finding in probed.iter().flat_map(|one| &one.findings) {
        if !checks.contains(&finding.check.as_str()) {
            checks.push(&finding.check);
        }
    }
    for check in checks {
        let found: Vec<Option<&Finding>> =
            probed.iter().map(|one| one.findings.iter().find(|finding| finding.check == check)).collect();
        let answers: Vec<&str> = found.iter().map(|f| f.map_or("-", |f| f.answer.as_str())).collect();
        table.row(std::iter::once(check).chain(answers.iter().copied()));
        let differ = answers.iter().any(|answer| *answer != answers[0]);
        for (finding, name) in found.iter().zip(&names).filter(|_| differ) {
            if let Some(finding) = finding.filter(|f| f.answer == "no" || f.answer == "unknown") {
                details.row([check, name, &finding.answer, &finding.detail]);
            }
        }
    }
    (table, details)
}
