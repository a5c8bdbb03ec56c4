//! Commands of `plimsoll-gateway`.

mod admin;
mod adopt;
mod at;
mod backup;
mod backup_place;
mod catalog;
mod command;
mod console;
mod examples;
mod journaled;
mod opened;
pub mod out;
mod ownership;
mod place;
mod place_rules;
mod plan;
mod preflight;
mod promote;
mod reattach;
mod rebuild;
mod release;
mod replace_tier;
mod restore;
mod restore_bodies;
mod restore_bucket;
mod rollback;
mod run;
mod scrub;
mod status;
mod sweep;
mod target;
mod tariff;
mod temporary;
mod undelete;
mod unshipped;
mod whereis;

use std::process::ExitCode;

use self::command::Administrative;
use self::out::say;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use plimsoll_base::version;

/// A durable S3 object store over one directory or several tiers.
#[derive(Debug, Parser)]
#[command(name = "plimsoll-gateway", version = version::line(), max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve a data directory, or several tiers, as an S3 endpoint, in the foreground
    Run(Box<run::Arguments>),
    /// Show the state of a store: the log, its garbage, and damage
    Status(status::Arguments),
    /// Verify every stored byte, and list the objects that are damaged
    Scrub(scrub::Arguments),
    /// Show what the rules would move and pack now, and what it costs; changes nothing
    Plan(plan::Arguments),
    /// Take over the objects of an existing bucket in place; nothing is copied
    Adopt(adopt::Arguments),
    /// Write all objects back under their own keys, as an ordinary bucket
    Release(release::Arguments),
    /// Return moved blobs to the tiers that they came from, while their sources exist
    Rollback(rollback::Arguments),
    /// Bring objects back that were deleted or replaced, while they are kept
    Undelete(undelete::Arguments),
    /// Copy the catalog while the gateway runs, or record the backup of a database
    Backup(backup::Arguments),
    /// Restore the catalog of any time, or a bucket of a running gateway, from the backup of [backup]
    Restore(restore::RestoreArguments),
    /// Verify the backup of [backup]: read all of it, and write nothing
    VerifyBackup(restore::VerifyArguments),
    /// Move the catalog as a whole
    Catalog {
        #[command(subcommand)]
        command: catalog::CatalogCommand,
    },
    /// Let a standby lead: ask the gateway that leads to end, and wait until it does not lead any more
    Promote(promote::Arguments),
    /// Show where the bytes of an object are, and what the rules will do with it
    Where(whereis::Arguments),
    /// Build a catalog that was lost from the tiers
    Recover(reattach::RecoverArguments),
    /// Complete a catalog that was restored from a backup with the newer objects in the tiers
    Reconcile(reattach::ReconcileArguments),
    /// Find objects in the tiers that the catalog does not know, and delete them with --delete
    Sweep(sweep::Arguments),
    /// List the acknowledged writes that only the replaced log of a former leader has, and bring them back with --apply
    Unshipped(unshipped::Arguments),
    /// Accept that the bytes of a tier are lost, and that the place in the settings is a new one
    ReplaceTier(replace_tier::Arguments),
    /// Build the index of the catalog again from the log
    RebuildIndex(rebuild::Arguments),
}

/// Reason for which a command fails, with its exit code.
#[derive(Debug)]
pub struct Exit {
    /// Exit code: 1 for a failed check, 2 for invalid input, 3 for a store that cannot be used.
    pub code: u8,
    /// Message for the user.
    pub message: String,
}

impl Exit {
    /// Returns exit code 1.
    pub fn check(message: impl std::fmt::Display) -> Exit {
        Exit { code: 1, message: message.to_string() }
    }

    /// Returns exit code 2.
    pub fn input(message: impl std::fmt::Display) -> Exit {
        Exit { code: 2, message: message.to_string() }
    }

    /// Returns exit code 3.
    pub fn store(message: impl std::fmt::Display) -> Exit {
        Exit { code: 3, message: message.to_string() }
    }
}

/// Returns the command line of the program, with the examples of its help.
pub fn command() -> clap::Command {
    examples::add(Arguments::command())
}

/// Runs the command of the process arguments.
pub fn main() -> ExitCode {
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    if let Some(json) = version::json(words) {
        return say(&json).map_or_else(|exit| ExitCode::from(exit.code), |()| ExitCode::SUCCESS);
    }
    let parsed = command().try_get_matches();
    let arguments = match parsed.and_then(|matches| Arguments::from_arg_matches(&matches)) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Clap prints help to standard output and errors to standard error.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    let result = match &arguments.command {
        Command::Run(arguments) => run::run(arguments),
        Command::Status(arguments) => status::status(arguments),
        Command::Plan(arguments) => plan::plan(arguments),
        Command::Adopt(arguments) => adopt::adopt(arguments),
        Command::Release(arguments) => release::release(arguments),
        Command::Recover(arguments) => reattach::recover(arguments),
        Command::Reconcile(arguments) => reattach::reconcile(arguments),
        Command::Sweep(arguments) => sweep::sweep(arguments),
        Command::ReplaceTier(arguments) => replace_tier::replace_tier(arguments),
        Command::RebuildIndex(arguments) => rebuild::rebuild(arguments),
        Command::Restore(arguments) if arguments.bucket.is_none() => restore::restore(arguments),
        Command::Promote(arguments) => promote::promote(arguments),
        Command::VerifyBackup(arguments) => restore::verify_backup(arguments),
        command @ (Command::Scrub(_)
        | Command::Rollback(_)
        | Command::Undelete(_)
        | Command::Unshipped(_)
        | Command::Backup(_)
        | Command::Catalog { .. }
        | Command::Restore(_)
        | Command::Where(_)) => Administrative::of(command).map_or(Ok(()), |command| command.run()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(exit) => {
            plimsoll_catalog::log::note(&exit.message);
            ExitCode::from(exit.code)
        }
    }
}
