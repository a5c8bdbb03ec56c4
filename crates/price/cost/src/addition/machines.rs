//! Machines that run in a region of a provider, and read and write a store from there.
//!
//! In the region of the store, reads and writes are free of transfer. In another region of its provider, reads are
//! charged as a transfer from the store's region, and writes as one from the region of the machines. At another
//! provider, reads are egress of the store, and writes are egress of the machines' provider.

use jiff::civil::Date;

use super::{Addition, Extra, add_extra};
use crate::bill::{Bill, BillPart, bill};
use crate::book::Prices;
use crate::egress::Egress;
use crate::period::MONTH_HOURS;
use crate::tariff::{Measure, Meter, Tariff};
use crate::usage::Usage;

/// Network of AWS, whose transfers between regions are lines of its bills.
const AWS: &str = "aws-network";
/// Offer with the prices of transfers between regions of AWS.
const TRANSFERS: &str = "aws-s3-lines";
/// Offer with the prices of NAT gateways.
const NAT: &str = "aws-nat-gateway";

/// Parts of Google's dual-regions. Google, "Bucket locations".
const DUAL_REGIONS: [(&str, [&str; 2]); 3] = [
    ("nam4", ["us-central1", "us-east1"]),
    ("eur4", ["europe-north1", "europe-west4"]),
    ("asia1", ["asia-northeast1", "asia-northeast2"]),
];
/// Google's multi-regions, and the beginnings of the regions in them.
const MULTI_REGIONS: [(&str, &str); 3] = [("us", "us-"), ("eu", "europe-"), ("asia", "asia-")];
/// Regions in Europe that are not in Google's multi-region `eu`: London and Zurich.
const NOT_IN_EU: [&str; 2] = ["europe-west2", "europe-west6"];

/// Place of the machines that read and write the stores.
#[derive(Debug, Clone)]
pub struct Machines<'a> {
    network: String,
    region: String,
    through_nat: bool,
    prices: &'a Prices,
    date: Date,
}

/// Returns true if a location of a store contains a region.
fn contains(location: &str, region: &str) -> bool {
    let dual = DUAL_REGIONS.iter().any(|(name, parts)| *name == location && parts.contains(&region));
    let in_multi = |(name, start): &(&str, &str)| *name == location && region.starts_with(start);
    let multi = MULTI_REGIONS.iter().any(in_multi) && !(location == "eu" && NOT_IN_EU.contains(&region));
    location == region || dual || multi
}

/// Returns the part of the world within which Google's prices of transfers are valid.
fn continent(region: &str) -> &str {
    match region.split('-').next().unwrap_or(region) {
        "us" | "nam4" | "northamerica" => "northamerica",
        "eu" | "eur4" | "europe" => "europe",
        "asia1" => "asia",
        other => other,
    }
}

impl<'a> Machines<'a> {
    /// Reads a place, such as `aws@us-east-1`. With `through_nat`, the machines reach all stores through one NAT
    /// gateway.
    ///
    /// # Errors
    /// The problem, and the known places.
    pub fn parse(text: &str, through_nat: bool, prices: &'a Prices, date: Date) -> Result<Self, String> {
        let names = prices.names();
        let known: Vec<&str> = names.iter().filter_map(|name| name.strip_suffix("-network")).collect();
        let wrong = || {
            format!(
                "'{text}' is not PROVIDER@REGION, such as aws@us-east-1; providers are {}",
                known.join(", ")
            )
        };
        let (provider, region) = text.split_once('@').ok_or_else(wrong)?;
        if !known.contains(&provider) {
            return Err(wrong());
        }
        let is_several = MULTI_REGIONS.iter().any(|(name, _)| *name == region)
            || DUAL_REGIONS.iter().any(|(name, _)| *name == region);
        if is_several {
            return Err(format!("'{region}' consists of several regions; use that of the machines"));
        }
        let network = format!("{provider}-network");
        prices.tariff(&network, Some(region), date).map_err(|e| e.to_string())?;
        if through_nat && network != AWS {
            return Err("the books have prices of NAT gateways for AWS only; omit --nat-gateway".into());
        }
        Ok(Machines { network, region: region.into(), through_nat, prices, date })
    }

    /// Returns the tariffs, with those in the machines' network in the region of the machines, if the offer is sold
    /// there. Offers with a chosen region (`OFFER@REGION` in `names`) keep it.
    pub fn near(&self, tariffs: Vec<Tariff>, names: &[String]) -> Vec<Tariff> {
        let chosen = |t: &Tariff| names.iter().any(|name| *name == format!("{}@{}", t.offer, t.region));
        let moved = |t: Tariff| {
            if !self.is_at(&t) || chosen(&t) || contains(&t.region, &self.region) {
                return t;
            }
            self.prices.tariff(&t.offer, Some(&self.region), self.date).unwrap_or(t)
        };
        tariffs.into_iter().map(moved).collect()
    }

    /// Returns the usage of a store that only these machines read.
    fn usage(&self, tariff: &Tariff, usage: &Usage) -> Usage {
        let leaves = if self.is_at(tariff) { 0 } else { usage.downloaded };
        Usage { egress: Egress::Stated(leaves), ..usage.clone() }
    }

    /// Returns true if the machines are in the network of a store.
    fn is_at(&self, tariff: &Tariff) -> bool {
        tariff.network.as_deref() == Some(&self.network)
    }

    /// Returns the meter of a transfer between two regions of the machines' provider.
    fn transfer(&self, from: &str, to: &str) -> Result<Meter, String> {
        let found = if self.network == AWS {
            let line = format!("AWS-Out-Bytes {to}");
            self.prices.line(TRANSFERS, from, &line, self.date).map_err(|e| e.to_string())?
        } else if continent(from) == continent(to) {
            let tariff = self.prices.tariff(&self.network, Some(from), self.date);
            tariff.map_err(|e| e.to_string())?.meter(Measure::CrossRegion).cloned()
        } else {
            None
        };
        found.ok_or_else(|| format!("no price is known for a transfer from {from} to {to}"))
    }

    /// Adds the transfers between the machines and a store in another region of their provider.
    fn add_transfers(&self, to: &mut Bill, tariff: &Tariff, usage: &Usage) -> Result<(), String> {
        let (store, own) = (tariff.region.as_str(), self.region.as_str());
        for (bytes, from, into, what) in
            [(usage.downloaded, store, own, "reads"), (usage.uploaded, own, store, "writes")]
        {
            if bytes > 0 {
                let meter = Meter { item: "transfer".into(), ..self.transfer(from, into)? };
                let prefix = &*format!("{what} from {from} to {into}");
                add_extra(to, Extra { meter, quantity: bytes, part: BillPart::Data, prefix }, usage)?;
            }
        }
        Ok(())
    }

    /// Adds the egress of what the machines write to a store of another provider.
    fn add_egress(&self, to: &mut Bill, usage: &Usage) -> Result<(), String> {
        let tariff = self.prices.tariff(&self.network, Some(&self.region), self.date);
        let tariff = tariff.map_err(|e| e.to_string())?;
        let Some(meter) = tariff.meter(Measure::Egress) else {
            return Err(format!("no price is known for egress from {}", self.region));
        };
        let (meter, prefix) = (meter.clone(), &*format!("writes from {}", self.region));
        add_extra(to, Extra { meter, quantity: usage.uploaded, part: BillPart::Egress, prefix }, usage)
    }

    /// Adds a NAT gateway for a month, and the bytes in both directions.
    fn add_nat(&self, to: &mut Bill, usage: &Usage) -> Result<(), String> {
        let both = usage.uploaded.saturating_add(usage.downloaded);
        let prefix = &*format!("NAT gateway in {}", self.region);
        for (line, quantity, item) in
            [("NatGateway-Hours", MONTH_HOURS, "hours"), ("NatGateway-Bytes", both, "data")]
        {
            let meter = self.prices.line(NAT, &self.region, line, self.date).map_err(|e| e.to_string())?;
            let meter = meter.ok_or_else(|| format!("no price is known for {line} in {}", self.region))?;
            let meter = Meter { item: item.into(), ..meter };
            add_extra(to, Extra { meter, quantity, part: BillPart::Data, prefix }, usage)?;
        }
        Ok(())
    }
}

impl Addition for Machines<'_> {
    fn flag(&self) -> String {
        format!("--machines {}@{}", self.network.trim_end_matches("-network"), self.region)
    }

    /// Replaces the bill by one of a store that only these machines read, and adds what the way between them costs.
    fn add(&self, to: &mut Bill, tariff: &Tariff, usage: &Usage) -> Result<(), String> {
        *to = bill(tariff, &self.usage(tariff, usage)).map_err(|e| e.to_string())?;
        match (self.is_at(tariff), contains(&tariff.region, &self.region)) {
            (true, true) => {}
            (true, false) => self.add_transfers(to, tariff, usage)?,
            (false, _) => self.add_egress(to, usage)?,
        }
        if self.through_nat { self.add_nat(to, usage) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::parse;

    const DATE: &str = "2026-11-21";

    /// Returns the total of a bill less its storage and requests, and its items.
    fn way(machines: &str, nat: bool, offer: &str, region: &str) -> Result<(f64, Vec<String>), String> {
        let prices = Prices::built_in().unwrap();
        let date = DATE.parse().unwrap();
        let usage =
            parse("storage='1000 GiB'\nput='1M'\nobject_size='1 MiB'\nget='2M'\nwithout_allowances=true");
        let usage = usage.unwrap().resolve().unwrap().usage;
        let machines = Machines::parse(machines, nat, &prices, date)?;
        let tariff = prices.tariff(offer, Some(region), date).map_err(|e| e.to_string())?;
        let mut found = bill(&tariff, &usage).unwrap();
        machines.add(&mut found, &tariff, &usage)?;
        let sum: crate::money::Usd = found.lines.iter().map(|line| line.amount_usd).sum();
        assert_eq!(sum, found.total_usd);
        use crate::bill::BillPart;
        let rest = found.total_usd - found.part(BillPart::Storage) - found.part(BillPart::Requests);
        Ok((rest.dollars(), found.lines.iter().map(|line| line.item.clone()).collect()))
    }

    fn near(found: Result<(f64, Vec<String>), String>, want: f64) {
        let (cost, items) = found.unwrap();
        assert!((cost - want).abs() < 1e-9, "{cost} {want} {items:?}");
    }

    #[test]
    fn the_way_between_machines_and_a_store_is_charged_at_both_ends() {
        let (written, read) = (976.5625, 2.0 * 976.5625);
        // In the same region.
        near(way("aws@us-east-1", false, "aws-s3", "us-east-1"), 0.0);
        near(way("google@us-east1", false, "google-cloud-storage", "us-east1"), 0.0);
        // A multi-region charges Google's reads and the replication of what is written.
        near(
            way("google@us-east1", false, "google-cloud-storage-multi-region", "us"),
            (written + read) * 0.02,
        );
        // In another region of the provider: $0.02 both ways.
        near(way("aws@us-west-2", false, "aws-s3", "us-east-1"), (written + read) * 0.02);
        near(way("google@us-west1", false, "google-cloud-storage", "us-east1"), (written + read) * 0.02);
        // At R2, only AWS charges; at S3, only S3 does.
        near(way("aws@us-east-1", false, "cloudflare-r2", "auto"), written * 0.09);
        near(way("google@us-east1", false, "aws-s3", "us-east-1"), read * 0.09 + written * 0.12);
        assert!(way("google@europe-west1", false, "google-cloud-storage", "us-east1").is_err());
    }

    #[test]
    fn a_nat_gateway_charges_hours_and_bytes_in_both_directions() {
        let both = 3.0 * 976.5625;
        near(way("aws@us-east-1", true, "aws-s3", "us-east-1"), 730.0 * 0.045 + both * 0.045);
        assert!(way("aws@us-west-1", true, "aws-s3", "us-west-1").unwrap_err().contains("NatGateway"));
        assert!(way("google@us-east1", true, "aws-s3", "us-east-1").unwrap_err().contains("--nat-gateway"));
    }

    #[test]
    fn a_place_that_is_not_one_is_refused_with_the_known_ones() {
        for wrong in [
            "aws",
            "aws@",
            "google@us",
            "google@nam4",
            "aws@moon-1",
            "lambda@us-east-1",
            "@us-east-1",
            "aws-network@us-east-1",
        ] {
            assert!(way(wrong, false, "aws-s3", "us-east-1").is_err(), "{wrong}");
        }
    }
}
