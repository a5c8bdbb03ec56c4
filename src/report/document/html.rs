//! A page that opens offline: the document as plain HTML, its charts by the scripts of `report/template/`.

use minijinja::value::Serde;
use minijinja::{Value, context};
use serde_json::json;

use super::Document;
use crate::report::page;

/// The page.
///
/// # Errors
/// When the template is broken.
pub fn render(document: &Document) -> Result<String, minijinja::Error> {
    let subjects = document.charts.get("subjects").cloned().unwrap_or_else(|| json!([]));
    let data = json!({ "subjects": subjects, "references": [], "chart": document.charts });
    let content = context! {
        stamps => Value::from(Serde(&document.warnings)),
        answer => document.headline(),
        ..Value::from(Serde(document))
    };
    page::render(
        include_str!("../template/document.html"),
        content,
        &data,
        &[include_str!("../template/decisions.js")],
    )
}
