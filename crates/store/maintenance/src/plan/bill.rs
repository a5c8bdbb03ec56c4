//! The plan in dollars.

use std::collections::BTreeMap;

use plimsoll_base::provider::calls::Call;
use plimsoll_cost::charge::BillError;
use plimsoll_cost::money::Usd;
use serde::Serialize;

use super::Plan;
use plimsoll_backup::journal::price::JournalCost;
use plimsoll_bodies::pricing::{Stock, TierPrices, Work};

/// A tier of a plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TierBill {
    /// Name of the tier.
    pub tier: String,
    /// Offer of the price books; `None` if the tier has no price.
    pub offer: Option<String>,
    /// Requests of the moves by kind.
    pub requests: BTreeMap<String, u64>,
    /// Bytes of blobs written.
    pub uploaded: u64,
    /// Bytes of blobs read.
    pub downloaded: u64,
    /// Bytes among those read that leave the provider.
    pub egress: u64,
    /// Blobs before the moves.
    pub before: Stock,
    /// Blobs after the moves and the deletion of their sources.
    pub after: Stock,
    /// Cost of the requests and bytes of the moves.
    pub moves_usd: Usd,
    /// Charges for blobs that are deleted before the minimum duration of the store.
    pub early_deletion_usd: Usd,
    /// Cost of the storage in a month before the moves.
    pub month_before_usd: Usd,
    /// Cost of the storage in a month after the moves.
    pub month_after_usd: Usd,
}

/// The plan in dollars.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bill {
    /// Number of objects and versions in the store that are not empty.
    pub objects: u64,
    /// Blobs and whole pack files that move.
    pub moves: u64,
    /// Objects whose bodies move into pack files.
    pub packed: u64,
    /// Pack files that are written.
    pub pack_files: u64,
    /// Bytes of the bodies that move.
    pub bytes: u64,
    /// Tiers by name.
    pub tiers: Vec<TierBill>,
    /// Cost of the moves.
    pub now_usd: Usd,
    /// Cost of writing the small bodies that are packed, if each became a separate blob.
    pub alone_usd: Usd,
    /// Cost of the storage in a month if nothing is done.
    pub month_before_usd: Usd,
    /// Cost of the storage in a month after the moves.
    pub month_after_usd: Usd,
    /// Price of the journal by load, if the settings have one with a known price.
    pub journal: Vec<JournalCost>,
    /// Months until the moves have paid for themselves; `None` if they never do.
    pub payback_months: Option<f64>,
    /// Remarks about prices.
    pub notes: Vec<String>,
}

/// A tier and its prices.
#[derive(Debug, Clone, PartialEq)]
pub struct PricedTier {
    /// Name of the tier.
    pub name: String,
    /// Prices of the tier; `None` if it has none.
    pub prices: Option<TierPrices>,
}

fn requests(work: &Work) -> BTreeMap<String, u64> {
    let count = |call: &Call| (call.name(), work.calls.get(*call));
    Call::ALL.iter().map(count).filter(|(_, count)| *count > 0).collect()
}

fn tier_bill(plan: &Plan, number: u16, tier: &PricedTier) -> Result<TierBill, BillError> {
    let work = plan.work.get(&number).cloned().unwrap_or_default();
    let (before, after) = (plan.before.get(&number).copied().unwrap_or_default(), plan.after(number));
    let mut bill = TierBill {
        tier: tier.name.clone(),
        offer: None,
        requests: requests(&work),
        uploaded: work.uploaded,
        downloaded: work.downloaded,
        egress: work.egress,
        before,
        after,
        moves_usd: Usd::ZERO,
        early_deletion_usd: Usd::ZERO,
        month_before_usd: Usd::ZERO,
        month_after_usd: Usd::ZERO,
    };
    // Without prices, the amounts stay zero. `bill` adds a note, so that zero is not taken for a price.
    if let Some(TierPrices { tariff, .. }) = &tier.prices {
        bill.offer = Some(tariff.offer.clone());
        bill.moves_usd = work.cost(tariff)?;
        bill.early_deletion_usd = work.early_deletion(tariff)?;
        bill.month_before_usd = before.month(tariff)?;
        bill.month_after_usd = after.month(tariff)?;
    }
    Ok(bill)
}

/// Says what a tier keeps of deleted and replaced objects, in addition to the storage before and after the moves.
fn kept_note(tier: &PricedTier, kept: &Stock) -> Result<String, BillError> {
    let Stock { blobs, bytes } = kept;
    let name = &tier.name;
    let cost = match &tier.prices {
        None => String::new(),
        Some(prices) => format!(", ${:.2} a month", kept.month(&prices.tariff)?.dollars()),
    };
    Ok(format!("in addition, tier {name} keeps {blobs} deleted or replaced objects with {bytes} bytes{cost}"))
}

/// Computes the costs of a plan.
///
/// # Errors
/// If something has no price.
pub fn bill(plan: &Plan, tiers: &BTreeMap<u16, PricedTier>) -> Result<Bill, BillError> {
    let mut bills = Vec::new();
    let (mut notes, mut alone_usd) = (Vec::new(), Usd::ZERO);
    for (number, tier) in tiers {
        let bill = tier_bill(plan, *number, tier)?;
        match &tier.prices {
            None => notes.push(format!("tier {} has no price", tier.name)),
            Some(prices) => {
                if let Some(alone) = plan.alone.get(number) {
                    alone_usd += alone.cost(&prices.tariff)?;
                }
                notes.extend(prices.note.iter().map(|note| format!("tier {}: {note}", tier.name)));
            }
        }
        if let Some(kept) = plan.kept.get(number) {
            notes.push(kept_note(tier, kept)?);
        }
        bills.push(bill);
    }
    let sum = |of: fn(&TierBill) -> Usd| bills.iter().map(of).sum::<Usd>();
    let now_usd = sum(|tier| tier.moves_usd + tier.early_deletion_usd);
    let (month_before_usd, month_after_usd) =
        (sum(|tier| tier.month_before_usd), sum(|tier| tier.month_after_usd));
    let saving = (month_before_usd - month_after_usd).dollars();
    let payback_months = (saving > 0.0).then(|| now_usd.dollars() / saving);
    let Plan { objects, moves, packed, pack_files, bytes, .. } = *plan;
    Ok(Bill {
        objects,
        moves,
        packed,
        pack_files,
        bytes,
        tiers: bills,
        now_usd,
        alone_usd,
        month_before_usd,
        month_after_usd,
        // The price of the journal follows from the settings of the backup, which only the command has.
        journal: Vec::new(),
        payback_months,
        notes,
    })
}
