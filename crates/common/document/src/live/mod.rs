//! Pages that follow a running program: the console of the gateway, and the live view of a run.
//!
//! The program renders the whole page, so it works without its script. The script fetches the page again every few
//! seconds and replaces the parts that have changed; the results of forms replace the parts of their sections.

pub mod plot;

use minijinja::value::Serde;
use minijinja::{Environment, Value, context};
use serde::Serialize;

use self::plot::Plot;
use super::Table;

/// Path of the style of a page.
pub const STYLE_PATH: &str = "/live.css";
/// Path of the script of a page.
pub const SCRIPT_PATH: &str = "/live.js";

/// Returns the style of all pages.
pub fn style() -> String {
    format!("{}{}", include_str!("../template/report.css"), include_str!("live.css"))
}

/// Returns the script of all pages.
pub fn script() -> &'static str {
    include_str!("live.js")
}

/// A key figure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Tile {
    /// Name of the figure.
    pub name: String,
    /// Value with its unit.
    pub value: String,
    /// Explanation in a few words; may be empty.
    pub note: String,
}

impl Tile {
    /// Creates a key figure.
    pub fn new(name: impl Into<String>, value: impl Into<String>, note: impl Into<String>) -> Tile {
        Tile { name: name.into(), value: value.into(), note: note.into() }
    }
}

/// Input of a form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Input {
    /// A line of text.
    Text {
        /// Text before the user changes it.
        value: String,
        /// Example of a text.
        example: String,
        /// True if the form needs a text.
        required: bool,
    },
    /// A text that the screen does not show.
    Secret,
    /// One of several texts.
    Choice {
        /// Texts to choose from.
        options: Vec<String>,
        /// The chosen one; the first one if it is none of them.
        value: String,
    },
    /// One of several texts in their order. The form sends its position.
    Slider {
        /// Texts to choose from.
        stops: Vec<String>,
        /// Position of the chosen one.
        at: usize,
    },
    /// A yes or no. The form sends `1` for yes.
    Check,
}

/// A field of a form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Field {
    /// Name of the field in the request.
    pub name: String,
    /// Text that names the field.
    pub label: String,
    /// Input of the field.
    pub input: Input,
}

impl Field {
    /// Creates a field.
    pub fn new(name: impl Into<String>, label: impl Into<String>, input: Input) -> Field {
        Field { name: name.into(), label: label.into(), input }
    }
}

/// A form. Its result replaces the result of its section.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Form {
    /// Text that names the form; may be empty.
    pub label: String,
    /// Path of the request.
    pub action: String,
    /// True if the form changes something: its request is a POST with the account of the page.
    pub changes: bool,
    /// True for the account itself, which is sent with other forms and never alone.
    pub is_account: bool,
    /// Fields of the form.
    pub fields: Vec<Field>,
    /// Buttons: text, and the name of the field whose value is `1` if the button is used (may be empty).
    pub buttons: Vec<(String, String)>,
}

/// A section of a page.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Section {
    /// Id of the section in the page, and target of links.
    pub id: String,
    /// Heading of the section.
    pub head: String,
    /// Explanation below the heading; may be empty.
    pub note: String,
    /// Forms above the result.
    pub forms: Vec<Form>,
    /// True if the result follows the program; false if only the forms replace it.
    pub follows: bool,
    /// Answer in a sentence; may be empty.
    pub answer: String,
    /// Charts of the result.
    pub plots: Vec<Plot>,
    /// Tables below the charts.
    pub tables: Vec<Table>,
    /// Remarks below the tables.
    pub notes: Vec<String>,
}

/// A page that follows a running program.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct LivePage {
    /// Title of the page.
    pub title: String,
    /// Description of the subject, one or a few lines.
    pub what: Vec<String>,
    /// State of the program in a sentence.
    pub state: String,
    /// Problems that somebody must solve.
    pub warnings: Vec<String>,
    /// Seconds between two updates; 0 for a page that is not updated.
    pub every_s: u64,
    /// Name of the program for the sentence that it does not answer any more, such as `the run`.
    pub program: String,
    /// Key figures of the program.
    pub tiles: Vec<Tile>,
    /// Sections in order.
    pub sections: Vec<Section>,
}

impl LivePage {
    /// Renders the page.
    ///
    /// # Errors
    /// Fails if a template is invalid; the tests render it.
    pub fn html(&self) -> Result<String, minijinja::Error> {
        let mut templates = Environment::new();
        templates.add_template("table.html", include_str!("../template/table.html"))?;
        templates.add_template("live.html", include_str!("live.html"))?;
        templates.get_template("live.html")?.render(context! {
            version => env!("CARGO_PKG_VERSION"),
            style_path => STYLE_PATH,
            script_path => SCRIPT_PATH,
            ..Value::from(Serde(self))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_objects_are_texts_and_not_markup() {
        let bad = "\"><script>alert(1)</script>";
        let mut table = Table::new(bad, &["key", "size#"]);
        table.row([bad, "1"]);
        let inputs = [
            Input::Text { value: bad.into(), example: bad.into(), required: true },
            Input::Secret,
            Input::Choice { options: vec![bad.into()], value: bad.into() },
            Input::Slider { stops: vec![bad.into(), "1d".into()], at: 1 },
            Input::Check,
        ];
        let fields = inputs.map(|input| Field::new(bad, bad, input)).to_vec();
        let form = Form {
            label: bad.into(),
            action: "/where".into(),
            changes: false,
            is_account: false,
            fields,
            buttons: vec![(bad.into(), bad.into())],
        };
        let plot = Plot { title: bad.into(), unit: "1/s".into(), ..Plot::default() };
        let section = Section {
            id: "where".into(),
            head: bad.into(),
            note: bad.into(),
            forms: vec![form],
            answer: bad.into(),
            plots: vec![plot],
            tables: vec![table],
            notes: vec![bad.into()],
            ..Section::default()
        };
        let page = LivePage {
            title: bad.into(),
            what: vec![bad.into()],
            state: bad.into(),
            warnings: vec![bad.into()],
            program: bad.into(),
            tiles: vec![Tile::new(bad, bad, bad)],
            sections: vec![section],
            ..LivePage::default()
        };
        let html = page.html().unwrap();
        assert!(
            !html.contains("<script>alert") && html.matches("&lt;script&gt;alert").count() > 15,
            "{html}"
        );
        // A browser refuses inline scripts and styles of these pages.
        assert!(
            !html.contains(" style=") && !html.contains(" onclick=") && !html.contains("<style"),
            "{html}"
        );
    }
}
