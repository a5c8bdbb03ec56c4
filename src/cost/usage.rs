//! What is used of a store while it is paid for.

use super::egress::Egress;
use super::tariff::Tariff;
use crate::provider::calls::{Call, Calls};

/// Hours of a month where nobody says otherwise: 24 x 365 / 12.
pub const MONTH_HOURS: u64 = 730;
/// Seconds of a day.
pub const DAY_S: u64 = 86_400;

/// For how long, and how a bill treats it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Period {
    /// One month of a provider's own length: allowances, minimum charges and rounding are applied.
    #[default]
    Month,
    /// So many seconds on top of whatever else the account does: list price of the first tier, no allowances, no minimum charges, no
    /// rounding up to whole units.
    Seconds(u64),
}

/// Bytes, requests and time. Sizes are exact; what depends on the size of single objects takes the mean size for each of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    /// For how long.
    pub period: Period,
    /// Bytes stored, on average over the period.
    pub stored: u64,
    /// Bytes stored at each day's highest, on average over the days.
    pub stored_peak: u64,
    /// Mean size of an object; 0 where none is known to be stored.
    pub object_bytes: u64,
    /// Days after which an object is deleted, 0 for at once; `None` where none is deleted before any minimum duration.
    pub keep_days: Option<u64>,
    /// True if objects leave after `keep_days` without being deleted, because their storage class changes.
    pub moves_on: bool,
    /// Bytes deleted, where `keep_days` is `None`.
    pub deleted: u64,
    /// Requests.
    pub calls: Calls,
    /// Object bytes written.
    pub uploaded: u64,
    /// Object bytes read.
    pub downloaded: u64,
    /// Bytes that leave the provider for the internet.
    pub egress: Egress,
    /// Bytes that cross to another zone of the region.
    pub cross_zone: u64,
    /// Bytes that cross to another region of the provider.
    pub cross_region: u64,
    /// Whether the account has used up what is free in a month.
    pub without_allowances: bool,
    /// Machines: type and seconds of all machines of that type together.
    pub instances: Vec<(String, u64)>,
}

impl Usage {
    /// Requests that carry object bytes to the store.
    pub fn uploads(&self) -> u128 {
        u128::from(self.calls.get(Call::PutObject)) + u128::from(self.calls.get(Call::UploadPart))
    }

    /// Requests that carry object bytes from it.
    pub fn downloads(&self) -> u128 {
        u128::from(self.calls.get(Call::GetObject))
    }

    /// Bytes that leave the provider of a tariff for the internet.
    pub fn egress_at(&self, tariff: &Tariff) -> u64 {
        self.egress.at(tariff, self.downloaded)
    }

    /// Whether nothing at all is used.
    pub fn is_nothing(&self) -> bool {
        let egress = self.egress.stated();
        let bytes = [self.stored, self.uploaded, self.downloaded, egress, self.cross_zone, self.cross_region];
        bytes.iter().all(|bytes| *bytes == 0) && self.calls.total() == 0 && self.instances.is_empty()
    }

    /// Whether it is a month.
    pub fn is_month(&self) -> bool {
        self.period == Period::Month
    }

    /// Adds `count` objects of `object_bytes` that are written, in parts of `part_bytes` where they are larger.
    ///
    /// Parts of one object but the last are of one size; each costs a request, and so do beginning and completing.
    pub fn write(&mut self, count: u64, object_bytes: u64, part_bytes: Option<u64>) {
        match part_bytes.filter(|part| *part > 0 && *part < object_bytes) {
            Some(part) => {
                self.calls.add(Call::CreateMultipartUpload, count);
                self.calls.add(Call::UploadPart, count.saturating_mul(object_bytes.div_ceil(part)));
                self.calls.add(Call::CompleteMultipartUpload, count);
            }
            None => self.calls.add(Call::PutObject, count),
        }
        self.uploaded = self.uploaded.saturating_add(count.saturating_mul(object_bytes));
    }
}
