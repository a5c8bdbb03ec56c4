//! `plimsoll-gateway backup`: backs up the store of a running gateway once, and records the time of the last backup.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use clap::Args;

use super::Exit;
use super::at::parse_at;
use super::backup_place::{apart, keys, runtime, url_of};
use super::out::Output;
use super::place::{StoreArguments, quiet};
use super::target::Target;
use super::temporary::Temporary;
use crate::migrate::database::Rows;
use crate::migrate::target::{CatalogCopy, DirectoryCopy};
use crate::migrate::{MigrateError, copy_all};
use plimsoll_backup::bodies::Directories;
use plimsoll_backup::history::History;
use plimsoll_backup::last;
use plimsoll_backup::marker::is_backup;
use plimsoll_backup::once::{Shipped, ship_log, ship_once};
use plimsoll_backup::place::Place;
use plimsoll_backup::plan::last_piece;
use plimsoll_backup::prune_all::{Lookup, prune_all};
use plimsoll_base::net::encode::hex;
use plimsoll_bodies::tier::{TierTable, open};
use plimsoll_catalog::ambient::{now_ms, shared_now_ms};
use plimsoll_catalog::any::AnyCatalog;
use plimsoll_catalog::blocking::block_on;
use plimsoll_catalog::embedded::catalog::EmbeddedCatalog;
use plimsoll_catalog::embedded::snapshot::Snapshot;
use plimsoll_catalog::postgres::PostgresCatalog;
use plimsoll_maintenance::mover::condition::{parse_time_ms, show_time_ms};
use plimsoll_objects::clock;

/// Arguments of `plimsoll-gateway backup`.
#[derive(Debug, Args)]
#[group(id = "backup", multiple = false)]
pub struct Arguments {
    #[command(flatten)]
    pub place: StoreArguments,
    /// Back up the store of this moment to this directory or URL, from which `restore` reads: the catalog, and the
    /// bodies in directories; later backups to the same place copy only what is new
    #[arg(long, value_name = "DIR|URL", conflicts_with_all = ["done", "forget"])]
    pub to: Option<String>,
    /// File of the keys that encrypt the backup, as of `age-keygen`
    #[arg(long, value_name = "PATH", requires = "to")]
    pub key_file: Option<PathBuf>,
    /// Delete what only older states of the backup need [default: keep all states]
    #[arg(long, value_name = "TIME", requires = "to")]
    keep: Option<String>,
    /// Record that another program has made a backup at this time: such as 2026-01-02T03:04:05Z, or the time since
    /// then, such as 10m
    #[arg(long, value_name = "TIME", conflicts_with = "forget")]
    done: Option<String>,
    /// Forget the last backup: its age does not stop deletions any more
    #[arg(long)]
    forget: bool,
}

/// A backup that was made.
struct Made {
    /// Time of its state in Unix milliseconds.
    at_ms: u64,
    /// Message of success.
    text: String,
}

/// Makes a backup in a directory or at a URL.
fn back_up(arguments: &Arguments, target: &Target, to: &str) -> Result<Made, Exit> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let keep_ms = keep_ms(arguments)?;
    let place = open_place(arguments, target, to)?;
    let before_ms = if keep_ms.is_some() { newest_ms(&place, to)? } else { 0 };
    let at_ms = shared_now_ms();
    let (at_ms, shipped) = match &*target.store.catalog {
        AnyCatalog::Postgres(database) => ship_rows(target, database, &place, to)?,
        _ => (at_ms, ship_store(target, &place, to, at_ms)?),
    };
    let mut text = describe(shipped, to);
    if let Some(keep_ms) = keep_ms {
        text += &prune(target, &place, to, keep_ms, before_ms)?;
    }
    for (_, tier) in target.store.blobs.tiers().iter().filter(|(_, tier)| tier.directory.is_none()) {
        text += &format!(
            "not in it  bodies in tier {}: the backup refers to them there; deleted ones stay for {}\n",
            tier.name,
            show_time_ms(target.store.retain_ms)
        );
    }
    Ok(Made { at_ms, text })
}

/// Returns the time of the newest state of a place in Unix milliseconds; 0 if the place has no state.
fn newest_ms(place: &Place, to: &str) -> Result<u64, Exit> {
    let history = runtime()?.block_on(History::load(place));
    let history = history.map_err(|e| Exit::store(format!("--to {to}: {e}")))?;
    Ok(last_piece(&history, None).map_or(0, |index| history.pieces[index].header.until_ms))
}

/// Deletes what no state of the last `keep_ms` milliseconds needs. Before this backup, the newest state had the Unix
/// time `before_ms`. Returns a line of the message.
fn prune(target: &Target, place: &Place, to: &str, keep_ms: u64, before_ms: u64) -> Result<String, Exit> {
    let keep = show_time_ms(keep_ms);
    if !clock::read(&target.store).map_err(|e| target.fail(&e))?.is_right {
        return Ok("deleted    nothing: the clock of this machine is in doubt\n".into());
    }
    // Nothing witnesses the time of a store that no gateway serves. A clock that is wrong by months must not delete the
    // whole history.
    if before_ms > 0 && before_ms < now_ms().saturating_sub(keep_ms) {
        return Ok(format!(
            "deleted    nothing: by the clock of this machine, all states before this one are older than {keep}; the next \
             backup deletes them\n"
        ));
    }
    let deleted = runtime()?.block_on(prune_all(&target.store, place, keep_ms, Lookup::Log));
    let deleted = deleted.map_err(|e| Exit::store(format!("--to {to}: {e}")))?;
    Ok(format!("deleted    {deleted} objects that states of the last {keep} do not need\n"))
}

fn keep_ms(arguments: &Arguments) -> Result<Option<u64>, Exit> {
    let parse = |text: &String| parse_time_ms(text).map_err(|e| Exit::input(format!("--keep: {e}")));
    arguments.keep.as_ref().map(parse).transpose()
}

/// Describes a backup. The first line says where it is, and what was new.
fn describe(shipped: Shipped, to: &str) -> String {
    let Shipped { log_bytes, bodies, body_bytes } = shipped;
    let option = restore_option(to);
    format!(
        "the backup in {to} is complete: {log_bytes} bytes of the catalog and {bodies} bodies with {body_bytes} bytes are \
         new\nrestore    plimsoll-gateway restore --data NEW_DIR --from {option}\n"
    )
}

/// Returns the place as a flag of a command that another directory may execute.
fn restore_option(to: &str) -> String {
    if to.contains("://") { to.into() } else { url_of(to).trim_start_matches("file://").into() }
}

/// Ships the log of a catalog in a directory, and the bodies. A log that another backup follows is copied first.
fn ship_store(target: &Target, place: &Place, to: &str, at_ms: u64) -> Result<Shipped, Exit> {
    let failed = |error: &dyn std::fmt::Display| Exit::store(format!("--to {to}: {error}"));
    let store = &*target.store;
    let (Some(engine), Some(root)) = (store.catalog.engine(), &target.directory) else {
        return Err(Exit::input("--to: this catalog cannot be copied"));
    };
    let (id, bodies) = (hex(&store.catalog_id), Directories::of(store.blobs.tiers()));
    if target.backup.get().is_none() && store.catalog.lease().is_none() {
        let shipped = ship_log(place.clone(), &*store.catalog, engine, &id, bodies);
        return runtime()?.block_on(shipped).map_err(|e| failed(&e));
    }
    let snapshot = Snapshot::take(root).map_err(|e| failed(&e))?;
    let (copy, _) = EmbeddedCatalog::open(snapshot.path(), quiet()).map_err(|e| failed(&e))?;
    let shipped = runtime()?.block_on(ship_once(place.clone(), &copy, &id, bodies, at_ms));
    // Also after an error: its threads must not write when the directory is removed.
    let closed = copy.close().map_err(|e| failed(&e));
    let shipped = shipped.map_err(|e| failed(&e))?;
    closed.map(|()| shipped)
}

/// Copies the rows of one moment into a catalog in a new directory. Returns its time in Unix milliseconds.
fn copy_rows(database: &PostgresCatalog, to: &Path) -> Result<u64, Exit> {
    let failed = |error: MigrateError| match error {
        MigrateError::Occupied(problem) => Exit::input(format!("--to {problem}")),
        error => Exit::store(format!("--to {}: {error}", to.display())),
    };
    let copied = || {
        let copy = Box::new(DirectoryCopy::begin(to)?);
        let mut source = Rows::begin(database)?;
        copy_all(&mut source, &*copy, &mut |_| Ok(()))?;
        copy.complete()?;
        Ok(source.at_ms)
    };
    copied().map_err(failed)
}

/// Opens the place of a backup. It must be apart from the places of all tiers and of the catalog.
fn open_place(arguments: &Arguments, target: &Target, to: &str) -> Result<Place, Exit> {
    let keys = keys("--key-file", arguments.key_file.as_deref())?;
    if !to.contains("://") {
        check_directory(Path::new(to), target)?;
    }
    let table = TierTable { url: url_of(to), ..TierTable::default() };
    let backend = open::open(&table).map_err(|e| Exit::input(format!("--to {to}: {e}")))?;
    let store = match (&target.file, target.directory.as_deref().and_then(Path::parent)) {
        (Some(file), _) => StoreArguments::of_file(file),
        (None, data) => StoreArguments::of_data(data.unwrap_or(Path::new("."))),
    };
    let tiers = store.backends(&store.config()?)?;
    apart(&backend, &tiers, &format!("--to {to}"))?;
    Ok(Place::new(backend).encrypted(keys))
}

/// Checks that a directory is new, empty, or a backup, and is in no directory of the catalog or of a tier.
fn check_directory(to: &Path, target: &Target) -> Result<(), Exit> {
    let name = to.display();
    let absolute = std::path::absolute(to).unwrap_or_else(|_| to.to_path_buf());
    // Before the place is opened, which creates its directory.
    for (_, tier) in target.store.blobs.tiers().iter() {
        if tier.directory.as_deref().is_some_and(|directory| absolute.starts_with(directory)) {
            return Err(Exit::input(format!(
                "--to {name} is in the place of tier {}; use another directory",
                tier.name
            )));
        }
    }
    if target.directory.as_deref().is_some_and(|root| absolute.starts_with(root)) {
        return Err(Exit::input(format!(
            "--to {name}: this is in the directory of the catalog; use another disk"
        )));
    }
    let mut entries = match std::fs::read_dir(to) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(|e| Exit::input(format!("--to {name}: {e}")))?,
    };
    if is_backup(to) || entries.all(|entry| entry.is_ok_and(|entry| entry.file_name() == "lost+found")) {
        return Ok(());
    }
    Err(Exit::input(format!(
        "--to {name}: this directory is not empty, and is not a backup; name a new directory, or that of an earlier backup"
    )))
}

/// Copies the rows of a database, as the log of a catalog, with the bodies in directories. Returns the time of the
/// state in Unix milliseconds.
fn ship_rows(
    target: &Target,
    database: &PostgresCatalog,
    place: &Place,
    to: &str,
) -> Result<(u64, Shipped), Exit> {
    let failed = |error: &dyn std::fmt::Display| Exit::store(format!("--to {to}: {error}"));
    let parent = std::env::temp_dir();
    let temporary =
        Temporary::create(&parent).map_err(|e| Exit::store(format!("{}: {e}", parent.display())))?;
    let root = temporary.path("catalog");
    let at_ms = copy_rows(database, &root)?;
    let (copy, _) = EmbeddedCatalog::open(&root, Default::default()).map_err(|e| failed(&e))?;
    let (id, bodies) = (hex(&target.store.catalog_id), Directories::of(target.store.blobs.tiers()));
    let shipped = runtime()?.block_on(ship_once(place.clone(), &copy, &id, bodies, at_ms));
    let closed = copy.close().map_err(|e| failed(&e));
    let shipped = shipped.map_err(|e| failed(&e))?;
    closed.map(|()| (at_ms, shipped))
}

/// Backs up the store, or records or forgets the time of a backup.
///
/// # Errors
/// Exit code 2 for invalid arguments, 3 if the store or the place fails.
pub fn backup(arguments: &Arguments, target: &Target, out: &dyn Output) -> Result<(), Exit> {
    let store = &*target.store;
    if arguments.forget {
        block_on(last::forget(store)).map_err(|e| target.fail(&e))?;
        return out.say("the last backup is forgotten; its age does not stop deletions\n");
    }
    let Made { at_ms, text } = match (&arguments.to, &arguments.done) {
        (Some(to), _) => back_up(arguments, target, to)?,
        (None, Some(at)) => {
            let at_ms = parse_at("--done", at, now_ms()).map_err(Exit::input)?;
            let text = format!("recorded a backup of {} ago\n", show_time_ms(now_ms().saturating_sub(at_ms)));
            Made { at_ms, text }
        }
        (None, None) => return Err(Exit::input("use --to DIR, --done TIME or --forget")),
    };
    block_on(last::record(store, at_ms)).map_err(|e| target.fail(&e))?;
    out.say(&text)
}
