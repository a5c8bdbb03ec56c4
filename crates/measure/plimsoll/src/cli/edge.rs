//! `plimsoll edge`: measures stores from other places, through relays.

use std::sync::Arc;

use clap::{Args, Subcommand};

use super::exit::Exit;
use super::out::{note, say};
use super::run;
use super::timeout;
use plimsoll_base::clock::MILLISECOND;
use plimsoll_base::units::{format_ms, parse_duration};
use plimsoll_calibration::calibrate::relay::{
    P50_BOUND_MS, P99_BOUND_MS, RelayCalibration, RelaySettings, calibrate_relay,
};
use plimsoll_document::{Table, terminal};
use plimsoll_session::open::relay_at;
use plimsoll_session::relays::Relays;

/// Arguments of `plimsoll edge`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Run an experiment whose operations a Cloudflare Worker or an AWS Lambda function executes
    Run(Box<RunArguments>),
    /// Measure the error of a relay with a server of known latencies, which this command starts
    Calibrate(CalibrateArguments),
}

#[derive(Debug, Args)]
struct RunArguments {
    /// URL of the relay, or PLACE=URL; several give one result per place; PLIMSOLL_RELAY_TOKEN contains their token
    #[arg(long, value_name = "URL", required = true)]
    relay: Vec<String>,
    #[command(flatten)]
    run: run::ExperimentArguments,
}

#[derive(Debug, Args)]
struct CalibrateArguments {
    /// URL of the relay; PLIMSOLL_RELAY_TOKEN contains its token
    #[arg(long, value_name = "URL")]
    relay: String,
    /// Address and port on which the server of known latencies listens; HOSTS of the relay must list it
    #[arg(long, value_name = "ADDRESS")]
    listen: String,
    /// URL by which the relay reaches this server [default: http:// and the address of --listen]
    #[arg(long, value_name = "URL")]
    address: Option<String>,
    /// Known latencies in milliseconds, separated by commas
    #[arg(long, value_name = "TIMES", default_value = "5ms,20ms,100ms", value_delimiter = ',')]
    delays: Vec<String>,
    /// Number of operations for each latency
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u32).range(20..=100_000))]
    samples: u32,
    /// Print JSON instead of the table
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
///
/// # Errors
/// As `plimsoll run`; exit code 1 if an error of a calibration exceeds its bound.
pub fn edge(arguments: &Arguments) -> Result<(), Exit> {
    match &arguments.action {
        Action::Run(arguments) => {
            let relays = Relays::parse(&arguments.relay)?;
            run::run_through(&arguments.run, &relays)
        }
        Action::Calibrate(arguments) => calibrate(arguments),
    }
}

fn calibrate(arguments: &CalibrateArguments) -> Result<(), Exit> {
    timeout::apply(None)?;
    let delay = |text: &String| {
        let ms = parse_duration(text).ok().filter(|ns| *ns >= MILLISECOND).map(|ns| ns / MILLISECOND);
        ms.ok_or_else(|| {
            Exit::input(format!("--delays {text}: use durations of at least 1ms, such as 5ms,20ms"))
        })
    };
    let relay = Arc::new(relay_at(&arguments.relay, None)?);
    let settings = RelaySettings {
        listen: arguments.listen.clone(),
        address: arguments.address.clone().unwrap_or_else(|| format!("http://{}", arguments.listen)),
        delays_ms: arguments.delays.iter().map(delay).collect::<Result<_, _>>()?,
        samples: arguments.samples as usize,
    };
    let calibration = calibrate_relay(&relay, &settings)?;
    if arguments.json {
        let text = serde_json::to_string_pretty(&calibration).unwrap_or_default();
        say(&format!("{text}\n"))?;
    } else {
        say(&render(&calibration))?;
    }
    let wrong = calibration.rows.iter().filter(|row| !row.within()).count();
    if wrong == 0 {
        return Ok(());
    }
    note(format_args!("bounds: {P50_BOUND_MS} ms at p50, {P99_BOUND_MS} ms at p99"));
    Err(Exit::check(format!("{wrong} of {} latencies exceed the bounds", calibration.rows.len())))
}

fn render(calibration: &RelayCalibration) -> String {
    let columns = ["latency#", "true p50#", "p50#", "error#", "true p99#", "p99#", "error#"];
    let mut table = Table::new("", &columns);
    for row in &calibration.rows {
        let error = |ms: f64| format!("{ms:+.2} ms");
        table.row([
            format!("{} ms", row.delay_ms),
            format_ms(row.true_p50_ms),
            format_ms(row.p50_ms),
            error(row.p50_error_ms),
            format_ms(row.true_p99_ms),
            format_ms(row.p99_ms),
            error(row.p99_error_ms),
        ]);
    }
    let text = terminal::plain(&table);
    format!(
        "{text}\nThe network path to the server and the platform add {:.2} ms to every operation; the errors are without \
         them.\nThe clock of the relay advances in steps of {} ms.\n",
        calibration.constant_ms,
        calibration.clock_step_us as f64 / 1000.0
    )
}
