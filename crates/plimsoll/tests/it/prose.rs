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
