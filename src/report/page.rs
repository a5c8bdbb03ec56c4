//! What all pages share: one self-contained file that opens offline, its data as JSON, its charts by scripts that find it there.

use minijinja::{Environment, Value, context};

/// The page that a template of `report/template/` makes of its content, with `scripts` between the chart kit and what starts it.
///
/// # Errors
/// When a template is broken, which its test would show.
pub fn render(
    template: &str,
    content: Value,
    data: &serde_json::Value,
    scripts: &[&str],
) -> Result<String, minijinja::Error> {
    // What ends a script must not stand in one.
    let data = data.to_string().replace("</", "<\\/").replace("<!--", "<\\u0021--");
    let mut templates = Environment::new();
    templates.add_template("page.html", include_str!("template/page.html"))?;
    templates.add_template("table.html", include_str!("template/table.html"))?;
    templates.add_template("content.html", template)?;
    let kit = include_str!("template/kit.js");
    let start = include_str!("template/start.js");
    templates.get_template("content.html")?.render(context! {
        version => env!("CARGO_PKG_VERSION"),
        style => include_str!("template/report.css"),
        echarts => include_str!("template/echarts.min.js"),
        scripts => format!("{kit}{}{start}", scripts.concat()),
        data => data,
        ..content
    })
}
