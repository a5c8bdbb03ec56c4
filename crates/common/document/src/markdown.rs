//! Renders a document as GitHub-flavoured Markdown.

use super::{Document, Table};

/// Escapes text so that it cannot end a table cell or start markup.
pub fn plain(text: &str) -> String {
    text.replace('\\', "\\\\").replace('|', "\\|").replace('<', "&lt;").replace('`', "'").replace('\n', " ")
}

fn table(table: &Table) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut out = String::new();
    if !table.head.is_empty() {
        out.push_str(&format!("\n#### {}\n", plain(&table.head)));
    }
    out.push('\n');
    out.push_str(&line(table.columns.iter().map(|c| plain(&c.name)).collect()));
    let rule = |number: bool| if number { "---:" } else { "---" };
    out.push_str(&line(table.columns.iter().map(|c| rule(c.number).to_string()).collect()));
    for row in &table.rows {
        out.push_str(&line(row.iter().map(|cell| plain(cell)).collect()));
    }
    out
}

/// Returns the document as Markdown.
pub fn render(document: &Document) -> String {
    let mut out = format!("### {}\n\n", plain(&document.title));
    document.what.iter().for_each(|line| out.push_str(&format!("{}\n", plain(line))));
    let headline = document.headline();
    if !headline.is_empty() {
        out.push_str(&format!("\n**{}**\n", plain(&headline)));
    }
    if !document.warnings.is_empty() {
        out.push('\n');
    }
    document.warnings.iter().for_each(|line| out.push_str(&format!("> ⚠ {}\n>\n", plain(line))));
    document.tables.iter().for_each(|t| out.push_str(&table(t)));
    if !document.notes.is_empty() {
        out.push('\n');
    }
    document.notes.iter().for_each(|note| out.push_str(&format!("- {}\n", plain(note))));
    out
}
