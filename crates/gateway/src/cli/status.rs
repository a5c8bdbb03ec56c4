//! `plimsoll-gateway status`: the state of a store.

use clap::Args;

use super::Exit;
use super::out::say;
use super::place::StoreArguments;
use crate::ambient::now_ms;
use crate::catalog::embedded::document;
use crate::catalog::embedded::manifest::Manifest;
use crate::catalog::embedded::segment::HEADER;
use crate::catalog::embedded::segment_list::SegmentList;
use crate::catalog::postgres::{Access, Database, PostgresCatalog};
use crate::config::CatalogPlace;
use crate::disk::real::RealDisk;
use crate::lease;

/// Arguments of `plimsoll-gateway status`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    place: StoreArguments,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Prints the state as of the last write of the index.
///
/// # Errors
/// Exit code 1 if the log is damaged, 3 if the directory cannot be read.
pub fn status(arguments: &Arguments) -> Result<(), Exit> {
    let place = &arguments.place;
    place.must_exist()?;
    let catalog = match place.settings()?.0 {
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
        say(&overview(is_known.then_some(&manifest), &list, &as_of))?;
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
fn overview(manifest: Option<&Manifest>, list: &SegmentList, as_of: &str) -> String {
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
    say(&format!("sessions   {sessions}\nleader     {leader}, epoch {epoch}\n"))
}
