//! Renders HTML pages: one self-contained file that opens offline, with its data as JSON and scripts that draw
//! the charts from it.

use minijinja::{Environment, Value, context};

/// Apache ECharts 6.1.0: `dist/echarts.min.js` of its npm package, unchanged, compressed with `zstd --ultra -22`.
const LIBRARY: &[u8] = include_bytes!("template/echarts.min.js.zst");

/// Length of the library in bytes.
const LIBRARY_BYTES: usize = 1_121_883;

/// Returns a page with the library between its parts.
fn with_library(before: &str, after: &str) -> String {
    let mut page = Vec::with_capacity(before.len() + LIBRARY_BYTES + after.len());
    page.extend_from_slice(before.as_bytes());
    // A test reads the same bytes.
    let _ = zstd::stream::copy_decode(LIBRARY, &mut page);
    page.extend_from_slice(after.as_bytes());
    String::from_utf8(page).unwrap_or_default()
}

/// Place of the library in a page. Neither text nor JSON on a page contains these control characters.
const PLACE: &str = "\u{1}charts\u{1}";

/// Renders a template of `report/template/` with its content. `scripts` are inserted between `kit.js` and `start.js`.
///
/// # Errors
/// Fails if a template is invalid; the tests render every template.
pub fn render(
    template: &str,
    content: Value,
    data: &serde_json::Value,
    scripts: &[&str],
) -> Result<String, minijinja::Error> {
    // The data must not end the script element that contains it.
    let text = data.to_string().replace("</", "<\\/").replace("<!--", "<\\u0021--");
    let mut templates = Environment::new();
    templates.add_template("page.html", include_str!("template/page.html"))?;
    templates.add_template("table.html", include_str!("template/table.html"))?;
    templates.add_template("content.html", template)?;
    let kit = include_str!("template/kit.js");
    let start = include_str!("template/start.js");
    // Reports of runs have data of runs, and documents with charts have data of charts.
    let charts = data.get("runs").is_some() || data.get("chart").is_some_and(|chart| !chart.is_null());
    let page = templates.get_template("content.html")?.render(context! {
        version => env!("CARGO_PKG_VERSION"),
        style => include_str!("template/report.css"),
        echarts => charts.then_some(PLACE),
        scripts => format!("{kit}{}{start}", scripts.concat()),
        data => text,
        ..content
    })?;
    // The library is inserted last, because the engine of the templates would copy it several times.
    Ok(match page.split_once(PLACE).filter(|_| charts) {
        Some((before, after)) => with_library(before, after),
        None => page,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_of_charts_is_whole() {
        let page = with_library("<", ">");
        let source = page.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')).unwrap();
        assert!(source.len() == LIBRARY_BYTES);
        assert!(source.contains("Licensed to the Apache Software Foundation"));
        assert!(source.contains("\"6.1.0\""));
    }
}
