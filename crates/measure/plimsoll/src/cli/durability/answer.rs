//! The answer of a check: a sentence, the table of operations, the proofs and the notes.

use super::Arguments;
use plimsoll_base::units::{counted, format_count};
use plimsoll_document::{Document, Table};
use plimsoll_durability::findings::{Findings, Proof};
use plimsoll_durability::history::OperationKind;
use plimsoll_durability::violation::ViolationKind;
use plimsoll_report::shell::quoted;

/// Returns the server, with what was done to it besides the cuts.
fn subject(findings: &Findings) -> String {
    let mut done = Vec::new();
    if !findings.fault.is_empty() {
        done.push(format!("fault {}", findings.fault));
    }
    if !findings.ignored_syncs.is_empty() {
        done.push(format!("syncs of '{}' ignored", findings.ignored_syncs));
    }
    match done.is_empty() {
        true => findings.server.clone(),
        false => format!("{} ({})", findings.server, done.join(", ")),
    }
}

/// Returns the part of the answer about violations.
fn violated(findings: &Findings) -> String {
    let (count, due) = (findings.violation_count(), counted(findings.due(), "acknowledged operation"));
    let count = format_count(count);
    if findings.flipped.0 > 0 {
        let bits = counted(findings.flipped.0, "flipped bit");
        return format!("served wrong bytes for {count} of {due} after {bits}");
    }
    let kinds = ViolationKind::ALL.into_iter().filter(|kind| findings.count(*kind) > 0);
    let kinds: Vec<String> =
        kinds.map(|kind| format!("{} {}", format_count(findings.count(kind)), kind.name())).collect();
    format!(
        "did not keep {count} of {due} whose effect was due after {} ({}); the oldest was acknowledged {} before the cut",
        counted(findings.cuts, "cut"),
        kinds.join(", "),
        age(findings.oldest_ms)
    )
}

/// Returns the answer in a sentence.
pub fn answer(findings: &Findings) -> String {
    let (server, cuts) = (subject(findings), counted(findings.cuts, "cut"));
    let due = counted(findings.due(), "acknowledged operation");
    let mut parts = Vec::new();
    if findings.violation_count() > 0 {
        parts.push(violated(findings));
    }
    if !findings.not_starting.is_empty() {
        let count = format_count(findings.not_starting.len() as u64);
        parts.push(format!("did not start after {count} of {cuts}"));
    }
    if !findings.not_writable.is_empty() {
        let count = format_count(findings.not_writable.len() as u64);
        parts.push(format!("accepted no writes after {count} of {cuts}"));
    }
    match (parts.is_empty(), findings.due(), findings.flipped.0) {
        (false, ..) => format!("{server} {}", parts.join("; it ")),
        (true, 0, _) => format!("inconclusive: {server} acknowledged nothing in {cuts}"),
        (true, _, 0) if findings.answered_throughout > 0 => format!(
            "{server} kept all {due} whose effect was due after {cuts}, and answered throughout {} of them: check that \
             --cut cuts its power",
            format_count(findings.answered_throughout)
        ),
        (true, _, 0) => format!("{server} kept all {due} whose effect was due after {cuts}"),
        (true, _, bits) => format!(
            "{server} served no wrong byte after {}: it refused or lost {} of {due}",
            counted(bits, "flipped bit"),
            format_count(findings.flipped.1)
        ),
    }
}

/// Formats a time before the cut.
fn age(ms: f64) -> String {
    if ms < 1000.0 { format!("{ms:.0} ms") } else { format!("{:.1} s", ms / 1000.0) }
}

/// Returns the answer with its tables.
pub fn document(findings: &Findings, arguments: &Arguments) -> Document {
    let disk = match (findings.model.as_str(), findings.fault.as_str()) {
        ("", _) => format!("cut by '{}'", arguments.cut.as_deref().unwrap_or_default()),
        (model, "") => format!("simulated disk with the rules of {model}"),
        (model, fault) => format!("simulated disk with the rules of {model}, fault {fault}"),
    };
    let version = findings.version.as_ref().map_or(String::new(), |version| format!(" ({version})"));
    let mut tables = vec![kinds(findings)];
    tables.extend(findings.proofs.iter().map(proof));
    let mut starts =
        Table::new("Cuts after which the server did not work", &["cut#", "problem", "last words"]);
    for (cut, words) in &findings.not_starting {
        starts.row([cut.to_string(), "does not start".into(), words.clone()]);
    }
    for (cut, words) in &findings.not_writable {
        starts.row([cut.to_string(), "accepts no writes".into(), words.clone()]);
    }
    if !starts.rows.is_empty() {
        tables.push(starts);
    }
    Document {
        title: format!("Durability of {}", findings.server),
        what: vec![format!("{}{version}, {disk}, seed {}", findings.server, findings.seed)],
        answer: answer(findings) + ".",
        figures: kinds(findings),
        tables,
        notes: notes(findings, arguments),
        ..Document::default()
    }
}

fn kinds(findings: &Findings) -> Table {
    let names: Vec<String> = ViolationKind::ALL.iter().map(|kind| format!("{}#", kind.name())).collect();
    let mut columns = vec!["operation", "acknowledged#", "due after a cut#"];
    columns.extend(names.iter().map(String::as_str));
    let mut table = Table::new("", &columns);
    for kind in OperationKind::ALL {
        let Some(counts) = findings.kinds.get(&kind) else { continue };
        let violations =
            ViolationKind::ALL.iter().map(|kind| counts.violations.get(kind).copied().unwrap_or(0));
        let numbers = [counts.acknowledged, counts.due].into_iter().chain(violations).map(format_count);
        table.row(std::iter::once(kind.name().to_string()).chain(numbers).collect::<Vec<_>>());
    }
    table
}

fn proof(proof: &Proof) -> Table {
    let violation = &proof.violation;
    let head = format!(
        "Proof: {} ({}), key {}, shown in {} of {} repetitions",
        violation.kind.name(),
        violation.detail,
        violation.key,
        proof.repeated.0,
        proof.repeated.1
    );
    let mut table = Table::new(head, &["step", ""]);
    let last = proof.operations.len() as u64;
    for (number, operation) in (1_u64..).zip(&proof.operations) {
        let end = match number == last && proof.interrupted > 0 {
            true => format!("the power fails after {} of the disk", counted(proof.interrupted, "step")),
            false => "acknowledged".to_string(),
        };
        table.row([number.to_string(), format!("{operation}: {end}")]);
        if number == proof.written_back {
            let why = "the disk writes everything back, as the kernel does every few seconds";
            table.row(["disk".to_string(), why.into()]);
        }
    }
    let cut = match proof.interrupted {
        0 => format!("the power fails {} later; {}", age(violation.age_ms), proof.fate),
        _ => proof.fate.clone(),
    };
    table.row(["cut".to_string(), cut]);
    for lost in &proof.lost {
        table.row(["not synced".to_string(), lost.clone()]);
    }
    table.row(["after".to_string(), violation.detail.clone()]);
    table
}

/// Returns the command that executes a cut again.
fn again(findings: &Findings, arguments: &Arguments, cut: u64) -> Option<String> {
    let mut words =
        vec!["plimsoll run durability --server".to_string(), quoted(arguments.server.as_deref()?)];
    let mut add = |name: &str, value: &str| words.extend([name.to_string(), quoted(value)]);
    add("--model", &findings.model);
    if !findings.fault.is_empty() {
        add("--fault", &findings.fault);
    }
    if !findings.ignored_syncs.is_empty() {
        add("--ignore-syncs", &findings.ignored_syncs);
    }
    add("--operations", &findings.operations.to_string());
    add("--clients", &findings.clients.to_string());
    add("--disk-size", &arguments.disk_size);
    add("--seed", &findings.seed.to_string());
    add("--only", &cut.to_string());
    Some(words.join(" "))
}

fn notes(findings: &Findings, arguments: &Arguments) -> Vec<String> {
    let server = arguments.server.as_deref();
    let mut notes = Vec::new();
    if findings.cuts_during_start > 0 {
        notes.push(format!(
            "In {}, the power failed again while the server started.",
            counted(findings.cuts_during_start, "cut")
        ));
    }
    if let Some(command) = findings.violations.first().and_then(|first| again(findings, arguments, first.cut))
    {
        let order = if findings.clients > 1 { ", which several clients send in another order" } else { "" };
        notes.push(format!("The same operations and moment again{order}: {command}"));
    }
    if findings.is_durable() && findings.cuts > 0 {
        // The share p with (1 - p)^n = 0.05.
        let percent = 100.0 * (1.0 - 0.05_f64.powf(1.0 / findings.cuts as f64));
        notes.push(format!(
            "A server with violations in {percent:.1}% of such cuts would have been found, with 95% confidence."
        ));
    }
    if findings.violations_omitted > 0 {
        let omitted = counted(findings.violations_omitted, "violation");
        notes.push(format!("The JSON lists the first 1,000 violations, without {omitted}."));
    }
    if findings.unanswered > 0 {
        notes.push(format!(
            "{} had no answer before the cut; any effect is accepted.",
            counted(findings.unanswered, "operation")
        ));
    }
    if !findings.tags {
        notes.push("The server keeps no tags, so these are not checked.".into());
    }
    if !findings.versions {
        notes.push(match server {
            Some(_) => "The server kept no versions when Plimsoll tried, so these are not checked.".into(),
            None => "Versions are checked only on a simulated disk.".into(),
        });
    }
    if server.is_none() {
        return notes;
    }
    if !findings.syncs_whole_disk {
        notes.push(
            "The system allows no filter of system calls, so a sync or syncfs of the whole file system does not reach the \
             simulated disk, and keeps nothing."
                .into(),
        );
    }
    notes.push(
        "Simulated: what the file system may lose. Not simulated: caches and firmware of controllers.".into(),
    );
    notes
}
