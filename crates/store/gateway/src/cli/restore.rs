//! `plimsoll-gateway restore` and `verify-backup`: restore the catalog of any second of a backup, and verify it.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use super::Exit;
use super::at::time;
use super::backup_place::{place, runtime};
use super::out::say;
use super::place::StoreArguments;
use super::restore_bodies::{copy_bodies, own_directories};
use super::temporary::Temporary;
use crate::config::{CatalogPlace, Config};
use crate::migrate::rows::ScannedRows;
use crate::migrate::target::{CatalogCopy, begin};
use crate::migrate::{MigrateError, copy_all};
use plimsoll_backup::error::BackupError;
use plimsoll_backup::history::History;
use plimsoll_backup::journal::directory::append_journal;
use plimsoll_backup::place::Place;
use plimsoll_backup::restore::{Cut, find, forward, later_blobs, write_log};
use plimsoll_backup::verify::verify;
use plimsoll_catalog::ambient::utc_text;
use plimsoll_catalog::any::AnyCatalog;
use plimsoll_catalog::blocking::block_on;
use plimsoll_catalog::disk::real::{RealDisk, create_directory};
use plimsoll_catalog::embedded::catalog::{CatalogSettings, EmbeddedCatalog};
use plimsoll_catalog::log::note;

/// Arguments of `plimsoll-gateway restore`.
#[derive(Debug, Args)]
pub struct RestoreArguments {
    #[command(flatten)]
    pub place: StoreArguments,
    /// Directory or URL of the backup; default: that of [backup] in FILE
    #[arg(long, value_name = "DIR|URL")]
    pub from: Option<String>,
    /// File of the keys of an encrypted backup; default: that of [backup] in FILE
    #[arg(long, value_name = "PATH")]
    pub key_file: Option<PathBuf>,
    /// Time of the state: such as 2026-01-02T03:04:05Z, or the time since then, such as 2h [default: the newest state]
    #[arg(long, value_name = "TIME")]
    pub at: Option<String>,
    /// Only give the objects of this bucket back what they had at the time; a gateway may be running
    #[arg(long, value_name = "NAME", requires = "at")]
    pub bucket: Option<String>,
    /// Only objects whose keys start with this text
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true, requires = "bucket")]
    pub prefix: String,
    /// Also delete the objects that the bucket did not have at the time
    #[arg(long, requires = "bucket")]
    pub exact: bool,
    /// Only count the objects
    #[arg(long, requires = "bucket")]
    pub dry_run: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `plimsoll-gateway verify-backup`.
#[derive(Debug, Args)]
#[group(id = "which", required = true, multiple = true)]
pub struct VerifyArguments {
    /// Settings of the gateway, a TOML file with [backup]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Directory or URL of the backup; default: that of [backup] in FILE
    #[arg(long, value_name = "DIR|URL")]
    from: Option<String>,
    /// File of the keys of an encrypted backup; default: that of [backup] in FILE
    #[arg(long, value_name = "PATH")]
    key_file: Option<PathBuf>,
    /// Verify only what states since this time need: such as 2026-01-02T03:04:05Z, or the time since then, such as 2h
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Result of a restore.
#[derive(Debug, Default, serde::Serialize)]
struct Restored {
    /// Time of the state in Unix milliseconds; 0 if it is unknown.
    at_ms: u64,
    /// Time of the newest state of the backup in Unix milliseconds; 0 if it is unknown.
    newest_ms: u64,
    log_bytes: u64,
    segments: usize,
    /// Bodies that have moved since the time of the state.
    moved_bodies: u64,
    /// Bodies in directories.
    bodies: u64,
    /// Bodies in directories that neither the directory nor the backup has.
    missing_bodies: u64,
    damage: Vec<String>,
}

/// Restores the catalog of a time into a new directory.
///
/// # Errors
/// Exit code 1 if something is missing or damaged, 2 for invalid arguments, 3 if the backup or the disk fails.
pub fn restore(arguments: &RestoreArguments) -> Result<(), Exit> {
    let config = arguments.place.config()?;
    let at_ms = time("--at", arguments.at.as_ref())?;
    let (place, url) = place(config.backup.as_ref(), arguments.from.as_ref(), arguments.key_file.as_deref())?;
    let failed = |error: BackupError| Exit::store(format!("{url}: {error}"));
    let runtime = runtime()?;
    let name = arguments.place.name();
    let destination = Destination::begin(&config.catalog, &name)?;
    let unfinished = destination.unfinished.clone();
    let mut attempt = 0;
    let restored = loop {
        attempt += 1;
        match runtime.block_on(restore_to(&place, at_ms, &unfinished, &config)) {
            Ok(restored) => break restored,
            // A gateway that runs deletes entries of its journal that the backup has meanwhile.
            Err(BackupError::Damaged { .. } | BackupError::Gap) if attempt < 3 => remove(&unfinished)?,
            Err(error) => {
                let _ = fs::remove_dir_all(&unfinished);
                return Err(failed(error));
            }
        }
    };
    let is_damaged = !restored.damage.is_empty();
    if let DestinationKind::Directory(_) = &destination.kind {
        let recorded = runtime.block_on(record_restored(&place, &unfinished));
        recorded.map_err(failed)?;
    }
    destination.complete(is_damaged).map_err(|e| Exit::store(format!("{name}: {e}")))?;
    if at_ms.is_some() && config.backup.is_some_and(|rule| rule.lease_ms.is_some()) {
        note(
            "backup.durability is \"tier\": a start continues the newest state in the place of the backup; to continue \
             this one, set another backup.to",
        );
    }
    report(&restored, arguments.json)
}

/// Name of the file with the last piece of the backup from which a directory was restored. The gateway may continue the
/// backup behind this piece although the directory does not have what it has.
pub const RESTORED: &str = "RESTORED";

/// Records in a directory the last piece of the backup.
///
/// # Errors
/// If the place fails, or the file cannot be written.
pub async fn record_restored(place: &Place, root: &Path) -> Result<(), BackupError> {
    let history = History::load(place).await?;
    let last = history.pieces.iter().rev().find(|known| known.header.fence.is_none());
    if let Some(last) = last {
        fs::write(root.join(RESTORED), last.header.name() + "\n")?;
    }
    Ok(())
}

/// Place of a restored catalog, and the directory in which it is restored.
struct Destination {
    unfinished: PathBuf,
    kind: DestinationKind,
}

enum DestinationKind {
    Directory(PathBuf),
    /// Copy in a database, and the directory of the catalog from which it is made.
    Database(Box<dyn CatalogCopy>, Temporary),
}

impl Destination {
    /// Checks that there is no catalog.
    fn begin(catalog: &CatalogPlace, name: &str) -> Result<Destination, Exit> {
        let failed = |error: &dyn std::fmt::Display| Exit::store(format!("{name}: {error}"));
        match catalog {
            CatalogPlace::Directory(root) => {
                check_free(root)?;
                let own = root.file_name();
                let own = own.ok_or_else(|| Exit::input("the directory of the catalog needs a name"))?;
                let unfinished = root.with_file_name(format!("{}.unfinished", own.to_string_lossy()));
                remove(&unfinished)?;
                Ok(Destination { unfinished, kind: DestinationKind::Directory(root.clone()) })
            }
            CatalogPlace::Database(_) => {
                let copy = begin(catalog).map_err(|e| failed(&e))?;
                let temporary = Temporary::create(&std::env::temp_dir()).map_err(|e| failed(&e))?;
                let unfinished = temporary.path("catalog");
                Ok(Destination { unfinished, kind: DestinationKind::Database(copy, temporary) })
            }
        }
    }

    /// Makes the restored catalog that of the settings. A database has no catalog with doubts.
    fn complete(self, is_damaged: bool) -> Result<(), MigrateError> {
        match self.kind {
            DestinationKind::Directory(root) => {
                // An empty directory may be there already.
                if root.is_dir() {
                    fs::remove_dir(&root)?;
                }
                fs::rename(&self.unfinished, &root)?;
                Ok(fs::File::open(root.parent().unwrap_or(Path::new(".")))?.sync_all()?)
            }
            DestinationKind::Database(..) if is_damaged => Err(MigrateError::Occupied(
                "the restored state is damaged, and rows in doubt would look certain in a database; restore it into a \
                 directory, and see `scrub`"
                    .into(),
            )),
            DestinationKind::Database(copy, _temporary) => {
                let (restored, _) = EmbeddedCatalog::open(&self.unfinished, CatalogSettings::default())?;
                let restored = AnyCatalog::Embedded(restored);
                copy_all(&mut ScannedRows::new(&restored), &*copy, &mut |_| Ok(()))?;
                copy.complete()?;
                Ok(restored.close()?)
            }
        }
    }
}

fn remove(directory: &Path) -> Result<(), Exit> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Exit::store(format!("{}: {error}", directory.display())))
        }
        _ => Ok(()),
    }
}

/// Checks that the directory of the catalog does not exist or is empty.
fn check_free(root: &Path) -> Result<(), Exit> {
    let is_free = fs::read_dir(root).map_or(!root.exists(), |mut entries| entries.next().is_none());
    if is_free {
        return Ok(());
    }
    Err(Exit::input(format!("{}: a catalog is there; move it away first", root.display())))
}

async fn restore_to(
    place: &Place,
    at_ms: Option<u64>,
    root: &Path,
    config: &Config,
) -> Result<Restored, BackupError> {
    place.catalog().await?.ok_or(BackupError::Missing)?;
    let history = History::load(place).await?;
    let cut = find(place, &history, at_ms).await?;
    create_directory(root)?;
    write_log(place, &history, &cut, &RealDisk::new(root)?).await?;
    let limits = CatalogSettings::default().limits;
    let newest_ms = history.pieces.iter().map(|known| known.header.until_ms).max().unwrap_or(0);
    let of_journal = match at_ms {
        Some(at_ms) if at_ms < newest_ms => None,
        at_ms => append_journal(place, root, limits, at_ms).await?,
    };
    let later = match at_ms {
        None => Ok(Default::default()),
        Some(_) => later_blobs(place, &history, &cut).await,
    };
    let later = match later {
        Err(error @ BackupError::Damaged { .. }) => {
            note(&format!("{error}; bodies that have moved since the state may not be found"));
            Default::default()
        }
        later => later?,
    };
    let (catalog, recovery) = EmbeddedCatalog::open(root, CatalogSettings::default())?;
    let moved_bodies = block_on(forward(&catalog, later))?;
    let (bodies, missing_bodies) = copy_bodies(place, &catalog, config).await?;
    own_directories(&catalog, config).await;
    catalog.close()?;
    let Cut { at_ms, segments, .. } = cut;
    let at_ms = of_journal.unwrap_or(0).max(at_ms);
    let damage = recovery.damage.iter();
    Ok(Restored {
        at_ms,
        newest_ms: newest_ms.max(at_ms),
        log_bytes: segments.values().map(|segment| segment.bytes).sum(),
        segments: segments.len(),
        moved_bodies,
        bodies,
        missing_bodies,
        damage: damage.map(|d| format!("{} at offset {}: {}", d.file, d.offset, d.problem)).collect(),
    })
}

fn report(restored: &Restored, json: bool) -> Result<(), Exit> {
    let Restored { at_ms, newest_ms, log_bytes, segments, moved_bodies, bodies, missing_bodies, damage } =
        restored;
    let is_whole = damage.is_empty() && *missing_bodies == 0;
    if json {
        say(&format!("{}\n", serde_json::to_string_pretty(restored).map_err(Exit::store)?))?;
    } else {
        let time = if *at_ms == 0 { "before the first known time".into() } else { utc_text(*at_ms) };
        let but = if is_whole { "" } else { ", but not as a whole" };
        say(&format!("restored the state of {time}{but}\n"))?;
        say(&format!("log        {log_bytes} bytes in {segments} segments\n"))?;
        if *bodies + *missing_bodies > 0 {
            say(&format!("bodies     {bodies} in directories, {missing_bodies} missing\n"))?;
        }
        if *moved_bodies > 0 {
            say(&format!("moved      {moved_bodies} bodies are not where they were at that time\n"))?;
        }
        if newest_ms > at_ms {
            say(&format!("newest     the backup also has states until {}\n", utc_text(*newest_ms)))?;
        }
        for damage in damage {
            say(&format!("damaged    {damage}\n"))?;
        }
    }
    if is_whole { Ok(()) } else { Err(Exit::check("the state was not restored as a whole")) }
}

/// Verifies a backup without writing anything.
///
/// # Errors
/// Exit code 1 if something is missing or damaged, 2 for invalid arguments, 3 if the backup cannot be read.
pub fn verify_backup(arguments: &VerifyArguments) -> Result<(), Exit> {
    let config = arguments.file.as_ref().map(|file| Config::load(file)).transpose().map_err(Exit::input)?;
    let rule = config.and_then(|config| config.backup);
    let since_ms = time("--since", arguments.since.as_ref())?;
    let (place, url) = place(rule.as_ref(), arguments.from.as_ref(), arguments.key_file.as_deref())?;
    let found = runtime()?.block_on(verify(&place, since_ms));
    let found = found.map_err(|error| match error {
        BackupError::Damaged { .. } => Exit::check(format!("{url}: {error}")),
        error => Exit::store(format!("{url}: {error}")),
    })?;
    if arguments.json {
        say(&format!("{}\n", serde_json::to_string_pretty(&found).map_err(Exit::store)?))?;
    } else {
        let times = format!("{} to {}", utc_text(found.oldest_ms), utc_text(found.newest_ms));
        say(&match found.problems.len() {
            0 => format!("every state from {times} can be restored\n"),
            count => format!("{count} problems: not every state from {times} can be restored\n"),
        })?;
        let (pieces, bytes, groups, bodies) = (found.pieces, found.log_bytes, found.groups, found.bodies);
        say(&format!("read       {pieces} pieces with {bytes} bytes of the log, {groups} groups\n"))?;
        if bodies > 0 {
            say(&format!("bodies     {bodies} in directories\n"))?;
        }
        for problem in &found.problems {
            say(&format!("damaged    {problem}\n"))?;
        }
    }
    match found.problems.len() {
        0 => Ok(()),
        count => Err(Exit::check(format!("{url}: problems: {count}"))),
    }
}
