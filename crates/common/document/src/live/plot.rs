//! Charts of live pages: lines over time, as SVG without text, because an SVG that fits its width would scale the text.

use std::fmt::Write;

use serde::{Serialize, Serializer};

/// Width of the SVG in its own units.
const WIDTH: f64 = 1000.0;
/// Height of the SVG in its own units.
const HEIGHT: f64 = 200.0;

/// A line: its name, and its values at the times of the plot; `None` interrupts it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlotLine {
    /// Name of the line.
    pub name: String,
    /// Value at each time.
    pub values: Vec<Option<f64>>,
    /// The line as the data of an SVG path.
    path: String,
}

impl PlotLine {
    /// Creates a line.
    pub fn new(name: impl Into<String>, values: Vec<Option<f64>>) -> PlotLine {
        PlotLine { name: name.into(), values, path: String::new() }
    }
}

/// A chart of lines over time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plot {
    /// Title of the chart.
    pub title: String,
    /// Unit of the values.
    pub unit: String,
    /// Texts of the first and the last time.
    pub from_to: [String; 2],
    /// Lines of the chart.
    pub lines: Vec<PlotLine>,
    /// True for a logarithmic axis of values.
    pub is_log: bool,
}

/// A plot as the template shows it.
#[derive(Serialize)]
struct Drawn<'a> {
    title: &'a str,
    unit: &'a str,
    from_to: &'a [String; 2],
    lines: Vec<PlotLine>,
    /// Texts of the upper and the lower end of the axis of values.
    ends: [String; 2],
    summary: String,
}

impl Serialize for Plot {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.drawn().serialize(serializer)
    }
}

/// Returns a number with about three digits.
fn number(value: f64) -> String {
    let digits = match value.abs() {
        a if a == 0.0 || a >= 100.0 => 0,
        a if a >= 10.0 => 1,
        a if a >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

/// Returns the next number of the form 1, 2 or 5 times a power of ten that is not less than a positive number.
fn ceiling(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|n| n * power).find(|n| *n >= value * 0.999_999).unwrap_or(value)
}

/// Returns the last number of this form that is not greater than a positive number.
fn floor(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    [5.0, 2.0, 1.0].into_iter().map(|n| n * power).find(|n| *n <= value * 1.000_001).unwrap_or(power)
}

impl Plot {
    /// Returns the lower and the upper end of the axis of values.
    fn range(&self) -> (f64, f64) {
        let values = || self.lines.iter().flat_map(|line| line.values.iter().flatten().copied());
        let highest = values().fold(0.0, f64::max);
        let high = if highest > 0.0 { ceiling(highest) } else { 1.0 };
        if !self.is_log {
            return (0.0, high);
        }
        let lowest = values().filter(|value| *value > 0.0).fold(high, f64::min);
        let low = floor(lowest);
        (low, if high > low { high } else { low * 10.0 })
    }

    fn drawn(&self) -> Drawn<'_> {
        let (low, high) = self.range();
        let share = |value: f64| match self.is_log {
            true => (value.max(low) / low).ln() / (high / low).ln(),
            false => value / high,
        };
        let path = |line: &PlotLine| {
            let last = line.values.len().saturating_sub(1).max(1) as f64;
            let (mut path, mut is_down) = (String::new(), false);
            for (index, value) in line.values.iter().enumerate() {
                let Some(value) = value else {
                    is_down = false;
                    continue;
                };
                let (x, y) = (index as f64 / last * WIDTH, HEIGHT * (1.0 - share(*value)));
                // A line of length zero with round ends is a dot: a value between two gaps.
                let _ = match is_down {
                    true => write!(path, "L{x:.1} {y:.1}"),
                    false => write!(path, "M{x:.1} {y:.1}h0"),
                };
                is_down = true;
            }
            PlotLine { path, ..line.clone() }
        };
        Drawn {
            title: &self.title,
            unit: &self.unit,
            from_to: &self.from_to,
            lines: self.lines.iter().map(path).collect(),
            ends: [number(high), number(low)],
            summary: self.summary(),
        }
    }

    /// Describes the plot for people who do not see it.
    fn summary(&self) -> String {
        let line = |line: &PlotLine| {
            let highest = line.values.iter().flatten().copied().reduce(f64::max);
            let Some(highest) = highest else { return format!("{}: no value", line.name) };
            let last = line.values.iter().flatten().next_back().copied().unwrap_or(highest);
            format!("{}: last {}, at most {}", line.name, number(last), number(highest))
        };
        let lines: Vec<String> = self.lines.iter().map(line).collect();
        let [from, to] = &self.from_to;
        format!("{} in {}, {from} to {to}. {}", self.title, self.unit, lines.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_gaps_and_fits_its_axis() {
        let lines = vec![PlotLine::new("get", vec![Some(0.0), Some(150.0), None, Some(75.0)])];
        let plot = Plot { title: "rate".into(), unit: "1/s".into(), lines, ..Plot::default() };
        let drawn = plot.drawn();
        assert_eq!(drawn.ends, ["200", "0"]);
        assert_eq!(drawn.lines[0].path, "M0.0 200.0h0L333.3 50.0M1000.0 125.0h0");
        assert!(drawn.summary.contains("get: last 75.0, at most 150"), "{}", drawn.summary);
    }

    #[test]
    fn a_logarithmic_axis_ends_at_round_numbers() {
        let lines = vec![PlotLine::new("p50", vec![Some(0.3), Some(30.0), Some(0.0)])];
        let plot = Plot { lines, is_log: true, ..Plot::default() };
        assert_eq!(plot.range(), (0.2, 50.0));
        assert!(plot.drawn().lines[0].path.ends_with("L1000.0 200.0"));
        let flat =
            Plot { lines: vec![PlotLine::new("p50", vec![Some(1.0)])], is_log: true, ..Plot::default() };
        assert_eq!(flat.range(), (1.0, 10.0));
        assert_eq!(Plot::default().range(), (0.0, 1.0));
    }
}
