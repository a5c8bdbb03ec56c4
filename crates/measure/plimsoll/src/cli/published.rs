//! `plimsoll published`: shows published documents and checks whether their figures are consistent.

use super::exit::Exit;
use super::out::say;
use clap::{Args, Subcommand};
use plimsoll_cost::published::check::{RelationCheck, check};
use plimsoll_cost::published::{Published, all, named};
use plimsoll_document::{Table, terminal};

/// Arguments of `plimsoll published`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Recompute figures from other figures of the same document, and report contradictions
    Check {
        /// Names of the documents [default: all]
        name: Vec<String>,
        /// Also show the relations that hold
        #[arg(long)]
        all: bool,
    },
    /// Show a document: its source, environment, figures and known errors
    Show {
        /// Name of the document
        name: String,
    },
}

/// Checks or shows published documents.
///
/// # Errors
/// Exit code 2 if no document has this name.
pub fn published(arguments: &Arguments) -> Result<(), Exit> {
    match &arguments.action {
        Action::Check { name, all: every } => {
            let documents = if name.is_empty() {
                all().map_err(Exit::input)?
            } else {
                name.iter().map(|n| named(n).map_err(Exit::input)).collect::<Result<_, _>>()?
            };
            say(&documents.iter().map(|d| check_text(d, *every)).collect::<String>())?;
        }
        Action::Show { name } => say(&document_text(&named(name).map_err(Exit::input)?))?,
    }
    Ok(())
}

/// Formats a number with at most three decimal places, or in scientific notation if it is very small or very
/// large.
fn number(x: f64) -> String {
    if x != 0.0 && (x.abs() >= 1e6 || x.abs() < 1e-3) && x.fract() != 0.0 {
        return format!("{x:.4e}");
    }
    let decimals = if x.abs() >= 1000.0 { 1 } else { 3 };
    let text = format!("{x:.decimals$}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

fn head(document: &Published) -> String {
    format!(
        "{}: {}\n{}, {}; published, not measured here\n",
        document.name, document.title, document.source, document.date
    )
}

fn check_text(document: &Published, every: bool) -> String {
    let checks = check(document);
    let mut table = Table::new("", &["", "relation", "rows", "printed#", "computed#"]);
    let verdict = |c: &RelationCheck| if c.holds { "holds" } else { "DOES NOT HOLD" };
    for check in checks.iter().filter(|c| every || !c.holds) {
        table.row([
            verdict(check).to_string(),
            check.says.clone(),
            check.place.clone(),
            number(check.published),
            number(check.computed),
        ]);
    }
    let holding = checks.iter().filter(|c| c.holds).count();
    let rows = if holding == checks.len() && !every { String::new() } else { terminal::plain(&table) };
    format!("{}{rows}{holding} of {} relations hold\n\n", head(document), checks.len())
}

fn document_text(document: &Published) -> String {
    let mut out = format!("{}measured with: {}\n\n", head(document), document.environment);
    for row in &document.rows {
        let figures: Vec<String> =
            row.figures.iter().map(|(name, value)| format!("{name} {}", number(*value))).collect();
        out.push_str(&format!("{}: {}\n", row.label, figures.join(", ")));
    }
    out.push_str("\nknown errors:\n");
    document.errors.iter().for_each(|error| out.push_str(&format!("- {error}\n")));
    out
}
