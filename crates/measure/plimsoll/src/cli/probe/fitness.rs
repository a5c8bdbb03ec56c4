//! `plimsoll probe STORE... --for APPLICATION`: judges whether stores fit applications.

use std::cell::RefCell;
use std::collections::BTreeMap;

use serde::Serialize;

use super::Arguments;
use crate::cli::exit::Exit;
use crate::cli::out::progress;
use crate::cli::record::RunRecord;
use plimsoll_base::clock::{SECOND, now_ns};
use plimsoll_base::units::short_names;
use plimsoll_conformance::fitness::application::{Application, ApplicationError, Level, applications};
use plimsoll_conformance::fitness::check::Check;
use plimsoll_conformance::fitness::client::BucketClient;
use plimsoll_conformance::fitness::scene::MIN_ROUNDS;
use plimsoll_conformance::fitness::verdict::{CheckResult, Fitness, Outcome, Verdict, judge};
use plimsoll_conformance::fitness::{CheckScope, checks_of, run};
use plimsoll_document::{Document, Table};
use plimsoll_engine::store::ownership::{KeySpace, RunId};
use plimsoll_s3::url::StoreUrl;
use plimsoll_session::lifecycle::{reach, require_writes};
use plimsoll_session::open;
use plimsoll_session::runtime::block_on;

impl From<ApplicationError> for Exit {
    fn from(error: ApplicationError) -> Exit {
        Exit::input(error)
    }
}

/// Results of one store.
#[derive(Debug, Serialize)]
struct Judged {
    /// Store as the user wrote it, without credentials.
    store: String,
    verdicts: Vec<Verdict>,
    checks: Vec<CheckResult>,
    /// Requests that were sent.
    requests: u64,
    /// Requests that were repetitions after a failure that may be temporary.
    repeated_requests: u64,
}

/// Results of all stores.
#[derive(Debug, Serialize)]
struct Report<'a> {
    stores: &'a [Judged],
    applications: &'a [Application],
}

/// Judges the stores and prints the verdicts.
///
/// # Errors
/// Exit code 1 if a store does not fit an application or a verdict is inconclusive, 2 for invalid input, 3 if a store
/// cannot be used, 130 after Ctrl-C.
pub fn fitness(arguments: &Arguments) -> Result<(), Exit> {
    let applications = applications(&arguments.applications)?;
    let (mut judged, mut finished) = (Vec::new(), Ok(()));
    for store in &arguments.stores {
        let (one, cleaned) = judge_store(arguments, store, &applications)?;
        judged.push(one);
        finished = finished.and(cleaned);
        if finished.is_err() {
            break;
        }
    }
    let mut document = document(&judged, &applications);
    if let Some(rounds) = arguments.rounds.filter(|rounds| *rounds < MIN_ROUNDS) {
        document.answer =
            format!("{} (a short check, --rounds {rounds}).", document.answer.trim_end_matches('.'));
        document.notes.insert(
            0,
            format!("With --rounds below {MIN_ROUNDS}, large objects and listings of more than 1,000 keys are left out."),
        );
    }
    arguments.form.print(&document, &Report { stores: &judged, applications: &applications })?;
    finished?;
    let is_fit = judged.iter().flat_map(|one| &one.verdicts).all(|verdict| verdict.fitness == Fitness::Fit);
    if is_fit { Ok(()) } else { Err(Exit::check(document.answer.trim_end_matches('.'))) }
}

/// Executes all checks on one store. Returns the results, and the result of the clean-up.
fn judge_store(
    arguments: &Arguments,
    store: &str,
    applications: &[Application],
) -> Result<(Judged, Result<(), Exit>), Exit> {
    let opened = open::open(store, arguments.ca_bundle.as_deref())?;
    require_writes(std::slice::from_ref(&opened))?;
    let url = match (&opened.url, &opened.server) {
        (Some(StoreUrl::S3(url)), _) => (**url).clone(),
        _ => {
            return Err(Exit::input(format!(
                "{store}: --for needs a store with the S3 API, such as s3://bucket"
            )));
        }
    };
    if url.profile.sessions {
        return Err(Exit::input(format!(
            "{store}: --for does not check directory buckets; use a general purpose one"
        )));
    }
    let client = BucketClient::new(&opened, &url).map_err(Exit::input)?;
    let id = RunId::generate();
    let space = KeySpace::of_run(opened.store.prefix(), &id);
    let reached = reach(std::slice::from_ref(&opened), &id, arguments.create_bucket)?;
    let record = RunRecord::create(&arguments.out, &id, reached)?;
    let plan = CheckScope {
        client: &client,
        space: &space,
        root: format!("{}probe/", space.root()),
        rounds: arguments.rounds,
        large: arguments.large,
    };
    let (checks, results) = (checks_of(applications), RefCell::new(Vec::<CheckResult>::new()));
    let work = async {
        let mut noted_ns = now_ns();
        for (number, check) in (1..).zip(&checks) {
            if now_ns() > noted_ns + 5 * SECOND || arguments.large && check.is_large() {
                noted_ns = now_ns();
                progress(format_args!(
                    "{}: check {number} of {}, {}",
                    opened.written,
                    checks.len(),
                    check.name()
                ));
            }
            let earlier = results.borrow().clone();
            let result = run(*check, &plan, &earlier).await;
            results.borrow_mut().push(result);
        }
    };
    block_on(record.control().unless_stopped(work))?;
    let cleaned = record.finish();
    let checks = results.into_inner();
    let verdicts = applications.iter().map(|application| judge(application, &checks)).collect();
    let (requests, repeated_requests) = client.sent();
    Ok((Judged { store: opened.written, verdicts, checks, requests, repeated_requests }, cleaned))
}

fn names(checks: &[Check]) -> String {
    checks.iter().map(|check| check.name()).collect::<Vec<_>>().join(", ")
}

/// Returns the verdict about one store and one application in a sentence.
fn answer(store: &str, verdict: &Verdict) -> String {
    let (title, (required, met)) = (&verdict.title, verdict.required);
    let requirements = if required == 1 { "requirement" } else { "requirements" };
    match verdict.fitness {
        Fitness::Fit if required == 1 => format!("fit: {store} meets the requirement of {title}"),
        Fitness::Fit => format!("fit: {store} meets all {required} {requirements} of {title}"),
        Fitness::Unfit => format!(
            "unfit: {store} does not meet {} of {required} {requirements} of {title}: {}",
            verdict.violated.len(),
            names(&verdict.violated)
        ),
        Fitness::Inconclusive => format!(
            "inconclusive: {store} meets {met} of {required} {requirements} of {title}; without result: {}",
            names(&verdict.unknown)
        ),
    }
}

/// Most verdicts that the answer names.
const MAX_NAMED: usize = 16;

/// Returns the verdicts about several stores or applications in a sentence.
fn summary(judged: &[Judged]) -> String {
    let all: Vec<(&str, &Verdict)> = judged
        .iter()
        .flat_map(|one| one.verdicts.iter().map(|verdict| (one.store.as_str(), verdict)))
        .collect();
    let of = |fitness: Fitness| -> Vec<String> {
        let matching = all.iter().filter(|(_, verdict)| verdict.fitness == fitness);
        matching
            .map(|(store, verdict)| match judged.len() {
                1 => verdict.application.clone(),
                _ => format!("{} on {store}", verdict.application),
            })
            .collect()
    };
    let (unfit, unknown) = (of(Fitness::Unfit), of(Fitness::Inconclusive));
    let fit = all.len() - unfit.len() - unknown.len();
    let subject = match judged {
        [one] if unknown.is_empty() => format!("{} fits {fit} of {} applications", one.store, all.len()),
        [one] => format!("{} is known to fit {fit} of {} applications", one.store, all.len()),
        _ => format!("{fit} of {} pairs of a store and an application fit", all.len()),
    };
    let part = |word: &str, list: &[String]| match list.len() {
        0 => String::new(),
        1..=MAX_NAMED => format!("; {word} for {}", list.join(", ")),
        count => format!("; {word} for {count}, listed below"),
    };
    format!("{subject}{}{}", part("unfit", &unfit), part("inconclusive", &unknown))
}

/// Returns the verdicts with their tables.
fn document(judged: &[Judged], applications: &[Application]) -> Document {
    let [one] = judged else { return overview(judged, applications) };
    let [verdict] = &one.verdicts[..] else { return overview(judged, applications) };
    let figures = requirements(&applications[0], &one.checks);
    let mut tables = vec![figures.clone()];
    tables.extend(one.checks.iter().filter(|result| result.outcome == Outcome::Violated).map(evidence));
    let mut notes = reasons(&applications[0], &one.checks);
    if !verdict.not_recommended.is_empty() {
        notes.push(format!("Recommended, but not met: {}.", names(&verdict.not_recommended)));
    }
    notes.push(format!("The application's documentation: {}", applications[0].url));
    notes.extend(repetitions(judged));
    notes.push(LIMITS.into());
    Document {
        title: format!("Fitness for {}", verdict.title),
        answer: answer(&one.store, verdict) + ".",
        figures,
        tables,
        notes,
        ..Document::default()
    }
}

/// Returns notes about requests that were repeated.
fn repetitions(judged: &[Judged]) -> impl Iterator<Item = String> {
    let repeated = judged.iter().filter(|one| one.repeated_requests > 0);
    repeated.map(|one| {
        let (count, all) = (one.repeated_requests, one.requests);
        format!(
            "{}: {count} of {all} requests were repeated after failures that may be temporary.",
            one.store
        )
    })
}

/// Note about what was checked, and what was not.
const LIMITS: &str = "Checked: the requests that the application sends. Not checked: its speed on the store, durability \
(plimsoll run durability), and rights of other credentials.";

/// Returns the requirements of an application with their results.
fn requirements(application: &Application, results: &[CheckResult]) -> Table {
    let mut table = Table::new("", &["requirement", "level", "result", "detail"]);
    for requirement in &application.requirements {
        let Some(result) = results.iter().find(|result| result.check == requirement.check) else { continue };
        table.row([
            requirement.check.name(),
            requirement.level.name(),
            result.outcome.name(),
            &result.detail,
        ]);
    }
    table
}

/// Returns the reasons of the requirements that are not met.
fn reasons(application: &Application, results: &[CheckResult]) -> Vec<String> {
    let is_met = |check: Check| results.iter().any(|one| one.check == check && one.outcome == Outcome::Met);
    let open = application.requirements.iter().filter(|requirement| !is_met(requirement.check));
    open.map(|one| {
        format!("{} ({}): {} Source: {}", one.check.name(), one.level.name(), one.reason, one.source)
    })
    .collect()
}

/// Returns the exchanges that show a violation.
fn evidence(result: &CheckResult) -> Table {
    let earlier = match result.left_out {
        0 => String::new(),
        count => format!(" ({count} earlier requests are left out)"),
    };
    let head = format!("{}: {}{earlier}", result.check.name(), result.detail);
    let mut table = Table::new(head, &["client#", "at ms#", "request", "answer", "took ms#"]);
    for one in &result.exchanges {
        let (at, took) = (format!("{:.2}", one.at_ms), format!("{:.2}", one.took_ms));
        table.row([one.client.to_string(), at, one.request.clone(), one.answer.clone(), took]);
    }
    table
}

/// Returns a table of applications and stores, with the checks below it.
fn overview(judged: &[Judged], applications: &[Application]) -> Document {
    let stores: Vec<&str> = judged.iter().map(|one| one.store.as_str()).collect();
    let short = short_names(&stores);
    let columns: Vec<&str> = match judged {
        [_] => vec!["application", "verdict", "not met", "no result", "recommended, not met"],
        _ => std::iter::once("application").chain(short.iter().map(String::as_str)).collect(),
    };
    let mut table = Table::new("", &columns);
    for (number, application) in applications.iter().enumerate() {
        let verdicts = judged.iter().map(|one| &one.verdicts[number]);
        let cells: Vec<String> = match judged {
            [one] => {
                let verdict = &one.verdicts[number];
                let (violated, unknown) = (names(&verdict.violated), names(&verdict.unknown));
                vec![verdict.fitness.name().into(), violated, unknown, names(&verdict.not_recommended)]
            }
            _ => verdicts.map(cell).collect(),
        };
        table.row(std::iter::once(application.title.clone()).chain(cells));
    }
    let title = match judged {
        [one] => format!("Fitness of {}", one.store),
        _ => "Fitness of stores".into(),
    };
    let mut tables = vec![table.clone(), problems(judged, applications, &short)];
    tables.retain(|table| !table.rows.is_empty());
    Document {
        title,
        answer: summary(judged) + ".",
        figures: table,
        tables,
        notes: [
            "The counter-examples of one application: plimsoll probe STORE --for APPLICATION".to_string(),
            LIMITS.replace("the application sends", "applications send").replace("its speed", "speed"),
        ]
        .into_iter()
        .chain(repetitions(judged))
        .collect(),
        ..Document::default()
    }
}

/// Returns a verdict in a few words.
fn cell(verdict: &Verdict) -> String {
    match verdict.fitness {
        Fitness::Fit => "fit".into(),
        Fitness::Unfit => format!("unfit: {}", names(&verdict.violated)),
        Fitness::Inconclusive => format!("inconclusive: {}", names(&verdict.unknown)),
    }
}

/// Returns the checks that did not pass, with the applications that need them.
fn problems(judged: &[Judged], applications: &[Application], short: &[String]) -> Table {
    let mut needed: BTreeMap<Check, Vec<&str>> = BTreeMap::new();
    for application in applications {
        for requirement in application.requirements.iter().filter(|one| one.level == Level::Required) {
            needed.entry(requirement.check).or_default().push(&application.name);
        }
    }
    let with_store = judged.len() > 1;
    let mut columns = vec!["check", "result", "detail", "required by"];
    if with_store {
        columns.insert(0, "store");
    }
    let mut table = Table::new("Checks that did not pass", &columns);
    for (one, name) in judged.iter().zip(short) {
        for result in one.checks.iter().filter(|result| result.outcome != Outcome::Met) {
            let by = needed.get(&result.check).map_or_else(|| "-".into(), |names| names.join(", "));
            let mut row = vec![
                result.check.name().to_string(),
                result.outcome.name().into(),
                result.detail.clone(),
                by,
            ];
            if with_store {
                row.insert(0, name.clone());
            }
            table.row(row);
        }
    }
    table
}
