//! The kinds of requests that providers put into classes: the names of the S3 API.

use serde::{Deserialize, Serialize};

/// Number of kinds.
pub const KINDS: usize = 17;

/// A kind of request, under its name in the S3 API; other APIs' requests are counted as the ones that do the same. A
/// `LifecycleTransition` moves an object to another storage class by a rule of its bucket.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[allow(missing_docs, reason = "the names are the documentation")]
pub enum Call {
    PutObject,
    CopyObject,
    ListObjects,
    CreateMultipartUpload,
    UploadPart,
    CompleteMultipartUpload,
    AbortMultipartUpload,
    ListMultipartUploads,
    GetObject,
    HeadObject,
    DeleteObject,
    DeleteObjects,
    HeadBucket,
    CreateBucket,
    DeleteBucket,
    CreateSession,
    LifecycleTransition,
}

impl Call {
    /// All kinds, each at the place of its number.
    pub const ALL: [Call; KINDS] = [
        Call::PutObject,
        Call::CopyObject,
        Call::ListObjects,
        Call::CreateMultipartUpload,
        Call::UploadPart,
        Call::CompleteMultipartUpload,
        Call::AbortMultipartUpload,
        Call::ListMultipartUploads,
        Call::GetObject,
        Call::HeadObject,
        Call::DeleteObject,
        Call::DeleteObjects,
        Call::HeadBucket,
        Call::CreateBucket,
        Call::DeleteBucket,
        Call::CreateSession,
        Call::LifecycleTransition,
    ];

    /// Its name.
    pub fn name(self) -> String {
        format!("{self:?}")
    }

    /// Its number.
    pub fn index(self) -> usize {
        self as usize
    }
}

/// How many requests of each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Calls([u64; KINDS]);

impl Calls {
    /// So many of one kind.
    pub fn of(call: Call, count: u64) -> Calls {
        let mut calls = Calls::default();
        calls.set(call, count);
        calls
    }

    /// How many of that kind.
    pub fn get(&self, call: Call) -> u64 {
        self.0[call.index()]
    }

    /// Adds some of a kind.
    pub fn add(&mut self, call: Call, count: u64) {
        let sum = &mut self.0[call.index()];
        *sum = sum.saturating_add(count);
    }

    /// Sets how many there are of a kind.
    pub fn set(&mut self, call: Call, count: u64) {
        self.0[call.index()] = count;
    }

    /// Those of a set of kinds together.
    pub fn sum(&self, set: CallSet) -> u128 {
        let mut left = set.0;
        let mut sum = 0;
        while left != 0 {
            sum += u128::from(self.0[left.trailing_zeros() as usize]);
            left &= left - 1;
        }
        sum
    }

    /// The kinds of which there are some.
    pub fn kinds(&self) -> CallSet {
        let bit = |(index, count): (usize, &u64)| u32::from(*count > 0) << index;
        CallSet(self.0.iter().enumerate().map(bit).sum())
    }

    /// How many in all.
    pub fn total(&self) -> u128 {
        self.0.iter().map(|count| u128::from(*count)).sum()
    }
}

/// A set of kinds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallSet(u32);

impl CallSet {
    /// Both together.
    pub fn with(self, other: CallSet) -> CallSet {
        CallSet(self.0 | other.0)
    }

    /// Whether that kind is in it.
    pub fn contains(self, call: Call) -> bool {
        self.0 & 1 << call.index() != 0
    }

    /// Those that are not in the other.
    pub fn without(self, other: CallSet) -> CallSet {
        CallSet(self.0 & !other.0)
    }

    /// The first kind that is in this set and in the other.
    pub fn first_in(self, other: CallSet) -> Option<Call> {
        let common = self.0 & other.0;
        (common != 0).then(|| Call::ALL[common.trailing_zeros() as usize])
    }

    /// The first kind that is in this set and not in the other.
    pub fn first_missing_in(self, other: CallSet) -> Option<Call> {
        let missing = self.0 & !other.0;
        (missing != 0).then(|| Call::ALL[missing.trailing_zeros() as usize])
    }
}

impl FromIterator<Call> for CallSet {
    fn from_iter<I: IntoIterator<Item = Call>>(calls: I) -> CallSet {
        CallSet(calls.into_iter().fold(0, |set, call| set | 1 << call.index()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_stands_at_its_number() {
        for (number, call) in Call::ALL.iter().enumerate() {
            assert_eq!(call.index(), number);
        }
        assert_eq!(Call::LifecycleTransition.index() + 1, KINDS);
        let mut calls = Calls::default();
        calls.add(Call::GetObject, 3);
        calls.add(Call::CreateSession, 4);
        let reads: CallSet = [Call::GetObject, Call::HeadObject].into_iter().collect();
        assert!(reads.contains(Call::GetObject) && !reads.contains(Call::CreateSession));
        assert_eq!((calls.sum(reads), calls.sum(calls.kinds())), (3, 7));
        assert_eq!(calls.kinds().first_missing_in(reads), Some(Call::CreateSession));
    }
}
