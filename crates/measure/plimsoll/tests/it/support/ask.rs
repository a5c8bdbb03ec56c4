//! Helpers for black-box tests that run the binary once and check its output or its error.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;

use crate::support::{plimsoll, text};

pub fn run(arguments: &[&str]) -> Output {
    plimsoll(arguments).output().unwrap()
}

pub fn name(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Runs a command, expects exit code 0, and returns its standard output.
pub fn good(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

pub fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&good(arguments)).unwrap()
}

/// Runs a command and expects exit code `code` and one line on standard error that contains every part of `expected`.
pub fn fails(arguments: &[&str], code: i32, expected: &[&str]) {
    let output = run(arguments);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}\n{message}");
    assert_eq!(message.lines().count(), 1, "{arguments:?}: the error is not one line\n{message}");
    for part in expected {
        assert!(message.contains(part), "{arguments:?} lacks '{part}'\n{message}");
    }
}

/// Expects exit code 2 (invalid input), otherwise like [`fails`].
pub fn refused(arguments: &[&str], expected: &[&str]) {
    fails(arguments, 2, expected);
}

pub fn write(directory: &Path, file: &str, text: &str) -> PathBuf {
    let path = directory.join(file);
    std::fs::write(&path, text).unwrap();
    path
}

/// Returns a function that reads the decimal string `field` of a JSON object as a number.
pub fn usd(field: &str) -> impl Fn(&Value) -> f64 + '_ {
    move |value| value[field].as_str().unwrap().parse().unwrap()
}
