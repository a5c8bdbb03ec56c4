//! Replication of a bucket to another region of its provider: the written objects are transferred, written and stored
//! there. AWS, "Amazon S3 pricing", replication.

use jiff::civil::Date;

use super::{Addition, add_bill};
use crate::bill::{Bill, bill};
use crate::book::Prices;
use crate::egress::Egress;
use crate::tariff::{Measure, Meter, Tariff};
use crate::usage::Usage;
use plimsoll_base::provider::calls::{Call, Calls};

/// Provider whose replication the books price.
const PROVIDER: &str = "aws-s3";
/// Offer with the prices of transfers.
const LINES: &str = "aws-s3-lines";

/// Replication of all written objects.
#[derive(Debug, Clone, Copy)]
pub struct Replication<'a> {
    /// Region of the replica.
    pub to: &'a str,
    /// True if the provider replicates within a guaranteed time, at a price per byte.
    pub in_time: bool,
    /// Price books with the prices of both regions.
    pub prices: &'a Prices,
    /// Date of the prices.
    pub date: Date,
}

impl Replication<'_> {
    /// Returns the meter of a transfer by its name on bills, to be counted in bytes sent to another region.
    fn transfer(&self, tariff: &Tariff, line: &str, item: &str) -> Result<Meter, String> {
        if tariff.provider.as_deref() != Some(PROVIDER) {
            return Err("the books have no prices of replication for this provider".into());
        }
        let meter = self.prices.line(LINES, &tariff.region, line, self.date).map_err(|e| e.to_string())?;
        let unknown = || format!("no price is known for a transfer from {} to {}", tariff.region, self.to);
        let meter = meter.ok_or_else(unknown)?;
        Ok(Meter { measure: Measure::CrossRegion, item: item.into(), ..meter })
    }

    /// Returns the usage of the replica: the storage and the writes of the bucket, without its reads.
    fn usage(&self, usage: &Usage) -> Usage {
        let mut calls = Calls::default();
        // An object that was written in parts is completed once.
        calls.set(
            Call::PutObject,
            usage.calls.get(Call::PutObject) + usage.calls.get(Call::CompleteMultipartUpload),
        );
        Usage {
            calls,
            downloaded: 0,
            copied: 0,
            egress: Egress::Stated(0),
            cross_zone: 0,
            cross_region: usage.uploaded,
            instances: Vec::new(),
            functions: Default::default(),
            ..usage.clone()
        }
    }
}

impl Addition for Replication<'_> {
    fn flag(&self) -> String {
        format!("--replicate-to {}", self.to)
    }

    /// Adds the lines of the replica to the bill of a bucket.
    fn add(&self, to: &mut Bill, tariff: &Tariff, usage: &Usage) -> Result<(), String> {
        if tariff.region == self.to {
            return Err(format!("the bucket itself is in {}", self.to));
        }
        let mut replica =
            self.prices.tariff(&tariff.offer, Some(self.to), self.date).map_err(|e| e.to_string())?;
        let kept = |measure| !matches!(measure, Measure::CrossRegion | Measure::CrossZone | Measure::Egress);
        replica.meters.retain(|meter| kept(meter.measure));
        replica.meters.push(self.transfer(tariff, &format!("AWS-Out-Bytes {}", self.to), "transfer")?);
        if self.in_time {
            replica.meters.push(self.transfer(tariff, "S3RTC-Out-Bytes", "replication time control")?);
        }
        let found = bill(&replica, &self.usage(usage)).map_err(|e| e.to_string())?;
        add_bill(to, found, &format!("replica in {}", self.to));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::parse;

    #[test]
    fn a_replica_is_transferred_written_and_stored() {
        let prices = Prices::built_in().unwrap();
        let date = "2026-11-21".parse().unwrap();
        let usage =
            parse("storage='1000 GiB'\nput='1M'\nobject_size='1 MiB'\nget='5M'\negress='0 B'").unwrap();
        let usage = usage.resolve().unwrap().usage;
        let added = |offer: &str, to: &str, in_time: bool| {
            let tariff = prices.tariff(offer, Some("us-east-1"), date).unwrap();
            let mut found = bill(&tariff, &usage).unwrap();
            let (before, lines) = (found.total_usd, found.lines.len());
            let replication = Replication { to, in_time, prices: &prices, date };
            replication.add(&mut found, &tariff, &usage)?;
            let items: Vec<String> = found.lines[lines..].iter().map(|line| line.item.clone()).collect();
            Ok::<_, String>(((found.total_usd - before).dollars(), items))
        };
        // 1,000 GiB at $0.023, a million PUTs at $5, and 976.5625 GiB at $0.02.
        let (cost, items) = added("aws-s3", "us-west-2", false).unwrap();
        assert!((cost - (23.0 + 5.0 + 976.5625 * 0.02)).abs() < 1e-9, "{cost}");
        assert_eq!(items[0], "replica in us-west-2: storage");
        let (cost, _) = added("aws-s3-standard-ia", "us-west-2", true).unwrap();
        assert!((cost - (12.5 + 10.0 + 976.5625 * 0.035)).abs() < 1e-9, "{cost}");
        for (offer, to) in [("aws-s3", "us-east-1"), ("aws-s3", "moon-1"), ("aws-s3-express", "us-west-2")] {
            assert!(added(offer, to, false).is_err(), "{offer} {to}");
        }
    }
}
