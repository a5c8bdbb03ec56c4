//! Names of figures: `ramp.get.p99`, `get.service.p99`, `get[64KiB].p99`, `throughput`.

use std::borrow::Cow;

use super::estimates::Metric;
use super::series::{LatencyKind, Series};
use super::size_range::SizeRange;
use plimsoll_base::units::parse_size;

/// Figure that a bound applies to: `ramp.get.p99`, `get.service.p99`, `throughput`.
#[derive(Debug, Clone, PartialEq)]
pub struct FigureSelector {
    /// Name of the phase. `None` matches every phase.
    pub phase: Option<String>,
    /// Kind of operation. `None` means all operations of a phase together.
    pub operation: Option<String>,
    /// A size in bytes of the objects, which selects the size class that contains it: `get[64KiB].p99`. `None` means
    /// all objects.
    pub size: Option<u64>,
    /// Name of the metric, such as `p99` or `throughput`.
    pub metric: String,
}

impl FigureSelector {
    /// Parses a target. Accepts any name of an operation, because stores differ in the operations that they have.
    ///
    /// # Errors
    /// Returns a message if the text has no known metric, an invalid name or too many parts.
    pub fn parse(text: &str) -> Result<FigureSelector, String> {
        let (text, size) = without_size(text)?;
        let text = text.as_ref();
        let known = |metric: &str| Metric::from_name(metric, LatencyKind::Service).is_some();
        let parts: Vec<&str> = text.split('.').map(str::trim).collect();
        // The metric is the longest suffix that is a known name: p99.9, service.p99.
        let begin = (0..parts.len()).find(|i| known(&parts[*i..].join("."))).ok_or_else(|| {
            format!(
                "'{text}' contains no metric; use rate, throughput, errors, or a percentile such as \
                 p99.9, service.p99 or first_byte.p99"
            )
        })?;
        let metric = parts[begin..].join(".");
        let name = |part: &str| {
            if part.is_empty() || part.contains(char::is_whitespace) {
                Err(format!("'{part}' is not the name of a phase or an operation"))
            } else {
                Ok(part.to_string())
            }
        };
        match &parts[..begin] {
            [] if size.is_some() => {
                Err(format!("'{text}' has a size and no operation; write get[64KiB].p99"))
            }
            [] => Ok(FigureSelector { phase: None, operation: None, size, metric }),
            [operation] => {
                Ok(FigureSelector { phase: None, operation: Some(name(operation)?), size, metric })
            }
            [phase, operation] => {
                let (phase, operation) = (Some(name(phase)?), Some(name(operation)?));
                Ok(FigureSelector { phase, operation, size, metric })
            }
            _ => Err(format!("'{text}' has too many parts")),
        }
    }

    /// Returns true if the target names this series.
    pub fn matches(&self, series: &Series) -> bool {
        self.phase.as_ref().is_none_or(|p| *p == series.phase)
            && self.operation.as_ref().is_none_or(|o| *o == series.operation.name())
            && self.is_about(series.size)
    }

    /// Returns whether the figure is about operations on objects of these sizes; `None` are all operations.
    pub fn is_about(&self, sizes: Option<SizeRange>) -> bool {
        match (self.size, sizes) {
            (None, None) => true,
            (Some(bytes), Some(range)) => range.contains(bytes),
            _ => false,
        }
    }
}

/// Splits a selector such as `get[64KiB].p99` into its names and its size in bytes.
fn without_size(text: &str) -> Result<(Cow<'_, str>, Option<u64>), String> {
    let Some((before, rest)) = text.split_once('[') else { return Ok((text.into(), None)) };
    let (size, after) = rest.split_once(']').ok_or_else(|| format!("'{text}' has no ] after its size"))?;
    if before.trim().is_empty() {
        return Err(format!("'{text}' has a size and no operation; write get[64KiB].p99"));
    }
    let bytes = parse_size(size).map_err(|e| e.to_string())?;
    Ok((format!("{before}{after}").into(), Some(bytes)))
}

/// Checks that a figure about objects of some size is known for a size class: a percentile of service times.
///
/// # Errors
/// A message if it is not.
pub(super) fn check_size(target: &FigureSelector, metric: Metric) -> Result<(), String> {
    let is_known = !matches!(metric, Metric::Errors | Metric::Throughput | Metric::Rate)
        && !["response.", "first_byte."].iter().any(|prefix| target.metric.starts_with(prefix));
    match target.size.is_none() || is_known {
        true => Ok(()),
        false => {
            Err(format!("{} is not measured by size; only percentiles of service times are", target.metric))
        }
    }
}
