//! `plimsoll published`: what others have published, and which of it holds.

use clap::{Args, Subcommand};
use comfy_table::{CellAlignment, Table, presets};

use super::exit::Exit;
use super::out::say;
use crate::published::check::{RelationCheck, check};
use crate::published::{Published, all, named};
use crate::report::terminal::table::lines;

/// Arguments of `plimsoll published`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Recompute what the figures imply of each other, and say which hold
    Check {
        /// Documents [default: all]
        name: Vec<String>,
        /// Also show what holds
        #[arg(long)]
        all: bool,
    },
    /// Show a document: source, environment, figures, and what is wrong with it
    Show {
        /// Which one
        name: String,
    },
}

/// Checks or shows.
///
/// # Errors
/// 2 for a name that there is not.
pub fn published(arguments: &Arguments) -> Result<(), Exit> {
    match &arguments.what {
        What::Check { name, all: every } => {
            let documents = if name.is_empty() {
                all().map_err(Exit::input)?
            } else {
                name.iter().map(|n| named(n).map_err(Exit::input)).collect::<Result<_, _>>()?
            };
            say(&documents.iter().map(|d| checked(d, *every)).collect::<String>())?;
        }
        What::Show { name } => say(&shown(&named(name).map_err(Exit::input)?))?,
    }
    Ok(())
}

/// A number with six digits at most.
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

fn checked(document: &Published, every: bool) -> String {
    let outcomes = check(document);
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["", "what must hold", "where", "printed", "follows"]);
    let word = |o: &RelationCheck| if o.holds { "holds" } else { "DOES NOT HOLD" };
    for outcome in outcomes.iter().filter(|o| every || !o.holds) {
        table.add_row([
            word(outcome).to_string(),
            outcome.says.clone(),
            outcome.place.clone(),
            number(outcome.published),
            number(outcome.computed),
        ]);
    }
    for column in table.column_iter_mut().skip(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let holding = outcomes.iter().filter(|o| o.holds).count();
    let rows = if holding == outcomes.len() && !every { String::new() } else { lines(&table) };
    format!("{}{rows}{holding} of {} hold\n\n", head(document), outcomes.len())
}

fn shown(document: &Published) -> String {
    let mut out = format!("{}measured with: {}\n\n", head(document), document.environment);
    for row in &document.rows {
        let figures: Vec<String> =
            row.figures.iter().map(|(name, value)| format!("{name} {}", number(*value))).collect();
        out.push_str(&format!("{}: {}\n", row.label, figures.join(", ")));
    }
    out.push_str("\nwhat is wrong with it:\n");
    document.errors.iter().for_each(|error| out.push_str(&format!("- {error}\n")));
    out
}
