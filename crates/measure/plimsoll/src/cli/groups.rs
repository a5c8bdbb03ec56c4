//! Groups of the commands in `plimsoll --help`.

use std::fmt::Write;

use plimsoll_document::terminal::{folded, terminal_width};

/// Maximum width of the help, in columns.
pub const HELP_WIDTH: u16 = 110;
/// Columns of the names of commands.
const NAMES: usize = 11;

/// Headings and the commands below each.
const GROUPS: &[(&str, &[&str])] = &[
    ("Measure", &["run", "ycsb", "replay", "fit", "fleet", "edge", "probe", "calibrate"]),
    ("Judge", &["show", "report", "compare", "check", "verify", "audit", "history"]),
    ("Price", &["cost", "meter", "advise", "published"]),
    ("Store", &["gateway", "serve", "bucket", "clean"]),
    ("Tools", &["list", "merge", "import", "export"]),
];

/// Returns the commands with their descriptions, by group.
fn text(command: &clap::Command) -> String {
    let width = usize::from(terminal_width().unwrap_or(HELP_WIDTH).min(HELP_WIDTH));
    let mut out = String::new();
    for (heading, names) in GROUPS {
        let _ = writeln!(out, "{heading}:");
        for name in *names {
            let about = command.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            out.push_str(&folded(&format!("  {name:<NAMES$}{about}"), width, NAMES + 2));
        }
        out.push('\n');
    }
    out
}

/// Replaces the list of commands in the help with one in groups.
pub fn add(command: clap::Command) -> clap::Command {
    let groups = text(&command);
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}Options:\n{{options}}{{after-help}}"
    ))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn every_command_is_in_one_group() {
        let command = Cli::command();
        let mut names: Vec<&str> =
            command.get_subcommands().map(clap::Command::get_name).filter(|name| *name != "help").collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        names.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(names, grouped);
        let help = add(command).render_help().to_string();
        assert!(help.contains("Judge:\n  show       Show the results of runs\n"), "{help}");
    }
}
