//! Flags for the output format and destination of a document.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::cli::exit::Exit;
use crate::cli::out::say;
use plimsoll_base::text::outgoing;
use plimsoll_document::Document;

/// Output format and destination of a document.
#[derive(Debug, Args)]
pub struct FormArguments {
    /// Format of the output
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
    /// Same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Write the output to this file [default: standard output]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Output formats of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Tables for the terminal
    Table,
    /// JSON, with amounts as decimal strings
    Json,
    /// CSV for spreadsheets
    Csv,
    /// Markdown for comments and pages
    Markdown,
    /// HTML page with charts that works offline
    Html,
}

impl FormArguments {
    /// Checks that the directory of the output exists, for commands that take long.
    ///
    /// # Errors
    /// Exit code 2 if it does not.
    pub fn check(&self) -> Result<(), Exit> {
        let Some(path) = &self.output else { return Ok(()) };
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        match parent.is_none_or(std::path::Path::is_dir) && !path.is_dir() {
            true => Ok(()),
            false => Err(Exit::input(format!(
                "--output {}: there is no such directory, or it is one",
                path.display()
            ))),
        }
    }

    /// Returns true if the output is an HTML page, which has room for all details.
    pub fn is_page(&self) -> bool {
        self.format == Format::Html
    }

    /// Returns the format of the output.
    pub fn format(&self) -> Format {
        if self.json { Format::Json } else { self.format }
    }

    /// Prints the document, or `value` with the head of the document if the format is JSON.
    ///
    /// # Errors
    /// Exit code 2 if the page cannot be rendered or the output cannot be written.
    pub fn print(&self, document: &Document, value: &impl Serialize) -> Result<(), Exit> {
        let text = match self.format() {
            Format::Table => document.terminal(),
            Format::Json => super::json(&document.headed(value)),
            Format::Csv => document.csv(),
            Format::Markdown => document.markdown(),
            Format::Html => document.html().map_err(|e| Exit::input(format!("--format html: {e}")))?,
        };
        self.write(&text)
    }

    /// Writes text to the destination.
    ///
    /// # Errors
    /// Exit code 2 if the output cannot be written.
    pub fn write(&self, text: &str) -> Result<(), Exit> {
        match &self.output {
            Some(path) => std::fs::write(path, &*outgoing(text))
                .map_err(|e| Exit::input(format!("--output {}: {e}; choose another file", path.display()))),
            None => say(text),
        }
    }
}
