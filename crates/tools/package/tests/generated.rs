//! The generated man pages and completions.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

fn names(directory: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn every_command_has_a_man_page_and_every_shell_completes_both_programs() {
    let directory = std::env::temp_dir().join(format!("plimsoll-package-{}", std::process::id()));
    plimsoll_package::write(&directory).unwrap();
    let pages = names(&directory.join("man"));
    for program in plimsoll_package::programs() {
        let name = program.get_name();
        assert!(pages.contains(&format!("{name}.1")));
        for command in program.get_subcommands().filter(|command| !command.is_hide_set()) {
            let page = format!("{name}-{}.1", command.get_name());
            assert!(pages.contains(&page), "{page}");
            let text = fs::read_to_string(directory.join("man").join(&page)).unwrap();
            assert!(text.contains(".SH SYNOPSIS") && text.contains(".SH NAME"), "{page}");
        }
        for (shell, file) in
            [("bash", name.to_string()), ("zsh", format!("_{name}")), ("fish", format!("{name}.fish"))]
        {
            let script = fs::read_to_string(directory.join("completions").join(shell).join(&file)).unwrap();
            assert!(script.contains("--help"), "{shell} {file}");
        }
        let script = directory.join("completions/bash").join(name);
        let checked = Command::new("bash").arg("-n").arg(&script).status().unwrap();
        assert!(checked.success(), "{name}: bash does not read its completions");
        // Bash completes the first command.
        let first = program.get_subcommands().next().unwrap().get_name().to_string();
        let ask = format!(
            "source {}; COMP_WORDS=({name} {}); COMP_CWORD=1; _{} {name} {} {name}; echo \"${{COMPREPLY[@]}}\"",
            script.display(),
            &first[..2],
            name.replace('-', "__"),
            &first[..2],
        );
        let answer = Command::new("bash").arg("-c").arg(ask).output().unwrap();
        assert!(
            String::from_utf8_lossy(&answer.stdout).split_whitespace().any(|word| word == first),
            "{answer:?}"
        );
    }
    fs::remove_dir_all(&directory).unwrap();
}
