//! `plimsoll gateway`: runs the program `plimsoll-gateway`, which is a separate package.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use clap::Args;

use super::exit::Exit;

/// Name of the program.
const PROGRAM: &str = "plimsoll-gateway";

/// Arguments of `plimsoll gateway`.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub struct Arguments {
    /// Arguments of plimsoll-gateway
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Replaces this process by `plimsoll-gateway`, beside this program or on the path.
///
/// # Errors
/// Exit code 2 if the program is not installed or cannot be executed.
pub fn gateway(arguments: &Arguments) -> Result<(), Exit> {
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name(PROGRAM)).filter(|p| p.is_file());
    let program = beside.map_or_else(|| OsString::from(PROGRAM), OsString::from);
    let error = Command::new(program).args(&arguments.arguments).exec();
    Err(Exit::input(format!(
        "{PROGRAM}: {error}; build it with `cargo build --release -p {PROGRAM}` and put it on the path"
    )))
}
