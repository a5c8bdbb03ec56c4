//! Sensitivity of the recommendation to the assumptions about the workload.

use serde::Serialize;

use super::{Candidate, totals};
use plimsoll_base::provider::calls::Call;
use plimsoll_cost::egress::Egress;
use plimsoll_cost::money::Usd;
use plimsoll_cost::usage::Usage;

/// Maximum factor by which an assumption is multiplied or divided.
const MAX_FACTOR: f64 = 1000.0;
/// Number of factors that are tried up to [`MAX_FACTOR`], spaced evenly on a logarithmic scale.
const STEPS: usize = 240;

/// An assumption about the workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Assumption {
    /// Number of bytes stored.
    Storage,
    /// Bytes of egress to the internet.
    Egress,
    /// Share of the bytes read that is egress at providers that sell compute, if the workload does not state its
    /// egress.
    Leaving,
    /// Number of objects read; their bytes change in proportion.
    Reads,
    /// Number of objects written; their bytes change in proportion.
    Writes,
    /// Size of the objects that are read and written. Egress changes in proportion; the number of objects and the bytes
    /// stored do not change.
    ObjectSize,
}

impl Assumption {
    /// All assumptions, in the order of the table.
    pub const ALL: [Assumption; 6] = [
        Assumption::Storage,
        Assumption::Egress,
        Assumption::Leaving,
        Assumption::Reads,
        Assumption::Writes,
        Assumption::ObjectSize,
    ];

    /// Returns the name used in tables.
    pub fn name(self) -> &'static str {
        match self {
            Assumption::Storage => "storage",
            Assumption::Egress => "egress",
            Assumption::Leaving => "share of reads that is egress, at providers with compute",
            Assumption::Reads => "objects read",
            Assumption::Writes => "objects written",
            Assumption::ObjectSize => "object size (same storage)",
        }
    }

    /// Returns the usage with this assumption multiplied by `factor`. For [`Assumption::Leaving`], `factor` is the
    /// new share.
    pub fn times(self, usage: &Usage, factor: f64) -> Usage {
        let of = |n: u64| (n as f64 * factor).round().clamp(0.0, 4e18) as u64;
        let mut out = usage.clone();
        match self {
            Assumption::Storage => {
                (out.stored, out.stored_peak) = (of(usage.stored), of(usage.stored_peak));
                out.arriving = usage.arriving.map(of);
            }
            Assumption::Egress => {
                if let Egress::Stated(bytes) = usage.egress {
                    out.egress = Egress::Stated(of(bytes));
                    out.downloaded = usage.downloaded.max(of(bytes));
                }
            }
            Assumption::Leaving => {
                if let Egress::Unstated { .. } = usage.egress {
                    out.egress = Egress::Unstated { from_compute: of(usage.downloaded) };
                }
            }
            Assumption::Reads => {
                out.calls.set(Call::GetObject, of(usage.calls.get(Call::GetObject)));
                (out.downloaded, out.egress) = (of(usage.downloaded), usage.egress.map(of));
            }
            Assumption::Writes => {
                for call in [
                    Call::PutObject,
                    Call::CreateMultipartUpload,
                    Call::UploadPart,
                    Call::CompleteMultipartUpload,
                ] {
                    out.calls.set(call, of(usage.calls.get(call)));
                }
                out.uploaded = of(usage.uploaded);
            }
            Assumption::ObjectSize => {
                out.object_bytes = of(usage.object_bytes).max(u64::from(usage.object_bytes > 0));
                (out.uploaded, out.downloaded, out.egress) =
                    (of(usage.uploaded), of(usage.downloaded), usage.egress.map(of));
                out.copied = of(usage.copied);
            }
        }
        out
    }
}

/// A change of an assumption, and the recommendation that follows from it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AssumptionChange {
    /// Assumption that is varied.
    pub assumption: Assumption,
    /// Factor closest to 1 that changes the recommendation, accurate to three digits; `None` if no factor up to a
    /// thousand does. For [`Assumption::Leaving`], the smallest share (0 to 1) that does; `None` if no
    /// share does.
    pub factor: Option<f64>,
    /// True if the assumption is increased, false if it is decreased.
    pub up: bool,
    /// Index of the candidate that becomes the cheapest; `None` if the recommendation does not change.
    pub to: Option<usize>,
    /// Total bill of that candidate after the change; `None` if the recommendation does not change.
    pub total_usd: Option<Usd>,
}

fn cheapest(totals: &[Option<Usd>], preferred: usize) -> usize {
    let order = |at: &usize| (totals[*at].is_none(), totals[*at], *at != preferred);
    (0..totals.len()).min_by_key(order).unwrap_or(preferred)
}

/// Returns, for each assumption and direction, the smallest change that makes another candidate the cheapest.
pub fn changes(candidates: &[&Candidate], usage: &Usage) -> Vec<AssumptionChange> {
    let now = cheapest(&totals(candidates, usage), 0);
    let mut out = Vec::new();
    for assumption in Assumption::ALL {
        // Skip assumptions that the workload does not use.
        if assumption.times(usage, 2.0) == *usage {
            continue;
        }
        let share = assumption == Assumption::Leaving;
        for up in if share { &[true][..] } else { &[true, false] }.iter().copied() {
            let factor = |step: f64| {
                if share {
                    return step / STEPS as f64;
                }
                let power = MAX_FACTOR.powf(step / STEPS as f64);
                if up { power } else { 1.0 / power }
            };
            let at = |step: f64| cheapest(&totals(candidates, &assumption.times(usage, factor(step))), now);
            let change = (1..=STEPS).map(|s| s as f64).find(|step| at(*step) != now).map(|found| {
                let (mut below, mut above) = (found - 1.0, found);
                for _ in 0..20 {
                    let middle = f64::midpoint(below, above);
                    if at(middle) == now { below = middle } else { above = middle }
                }
                above
            });
            let to = change.map(at);
            let total_usd =
                change.and_then(|step| totals(candidates, &assumption.times(usage, factor(step)))[at(step)]);
            out.push(AssumptionChange { assumption, factor: change.map(factor), up, to, total_usd });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::tests::candidates;
    use plimsoll_judge::summary::objective_result::ObjectiveResult;

    #[test]
    fn the_factor_is_at_the_crossing_of_the_bills() {
        // Monthly cost of 1 TB: 21.42 at S3 plus 0.4 per million reads; 14.85 at R2 plus 0.36 per million reads
        // above ten million; 6.88 at B2, reads free.
        let (all, usage) = candidates(
            "storage='1 TB'\nget='1M'\nobject_size='1KiB'\negress='100%'",
            &[("backblaze-b2", 1.0, ObjectiveResult::Pass), ("cloudflare-r2", 1.0, ObjectiveResult::Pass)],
        );
        let found = changes(&all.iter().collect::<Vec<_>>(), &usage);
        let egress = found.iter().find(|c| c.assumption == Assumption::Egress && c.up).unwrap();
        // B2 includes 3 TB of egress and then charges 0.01 per GB. R2 costs 7.96 more, so the bills cross at 3,796.5
        // GB. 1.024 GB x 1000 is less than that.
        assert_eq!(egress.factor, None);
        // No egress is stated, so S3 Express is charged for none and is 289.67 cheaper than R2, whose egress is
        // free. The bills cross if 289.67 / 0.09 GiB plus the free 100 GiB, of 61,035.16 GiB read, are egress.
        let (all, nothing) = candidates(
            "storage='1 GiB'\nget='1000M'\nobject_size='64KiB'",
            &[("aws-s3-express", 1.0, ObjectiveResult::Pass), ("cloudflare-r2", 1.0, ObjectiveResult::Pass)],
        );
        let found = changes(&all.iter().collect::<Vec<_>>(), &nothing);
        let leaving = found.iter().find(|c| c.assumption == Assumption::Leaving).unwrap();
        assert!((leaving.factor.unwrap() - 0.054371).abs() < 1e-5 && leaving.to == Some(1), "{leaving:?}");
        assert!(found.iter().all(|c| c.assumption != Assumption::Egress));
        let (all, usage) = candidates(
            "storage='1 TB'\nread='1 TB'\negress='1 TB'",
            &[("backblaze-b2", 1.0, ObjectiveResult::Pass), ("cloudflare-r2", 1.0, ObjectiveResult::Pass)],
        );
        let found = changes(&all.iter().collect::<Vec<_>>(), &usage);
        let egress = found.iter().find(|c| c.assumption == Assumption::Egress && c.up).unwrap();
        assert!((egress.factor.unwrap() - 3.7965).abs() < 0.001, "{egress:?}");
        assert_eq!(egress.to, Some(1));
        assert!(found.iter().all(|c| c.assumption != Assumption::Writes), "nothing is written");
    }
}
