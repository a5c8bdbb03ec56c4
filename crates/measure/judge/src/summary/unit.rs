//! Units of figures.

use serde::Serialize;

use plimsoll_base::units::{format_ms, format_per_s, format_throughput};

/// Unit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Unit {
    /// Milliseconds, the unit of latencies.
    #[serde(rename = "ms")]
    Milliseconds,
    /// Operations per second.
    #[serde(rename = "per_s")]
    PerSecond,
    /// Bytes per second.
    #[serde(rename = "bytes_per_s")]
    BytesPerSecond,
    /// Share of the operations, from 0 to 1.
    #[serde(rename = "share")]
    Share,
}

impl Unit {
    /// All units, in the order of their declaration.
    const ALL: [Unit; 4] = [Unit::Milliseconds, Unit::PerSecond, Unit::BytesPerSecond, Unit::Share];

    /// Returns the name of the unit in results.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Milliseconds => "ms",
            Unit::PerSecond => "per_s",
            Unit::BytesPerSecond => "bytes_per_s",
            Unit::Share => "share",
        }
    }

    /// Returns the unit with a name; `None` for an unknown name.
    pub fn of(name: &str) -> Option<Unit> {
        Unit::ALL.into_iter().find(|unit| unit.name() == name)
    }

    /// Formats a value without the unit of latencies and rates. Shares have two decimals.
    pub fn number(self, value: f64) -> String {
        match self {
            Unit::Milliseconds => format_ms(value),
            Unit::PerSecond => format_per_s(value),
            Unit::BytesPerSecond => format_throughput(value),
            Unit::Share => format!("{:.2}%", 100.0 * value),
        }
    }

    /// Returns the text after the number: ` ms`, `/s`, or nothing if the number contains its unit.
    pub fn suffix(self) -> &'static str {
        match self {
            Unit::Milliseconds => " ms",
            Unit::PerSecond => "/s",
            Unit::BytesPerSecond | Unit::Share => "",
        }
    }

    /// Formats a value with its unit.
    pub fn text(self, value: f64) -> String {
        format!("{}{}", self.number(value), self.suffix())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_results() {
        for unit in Unit::ALL {
            assert_eq!(serde_json::to_value(unit).unwrap(), unit.name());
            assert_eq!(Unit::of(unit.name()), Some(unit));
        }
        assert_eq!(Unit::of("furlongs"), None);
        assert_eq!(
            (Unit::Milliseconds.text(5.0), Unit::Share.text(0.25)),
            ("5.00 ms".into(), "25.00%".into())
        );
    }
}
