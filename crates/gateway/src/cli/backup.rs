//! `plimsoll-gateway backup`: copies the catalog of a running gateway, and records the time of the last backup.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use clap::Args;

use super::Exit;
use super::command::Target;
use super::journaled::apart;
use super::out::Output;
use super::place::StoreArguments;
use super::restore::{keys, runtime};
use super::temporary::Temporary;
use super::undelete::parse_at;
use crate::ambient::{now_ms, shared_now_ms};
use crate::backup::last;
use crate::backup::once::ship_once;
use crate::backup::place::Place;
use crate::blocking::block_on;
use crate::catalog::any::AnyCatalog;
use crate::catalog::embedded::catalog::EmbeddedCatalog;
use crate::catalog::embedded::snapshot::Snapshot;
use crate::catalog::postgres::PostgresCatalog;
use crate::catalog::postgres::moving::Rows;
use crate::disk::real::create_directory;
use crate::migrate::target::{CatalogCopy, DirectoryCopy};
use crate::migrate::{MigrateError, copy_all};
use crate::mover::condition::show_time_ms;
use crate::tier::{TierTable, open};
use plimsoll_base::net::encode::hex;

/// Arguments of `plimsoll-gateway backup`.
#[derive(Debug, Args)]
#[group(id = "backup", multiple = false)]
pub struct Arguments {
    #[command(flatten)]
    pub place: StoreArguments,
    /// Copy the catalog to this new directory, or a catalog in a database to this URL, from which `restore` reads
    #[arg(long, value_name = "DIR|URL", conflicts_with_all = ["done", "forget"])]
    pub to: Option<String>,
    /// File of the keys that encrypt the backup at a URL, as of `age-keygen`
    #[arg(long, value_name = "PATH", requires = "to")]
    key_file: Option<PathBuf>,
    /// Record that another program has made a backup at this time: such as 2026-01-02T03:04:05Z, or the time since
    /// then, such as 10m
    #[arg(long, value_name = "TIME", conflicts_with = "forget")]
    done: Option<String>,
    /// Forget the last backup: its age does not stop deletions any more
    #[arg(long)]
    forget: bool,
}

/// Copies a file, and makes the copy durable.
fn copy(from: &Path, to: &Path) -> io::Result<u64> {
    let (mut from, mut to) = (File::open(from)?, File::create_new(to)?);
    let bytes = io::copy(&mut from, &mut to)?;
    to.sync_all()?;
    Ok(bytes)
}

/// Copies a directory with its subdirectories into a new one. Returns the number of bytes.
fn copy_directory(from: &Path, to: &Path) -> io::Result<u64> {
    fs::create_dir(to)?;
    let mut bytes = 0;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        bytes += if entry.file_type()?.is_dir() {
            copy_directory(&entry.path(), &target)?
        } else {
            copy(&entry.path(), &target)?
        };
    }
    File::open(to)?.sync_all()?;
    Ok(bytes)
}

/// Copies the catalog to a new directory, so that the copy exists as a whole or not at all.
fn copy_catalog(catalog: &Path, to: &Path) -> Result<u64, Exit> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let failed = |error: io::Error| Exit::store(format!("--to {}: {error}", to.display()));
    if to.exists() {
        return Err(Exit::input(format!("--to {}: this exists; name a new directory", to.display())));
    }
    let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = to.file_name().ok_or_else(|| Exit::input("--to: name a new directory"))?;
    create_directory(parent).map_err(failed)?;
    let unfinished = parent.join(format!("{}.unfinished", name.to_string_lossy()));
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished).map_err(failed)?;
    }
    let snapshot = Snapshot::take(catalog).map_err(Exit::store)?;
    let copied = copy_directory(snapshot.path(), &unfinished);
    let copied = copied.and_then(|bytes| {
        fs::rename(&unfinished, to)?;
        File::open(parent)?.sync_all()?;
        Ok(bytes)
    });
    copied.map_err(|error| {
        let _ = fs::remove_dir_all(&unfinished);
        failed(error)
    })
}

/// Copies the catalog to a directory or a URL. Returns the time of the copy in Unix milliseconds, and the message of
/// success.
fn copy_to(arguments: &Arguments, target: &Target, to: &str) -> Result<(u64, String), Exit> {
    let is_url = to.contains("://");
    if !is_url && arguments.key_file.is_some() {
        return Err(Exit::input("--key-file: only a backup at a URL is encrypted"));
    }
    match (&*target.store.catalog, &target.directory) {
        (AnyCatalog::Postgres(database), _) if is_url => copy_to_place(arguments, target, database, to),
        (AnyCatalog::Postgres(database), _) => {
            let Copied { rows, at_ms } = copy_rows(database, Path::new(to))?;
            Ok((at_ms, format!("copied {rows} rows of the catalog to {to}\n")))
        }
        (_, Some(_)) if is_url => Err(Exit::input(format!(
            "--to {to}: the catalog is in a directory; [backup] in the settings ships it to a URL all the time"
        ))),
        (_, Some(catalog)) => {
            let at_ms = shared_now_ms();
            let bytes = copy_catalog(catalog, Path::new(to))?;
            Ok((at_ms, format!("copied {bytes} bytes of the catalog to {to}\n")))
        }
        (_, None) => Err(Exit::input("--to: this catalog cannot be copied")),
    }
}

/// Rows that were copied, and their time.
struct Copied {
    rows: u64,
    /// Unix time in milliseconds.
    at_ms: u64,
}

/// Copies the rows of one moment into a catalog in a new directory.
fn copy_rows(database: &PostgresCatalog, to: &Path) -> Result<Copied, Exit> {
    let failed = |error: MigrateError| match error {
        MigrateError::Occupied(problem) => Exit::input(format!("--to {problem}")),
        error => Exit::store(format!("--to {}: {error}", to.display())),
    };
    let copied = || {
        let copy = Box::new(DirectoryCopy::begin(to)?);
        let mut source = Rows::begin(database)?;
        let rows = copy_all(&mut source, &*copy, &mut |_| Ok(()))?;
        copy.complete()?;
        Ok(Copied { rows, at_ms: source.at_ms })
    };
    copied().map_err(failed)
}

/// Opens the place of a backup. It must be apart from the places of all tiers.
fn open_place(arguments: &Arguments, target: &Target, url: &str) -> Result<Place, Exit> {
    let keys = keys("--key-file", arguments.key_file.as_deref())?;
    let table = TierTable { url: url.into(), ..TierTable::default() };
    let backend = open::open(&table).map_err(|e| Exit::input(format!("--to {url}: {e}")))?;
    if let Some(file) = &target.file {
        let store = StoreArguments::of_file(file);
        let tiers = store.backends(&store.config()?)?;
        apart(&backend, &tiers, &format!("--to {url}"))?;
    }
    Ok(Place::new(backend).encrypted(keys))
}

/// Makes a backup of one moment at a URL. Returns its time in Unix milliseconds, and the message of success.
fn copy_to_place(
    arguments: &Arguments,
    target: &Target,
    database: &PostgresCatalog,
    url: &str,
) -> Result<(u64, String), Exit> {
    let place = open_place(arguments, target, url)?;
    let failed = |error: &dyn std::fmt::Display| Exit::store(format!("--to {url}: {error}"));
    let parent = std::env::temp_dir();
    let temporary =
        Temporary::create(&parent).map_err(|e| Exit::store(format!("{}: {e}", parent.display())))?;
    let root = temporary.path("catalog");
    let Copied { rows, at_ms } = copy_rows(database, &root)?;
    let (copy, _) = EmbeddedCatalog::open(&root, Default::default()).map_err(|e| failed(&e))?;
    let catalog = hex(&target.store.catalog_id);
    let bytes = runtime()?.block_on(ship_once(place, &copy, &catalog, at_ms)).map_err(|e| failed(&e))?;
    copy.close().map_err(|e| failed(&e))?;
    Ok((at_ms, format!("copied {rows} rows of the catalog to {url}, {bytes} bytes of a log\n")))
}

/// Copies the catalog or records a backup.
///
/// # Errors
/// Exit code 2 for invalid arguments, 3 if the catalog or the copy fails.
pub fn backup(arguments: &Arguments, target: &Target, out: &dyn Output) -> Result<(), Exit> {
    let store = &*target.store;
    if arguments.forget {
        block_on(last::forget(store)).map_err(|e| target.fail(&e))?;
        return out.say("the last backup is forgotten; its age does not stop deletions\n");
    }
    let (at_ms, text) = match (&arguments.to, &arguments.done) {
        (Some(to), _) => copy_to(arguments, target, to)?,
        (None, Some(at)) => {
            let at_ms = parse_at("--done", at, now_ms()).map_err(Exit::input)?;
            (at_ms, format!("recorded a backup of {} ago\n", show_time_ms(now_ms().saturating_sub(at_ms))))
        }
        (None, None) => return Err(Exit::input("use --to DIR, --done TIME or --forget")),
    };
    block_on(last::record(store, at_ms)).map_err(|e| target.fail(&e))?;
    out.say(&text)
}
