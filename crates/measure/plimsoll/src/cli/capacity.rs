//! `plimsoll run capacity`: finds out how much load a store can take.

use clap::{Args, ValueEnum};

use super::exit::Exit;
use plimsoll_base::clock::SECOND;
use plimsoll_base::units::{parse_duration, parse_rate};
use plimsoll_experiment::short::FORMS;
use plimsoll_judge::summary::objective::Objective;
use plimsoll_judge::summary::result::CapacityBy;
use plimsoll_session::capacity::{CapacitySearch, MAX_STEP_NS};

/// Least time of a search for the capacity of one store, in nanoseconds.
pub const MIN_WITHIN_NS: u64 = 30 * SECOND;

/// Load that `--by` varies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    /// Rate of an open loop: the highest rate that meets the objectives
    Rate,
    /// Operations in flight of a closed loop: the highest throughput
    Concurrency,
}

/// Options of `plimsoll run capacity`.
#[derive(Debug, Args)]
#[command(next_help_heading = "Capacity (plimsoll run capacity)")]
pub struct CapacityArguments {
    /// Operation to measure: get, put, head, list, copy or mixed [default: the operation of --slo, or get]
    #[arg(long, value_name = "NAME")]
    operation: Option<String>,
    /// Load to vary [default: rate with --slo, else concurrency]
    #[arg(long, value_enum, value_name = "LOAD")]
    by: Option<By>,
    /// Maximum time of the search, with the preparation of objects; several stores share it [default: 5m]
    #[arg(long, value_name = "TIME")]
    within: Option<String>,
    /// First load to try: a rate such as 100/s, or a concurrency such as 1
    #[arg(long, value_name = "LOAD")]
    from: Option<String>,
    /// Maximum load to try [default: 1000000/s or 1024 in flight]
    #[arg(long, value_name = "LOAD")]
    to: Option<String>,
    /// Minimum length of a step; by rate, a step is longer if its percentile needs more operations [default: a
    /// thirtieth of --within]
    #[arg(long, value_name = "TIME")]
    step: Option<String>,
    /// By rate: maximum gap between the highest rate that meets the objectives and the lowest rate that misses them
    /// [default: 2%]
    #[arg(long, value_name = "SHARE")]
    tolerance: Option<String>,
}

impl CapacityArguments {
    /// Returns the flag of the first option that is set; `None` if no option is set.
    pub fn given(&self) -> Option<&'static str> {
        let given = [
            ("--operation", self.operation.is_some()),
            ("--by", self.by.is_some()),
            ("--within", self.within.is_some()),
            ("--from", self.from.is_some()),
            ("--to", self.to.is_some()),
            ("--step", self.step.is_some()),
            ("--tolerance", self.tolerance.is_some()),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag)
    }

    /// Returns the search that the options and the objectives `slo` describe.
    ///
    /// # Errors
    /// Exit code 2 if an option is invalid. The message names its flag.
    pub fn search(&self, slo: &[String]) -> Result<CapacitySearch, Exit> {
        let objectives = objectives(slo)?;
        let form = form(self.operation.as_deref(), &objectives)?;
        let by = self.by(&objectives)?;
        let (mut from_per_s, mut to_per_s, mut in_flight) = (None, 1e6, (1, 1024));
        match by {
            CapacityBy::Rate => {
                from_per_s =
                    read("--from", self.from.as_deref(), |t| parse_rate(t).map_err(|e| e.to_string()))?;
                to_per_s = read("--to", self.to.as_deref(), |t| parse_rate(t).map_err(|e| e.to_string()))?
                    .unwrap_or(to_per_s);
                if from_per_s.is_some_and(|from| from > to_per_s) {
                    return Err(exceeded());
                }
            }
            CapacityBy::Concurrency => {
                in_flight.0 = read("--from", self.from.as_deref(), parse_concurrency)?.unwrap_or(in_flight.0);
                in_flight.1 = read("--to", self.to.as_deref(), parse_concurrency)?.unwrap_or(in_flight.1);
                if in_flight.0 > in_flight.1 {
                    return Err(exceeded());
                }
            }
        }
        let tolerance = self.tolerance.as_deref().map_or(Some(0.02), parse_share).ok_or_else(|| {
            Exit::input("--tolerance must be a percentage between 0.5% and 50%, such as 2%")
        })?;
        let time = |text: &str| parse_duration(text).map_err(|e| e.to_string());
        let within_ns = read("--within", self.within.as_deref(), time)?.unwrap_or(300 * SECOND);
        if !(MIN_WITHIN_NS..=24 * 3600 * SECOND).contains(&within_ns) {
            return Err(Exit::input("--within must be between 30s and 24h"));
        }
        let step_ns = read("--step", self.step.as_deref(), time)?;
        if step_ns.is_some_and(|ns| !(SECOND..=MAX_STEP_NS).contains(&ns)) {
            return Err(Exit::input("--step must be between 1s and 5m"));
        }
        Ok(CapacitySearch {
            form,
            by,
            objectives,
            from_per_s,
            to_per_s,
            in_flight,
            tolerance,
            step_ns,
            within_ns,
        })
    }

    fn by(&self, objectives: &[Objective]) -> Result<CapacityBy, Exit> {
        match self.by {
            Some(By::Concurrency) if !objectives.is_empty() => {
                Err(Exit::input("--by concurrency: objectives limit a rate; use --by rate, or omit --slo"))
            }
            Some(By::Concurrency) => Ok(CapacityBy::Concurrency),
            Some(By::Rate) => Ok(CapacityBy::Rate),
            None if objectives.is_empty() => Ok(CapacityBy::Concurrency),
            None => Ok(CapacityBy::Rate),
        }
    }
}

/// Reads the value of a flag, if it is given.
fn read<T>(
    flag: &str,
    text: Option<&str>,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Option<T>, Exit> {
    text.map(|text| parse(text).map_err(|problem| Exit::input(format!("{flag}: {problem}")))).transpose()
}

fn exceeded() -> Exit {
    Exit::input("--from exceeds --to; lower --from or raise --to")
}

fn parse_concurrency(text: &str) -> Result<usize, String> {
    let parsed = text.parse::<usize>().ok().filter(|n| (1..=100_000).contains(n));
    parsed.ok_or_else(|| {
        format!(
            "'{text}' is not a number of operations in flight from 1 to 100000, such as 64; \
                                  use --by rate for a rate"
        )
    })
}

fn parse_share(text: &str) -> Option<f64> {
    let share = text.strip_suffix('%')?.trim().parse::<f64>().ok()? / 100.0;
    (0.005..=0.5).contains(&share).then_some(share)
}

/// Parses the objectives of a search.
///
/// # Errors
/// Exit code 2 if an objective is invalid or is about a rate or throughput.
fn objectives(texts: &[String]) -> Result<Vec<Objective>, Exit> {
    let read = |text: &String| {
        let objective = Objective::parse(text).map_err(|e| Exit::input(format!("--slo {e}")))?;
        if ["rate", "throughput"].contains(&objective.target.metric.as_str()) {
            return Err(Exit::input(format!(
                "--slo '{text}': the search varies the rate; use an objective about latency or errors"
            )));
        }
        Ok(objective)
    };
    texts.iter().map(read).collect()
}

/// Returns the short form to measure: `operation`, or the one that the objectives are about (`get` for `get.p99`,
/// `mixed` for `mixed.put.p99`), or `get`.
///
/// # Errors
/// Exit code 2 if there are several forms, or a form that the search does not support.
fn form(operation: Option<&str>, objectives: &[Objective]) -> Result<String, Exit> {
    let mut forms: Vec<&str> = objectives
        .iter()
        .filter_map(|o| o.target.phase.as_deref().or(o.target.operation.as_deref()))
        .chain(operation)
        .collect();
    forms.sort_unstable();
    forms.dedup();
    let flag = if operation.is_some() { "--operation" } else { "--slo" };
    match forms.as_slice() {
        [] => Ok("get".into()),
        [form] if FORMS.contains(form) && *form != "delete" => Ok((*form).to_string()),
        [other] => Err(Exit::input(format!(
            "{flag}: a search for the capacity does not support '{other}'; use get, put, head, list or mixed"
        ))),
        several => Err(Exit::input(format!(
            "--slo: the search is about {}; choose only one of them, or mixed (mixed.get.p99)",
            several.join(" and ")
        ))),
    }
}
