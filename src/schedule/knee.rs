//! The search for the highest rate that holds an objective: doubled until it breaks, halved until the edges are close, repeated there.

/// Where a search begins and ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// First rate, per second.
    pub from: f64,
    /// Rate that is not gone beyond.
    pub to: f64,
    /// The search ends when its edges are this close: 0.02 is 2%.
    pub tolerance: f64,
}

/// Steps after which a search gives up closing in.
pub const MOST_STEPS: usize = 60;

/// Times that a rate at the edge is tried, of which most decide.
const TRIES: u32 = 3;

/// How a rate fared so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tried {
    /// The rate, per second.
    pub rate: f64,
    /// Steps that held the objective.
    pub held: u32,
    /// Steps that did not.
    pub broke: u32,
}

impl Tried {
    fn good(self) -> bool {
        self.held > self.broke
    }

    /// Whether further tries cannot change what most of them say.
    fn sure(self) -> bool {
        self.held.max(self.broke) > TRIES / 2
    }
}

/// A search under way.
#[derive(Debug, Clone)]
pub struct Search {
    limits: Limits,
    tried: Vec<Tried>,
    steps: usize,
}

/// What a search came to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Found {
    /// The highest rate that held; `None` when none did.
    pub holds: Option<f64>,
    /// The lowest rate above it that did not; `None` when none broke.
    pub breaks: Option<f64>,
}

impl Search {
    /// A search that has tried nothing.
    pub fn new(limits: Limits) -> Search {
        Search { limits, tried: Vec::new(), steps: 0 }
    }

    /// Notes how a step fared.
    pub fn note(&mut self, rate: f64, held: bool) {
        self.steps += 1;
        let at = self.tried.iter().position(|t| same(t.rate, rate)).unwrap_or_else(|| {
            self.tried.push(Tried { rate, held: 0, broke: 0 });
            self.tried.len() - 1
        });
        if held { self.tried[at].held += 1 } else { self.tried[at].broke += 1 }
    }

    /// The edges so far: the lowest rate that breaks and the highest below it that holds.
    pub fn found(&self) -> Found {
        let breaks = self.tried.iter().filter(|t| !t.good()).map(|t| t.rate).reduce(f64::min);
        let below = |t: &&Tried| t.good() && breaks.is_none_or(|b| t.rate < b);
        Found { holds: self.tried.iter().filter(below).map(|t| t.rate).reduce(f64::max), breaks }
    }

    fn sure(&self, rate: f64) -> bool {
        self.tried.iter().any(|t| same(t.rate, rate) && t.sure())
    }

    /// The next rate to try; `None` when the search is over.
    pub fn next(&self) -> Option<f64> {
        let Limits { from, to, tolerance } = self.limits;
        if self.steps >= MOST_STEPS {
            return None;
        }
        match self.found() {
            Found { holds: None, breaks: None } => Some(from),
            Found { holds: Some(low), breaks: None } => {
                if low >= to {
                    (!self.sure(low)).then_some(low)
                } else {
                    Some((low * 2.0).min(to))
                }
            }
            Found { holds: None, breaks: Some(high) } => {
                // Nothing holds yet: down, until a thousandth of where it began.
                if high > from / 1000.0 { Some(high / 2.0) } else { None }
            }
            Found { holds: Some(low), breaks: Some(high) } => {
                if high / low > 1.0 + tolerance * 1.001 {
                    return Some(round((low * high).sqrt(), low, high));
                }
                // Close enough: both edges must stand when they are tried again.
                [low, high].into_iter().find(|edge| !self.sure(*edge))
            }
        }
    }
}

fn same(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs()
}

/// A rate with few digits, still between `low` and `high`.
fn round(rate: f64, low: f64, high: f64) -> f64 {
    (2..9)
        .map(|digits| {
            let unit = 10f64.powi(rate.log10().floor() as i32 + 1 - digits);
            (rate / unit).round() * unit
        })
        .find(|r| {
            *r > low * 1.0001 && *r < high * 0.9999 && (r / rate - 1.0).abs() < (high / low - 1.0) / 8.0
        })
        .unwrap_or(rate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;

    /// Runs a search against a store that holds a rate with a probability.
    fn search(limits: Limits, holds: impl Fn(f64, u64) -> bool) -> (Found, usize) {
        let mut search = Search::new(limits);
        let mut steps = 0;
        while let Some(rate) = search.next() {
            search.note(rate, holds(rate, steps as u64));
            steps += 1;
        }
        (search.found(), steps)
    }

    const LIMITS: Limits = Limits { from: 50.0, to: 1e6, tolerance: 0.02 };

    #[test]
    fn a_sharp_edge_is_found_within_the_tolerance() {
        for truth in [3.0, 49.0, 50.0, 777.7, 123_456.0] {
            let (found, steps) = search(LIMITS, |rate, _| rate <= truth);
            let (low, high) = (found.holds.unwrap(), found.breaks.unwrap());
            assert!(low <= truth && high > truth && high / low < 1.021, "{truth}: {low}..{high}");
            assert!(steps < 30, "{truth}: {steps} steps");
        }
    }

    #[test]
    fn a_hiccup_does_not_decide() {
        let draws = Stream::new(1, "hiccups");
        let found = |seed: u64| {
            search(LIMITS, |rate, i| rate <= 1000.0 && draws.unit(seed * 1000 + i) > 0.02).0.holds.unwrap()
        };
        // One hiccup in fifty steps: a search of twenty has one in three of all runs.
        let far = (0..200).map(found).filter(|low| *low < 970.0 || *low > 1000.0).count();
        assert!(far < 10, "{far} of 200 runs are off");
    }

    #[test]
    fn nothing_holds_or_everything_does() {
        assert_eq!(search(LIMITS, |_, _| false).0.holds, None);
        let (found, _) = search(Limits { to: 400.0, ..LIMITS }, |_, _| true);
        assert_eq!(found, Found { holds: Some(400.0), breaks: None });
    }
}
