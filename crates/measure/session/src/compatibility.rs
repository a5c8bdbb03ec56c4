//! Checks an experiment against its stores: rejects what a store does not support, and notes what differs there.

use super::error::RunError;
use super::open::Opened;
use plimsoll_base::provider::{self, ListPrefix, rules};
use plimsoll_base::units::format_size;
use plimsoll_engine::store::Store;
use plimsoll_experiment::Experiment;
use plimsoll_s3::url::web::as_bucket;
use plimsoll_workload::OperationKind;
use plimsoll_workload::schedule::{Load, Phase};

/// Checks every phase against every store and returns notes for the user. Removes points of a sweep that a store does
/// not support.
///
/// # Errors
/// [`RunError::Input`] with the reason if a store does not support a phase, or if no point of the sweep is left.
pub fn check_compatibility(experiment: &mut Experiment, opened: &[Opened]) -> Result<Vec<String>, RunError> {
    let mut notes = Vec::new();
    let mut refused = Vec::new();
    for store in opened {
        for phase in &experiment.phases {
            let written = store.written.trim_end_matches(':');
            let place = |text: String| format!("phase '{}' on {written}: {text}", phase.name);
            match refusals(phase, store.store.as_ref()) {
                Ok(()) => {}
                Err(reason) if phase.sweep.is_some() => {
                    refused.push(phase.name.clone());
                    let note = format!("a point of the sweep is omitted on {written}: {reason}");
                    if !notes.contains(&note) {
                        notes.push(note);
                    }
                    continue;
                }
                Err(reason) => {
                    let bucket = as_bucket(&store.written).filter(|_| !store.store.capabilities().writes);
                    let meant =
                        bucket.map_or(String::new(), |url| format!("; for an S3 server, use '{url}'"));
                    return Err(RunError::input(format!("{}{meant}", place(reason))));
                }
            }
            notes.extend(remarks(phase, store.store.as_ref()).into_iter().map(place));
        }
    }
    experiment.phases.retain(|phase| !refused.contains(&phase.name));
    if experiment.phases.is_empty() {
        return Err(RunError::input(format!(
            "the stores support no point of the sweep: {}",
            notes.join("; ")
        )));
    }
    Ok(notes)
}

/// Returns the weight of a kind of operation in the mix of a phase.
fn share(phase: &Phase, kind: OperationKind) -> u32 {
    phase.workload.mix.share(kind)
}

/// Fails with the first feature that the phase needs and the store does not support.
fn refusals(phase: &Phase, store: &dyn Store) -> Result<(), String> {
    use OperationKind::{CompareAndSwap, Copy, Delete, GetRange, List, Put, ReadModifyWrite, Scan, Update};
    let can = store.capabilities();
    let swaps = share(phase, CompareAndSwap) > 0;
    let puts = swaps || share(phase, Put) + share(phase, Update) + share(phase, ReadModifyWrite) > 0;
    let writes = puts || share(phase, Delete) + share(phase, Copy) > 0;
    if writes && !can.writes {
        let text = "the store is read-only; \
                    use an experiment that only reads (`plimsoll run get`), and --keys FILE";
        return Err(text.into());
    }
    if share(phase, List) > 0 && !can.lists {
        return Err("the store cannot list objects; remove list from operations".into());
    }
    if share(phase, Scan) > 0 && !can.start_after {
        return Err("the store cannot start a listing at a key; remove scan from operations".into());
    }
    if swaps && !can.conditions {
        return Err("the store has no conditional writes; remove compare_and_swap from operations".into());
    }
    if share(phase, Copy) > 0 && !can.copies {
        return Err("the store cannot copy objects; remove copy from operations".into());
    }
    if share(phase, GetRange) > 0 && !can.ranges {
        return Err("the store reads whole objects only; use get instead of get_range".into());
    }
    if puts {
        let written = &phase.workload.written;
        let (largest, part_size) = (written.size.largest(), written.upload.part_size);
        if let Some(most) = can.max_object_bytes.filter(|most| largest > *most) {
            let (largest, most) = (format_size(largest), format_size(most));
            return Err(format!(
                "objects of {largest} are too large: the store allows at most {most}; lower objects.size"
            ));
        }
        if part_size > 0 && largest > part_size && !can.multipart {
            return Err("the store does not support multipart uploads; remove objects.part_size".into());
        }
        let generic = provider::load("generic").map_err(|e| e.to_string())?;
        let profile = store.profile().unwrap_or(&generic);
        if can.max_object_bytes.is_none() {
            rules::fits(profile, largest, part_size)?;
        }
        let checksum = written.upload.checksum.as_deref().filter(|name| *name != "auto");
        if let (Some(name), Some(profile)) = (checksum, store.profile())
            && !profile.takes(name)
        {
            return Err(format!(
                "the store does not support the checksum {name}; set objects.checksum to auto, {}",
                profile.checksums.join(", ")
            ));
        }
    }
    let existing = phase.workload.read.as_ref().and_then(|d| d.existing.as_ref());
    if let (Some(existing), Some(profile)) = (existing, store.profile())
        && profile.list_prefix == ListPrefix::Directory
        && !(existing.prefix().is_empty() || existing.prefix().ends_with('/'))
    {
        return Err(format!(
            "the store lists whole directories only; set objects.dataset = '{}/'",
            existing.location
        ));
    }
    Ok(())
}

/// Returns notes on what the phase does differently on this store, and on limits that it will exceed.
fn remarks(phase: &Phase, store: &dyn Store) -> Vec<String> {
    use OperationKind::{List, Put};
    let mut out = Vec::new();
    let listed = phase.workload.read.as_ref().map_or(0, |d| d.count);
    if share(phase, List) > 0 && listed > 1000 && !store.capabilities().start_after {
        out.push(
            "each listing starts at the first key, because the store cannot start a listing at a key".into(),
        );
    }
    let limit = store.profile().and_then(|p| p.limits.writes_per_key_per_s);
    if let (Some(limit), true) = (limit, share(phase, Put) > 0) {
        let (count, total) = (phase.workload.written.count, phase.workload.mix.total());
        let puts = f64::from(share(phase, Put)) / f64::from(total.max(1));
        let once = phase.limit.operations.is_some_and(|n| n as f64 * puts <= count as f64);
        let too_often = match phase.load {
            Load::Open { rate_per_s, .. } => rate_per_s * puts > limit * count as f64,
            // One connection to a fast store writes about 100 objects or 100 MB per second.
            Load::Closed { concurrency } => {
                let bytes = phase.workload.written.size.mean().max(1.0);
                concurrency as f64 * (1e8 / bytes).min(100.0) * puts > limit * count as f64
            }
        };
        if too_often && !once {
            out.push(format!(
                "the store allows {limit} writes per second and key, and the puts cycle through {count} keys; \
                 expect 429 errors unless you raise objects.count"
            ));
        }
    }
    out
}
