//! Requests of a command, as `plimsoll meter` counts them, and bounds on their change against an earlier count.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use plimsoll_base::units::{format_count, grouped};
use plimsoll_cost::money::{Usd, decimal};

/// Requests of one operation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// Number of requests.
    pub requests: u64,
    /// Number of those whose response has a status of 400 or above.
    #[serde(default)]
    pub failed: u64,
    /// Object bytes in their bodies, or in the bodies of their responses.
    #[serde(default)]
    pub bytes: u64,
}

/// Requests of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metered {
    /// Command with its arguments; empty if the requests came from elsewhere.
    pub command: Vec<String>,
    /// Exit status of the command; `None` without a command, or if a signal ended it.
    pub exit_status: Option<i32>,
    /// Requests by operation, named as in the S3 API.
    pub operations: BTreeMap<String, Counted>,
    /// Number of requests that were refused before their operation was known, for example because of a wrong key.
    #[serde(default)]
    pub refused: u64,
    /// Object bytes written.
    pub written: u64,
    /// Object bytes read.
    pub read: u64,
    /// Object bytes copied.
    pub copied: u64,
    /// Number of objects, and sum of their sizes in bytes, that the command left; `None` if they are unknown.
    #[serde(default)]
    pub left: Option<(u64, u64)>,
    /// Cost of one run by provider, at list prices, without allowances and storage.
    #[serde(default)]
    pub one_run_usd: BTreeMap<String, Usd>,
}

impl Metered {
    /// Returns the number of requests.
    pub fn requests(&self) -> u64 {
        self.operations.values().fold(0, |sum, counted| sum.saturating_add(counted.requests))
    }

    /// Returns the number of requests that failed.
    pub fn failed(&self) -> u64 {
        self.operations.values().fold(0, |sum, counted| sum.saturating_add(counted.failed))
    }
}

/// Figure of a metered command.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Figure {
    Requests,
    Of(String),
    Failed,
    Written,
    Read,
    Copied,
    Cost(String),
}

/// Names of the figures, for messages.
const NAMES: &str = "requests, requests.GetObject, failed, written, read, copied or cost.aws-s3";

/// Value of a figure in picodollars, bytes or requests.
type Value = i128;

impl Figure {
    fn parse(name: &str) -> Option<Figure> {
        Some(match name {
            "requests" => Figure::Requests,
            "failed" => Figure::Failed,
            "written" => Figure::Written,
            "read" => Figure::Read,
            "copied" => Figure::Copied,
            _ => match name.split_once('.')? {
                ("requests", operation) if !operation.is_empty() => Figure::Of(operation.into()),
                ("cost", provider) if !provider.is_empty() => Figure::Cost(provider.into()),
                _ => return None,
            },
        })
    }

    /// Returns the value; `None` for the cost at a provider that was not priced.
    fn of(&self, metered: &Metered) -> Option<Value> {
        Some(match self {
            Figure::Requests => metered.requests().into(),
            Figure::Of(operation) => {
                metered.operations.get(operation).map_or(0, |counted| counted.requests).into()
            }
            Figure::Failed => metered.failed().into(),
            Figure::Written => metered.written.into(),
            Figure::Read => metered.read.into(),
            Figure::Copied => metered.copied.into(),
            Figure::Cost(provider) => metered.one_run_usd.get(provider)?.pico(),
        })
    }

    fn show(&self, value: Value) -> String {
        match self {
            Figure::Cost(_) => format!("${}", Usd::from_pico(value)),
            _ => grouped(&value.to_string()),
        }
    }
}

/// A bound on the change of a figure: `requests > +10%`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeterBound {
    /// Text as the user wrote it.
    text: String,
    figure: Figure,
    /// True if a value below the bound exceeds it, false if one above it does.
    below: bool,
    /// Bound as a multiple of the baseline, in units of 10^-12.
    ratio: u128,
}

/// Result of a bound.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BoundResult {
    /// Bound as the user wrote it.
    pub fail_if: String,
    /// True if the bound is exceeded.
    pub exceeded: bool,
    /// Both values and the change, for people.
    pub change: String,
}

/// One, in units of 10^-12.
const ONE: u128 = 1_000_000_000_000;

impl MeterBound {
    /// Returns the operation of the bound; `None` for another figure.
    pub fn operation(&self) -> Option<&str> {
        match &self.figure {
            Figure::Of(operation) => Some(operation),
            _ => None,
        }
    }

    /// Returns the provider whose cost is bounded; `None` for another figure.
    pub fn provider(&self) -> Option<&str> {
        match &self.figure {
            Figure::Cost(provider) => Some(provider),
            _ => None,
        }
    }

    /// Parses a bound.
    ///
    /// # Errors
    /// A message if the text is not a figure, a comparison and a change in percent.
    pub fn parse(text: &str) -> Result<MeterBound, String> {
        let wrong = |what: &str| format!("'{text}': {what}; use 'requests > +10%' or 'read < -5%'");
        let (name, rest, below) = match (text.split_once('>'), text.split_once('<')) {
            (Some((name, rest)), None) => (name, rest, false),
            (None, Some((name, rest))) => (name, rest, true),
            _ => return Err(wrong("it needs one '>' or '<'")),
        };
        let figure = Figure::parse(name.trim())
            .ok_or_else(|| wrong(&format!("'{}' is not a figure: {NAMES}", name.trim())))?;
        let change = rest.trim().strip_suffix('%').map(str::trim_end);
        let (sign, digits) = match change {
            Some(change) if change.starts_with('+') => (true, &change[1..]),
            Some(change) if change.starts_with('-') => (false, &change[1..]),
            _ => return Err(wrong(&format!("'{}' is not a change, such as +10%", rest.trim()))),
        };
        let share = decimal(digits)
            .filter(|pico| *pico <= 100_000 * ONE)
            .map(|pico| pico / 100)
            .ok_or_else(|| wrong(&format!("'{}' is not a change, such as +10%", rest.trim())))?;
        let ratio = if sign { Some(ONE + share) } else { ONE.checked_sub(share) };
        let ratio = ratio.ok_or_else(|| wrong("nothing can fall by more than 100%"))?;
        Ok(MeterBound { text: text.trim().into(), figure, below, ratio })
    }

    /// Judges a run against a baseline. Something after nothing is a rise beyond every bound.
    ///
    /// # Errors
    /// A message if one of them does not have the figure.
    pub fn judge(&self, baseline: &Metered, now: &Metered) -> Result<BoundResult, String> {
        let missing = |what: &str| {
            format!(
                "'{}': {what} has no such cost; use the name of a provider that both runs price",
                self.text
            )
        };
        let before = self.figure.of(baseline).ok_or_else(|| missing("the baseline"))?;
        let after = self.figure.of(now).ok_or_else(|| missing("this run"))?;
        let limit = before.saturating_mul(self.ratio as i128);
        let value = after.saturating_mul(ONE as i128);
        let exceeded = if self.below { value < limit } else { value > limit };
        let percent = match before {
            0 => "no change in percent of 0".to_string(),
            before => format!("{:+.2}%", 100.0 * (after as f64 / before as f64 - 1.0)),
        };
        let change = format!("{} after {}, {percent}", self.figure.show(after), self.figure.show(before));
        Ok(BoundResult { fail_if: self.text.clone(), exceeded, change })
    }
}

/// Returns a sentence with the counts of a command.
pub fn counts(metered: &Metered) -> String {
    let failed = match metered.failed() {
        0 => String::new(),
        failed => format!(", {} of them failed", format_count(failed)),
    };
    let requests = metered.requests();
    format!(
        "{} {}{failed}",
        grouped(&requests.to_string()),
        if requests == 1 { "request" } else { "requests" }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metered(gets: u64, read: u64, pico: i128) -> Metered {
        Metered {
            operations: [("GetObject".to_string(), Counted { requests: gets, failed: 1, bytes: read })]
                .into(),
            read,
            one_run_usd: [("aws-s3".to_string(), Usd::from_pico(pico))].into(),
            ..Metered::default()
        }
    }

    #[test]
    fn bounds_are_exact_at_their_edge() {
        let (base, same) = (metered(100, 1000, 70), metered(110, 1000, 77));
        let exceeded = |bound: &str, base: &Metered, now: &Metered| {
            MeterBound::parse(bound).unwrap().judge(base, now).unwrap().exceeded
        };
        assert!(!exceeded("requests > +10%", &base, &same));
        assert!(!exceeded("cost.aws-s3 > +10%", &base, &same));
        assert!(exceeded("requests > +9.999999%", &base, &same));
        assert!(exceeded("requests.GetObject > +0%", &base, &same));
        assert!(exceeded("read < +0.1%", &base, &same) && !exceeded("read < -0%", &base, &same));
        assert!(exceeded("requests.PutObject > +1%", &metered(0, 0, 0), &{
            let mut now = metered(0, 0, 0);
            now.operations.insert("PutObject".into(), Counted { requests: 1, failed: 0, bytes: 1 });
            now
        }));
        let result = MeterBound::parse(" requests > +5% ").unwrap().judge(&base, &same).unwrap();
        assert_eq!(
            (result.fail_if.as_str(), result.change.as_str()),
            ("requests > +5%", "110 after 100, +10.00%")
        );
    }

    #[test]
    fn what_is_no_bound_is_an_error() {
        for wrong in
            ["requests", "requests > 10%", "requests > +x%", "request > +1%", "cost. > +1%", "a > b < +1%"]
        {
            assert!(MeterBound::parse(wrong).is_err(), "{wrong}");
        }
        assert!(MeterBound::parse("read < -101%").unwrap_err().contains("more than 100%"));
        let unknown = MeterBound::parse("cost.r2 > +1%").unwrap();
        assert!(unknown.judge(&metered(1, 1, 1), &metered(1, 1, 1)).unwrap_err().contains("the baseline"));
    }
}
