//! Documents: an answer with its tables, notes and charts, independent of the output format (terminal,
//! Markdown, CSV or HTML).

mod csv;
mod html;
pub mod live;
mod markdown;
pub mod page;
pub mod terminal;

use serde::Serialize;
use serde_json::Value;

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Column {
    /// Header of the column.
    pub name: String,
    /// True if the column contains numbers, which are right-aligned.
    pub number: bool,
}

/// A table. Every row has as many cells as there are columns.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Table {
    /// Heading of the table; may be empty.
    pub head: String,
    /// Columns of the table.
    pub columns: Vec<Column>,
    /// Rows of the table.
    pub rows: Vec<Vec<String>>,
    /// True if an HTML page collapses the table.
    pub folded: bool,
}

impl Table {
    /// Creates a table without rows. A name that ends in `#` is a column of numbers.
    pub fn new(head: impl Into<String>, columns: &[&str]) -> Table {
        let column = |name: &&str| Column {
            name: name.trim_end_matches('#').to_string(),
            number: name.ends_with('#'),
        };
        Table {
            head: head.into(),
            columns: columns.iter().map(column).collect(),
            rows: Vec::new(),
            folded: false,
        }
    }

    /// Returns the table as one that an HTML page collapses.
    pub fn folded(self) -> Table {
        Table { folded: true, ..self }
    }

    /// Adds a row of cells.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }
}

/// A document for people, and its figures for programs.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Document {
    /// Title of the document.
    pub title: String,
    /// Description of the subject, one or a few lines.
    pub what: Vec<String>,
    /// Answer in a sentence.
    pub answer: String,
    /// Assumption that the answer depends on, printed with it in every format; empty if there is none.
    pub premise: String,
    /// Warnings, printed before the tables.
    pub warnings: Vec<String>,
    /// Tables, in order.
    pub tables: Vec<Table>,
    /// Sources, assumptions and explanations, below the tables.
    pub notes: Vec<String>,
    /// Links of an HTML page to other pages: text and relative address.
    pub links: Vec<(String, String)>,
    /// Figures for programs, printed as CSV.
    pub figures: Table,
    /// Data of the charts for the scripts of the page; null if there are no charts.
    pub charts: Value,
}

/// A JSON value for programs, with the headline for people.
#[derive(Debug, Serialize)]
pub struct Headed<'a, T> {
    /// Answer in a sentence, with the assumption that it depends on.
    headline: String,
    /// JSON value, whose fields follow the headline.
    #[serde(flatten)]
    value: &'a T,
}

impl Document {
    /// Sets the assumption that the answer depends on.
    pub fn resting_on(self, premise: Option<String>) -> Document {
        Document { premise: premise.unwrap_or_default(), ..self }
    }

    /// Adds warnings before the others.
    pub fn warned(mut self, warnings: Vec<String>) -> Document {
        self.warnings.splice(0..0, warnings);
        self
    }

    /// Returns the answer with its assumption.
    pub fn headline(&self) -> String {
        match (self.answer.as_str(), self.premise.as_str()) {
            (answer, "") => answer.to_string(),
            ("", premise) => format!("Assumed: {premise}."),
            (answer, premise) => format!("{answer} Assumed: {premise}."),
        }
    }

    /// Combines a value for programs with the headline.
    pub fn headed<'a, T>(&self, value: &'a T) -> Headed<'a, T> {
        Headed { headline: self.headline(), value }
    }

    /// Renders the document for a terminal.
    pub fn terminal(&self) -> String {
        terminal::render(self)
    }

    /// Renders the document as GitHub-flavoured Markdown.
    pub fn markdown(&self) -> String {
        markdown::render(self)
    }

    /// Renders the figures as CSV. If the answer depends on an assumption, the column `assumed` contains it in every
    /// row.
    pub fn csv(&self) -> String {
        if self.premise.is_empty() {
            return csv::render(&self.figures);
        }
        let mut figures = self.figures.clone();
        figures.columns.push(Column { name: "assumed".into(), number: false });
        figures.rows.iter_mut().for_each(|row| row.push(self.premise.clone()));
        csv::render(&figures)
    }

    /// Renders the document as an HTML page that opens offline.
    ///
    /// # Errors
    /// Fails if the template is invalid; the tests render it.
    pub fn html(&self) -> Result<String, minijinja::Error> {
        html::render(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Document {
        let mut table = Table::new("costs", &["provider", "total#"]);
        table.row(["a|b <i>", "$1.50"]);
        Document {
            title: "Title".into(),
            answer: "a is </script> cheapest".into(),
            tables: vec![table.clone()],
            notes: vec!["prices of today".into()],
            figures: table,
            charts: serde_json::json!({ "kind": "none", "text": "</script>" }),
            ..Document::default()
        }
    }

    #[test]
    fn every_format_contains_the_same_text() {
        let document = document();
        for text in [document.terminal(), document.markdown(), document.html().unwrap()] {
            for expected in ["cheapest", "$1.50", "prices of today"] {
                assert!(text.contains(expected), "{expected}: {text}");
            }
        }
        assert_eq!(document.csv(), "provider,total\na|b <i>,$1.50\n");
        assert!(document.markdown().contains("| a\\|b &lt;i> | $1.50 |"));
    }

    #[test]
    fn the_headline_has_the_assumption_in_every_format() {
        let document = document().resting_on(Some("reads are egress".into()));
        let json = serde_json::to_string(&document.headed(&serde_json::json!({ "a": 1 }))).unwrap();
        assert!(
            json.starts_with("{\"headline\":\"a is </script> cheapest Assumed: reads are egress.\""),
            "{json}"
        );
        assert!(document.terminal().lines().next().unwrap().contains("Assumed: reads are egress."));
        assert!(document.markdown().contains("cheapest Assumed: reads are egress.**"));
        assert!(document.html().unwrap().contains("cheapest Assumed: reads are egress.</p>"));
        assert_eq!(document.csv(), "provider,total,assumed\na|b <i>,$1.50,reads are egress\n");
    }

    #[test]
    fn data_cannot_end_the_script_element_that_contains_it() {
        let page = document().html().unwrap();
        let (_, data) = page.split_once("id=\"data\">").unwrap();
        assert!(data[..data.find("</script>").unwrap()].contains("\"kind\""));
        assert!(!page.contains("a is </script>"));
    }
}
