//! One cut: the clients work, the power fails, the disk keeps what its rules allow, and everything is read back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::DurabilityError;
use super::audit::{Audit, audit};
use super::history::Event;
use super::moment::{Load, Moment};
use super::process::ServerProcess;
use super::simulated::{Fault, Simulation};
use super::work::{Power, replay, work};
use plimsoll_base::clock::now_ns;
use plimsoll_disk::draws::Draws;
use plimsoll_disk::mount::SharedDisk;
use plimsoll_disk::rules::Fate;
use plimsoll_disk::{Disk, DiskFaults};
use plimsoll_session::runtime::block_on;

/// Power of a simulated machine: it fails at an acknowledgement, or a few steps of the disk later.
struct Switch<'a> {
    disk: &'a SharedDisk,
    /// Number of the acknowledgement.
    at: u64,
    /// Number of the disk's steps after it; 0 for none.
    steps: u64,
    /// Number of the acknowledgement after which the disk writes everything back; `None` for never.
    written_back: Option<u64>,
    /// Time at which the power failed.
    failed_ns: Mutex<Option<u64>>,
}

impl Power for Switch<'_> {
    fn acknowledged(&self, count: u64) {
        if self.written_back == Some(count) {
            self.disk.lock().write_back();
        }
        if count != self.at {
            return;
        }
        let mut failed = self.failed_ns.lock().unwrap_or_else(PoisonError::into_inner);
        *failed = Some(now_ns());
        if self.steps == 0 {
            self.disk.fail_power();
        } else {
            let mut disk = self.disk.lock();
            let step = disk.steps() + self.steps;
            disk.fail_power_at(step);
        }
    }

    fn is_off(&self) -> bool {
        !self.disk.lock().has_power()
    }
}

/// A machine whose power has failed.
pub struct Failed {
    /// Operations of the clients with their answers.
    events: Vec<Event>,
    /// Time of the cut on the monotonic clock.
    cut_ns: u64,
    /// Disk with what is synced and what is not.
    disk: Disk,
}

impl Failed {
    /// Returns true if the last operation had no answer.
    pub fn is_interrupted(&self) -> bool {
        self.events.last().is_some_and(|event| event.acknowledged_ns.is_none())
    }

    /// Describes the changes that were not synced and that the cut lost.
    pub fn describe_lost(&self, cut: &Cut) -> Vec<String> {
        self.disk.describe_all(&cut.lost)
    }
}

/// State of a machine after a cut.
pub struct Cut {
    /// Operations of the clients with their answers.
    pub events: Vec<Event>,
    /// True if the power failed again while the server started.
    pub again: bool,
    /// Fate of what was not synced.
    pub fate: Fate,
    /// Positions of the changes that got lost; empty for a flipped bit.
    lost: Vec<usize>,
    /// Result of the audit; an error with the server's last words if it did not start.
    pub audit: Result<Audit, String>,
    /// Place of a flipped bit; `None` if none was.
    pub flipped: Option<String>,
}

impl Simulation {
    /// Executes one cut.
    ///
    /// # Errors
    /// [`DurabilityError::System`] if the disk cannot be mounted, [`DurabilityError::Server`] if the server does not
    /// start on the prepared disk.
    pub fn cut(&self, load: Load<'_>, moment: Moment) -> Result<Cut, DurabilityError> {
        let failed = self.until_cut(load, moment)?;
        self.after_cut(&failed, moment)
    }

    /// Starts the server on the prepared disk, and lets clients work until the power fails.
    ///
    /// # Errors
    /// As [`Simulation::cut`].
    pub fn until_cut(&self, load: Load<'_>, moment: Moment) -> Result<Failed, DurabilityError> {
        let mounted = self.mount(self.prepared.clone())?;
        let mut server = self.start(&mounted)?;
        self.wait_for(&mut server, None).map_err(DurabilityError::Server)?;
        if block_on(self.has_lost_its_bucket())? {
            let text =
                "the server lost its bucket in a clean restart; does it keep all of its data in {dir}?";
            return Err(DurabilityError::Server(text.into()));
        }
        mounted.disk().lock().set_faults(self.faults(moment.seed));
        // Before a bit flips, the server is stopped: the power does not fail.
        let at = if self.settings.fault == Some(Fault::BitFlip) { u64::MAX } else { moment.at };
        let (steps, written_back) = (moment.steps, moment.written_back);
        let power = Switch { disk: mounted.disk(), at, steps, written_back, failed_ns: Mutex::new(None) };
        let events = self.work(load, &power, server, moment)?;
        let failed_ns = *power.failed_ns.lock().unwrap_or_else(PoisonError::into_inner);
        let cut_ns = failed_ns.unwrap_or_else(now_ns);
        let disk = mounted.unmount().map_err(|e| DurabilityError::System(e.to_string()))?;
        Ok(Failed { events, cut_ns, disk })
    }

    /// Draws what the power failure leaves, starts the server again, and reads everything.
    ///
    /// # Errors
    /// As [`Simulation::cut`].
    pub fn after_cut(&self, failed: &Failed, moment: Moment) -> Result<Cut, DurabilityError> {
        let (mut disk, lost, flipped) = match self.settings.fault {
            Some(Fault::BitFlip) => {
                let mut disk = failed.disk.shut_down();
                let flipped = disk.flip_a_bit(moment.seed, &|_| true);
                (disk, Vec::new(), flipped.map(|(path, at)| format!("{path}, byte {at}")))
            }
            _ => {
                let (disk, lost) = failed.disk.after_power_loss(moment.fate, moment.seed);
                (disk, lost, None)
            }
        };
        if let Some(steps) = moment.again {
            disk = self.fail_during_start(disk, steps, moment)?;
        }
        let audit = self.audit(disk, &failed.events, failed.cut_ns)?;
        let events = failed.events.clone();
        Ok(Cut { events, again: moment.again.is_some(), fate: moment.fate, lost, audit, flipped })
    }

    /// Lets the clients work until the power fails, and ends the server.
    fn work(
        &self,
        load: Load<'_>,
        power: &Switch<'_>,
        server: ServerProcess,
        moment: Moment,
    ) -> Result<Vec<Event>, DurabilityError> {
        let stops_cleanly = self.settings.fault == Some(Fault::BitFlip);
        let server = Mutex::new(Some(server));
        let take = || server.lock().unwrap_or_else(PoisonError::into_inner).take();
        let is_done = AtomicBool::new(false);
        let events = std::thread::scope(|scope| {
            // When the power fails, the server ends, and with it all requests that are not answered yet.
            scope.spawn(|| {
                while !is_done.load(Ordering::Acquire) {
                    if power.disk.wait_for_failure(Duration::from_millis(50)) {
                        drop(take());
                        return;
                    }
                }
            });
            let most = if stops_cleanly { moment.at } else { u64::MAX };
            let events = block_on(async {
                match load {
                    Load::Clients(seed) => work(&self.target, seed, self.settings.clients, most, power).await,
                    Load::Operations(operations) => replay(&self.target, operations, power).await,
                }
            });
            is_done.store(true, Ordering::Release);
            events
        });
        match take() {
            Some(server) if stops_cleanly => server.stop(),
            // The clients gave up, or the last operation had no answer: the power fails now.
            Some(server) => {
                power.disk.fail_power();
                drop(server);
            }
            None => {}
        }
        Ok(events?)
    }

    /// Fails the power again while the server starts.
    fn fail_during_start(&self, disk: Disk, steps: u64, moment: Moment) -> Result<Disk, DurabilityError> {
        let mut disk = disk;
        disk.fail_power_at(steps);
        let mounted = self.mount(disk)?;
        let mut server = self.start(&mounted)?;
        // A server that needs fewer steps has started, and loses its power then.
        let _ = self.wait_for(&mut server, Some(mounted.disk()));
        mounted.disk().fail_power();
        drop(server);
        let disk = mounted.unmount().map_err(|e| DurabilityError::System(e.to_string()))?;
        Ok(disk.after_power_loss(moment.fate, moment.seed ^ 1).0)
    }

    /// Starts the server again and reads everything.
    fn audit(
        &self,
        disk: Disk,
        events: &[Event],
        cut_ns: u64,
    ) -> Result<Result<Audit, String>, DurabilityError> {
        let mounted = self.mount(disk)?;
        let mut server = self.start(&mounted)?;
        let started = self.wait_for(&mut server, None);
        let audited = match started {
            Ok(()) => Ok(block_on(audit(&self.target, events, cut_ns))?),
            Err(words) => Err(words),
        };
        drop(server);
        mounted.unmount().map_err(|e| DurabilityError::System(e.to_string()))?;
        Ok(audited)
    }

    fn faults(&self, seed: u64) -> DiskFaults {
        let mut draws = Draws::new(seed, "faults");
        let within = |draws: &mut Draws| draws.below(self.settings.operations * 2);
        let mut faults =
            DiskFaults { ignored_syncs: self.settings.ignored_syncs.clone(), ..DiskFaults::default() };
        match self.settings.fault {
            Some(Fault::Eio) => faults.failing_sync = Some(within(&mut draws)),
            Some(Fault::Enospc) => faults.full_after = Some(within(&mut draws)),
            Some(Fault::SlowSync) => faults.sync_takes = Duration::from_millis(5 + draws.below(100)),
            Some(Fault::BitFlip) | None => {}
        }
        faults
    }
}
