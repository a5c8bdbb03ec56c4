//! Shares of the operations. They are exact in every block of operations; the order within a block is drawn from
//! the seed.

use super::OperationKind;
use plimsoll_base::rng::Stream;

/// Weights of the operations, divided by their greatest common divisor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mix {
    shares: Vec<(OperationKind, u32)>,
    total: u32,
}

/// An error in the weights of a mix.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum MixError {
    /// No operation has a weight above 0.
    #[error("operations must give at least one operation a weight above 0, such as {{ get = 1 }}")]
    Empty,
    /// The block in which the shares are exact would be too long.
    #[error(
        "the weights of the operations, divided by their greatest common divisor, add up to {0}; the \
         maximum is 10000; use smaller weights, such as {{ get = 95, put = 5 }}"
    )]
    TooFine(u64),
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl Mix {
    /// Creates a mix from weights; `{get: 90, put: 10}` and `{get: 9, put: 1}` are equal.
    ///
    /// # Errors
    /// Returns a [`MixError`] if no weight is above 0, or if the reduced weights add up to more than 10,000.
    pub fn new(weights: &[(OperationKind, u32)]) -> Result<Mix, MixError> {
        let mut shares: Vec<_> = weights.iter().copied().filter(|(_, w)| *w > 0).collect();
        shares.sort();
        let divisor = shares.iter().fold(0, |d, (_, w)| gcd(d, *w));
        if divisor == 0 {
            return Err(MixError::Empty);
        }
        shares.iter_mut().for_each(|(_, w)| *w /= divisor);
        let total: u64 = shares.iter().map(|(_, w)| u64::from(*w)).sum();
        if total > 10_000 {
            return Err(MixError::TooFine(total));
        }
        Ok(Mix { shares, total: total as u32 })
    }

    /// Returns the length of a block in operations: the sum of the reduced weights.
    pub fn total(&self) -> u32 {
        self.total
    }

    /// Returns the reduced weight of an operation; 0 if it is not in the mix.
    pub fn share(&self, kind: OperationKind) -> u32 {
        self.shares.iter().find(|(k, _)| *k == kind).map_or(0, |(_, w)| *w)
    }

    /// Returns the operations in the mix with their reduced weights.
    pub fn shares(&self) -> &[(OperationKind, u32)] {
        &self.shares
    }
}

/// Cursor over a mix, which determines the kind of each operation and its number within that kind.
pub struct MixCursor {
    mix: Mix,
    draws: Stream,
    block: Option<u64>,
    order: Vec<(OperationKind, u32)>,
}

impl MixCursor {
    /// Creates a cursor over the mix; `draws` determines the order within each block.
    pub fn new(mix: Mix, draws: Stream) -> MixCursor {
        MixCursor { mix, draws, block: None, order: Vec::new() }
    }

    /// Returns the kind of operation `i` and its number within that kind.
    pub fn at(&mut self, i: u64) -> (OperationKind, u64) {
        if let [(kind, 1)] = self.mix.shares[..] {
            return (kind, i);
        }
        let total = u64::from(self.mix.total);
        let block = i / total;
        if self.block != Some(block) {
            self.shuffle(block);
        }
        let (kind, within) = self.order[(i % total) as usize];
        (kind, block * u64::from(self.mix.share(kind)) + u64::from(within))
    }

    /// Returns the number of operations of a kind before operation `i`.
    pub fn before(&mut self, i: u64, kind: OperationKind) -> u64 {
        let total = u64::from(self.mix.total);
        let (block, within) = (i / total, (i % total) as usize);
        let share = u64::from(self.mix.share(kind));
        if share == 0 || share == total {
            return if share == 0 { 0 } else { i };
        }
        if self.block != Some(block) {
            self.shuffle(block);
        }
        let here = self.order[..within].iter().filter(|(k, _)| *k == kind).count() as u64;
        block * share + here
    }

    /// Shuffles the operations of one block (Fisher and Yates), then numbers each kind in that order.
    fn shuffle(&mut self, block: u64) {
        self.order.clear();
        for (kind, weight) in &self.mix.shares {
            self.order.extend(std::iter::repeat_n((*kind, 0), *weight as usize));
        }
        let base = block * u64::from(self.mix.total);
        for j in (1..self.order.len()).rev() {
            let k = self.draws.below(base + j as u64, j as u64 + 1) as usize;
            self.order.swap(j, k);
        }
        let mut seen = [0; OperationKind::ALL.len()];
        for (kind, within) in &mut self.order {
            *within = seen[kind.index()];
            seen[kind.index()] += 1;
        }
        self.block = Some(block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_exact_and_ordinals_count_without_gaps() {
        let mix = Mix::new(&[
            (OperationKind::Get, 45),
            (OperationKind::Head, 30),
            (OperationKind::Put, 15),
            (OperationKind::Delete, 10),
        ])
        .unwrap();
        assert_eq!(mix.total(), 20);
        let mut cursor = MixCursor::new(mix, Stream::new(1, "mix"));
        let mut counts = [0u64; OperationKind::ALL.len()];
        for i in 0..2_000 {
            let (kind, ordinal) = cursor.at(i);
            assert_eq!(ordinal, counts[kind.index()], "operation {i}");
            assert_eq!(cursor.before(i, OperationKind::Put), counts[OperationKind::Put.index()]);
            counts[kind.index()] += 1;
        }
        assert_eq!(counts, [300, 900, 0, 600, 0, 200, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn blocks_differ_in_order() {
        let mix = Mix::new(&[(OperationKind::Get, 10), (OperationKind::Put, 9)]).unwrap();
        let mut cursor = MixCursor::new(mix, Stream::new(1, "mix"));
        let block =
            |cursor: &mut MixCursor, b: u64| (0..19).map(|i| cursor.at(b * 19 + i).0).collect::<Vec<_>>();
        assert_ne!(block(&mut cursor, 0), block(&mut cursor, 1));
        assert_eq!(block(&mut cursor, 0), block(&mut cursor, 0));
    }

    #[test]
    fn invalid_weights_are_rejected_with_the_reason() {
        assert_eq!(Mix::new(&[(OperationKind::Get, 0)]), Err(MixError::Empty));
        assert!(matches!(
            Mix::new(&[(OperationKind::Get, 99_991), (OperationKind::Put, 9)]),
            Err(MixError::TooFine(_))
        ));
    }
}
