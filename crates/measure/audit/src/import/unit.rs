//! Units of the times in a log, derived from the times themselves: logs of one tool contain seconds, milliseconds or
//! microseconds in columns of the same name.

/// A unit of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Seconds, with the column suffix `_s`.
    S,
    /// Milliseconds, with the column suffix `_ms`.
    Ms,
    /// Microseconds, with the column suffix `_us`.
    Us,
    /// Nanoseconds, with the column suffix `_ns`.
    Ns,
}

impl Unit {
    const ALL: [Unit; 4] = [Unit::S, Unit::Ms, Unit::Us, Unit::Ns];

    /// Returns the length of the unit, in seconds.
    pub fn seconds(self) -> f64 {
        match self {
            Unit::S => 1.0,
            Unit::Ms => 1e-3,
            Unit::Us => 1e-6,
            Unit::Ns => 1e-9,
        }
    }

    /// Returns the name of the unit for messages.
    pub fn name(self) -> &'static str {
        match self {
            Unit::S => "seconds",
            Unit::Ms => "milliseconds",
            Unit::Us => "microseconds",
            Unit::Ns => "nanoseconds",
        }
    }

    /// Returns the unit at the end of a column's name, such as `latency_ms`; `None` if there is none.
    pub fn of_name(column: &str) -> Option<Unit> {
        let ending = column.rsplit_once('_')?.1;
        match ending {
            "s" => Some(Unit::S),
            "ms" => Some(Unit::Ms),
            "us" => Some(Unit::Us),
            "ns" => Some(Unit::Ns),
            _ => None,
        }
    }

    /// Returns the unit of Unix times, given the latest of them; the current time is about 1.8e9 s. `None` if the
    /// times count from another origin.
    pub fn of_unix(latest: f64) -> Option<Unit> {
        match latest {
            x if x < 1e9 => None,
            x if x < 1e11 => Some(Unit::S),
            x if x < 1e14 => Some(Unit::Ms),
            x if x < 1e17 => Some(Unit::Us),
            _ => Some(Unit::Ns),
        }
    }

    /// Returns the unit of the first figures in `pairs`; the second figures are the same durations in seconds. The
    /// unit follows from the median of the ratios; `None` if no unit is within a factor of `within`.
    pub fn of_pairs(pairs: impl Iterator<Item = (f64, f64)>, within: f64) -> Option<Unit> {
        let known = pairs.filter(|(figure, seconds)| *figure > 0.0 && *seconds > 0.0);
        let mut ratios: Vec<f64> = known.map(|(figure, seconds)| (seconds / figure).log10()).collect();
        if ratios.is_empty() {
            return None;
        }
        let middle = ratios.len() / 2;
        let median = *ratios.select_nth_unstable_by(middle, f64::total_cmp).1;
        let off = |unit: &Unit| (unit.seconds().log10() - median).abs();
        Unit::ALL.into_iter().find(|unit| off(unit) <= within.log10())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_milliseconds_and_microseconds_are_distinguished() {
        for (latest, unit) in [
            (1.8e9, Some(Unit::S)),
            (1.8e12, Some(Unit::Ms)),
            (1.8e15, Some(Unit::Us)),
            (1.8e18, Some(Unit::Ns)),
            (5e4, None),
        ] {
            assert_eq!(Unit::of_unix(latest), unit);
        }
        for unit in Unit::ALL {
            let pairs = (1..100).map(|i| (f64::from(i) * 0.013 / unit.seconds(), f64::from(i) * 0.0131));
            assert_eq!(Unit::of_pairs(pairs, 3.0), Some(unit));
        }
        assert_eq!(Unit::of_pairs([(1.0, 33.0)].into_iter(), 3.0), None, "no unit fits");
        assert_eq!((Unit::of_name("latency_us"), Unit::of_name("latency")), (Some(Unit::Us), None));
    }
}
