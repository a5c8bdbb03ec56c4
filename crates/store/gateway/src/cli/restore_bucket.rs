//! `plimsoll-gateway restore --bucket`: gives the objects of a bucket back what they had at a time of the backup.

use std::path::Path;

use super::Exit;
use super::at::time;
use super::backup_place::{place, runtime};
use super::out::Output;
use super::restore::RestoreArguments;
use super::target::Target;
use super::temporary::Temporary;
use crate::config::Config;
use plimsoll_backup::error::BackupError;
use plimsoll_backup::history::History;
use plimsoll_backup::place::Place;
use plimsoll_backup::restore::{Cut, find, write_log};
use plimsoll_base::net::encode::hex;
use plimsoll_catalog::CatalogError;
use plimsoll_catalog::ambient::{now_ms, pause, steady_ms, utc_text};
use plimsoll_catalog::disk::real::{RealDisk, free_bytes};
use plimsoll_catalog::embedded::Engine;
use plimsoll_catalog::embedded::catalog::{CatalogSettings, EmbeddedCatalog};
use plimsoll_objects::earlier::{Earlier, Returned, document, return_to};

/// Restores the objects of a bucket.
///
/// # Errors
/// Exit code 1 if objects cannot be restored, 2 for invalid arguments, 3 if the backup or the store fails.
pub fn run(arguments: &RestoreArguments, target: &Target, out: &dyn Output) -> Result<(), Exit> {
    let at_ms = time("--at", arguments.at.as_ref())?.unwrap_or_else(now_ms);
    let config = target.file.as_deref().map(Config::load).transpose().map_err(Exit::input)?;
    let rule = config.and_then(|config| config.backup);
    let (place, url) = place(rule.as_ref(), arguments.from.as_ref(), arguments.key_file.as_deref())?;
    let failed = |error: BackupError| Exit::store(format!("{url}: {error}"));
    // The directory of the catalog may be the root of a file system.
    let parent = target.directory.clone().unwrap_or_else(std::env::temp_dir);
    let temporary =
        Temporary::create(&parent).map_err(|e| Exit::store(format!("{}: {e}", parent.display())))?;
    let root = temporary.path("catalog");
    let runtime = runtime()?;
    let engine = target.store.catalog.engine().filter(|_| target.backup.get().is_some());
    let is_complete = match engine {
        Some(engine) => runtime.block_on(ship_first(engine)),
        None => false,
    };
    let reserve_bytes =
        if target.directory.is_some() { CatalogSettings::default().limits.reserve_bytes } else { 0 };
    let own = hex(&target.store.catalog_id);
    let wanted = Wanted { at_ms, own: &own, is_complete, reserve_bytes };
    let state_ms = runtime.block_on(write_earlier(&place, &wanted, &root)).map_err(failed)?;
    let state_ms = state_ms.map_err(|problem| Exit::input(format!("{url}: {problem}")))?;
    let opened = EmbeddedCatalog::open(&root, CatalogSettings::default());
    let (catalog, _) = opened.map_err(|e| target.fail(&e))?;
    let result = return_bucket(arguments, target, &catalog, state_ms);
    // Also after an error: its threads must not write when the directory is removed.
    let closed = catalog.close().map_err(|e| target.fail(&e));
    report(arguments, &result?, state_ms, out)?;
    closed
}

/// Gives the objects of the bucket back what an opened earlier catalog has.
fn return_bucket(
    arguments: &RestoreArguments,
    target: &Target,
    catalog: &EmbeddedCatalog,
    state_ms: u64,
) -> Result<Returned, Exit> {
    let name = arguments.bucket.as_deref().unwrap_or_default();
    let earlier = Earlier {
        catalog,
        bucket: name,
        prefix: &arguments.prefix,
        at_ms: state_ms,
        is_exact: arguments.exact,
        is_dry: arguments.dry_run,
    };
    let found = document(&earlier).map_err(|e| target.fail(&e))?;
    let found = found.ok_or_else(|| {
        let time = utc_text(state_ms);
        Exit::input(format!("--bucket {name}: there was no such bucket at {time}, the time of the state"))
    })?;
    runtime()?.block_on(return_to(&*target.store, &earlier, &found)).map_err(|e| target.fail(&e))
}

/// Waits until the backup has everything that was written before. Returns false if it has not after some time.
async fn ship_first(engine: &Engine) -> bool {
    /// Longest time in milliseconds.
    const MAX_MS: u64 = 30_000;
    let (mark, until_ms) = (engine.written(), steady_ms() + MAX_MS);
    while engine.shipped() < mark && steady_ms() < until_ms {
        engine.want_shipped();
        pause(20).await;
    }
    engine.shipped() >= mark
}

/// State that is wanted of a backup.
struct Wanted<'a> {
    /// Time in Unix milliseconds.
    at_ms: u64,
    /// Id of the catalog.
    own: &'a str,
    /// True if the backup has everything until now.
    is_complete: bool,
    /// Bytes that stay free on the disk.
    reserve_bytes: u64,
}

/// Writes the log of a state to a directory. Returns its time in Unix milliseconds, or the reason why there is no such
/// state.
async fn write_earlier(
    place: &Place,
    wanted: &Wanted<'_>,
    root: &Path,
) -> Result<Result<u64, String>, BackupError> {
    let found = place.catalog().await?.ok_or(BackupError::Missing)?;
    if found != wanted.own {
        return Err(BackupError::Foreign { found, own: wanted.own.into() });
    }
    let history = History::load(place).await?;
    let newest_ms = find(place, &history, None).await?.at_ms;
    if wanted.at_ms > newest_ms && !wanted.is_complete {
        let newest = utc_text(newest_ms);
        return Ok(Err(format!("its newest state is of {newest}; use --at {newest} to restore that one")));
    }
    let cut = find(place, &history, Some(wanted.at_ms)).await?;
    let Cut { at_ms, segments, .. } = &cut;
    // The index and the last segment need some more than the log.
    let bytes: u64 = segments.values().map(|segment| segment.bytes).sum();
    let needed = bytes + bytes / 4 + wanted.reserve_bytes;
    let parent = root.parent().unwrap_or(Path::new("."));
    if free_bytes(parent)? < needed {
        let text = format!("{}: a restore needs {needed} bytes of free space there", parent.display());
        return Err(CatalogError::Io(text).into());
    }
    write_log(place, &history, &cut, &RealDisk::new(root)?).await?;
    Ok(Ok(*at_ms))
}

fn report(
    arguments: &RestoreArguments,
    returned: &Returned,
    state_ms: u64,
    out: &dyn Output,
) -> Result<(), Exit> {
    let Returned { unchanged, restored, bytes, deleted, newer, is_new_bucket, .. } = returned;
    let not_restored = returned.lost + returned.failed;
    let name = arguments.bucket.as_deref().unwrap_or_default();
    if arguments.json {
        let value = serde_json::json!({
            "bucket": name, "at_ms": state_ms, "dry_run": arguments.dry_run, "result": returned
        });
        out.say(&format!("{}\n", serde_json::to_string_pretty(&value).map_err(Exit::store)?))?;
    } else {
        let verb = if arguments.dry_run { "can be restored" } else { "restored" };
        let not = if arguments.dry_run { "cannot" } else { "are not" };
        let but = if not_restored > 0 { format!(", {not_restored} {not}") } else { String::new() };
        out.say(&format!(
            "{restored} objects with {bytes} bytes {verb} to the state of {}{but}\n",
            utc_text(state_ms)
        ))?;
        out.say(&format!("unchanged  {unchanged} objects\n"))?;
        if *is_new_bucket {
            let verb = if arguments.dry_run { "would be created" } else { "was created" };
            out.say(&format!("bucket     {name} did not exist any more, and {verb} as it was\n"))?;
        }
        if *deleted > 0 {
            let verb = if arguments.dry_run { "would be deleted" } else { "were deleted" };
            out.say(&format!("deleted    {deleted} objects that did not exist then {verb}\n"))?;
        }
        if *newer > 0 {
            out.say(&format!(
                "newer      {newer} objects that did not exist then stay; --exact deletes them\n"
            ))?;
        }
        for failure in &returned.failures {
            out.say(&format!("failed     {failure}\n"))?;
        }
        for key in &returned.lost_keys {
            out.say(&format!("lost       {key}: its bytes are not kept any more\n"))?;
        }
    }
    match (returned.lost, returned.failed) {
        (0, 0) => Ok(()),
        (lost, 0) => {
            Err(Exit::check(format!("{lost} objects are not restored: their bytes are not kept any more")))
        }
        (lost, failed) => {
            let other = if lost > 0 {
                format!(", and of {lost} the bytes are not kept any more")
            } else {
                String::new()
            };
            Err(Exit::check(format!(
                "{failed} objects are not restored because of errors{other}; repeat the command"
            )))
        }
    }
}
