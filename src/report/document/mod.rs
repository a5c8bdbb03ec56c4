//! An answer with its tables, notes and charts, apart from the form in which it is read: terminal, Markdown, CSV or HTML.

mod csv;
mod html;
mod markdown;
pub mod terminal;

use serde::Serialize;
use serde_json::Value;

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Column {
    /// Its head.
    pub name: String,
    /// Whether it holds numbers, which stand to the right.
    pub number: bool,
}

/// A table; every row has as many cells as there are columns.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Table {
    /// What it is about; empty where there is nothing to say.
    pub head: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows.
    pub rows: Vec<Vec<String>>,
    /// Whether a page shows it only when asked.
    pub folded: bool,
}

impl Table {
    /// A table without rows; names that end in `#` are columns of numbers.
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

    /// The table, shown on a page only when asked.
    pub fn folded(self) -> Table {
        Table { folded: true, ..self }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }
}

/// The document.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Document {
    /// Its title.
    pub title: String,
    /// What it is about, in a line or a few.
    pub what: Vec<String>,
    /// The answer in a sentence.
    pub answer: String,
    /// The assumption on which the answer rests, and which stands beside it in every form; empty for none.
    pub premise: String,
    /// What must not be overlooked.
    pub warnings: Vec<String>,
    /// Tables, in order.
    pub tables: Vec<Table>,
    /// Sources, assumptions and explanations, below the tables.
    pub notes: Vec<String>,
    /// Figures as they are, for programs that read CSV.
    pub figures: Table,
    /// Data of the charts, for the scripts of the page; null for none.
    pub charts: Value,
}

/// A value as programs read it, below the headline that people read.
#[derive(Debug, Serialize)]
pub struct Headed<'a, T> {
    /// The answer in a sentence, with the assumption on which it rests.
    headline: String,
    /// The value.
    #[serde(flatten)]
    value: &'a T,
}

impl Document {
    /// The document with the assumption on which its answer rests.
    pub fn resting_on(self, premise: Option<String>) -> Document {
        Document { premise: premise.unwrap_or_default(), ..self }
    }

    /// The answer with its assumption.
    pub fn headline(&self) -> String {
        match (self.answer.as_str(), self.premise.as_str()) {
            (answer, "") => answer.to_string(),
            ("", premise) => format!("Assumed: {premise}."),
            (answer, premise) => format!("{answer} Assumed: {premise}."),
        }
    }

    /// A value for programs below the headline.
    pub fn headed<'a, T>(&self, value: &'a T) -> Headed<'a, T> {
        Headed { headline: self.headline(), value }
    }

    /// For a terminal.
    pub fn terminal(&self) -> String {
        terminal::render(self)
    }

    /// As GitHub-flavoured Markdown.
    pub fn markdown(&self) -> String {
        markdown::render(self)
    }

    /// The figures as CSV. If the answer rests on an assumption, every row has it.
    pub fn csv(&self) -> String {
        if self.premise.is_empty() {
            return csv::render(&self.figures);
        }
        let mut figures = self.figures.clone();
        figures.columns.push(Column { name: "assumed".into(), number: false });
        figures.rows.iter_mut().for_each(|row| row.push(self.premise.clone()));
        csv::render(&figures)
    }

    /// As a page that opens offline.
    ///
    /// # Errors
    /// When the template is broken, which its test would show.
    pub fn html(&self) -> Result<String, minijinja::Error> {
        html::render(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Document {
        let mut table = Table::new("what it costs", &["provider", "total#"]);
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
    fn every_form_says_the_same() {
        let document = document();
        for text in [document.terminal(), document.markdown(), document.html().unwrap()] {
            for said in ["cheapest", "$1.50", "prices of today"] {
                assert!(text.contains(said), "{said}: {text}");
            }
        }
        assert_eq!(document.csv(), "provider,total\na|b <i>,$1.50\n");
        assert!(document.markdown().contains("| a\\|b &lt;i> | $1.50 |"));
    }

    #[test]
    fn the_assumption_stands_in_the_headline_of_every_form() {
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
    fn data_cannot_end_the_script_that_holds_it() {
        let page = document().html().unwrap();
        let (_, data) = page.split_once("id=\"data\">").unwrap();
        assert!(data[..data.find("</script>").unwrap()].contains("\"kind\""));
        assert!(!page.contains("a is </script>"));
    }
}
