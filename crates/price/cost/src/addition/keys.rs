//! Encryption of objects under a key of AWS KMS (SSE-KMS).
//!
//! S3 calls KMS for each object that it writes or reads. A part, and the completion of an upload in parts, need the key
//! too (S3 User Guide, "Multipart upload API and permissions"); a copy needs it for the source and for the destination.
//! With S3 Bucket Keys, up to 99% fewer calls are made.

use jiff::civil::Date;

use super::{Addition, Extra, add_extra};
use crate::bill::{Bill, BillPart};
use crate::book::Prices;
use crate::tariff::{Meter, Tariff};
use crate::usage::Usage;
use plimsoll_base::provider::calls::Call;

/// Offer with the prices of keys.
const KEYS: &str = "aws-kms";
/// Provider whose stores use them.
const PROVIDER: &str = "aws-s3";

/// Encryption of all objects under one key.
#[derive(Debug, Clone, Copy)]
pub struct KeyEncryption<'a> {
    /// Price books with the prices of keys.
    pub prices: &'a Prices,
    /// Date of the prices.
    pub date: Date,
}

/// Returns true if the store calls KMS for objects that are encrypted under a key.
pub fn applies(tariff: &Tariff) -> bool {
    tariff.provider.as_deref() == Some(PROVIDER)
}

/// Returns the number of calls to KMS.
fn calls_of(usage: &Usage) -> u64 {
    let once = [
        Call::PutObject,
        Call::GetObject,
        Call::CreateMultipartUpload,
        Call::UploadPart,
        Call::CompleteMultipartUpload,
    ];
    let calls = once.iter().map(|call| usage.calls.get(*call)).fold(0u64, u64::saturating_add);
    calls.saturating_add(usage.calls.get(Call::CopyObject).saturating_mul(2))
}

impl Addition for KeyEncryption<'_> {
    fn flag(&self) -> String {
        "--sse-kms".into()
    }

    /// Adds one key and the calls to it. Stores of other providers encrypt objects under keys of their own.
    fn add(&self, to: &mut Bill, tariff: &Tariff, usage: &Usage) -> Result<(), String> {
        if !applies(tariff) {
            return Ok(());
        }
        for (line, quantity, item) in [("KMS-Keys", 1, "keys"), ("KMS-Requests", calls_of(usage), "requests")]
        {
            let meter = self.prices.line(KEYS, &tariff.region, line, self.date).map_err(|e| e.to_string())?;
            let meter = meter.ok_or_else(|| format!("no price is known for {line} in {}", tariff.region))?;
            let meter = Meter { item: item.into(), ..meter };
            add_extra(to, Extra { meter, quantity, part: BillPart::Requests, prefix: "KMS" }, usage)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bill::bill;
    use crate::workload::parse;

    #[test]
    fn every_object_and_part_calls_the_key_and_a_copy_calls_it_twice() {
        let prices = Prices::built_in().unwrap();
        let date = "2026-11-21".parse().unwrap();
        let usage = parse(
            "storage='1 TiB'\nput='1M'\npart_size='8 MiB'\nobject_size='16 MiB'\nget='3M'\ncopy='1M'\negress='0 B'",
        );
        let usage = usage.unwrap().resolve().unwrap().usage;
        let added = |offer: &str| {
            let tariff = prices.tariff(offer, Some("us-east-1"), date).unwrap();
            let mut found = bill(&tariff, &usage).unwrap();
            let before = found.total_usd;
            KeyEncryption { prices: &prices, date }.add(&mut found, &tariff, &usage).unwrap();
            (found.total_usd - before).dollars()
        };
        // A key, and 4 million for the writes, 3 for the reads, 2 for the copies, less 20,000 free calls.
        assert!((added("aws-s3") - (1.0 + (9_000_000.0 - 20_000.0) * 0.000003)).abs() < 1e-9);
        assert_eq!(added("aws-s3-express"), 0.0);
    }
}
