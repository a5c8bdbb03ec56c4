//! Renders HTML pages: one self-contained file that opens offline, with its data as JSON and scripts that draw
//! the charts from it.

use minijinja::{Environment, Value, context};

/// Returns the source of Apache ECharts 6.1.0: `dist/echarts.min.js` of its npm package, unchanged, compressed with
/// `zstd --ultra -22`.
fn library() -> String {
    const COMPRESSED: &[u8] = include_bytes!("template/echarts.min.js.zst");
    /// Maximum size of the source in bytes.
    const CAPACITY: usize = 2 << 20;
    let source = zstd::bulk::decompress(COMPRESSED, CAPACITY).map(String::from_utf8);
    // A test reads the same bytes.
    source.ok().and_then(Result::ok).unwrap_or_default()
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
        Some((before, after)) => [before, &library(), after].concat(),
        None => page,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_of_charts_is_whole() {
        let source = library();
        assert!(source.len() == 1_121_883 && source.contains("Licensed to the Apache Software Foundation"));
        assert!(source.contains("\"6.1.0\""));
    }
}
