//! Usage of a store over a billing period.

use super::egress::Egress;
use super::functions::Functions;
use super::period::Period;
use super::tariff::Tariff;
use plimsoll_base::provider::calls::{Call, Calls};

/// Shares of the stored data that were not read for a number of days.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unread(Vec<(u64, u64)>);

impl Unread {
    /// Number of parts in which shares are counted.
    pub const WHOLE: u64 = 1_000_000_000;

    /// Creates shares from pairs of days and parts of [`Unread::WHOLE`].
    pub fn new(shares: Vec<(u64, u64)>) -> Unread {
        Unread(shares)
    }

    /// Returns the share that was not read for at least this number of days, in parts of [`Unread::WHOLE`]: the share
    /// of the first later number of days that is stated, or none.
    pub fn share(&self, days: u64) -> u64 {
        self.0.iter().filter(|(from, _)| *from >= days).map(|(_, share)| *share).max().unwrap_or(0)
    }
}

/// Bytes, requests and time used. Totals are exact; rules that depend on the size of an object use the mean size.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    /// Billing period of the usage.
    pub period: Period,
    /// Bytes stored, averaged over the period. With `arriving`, the average over a month of 730 hours.
    pub stored: u64,
    /// Bytes per month that are stored for `retention_s`. The stored bytes follow from them, the retention and the
    /// length of the provider's month. `None` if `stored` is given.
    pub arriving: Option<u64>,
    /// Daily peaks of the bytes stored, averaged over the days.
    pub stored_peak: u64,
    /// Mean size of an object, in bytes; 0 if it is unknown.
    pub object_bytes: u64,
    /// Retention: seconds after which an object is deleted, 0 for immediately. `None` if every object outlives any
    /// minimum duration.
    pub retention_s: Option<u64>,
    /// True if objects change their storage class after `retention_s` and are not deleted.
    pub moves_on: bool,
    /// Bytes deleted in the period, if `retention_s` is `None`.
    pub deleted: u64,
    /// Data that is not read for a time, for offers whose prices depend on the last read.
    pub unread: Unread,
    /// Number of requests of each kind.
    pub calls: Calls,
    /// Object bytes written.
    pub uploaded: u64,
    /// Object bytes read.
    pub downloaded: u64,
    /// Object bytes copied within the store, by CopyObject. Some providers charge them as read, some as written.
    pub copied: u64,
    /// Bytes that leave the provider for the internet.
    pub egress: Egress,
    /// Bytes sent to another zone of the region.
    pub cross_zone: u64,
    /// Bytes sent to another region of the provider.
    pub cross_region: u64,
    /// True if the account has already used up the free allowances of the month.
    pub without_allowances: bool,
    /// Machines: type, and total seconds of all machines of that type.
    pub instances: Vec<(String, u64)>,
    /// Functions that run on demand.
    pub functions: Functions,
}

impl Usage {
    /// Returns the number of requests that carry object bytes to the store.
    pub fn uploads(&self) -> u128 {
        u128::from(self.calls.get(Call::PutObject)) + u128::from(self.calls.get(Call::UploadPart))
    }

    /// Returns the number of requests that carry object bytes from the store.
    pub fn downloads(&self) -> u128 {
        u128::from(self.calls.get(Call::GetObject))
    }

    /// Returns the number of requests that read objects, each of which an archive class restores first.
    pub fn restores(&self) -> u128 {
        self.downloads() + u128::from(self.calls.get(Call::CopyObject))
    }

    /// Returns the bytes stored, averaged over a month of that many hours.
    pub fn stored_in(&self, month_hours: u64) -> u64 {
        let Some((arriving, seconds)) = self.arriving.zip(self.retention_s) else { return self.stored };
        let month = u128::from(month_hours * 3600);
        let stored = (u128::from(arriving) * u128::from(seconds) + month / 2) / month;
        u64::try_from(stored).unwrap_or(u64::MAX)
    }

    /// Returns the bytes that machines of the provider of a tariff read.
    pub fn read_inside(&self, tariff: &Tariff) -> u64 {
        self.downloaded.saturating_sub(self.egress_at(tariff))
    }

    /// Returns the bytes that leave the provider of a tariff for the internet.
    pub fn egress_at(&self, tariff: &Tariff) -> u64 {
        self.egress.at(tariff, self.downloaded)
    }

    /// Returns true if nothing is used.
    pub fn is_nothing(&self) -> bool {
        let egress = self.egress.stated();
        let bytes = [self.stored, self.uploaded, self.downloaded, egress, self.cross_zone, self.cross_region];
        bytes.iter().all(|bytes| *bytes == 0)
            && self.calls.total() == 0
            && self.instances.is_empty()
            && self.functions.invocations == 0
    }

    /// Returns true if the period is a month.
    pub fn is_month(&self) -> bool {
        self.period == Period::Month
    }

    /// Adds the writes of `count` objects of `object_bytes`, in parts of `part_bytes` if they are larger than a
    /// part.
    ///
    /// All parts of an object except the last have the same size. Each part is one request, and so are creating
    /// and completing the upload.
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
