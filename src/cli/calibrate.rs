//! `plimsoll calibrate`: prints the measurement errors that [`crate::calibrate`] determines.

use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use super::exit::Exit;
use super::out::{note, say};
use crate::calibrate::Row;
use crate::calibrate::scenario::{SCENARIOS, run};
use crate::units::format_ms;

/// Arguments of `plimsoll calibrate`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Run only scenarios whose name contains this text
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    only: String,
    /// Print JSON instead of the table
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    scenarios: Vec<Row>,
    client_us_per_operation: f64,
}

/// Runs the scenarios, and prints measured and true values.
///
/// # Errors
/// Exit code 1 if an error exceeds its limit, 2 if no scenario matches, 3 if a server cannot be started.
pub fn calibrate(arguments: &Arguments) -> Result<(), Exit> {
    let chosen: Vec<_> = SCENARIOS.iter().filter(|s| s.name.contains(arguments.only.as_str())).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = SCENARIOS.iter().map(|s| s.name).collect();
        return Err(Exit::input(format!(
            "--only {}: no scenario matches; use one of {}",
            arguments.only,
            names.join(", ")
        )));
    }
    let mut report = Report { scenarios: Vec::new(), client_us_per_operation: 0.0 };
    for scenario in chosen {
        if !arguments.json {
            note(format_args!("{}: {} ({} s)", scenario.name, scenario.what, scenario.seconds));
        }
        let measured = run(scenario)?;
        if scenario.name == "floor" {
            report.client_us_per_operation = measured.cpu_us_per_operation;
        }
        report.scenarios.extend(measured.rows);
    }
    if arguments.json {
        say(&(serde_json::to_string_pretty(&report).map_err(Exit::check)? + "\n"))?;
    } else {
        say(&render(&report))?;
    }
    let failed: Vec<String> =
        report.scenarios.iter().filter(|r| !r.within).map(|r| format!("{} {}", r.name, r.metric)).collect();
    if failed.is_empty() {
        return Ok(());
    }
    Err(Exit::check(format!(
        "errors above their limits: {}; close other programs on this machine and run the command again",
        failed.join(", ")
    )))
}

fn render(report: &Report) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["scenario", "figure", "true ms", "measured ms", "error ms", "allowed", ""]);
    for row in &report.scenarios {
        let bound = if row.bound { "> " } else { "" };
        table.add_row([
            row.name.clone(),
            row.metric.clone(),
            if row.true_ms > 0.0 { format_ms(row.true_ms) } else { "-".into() },
            format!("{bound}{}", format_ms(row.measured_ms)),
            format!("{:+.3}", row.error_ms),
            format!("{:.3}", row.allowed_ms),
            if row.within { "ok" } else { "OUT" }.into(),
        ]);
    }
    for column in table.column_iter_mut().skip(2).take(4) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut text: String = table.to_string().lines().map(|line| format!("{}\n", line.trim_end())).collect();
    if report.client_us_per_operation > 0.0 {
        text += &format!("\nfloor: {:.1} us of client CPU per operation\n", report.client_us_per_operation);
    }
    text
}
