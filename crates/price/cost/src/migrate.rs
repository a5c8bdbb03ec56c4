//! Cost of moving all stored data from one store to another, once, and what it saves each month afterwards.
//!
//! Every object is read from the source, sent to the destination, written there and deleted from the source after the
//! copy. The cost of these requests and bytes is the difference between the bills of a month with and without them, so
//! they are charged in the tiers in which they fall on top of the workload. Objects that are written during the copy
//! go to the destination. Until the copy is complete, the source keeps everything.

use serde::Serialize;

use super::bill::{Bill, BillPart, bill};
use super::charge::BillError;
use super::egress::Egress;
use super::money::Usd;
use super::period::DAY_S;
use super::tariff::{Measure, Tariff};
use super::tiering::{changes_region, crosses, is_one_provider};
use super::usage::Usage;
use plimsoll_base::provider::calls::Call;

/// A move of all stored data.
#[derive(Debug, Clone)]
pub struct Migration<'a> {
    /// Tariff of the store that has the data.
    pub from: &'a Tariff,
    /// Tariff of the store that gets the data.
    pub to: &'a Tariff,
    /// Usage of a month, at either store.
    pub month: Usage,
    /// Size of the parts in which objects are written, in bytes; `None` if they are written in one request.
    pub part_bytes: Option<u64>,
    /// True if each copy is read back, and found before its source is deleted, as `plimsoll-gateway` does.
    pub verifies: bool,
    /// True if the provider of the source does not charge the egress of the move.
    pub waived: bool,
    /// Bytes copied per second.
    pub bytes_per_s: u64,
    /// Seconds for which the source is kept after the copy.
    pub kept_s: u64,
}

/// One item of the cost of a move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Item {
    /// Name of the offer that charges it.
    pub provider: String,
    /// Reason of the charge.
    pub reason: Reason,
    /// Amount of the charge.
    pub amount_usd: Usd,
}

/// Reason of a charge of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// Requests and bytes read from the source.
    Reads,
    /// Bytes from the source to the internet.
    Egress,
    /// Bytes from the source to another region of its provider.
    Transfer,
    /// Requests and bytes written to the destination.
    Writes,
    /// Copies that are read back from the destination.
    ReadsBack,
    /// Changes of the storage class by a lifecycle rule.
    Transitions,
    /// Deletion of the sources.
    Deletions,
    /// Storage of sources after their deletion, which some providers charge.
    DeletedStorage,
    /// Storage in both stores, until the source is deleted.
    DoubleStorage,
    /// Rest of the minimum durations of sources.
    EarlyDeletion,
}

impl Reason {
    /// Returns the name used in tables.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Reads => "reads of the source",
            Reason::Egress => "egress from the source",
            Reason::Transfer => "transfer to another region",
            Reason::Transitions => "lifecycle transitions",
            Reason::DeletedStorage => "sources after their deletion",
            Reason::Writes => "writes to the destination",
            Reason::ReadsBack => "copies that are read back",
            Reason::Deletions => "deletions of the source",
            Reason::DoubleStorage => "storage in both stores",
            Reason::EarlyDeletion => "minimum durations of the source",
        }
    }
}

/// Cost and saving of a move.
#[derive(Debug, Clone, Serialize)]
pub struct Moved {
    /// Number of objects that move.
    pub objects: u64,
    /// Bytes that move.
    pub bytes: u64,
    /// Seconds that the copy takes.
    pub copy_s: u64,
    /// Charges of the move; amounts of zero are left out.
    pub items: Vec<Item>,
    /// Sum of the charges.
    pub once_usd: Usd,
    /// Bill of a month at the source.
    pub before: Bill,
    /// Bill of a month at the destination.
    pub after: Bill,
    /// Saving of a month; negative if the destination costs more.
    pub saved_usd: Usd,
    /// Months, after the source is deleted, in which the saving pays for the move; `None` if it never does.
    pub payback_months: Option<f64>,
    /// Saving of the oldest-first order compared with the youngest-first order: fewer minimum durations are cut short.
    pub order_saves_usd: Usd,
}

/// Way on which the data moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// A lifecycle rule changes the storage class in place.
    Lifecycle,
    /// Within the network of a provider, in one region.
    Network,
    /// Within the network of a provider, to another region.
    Regions,
    /// Over the internet.
    Internet,
}

impl Migration<'_> {
    /// Returns the way on which the data moves.
    pub fn way(&self) -> Way {
        if is_one_provider(self.from, self.to) && self.to.priced.contains(Call::LifecycleTransition) {
            Way::Lifecycle
        } else if crosses(self.from, self.to) {
            Way::Internet
        } else if changes_region(self.from, self.to) {
            Way::Regions
        } else {
            Way::Network
        }
    }

    fn objects(&self) -> u64 {
        self.month.stored.div_ceil(self.month.object_bytes.max(1))
    }

    /// Returns the length of the copy in seconds.
    pub fn copy_s(&self) -> u64 {
        self.month.stored.div_ceil(self.bytes_per_s.max(1)).max(1)
    }

    /// Adds work on objects and their bytes to the workload of a month.
    fn with(&self, reason: Reason, objects: u64, bytes: u64) -> Usage {
        let mut usage = self.month.clone();
        match reason {
            Reason::Reads | Reason::Egress | Reason::Transfer => {
                usage.calls.add(Call::GetObject, objects);
                usage.downloaded = usage.downloaded.saturating_add(bytes);
                self.leave(&mut usage, self.from, bytes);
            }
            Reason::Writes => {
                let before = usage.uploaded;
                usage.write(objects, self.month.object_bytes, self.part_bytes);
                usage.uploaded = before.saturating_add(bytes);
                usage.arriving = None;
            }
            Reason::ReadsBack => {
                usage.calls.add(Call::GetObject, objects);
                usage.calls.add(Call::HeadObject, objects);
                usage.downloaded = usage.downloaded.saturating_add(bytes);
                self.leave(&mut usage, self.to, bytes);
            }
            Reason::Transitions => usage.calls.add(Call::LifecycleTransition, objects),
            Reason::Deletions => usage.calls.add(Call::DeleteObject, objects),
            Reason::DeletedStorage | Reason::DoubleStorage | Reason::EarlyDeletion => {}
        }
        usage
    }

    /// Adds bytes that leave a store for the other one.
    fn leave(&self, usage: &mut Usage, tariff: &Tariff, bytes: u64) {
        let stated = self.month.egress_at(tariff);
        let way = self.way();
        let leaves = if way == Way::Internet { bytes } else { 0 };
        usage.egress = Egress::Stated(stated.saturating_add(leaves));
        if way == Way::Regions {
            usage.cross_region = usage.cross_region.saturating_add(bytes);
        }
    }

    /// Returns the cost of one kind of work at a tariff, in the months of the copy. Storage is left out, because
    /// other items contain it.
    fn work(&self, tariff: &Tariff, reason: Reason) -> Result<Usd, BillError> {
        let (whole, month) = (self.copy_s(), tariff.rules.month_hours * 3600);
        let of_month = |n: u64| (u128::from(n) * u128::from(month) / u128::from(whole)) as u64;
        let months = whole / month;
        let full = (of_month(self.objects()), of_month(self.month.stored));
        let rest = (self.objects() - full.0 * months, self.month.stored - full.1 * months);
        let mut sum = self.added(tariff, reason, rest.0, rest.1)?;
        if months > 0 {
            sum += self.added(tariff, reason, full.0, full.1)? * i64::try_from(months).unwrap_or(i64::MAX);
        }
        Ok(sum)
    }

    /// Returns the cost of work in a month, on top of the workload.
    fn added(&self, tariff: &Tariff, reason: Reason, objects: u64, bytes: u64) -> Result<Usd, BillError> {
        let (with, plain) = (bill(tariff, &self.with(reason, objects, bytes))?, bill(tariff, &self.month)?);
        let meter = tariff.meter(Measure::CrossRegion).map(|meter| meter.item.as_str());
        let transfer = |bill: &Bill| -> Usd {
            bill.lines
                .iter()
                .filter(|line| Some(line.item.as_str()) == meter)
                .map(|line| line.amount_usd)
                .sum()
        };
        let of = |bill: &Bill| match reason {
            Reason::Egress => bill.part(BillPart::Egress),
            Reason::Transfer => transfer(bill),
            Reason::Reads => bill.part(BillPart::Requests) + bill.part(BillPart::Data) - transfer(bill),
            Reason::ReadsBack => {
                bill.part(BillPart::Requests) + bill.part(BillPart::Data) + bill.part(BillPart::Egress)
            }
            _ => bill.part(BillPart::Requests) + bill.part(BillPart::Data),
        };
        Ok(of(&with) - of(&plain))
    }

    /// Returns the storage part of a month's bill with these bytes stored, and these deleted, and nothing else.
    fn month_of(&self, tariff: &Tariff, stored: u64, deleted: u64) -> Result<Usd, BillError> {
        let usage = Usage {
            stored,
            stored_peak: stored,
            deleted,
            object_bytes: self.month.object_bytes,
            without_allowances: self.month.without_allowances,
            ..Usage::default()
        };
        Ok(bill(tariff, &usage)?.part(BillPart::Storage))
    }

    /// Returns the cost of storage in the destination until the source is deleted: it fills evenly during the copy, and
    /// holds everything while the source is kept.
    fn double(&self) -> Result<Usd, BillError> {
        let (stored, copy_s) = (u128::from(self.month.stored), u128::from(self.copy_s()));
        let month = u128::from(self.to.rules.month_hours * 3600);
        let empty = self.month_of(self.to, 0, 0)?;
        let average = |byte_seconds: u128| -> Result<Usd, BillError> {
            let bytes = u64::try_from(byte_seconds / month).unwrap_or(u64::MAX);
            Ok(self.month_of(self.to, bytes, 0)? - empty)
        };
        let (mut sum, mut start) = (Usd::ZERO, 0);
        while start < copy_s {
            let length = month.min(copy_s - start);
            sum += average(stored * (2 * start + length) * length / (2 * copy_s))?;
            start += length;
        }
        let (whole, rest) = (u128::from(self.kept_s) / month, u128::from(self.kept_s) % month);
        Ok(sum
            + average(stored * month)? * i64::try_from(whole).unwrap_or(i64::MAX)
            + average(stored * rest)?)
    }

    /// Returns the rest of the minimum durations of the objects, if they are deleted at the end of the copy and are
    /// kept for `retention_s` in the workload. The retention spreads their ages evenly. Without one, all are older.
    fn early(&self, oldest_first: bool) -> Result<Usd, BillError> {
        let (least, Some(lives)) = (self.from.rules.minimum_days * DAY_S, self.month.retention_s) else {
            return Ok(Usd::ZERO);
        };
        if least == 0 || lives == 0 {
            return Ok(Usd::ZERO);
        }
        // With the oldest first, the youngest wait longest for their turn, and get older meanwhile.
        let (slices, mut byte_seconds) = (1000u128, 0u128);
        let bytes = u128::from(self.month.stored) / slices;
        for slice in 0..slices {
            let age = u128::from(lives) * (2 * slice + 1) / (2 * slices);
            let turn = if oldest_first { slices - slice } else { slice + 1 };
            let waits = u128::from(self.copy_s()) * turn / slices + u128::from(self.kept_s);
            byte_seconds += bytes * u128::from(least).saturating_sub(age + waits);
        }
        let month = u128::from(self.from.rules.month_hours * 3600);
        let more = u64::try_from(byte_seconds / month).unwrap_or(u64::MAX);
        let stored = self.month.stored;
        Ok(self.month_of(self.from, stored.saturating_add(more), 0)? - self.month_of(self.from, stored, 0)?)
    }

    /// Returns the charges of the move; amounts of zero are left out.
    fn items(&self) -> Result<Vec<Item>, BillError> {
        let mut items = Vec::new();
        let mut add = |tariff: &Tariff, reason: Reason, amount_usd: Usd| {
            if amount_usd != Usd::ZERO {
                items.push(Item { provider: tariff.offer.clone(), reason, amount_usd });
            }
        };
        if self.way() == Way::Lifecycle {
            add(self.to, Reason::Transitions, self.work(self.to, Reason::Transitions)?);
        } else {
            let charged = |reason: &Reason| *reason != Reason::Egress || !self.waived;
            for reason in [Reason::Reads, Reason::Egress, Reason::Transfer].into_iter().filter(charged) {
                add(self.from, reason, self.work(self.from, reason)?);
            }
            add(self.to, Reason::Writes, self.work(self.to, Reason::Writes)?);
            if self.verifies {
                add(self.to, Reason::ReadsBack, self.work(self.to, Reason::ReadsBack)?);
            }
            add(self.from, Reason::Deletions, self.work(self.from, Reason::Deletions)?);
            let stored = self.month.stored;
            let deleted = self.month_of(self.from, stored, stored)? - self.month_of(self.from, stored, 0)?;
            add(self.from, Reason::DeletedStorage, deleted);
            add(self.to, Reason::DoubleStorage, self.double()?);
        }
        add(self.from, Reason::EarlyDeletion, self.early(true)?);
        Ok(items)
    }

    /// Computes the cost of the move and what it saves.
    ///
    /// # Errors
    /// [`BillError`] if one of the stores has no bill for the workload or for the move.
    pub fn cost(&self) -> Result<Moved, BillError> {
        let (before, after) = (bill(self.from, &self.month)?, bill(self.to, &self.month)?);
        let items = self.items()?;
        let once_usd: Usd = items.iter().map(|item| item.amount_usd).sum();
        let saved_usd = before.total_usd - after.total_usd;
        let payback_months = (saved_usd > Usd::ZERO).then(|| once_usd.dollars() / saved_usd.dollars());
        Ok(Moved {
            objects: self.objects(),
            bytes: self.month.stored,
            copy_s: self.copy_s(),
            items,
            once_usd,
            before,
            after,
            saved_usd,
            payback_months,
            order_saves_usd: self.early(false)? - self.early(true)?,
        })
    }
}

#[cfg(test)]
mod tests;
