//! Renders a document for a terminal: the answer first, then tables, then notes.

use std::io::IsTerminal;

use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, Table as Drawn, TableStyle, Width, presets,
};

use super::{Document, Table};

/// Width in columns if standard output is not a terminal and COLUMNS is not set.
pub const SHOWN_WIDTH: u16 = 150;
/// Minimum width of tables, in columns.
const MIN_WIDTH: u16 = 40;

/// Returns the width of the terminal in columns, at least [`MIN_WIDTH`]; `None` if standard output is not a terminal
/// and COLUMNS is not set.
pub fn terminal_width() -> Option<u16> {
    let terminal = || rustix::termios::tcgetwinsize(std::io::stdout()).ok().map(|size| size.ws_col);
    let terminal = || terminal().filter(|columns| *columns > 0);
    let variable = || std::env::var("COLUMNS").ok()?.parse().ok();
    terminal().or_else(variable).map(|width: u16| width.max(MIN_WIDTH))
}

fn width() -> u16 {
    terminal_width().unwrap_or(SHOWN_WIDTH)
}

/// Length of the longest row name that is kept on one line, in characters.
const MAX_NAME: usize = 44;

/// Draws the cells of a table, without a limit of its width. Columns of numbers are right-aligned. If no column has a
/// name, there is no header.
fn draw(table: &Table, style: TableStyle) -> Drawn {
    let mut drawn = Drawn::new();
    drawn.load_style(style).set_content_arrangement(ContentArrangement::Disabled);
    if table.columns.iter().any(|column| !column.name.is_empty()) {
        drawn.set_header(table.columns.iter().map(|column| &column.name));
    }
    drawn.add_rows(&table.rows);
    for (column, drawn) in table.columns.iter().zip(drawn.column_iter_mut()) {
        if column.number {
            drawn.set_cell_alignment(CellAlignment::Right);
        }
    }
    drawn
}

/// Renders a table, preceded by an empty line.
pub fn table(table: &Table) -> String {
    let mut drawn = draw(table, presets::NOTHING);
    drawn.set_width(width()).set_content_arrangement(ContentArrangement::Dynamic);
    let longest = |at: usize| table.rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let whole = |at: usize| (at == 0 || table.columns[at].number) && longest(at) <= MAX_NAME;
    let needed: usize = (0..table.columns.len()).filter(|at| whole(*at)).map(|at| longest(at) + 2).sum();
    // Names and numbers are not broken if enough room remains for the other columns.
    let room = needed * 10 <= usize::from(drawn.width().unwrap_or(SHOWN_WIDTH)) * 7;
    for (at, (column, drawn)) in table.columns.iter().zip(drawn.column_iter_mut()).enumerate() {
        // A number broken over two lines would be unreadable.
        if room && whole(at) || column.number {
            drawn.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(longest(at) as u16 + 2)));
        }
    }
    let head = if table.head.is_empty() { String::new() } else { format!("{}\n", table.head) };
    format!("\n{head}{}", lines(&drawn))
}

/// Renders the document.
pub fn render(document: &Document) -> String {
    let mut out = String::new();
    document.what.iter().for_each(|line| out.push_str(&format!("{line}\n")));
    let headline = document.headline();
    if !headline.is_empty() {
        out.push_str(&format!("{headline}\n"));
    }
    document.warnings.iter().for_each(|line| out.push_str(&format!("! {line}\n")));
    document.tables.iter().for_each(|t| out.push_str(&table(t)));
    if !document.notes.is_empty() {
        out.push('\n');
    }
    document.notes.iter().for_each(|note| out.push_str(&format!("- {note}\n")));
    out
}

/// Renders a table without its heading. In a terminal, its cells wrap to fit.
pub fn plain(table: &Table) -> String {
    let mut drawn = draw(table, presets::NOTHING);
    if let Some(width) = terminal_width() {
        drawn.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    lines(&drawn)
}

/// Renders a table without its heading, as wide as its cells.
pub fn unwrapped(table: &Table) -> String {
    lines(&draw(table, presets::NOTHING))
}

/// Renders a table without its heading. In a terminal that is too narrow, the columns with these names are left out
/// one after the other until the rest fits.
pub fn fitted(table: &Table, optional: &[&str]) -> String {
    let mut drawn = draw(table, presets::NOTHING);
    let Some(width) = terminal_width() else { return lines(&drawn) };
    let too_wide = |drawn: &Drawn| lines(drawn).lines().any(|line| line.chars().count() > width.into());
    for name in optional {
        if !too_wide(&drawn) {
            break;
        }
        let at = table.columns.iter().position(|column| column.name == *name);
        if let Some(column) = at.and_then(|at| drawn.column_mut(at)) {
            column.set_constraint(ColumnConstraint::Hidden);
        }
    }
    lines(&drawn)
}

/// Renders a table without its heading, with lines between its rows. It is as wide as the terminal, or `width` columns
/// wide if standard output is not a terminal.
pub fn ruled(table: &Table, width: u16) -> String {
    let mut drawn = draw(table, presets::UTF8_HORIZONTAL_ONLY);
    drawn.set_content_arrangement(ContentArrangement::Dynamic);
    if !std::io::stdout().is_terminal() {
        drawn.set_width(width);
    }
    format!("{drawn}\n")
}

/// Renders a table without trailing spaces.
fn lines(table: &Drawn) -> String {
    table.to_string().lines().map(|line| format!("{}\n", line.trim_end())).collect()
}
