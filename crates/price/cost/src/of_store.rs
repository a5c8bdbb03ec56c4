//! Cost of a run at one store: its counted requests, bytes and time, added to whatever else the account does.

use super::bill::{Bill, bill, is_billed, total};
use super::egress::Egress;
use super::money::Usd;
use super::period::Period;
use super::tariff::{Measure, Tariff};
use super::usage::Usage;
use plimsoll_base::provider::calls::{Call, Calls};

/// Work done or planned at a store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreUsage {
    /// Number of requests of each kind, including failed ones.
    pub calls: Calls,
    /// Requests among `calls` that were answered with an error: kind, status code and count.
    pub refused: Vec<(Call, u16, u64)>,
    /// Object bytes written.
    pub uploaded: u64,
    /// Object bytes read.
    pub downloaded: u64,
    /// Size of an object, in bytes. If `None`, the mean size is used.
    pub object_bytes: Option<u64>,
    /// Bytes per object that the store counts in addition to the content: the key and attribute names. 0 if it
    /// counts none.
    pub names: u64,
    /// Seconds from the first request to the last.
    pub seconds: u64,
    /// True if the bytes read are internet egress.
    pub leaves: bool,
    /// Type of the client machine; `None` if it is unknown.
    pub machine: Option<String>,
}

impl StoreUsage {
    /// Returns the mean size of an object. Rejected writes do not count as objects.
    fn mean_object(&self) -> u64 {
        let written = [Call::PutObject, Call::CompleteMultipartUpload];
        let refused = self.refused.iter().filter(|(call, ..)| written.contains(call)).map(|(.., n)| n);
        let sent: u64 = written.iter().map(|call| self.calls.get(*call)).sum();
        let objects = sent.saturating_sub(refused.sum());
        let mean = |bytes: u64, n: u64| bytes.checked_div(n).filter(|mean| *mean > 0);
        mean(self.uploaded, objects)
            .or_else(|| mean(self.downloaded, self.calls.get(Call::GetObject)))
            .unwrap_or(0)
    }

    /// Returns the object bytes that were stored: those written and those copied. Refused copies store nothing.
    pub fn stored(&self) -> u64 {
        let refused = self.refused.iter().filter(|(call, ..)| *call == Call::CopyObject).map(|(.., n)| n);
        let copies = self.calls.get(Call::CopyObject).saturating_sub(refused.sum());
        self.uploaded.saturating_add(copies.saturating_mul(self.object_bytes()))
    }

    /// Returns the size of an object in bytes.
    fn object_bytes(&self) -> u64 {
        self.object_bytes.unwrap_or_else(|| self.mean_object())
    }

    /// Returns the usage that is billed, and the items without a price: their number (`None` for bytes) and
    /// their name.
    fn usage(&self, tariff: &Tariff) -> (Usage, Vec<(Option<u64>, String)>) {
        let mut calls = self.calls;
        for (call, _, n) in self.refused.iter().filter(|(_, status, _)| !is_billed(tariff, *status)) {
            calls.set(*call, calls.get(*call).saturating_sub(*n));
        }
        let mut unpriced = Vec::new();
        while let Some(call) = calls.kinds().first_missing_in(tariff.priced) {
            unpriced.push((Some(calls.get(call)), call.name()));
            calls.set(call, 0);
        }
        let mut priced = |bytes: u64, measure: Measure, name: &str| {
            let known = bytes == 0 || tariff.meter(measure).is_some();
            if !known {
                unpriced.push((None, name.to_string()));
            }
            if known { bytes } else { 0 }
        };
        let object_bytes = self.object_bytes();
        let stored = priced(self.stored(), Measure::Storage, "storage");
        let egress = if self.leaves { self.downloaded } else { 0 };
        let egress = priced(egress, Measure::Egress, "egress to the internet");
        let machine = self.machine.iter().filter(|m| tariff.instances.iter().any(|i| i.item == **m));
        let usage = Usage {
            period: Period::Seconds(self.seconds),
            stored,
            stored_peak: stored,
            object_bytes: object_bytes + self.names,
            copied: calls.get(Call::CopyObject).saturating_mul(object_bytes),
            calls,
            uploaded: self.uploaded,
            downloaded: self.downloaded,
            egress: Egress::Stated(egress),
            instances: machine.map(|m| (m.clone(), self.seconds)).collect(),
            ..Usage::default()
        };
        (usage, unpriced)
    }

    /// Returns the name of the first item without a known price.
    pub fn unpriced(&self, tariff: &Tariff) -> Option<String> {
        self.usage(tariff).1.into_iter().next().map(|(_, name)| name)
    }

    /// Returns the cost, without items that have no price. Returns zero if the provider does not accept the
    /// objects.
    pub fn total(&self, tariff: &Tariff) -> Usd {
        total(tariff, &self.usage(tariff).0).unwrap_or_default()
    }

    /// Returns the bill, with what is assumed and what has no price in its notes.
    pub fn bill(&self, tariff: &Tariff) -> Bill {
        let (usage, unpriced) = self.usage(tariff);
        let mut notes = Vec::new();
        if !unpriced.is_empty() {
            let describe = |(count, name): &(Option<u64>, String)| match count {
                Some(count) => format!("{count} {name}"),
                None => name.clone(),
            };
            let items: Vec<String> = unpriced.iter().map(describe).collect();
            notes.push(format!("no price is known for {}, so the cost omits it", items.join(", ")));
        }
        let mut bill = match bill(tariff, &usage) {
            Ok(bill) => bill,
            Err(error) => {
                notes.push(error.to_string());
                return Bill {
                    provider: tariff.offer.clone(),
                    title: tariff.title.clone(),
                    region: tariff.region.clone(),
                    as_of: tariff.as_of.clone(),
                    notes,
                    ..Bill::default()
                };
            }
        };
        notes.push("list prices of the first tier; free allowances are assumed to be used up".into());
        notes.push(match tariff.rules.minimum_days {
            0 => "every byte written counts as stored until the end of the run".into(),
            days => format!("every byte written is billed for at least {days} days"),
        });
        let egress = usage.egress.stated();
        if self.downloaded > 0 && egress == 0 {
            notes.push("all reads stayed in the store's region".into());
        } else if egress > 0 {
            notes.push("all reads were internet egress (use --in-region if they were not)".into());
        }
        notes.append(&mut bill.notes);
        let doubtful = bill.doubtful();
        if !doubtful.is_empty() {
            notes.push(format!("low confidence in the price of {}", doubtful.join("; ")));
        }
        Bill { notes, ..bill }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::book::Prices;

    fn tariff(name: &str) -> Tariff {
        Prices::built_in().unwrap().tariff(name, None, "2026-11-21".parse().unwrap()).unwrap()
    }

    fn spent() -> StoreUsage {
        let mut spent = StoreUsage { uploaded: 1000 << 20, seconds: 3600, ..StoreUsage::default() };
        spent.calls.add(Call::PutObject, 1100);
        spent.refused = vec![(Call::PutObject, 503, 90), (Call::PutObject, 412, 10)];
        spent
    }

    #[test]
    fn rejected_requests_are_billed_by_the_rules_of_the_provider() {
        // S3: 1,010 requests at 0.005 / 1000, and 1000 MiB for an hour of 730 at 0.023 a GiB.
        let s3 = spent().bill(&tariff("aws-s3"));
        assert_eq!(s3.lines[1].quantity, "1.01");
        assert_eq!(s3.lines[1].amount_usd.to_string(), "0.00505");
        let stored: f64 = s3.lines[0].amount_usd.to_string().parse().unwrap();
        assert!((stored - 1000.0 / 1024.0 * 0.023 / 730.0).abs() < 1e-12);
        // Google bills neither; R2 bills all except 401 and 403.
        assert_eq!(spent().bill(&tariff("google-cloud-storage")).lines[1].quantity, "1");
        assert_eq!(spent().bill(&tariff("cloudflare-r2")).lines[1].quantity, "0.0011");
    }

    /// A run deletes its objects, but Google and B2 continue to bill them. With `--max-cost`, each write
    /// reserves that cost.
    #[test]
    fn deleted_bytes_of_a_run_are_still_billed() {
        let stored = |name: &str| {
            let spent = StoreUsage { uploaded: 1 << 40, seconds: 3600, ..StoreUsage::default() };
            spent.total(&tariff(name)).to_string()
        };
        // 1,024 GiB for an hour and seven days, 169 of 730 hours, at 0.02.
        assert_eq!(stored("google-cloud-storage"), "4.741260273973");
        // 1.0995 TB for an hour and a month, 721 of 720 hours, at 6.95.
        assert_eq!(stored("backblaze-b2"), "7.65221915445");
        let figures = spent().bill(&tariff("google-cloud-storage"));
        assert!(figures.notes.iter().any(|n| n.contains("7 more days")), "{:?}", figures.notes);
    }

    #[test]
    fn items_without_a_price_are_reported_and_left_out() {
        let mut spent = StoreUsage { seconds: 1, ..StoreUsage::default() };
        spent.calls.add(Call::ListObjects, 7);
        let figures = spent.bill(&tariff("aws-dynamodb"));
        assert!(figures.notes[0].contains("7 ListObjects"), "{:?}", figures.notes);
        assert_eq!(figures.total_usd.to_string(), "0.00");
    }
}
