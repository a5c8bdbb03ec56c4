//! A page that opens offline: the document as plain HTML, its charts by the scripts of `report/template/`.

use minijinja::value::Serde;
use minijinja::{Environment as Templates, Value, context};
use serde_json::json;

use super::Document;

/// The page.
///
/// # Errors
/// When the template is broken.
pub fn render(document: &Document) -> Result<String, minijinja::Error> {
    let subjects = document.charts.get("subjects").cloned().unwrap_or_else(|| json!([]));
    let data = json!({ "subjects": subjects, "references": [], "chart": document.charts });
    // What ends a script must not stand in one.
    let data = data.to_string().replace("</", "<\\/").replace("<!--", "<\\u0021--");
    let mut templates = Templates::new();
    templates.add_template("document.html", include_str!("../template/document.html"))?;
    templates.get_template("document.html")?.render(context! {
        document => Value::from(Serde(document)),
        version => env!("CARGO_PKG_VERSION"),
        style => include_str!("../template/report.css"),
        echarts => include_str!("../template/echarts.min.js"),
        scripts => concat!(
            include_str!("../template/kit.js"),
            include_str!("../template/decisions.js"),
            include_str!("../template/start.js"),
        ),
        data => data,
    })
}
