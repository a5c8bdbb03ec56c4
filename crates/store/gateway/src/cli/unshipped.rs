//! `plimsoll-gateway unshipped`: the writes that only the replaced log of a former leader has.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use plimsoll_server::reserve::Memory;

use super::Exit;
use super::backup_place::runtime;
use super::out::Output;
use super::place::{StoreArguments, quiet};
use super::target::Target;
use plimsoll_backup::journal::directory::{SHIPPED, Shipped};
use plimsoll_catalog::CatalogError;
use plimsoll_catalog::any::AnyCatalog;
use plimsoll_catalog::embedded::Engine;
use plimsoll_catalog::embedded::catalog::EmbeddedCatalog;
use plimsoll_catalog::embedded::segment_list::Position;
use plimsoll_catalog::embedded::snapshot::Snapshot;
use plimsoll_objects::earlier::unshipped::{Now, Unshipped, bring_back, find};
use plimsoll_objects::keys;
use plimsoll_objects::placement::Placement;
use plimsoll_objects::{Bodies, Store};

/// Arguments of `plimsoll-gateway unshipped`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    pub place: StoreArguments,
    /// Directory `replaced-...` of a gateway that led before, or a copy of it
    #[arg(long, value_name = "DIR")]
    pub from: PathBuf,
    /// Write these objects again; without it, the command only lists them
    #[arg(long)]
    apply: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Returns the keys that groups behind a position have changed.
fn changed_keys(engine: &Engine, from: Position) -> Result<BTreeSet<Vec<u8>>, CatalogError> {
    /// Bytes of the log that are read at a time.
    const PART: u64 = 16 << 20;
    let (mut at, end, mut found) = (from, engine.synced_end(), BTreeSet::new());
    while at.group < end.group {
        let runs = engine.read_log(at, end, PART)?;
        let Some(last) = runs.last() else { break };
        let next = Position { segment: last.segment.id, offset: last.end(), group: at.group };
        for run in &runs {
            for group in run.groups(engine) {
                at.group = group.group.number + 1;
                let keys = group.records().filter_map(|(record, ..)| Some(record?.key.to_vec()));
                found.extend(keys.filter(|key| key.starts_with(keys::OBJECTS)));
            }
        }
        if (next.segment, next.offset) == (at.segment, at.offset) {
            break;
        }
        at = Position { group: at.group, ..next };
    }
    Ok(found)
}

/// Opens a copy of the replaced log as a store over the same tiers.
fn open_old(target: &Target, path: &Path) -> Result<Store<AnyCatalog>, Exit> {
    let failed = |error: &dyn std::fmt::Display| Exit::store(format!("--from: {error}"));
    let (catalog, _) = EmbeddedCatalog::open(path, quiet()).map_err(|e| failed(&e))?;
    let bodies = Bodies {
        blobs: target.store.blobs.clone(),
        write: Placement::default(),
        class_names: Default::default(),
        reads: None,
        classes: Default::default(),
        retain_ms: 0,
    };
    Store::open(Arc::new(AnyCatalog::Embedded(catalog)), bodies, Memory::new(u64::MAX))
        .map_err(|e| failed(&e))
}

/// Lists the writes, or brings them back.
///
/// # Errors
/// Exit code 1 if some were not brought back, 2 for another directory, 3 if a catalog or a tier fails.
pub fn unshipped(arguments: &Arguments, target: &Target, out: &dyn Output) -> Result<(), Exit> {
    let name = arguments.from.display();
    let text = std::fs::read_to_string(arguments.from.join(SHIPPED)).map_err(|_| {
        Exit::input(format!(
            "--from {name}: this is not a directory `replaced-...` of a gateway that led before"
        ))
    })?;
    let shipped: Shipped =
        serde_json::from_str(&text).map_err(|e| Exit::input(format!("--from {name}: {SHIPPED}: {e}")))?;
    let snapshot = Snapshot::take(&arguments.from).map_err(|e| Exit::store(format!("--from {name}: {e}")))?;
    let old = open_old(target, snapshot.path())?;
    let result = list_or_apply(arguments, target, &old, shipped, out);
    // Also after an error: its threads must not write when the directory is removed.
    let closed = old.catalog.close().map_err(|e| Exit::store(format!("--from {name}: {e}")));
    result.and(closed)
}

fn list_or_apply(
    arguments: &Arguments,
    target: &Target,
    old: &Store<AnyCatalog>,
    shipped: Shipped,
    out: &dyn Output,
) -> Result<(), Exit> {
    let name = arguments.from.display();
    if old.catalog_id != target.store.catalog_id {
        return Err(Exit::input(format!("--from {name}: this log belongs to another catalog")));
    }
    let failed = |error: CatalogError| Exit::store(format!("--from {name}: {error}"));
    let Some(engine) = old.catalog.engine() else { return Ok(()) };
    let changed = changed_keys(engine, shipped.position).map_err(failed)?;
    let found = find(&target.store, old, &changed, shipped.until_ms).map_err(failed)?;
    let (mut brought, mut problems) = (0, Vec::new());
    if arguments.apply {
        let runtime = runtime()?;
        for write in found.iter().filter(|write| write.now == Now::Older && write.size.is_some()) {
            match runtime.block_on(bring_back(&target.store, old, write)) {
                Ok(true) => brought += 1,
                Ok(false) => problems.push(format!("{}/{}: its bytes have gone", write.bucket, write.key)),
                Err(error) => problems.push(format!("{}/{}: {error}", write.bucket, write.key)),
            }
        }
    }
    if arguments.json {
        let value = serde_json::json!({ "writes": found, "brought_back": brought, "problems": problems });
        out.say(&format!("{value}\n"))?;
    } else {
        print(arguments, &found, brought, &problems, out)?;
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(Exit::check(format!("{} writes are not back", problems.len())))
    }
}

fn print(
    arguments: &Arguments,
    found: &[Unshipped],
    brought: u64,
    problems: &[String],
    out: &dyn Output,
) -> Result<(), Exit> {
    let waiting = found.iter().filter(|write| write.now == Now::Older && write.size.is_some()).count();
    let (deleted, later) = (
        found.iter().filter(|write| write.size.is_none()).count(),
        found.iter().filter(|write| write.now == Now::Later && write.size.is_some()).count(),
    );
    out.say(&match arguments.apply {
        true => format!("{brought} of {waiting} acknowledged writes that were not shipped are back\n"),
        false => format!("{waiting} acknowledged writes were not shipped; --apply brings them back\n"),
    })?;
    for write in found {
        let state = match (write.size, write.now) {
            (None, _) => "deletion  ",
            (_, Now::Later) => "superseded",
            (_, Now::Older) => "write     ",
        };
        out.say(&format!("{state} {}/{}\n", write.bucket, write.key))?;
    }
    if deleted + later > 0 {
        out.say(&format!(
            "{later} objects have later writes and stay as they are; {deleted} deletions are not repeated\n"
        ))?;
    }
    problems.iter().try_for_each(|problem| out.say(&format!("failed     {problem}\n")))
}
