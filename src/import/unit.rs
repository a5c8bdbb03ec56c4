//! The units of a log's times, found from the times themselves: logs of one tool have seconds, milliseconds or microseconds in columns of
//! the same name.

/// A unit of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    S,
    /// Milliseconds.
    Ms,
    /// Microseconds.
    Us,
    /// Nanoseconds.
    Ns,
}

impl Unit {
    const ALL: [Unit; 4] = [Unit::S, Unit::Ms, Unit::Us, Unit::Ns];

    /// Returns the seconds of one.
    pub fn seconds(self) -> f64 {
        match self {
            Unit::S => 1.0,
            Unit::Ms => 1e-3,
            Unit::Us => 1e-6,
            Unit::Ns => 1e-9,
        }
    }

    /// Returns its name for messages.
    pub fn name(self) -> &'static str {
        match self {
            Unit::S => "seconds",
            Unit::Ms => "milliseconds",
            Unit::Us => "microseconds",
            Unit::Ns => "nanoseconds",
        }
    }

    /// Returns the unit that a column's name ends with: `latency_ms`.
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

    /// Returns the unit of Unix times of which `latest` is one: today is about 1.8e9 s. `None` for times that count from elsewhere.
    pub fn of_unix(latest: f64) -> Option<Unit> {
        match latest {
            x if x < 1e9 => None,
            x if x < 1e11 => Some(Unit::S),
            x if x < 1e14 => Some(Unit::Ms),
            x if x < 1e17 => Some(Unit::Us),
            _ => Some(Unit::Ns),
        }
    }

    /// Returns the unit in which the figures of `pairs` equal what is beside them in seconds, by the median of their ratios; `None` when no unit
    /// comes within a factor of `within`.
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
    fn seconds_milliseconds_and_microseconds_are_told_apart() {
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
        assert_eq!(Unit::of_pairs([(1.0, 33.0)].into_iter(), 3.0), None, "nothing fits");
        assert_eq!((Unit::of_name("latency_us"), Unit::of_name("latency")), (Some(Unit::Us), None));
    }
}
