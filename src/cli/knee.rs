//! `plimsoll run knee`: finds the highest rate at which a store meets its objectives.

use clap::Args;

use super::exit::Exit;
use crate::clock::SECOND;
use crate::experiment::short::FORMS;
use crate::schedule::knee::Limits;
use crate::session::knee::{KneeSearch, MAX_STEP_NS};
use crate::summary::objective::Objective;
use crate::units::{parse_duration, parse_rate};

/// Options of `plimsoll run knee`.
#[derive(Debug, Args)]
#[command(next_help_heading = "Knee (plimsoll run knee)")]
pub struct KneeArguments {
    /// Objective to meet: 'get.p99 < 10ms', 'errors < 0.1%'; may be repeated
    #[arg(long, value_name = "OBJECTIVE")]
    slo: Vec<String>,
    /// First rate to try [default: 100/s]
    #[arg(long, value_name = "RATE")]
    from: Option<String>,
    /// Maximum rate to try [default: 100000/s]
    #[arg(long, value_name = "RATE")]
    to: Option<String>,
    /// Minimum length of a step; a step is longer if its percentile needs more operations [default: 10s]
    #[arg(long, value_name = "TIME")]
    step: Option<String>,
    /// Maximum gap between the highest rate that meets the objectives and the lowest rate that misses them
    /// [default: 2%]
    #[arg(long, value_name = "SHARE")]
    tolerance: Option<String>,
}

impl KneeArguments {
    /// Returns the flag of the first option that is set; `None` if no option is set.
    pub fn given(&self) -> Option<&'static str> {
        let given = [
            ("--slo", !self.slo.is_empty()),
            ("--from", self.from.is_some()),
            ("--to", self.to.is_some()),
            ("--step", self.step.is_some()),
            ("--tolerance", self.tolerance.is_some()),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag)
    }

    /// Returns the search that the options describe.
    ///
    /// # Errors
    /// Exit code 2 if an option is missing or invalid. The message names its flag.
    pub fn search(&self) -> Result<KneeSearch, Exit> {
        let rate = |flag: &str, text: &Option<String>, default: f64| {
            let read = |text: &String| parse_rate(text).map_err(|e| Exit::input(format!("{flag}: {e}")));
            text.as_ref().map_or(Ok(default), read)
        };
        let limits = Limits {
            from: rate("--from", &self.from, 100.0)?,
            to: rate("--to", &self.to, 100_000.0)?,
            tolerance: self.tolerance.as_deref().map_or(Some(0.02), parse_share).ok_or_else(|| {
                Exit::input("--tolerance must be a percentage between 0.5% and 50%, such as 2%")
            })?,
        };
        if limits.from > limits.to {
            return Err(Exit::input("--from exceeds --to; lower --from or raise --to"));
        }
        let step = self.step.as_deref().unwrap_or("10s");
        let step_ns = parse_duration(step).map_err(|e| Exit::input(format!("--step: {e}")))?;
        if !(SECOND..=MAX_STEP_NS).contains(&step_ns) {
            return Err(Exit::input("--step must be between 1s and 5m"));
        }
        let objectives = objectives(&self.slo)?;
        Ok(KneeSearch { form: form(&objectives)?, objectives, limits, step_ns })
    }
}

fn parse_share(text: &str) -> Option<f64> {
    let share = text.strip_suffix('%')?.trim().parse::<f64>().ok()? / 100.0;
    (0.005..=0.5).contains(&share).then_some(share)
}

/// Parses the objectives of a knee search.
///
/// # Errors
/// Exit code 2 if there are no objectives, or if an objective is invalid or is about a rate or throughput.
fn objectives(texts: &[String]) -> Result<Vec<Objective>, Exit> {
    if texts.is_empty() {
        return Err(Exit::input(
            "--slo is missing; specify the objective to meet, such as --slo 'get.p99 < 10ms'",
        ));
    }
    let read = |text: &String| {
        let objective = Objective::parse(text).map_err(|e| Exit::input(format!("--slo {e}")))?;
        if ["rate", "throughput"].contains(&objective.target.metric.as_str()) {
            return Err(Exit::input(format!(
                "--slo '{text}': a knee search varies the rate; use an objective about latency or errors"
            )));
        }
        Ok(objective)
    };
    texts.iter().map(read).collect()
}

/// Returns the short form that the objectives are about: `get` for `get.p99`, `mixed` for `mixed.put.p99`,
/// and `get` if they name no operation.
///
/// # Errors
/// Exit code 2 if they are about several forms, or about a form that a knee search does not support.
fn form(objectives: &[Objective]) -> Result<String, Exit> {
    let mut forms: Vec<&str> = objectives
        .iter()
        .filter_map(|o| o.target.phase.as_deref().or(o.target.operation.as_deref()))
        .collect();
    forms.sort_unstable();
    forms.dedup();
    match forms.as_slice() {
        [] => Ok("get".into()),
        [form] if FORMS.contains(form) && *form != "delete" => Ok((*form).to_string()),
        [other] => Err(Exit::input(format!(
            "--slo: a knee search does not support '{other}'; use get, put, head, list or mixed"
        ))),
        several => Err(Exit::input(format!(
            "--slo: the objectives are about {}; use objectives about only one of them, or about mixed \
             (mixed.get.p99)",
            several.join(" and ")
        ))),
    }
}
