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
    let content = context! {
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
