//! The reference of a command line in Markdown, for the documentation site.

use std::fmt::Write;

use clap::{Arg, ArgAction, Command};

/// Returns the page of a program: all commands with their arguments.
pub fn page(program: &Command) -> String {
    let mut program = program.clone();
    program.build();
    let mut page = format!("# {}\n", program.get_name());
    section(&mut page, &program, program.get_name(), 2);
    page
}

/// Appends a command, whose full name is `name`, and its subcommands.
fn section(page: &mut String, command: &Command, name: &str, level: usize) {
    let mut usage = command.clone().bin_name(name).render_usage().to_string();
    if let Some(rest) = usage.strip_prefix("Usage: ") {
        usage = rest.trim().to_string();
    }
    let about = command.get_long_about().or_else(|| command.get_about()).map(ToString::to_string);
    let _ = write!(page, "\n{}\n\n```text\n{usage}\n```\n", prose(&about.unwrap_or_default()));
    for heading in headings(command) {
        let title = heading.unwrap_or("Arguments and options");
        let _ = write!(page, "\n**{title}**\n\n");
        let arguments = command.get_arguments().filter(|argument| argument.get_help_heading() == heading);
        arguments.filter(|argument| is_described(argument)).for_each(|argument| option(page, argument));
    }
    if let Some(examples) = command.get_after_long_help().or_else(|| command.get_after_help()) {
        let _ = write!(page, "\n```text\n{}\n```\n", examples.to_string().trim());
    }
    for subcommand in
        command.get_subcommands().filter(|each| !each.is_hide_set() && each.get_name() != "help")
    {
        let name = format!("{name} {}", subcommand.get_name());
        let _ = write!(page, "\n{} {name}\n", "#".repeat(level.min(6)));
        section(page, subcommand, &name, level + 1);
    }
}

/// Returns the headings of the arguments in their order; `None` is the default one.
fn headings(command: &Command) -> Vec<Option<&str>> {
    let mut headings = Vec::new();
    for argument in command.get_arguments().filter(|argument| is_described(argument)) {
        if !headings.contains(&argument.get_help_heading()) {
            headings.push(argument.get_help_heading());
        }
    }
    headings
}

fn is_described(argument: &Arg) -> bool {
    let is_built_in = matches!(
        argument.get_action(),
        ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version
    );
    !argument.is_hide_set() && !is_built_in
}

/// Appends an argument with its values, its variable and its default.
fn option(page: &mut String, argument: &Arg) {
    let values = argument.get_value_names().unwrap_or_default().iter().map(|value| format!(" <{value}>"));
    let takes_values = !matches!(argument.get_action(), ArgAction::SetTrue | ArgAction::Count);
    let values: String = if takes_values { values.collect() } else { String::new() };
    let names: Vec<String> = (argument.get_short().map(|short| format!("-{short}")).into_iter())
        .chain(argument.get_long().map(|long| format!("--{long}")))
        .collect();
    let name = format!("{}{values}", names.join(", "));
    let help = argument.get_long_help().or_else(|| argument.get_help()).map(ToString::to_string);
    let _ = write!(page, "- `{}`: {}", name.trim(), prose(&help.unwrap_or_default()).replace('\n', "\n    "));
    let choices = argument.get_possible_values();
    if takes_values && !choices.is_empty() && !argument.is_hide_possible_values_set() {
        let names: Vec<String> = choices.iter().map(|choice| format!("`{}`", choice.get_name())).collect();
        let _ = write!(page, " One of: {}.", names.join(", "));
    }
    if let Some(variable) = argument.get_env() {
        let _ = write!(page, " Environment variable: `{}`.", variable.to_string_lossy());
    }
    let defaults: Vec<_> =
        argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if takes_values && !defaults.is_empty() && !argument.is_hide_default_value_set() {
        let _ = write!(page, " Default: `{}`.", defaults.join(" "));
    }
    page.push('\n');
}

/// Returns a help text as a sentence of Markdown: a full stop at its end, and no markup by chance.
fn prose(text: &str) -> String {
    let text = text.trim();
    let mut out = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            '<' => out.push_str("&lt;"),
            '*' | '_' | '[' | ']' => out.extend(['\\', character]),
            _ => out.push(character),
        }
    }
    if !out.is_empty() && !out.ends_with(['.', ':', '!', '?']) {
        out.push('.');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_every_command_and_option_that_the_help_shows() {
        for program in crate::programs() {
            let page = page(&program);
            for command in program.get_subcommands().filter(|each| !each.is_hide_set()) {
                assert!(page.contains(&format!("\n## {} {}\n", program.get_name(), command.get_name())));
                for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
                    let Some(long) = argument.get_long().filter(|long| *long != "help") else { continue };
                    assert!(page.contains(&format!("--{long}")), "{} --{long}", command.get_name());
                }
            }
        }
    }

    #[test]
    fn defaults_variables_and_choices_are_named_and_hidden_options_are_not() {
        let command = Command::new("tool").subcommand(
            Command::new("run")
                .about("Run <it>")
                .arg(Arg::new("key").long("key").value_name("KEY").env("TOOL_KEY").help("Key of *all*"))
                .arg(
                    Arg::new("mode")
                        .short('m')
                        .long("mode")
                        .value_name("MODE")
                        .help("Speed")
                        .default_value("fast")
                        .value_parser(["fast", "slow"]),
                )
                .arg(Arg::new("quiet").long("quiet").action(ArgAction::SetTrue).help("Print nothing"))
                .arg(Arg::new("secret").long("secret").hide(true)),
        );
        let page = page(&command);
        assert!(page.contains("## tool run\n\nRun &lt;it>.\n"), "{page}");
        assert!(
            page.contains("- `--key <KEY>`: Key of \\*all\\*. Environment variable: `TOOL_KEY`.\n"),
            "{page}"
        );
        assert!(
            page.contains("- `-m, --mode <MODE>`: Speed. One of: `fast`, `slow`. Default: `fast`.\n"),
            "{page}"
        );
        assert!(page.contains("- `--quiet`: Print nothing.\n") && !page.contains("secret"), "{page}");
    }
}
