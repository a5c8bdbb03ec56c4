//! Administrative commands: they work on the store of a running gateway, or on a store that no gateway uses.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{CommandFactory, FromArgMatches};
use plimsoll_base::text::single_line;
use plimsoll_server::reserve::Memory;

use super::admin::client;
use super::catalog::CatalogCommand;
use super::catalog::migrate;
use super::opened::Opened;
use super::out::{Output, Standard};
use super::ownership::{self, Older};
use super::place::StoreArguments;
use super::target::Target;
use super::{
    Arguments, Command, Exit, backup, preflight, promote, restore, restore_bucket, rollback, scrub, status,
    undelete, unshipped, whereis,
};
use plimsoll_backup::running::Running;
use plimsoll_catalog::CatalogError;
use plimsoll_catalog::log::note;
use plimsoll_objects::Store;

/// A command that works on an open store.
pub enum Administrative<'a> {
    Status(&'a status::Arguments),
    Backup(&'a backup::Arguments),
    Scrub(&'a scrub::Arguments),
    Rollback(&'a rollback::Arguments),
    Undelete(&'a undelete::Arguments),
    Unshipped(&'a unshipped::Arguments),
    Where(&'a whereis::Arguments),
    Promote(&'a promote::Arguments),
    Migrate(&'a migrate::Arguments),
    RestoreBucket(&'a restore::RestoreArguments),
}

impl<'a> Administrative<'a> {
    /// Returns the administrative command of a command line; `None` if it is another one.
    pub fn of(command: &'a Command) -> Option<Administrative<'a>> {
        match command {
            Command::Status(arguments) => Some(Administrative::Status(arguments)),
            Command::Backup(arguments) => Some(Administrative::Backup(arguments)),
            Command::Scrub(arguments) => Some(Administrative::Scrub(arguments)),
            Command::Rollback(arguments) => Some(Administrative::Rollback(arguments)),
            Command::Undelete(arguments) => Some(Administrative::Undelete(arguments)),
            Command::Unshipped(arguments) => Some(Administrative::Unshipped(arguments)),
            Command::Where(arguments) => Some(Administrative::Where(arguments)),
            Command::Promote(arguments) => Some(Administrative::Promote(arguments)),
            Command::Catalog { command: CatalogCommand::Migrate(arguments) } => {
                Some(Administrative::Migrate(arguments))
            }
            Command::Restore(arguments) if arguments.bucket.is_some() => {
                Some(Administrative::RestoreBucket(arguments))
            }
            _ => None,
        }
    }

    /// Returns true if the command changes nothing.
    pub fn only_reads(&self) -> bool {
        matches!(self, Administrative::Status(_) | Administrative::Where(_))
    }

    /// Returns the treatment of a catalog that is older than its tiers. Commands that examine the store accept it.
    fn older(&self) -> Older {
        match self {
            Administrative::Status(_) | Administrative::Scrub(_) | Administrative::Where(_) => {
                Older::Accepted
            }
            Administrative::Backup(_)
            | Administrative::Rollback(_)
            | Administrative::Undelete(_)
            | Administrative::Unshipped(_)
            | Administrative::Promote(_)
            | Administrative::Migrate(_)
            | Administrative::RestoreBucket(_) => Older::Refused,
        }
    }

    fn place(&self) -> &StoreArguments {
        match self {
            Administrative::Status(arguments) => &arguments.place,
            Administrative::Backup(arguments) => &arguments.place,
            Administrative::Scrub(arguments) => &arguments.place,
            Administrative::Rollback(arguments) => &arguments.place,
            Administrative::Undelete(arguments) => &arguments.place,
            Administrative::Unshipped(arguments) => &arguments.place,
            Administrative::Where(arguments) => &arguments.place,
            Administrative::Promote(arguments) => &arguments.place,
            Administrative::Migrate(arguments) => &arguments.place,
            Administrative::RestoreBucket(arguments) => &arguments.place,
        }
    }

    /// Executes the command on an open store.
    ///
    /// # Errors
    /// The error of the command.
    pub fn execute(&self, target: &Target, out: &dyn Output) -> Result<(), Exit> {
        match self {
            Administrative::Status(arguments) => status::served(arguments, target, out),
            Administrative::Backup(arguments) => backup::backup(arguments, target, out),
            Administrative::Scrub(arguments) => scrub::scrub(arguments, target, out),
            Administrative::Rollback(arguments) => rollback::rollback(arguments, target, out),
            Administrative::Undelete(arguments) => undelete::undelete(arguments, target, out),
            Administrative::Unshipped(arguments) => unshipped::unshipped(arguments, target, out),
            Administrative::Where(arguments) => whereis::whereis(arguments, target, out),
            Administrative::Promote(_) => promote::served(target, out),
            Administrative::Migrate(arguments) => migrate::run(arguments, target, out),
            Administrative::RestoreBucket(arguments) => restore_bucket::run(arguments, target, out),
        }
    }

    /// Executes the command: in the gateway that uses the catalog, if it is in a directory, else in this process.
    ///
    /// # Errors
    /// The error of the command.
    pub fn run(&self) -> Result<(), Exit> {
        let place = self.place();
        place.must_exist()?;
        if let Some(catalog) = place.directory()?
            && let Some(stream) = client::connect(&catalog)?
        {
            return client::execute(stream, client::own_arguments());
        }
        let target = open(place, self.older())?;
        let executed = self.execute(&target, &Standard);
        let closed = target.store.catalog.close().map_err(|e| target.fail(&e));
        executed.and(closed)
    }
}

/// Opens a store for one command.
fn open(place: &StoreArguments, older: Older) -> Result<Target, Exit> {
    preflight::check(place, older, true)?;
    let opened = place.open(Default::default())?;
    if let Some(found) = ownership::check(place, &opened, older, true)? {
        note(&found);
    }
    let Opened { catalog, bodies, rules, recovery, .. } = opened;
    let store = Store::open(catalog, bodies, Memory::new(u64::MAX)).map_err(|e| place.fail(&e))?;
    let (name, directory) = (place.name(), place.directory()?);
    Ok(Target {
        name,
        file: place.file().map(Path::to_path_buf),
        place: place.words(),
        directory,
        store: Arc::new(store),
        backup: Running::default(),
        rules,
        survey: Arc::default(),
        recovery,
        is_served: false,
        restart: None,
    })
}

/// Parses the arguments of an administrative command, whose paths are relative to a directory.
///
/// # Errors
/// Exit code 2 if they are invalid.
fn parse(words: &[String], directory: &Path) -> Result<Command, Exit> {
    let program = PathBuf::from("plimsoll-gateway");
    let all = std::iter::once(program.into_os_string()).chain(words.iter().map(Into::into));
    let parsed = Arguments::command().try_get_matches_from(all);
    let parsed = parsed.and_then(|matches| Arguments::from_arg_matches(&matches));
    let mut command = parsed.map_err(|error| Exit::input(error.to_string()))?.command;
    match &mut command {
        Command::Backup(backup::Arguments { to, key_file, .. }) => {
            if let Some(to) = to.as_mut().filter(|to| !to.contains("://")) {
                *to = directory.join(&*to).display().to_string();
            }
            if let Some(file) = key_file {
                *file = directory.join(&*file);
            }
        }
        Command::Unshipped(unshipped::Arguments { from, .. }) => *from = directory.join(&*from),
        Command::Catalog { command: CatalogCommand::Migrate(migrate::Arguments { to, .. }) } => {
            *to = directory.join(&*to);
        }
        Command::Restore(restore::RestoreArguments { key_file, from, .. }) => {
            if let Some(file) = key_file {
                *file = directory.join(&*file);
            }
            if let Some(from) = from.as_mut().filter(|from| !from.contains("://")) {
                *from = directory.join(&*from).display().to_string();
            }
        }
        _ => {}
    }
    Ok(command)
}

/// Executes the command with some arguments on the store of this process, for somebody else. A command that changes
/// something is logged, with the name of that person and its result.
///
/// # Errors
/// The error of the command, or exit code 2 for invalid arguments and commands that do not work on an open store.
pub fn audited(
    words: &[String],
    directory: &Path,
    who: &str,
    target: &Target,
    out: &dyn Output,
) -> Result<(), Exit> {
    let command = parse(words, directory)?;
    let refused = || Exit::input("a running gateway does not execute this command");
    let command = Administrative::of(&command).ok_or_else(refused)?;
    let words: Vec<_> = words.iter().map(|word| single_line(word)).collect();
    let words = words.join(" ");
    let is_logged = !command.only_reads();
    let needs_lead = is_logged && !matches!(command, Administrative::Promote(_));
    if needs_lead && target.store.catalog.following().is_some() {
        return Err(target.fail(&CatalogError::Standby));
    }
    if is_logged {
        note(&format!("audit: {who} begins the command: {words}"));
    }
    let result = command.execute(target, out);
    if is_logged {
        let end = result.as_ref().map_or_else(|exit| format!("code {}", exit.code), |()| "success".into());
        note(&format!("audit: the command of {who} ends with {end}: {words}"));
    }
    result
}
