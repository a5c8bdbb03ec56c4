//! `plimsoll-package DIRECTORY` writes the man pages and the completions of both programs, as packages contain them,
//! and the reference of their command lines, as the documentation site shows it.

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(directory) = std::env::args_os().nth(1).map(PathBuf::from) else { return ExitCode::from(2) };
    match plimsoll_package::write(&directory) {
        Ok(()) => ExitCode::SUCCESS,
        // A panic prints the error; the program is only part of `make dist`.
        Err(error) => panic!("{}: {error}", directory.display()),
    }
}
