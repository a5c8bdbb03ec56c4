//! `plimsoll calibrate`: prints the measurement errors that [`plimsoll_calibration::calibrate`] determines.

use std::collections::BTreeMap;

use clap::Args;
use serde::Serialize;

use super::exit::Exit;
use super::out::{fit, note, progress, say};
use plimsoll_base::net::socket::use_process_clock;
use plimsoll_base::units::format_ms;
use plimsoll_calibration::calibrate::measure::run;
use plimsoll_calibration::calibrate::scenario::SCENARIOS;
use plimsoll_calibration::calibrate::{DetectedPauses, ScenarioRow};
use plimsoll_document::{Table, terminal};

/// Arguments of `plimsoll calibrate`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Run only scenarios whose name contains this text
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    only: String,
    /// Clock that takes the arrival times of responses; `process` shows the errors without the kernel's timestamps
    #[arg(long, value_name = "CLOCK", value_enum, default_value_t = ReceiveClock::Kernel)]
    clock: ReceiveClock,
    /// Maximum number of attempts for a scenario; it is repeated if the machine paused for more than 1% of it
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    attempts: u32,
    /// Print JSON instead of the table
    #[arg(long)]
    json: bool,
}

/// Clock that takes the arrival times of responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ReceiveClock {
    /// The kernel, when the bytes arrive
    Kernel,
    /// The process, when it reads the bytes
    Process,
}

#[derive(Debug, Default, Serialize)]
struct Report {
    scenarios: Vec<ScenarioRow>,
    pauses: BTreeMap<&'static str, DetectedPauses>,
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
    let mut report = Report::default();
    if arguments.clock == ReceiveClock::Process {
        use_process_clock();
    }
    for scenario in chosen {
        if !arguments.json {
            progress(format_args!("{}: {} ({} s)", scenario.name, scenario.what, scenario.seconds));
        }
        let measured = run(scenario, arguments.attempts, |so_far| {
            let percent = 100.0 * so_far.pauses.share;
            note(format_args!(
                "{}: the machine paused during {percent:.1}% of the scenario; measuring it again",
                scenario.name
            ));
        })?;
        if measured.pauses.count > 0 {
            report.pauses.insert(scenario.name, measured.pauses);
        }
        if scenario.name == "floor" {
            report.client_us_per_operation = measured.cpu_us_per_operation;
        }
        report.scenarios.extend(measured.rows);
    }
    if arguments.json {
        say(&(serde_json::to_string_pretty(&report).map_err(Exit::check)? + "\n"))?;
    } else {
        say(&fit(&render(&report)))?;
    }
    let failed: Vec<String> = report
        .scenarios
        .iter()
        .filter(|r| r.is_wrong())
        .map(|r| format!("{} {}", r.name, r.metric))
        .collect();
    if failed.is_empty() {
        return Ok(());
    }
    Err(Exit::check(format!(
        "errors above their limits: {}; close other programs on this machine and run the command again",
        failed.join(", ")
    )))
}

/// Returns the judgement of a row.
fn verdict(row: &ScenarioRow) -> &'static str {
    match (row.within, row.within_without_pauses) {
        (true, _) => "ok",
        (false, true) => "ok without pauses",
        (false, false) => "OUT",
    }
}

fn render(report: &Report) -> String {
    let columns = ["scenario", "figure", "true ms#", "measured ms#", "error ms#", "allowed#", ""];
    let mut table = Table::new("", &columns);
    for row in &report.scenarios {
        let bound = if row.bound { "> " } else { "" };
        table.row([
            row.name.clone(),
            row.metric.clone(),
            if row.true_ms > 0.0 { format_ms(row.true_ms) } else { "-".into() },
            format!("{bound}{}", format_ms(row.measured_ms)),
            format!("{:+.3}", row.error_ms),
            format!("{:.3}", row.allowed_ms),
            verdict(row).into(),
        ]);
    }
    let mut text = terminal::plain(&table);
    for (name, pauses) in &report.pauses {
        text += &format!(
            "\n{name}: {} pause{} of the machine, longest {} ms, {:.2}% of the time",
            pauses.count,
            if pauses.count == 1 { "" } else { "s" },
            format_ms(pauses.longest_ms),
            100.0 * pauses.share
        );
    }
    if !report.pauses.is_empty() {
        text.push('\n');
    }
    if report.client_us_per_operation > 0.0 {
        text += &format!("\nfloor: {:.1} us of client CPU per operation\n", report.client_us_per_operation);
    }
    text
}
