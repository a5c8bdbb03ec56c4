//! Survey of a store's throughput: a closed loop whose concurrency doubles until more operations in flight no longer
//! raise the throughput.

/// Least gain of a doubled concurrency over the best throughput before, as a share.
pub const MIN_GAIN: f64 = 0.05;

/// Factor of the last step, which finds gains that are small for each doubling and large in total.
const JUMP: usize = 4;

/// Maximum number of steps at one concurrency while the client is disturbed.
const MAX_TRIES: u32 = 3;

/// Best result at one concurrency.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Tried {
    concurrency: usize,
    per_s: f64,
    disturbed: bool,
    tries: u32,
}

/// Next action of a survey. Concurrencies are numbers of operations in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Execute a step with this concurrency.
    Try(usize),
    /// The throughput no longer grows. The value is the concurrency with the highest throughput.
    Plateau(usize),
    /// The throughput still grows at the maximum concurrency, which is the value.
    Growing(usize),
}

/// A survey in progress.
#[derive(Debug, Clone)]
pub struct Survey {
    from: usize,
    to: usize,
    tried: Vec<Tried>,
}

impl Survey {
    /// Creates a survey of the concurrencies `from`, `2 * from` and so on, up to `to`.
    pub fn new(from: usize, to: usize) -> Survey {
        Survey { from: from.clamp(1, to.max(1)), to: to.max(1), tried: Vec::new() }
    }

    /// Records a step: its concurrency, its successful operations per second, and true if the client was disturbed. A
    /// step without a disturbance replaces disturbed ones.
    pub fn note(&mut self, concurrency: usize, per_s: f64, disturbed: bool) {
        match self.tried.iter_mut().find(|t| t.concurrency == concurrency) {
            Some(tried) => {
                tried.tries += 1;
                if tried.disturbed && (!disturbed || per_s > tried.per_s) {
                    (tried.per_s, tried.disturbed) = (per_s, disturbed);
                }
            }
            None => self.tried.push(Tried { concurrency, per_s, disturbed, tries: 1 }),
        }
    }

    /// Replaces the throughput at a concurrency by a more precise value.
    pub fn revise(&mut self, concurrency: usize, per_s: f64) {
        if let Some(tried) = self.tried.iter_mut().find(|t| t.concurrency == concurrency) {
            (tried.per_s, tried.disturbed) = (per_s, false);
        }
    }

    fn best(tried: &[Tried]) -> f64 {
        tried.iter().map(|t| t.per_s).fold(0.0, f64::max)
    }

    /// Returns the highest throughput of a step so far, in operations per second.
    pub fn best_per_s(&self) -> f64 {
        Survey::best(&self.tried)
    }

    /// Returns the concurrency with the highest throughput among those that are not in `except`, and this throughput in
    /// operations per second; `None` if there is none. Of several, it is the one that was tried first.
    pub fn best_except(&self, except: &[usize]) -> Option<(usize, f64)> {
        let others = self.tried.iter().filter(|t| !except.contains(&t.concurrency));
        others.rev().max_by(|a, b| a.per_s.total_cmp(&b.per_s)).map(|t| (t.concurrency, t.per_s))
    }

    /// Returns the highest concurrency so far; `None` before the first step.
    pub fn highest(&self) -> Option<usize> {
        self.tried.iter().map(|t| t.concurrency).max()
    }

    /// Returns the throughput at a concurrency, in operations per second; `None` if it was not tried.
    pub fn at(&self, concurrency: usize) -> Option<f64> {
        self.tried.iter().find(|t| t.concurrency == concurrency).map(|t| t.per_s)
    }

    /// Returns true if the last step had more than twice the concurrency of the one before it: the doublings have shown
    /// no gain.
    pub fn has_jumped(&self) -> bool {
        match self.tried.as_slice() {
            [.., before, last] => last.concurrency > 2 * before.concurrency,
            _ => false,
        }
    }

    /// Returns the lowest concurrency whose throughput was at least this share of `per_s`; `None` if there is none.
    pub fn reaching(&self, per_s: f64, share: f64) -> Option<usize> {
        let enough = self.tried.iter().filter(|t| t.per_s >= share * per_s);
        enough.map(|t| t.concurrency).min()
    }

    /// Returns the next action.
    ///
    /// The survey ends when two doublings in a row and the [`JUMP`] after them have each gained less than [`MIN_GAIN`]
    /// over the best step before them. The jump is left out if the throughput already falls or the client is disturbed.
    pub fn next(&self) -> Next {
        let Some(last) = self.tried.last() else { return Next::Try(self.from) };
        if last.disturbed && last.tries < MAX_TRIES {
            return Next::Try(last.concurrency);
        }
        let grew =
            |n: usize| n == 0 || self.tried[n].per_s > Survey::best(&self.tried[..n]) * (1.0 + MIN_GAIN);
        let count = self.tried.len();
        let best_per_s = self.best_per_s();
        let best =
            self.tried.iter().find(|t| t.per_s >= best_per_s).map_or(last.concurrency, |t| t.concurrency);
        if count >= 3 {
            let before = Survey::best(&self.tried[..count - 2]);
            let is_last = last.disturbed || last.concurrency >= self.to;
            let falls = last.per_s <= best_per_s * (1.0 - MIN_GAIN);
            if self.tried[count - 2..].iter().all(|t| t.per_s <= before * (1.0 + MIN_GAIN)) {
                return match self.has_jumped() || falls || is_last {
                    true => Next::Plateau(best),
                    false => Next::Try((last.concurrency * JUMP).min(self.to)),
                };
            }
        }
        match (last.concurrency >= self.to, grew(count - 1)) {
            (true, true) => Next::Growing(best),
            (true, false) => Next::Plateau(best),
            (false, _) => Next::Try((last.concurrency * 2).min(self.to)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Surveys a store with the throughput `per_s(concurrency, number of the step)`.
    fn survey(to: usize, per_s: impl Fn(usize, usize) -> (f64, bool)) -> (Next, usize) {
        let mut survey = Survey::new(1, to);
        for step in 0..100 {
            match survey.next() {
                Next::Try(concurrency) => {
                    let (per_s, disturbed) = per_s(concurrency, step);
                    survey.note(concurrency, per_s, disturbed);
                }
                end => return (end, step),
            }
        }
        panic!("the survey does not end");
    }

    #[test]
    fn the_plateau_of_a_limited_store_is_found() {
        // 10 ms per operation and at most 1000/s: the plateau begins at 10 in flight.
        let (end, steps) = survey(1024, |c, _| ((c as f64 * 100.0).min(1000.0), false));
        assert_eq!((end, steps), (Next::Plateau(16), 8), "1, 2, 4, 8, 16, 32, 64, 256");
        assert_eq!(survey(1024, |_, _| (200.0, false)).0, Next::Plateau(1), "one in flight is enough");
        assert_eq!(survey(8, |c, _| (c as f64, false)).0, Next::Growing(8));
        assert_eq!(
            survey(1024, |_, _| (0.0, false)).0,
            Next::Plateau(1),
            "a store that fails ends the survey"
        );
    }

    #[test]
    fn small_gains_that_add_up_are_found() {
        // 2 ms for each operation in flight and 0.3 ms once: 435/s with one, 500/s with many.
        let (end, _) = survey(1024, |c, _| (c as f64 / (0.002 * c as f64 + 0.0003), false));
        let Next::Plateau(concurrency) = end else { panic!("{end:?}") };
        assert!(concurrency >= 16, "{concurrency} in flight give less than 99% of 500/s");
    }

    #[test]
    fn a_throughput_that_falls_is_not_loaded_further() {
        let falling = |c: usize, _| (if c <= 8 { c as f64 * 100.0 } else { 6400.0 / c as f64 }, false);
        assert_eq!(survey(1024, falling), (Next::Plateau(8), 6), "1, 2, 4, 8, 16, 32");
    }

    #[test]
    fn one_bad_step_does_not_end_a_survey() {
        let noisy = |c: usize, step: usize| {
            ((c as f64 * 100.0).min(5000.0) * if step == 3 { 0.3 } else { 1.0 }, false)
        };
        assert_eq!(survey(1024, noisy).0, Next::Plateau(64));
    }

    #[test]
    fn steps_with_a_disturbed_client_are_repeated() {
        let disturbed = |c: usize, step: usize| {
            let held = step == 4 || step == 5;
            ((c as f64 * 100.0).min(5000.0) * if held { 0.2 } else { 1.0 }, held)
        };
        let (end, steps) = survey(1024, disturbed);
        assert_eq!((end, steps), (Next::Plateau(64), 10 + 2));
        let always = survey(1024, |c, _| ((c as f64 * 100.0).min(1000.0), true));
        assert_eq!(always, (Next::Plateau(16), 7 * 3), "each step is tried three times");
    }

    #[test]
    fn a_revised_step_continues_the_survey() {
        let mut survey = Survey::new(1, 64);
        for (concurrency, per_s) in [(1, 100.0), (2, 900.0), (4, 400.0), (8, 800.0)] {
            survey.note(concurrency, per_s, false);
        }
        assert_eq!(survey.next(), Next::Plateau(2));
        survey.revise(2, 200.0);
        assert_eq!(survey.next(), Next::Try(16));
        assert_eq!((survey.best_per_s(), survey.reaching(800.0, 0.95)), (800.0, Some(8)));
        assert_eq!(survey.best_except(&[8, 4]), Some((2, 200.0)));
        assert_eq!(survey.best_except(&[1, 2, 4, 8]), None);
    }
}
