//! In which form an answer is printed, and where.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::cli::exit::Exit;
use crate::cli::out::say;
use crate::report::document::Document;
use crate::text::outgoing;

/// Where an answer goes.
#[derive(Debug, Args)]
pub struct FormArguments {
    /// Form of the answer
    #[arg(long, value_enum, default_value = "table")]
    format: Form,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Write it to this file [default: standard output]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Forms of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// For people, in the terminal
    Table,
    /// For programs; amounts are decimal strings
    Json,
    /// For spreadsheets
    Csv,
    /// For a comment or a page
    Markdown,
    /// A page with charts that opens offline
    Html,
}

impl FormArguments {
    /// Whether it is a page, which has room for everything.
    pub fn is_page(&self) -> bool {
        self.format == Form::Html
    }

    /// Prints the document, or `value` where JSON is asked for.
    ///
    /// # Errors
    /// 2 when the file cannot be written.
    pub fn print(&self, document: &Document, value: &impl Serialize) -> Result<(), Exit> {
        let text = match if self.json { Form::Json } else { self.format } {
            Form::Table => document.terminal(),
            Form::Json => super::json(&document.headed(value)),
            Form::Csv => document.csv(),
            Form::Markdown => document.markdown(),
            Form::Html => document.html().map_err(|e| Exit::input(format!("--format html: {e}")))?,
        };
        match &self.output {
            Some(path) => std::fs::write(path, &*outgoing(&text))
                .map_err(|e| Exit::input(format!("--output {}: {e}; choose another file", path.display()))),
            None => say(&text),
        }
    }
}
