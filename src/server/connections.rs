//! The open connections: what each is doing, since when, and which are closed for it.
//!
//! A connection notes its phase and the time of its last progress in one atomic word, on the ticks of a coarse clock. The
//! thread that accepts connections advances the clock, closes what has made no progress for too long, and, at the limit of
//! connections, closes the one that has been idle longest to make room for a new one. No connection has a timer.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use crate::clock::{SECOND, now_ns};

/// Length of a tick.
pub const TICK_NS: u64 = SECOND / 4;

/// How long a connection may make no progress, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Between requests, and before the first.
    pub idle_ns: u64,
    /// From the first byte of a request's head (or of a TLS handshake) to its last, however many bytes arrive.
    pub head_ns: u64,
    /// Between two bytes of a request's body or of an answer.
    pub body_ns: u64,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts { idle_ns: 60 * SECOND, head_ns: 15 * SECOND, body_ns: 30 * SECOND }
    }
}

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// No byte has come since it was accepted.
    New,
    /// Part of a TLS handshake or of a head has come.
    Head,
    /// The server works on a request. It takes as long as it takes.
    Work,
    /// The body of a request is coming.
    Body,
    /// The answer was written as far as the socket takes it; if it is complete, the connection is idle.
    Answered,
    /// The client does not read the answer.
    Blocked,
}

const PHASES: [Phase; 6] =
    [Phase::New, Phase::Head, Phase::Work, Phase::Body, Phase::Answered, Phase::Blocked];

/// Tick, number of changes and phase in one word, so that words sort by tick and every change makes another word.
fn pack(phase: Phase, tick: u32, changes: u64) -> u64 {
    u64::from(tick) << 32 | (changes & 0xff_ffff) << 8 | phase as u64
}

fn unpack(word: u64) -> (Phase, u32) {
    (PHASES[(word & 7) as usize % PHASES.len()], (word >> 32) as u32)
}

/// One connection, as the others see it.
#[derive(Debug)]
pub struct Watch {
    word: AtomicU64,
    doomed: AtomicU64,
    close: Notify,
}

/// The connections of a server.
#[derive(Debug)]
pub struct Connections {
    timeouts: Timeouts,
    most: usize,
    tick: AtomicU32,
    origin_ns: u64,
    list: Mutex<(u64, HashMap<u64, Arc<Watch>>)>,
}

/// A connection in the list of all; dropping it takes it out.
#[derive(Debug)]
pub struct Registered {
    connections: Arc<Connections>,
    id: u64,
    watch: Arc<Watch>,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.connections.lock().1.remove(&self.id);
    }
}

impl Registered {
    fn set(&self, phase: Phase) {
        let tick = self.connections.tick.load(Ordering::Relaxed);
        // Only this connection writes its word.
        let changes = (self.watch.word.load(Ordering::Relaxed) >> 8) + 1;
        self.watch.word.store(pack(phase, tick, changes), Ordering::Relaxed);
    }

    fn phase(&self) -> Phase {
        unpack(self.watch.word.load(Ordering::Relaxed)).0
    }

    /// Bytes came from the client.
    pub fn read(&self) {
        match self.phase() {
            Phase::New | Phase::Answered => self.set(Phase::Head),
            Phase::Body => self.set(Phase::Body),
            Phase::Head | Phase::Work | Phase::Blocked => {}
        }
    }

    /// Bytes went to the client. While a head is coming they belong to the answer before it: the client pipelines.
    pub fn wrote(&self) {
        if matches!(self.phase(), Phase::Answered | Phase::Blocked | Phase::Head) {
            self.set(Phase::Answered);
        }
    }

    /// The socket takes no more bytes.
    pub fn blocked(&self) {
        if matches!(self.phase(), Phase::Answered | Phase::Head) {
            self.set(Phase::Blocked);
        }
    }

    /// Everything written so far has left.
    pub fn flushed(&self) {
        if self.phase() == Phase::Blocked {
            self.set(Phase::Answered);
        }
    }

    /// The head of a request is complete, or its body.
    pub fn works(&self) {
        self.set(Phase::Work);
    }

    /// The body of a request is wanted.
    pub fn reads_body(&self) {
        self.set(Phase::Body);
    }

    /// An answer is ready.
    pub fn answered(&self) {
        self.set(Phase::Answered);
    }

    /// Returns true if the connection is in the middle of a head.
    pub fn in_head(&self) -> bool {
        self.phase() == Phase::Head
    }

    /// Completes when the connection is to be closed: it was chosen, and has done nothing since.
    pub async fn doomed(&self) {
        loop {
            self.watch.close.notified().await;
            if self.watch.doomed.load(Ordering::Relaxed) == self.watch.word.load(Ordering::Relaxed) {
                return;
            }
        }
    }
}

impl Watch {
    fn doom(&self, word: u64) {
        self.doomed.store(word, Ordering::Relaxed);
        self.close.notify_one();
    }
}

/// Connections that were idle longest when they were looked for.
pub type Candidates = Vec<(u64, Arc<Watch>)>;

impl Connections {
    /// None yet; at most `most` at a time.
    pub fn new(timeouts: Timeouts, most: usize) -> Arc<Connections> {
        Arc::new(Connections {
            timeouts,
            most: most.max(1),
            // A word of zero is in no list of the doomed.
            tick: AtomicU32::new(1),
            origin_ns: now_ns(),
            list: Mutex::default(),
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, (u64, HashMap<u64, Arc<Watch>>)> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if there are as many as there may be.
    pub fn is_full(&self) -> bool {
        self.lock().1.len() >= self.most
    }

    /// Open connections.
    pub fn count(&self) -> usize {
        self.lock().1.len()
    }

    /// Adds a connection.
    pub fn register(self: &Arc<Connections>) -> Registered {
        let word = pack(Phase::New, self.tick.load(Ordering::Relaxed), 0);
        let watch =
            Arc::new(Watch { word: AtomicU64::new(word), doomed: AtomicU64::new(0), close: Notify::new() });
        let mut list = self.lock();
        list.0 += 1;
        let id = list.0;
        list.1.insert(id, Arc::clone(&watch));
        Registered { connections: Arc::clone(self), id, watch }
    }

    /// Advances the clock to `now_ns` and closes connections whose timeout has passed.
    pub fn sweep(&self, now_ns: u64) {
        let tick = 1 + (now_ns.saturating_sub(self.origin_ns) / TICK_NS) as u32;
        self.tick.store(tick, Ordering::Relaxed);
        let overdue = |word: u64| {
            let (phase, since) = unpack(word);
            let allowed_ns = match phase {
                Phase::New | Phase::Answered => self.timeouts.idle_ns,
                Phase::Head => self.timeouts.head_ns,
                Phase::Body | Phase::Blocked => self.timeouts.body_ns,
                Phase::Work => return false,
            };
            u64::from(tick.saturating_sub(since)) > allowed_ns.div_ceil(TICK_NS)
        };
        for watch in self.lock().1.values() {
            let word = watch.word.load(Ordering::Relaxed);
            if overdue(word) {
                watch.doom(word);
            }
        }
    }

    /// Closes the connection that has been idle longest; if none is idle, the one whose head has been coming longest. A
    /// connection inside a request is never closed for another. `candidates` is kept between calls. Returns whether there
    /// was one.
    pub fn evict(&self, candidates: &mut Candidates) -> bool {
        if pop(candidates) {
            return true;
        }
        *candidates = self.idle_longest();
        pop(candidates)
    }

    /// Up to 256 connections to close, the first one last.
    fn idle_longest(&self) -> Candidates {
        const MOST: usize = 256;
        let mut all: Candidates = Vec::new();
        for watch in self.lock().1.values() {
            let word = watch.word.load(Ordering::Relaxed);
            let outside = matches!(unpack(word).0, Phase::New | Phase::Answered | Phase::Head);
            if outside && watch.doomed.load(Ordering::Relaxed) != word {
                all.push((word, Arc::clone(watch)));
            }
        }
        let order = |(word, _): &(u64, Arc<Watch>)| (unpack(*word).0 == Phase::Head, *word);
        if all.len() > MOST {
            all.select_nth_unstable_by_key(MOST, order);
            all.truncate(MOST);
        }
        all.sort_unstable_by_key(|candidate| std::cmp::Reverse(order(candidate)));
        all
    }
}

/// Closes the last candidate that has done nothing since it was found.
fn pop(candidates: &mut Candidates) -> bool {
    while let Some((word, watch)) = candidates.pop() {
        if watch.word.load(Ordering::Relaxed) == word && watch.doomed.load(Ordering::Relaxed) != word {
            watch.doom(word);
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(connections: &Connections, seconds: u64) {
        connections.sweep(connections.origin_ns + seconds * SECOND);
    }

    fn is_doomed(one: &Registered) -> bool {
        one.watch.doomed.load(Ordering::Relaxed) == one.watch.word.load(Ordering::Relaxed)
    }

    #[test]
    fn each_phase_has_its_timeout() {
        let connections = Connections::new(Timeouts::default(), 100);
        let all: Vec<Registered> = (0..6).map(|_| connections.register()).collect();
        let [new, head, work, body, answered, blocked] = &all[..] else { panic!() };
        head.read();
        work.works();
        body.reads_body();
        answered.answered();
        blocked.answered();
        blocked.blocked();
        let doomed = |seconds| {
            at(&connections, seconds);
            all.iter().map(is_doomed).collect::<Vec<_>>()
        };
        assert_eq!(doomed(15), [false; 6]);
        assert_eq!(doomed(16), [false, true, false, false, false, false], "the head");
        assert_eq!(doomed(31), [false, true, false, true, false, true], "the body and the answer");
        assert_eq!(doomed(61), [true, true, false, true, true, true], "idle; work has no timeout");
        assert!(!is_doomed(work) && is_doomed(new));
    }

    #[test]
    fn a_head_that_drips_is_closed_and_a_body_that_drips_is_not() {
        let connections = Connections::new(Timeouts::default(), 100);
        let (head, body) = (connections.register(), connections.register());
        body.reads_body();
        for second in 0..40 {
            at(&connections, second);
            head.read();
            body.read();
            assert_eq!(is_doomed(&head), second > 15, "{second} s");
            assert!(!is_doomed(&body), "{second} s");
        }
    }

    #[test]
    fn a_connection_that_wakes_up_is_not_closed() {
        let connections = Connections::new(Timeouts::default(), 100);
        let one = connections.register();
        at(&connections, 100);
        assert!(is_doomed(&one));
        one.read();
        assert!(!is_doomed(&one));
    }

    #[test]
    fn the_longest_idle_connection_makes_room() {
        let connections = Connections::new(Timeouts::default(), 5);
        let all: Vec<Registered> = (0..5).map(|_| connections.register()).collect();
        assert!(connections.is_full());
        let [busy, head, old, older, fresh] = &all[..] else { panic!() };
        busy.works();
        head.read();
        older.answered();
        at(&connections, 5);
        old.answered();
        at(&connections, 10);
        fresh.answered();
        let mut candidates = Candidates::new();
        for expected in [older, old, fresh, head] {
            assert!(!is_doomed(expected));
            assert!(connections.evict(&mut candidates));
            assert!(is_doomed(expected));
        }
        assert!(!connections.evict(&mut candidates), "a connection inside a request is left alone");
        drop(all);
        assert_eq!(connections.count(), 0);
    }

    #[test]
    fn a_candidate_that_wakes_up_is_passed_over() {
        let connections = Connections::new(Timeouts::default(), 3);
        let all: Vec<Registered> = (0..3).map(|_| connections.register()).collect();
        let mut candidates = Candidates::new();
        assert!(connections.evict(&mut candidates));
        let rest: Vec<&Registered> = all.iter().filter(|one| !is_doomed(one)).collect();
        rest[0].works();
        assert!(connections.evict(&mut candidates));
        assert!(is_doomed(rest[1]) && !is_doomed(rest[0]));
    }
}
