//! Ramps: loads that rise step by step. The rule that ends them at their plateau is in [`super::plateau`].

/// Rule that ends a ramp before its last step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The ramp ends when throughput no longer grows: see [`plateau`](super::plateau::plateau).
    Plateau,
    /// The ramp always runs all its steps.
    Never,
}

impl Stop {
    /// Returns the name used in files.
    pub fn name(self) -> &'static str {
        match self {
            Stop::Plateau => "plateau",
            Stop::Never => "never",
        }
    }

    /// Returns the rule with this name; `None` if there is none.
    pub fn from_name(name: &str) -> Option<Stop> {
        [Stop::Plateau, Stop::Never].into_iter().find(|s| s.name() == name)
    }
}

/// A rising load: operations in flight in a closed loop, operations per second in an open loop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ramp {
    /// Load of the first step.
    pub from: f64,
    /// Increase of the load from one step to the next.
    pub step: f64,
    /// Maximum load, which no step exceeds.
    pub to: f64,
    /// Length of a step, in nanoseconds.
    pub every_ns: u64,
    /// Rule that ends the ramp early.
    pub stop: Stop,
}

impl Ramp {
    /// Returns the number of steps.
    pub fn steps(&self) -> u32 {
        // The small term compensates for the rounding of rates such as 0.1/s in floating point.
        1 + ((self.to - self.from) / self.step + 1e-9).floor() as u32
    }

    /// Returns the load of a step, counted from 0.
    pub fn load(&self, step: u32) -> f64 {
        self.from + self.step * f64::from(step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_reach_but_do_not_exceed_the_maximum() {
        let ramp = |from, step, to| Ramp { from, step, to, every_ns: 1, stop: Stop::Never };
        assert_eq!((ramp(8.0, 32.0, 104.0).steps(), ramp(8.0, 32.0, 103.0).steps()), (4, 3));
        assert_eq!((ramp(0.1, 0.1, 0.3).steps(), ramp(5.0, 1.0, 5.0).steps()), (3, 1));
        assert_eq!(ramp(8.0, 32.0, 104.0).load(3), 104.0);
    }
}
