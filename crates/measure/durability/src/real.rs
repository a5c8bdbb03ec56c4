//! A real machine, whose power the user's own command cuts.

use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::DurabilityError;
use super::audit::audit;
use super::findings::Findings;
use super::history::{Action, Event, NumberedOperation};
use super::pause::{Limit, pause};
use super::work::{Always, CheckedStore, Power, replay, work};
use plimsoll_base::clock::now_ns;
use plimsoll_base::rng::Stream;
use plimsoll_engine::driver::Control;
use plimsoll_engine::driver::background::Background;
use plimsoll_engine::store::{Ignore, Request};
use plimsoll_session::runtime::block_on;

/// Interval between two attempts to reach a store that comes back.
const KNOCK: Duration = Duration::from_millis(200);

/// Settings of a check on a real machine.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Shell command that cuts the power.
    pub command: String,
    /// Number of cuts.
    pub cuts: u64,
    /// Acknowledged operations before a cut, at most.
    pub operations: u64,
    /// Number of clients.
    pub clients: u64,
    /// Seed of the operations and the cuts.
    pub seed: u64,
    /// Time that the store has to answer again.
    pub start_limit: Duration,
}

/// Power of a real machine: the command starts at an acknowledgement. Acknowledgements after its end do not count.
struct Cutter<'a> {
    command: &'a str,
    at: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    child: Option<Child>,
    started_ns: Option<u64>,
    failure: Option<String>,
    has_ended: bool,
}

impl Cutter<'_> {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self) {
        let mut state = self.state();
        if state.started_ns.is_some() {
            return;
        }
        state.started_ns = Some(now_ns());
        let mut command = Command::new("sh");
        command.args(["-c", self.command]).stdin(Stdio::null()).stdout(Stdio::null());
        match command.spawn() {
            Ok(child) => state.child = Some(child),
            Err(error) => (state.failure, state.has_ended) = (Some(error.to_string()), true),
        }
    }

    /// Notes the end of the command.
    fn ended(&self) -> bool {
        let mut state = self.state();
        match state.child.as_mut().map(Child::try_wait) {
            Some(Ok(Some(status))) => {
                state.has_ended = true;
                if !status.success() {
                    state.failure = Some(format!("it ended with {status}"));
                }
                state.child = None;
            }
            Some(Err(error)) => (state.failure, state.has_ended) = (Some(error.to_string()), true),
            Some(Ok(None)) | None => {}
        }
        state.has_ended
    }
}

impl Power for Cutter<'_> {
    fn acknowledged(&self, count: u64) {
        if count == self.at {
            self.start();
        }
    }

    fn is_off(&self) -> bool {
        self.ended()
    }
}

impl CheckedStore {
    /// Returns true if the store answers.
    async fn answers(&self) -> bool {
        let mut background = Background::new(self.store.as_ref()).with_max_timeout(Duration::from_secs(5));
        background.send(Request::CheckBucket, &mut Ignore).await.is_ok()
    }

    /// Returns true if the store keeps tags, and checks that it accepts a write.
    ///
    /// # Errors
    /// [`DurabilityError::Store`] if it does not.
    pub async fn has_tags(&self, key: &str) -> Result<bool, DurabilityError> {
        let operation = |id, action| NumberedOperation { id, key: key.into(), action, existed: id > 0 };
        let operations = [operation(0, Action::Put(8)), operation(1, Action::Tag)];
        let events = replay(self, &operations, &Always).await;
        if events.first().is_none_or(|event| event.acknowledged_ns.is_none()) {
            return Err(DurabilityError::Store("the store accepts no PUT".into()));
        }
        // A server without tags may take them for another object.
        let audit = audit(self, &events, now_ns()).await;
        Ok(audit.violations.is_empty() && self.signed.tag(&self.key(key)) == Ok(Some(1)))
    }
}

/// Executes all cuts. `progress` receives the findings after each of them.
///
/// # Errors
/// [`DurabilityError::Store`] if the store accepts no writes, [`DurabilityError::System`] if the command fails.
pub fn run(
    target: &CheckedStore,
    settings: &Settings,
    name: &str,
    control: &Control,
    mut progress: impl FnMut(&Findings),
) -> Result<Findings, DurabilityError> {
    let tags = block_on(target.has_tags("known"))??;
    let mut findings = Findings {
        server: name.into(),
        seed: settings.seed,
        operations: settings.operations,
        clients: settings.clients,
        tags,
        ..Findings::default()
    };
    for number in 0..settings.cuts {
        if control.stopped_at().is_some() {
            break;
        }
        let seed = super::cut_seed(settings.seed, number);
        let target =
            CheckedStore { tags, folder: format!("{}cut{number}/", target.folder), seed, ..target.clone() };
        let at = 1 + Stream::new(seed, "moment").below(0, settings.operations);
        let cutter = Cutter { command: &settings.command, at, state: Mutex::default() };
        let events = block_on(work(&target, seed, settings.clients, u64::MAX, &cutter))?;
        // The clients may have given up before the acknowledgement.
        cutter.start();
        let limit = Limit::new(settings.start_limit);
        let mut failed = false;
        let answers = block_on(async {
            while !cutter.ended() || !target.answers().await {
                failed |= cutter.ended();
                if limit.is_over() || control.stopped_at().is_some() {
                    return false;
                }
                pause(KNOCK).await;
            }
            true
        })?;
        if let Some(failure) = cutter.state().failure.take() {
            return Err(DurabilityError::System(format!("--cut: the command failed: {failure}")));
        }
        if control.stopped_at().is_some() {
            break;
        }
        findings.cuts += 1;
        let cut_ns = cutter.state().started_ns.unwrap_or_else(now_ns);
        let audited = match answers {
            true => Ok(block_on(audit(&target, &events, cut_ns))?),
            false => Err(format!("no answer within {} s", settings.start_limit.as_secs_f64())),
        };
        let is_unanswered = |event: &Event| event.acknowledged_ns.is_none();
        findings.answered_throughout += u64::from(!failed && !events.iter().any(is_unanswered));
        findings.add_cut(number, &events, &audited, false);
        progress(&findings);
        if !answers {
            break;
        }
    }
    Ok(findings)
}
