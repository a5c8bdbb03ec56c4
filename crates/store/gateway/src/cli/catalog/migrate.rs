//! `plimsoll-gateway catalog migrate`: moves the catalog to the place that other settings name.

use std::path::PathBuf;

use clap::Args;

use crate::cli::Exit;
use crate::cli::out::Output;
use crate::cli::place::StoreArguments;
use crate::cli::run::restart::Next;
use crate::cli::target::Target;
use crate::config::{CatalogPlace, Config};
use crate::migrate::database::DatabaseSource;
use crate::migrate::directory::DirectorySource;
use crate::migrate::target::begin;
use crate::migrate::{MigrateError, Moved, migrate};
use plimsoll_catalog::CatalogError;

/// Arguments of `plimsoll-gateway catalog migrate`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    pub place: StoreArguments,
    /// Settings with the new place of the catalog, and the same tiers
    #[arg(long, value_name = "NEW_FILE")]
    pub to: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Returns an error unless the catalog with settings can be moved to the place in others.
fn check(from: &Config, to: &Config, name: &str) -> Result<(), Exit> {
    if from.catalog == to.catalog {
        return Err(Exit::input(format!("--to {name}: catalog.url is the same as now")));
    }
    for (tier, table) in &from.tiers {
        if to.tiers.get(tier).is_none_or(|other| other.url != table.url) {
            return Err(Exit::input(format!(
                "--to {name}: tier {tier} must have the same URL as now, because the catalog says what is in it"
            )));
        }
    }
    let has_lease = |config: &Config| config.backup.as_ref().is_some_and(|rule| rule.lease_ms.is_some());
    if has_lease(from) {
        return Err(Exit::input(
            "a catalog with backup.lease or durability = \"tier\" cannot be moved: another gateway could continue it; \
             remove both first",
        ));
    }
    if has_lease(to) {
        return Err(Exit::input(format!(
            "--to {name}: move the catalog without backup.lease and durability = \"tier\", and add them afterwards"
        )));
    }
    Ok(())
}

/// Returns the place of a catalog for messages, without secrets.
fn describe(place: &CatalogPlace, file: &str) -> String {
    match place {
        CatalogPlace::Directory(root) => format!("{}, the place in {file}", root.display()),
        CatalogPlace::Database(_) => format!("the database in {file}"),
    }
}

/// Moves the catalog.
///
/// # Errors
/// Exit code 2 for invalid settings, 3 if the catalog or its copy fails.
pub fn run(arguments: &Arguments, target: &Target, out: &dyn Output) -> Result<(), Exit> {
    let Some(from) = &target.file else {
        return Err(Exit::input("--data: a data directory has its catalog inside; use a FILE with settings"));
    };
    let name = arguments.to.display().to_string();
    let from = Config::load(from).map_err(Exit::input)?;
    let to = Config::load(&arguments.to).map_err(|e| Exit::input(format!("--to: {e}")))?;
    check(&from, &to, &name)?;
    let catalog = &*target.store.catalog;
    let not_moved =
        |error: &dyn std::fmt::Display| target.fail(&format!("the catalog was not moved: {error}"));
    let directory = target.directory.as_ref().map(|root| DirectorySource::new(catalog, root));
    let directory = directory.transpose().map_err(|e| not_moved(&e))?.flatten();
    let database = DatabaseSource::new(catalog).map_err(|e| not_moved(&e))?;
    let copy = begin(&to.catalog).map_err(|error| match error {
        MigrateError::Occupied(_) => Exit::input(format!("--to {name}: {error}")),
        error => Exit::store(format!("--to {name}: {error}")),
    })?;
    let place = describe(&to.catalog, &name);
    let mut report = |rows| {
        let said = if arguments.json { Ok(()) } else { out.say(&format!("copied     {rows} rows\n")) };
        said.map_err(|exit| CatalogError::Io(exit.message))
    };
    let moved = match (directory, database) {
        (Some(mut source), _) => {
            let moved = migrate(&mut source, copy, &place, &mut report);
            if let Some(restart) = target.restart.as_ref().filter(|_| source.is_closed()) {
                let next = moved.as_ref().map_or(Next::Same, |_| Next::File(arguments.to.clone()));
                restart.prepare(next);
            }
            moved
        }
        (None, Some(mut source)) => migrate(&mut source, copy, &place, &mut report),
        (None, None) => return Err(Exit::input("this catalog is neither in a directory nor in a database")),
    };
    let moved = moved.map_err(|error| match error {
        MigrateError::Undecided(..) | MigrateError::Unmarked(_) => target.fail(&error),
        error => not_moved(&error),
    })?;
    tell(arguments, target, &moved, &place, out)
}

/// Reports the result, and the next step.
fn tell(
    arguments: &Arguments,
    target: &Target,
    moved: &Moved,
    place: &str,
    out: &dyn Output,
) -> Result<(), Exit> {
    if arguments.json {
        let text = serde_json::to_string_pretty(moved).map_err(Exit::store)?;
        return out.say(&format!("{text}\n"));
    }
    let Moved { rows, changed, last, pause_ms } = moved;
    let (old, new) = (&target.name, arguments.to.display());
    out.say(&format!("moved      the catalog is in {place}\n"))?;
    out.say(&format!("copied     {rows} rows, and {changed} again that have changed meanwhile\n"))?;
    out.say(&format!("last       {last} keys in {pause_ms} ms, in which nothing was written\n"))?;
    out.say(&match (&target.directory, target.is_served) {
        (Some(_), true) => format!(
            "next       the gateway starts itself again with {new}, and then writes continue; let its service use {new}, \
             because {old} is refused from now on\n"
        ),
        (Some(_), false) => format!("next       start the gateway with {new}; {old} is refused from now on\n"),
        (None, _) => format!(
            "next       start all gateways again with {new}; until then, they answer with status 503\n"
        ),
    })
}
