//! Whether an experiment fits its stores: what a store cannot do is refused, what is done differently there is said.

use super::error::RunError;
use super::open::Opened;
use crate::experiment::Experiment;
use crate::provider::{self, ListPrefix, rules};
use crate::schedule::{Load, Phase};
use crate::store::Store;
use crate::units::format_size;
use crate::workload::OperationKind;

/// Holds every phase against every store, and returns what is to be said. Points of a sweep that a store refuses are taken out.
///
/// # Errors
/// 2 with the first phase that a store cannot carry out, and why.
pub fn check_compatibility(experiment: &mut Experiment, opened: &[Opened]) -> Result<Vec<String>, RunError> {
    let mut notes = Vec::new();
    let mut refused = Vec::new();
    for store in opened {
        for phase in &experiment.phases {
            let place = |what: String| format!("phase '{}' on {}: {what}", phase.name, store.written);
            match refusals(phase, store.store.as_ref()) {
                Ok(()) => {}
                Err(what) if phase.sweep_of.is_some() => {
                    refused.push(phase.name.clone());
                    let note = format!("left out of the sweep on {}: {what}", store.written);
                    if !notes.contains(&note) {
                        notes.push(note);
                    }
                    continue;
                }
                Err(what) => return Err(RunError::input(place(what))),
            }
            notes.extend(remarks(phase, store.store.as_ref()).into_iter().map(place));
        }
    }
    experiment.phases.retain(|phase| !refused.contains(&phase.name));
    if experiment.phases.is_empty() {
        return Err(RunError::input(format!("no point of the sweep is left: {}", notes.join("; "))));
    }
    Ok(notes)
}

fn share(phase: &Phase, kind: OperationKind) -> u32 {
    phase.workload.mix.share(kind)
}

/// What the store cannot do at all.
fn refusals(phase: &Phase, store: &dyn Store) -> Result<(), String> {
    use OperationKind::{Delete, GetRange, List, Put, ReadModifyWrite, Scan, Update};
    let can = store.capabilities();
    let puts = share(phase, Put) + share(phase, Update) + share(phase, ReadModifyWrite) > 0;
    let writes = puts || share(phase, Delete) > 0;
    if writes && !can.writes {
        let text = "it can only be read; choose an experiment that reads (run get) and what it shall read (--keys FILE)";
        return Err(text.into());
    }
    if share(phase, List) > 0 && !can.lists {
        return Err("it has no listings; take list out of operations".into());
    }
    if share(phase, Scan) > 0 && !can.start_after {
        return Err("it does not list from a key on; take scan out of operations".into());
    }
    if share(phase, GetRange) > 0 && !can.ranges {
        return Err("it reads whole objects only; use get instead of get_range".into());
    }
    if puts {
        let written = &phase.workload.written;
        let (largest, part_size) = (written.size.largest(), written.upload.part_size);
        if let Some(most) = can.most_bytes.filter(|most| largest > *most) {
            let (largest, most) = (format_size(largest), format_size(most));
            return Err(format!("objects of {largest} are more than it holds, {most}; lower objects.size"));
        }
        if part_size > 0 && largest > part_size && !can.multipart {
            return Err("it takes no objects in parts; take objects.part_size out".into());
        }
        let generic = provider::load("generic").map_err(|e| e.to_string())?;
        let profile = store.profile().unwrap_or(&generic);
        if can.most_bytes.is_none() {
            rules::fits(profile, largest, part_size)?;
        }
        let checksum = written.upload.checksum.as_deref().filter(|name| *name != "auto");
        if let (Some(name), Some(profile)) = (checksum, store.profile())
            && !profile.takes(name)
        {
            return Err(format!(
                "it takes no {name}; objects.checksum may be auto, {}",
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
            "it lists whole directories only; write objects.dataset = '{}/'",
            existing.location
        ));
    }
    Ok(())
}

/// What is done differently there, or will run into a limit.
fn remarks(phase: &Phase, store: &dyn Store) -> Vec<String> {
    use OperationKind::{List, Put};
    let mut out = Vec::new();
    let listed = phase.workload.read.as_ref().map_or(0, |d| d.count);
    if share(phase, List) > 0 && listed > 1000 && !store.capabilities().start_after {
        out.push("listings begin at their start, because it lists in no order".into());
    }
    let limit = store.profile().and_then(|p| p.limits.writes_per_key_per_s);
    if let (Some(limit), true) = (limit, share(phase, Put) > 0) {
        let (count, total) = (phase.workload.written.count, phase.workload.mix.total());
        let puts = f64::from(share(phase, Put)) / f64::from(total.max(1));
        let once = phase.limit.operations.is_some_and(|n| n as f64 * puts <= count as f64);
        let too_often = match phase.load {
            Load::Open { rate_per_s, .. } => rate_per_s * puts > limit * count as f64,
            // A connection of a fast store puts about a hundred objects a second, or a hundred megabytes.
            Load::Closed { concurrency } => {
                let bytes = phase.workload.written.size.mean().max(1.0);
                concurrency as f64 * (1e8 / bytes).min(100.0) * puts > limit * count as f64
            }
        };
        if too_often && !once {
            out.push(format!(
                "it takes {limit} write/s per key and puts go round {count} keys; expect 429 unless there are more (objects.count)"
            ));
        }
    }
    out
}
