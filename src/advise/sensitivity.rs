//! Which assumption, moved how far, changes the answer.

use serde::Serialize;

use super::{Candidate, totals};
use crate::cost::egress::Egress;
use crate::cost::money::Usd;
use crate::cost::usage::Usage;
use crate::provider::calls::Call;

/// Furthest that an assumption is moved, up or down.
const FURTHEST: f64 = 1000.0;
/// Steps on the way.
const STEPS: usize = 240;

/// An assumption about the workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Assumption {
    /// Bytes stored.
    Storage,
    /// Bytes that leave for the internet.
    Egress,
    /// The share of what is read that leaves providers with compute, where egress is not stated.
    Leaving,
    /// Objects read, and their bytes with them.
    Reads,
    /// Objects written, and their bytes with them.
    Writes,
    /// Size of objects that are read and written, their number and what is stored being the same; what leaves goes with it.
    ObjectSize,
}

impl Assumption {
    /// All of them.
    pub const ALL: [Assumption; 6] = [
        Assumption::Storage,
        Assumption::Egress,
        Assumption::Leaving,
        Assumption::Reads,
        Assumption::Writes,
        Assumption::ObjectSize,
    ];

    /// Name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Assumption::Storage => "storage",
            Assumption::Egress => "egress",
            Assumption::Leaving => "egress from providers with compute, share of reads",
            Assumption::Reads => "objects read",
            Assumption::Writes => "objects written",
            Assumption::ObjectSize => "object size (storage as it is)",
        }
    }

    /// The usage with so many times of it; of [`Assumption::Leaving`] with such a share.
    pub fn times(self, usage: &Usage, factor: f64) -> Usage {
        let of = |n: u64| (n as f64 * factor).round().clamp(0.0, 4e18) as u64;
        let mut out = usage.clone();
        match self {
            Assumption::Storage => {
                (out.stored, out.stored_peak) = (of(usage.stored), of(usage.stored_peak));
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
            }
        }
        out
    }
}

/// A change of the answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// What is moved.
    pub assumption: Assumption,
    /// By which factor the answer changes, to three digits; none where no factor up to a thousand does. Of [`Assumption::Leaving`] it is
    /// the share from which on it changes; none where not even all of it does.
    pub factor: Option<f64>,
    /// Whether it is moved up.
    pub up: bool,
    /// Which candidate becomes the cheapest, by its place.
    pub to: Option<usize>,
    /// What that candidate asks then.
    pub total_usd: Option<Usd>,
}

fn least(totals: &[Option<Usd>], held: usize) -> usize {
    let order = |at: &usize| (totals[*at].is_none(), totals[*at], *at != held);
    (0..totals.len()).min_by_key(order).unwrap_or(held)
}

/// How far each assumption may be moved, up and down, before one of the candidates is cheaper than the one that is the cheapest now.
pub fn changes(candidates: &[&Candidate], usage: &Usage) -> Vec<Change> {
    let now = least(&totals(candidates, usage), 0);
    let mut out = Vec::new();
    for assumption in Assumption::ALL {
        // What is not there cannot be moved.
        if assumption.times(usage, 2.0) == *usage {
            continue;
        }
        let share = assumption == Assumption::Leaving;
        for up in if share { &[true][..] } else { &[true, false] }.iter().copied() {
            let factor = |step: f64| {
                if share {
                    return step / STEPS as f64;
                }
                let power = FURTHEST.powf(step / STEPS as f64);
                if up { power } else { 1.0 / power }
            };
            let at = |step: f64| least(&totals(candidates, &assumption.times(usage, factor(step))), now);
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
            out.push(Change { assumption, factor: change.map(factor), up, to, total_usd });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::tests::candidates;
    use crate::summary::objective::ObjectiveResult;

    #[test]
    fn the_factor_is_where_the_bills_cross() {
        // 1 TB at S3: 21.42 and 0.4 a million reads. At R2: 14.85 and 0.36 a million beyond ten. At B2 6.88 and nothing.
        let (all, usage) = candidates(
            "storage='1 TB'\nget='1M'\nobject_size='1KiB'\negress='100%'",
            &[("backblaze-b2", 1.0, ObjectiveResult::Pass), ("cloudflare-r2", 1.0, ObjectiveResult::Pass)],
        );
        let found = changes(&all.iter().collect::<Vec<_>>(), &usage);
        let egress = found.iter().find(|c| c.assumption == Assumption::Egress && c.up).unwrap();
        // B2 has 3 TB free and then asks 0.01 a GB; R2 asks 7.96 more to begin with: 3,796.5 GB. 1.024 GB times 1000 is too little.
        assert_eq!(egress.factor, None);
        // Nothing is stated: reads leave R2 at no charge, and stay beside S3 Express, which is 289.67 cheaper. It is not once
        // 289.67 / 0.09 and the free 100 of 61,035.16 GiB leave.
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
