//! The moment of a cut, drawn from its seed, and the work before it.

use super::history::NumberedOperation;
use plimsoll_disk::draws::Draws;
use plimsoll_disk::rules::Fate;

/// Choice of the moment and the consequences of a cut.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// Number of the acknowledgement.
    pub at: u64,
    /// Steps of the disk after it.
    pub steps: u64,
    /// Fate of what is not synced.
    pub fate: Fate,
    /// Seed of the power loss.
    pub seed: u64,
    /// Steps of the disk during the next start after which the power fails again; `None` if it does not.
    pub again: Option<u64>,
    /// Number of the acknowledgement after which the disk writes everything back, as the kernel does every few seconds;
    /// `None` for never.
    pub written_back: Option<u64>,
}

impl Moment {
    /// Draws the moment of a cut.
    pub fn draw(seed: u64, operations: u64, has_fault: bool) -> Moment {
        let mut draws = Draws::new(seed, "moment");
        let at = 1 + draws.below(operations);
        let steps = if draws.chance(50) { 0 } else { 1 + draws.below(60) };
        let again = (!has_fault && draws.chance(25)).then(|| 1 + draws.below(40));
        // A fault must be survived with all that was acknowledged in spite of it.
        Moment {
            at: if has_fault { operations } else { at },
            steps,
            fate: Fate::draw(&mut draws),
            seed,
            again,
            written_back: None,
        }
    }
}

/// Work of the clients before a cut.
#[derive(Clone, Copy)]
pub enum Load<'a> {
    /// Concurrent clients with this seed.
    Clients(u64),
    /// These operations, one after the other.
    Operations(&'a [NumberedOperation]),
}
