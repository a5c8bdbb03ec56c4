//! Renders a document as an HTML page that opens offline; the scripts of `report/template/` draw its charts.

use minijinja::value::Serde;
use minijinja::{Value, context};
use serde_json::json;

use super::Document;
use crate::page;

/// Returns the HTML page of a document.
///
/// # Errors
/// Fails if the template is invalid; the tests render it.
pub fn render(document: &Document) -> Result<String, minijinja::Error> {
    let subjects = document.charts.get("subjects").cloned().unwrap_or_else(|| json!([]));
    let data = json!({ "subjects": subjects, "references": [], "chart": document.charts });
    // The person who pays reads the answer, the chart and the assumptions; tables follow.
    let is_assumption = |note: &String| note.starts_with("assumed: ") || note.starts_with("not used: ");
    let (assumed, rest): (Vec<String>, Vec<String>) = document.notes.iter().cloned().partition(is_assumption);
    let content = context! {
        assumed,
        rest,
        stamps => Value::from(Serde(&document.warnings)),
        answer => document.headline(),
        ..Value::from(Serde(document))
    };
    page::render(
        include_str!("template/document.html"),
        content,
        &data,
        &[include_str!("template/decisions.js")],
    )
}
