//! Renders a document for a terminal: the answer first, then tables, then notes.

use std::io::{IsTerminal, stdout};
use std::os::fd::AsFd;

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
    let terminal = || rustix::termios::tcgetwinsize(stdout()).ok().map(|size| size.ws_col);
    let terminal = || terminal().filter(|columns| *columns > 0);
    let variable = || std::env::var("COLUMNS").ok()?.parse().ok();
    terminal().or_else(variable).map(|width: u16| width.max(MIN_WIDTH))
}

fn width() -> u16 {
    terminal_width().unwrap_or(SHOWN_WIDTH)
}

/// Length of the longest row name that is kept on one line, in characters.
const MAX_NAME: usize = 44;
/// Columns between two cells: the padding of both.
const PADDING: usize = 2;

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

/// Renders a table so that it is at most `width` columns wide and breaks no word. If its words are too wide, each row
/// becomes a list of its cells.
fn arranged(table: &Table, style: TableStyle, width: u16) -> String {
    let cells = |at: usize| table.rows.iter().map(move |row| row[at].as_str());
    let longest = |at: usize| cells(at).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let word = |text: &str| text.split_whitespace().map(|word| word.chars().count()).max().unwrap_or(0);
    let whole = |at: usize| (at == 0 || table.columns[at].number) && longest(at) <= MAX_NAME;
    let needed: usize =
        (0..table.columns.len()).filter(|at| whole(*at)).map(|at| longest(at) + PADDING).sum();
    // Names and numbers are not broken if enough room remains for the other columns.
    let room = needed * 10 <= usize::from(width) * 7;
    let least: Vec<usize> = (table.columns.iter().enumerate())
        .map(|(at, column)| {
            let words = cells(at).chain([column.name.as_str()]).map(word).max().unwrap_or(0);
            // A number broken over two lines would be unreadable.
            if room && whole(at) || column.number { words.max(longest(at)) } else { words }
        })
        .collect();
    if least.iter().map(|columns| columns + PADDING).sum::<usize>() > usize::from(width) {
        return stacked(table, width);
    }
    let mut drawn = draw(table, style);
    drawn.set_width(width).set_content_arrangement(ContentArrangement::Dynamic);
    for (least, column) in least.iter().zip(drawn.column_iter_mut()) {
        column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed((least + PADDING) as u16)));
    }
    lines(&drawn)
}

/// Renders each row of a table as a list: its first cell, then the others with the names of their columns.
fn stacked(table: &Table, width: u16) -> String {
    let names = table.columns.iter().skip(1).map(|column| column.name.chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    for row in &table.rows {
        out.push_str(&format!(" {}\n", row[0]));
        for (column, cell) in table.columns.iter().zip(row).skip(1).filter(|(_, cell)| !cell.is_empty()) {
            let line = format!("   {:names$}  {}", column.name, cell.replace('\n', " "));
            out.push_str(&folded(&line, width.into(), names + 5));
        }
    }
    out
}

/// Breaks a line at spaces so that it fits into `width` columns. The lines that follow are indented by `indent`
/// columns. A word that is too long for a line stays where it is. The result ends with a line feed.
pub fn folded(line: &str, width: usize, indent: usize) -> String {
    let mut out = String::new();
    // The indentation and the gaps of the first line stay as they are.
    let mut column = 0;
    for piece in line.split_inclusive(' ') {
        let length = piece.trim_end().chars().count();
        // A word that does not fit into a line either, such as a path, follows the last one.
        let fits_alone = (1..=width.saturating_sub(indent)).contains(&length);
        if column + length > width && column > indent && fits_alone {
            out.truncate(out.trim_end().len());
            out.push_str(&format!("\n{:indent$}", ""));
            column = indent;
        }
        out.push_str(piece);
        column += piece.chars().count();
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

/// Breaks the lines of a text that are too long for a terminal at their spaces. Lines that begin with a space stay as
/// they are: those of tables.
pub fn fold(text: &str, width: u16) -> String {
    let is_long = |line: &str| !line.starts_with(' ') && line.chars().count() > usize::from(width);
    text.split_inclusive('\n')
        .map(|line| match line.trim_end_matches('\n') {
            long if is_long(long) => folded(long, width.into(), 2),
            _ => line.to_string(),
        })
        .collect()
}

/// Breaks the lines of a text that are too long for a terminal, if the stream is one.
pub fn fit(text: &str, stream: impl AsFd) -> String {
    match rustix::termios::tcgetwinsize(stream) {
        Ok(size) if size.ws_col > 0 => fold(text, size.ws_col.max(MIN_WIDTH)),
        _ => text.to_string(),
    }
}

/// Renders a table, preceded by an empty line.
pub fn table(table: &Table) -> String {
    let head = if table.head.is_empty() { String::new() } else { format!("{}\n", table.head) };
    format!("\n{head}{}", arranged(table, presets::NOTHING, width()))
}

/// Renders the document.
pub fn render(document: &Document) -> String {
    let mut out = String::new();
    document.what.iter().for_each(|line| out.push_str(&fit(&format!("{line}\n"), stdout())));
    let headline = document.headline();
    if !headline.is_empty() {
        out.push_str(&fit(&format!("{headline}\n"), stdout()));
    }
    document.warnings.iter().for_each(|line| out.push_str(&fit(&format!("! {line}\n"), stdout())));
    document.tables.iter().for_each(|t| out.push_str(&table(t)));
    if !document.notes.is_empty() {
        out.push('\n');
    }
    document.notes.iter().for_each(|note| out.push_str(&fit(&format!("- {note}\n"), stdout())));
    out
}

/// Renders a table without its heading. In a terminal, its cells wrap to fit.
pub fn plain(table: &Table) -> String {
    let drawn = draw(table, presets::NOTHING);
    if let Some(width) = terminal_width().filter(|width| is_wider(&drawn, *width)) {
        return arranged(table, presets::NOTHING, width);
    }
    lines(&drawn)
}

fn is_wider(drawn: &Drawn, width: u16) -> bool {
    lines(drawn).lines().any(|line| line.chars().count() > width.into())
}

/// Renders a table without its heading. In a terminal that is too narrow, the columns with these names are left out
/// one after the other until the rest fits.
pub fn fitted(table: &Table, optional: &[&str]) -> String {
    let mut drawn = draw(table, presets::NOTHING);
    let Some(width) = terminal_width() else { return lines(&drawn) };
    for name in optional {
        if !is_wider(&drawn, width) {
            break;
        }
        let at = table.columns.iter().position(|column| column.name == *name);
        if let Some(column) = at.and_then(|at| drawn.column_mut(at)) {
            column.set_constraint(ColumnConstraint::Hidden);
        }
    }
    lines(&drawn)
}

/// Renders a table without its heading, with lines between its rows. It is as wide as the terminal, or `columns` wide
/// if standard output is not a terminal.
pub fn ruled(table: &Table, columns: u16) -> String {
    let width = if stdout().is_terminal() { width() } else { columns };
    arranged(table, presets::UTF8_HORIZONTAL_ONLY, width)
}

/// Renders a table without trailing spaces.
fn lines(table: &Drawn) -> String {
    table.to_string().lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Column;

    fn sample() -> Table {
        let columns = [("name", false), ("per month", true), ("meaning", false)];
        Table {
            columns: columns
                .iter()
                .map(|(name, number)| Column { name: (*name).into(), number: *number })
                .collect(),
            rows: vec![vec![
                "aws-s3-express".into(),
                "$1,234.56".into(),
                "the fastest of all of them".into(),
            ]],
            ..Table::default()
        }
    }

    #[test]
    fn a_narrow_table_breaks_lines_between_words() {
        let text = arranged(&sample(), presets::NOTHING, 42);
        assert!(text.lines().all(|line| line.chars().count() <= 42), "{text}");
        for word in ["aws-s3-express", "$1,234.56", "fastest", "meaning"] {
            assert!(text.contains(word), "{text}");
        }
    }

    #[test]
    fn a_table_whose_words_do_not_fit_is_a_list() {
        let text = arranged(&sample(), presets::NOTHING, 30);
        let expected = " aws-s3-express\n   per month  $1,234.56\n   meaning    the fastest of\n              all of them\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn long_lines_of_a_text_break_at_spaces_and_tables_stay() {
        let text =
            "! get: limited by the client\n a table that is wide\nshort\naveryveryverylongwordthatstays\n";
        let expected =
            "! get: limited by\n  the client\n a table that is wide\nshort\naveryveryverylongwordthatstays\n";
        assert_eq!(fold(text, 18), expected);
        assert_eq!(fold("no end", 18), "no end");
        assert_eq!(fold("results: /a/very/long/path\n", 18), "results: /a/very/long/path\n");
    }
}
