//! The state of a standby: what its copy of the catalog of another gateway has.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::ambient::{pause, steady_ms};

/// The gateway that leads the catalog, as a standby sees it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Leader {
    /// The place has no journal: no gateway with a lease has used it.
    #[default]
    Unknown,
    /// It leads, or its lease has not ended.
    Leads,
    /// It does not lead any more.
    Gone,
}

/// State of a standby.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
pub struct FollowState {
    /// URL of the place.
    pub of: String,
    /// Gateway that leads.
    pub leader: Leader,
    /// Time of the newest write in the copy, in Unix milliseconds; `None` if it has none.
    pub newest_ms: Option<u64>,
    /// Time since the copy had everything that was in the place, in seconds.
    pub lag_seconds: f64,
    /// Last problem; `None` if the last look has succeeded.
    pub problem: Option<String>,
    /// True if this gateway begins to lead as soon as it can.
    pub is_promoted: bool,
}

/// State of a standby that its threads share.
#[derive(Debug, Default)]
pub struct Following {
    shared: Mutex<Shared>,
    changed: Condvar,
    promoted: Notify,
}

#[derive(Debug, Default)]
struct Shared {
    state: FollowState,
    /// Time at which the last complete look began, in milliseconds since the start of the machine.
    complete_ms: u64,
    /// Number of commands that wait for the result of a promotion.
    waiting: usize,
    /// Number of promotions.
    promotions: u64,
}

impl Following {
    /// Creates the state of a standby of the place with a URL.
    pub fn new(url: &str) -> Arc<Following> {
        let following = Following::default();
        following.change(|shared| {
            shared.state.of = url.into();
            // Until the first complete look, the lag counts from the start: zero would mean that the copy is complete.
            shared.complete_ms = steady_ms();
        });
        Arc::new(following)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Shared) -> T) -> T {
        let changed = change(&mut self.shared.lock().unwrap_or_else(PoisonError::into_inner));
        // All: commands wait for a leader, and the end of the process waits for the commands.
        self.changed.notify_all();
        changed
    }

    /// Returns the state.
    pub fn state(&self) -> FollowState {
        self.change(|shared| FollowState {
            lag_seconds: steady_ms().saturating_sub(shared.complete_ms) as f64 / 1000.0,
            ..shared.state.clone()
        })
    }

    /// Records what a complete look has found that began at `began_ms`, in milliseconds since the start of the machine.
    /// Returns the number of promotions so far.
    pub fn found(&self, began_ms: u64, leader: Leader, newest_ms: Option<u64>) -> u64 {
        self.change(|shared| {
            // The begin of the look, not its end: what was written meanwhile may be missing in the copy.
            shared.complete_ms = began_ms;
            (shared.state.leader, shared.state.newest_ms, shared.state.problem) = (leader, newest_ms, None);
            shared.promotions
        })
    }

    /// Records why a look has failed. Returns true if this is new.
    pub fn fail(&self, problem: String) -> bool {
        self.change(|shared| shared.state.problem.replace(problem.clone()) != Some(problem))
    }

    /// Lets this gateway lead as soon as it can, and waits until it can. Returns the time of the newest write in the
    /// copy, in Unix milliseconds.
    ///
    /// # Errors
    /// Says why it cannot lead, or cannot know it.
    pub fn promote(&self) -> Result<Option<u64>, String> {
        /// Time for which the result is waited for. A lease has at most ten minutes.
        const PATIENCE: Duration = Duration::from_secs(660);
        self.change(|shared| {
            shared.state.is_promoted = true;
            // In the same step: this process executes itself again to lead, and must first wait for the command.
            shared.waiting += 1;
            // A number and no flag: each command asks the gateway that leads once (`step` in backup/journal/follow.rs).
            shared.promotions += 1;
        });
        // If the worker does not pause now, its next pause ends at once: a promotion during a look is not delayed.
        self.promoted.notify_one();
        let shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        // Without a problem, `Unknown` is a result: the place has no journal. With one, another look follows.
        let is_open = |shared: &mut Shared| {
            shared.state.leader == Leader::Leads
                || shared.state.leader == Leader::Unknown && shared.state.problem.is_some()
        };
        let waited = self.changed.wait_timeout_while(shared, PATIENCE, |shared| is_open(shared));
        let (shared, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let (leader, problem) = (shared.state.leader, shared.state.problem.clone());
        let newest_ms = shared.state.newest_ms;
        drop(shared);
        match leader {
            Leader::Gone => return Ok(newest_ms),
            Leader::Unknown => self.change(|shared| shared.state.is_promoted = false),
            Leader::Leads => {}
        }
        Err(match (leader, problem) {
            (_, Some(problem)) => format!("the place does not answer: {problem}"),
            (Leader::Unknown, None) => {
                "no gateway with a lease has written to the place; start one without --follow".into()
            }
            _ => "the gateway that leads goes on although it was asked to end; stop it".into(),
        })
    }

    /// Waits for a time, or until this gateway is promoted.
    pub async fn pause(&self, ms: u64) {
        tokio::select! {
            () = pause(ms) => {}
            () = self.promoted.notified() => {}
        }
    }

    /// Returns true if a command waits for the result of a promotion.
    pub fn is_awaited(&self) -> bool {
        self.change(|shared| shared.waiting > 0)
    }

    /// Records that a command has told the result of a promotion.
    pub fn has_told(&self) {
        // Saturating: the server calls this also for a command that was refused before it was counted.
        self.change(|shared| shared.waiting = shared.waiting.saturating_sub(1));
    }

    /// Waits until all commands have told the result of a promotion, at most for a time.
    pub fn wait_until_told(&self, most: Duration) {
        let shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.changed.wait_timeout_while(shared, most, |shared| shared.waiting > 0));
    }
}
