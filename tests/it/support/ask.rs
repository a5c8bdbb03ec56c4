//! Commands of the binary that answer or refuse: what black-box tests of answers share.
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

/// Standard output of a command that ends well.
pub fn good(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

pub fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&good(arguments)).unwrap()
}

/// Runs, expects this exit code and one line on standard error that holds all of `expected`.
pub fn fails(arguments: &[&str], code: i32, expected: &[&str]) {
    let output = run(arguments);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}\n{message}");
    assert_eq!(message.lines().count(), 1, "{arguments:?}: one line\n{message}");
    for part in expected {
        assert!(message.contains(part), "{arguments:?} lacks '{part}'\n{message}");
    }
}

/// As [`fails`], with the code of bad input.
pub fn refused(arguments: &[&str], expected: &[&str]) {
    fails(arguments, 2, expected);
}

pub fn write(directory: &Path, file: &str, text: &str) -> PathBuf {
    let path = directory.join(file);
    std::fs::write(&path, text).unwrap();
    path
}

/// A decimal of a JSON object, as a number.
pub fn usd(field: &str) -> impl Fn(&Value) -> f64 + '_ {
    move |value| value[field].as_str().unwrap().parse().unwrap()
}
