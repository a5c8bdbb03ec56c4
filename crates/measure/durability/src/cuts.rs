//! All cuts of a check on a simulated disk.

use super::cut::Cut;
use super::findings::Findings;
use super::moment::{Load, Moment};
use super::simulated::{Fault, Simulation};
use super::{DurabilityError, cut_seed, process};
use plimsoll_engine::driver::Control;

impl Simulation {
    /// Executes all cuts. `progress` receives the findings after each of them. Ctrl-C ends the check
    /// after the current cut. Returns the findings, and the cuts with violations, for the proofs.
    ///
    /// # Errors
    /// As [`Simulation::cut`].
    pub fn run(
        &self,
        control: &Control,
        mut progress: impl FnMut(&Findings),
    ) -> Result<(Findings, Vec<(u64, Cut)>), DurabilityError> {
        let settings = &self.settings;
        let mut findings = Findings {
            server: self.profile.title.clone(),
            version: process::version(&self.profile),
            model: settings.model.name().into(),
            ignored_syncs: settings.ignored_syncs.clone(),
            operations: settings.operations,
            clients: settings.clients,
            seed: settings.seed,
            tags: self.target.tags,
            versions: self.target.versions.is_some(),
            syncs_whole_disk: self.syncs_whole_disk,
            ..Findings::default()
        };
        let mut violated = Vec::new();
        let numbers = match settings.only {
            Some(number) => number..number + 1,
            None => 0..settings.cuts,
        };
        for number in numbers {
            if control.stopped_at().is_some() || (settings.until_violation && !findings.is_durable()) {
                break;
            }
            let seed = cut_seed(settings.seed, number);
            let moment = Moment::draw(seed, settings.operations, settings.fault.is_some());
            let cut = self.cut(Load::Clients(seed), moment)?;
            findings.cuts += 1;
            findings.cuts_during_start += u64::from(cut.again);
            findings.flipped.0 += u64::from(cut.flipped.is_some());
            let tolerant = settings.fault == Some(Fault::BitFlip);
            if findings.add_cut(number, &cut.events, &cut.audit, tolerant) {
                violated.push((number, cut));
            }
            progress(&findings);
        }
        Ok((findings, violated))
    }
}
