//! The run rules. `docs/run-rules.md` explains them; each has its source.

use serde::Serialize;

use super::facts::{ClientLoad, Facts, Measurement};
use plimsoll_judge::summary::student::t_quantile;

/// Outcome of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The measurement follows the rule.
    Met,
    /// The measurement violates the rule.
    Violated,
    /// The measurement does not show whether it follows the rule.
    NotShown,
}

impl Outcome {
    /// Returns the name for people.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Met => "met",
            Outcome::Violated => "VIOLATED",
            Outcome::NotShown => "not shown",
        }
    }
}

/// Outcome of a rule with its reason.
type Judged = (Outcome, String);

/// A rule of measurements that others may rely on.
pub struct AuditRule {
    /// Name in tables.
    pub name: &'static str,
    /// Requirement of the rule, in a sentence.
    pub text: &'static str,
    /// Origin of the rule.
    pub source: &'static str,
    /// Function that judges facts.
    pub judge: fn(&Facts) -> Judged,
}

/// Greatest half width of an interval, as a share of its figure.
pub const MAX_HALF_WIDTH: f64 = 0.05;
/// Fewest repeats of a measurement.
pub const MIN_REPEATS: usize = 3;
/// Greatest share of failed operations.
pub const MAX_FAILED: f64 = 0.01;
/// Greatest share of the measured time in which the client was paused.
pub const MAX_PAUSED: f64 = 0.01;
/// Fewest samples above a percentile.
pub const MIN_TAIL: f64 = 10.0;

/// All rules, in the order of reports.
pub const RULES: &[AuditRule] = &[
    AuditRule {
        name: "complete",
        text: "The run ended as planned, and all of its results are reported.",
        source: "Heiser, Systems Benchmarking Crimes: selective benchmarking",
        judge: complete,
    },
    AuditRule {
        name: "authentic",
        text: "Every figure follows from the logs of the run.",
        source: "ACM, Artifact Review and Badging: results reproduced",
        judge: authentic,
    },
    AuditRule {
        name: "length",
        text: "The 95% interval of each primary figure is within 5% of it.",
        source: "Georges, Buytaert, Eeckhout 2007, Statistically Rigorous Java Performance Evaluation",
        judge: length,
    },
    AuditRule {
        name: "repeats",
        text: "At least three repeats, and as many as their variance needs for 5%.",
        source: "Georges, Buytaert, Eeckhout 2007; MLPerf Training rules: several runs of each benchmark",
        judge: repeats,
    },
    AuditRule {
        name: "warm-up",
        text: "The first seconds, in which connections and caches fill, are left out.",
        source: "Georges, Buytaert, Eeckhout 2007: steady state",
        judge: warm_up,
    },
    AuditRule {
        name: "cache",
        text: "Reads declare warm or cold caches, and the working set fits the declaration.",
        source: "Heiser, Systems Benchmarking Crimes: inappropriate and misleading benchmarks",
        judge: cache,
    },
    AuditRule {
        name: "client",
        text: "The client was not the bottleneck.",
        source: "Heiser, Systems Benchmarking Crimes: inappropriate and misleading benchmarks",
        judge: client,
    },
    AuditRule {
        name: "failures",
        text: "Failed operations are counted, and are at most 1%.",
        source: "MLPerf Inference rules: at most 1% of the queries of a server may miss the bound",
        judge: failures,
    },
    AuditRule {
        name: "rate",
        text: "An open loop achieved the rate that it offered.",
        source: "Schroeder, Wierman, Harchol-Balter 2006, Open Versus Closed: A Cautionary Tale",
        judge: rate,
    },
    AuditRule {
        name: "response-times",
        text: "Times that include waiting come from an open loop; those of a closed loop are called service times.",
        source: "Schroeder, Wierman, Harchol-Balter 2006; Tene, How NOT to Measure Latency",
        judge: response_times,
    },
    AuditRule {
        name: "percentiles",
        text: "Times are percentiles with at least ten samples above each, not averages.",
        source: "Heiser, Systems Benchmarking Crimes: no indication of significance of data",
        judge: percentiles,
    },
    AuditRule {
        name: "content",
        text: "The content that was read is compared with what was written.",
        source: "SPEC CPU run rules: the output of each run is validated",
        judge: content,
    },
    AuditRule {
        name: "disturbances",
        text: "The machine of the client paused it for at most 1% of the time.",
        source: "Mytkowicz, Diwan, Hauswirth, Sweeney 2009, Producing Wrong Data Without Doing Anything Obviously Wrong",
        judge: disturbances,
    },
    AuditRule {
        name: "comparison",
        text: "Several stores are measured in turns, in one run.",
        source: "Mytkowicz, Diwan, Hauswirth, Sweeney 2009; Heiser, Systems Benchmarking Crimes: unfair benchmarking of competitors",
        judge: comparison,
    },
    AuditRule {
        name: "disclosure",
        text: "Everything that a repeat needs is stated.",
        source: "Heiser, Systems Benchmarking Crimes: missing specification of evaluation platform",
        judge: disclosure,
    },
    AuditRule {
        name: "known-errors",
        text: "The document has no known errors.",
        source: "plimsoll published: relations between the printed figures",
        judge: known_errors,
    },
];

/// Judges all measurements; the worst outcome counts, with the reason of the first measurement that has it.
fn each(facts: &Facts, met: &str, judge: impl Fn(&Measurement) -> Option<Judged>) -> Judged {
    if facts.measurements.is_empty() {
        return (Outcome::NotShown, "there are no measured operations".into());
    }
    let mut unknown = None;
    for one in &facts.measurements {
        match judge(one) {
            Some((Outcome::Violated, why)) => return (Outcome::Violated, format!("{}: {why}", one.name)),
            Some((Outcome::NotShown, why)) => unknown = unknown.or(Some(format!("{}: {why}", one.name))),
            Some((Outcome::Met, _)) | None => {}
        }
    }
    unknown.map_or_else(|| (Outcome::Met, met.into()), |why| (Outcome::NotShown, why))
}

fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent < 10.0 { format!("{percent:.1}%") } else { format!("{percent:.0}%") }
}

fn complete(facts: &Facts) -> Judged {
    match facts.is_complete {
        Some(true) => (Outcome::Met, "the run ended as planned".into()),
        Some(false) => (Outcome::Violated, "the run was interrupted, or a phase failed".into()),
        None => (Outcome::NotShown, "the result does not show whether parts are left out".into()),
    }
}

fn authentic(facts: &Facts) -> Judged {
    match facts.contradictions.as_deref() {
        Some([]) => (Outcome::Met, "all figures were computed again".into()),
        Some([first, ..]) => (Outcome::Violated, first.clone()),
        None => (Outcome::NotShown, "there is no log of the operations".into()),
    }
}

fn length(facts: &Facts) -> Judged {
    each(facts, "each primary interval is within 5%", |one| {
        let Some(interval) = one.interval else {
            let measured = match (one.measured_s, one.needed_s) {
                (Some(s), Some(needed)) => format!(" after {s:.0} s; it needs about {needed:.0} s"),
                (Some(s), None) => format!(" after {s:.0} s"),
                (None, _) => String::new(),
            };
            return Some((Outcome::NotShown, format!("{} has no confidence interval{measured}", one.figure)));
        };
        let half = interval.half_width();
        (half > MAX_HALF_WIDTH).then(|| {
            let needed = one.measured_s.map_or(String::new(), |s| {
                format!("; about {:.0} s are needed instead of {s:.0} s", s * (half / MAX_HALF_WIDTH).powi(2))
            });
            (Outcome::Violated, format!("{} is known to \u{b1}{}{needed}", one.figure, percent(half)))
        })
    })
}

fn repeats(facts: &Facts) -> Judged {
    each(facts, "enough repeats for their variance", |one| {
        let n = one.values.len();
        if n < MIN_REPEATS {
            let text = match n {
                0 => "no repeats are stated".into(),
                1 => "measured once, so the variance of repeats is unknown".into(),
                _ => format!("measured {n} times, too few to know the variance of repeats"),
            };
            return Some((Outcome::NotShown, text));
        }
        let mean = one.values.iter().sum::<f64>() / n as f64;
        let variance = one.values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
        let half =
            t_quantile((n - 1) as f64) * (variance / n as f64).sqrt() / mean.abs().max(f64::MIN_POSITIVE);
        let needed = (n as f64 * (half / MAX_HALF_WIDTH).powi(2)).ceil();
        (half > MAX_HALF_WIDTH).then(|| {
            let text =
                format!("{n} repeats vary so much that their mean is known to \u{b1}{}", percent(half));
            (Outcome::Violated, format!("{text}; about {needed:.0} repeats are needed"))
        })
    })
}

fn warm_up(facts: &Facts) -> Judged {
    match facts.has_warmup {
        Some(true) => (Outcome::Met, "a warm-up precedes the measured time".into()),
        Some(false) => (Outcome::Violated, "the figures include the first seconds".into()),
        None => (Outcome::NotShown, "the result does not show whether the first seconds are left out".into()),
    }
}

fn cache(facts: &Facts) -> Judged {
    let reads = facts.measurements.iter().filter(|one| one.reads);
    let read: Option<u64> = reads.clone().map(|one| one.operations).sum();
    if reads.count() == 0 && !facts.measurements.is_empty() {
        return (Outcome::Met, "nothing is read".into());
    }
    let (declared, bytes, memory) =
        (facts.cache.as_deref(), facts.working_set_bytes, facts.server_memory_bytes);
    match (declared, bytes, memory) {
        (None, ..) => (
            Outcome::NotShown,
            "neither warm nor cold is declared; use --cache, or label a run with --label cache=warm".into(),
        ),
        (Some("cold"), Some(bytes), Some(memory)) if bytes < memory => {
            let once = facts.working_set_objects.zip(read).is_some_and(|(objects, read)| read <= objects);
            match once {
                true => (Outcome::Met, "cold: each object is read at most once".into()),
                false => {
                    let text =
                        "declared cold, but the objects fit into the server's memory and are read repeatedly";
                    (Outcome::Violated, text.into())
                }
            }
        }
        (Some("warm"), Some(bytes), Some(memory)) if bytes > memory => {
            (Outcome::Violated, "declared warm, but the objects do not fit into the server's memory".into())
        }
        (Some("warm" | "cold"), None, _) => {
            (Outcome::NotShown, "the size of the objects is not known".into())
        }
        (Some("warm" | "cold"), _, None) => {
            (Outcome::NotShown, "the server's memory is not known (--server-memory SIZE)".into())
        }
        (Some(state @ ("warm" | "cold")), ..) => (Outcome::Met, format!("declared {state}")),
        (Some(other), ..) => (Outcome::NotShown, format!("'{other}' is neither warm nor cold")),
    }
}

fn client(facts: &Facts) -> Judged {
    each(facts, "the client was not the bottleneck", |one| match &one.client {
        ClientLoad::Free => None,
        ClientLoad::Limited(why) => {
            Some((Outcome::Violated, format!("the client was the bottleneck: {why}")))
        }
        ClientLoad::Unknown => Some((Outcome::NotShown, "the load of the client is not recorded".into())),
    })
}

fn failures(facts: &Facts) -> Judged {
    each(facts, "failed operations are counted, and at most 1%", |one| match (one.operations, one.failed) {
        (Some(all), Some(failed)) => {
            let share = failed as f64 / all.max(1) as f64;
            let text = format!("{failed} of {all} operations failed ({})", percent(share));
            (share > MAX_FAILED).then_some((Outcome::Violated, text))
        }
        _ => Some((Outcome::NotShown, "failed operations are not counted".into())),
    })
}

fn rate(facts: &Facts) -> Judged {
    each(facts, "every open loop kept its rate", |one| match (one.missed_rate, one.open_loop) {
        (Some((offered, achieved)), _) => {
            let text = match achieved < offered * 0.995 {
                true => format!("{achieved:.0} of {offered:.0} operations per second were achieved"),
                false => format!("it fell behind its schedule of {offered:.0} operations per second"),
            };
            Some((Outcome::Violated, text))
        }
        (None, None) => Some((Outcome::NotShown, "the kind of loop is not stated".into())),
        (None, Some(_)) => None,
    })
}

fn response_times(facts: &Facts) -> Judged {
    each(facts, "times are what they are called", |one| match one.open_loop {
        _ if !one.has_times => None,
        Some(true) => None,
        Some(false) if one.is_service_time => None,
        Some(false) => {
            let text = "times of a closed loop leave out the waiting of requests that a stall delays";
            Some((Outcome::NotShown, text.into()))
        }
        None => Some((Outcome::NotShown, "the kind of loop is not stated".into())),
    })
}

fn percentiles(facts: &Facts) -> Judged {
    each(facts, "percentiles with enough samples", |one| {
        if !one.has_times {
            return None;
        }
        let Some(highest) = one.percentiles.iter().copied().reduce(f64::max) else {
            return Some((Outcome::Violated, "times are averages without percentiles".into()));
        };
        let needed = MIN_TAIL / (1.0 - highest).max(1e-9);
        match one.samples {
            Some(samples) if (samples as f64) < needed * 0.999 => {
                let name = format!("p{}", (highest * 1e6).round() / 1e4);
                Some((Outcome::Violated, format!("{name} of {samples} samples; it needs {needed:.0}")))
            }
            Some(_) => None,
            None => Some((Outcome::NotShown, "the number of samples is not stated".into())),
        }
    })
}

fn content(facts: &Facts) -> Judged {
    if !facts.measurements.is_empty() && facts.measurements.iter().all(|one| !one.reads) {
        return (Outcome::Met, "nothing is read".into());
    }
    match facts.checks_content {
        Some(true) => (Outcome::Met, "every byte that was read was compared".into()),
        Some(false) => (Outcome::Violated, "the content of reads was not compared (verify = \"off\")".into()),
        None => (Outcome::NotShown, "the result does not show whether content was compared".into()),
    }
}

fn disturbances(facts: &Facts) -> Judged {
    each(facts, "pauses cover at most 1% of the time", |one| match one.paused_share {
        Some(share) if share > MAX_PAUSED => {
            Some((Outcome::Violated, format!("the client was paused for {} of the time", percent(share))))
        }
        Some(_) => None,
        None => Some((Outcome::NotShown, "pauses of the client are not recorded".into())),
    })
}

fn comparison(facts: &Facts) -> Judged {
    match (facts.stores, facts.takes_turns) {
        (0 | 1, _) => (Outcome::Met, "one store".into()),
        (_, Some(true)) => (Outcome::Met, "the stores take turns".into()),
        (_, Some(false)) => (Outcome::Violated, "the stores were measured one after the other".into()),
        (_, None) => (Outcome::NotShown, "the order in which the stores were measured is not stated".into()),
    }
}

fn disclosure(facts: &Facts) -> Judged {
    match facts.undisclosed.as_slice() {
        [] => (Outcome::Met, "experiment, versions, machine and store are stated".into()),
        missing => (Outcome::NotShown, format!("not stated: {}", missing.join(", "))),
    }
}

fn known_errors(facts: &Facts) -> Judged {
    match facts.known_errors.as_slice() {
        [] => (Outcome::Met, "none".into()),
        [first, rest @ ..] => {
            let more = if rest.is_empty() { String::new() } else { format!(" ({} more)", rest.len()) };
            (Outcome::Violated, format!("{first}{more}"))
        }
    }
}
