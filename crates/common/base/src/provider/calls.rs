//! The kinds of requests that providers group into price classes, named as in the S3 API.

use serde::{Deserialize, Serialize};

/// Number of request kinds.
pub const KINDS: usize = 17;

/// A kind of request, named as in the S3 API. Requests of other APIs count as the S3 request that does the same.
/// `LifecycleTransition` moves an object to another storage class under a lifecycle rule of its bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// All kinds, each at its own index.
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

    /// Returns the name in the S3 API.
    pub fn name(self) -> String {
        format!("{self:?}")
    }

    /// Returns the index of the kind in [`Call::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }
}

/// Number of requests of each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Calls([u64; KINDS]);

impl Calls {
    /// Returns `count` requests of one kind and none of the others.
    pub fn of(call: Call, count: u64) -> Calls {
        let mut calls = Calls::default();
        calls.set(call, count);
        calls
    }

    /// Returns the number of requests of this kind.
    pub fn get(&self, call: Call) -> u64 {
        self.0[call.index()]
    }

    /// Adds `count` requests of this kind; saturates at `u64::MAX`.
    pub fn add(&mut self, call: Call, count: u64) {
        let sum = &mut self.0[call.index()];
        *sum = sum.saturating_add(count);
    }

    /// Sets the number of requests of this kind.
    pub fn set(&mut self, call: Call, count: u64) {
        self.0[call.index()] = count;
    }

    /// Returns the total number of requests of the kinds in `set`.
    pub fn sum(&self, set: CallSet) -> u128 {
        let mut left = set.0;
        let mut sum = 0;
        while left != 0 {
            sum += u128::from(self.0[left.trailing_zeros() as usize]);
            left &= left - 1;
        }
        sum
    }

    /// Returns the kinds with at least one request.
    pub fn kinds(&self) -> CallSet {
        let bit = |(index, count): (usize, &u64)| u32::from(*count > 0) << index;
        CallSet(self.0.iter().enumerate().map(bit).sum())
    }

    /// Returns the total number of requests.
    pub fn total(&self) -> u128 {
        self.0.iter().map(|count| u128::from(*count)).sum()
    }
}

/// A set of request kinds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallSet(u32);

impl CallSet {
    /// Returns the union of both sets.
    pub fn with(self, other: CallSet) -> CallSet {
        CallSet(self.0 | other.0)
    }

    /// Returns true if the set contains this kind.
    pub fn contains(self, call: Call) -> bool {
        self.0 & 1 << call.index() != 0
    }

    /// Returns the kinds of this set that `other` does not contain.
    pub fn without(self, other: CallSet) -> CallSet {
        CallSet(self.0 & !other.0)
    }

    /// Returns the first kind that both sets contain, or `None` if there is none.
    pub fn first_in(self, other: CallSet) -> Option<Call> {
        let common = self.0 & other.0;
        (common != 0).then(|| Call::ALL[common.trailing_zeros() as usize])
    }

    /// Returns the first kind of this set that `other` does not contain, or `None` if there is none.
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
    fn every_kind_is_at_its_index() {
        for (index, call) in Call::ALL.iter().enumerate() {
            assert_eq!(call.index(), index);
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
