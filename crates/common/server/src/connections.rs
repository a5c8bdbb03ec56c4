//! Registry of open connections, which closes those that time out or must make room for new ones.
//!
//! A connection stores its phase and the time of its last progress in one atomic word, in ticks of a coarse clock. The
//! thread that accepts connections advances the clock and closes connections that exceed a timeout. At the connection
//! limit, it closes the one that has been idle longest to make room for a new one, or one whose client is slow.
//! Connections have no timers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use super::pace::Pace;
use plimsoll_base::clock::{SECOND, now_ns};

/// Length of a tick in nanoseconds.
pub const TICK_NS: u64 = SECOND / 4;

/// Timeouts of a connection that makes no progress, or too little, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Maximum time between requests, and before the first one.
    pub idle_ns: u64,
    /// Maximum time from the first to the last byte of a request head or TLS handshake; incoming bytes do not
    /// extend it.
    pub head_ns: u64,
    /// Maximum time between two bytes of a request body or of a response.
    pub body_ns: u64,
}

/// Number of bytes of a body that a client must transfer in twice [`Timeouts::body_ns`] while the server waits for it.
const LEAST_BYTES: u64 = 64 * 1024;
/// Time after which a slow connection may make room for a new one, in nanoseconds.
const SLOW_NS: u64 = 10 * SECOND;

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts { idle_ns: 60 * SECOND, head_ns: 15 * SECOND, body_ns: 30 * SECOND }
    }
}

/// Phase of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// No byte has arrived since the connection was accepted.
    New,
    /// Part of a TLS handshake or of a request head has arrived.
    Head,
    /// The server is processing a request; no timeout applies.
    Work,
    /// The body of a request is arriving.
    Body,
    /// The socket has accepted the response, or part of it; if all of it, the connection is idle.
    Responded,
    /// The client is not reading the response.
    Blocked,
}

const PHASES: [Phase; 6] =
    [Phase::New, Phase::Head, Phase::Work, Phase::Body, Phase::Responded, Phase::Blocked];

/// Packs tick, change counter and phase into one word. Words sort by tick, and every change produces a new word.
fn pack(phase: Phase, tick: u32, changes: u64) -> u64 {
    u64::from(tick) << 32 | (changes & 0xff_ffff) << 8 | phase as u64
}

fn unpack(word: u64) -> (Phase, u32) {
    (PHASES[(word & 7) as usize % PHASES.len()], (word >> 32) as u32)
}

/// State of one connection, shared with the accepting thread.
#[derive(Debug)]
pub struct Watch {
    word: AtomicU64,
    wait_for_close: AtomicU64,
    close: Notify,
    pace: Pace,
}

/// Registry of a server's open connections.
#[derive(Debug)]
pub struct Connections {
    timeouts: Timeouts,
    most: usize,
    tick: AtomicU32,
    origin_ns: u64,
    list: Mutex<(u64, HashMap<u64, Arc<Watch>>)>,
    /// Notification that a connection has left the registry.
    left: Notify,
}

/// Registry entry of a connection; dropping it removes the connection from the registry.
#[derive(Debug)]
pub struct Registration {
    connections: Arc<Connections>,
    id: u64,
    watch: Arc<Watch>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.connections.lock().1.remove(&self.id);
        self.connections.left.notify_waiters();
    }
}

impl Registration {
    fn set(&self, phase: Phase) {
        let tick = self.connections.tick.load(Ordering::Relaxed);
        // A separate load and store are safe because only this connection writes its word.
        let changes = (self.watch.word.load(Ordering::Relaxed) >> 8) + 1;
        self.watch.word.store(pack(phase, tick, changes), Ordering::Relaxed);
    }

    fn phase(&self) -> Phase {
        unpack(self.watch.word.load(Ordering::Relaxed)).0
    }

    /// Records that bytes arrived from the client.
    pub fn read(&self, bytes: usize) {
        self.watch.pace.add(bytes as u64);
        match self.phase() {
            Phase::New | Phase::Responded => self.set(Phase::Head),
            Phase::Body => self.set(Phase::Body),
            Phase::Head | Phase::Work | Phase::Blocked => {}
        }
    }

    /// Records that bytes were sent to the client. In the phase `Head` they belong to the previous response,
    /// because the client pipelines requests.
    pub fn wrote(&self, bytes: usize) {
        self.watch.pace.add(bytes as u64);
        if matches!(self.phase(), Phase::Responded | Phase::Blocked | Phase::Head) {
            self.set(Phase::Responded);
        }
    }

    /// Records that the socket accepts no more bytes for now.
    pub fn blocked(&self) {
        if matches!(self.phase(), Phase::Responded | Phase::Head) {
            self.set(Phase::Blocked);
        }
    }

    /// Records that the socket accepted everything written so far.
    pub fn flushed(&self) {
        if self.phase() == Phase::Blocked {
            self.set(Phase::Responded);
        }
    }

    /// Records that a request's head or body is complete and that the server processes the request.
    pub fn works(&self) {
        self.set(Phase::Work);
    }

    /// Records that the server is ready to read a request body.
    pub fn reads_body(&self) {
        self.set(Phase::Body);
    }

    /// Records that a response is ready.
    pub fn answered(&self) {
        self.set(Phase::Responded);
    }

    /// Returns true if part of a request head has arrived.
    pub fn in_head(&self) -> bool {
        self.phase() == Phase::Head
    }

    /// Waits until the connection must be closed: it was selected for closing and has made no progress since.
    pub async fn wait_for_close(&self) {
        loop {
            self.watch.close.notified().await;
            if self.watch.wait_for_close.load(Ordering::Relaxed) == self.watch.word.load(Ordering::Relaxed) {
                return;
            }
        }
    }
}

impl Watch {
    fn doom(&self, word: u64) {
        self.wait_for_close.store(word, Ordering::Relaxed);
        self.close.notify_one();
    }
}

/// Connections that were idle longest at the last scan, each with its state word at that time.
pub type Candidates = Vec<(u64, Arc<Watch>)>;

impl Connections {
    /// Creates an empty registry that allows `most` connections at a time.
    pub fn new(timeouts: Timeouts, most: usize) -> Arc<Connections> {
        Arc::new(Connections {
            timeouts,
            most: most.max(1),
            // Ticks start at 1, so that no word equals 0, the initial value of `wait_for_close`.
            tick: AtomicU32::new(1),
            origin_ns: now_ns(),
            list: Mutex::default(),
            left: Notify::new(),
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, (u64, HashMap<u64, Arc<Watch>>)> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if the connection limit is reached.
    pub fn is_full(&self) -> bool {
        self.lock().1.len() >= self.most
    }

    /// Returns the number of open connections.
    pub fn count(&self) -> usize {
        self.lock().1.len()
    }

    /// Adds a new connection to the registry.
    pub fn register(self: &Arc<Connections>) -> Registration {
        let word = pack(Phase::New, self.tick.load(Ordering::Relaxed), 0);
        let watch = Arc::new(Watch {
            word: AtomicU64::new(word),
            wait_for_close: AtomicU64::new(0),
            close: Notify::new(),
            pace: Pace::default(),
        });
        let mut list = self.lock();
        list.0 += 1;
        let id = list.0;
        list.1.insert(id, Arc::clone(&watch));
        Registration { connections: Arc::clone(self), id, watch }
    }

    /// Advances the clock to `now_ns` and closes the connections that have exceeded a timeout.
    pub fn sweep(&self, now_ns: u64) {
        let tick = 1 + (now_ns.saturating_sub(self.origin_ns) / TICK_NS) as u32;
        self.tick.store(tick, Ordering::Relaxed);
        let overdue = |word: u64| {
            let (phase, since) = unpack(word);
            let allowed_ns = match phase {
                Phase::New | Phase::Responded => self.timeouts.idle_ns,
                Phase::Head => self.timeouts.head_ns,
                Phase::Body | Phase::Blocked => self.timeouts.body_ns,
                Phase::Work => return false,
            };
            u64::from(tick.saturating_sub(since)) > allowed_ns.div_ceil(TICK_NS)
        };
        let slow_ticks = (2 * self.timeouts.body_ns).div_ceil(TICK_NS);
        for watch in self.lock().1.values() {
            let word = watch.word.load(Ordering::Relaxed);
            let waits = matches!(unpack(word).0, Phase::Body | Phase::Blocked);
            let is_slow = u64::from(watch.pace.observe(tick, waits, LEAST_BYTES)) > slow_ticks;
            if is_slow || overdue(word) {
                watch.doom(word);
            }
        }
    }

    /// Closes the connection that has been idle longest; if none is idle, the one whose head has been arriving longest;
    /// otherwise the one whose client has been slow longest. Closes no other connection inside a request. Returns true
    /// if it closed one. `candidates` caches the result of a scan for the next calls.
    pub fn evict(&self, candidates: &mut Candidates) -> bool {
        if pop(candidates) {
            return true;
        }
        *candidates = self.idle_longest();
        pop(candidates)
    }

    /// Returns true if a connection was selected for closing and is still open.
    pub fn is_closing(&self) -> bool {
        let doomed = |watch: &Arc<Watch>| {
            watch.wait_for_close.load(Ordering::Relaxed) == watch.word.load(Ordering::Relaxed)
        };
        self.lock().1.values().any(doomed)
    }

    /// Waits until a connection leaves the registry after this call.
    pub fn one_leaves(&self) -> impl Future<Output = ()> + '_ {
        self.left.notified()
    }

    /// Returns up to 256 connections to close; the last of them is to be closed first.
    fn idle_longest(&self) -> Candidates {
        const MOST: usize = 256;
        let tick = self.tick.load(Ordering::Relaxed);
        let is_slow = |watch: &Watch| u64::from(watch.pace.slow_ticks(tick)) > SLOW_NS.div_ceil(TICK_NS);
        let mut all: Candidates = Vec::new();
        for watch in self.lock().1.values() {
            let word = watch.word.load(Ordering::Relaxed);
            let may_close = match unpack(word).0 {
                Phase::New | Phase::Responded | Phase::Head => true,
                Phase::Body | Phase::Blocked => is_slow(watch),
                Phase::Work => false,
            };
            if may_close && watch.wait_for_close.load(Ordering::Relaxed) != word {
                all.push((word, Arc::clone(watch)));
            }
        }
        let order = |(word, watch): &(u64, Arc<Watch>)| match unpack(*word).0 {
            Phase::Body | Phase::Blocked => (2, u64::from(u32::MAX - watch.pace.slow_ticks(tick))),
            Phase::Head => (1, *word),
            _ => (0, *word),
        };
        if all.len() > MOST {
            all.select_nth_unstable_by_key(MOST, order);
            all.truncate(MOST);
        }
        all.sort_unstable_by_key(|candidate| std::cmp::Reverse(order(candidate)));
        all
    }
}

/// Closes the last candidate that has made no progress since the scan; returns false if there is none.
fn pop(candidates: &mut Candidates) -> bool {
    while let Some((word, watch)) = candidates.pop() {
        if watch.word.load(Ordering::Relaxed) == word && watch.wait_for_close.load(Ordering::Relaxed) != word
        {
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

    fn is_doomed(one: &Registration) -> bool {
        one.watch.wait_for_close.load(Ordering::Relaxed) == one.watch.word.load(Ordering::Relaxed)
    }

    #[test]
    fn each_phase_has_its_timeout() {
        let connections = Connections::new(Timeouts::default(), 100);
        let all: Vec<Registration> = (0..6).map(|_| connections.register()).collect();
        let [new, head, work, body, answered, blocked] = &all[..] else { panic!() };
        head.read(1);
        work.works();
        body.reads_body();
        answered.answered();
        blocked.answered();
        blocked.blocked();
        let wait_for_close = |seconds| {
            at(&connections, seconds);
            all.iter().map(is_doomed).collect::<Vec<_>>()
        };
        assert_eq!(wait_for_close(15), [false; 6]);
        assert_eq!(wait_for_close(16), [false, true, false, false, false, false], "the head");
        assert_eq!(wait_for_close(31), [false, true, false, true, false, true], "the body and the response");
        assert_eq!(wait_for_close(61), [true, true, false, true, true, true], "idle; work has no timeout");
        assert!(!is_doomed(work) && is_doomed(new));
    }

    #[test]
    fn a_slow_head_times_out_and_a_slow_body_does_not() {
        let connections = Connections::new(Timeouts::default(), 100);
        let (head, body) = (connections.register(), connections.register());
        body.reads_body();
        for second in 0..40 {
            at(&connections, second);
            head.read(1);
            body.read(LEAST_BYTES as usize);
            assert_eq!(is_doomed(&head), second > 15, "{second} s");
            assert!(!is_doomed(&body), "{second} s");
        }
    }

    #[test]
    fn a_client_that_reads_or_sends_a_body_too_slowly_is_closed() {
        let connections = Connections::new(Timeouts::default(), 100);
        let [reader, sender, server] = [(); 3].map(|()| connections.register());
        reader.answered();
        sender.reads_body();
        server.reads_body();
        for second in 0..62 {
            reader.wrote(1000);
            reader.blocked();
            sender.read(1000);
            // A server that is slow itself, because its disk is, does not wait for the client.
            server.works();
            at(&connections, second);
            assert_eq!((is_doomed(&reader), is_doomed(&sender)), (second > 60, second > 60), "{second} s");
            assert!(!is_doomed(&server));
            server.read(1000);
            server.reads_body();
        }
    }

    #[test]
    fn slow_clients_make_room_and_others_do_not() {
        let connections = Connections::new(Timeouts::default(), 3);
        let [slow, slower, fast] = [(); 3].map(|()| connections.register());
        for second in 0..20 {
            for one in [&slow, &slower, &fast] {
                one.answered();
                one.wrote(if std::ptr::eq(one, &fast) { LEAST_BYTES as usize } else { 1 });
                one.blocked();
            }
            if second == 5 {
                slow.wrote(LEAST_BYTES as usize);
                slow.blocked();
            }
            at(&connections, second);
        }
        let mut candidates = Candidates::new();
        for expected in [slower, slow] {
            assert!(!is_doomed(&expected));
            assert!(connections.evict(&mut candidates));
            assert!(is_doomed(&expected));
        }
        assert!(!connections.evict(&mut candidates) && !is_doomed(&fast));
    }

    #[test]
    fn a_connection_that_becomes_active_is_not_closed() {
        let connections = Connections::new(Timeouts::default(), 100);
        let one = connections.register();
        at(&connections, 100);
        assert!(is_doomed(&one));
        one.read(1);
        assert!(!is_doomed(&one));
    }

    #[test]
    fn a_full_server_waits_for_connections_that_are_about_to_close() {
        let connections = Connections::new(Timeouts::default(), 2);
        let (idle, busy) = (connections.register(), connections.register());
        busy.works();
        let mut candidates = Candidates::new();
        assert!(connections.is_full() && !connections.is_closing());
        assert!(connections.evict(&mut candidates) && connections.is_closing());
        assert!(!connections.evict(&mut candidates), "the only idle connection was selected before");
        let leaves = connections.one_leaves();
        drop(idle);
        assert!(!connections.is_full() && !connections.is_closing());
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(leaves);
    }

    #[test]
    fn the_longest_idle_connection_is_evicted_first() {
        let connections = Connections::new(Timeouts::default(), 5);
        let all: Vec<Registration> = (0..5).map(|_| connections.register()).collect();
        assert!(connections.is_full());
        let [busy, head, old, older, fresh] = &all[..] else { panic!() };
        busy.works();
        head.read(1);
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
        assert!(!connections.evict(&mut candidates), "a connection inside a request is not evicted");
        drop(all);
        assert_eq!(connections.count(), 0);
    }

    #[test]
    fn a_candidate_that_becomes_active_is_not_evicted() {
        let connections = Connections::new(Timeouts::default(), 3);
        let all: Vec<Registration> = (0..3).map(|_| connections.register()).collect();
        let mut candidates = Candidates::new();
        assert!(connections.evict(&mut candidates));
        let rest: Vec<&Registration> = all.iter().filter(|one| !is_doomed(one)).collect();
        rest[0].works();
        assert!(connections.evict(&mut candidates));
        assert!(is_doomed(rest[1]) && !is_doomed(rest[0]));
    }
}
