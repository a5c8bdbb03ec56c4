//! Rules of form for prose: doc comments that say something, and lines that fit on a screen.

use std::path::{Path, PathBuf};

use crate::support::repository;

/// Longest line of a comment or of Markdown, in characters. Tables and addresses may be longer.
const COLUMNS: usize = 120;

/// Words that open a question, not a description.
const OPENERS: [&str; 4] = ["What", "Whether", "Where", "How"];

fn files(directory: &Path, extension: &str, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files(&path, extension, out);
        } else if path.extension().is_some_and(|e| e == extension) {
            out.push(path);
        }
    }
}

fn rust_files() -> Vec<PathBuf> {
    let mut out = Vec::new();
    files(&repository("crates"), "rs", &mut out);
    files(&repository("fuzz/fuzz_targets"), "rs", &mut out);
    out.push(repository("fuzz/targets.rs"));
    out
}

fn markdown_files() -> Vec<PathBuf> {
    let mut out = Vec::new();
    files(&repository("docs"), "md", &mut out);
    files(&repository("results"), "md", &mut out);
    let top = std::fs::read_dir(repository("")).unwrap().flatten().map(|entry| entry.path());
    out.extend(top.filter(|path| path.extension().is_some_and(|e| e == "md")));
    out
}

/// Returns the doc blocks of a file: the number of their first line and their text.
fn doc_blocks(text: &str) -> Vec<(usize, String)> {
    let mut out: Vec<(usize, &str, String)> = Vec::new();
    let mut open = false;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim_start();
        let marker = ["//!", "///"].into_iter().find(|m| line.starts_with(m) && !line.starts_with("////"));
        match (marker, out.last_mut()) {
            (Some(marker), Some((_, same, block))) if open && *same == marker => {
                block.push(' ');
                block.push_str(line[3..].trim());
            }
            (Some(marker), _) => out.push((number, marker, line[3..].trim().to_string())),
            (None, _) => {}
        }
        open = marker.is_some();
    }
    out.into_iter().map(|(number, _, block)| (number, block)).collect()
}

#[test]
fn doc_comments_have_more_than_two_words_and_ask_nothing() {
    let mut wrong = Vec::new();
    for file in rust_files() {
        for (line, block) in doc_blocks(&std::fs::read_to_string(&file).unwrap()) {
            let first = block.split(|c: char| !c.is_alphabetic()).find(|word| !word.is_empty());
            if block.split_whitespace().count() <= 2 || first.is_some_and(|word| OPENERS.contains(&word)) {
                wrong.push(format!("{}:{line}: {block}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn comments_and_markdown_fit_on_a_screen() {
    let mut wrong = Vec::new();
    for file in rust_files() {
        for (number, line) in (1..).zip(std::fs::read_to_string(&file).unwrap().lines()) {
            if line.trim_start().starts_with("//") && line.chars().count() > COLUMNS {
                wrong.push(format!("{}:{number}", file.display()));
            }
        }
    }
    for file in markdown_files() {
        for (number, line) in (1..).zip(std::fs::read_to_string(&file).unwrap().lines()) {
            let exempt = line.starts_with('|') || line.contains("http");
            if !exempt && line.chars().count() > COLUMNS {
                wrong.push(format!("{}:{number}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "over {COLUMNS} columns:\n{}", wrong.join("\n"));
}

#[test]
fn the_readme_is_short() {
    let lines = std::fs::read_to_string(repository("README.md")).unwrap().lines().count();
    assert!(lines <= 150, "{lines} lines");
}

#[test]
fn source_files_have_at_most_500_lines() {
    let lines = |file: &PathBuf| std::fs::read_to_string(file).unwrap().lines().count();
    let sources = rust_files().into_iter().filter(|file| file.iter().any(|part| part == "src"));
    let long: Vec<_> = sources.filter(|file| lines(file) > 500).collect();
    assert!(long.is_empty(), "over 500 lines: {long:?}");
}

/// Returns the parameters of the functions in a file, as `name: type`.
fn parameters(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    for (at, _) in text.match_indices("fn ") {
        let named = text[at + 3..].trim_start_matches(|c: char| c.is_alphanumeric() || c == '_');
        // A generic function: its parameters follow the generic ones.
        let open = match named.find(['(', '\n']) {
            Some(open) if named.len() < text.len() - at - 3 => open,
            _ => continue,
        };
        let (mut depth, mut parameter, mut before) = (0, String::new(), ' ');
        for c in named[open..].chars() {
            let closes = ")]}".contains(c) || c == '>' && before != '-';
            depth += i32::from("([{<".contains(c)) - i32::from(closes);
            before = c;
            match (c, depth) {
                (_, 0) | (',', 1) => out.push(std::mem::take(&mut parameter)),
                ('(', 1) if parameter.is_empty() => {}
                (c, _) => parameter.push(c),
            }
            if depth == 0 {
                break;
            }
        }
    }
    out
}

#[test]
fn no_parameter_is_a_tuple() {
    let tuple = |parameter: &String| {
        let mut depth = 0;
        let colon = parameter.char_indices().position(|(_, c)| {
            depth += i32::from(c == '(') - i32::from(c == ')');
            c == ':' && depth == 0
        });
        let kind = parameter.chars().skip(colon.map_or(usize::MAX, |at| at + 1)).collect::<String>();
        let kind = kind.trim().trim_start_matches('&').trim_start_matches("mut ");
        kind.starts_with('(') && kind != "()" && !kind.starts_with("(dyn ")
    };
    let mut wrong = Vec::new();
    for file in rust_files() {
        let found = parameters(&std::fs::read_to_string(&file).unwrap());
        wrong.extend(found.into_iter().filter(tuple).map(|p| format!("{}: {}", file.display(), p.trim())));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let made = "f<T>(&self, (a, b): (u8, u8), c: &mut (T, u8), d: (), e: &mut (dyn Fn() + Send)) {}";
    let made = parameters(&["fn", made].join(" "));
    assert_eq!(made.iter().filter(|parameter| tuple(parameter)).count(), 2, "{made:?}");
}
