//! `plimsoll-gateway status`: the state of a store.

use std::time::Duration;

use clap::Args;

use super::Exit;
use super::admin::client;
use super::out::{Output, say};
use super::place::StoreArguments;
use super::target::Target;
use crate::config::CatalogPlace;
use crate::overview::{Counts, Overview, overview};
use plimsoll_backup::last;
use plimsoll_backup::running::BackupState;
use plimsoll_catalog::ambient::{now_ms, shared_now_ms, utc_text};
use plimsoll_catalog::disk::real::RealDisk;
use plimsoll_catalog::embedded::document;
use plimsoll_catalog::embedded::manifest::Manifest;
use plimsoll_catalog::embedded::segment::HEADER;
use plimsoll_catalog::embedded::segment_list::SegmentList;
use plimsoll_catalog::following::FollowState;
use plimsoll_catalog::following::Leader;
use plimsoll_catalog::postgres::{Access, Database, PostgresCatalog};
use plimsoll_maintenance::mover::condition::show_time_ms;
use plimsoll_maintenance::scrub::progress::{self, Progress};
use plimsoll_objects::lease;

/// Arguments of `plimsoll-gateway status`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    pub place: StoreArguments,
    /// Print the state again every two seconds
    #[arg(long)]
    watch: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Prints the state of the running gateway. If no gateway uses the directory, prints the state in its files.
///
/// # Errors
/// Exit code 1 if the log is damaged, 3 if the directory cannot be read.
pub fn status(arguments: &Arguments) -> Result<(), Exit> {
    /// Time between two states.
    const EVERY: Duration = Duration::from_secs(2);
    loop {
        let printed = status_once(arguments);
        if !arguments.watch || printed.as_ref().is_err_and(|exit| exit.code != 1) {
            return printed;
        }
        #[allow(clippy::disallowed_methods)]
        std::thread::sleep(EVERY);
        say(if arguments.json { "" } else { "\n" })?;
    }
}

fn status_once(arguments: &Arguments) -> Result<(), Exit> {
    let place = &arguments.place;
    place.must_exist()?;
    let place_of_catalog = place.settings()?.0;
    if let CatalogPlace::Directory(catalog) = &place_of_catalog
        && let Some(stream) = client::connect(catalog)?
    {
        return client::execute(stream, client::own_arguments());
    }
    let catalog = match place_of_catalog {
        CatalogPlace::Directory(catalog) => catalog,
        CatalogPlace::Database(database) => return of_database(arguments, &database),
    };
    let disk = RealDisk::new(&catalog).map_err(|e| place.fail(&e))?;
    let written = std::fs::metadata(Manifest::path(&catalog)).and_then(|found| found.modified()).ok();
    let written = written.and_then(|time| jiff::Timestamp::try_from(time).ok());
    let (manifest, manifest_problem) =
        document::or_damage(Manifest::load(&disk)).map_err(|e| place.fail(&e))?;
    let (list, list_problem) = document::or_damage(SegmentList::load(&disk)).map_err(|e| place.fail(&e))?;
    let is_known = manifest_problem.is_none();
    let problems: Vec<String> = manifest_problem.into_iter().chain(list_problem).collect();
    let manifest = manifest.flatten().unwrap_or_default();
    // The list may be newer than its copy in the manifest.
    let list = list.flatten().unwrap_or_default();
    let list = if list.version >= manifest.list.version { list } else { manifest.list.clone() };
    if arguments.json {
        // The salt is secret: with it, a client could write bytes that look like a part of the log.
        let list = SegmentList { salt: 0, ..list.clone() };
        let manifest = Manifest { list: list.clone(), ..manifest.clone() };
        let text = match is_known {
            true => serde_json::to_string_pretty(&manifest),
            false => serde_json::to_string_pretty(&serde_json::json!({ "damaged": problems, "list": list })),
        };
        say(&format!("{}\n", text.map_err(Exit::store)?))?;
    } else {
        let as_of = written.map_or_else(|| "unknown".to_string(), |time| format!("{time:.0}"));
        say(&describe_files(is_known.then_some(&manifest), &list, &as_of))?;
        say(&format!("damage     {}\n", list.damage.len() + problems.len()))?;
        for problem in &problems {
            say(&format!("damaged: {problem}; the next start builds it again\n"))?;
        }
        for damage in &list.damage {
            say(&format!("damaged: {} at offset {}: {}\n", damage.file, damage.offset, damage.problem))?;
        }
    }
    if list.damage.is_empty() {
        return if problems.is_empty() { Ok(()) } else { Err(Exit::check("the index is damaged")) };
    }
    Err(Exit::check("the log is damaged; run `plimsoll-gateway scrub` to list the affected objects"))
}

/// Describes the log and the index. Without an intact manifest, only the number of segments is known.
fn describe_files(manifest: Option<&Manifest>, list: &SegmentList, as_of: &str) -> String {
    let segments = list.segments.len();
    let Some(manifest) = manifest else {
        return format!("state      unknown\nsegments   {segments}\n");
    };
    let bytes: u64 = manifest.segments.iter().map(|s| s.bytes.saturating_sub(HEADER)).sum();
    let live: u64 = manifest.segments.iter().map(|s| s.live).sum();
    let state =
        if manifest.clean_end.is_some() { "stopped cleanly" } else { "in use, or not stopped cleanly" };
    let garbage = 100 * (bytes - live.min(bytes)) / bytes.max(1);
    let tables = manifest.tables.len();
    format!(
        "state      {state}\nindex of   {as_of}\nsegments   {segments}, {bytes} bytes, {garbage}% garbage\ntables     {tables}\n"
    )
}

/// Prints the sessions of the gateways that use a database.
fn of_database(arguments: &Arguments, database: &Database) -> Result<(), Exit> {
    let place = &arguments.place;
    let catalog = PostgresCatalog::open(database, Access::ReadOnly).map_err(|e| place.fail(&e))?;
    let found = lease::status(&catalog, now_ms()).map_err(|e| place.fail(&e))?;
    if arguments.json {
        let value =
            serde_json::json!({ "sessions": found.sessions, "leader": found.leader, "epoch": found.epoch });
        return say(&format!("{value}\n"));
    }
    let leader = found.leader.map_or("none".to_string(), |leader| leader.to_string());
    let sessions: Vec<String> = found.sessions.iter().map(u64::to_string).collect();
    let (sessions, epoch) = (sessions.join(", "), found.epoch);
    let backup = last::time_ms(&catalog).map_err(|e| place.fail(&e))?;
    let scrub = progress::load(&catalog).map_err(|e| place.fail(&e))?;
    say(&format!("sessions   {sessions}\nleader     {leader}, epoch {epoch}\n"))?;
    say(&format!("verified   {}\nbackup     {}\n", verified(&scrub), backup_age(backup, now_ms())))
}

/// Prints the state of the store of a running gateway.
///
/// # Errors
/// Exit code 1 if the log is damaged or nothing can be written, 3 if the catalog fails.
pub fn served(arguments: &Arguments, target: &Target, out: &dyn Output) -> Result<(), Exit> {
    let found = overview(&target.store, &target.backup, &target.survey, &target.rules.tariffs);
    let found = found.map_err(|e| target.fail(&e))?;
    if arguments.json {
        out.say(&format!("{}\n", serde_json::to_string_pretty(&found).map_err(Exit::store)?))?;
    } else {
        out.say(&text(&found, shared_now_ms()))?;
    }
    match (&found.problem, &found.log) {
        (Some(problem), _) => Err(Exit::check(problem)),
        (None, Some(log)) if !log.damage.is_empty() => {
            Err(Exit::check("the log is damaged; run `plimsoll-gateway scrub` to list the affected objects"))
        }
        _ => Ok(()),
    }
}

/// Describes the state of a running gateway. The first line says whether it works.
fn text(found: &Overview, now_ms: u64) -> String {
    let mut lines = vec![format!("state      {}", state(found))];
    let leader = found.leader.map_or("none".into(), |leader| format!("session {leader}"));
    let (sessions, epoch, own) = (found.sessions.len(), found.epoch, found.own_session);
    lines.push(format!("gateways   {sessions}, this one is session {own}; leader: {leader}, epoch {epoch}"));
    for (name, tier) in &found.tiers {
        let answers = if tier.answers { "" } else { "; does not answer" };
        let cost = tier.dollars_per_month.map_or(String::new(), |usd| format!(", ${usd:.2} a month"));
        let kept = match (tier.kept_bytes, tier.kept_dollars_per_month) {
            (0, _) => String::new(),
            (bytes, None) => format!("; {bytes} bytes more of deleted objects are kept"),
            (bytes, Some(usd)) => {
                format!("; {bytes} bytes more of deleted objects are kept (${usd:.2} a month)")
            }
        };
        // Zeros would be wrong.
        let counted = match found.counts {
            Some(_) => format!("{} blobs, {} bytes{cost}{kept}", tier.blobs, tier.bytes),
            None => "not counted by this gateway yet".into(),
        };
        lines.push(format!("tier       {name}: {counted}{answers}"));
    }
    if let Some(counts) = &found.counts {
        let Counts { objects, bytes, inline_objects, inline_bytes, kept_objects, kept_bytes, .. } = counts;
        lines.push(format!(
            "objects    {objects} with {bytes} bytes; {inline_objects} with {inline_bytes} bytes are in the catalog"
        ));
        lines.push(format!(
            "kept       {kept_objects} deleted or replaced objects with {kept_bytes} bytes, for {}",
            show_time_ms(found.retain_ms)
        ));
        lines.push(format!(
            "waiting    {} moves of {} bytes, {} bodies to pack",
            counts.waiting_moves, counts.waiting_move_bytes, counts.waiting_packs
        ));
        lines.push(format!("counted    {:.0} s ago", counts.age_seconds));
    }
    if let Some(log) = &found.log {
        let garbage = 100 * (log.bytes - log.live_bytes.min(log.bytes)) / log.bytes.max(1);
        let free = log.free_bytes.map_or(String::new(), |bytes| format!(", {bytes} bytes of the disk free"));
        let (segments, bytes) = (log.segments, log.bytes);
        lines.push(format!("log        {segments} segments, {bytes} bytes, {garbage}% garbage{free}"));
        lines.extend(log.damage.iter().map(|damage| format!("damaged    {damage}")));
    }
    lines.push(format!("verified   {}", verified(&found.scrub)));
    match &found.backup {
        None => lines.push(format!("backup     {}", backup_age(found.last_backup_ms, now_ms))),
        Some(backup) => lines.push(format!("backup     {}", shipped(backup))),
    }
    lines.join("\n") + "\n"
}

/// Returns the most important fact about a running gateway.
pub fn state(found: &Overview) -> String {
    let silent: Vec<&str> =
        found.tiers.iter().filter(|(_, tier)| !tier.answers).map(|(name, _)| name.as_str()).collect();
    if let Some(following) = &found.following {
        return standby(following);
    }
    if let Some(problem) = &found.problem {
        return format!("running, but writes fail: {problem}");
    }
    if let Some(stalled) = found.stalled.first() {
        return format!("running, but {}", stalled.text());
    }
    if !found.owns_tiers {
        return "running, but moves and deletes nothing: a tier has seen a later catalog, or another one"
            .into();
    }
    if found.has_wrong_clock {
        let seconds = found.clock_ahead_seconds;
        return format!("running, but moves and deletes nothing: its clock is in doubt ({seconds:+.1} s)");
    }
    if !silent.is_empty() {
        return format!("running, but these tiers do not answer: {}", silent.join(", "));
    }
    let leads = found.leader == Some(found.own_session);
    if leads { "running".into() } else { "running; does not move and delete".into() }
}

/// Describes the state of a standby.
fn standby(state: &FollowState) -> String {
    let newest =
        state.newest_ms.map_or("nothing yet".into(), |ms| format!("everything until {}", utc_text(ms)));
    let (of, lag) = (&state.of, state.lag_seconds);
    let leader = match state.leader {
        Leader::Unknown => "no gateway with a lease has written there",
        Leader::Leads if state.is_promoted => "another gateway leads, and was asked to end",
        Leader::Leads => "another gateway leads",
        Leader::Gone => "no gateway leads; this one begins",
    };
    let problem = state.problem.as_ref().map_or(String::new(), |problem| format!("; fails: {problem}"));
    // The place may not answer since then.
    format!("standby of {of}: as of {lag:.1} s ago, {leader}; has {newest}{problem}")
}

/// Describes the verification of all objects.
pub fn verified(scrub: &Progress) -> String {
    let last = scrub.last.as_ref().map(|last| {
        let progress::Counts { objects, damaged, unverified, .. } = last.counts;
        let ended = jiff::Timestamp::from_millisecond(last.ended_ms.cast_signed()).unwrap_or_default();
        format!("{objects} objects until {ended:.0}: {damaged} damaged, {unverified} not verified")
    });
    let current = scrub.current.as_ref().map(|current| {
        let progress::Counts { objects, damaged, .. } = current.counts;
        format!("{objects} objects so far, {damaged} damaged")
    });
    let all: Vec<String> = last.into_iter().chain(current).collect();
    if all.is_empty() { "never".into() } else { all.join("; ") }
}

/// Describes the backup that a gateway makes. The first words say whether it works.
pub fn shipped(backup: &BackupState) -> String {
    let newest = backup.newest_ms.map_or("nothing yet".into(), |ms| format!("until {}", utc_text(ms)));
    let lag = if backup.lag_seconds > 0.0 {
        format!("; behind by {:.0} s", backup.lag_seconds)
    } else {
        "; complete".into()
    };
    let problem = backup.problem.as_ref().map_or(String::new(), |problem| format!("fails: {problem}; "));
    let damage = backup.damage.as_ref().map_or(String::new(), |damage| format!("damaged: {damage}; "));
    let cost = backup.dollars.map_or(String::new(), |usd| format!(" (${usd:.4})"));
    let verified = backup.verified_ms.map_or(String::new(), |ms| format!("; verified {}", utc_text(ms)));
    let (to, sent, requests) = (&backup.to, backup.sent_bytes, backup.requests);
    format!(
        "{problem}{damage}{newest}{lag}; to {to}, {sent} bytes in {requests} requests{cost} since the start{verified}"
    )
}

/// Describes the time of the last backup.
pub fn backup_age(last_ms: Option<u64>, now_ms: u64) -> String {
    let Some(at_ms) = last_ms else { return "none recorded".into() };
    let at = jiff::Timestamp::from_millisecond(at_ms.cast_signed()).unwrap_or_default();
    let hours = now_ms.saturating_sub(at_ms) as f64 / 3_600_000.0;
    format!("{at:.0}, {hours:.1} hours ago")
}
