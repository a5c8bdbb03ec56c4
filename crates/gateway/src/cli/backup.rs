//! `plimsoll-gateway backup`: copies the catalog of a running gateway, and records the time of the last backup.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use clap::Args;

use super::Exit;
use super::command::Target;
use super::out::Output;
use super::place::StoreArguments;
use super::undelete::parse_at;
use crate::ambient::{now_ms, shared_now_ms};
use crate::backup::last;
use crate::blocking::block_on;
use crate::catalog::embedded::snapshot::Snapshot;
use crate::disk::real::create_directory;
use crate::mover::condition::show_time_ms;

/// Arguments of `plimsoll-gateway backup`.
#[derive(Debug, Args)]
#[group(id = "backup", multiple = false)]
pub struct Arguments {
    #[command(flatten)]
    pub place: StoreArguments,
    /// Copy the catalog, which is in a directory, to this new directory
    #[arg(long, value_name = "DIR", conflicts_with_all = ["done", "forget"])]
    pub to: Option<PathBuf>,
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
        (Some(to), _) => {
            let Some(catalog) = &target.directory else {
                return Err(Exit::input(
                    "--to: the catalog is in a database; use its backup, and then --done",
                ));
            };
            let at_ms = shared_now_ms();
            let bytes = copy_catalog(catalog, to)?;
            (at_ms, format!("copied {bytes} bytes of the catalog to {}\n", to.display()))
        }
        (None, Some(at)) => {
            let at_ms = parse_at("--done", at, now_ms()).map_err(Exit::input)?;
            (at_ms, format!("recorded a backup of {} ago\n", show_time_ms(now_ms().saturating_sub(at_ms))))
        }
        (None, None) => return Err(Exit::input("use --to DIR, --done TIME or --forget")),
    };
    block_on(last::record(store, at_ms)).map_err(|e| target.fail(&e))?;
    out.say(&text)
}
