//! Man pages, completions and reference of `plimsoll` and `plimsoll-gateway`, generated from their command lines.
//!
//! ```text
//! DIRECTORY/man/plimsoll.1, plimsoll-run.1, …      one page per command
//! DIRECTORY/completions/bash/plimsoll, …           one file per program and shell
//! DIRECTORY/reference/plimsoll.md, …               one page per program, for the documentation site
//! ```

pub mod reference;

use std::io;
use std::path::Path;

use clap::Command;
use clap_complete::Shell;

/// Shells with completions, and the names of the files of a program called `plimsoll`.
const SHELLS: [(Shell, &str, &str, &str); 3] =
    [(Shell::Bash, "bash", "", ""), (Shell::Zsh, "zsh", "_", ""), (Shell::Fish, "fish", "", ".fish")];

/// Returns the command lines of all programs.
pub fn programs() -> [Command; 2] {
    [plimsoll::cli::command(), plimsoll_gateway::cli::command()]
}

/// Writes the man pages, the completions and the reference of all programs into a directory.
///
/// # Errors
/// If a file cannot be written.
pub fn write(directory: &Path) -> io::Result<()> {
    let man = directory.join("man");
    let reference = directory.join("reference");
    std::fs::create_dir_all(&man)?;
    std::fs::create_dir_all(&reference)?;
    for mut program in programs() {
        let name = program.get_name().to_string();
        clap_mangen::generate_to(program.clone(), &man)?;
        std::fs::write(reference.join(format!("{name}.md")), reference::page(&program))?;
        for (shell, folder, before, after) in SHELLS {
            let folder = directory.join("completions").join(folder);
            std::fs::create_dir_all(&folder)?;
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut program, &name, &mut script);
            std::fs::write(folder.join(format!("{before}{name}{after}")), script)?;
        }
    }
    Ok(())
}
