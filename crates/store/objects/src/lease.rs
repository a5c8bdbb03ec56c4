//! Leases of the processes that use a catalog, and the one process that works in the background.
//!
//! Each process has a session with a number that is never reused, and renews it. A session that was not renewed in time
//! has ended: what it began and did not finish is given up. The leader is a session. The number of the epoch increases
//! when another session leads, and when a leader steps down ([`follow`]).
//!
//! Transactions of moves, packing, deletions and announcements check the epoch, so those of a former leader that wakes
//! up late change nothing. Expiry by lifecycle rules does not: it compares the generation of each version. Unfinished
//! writes are given up by transactions that find their session ended.

use std::ops::Bound;

use bytes::Bytes;

use crate::keys;
use plimsoll_catalog::codec::{Reader, put_number};
use plimsoll_catalog::embedded::head_only;
use plimsoll_catalog::intact;
use plimsoll_catalog::{Catalog, CatalogError, Row, Transaction};

/// Milliseconds after the last renewal at which a session has ended, by the clock that all gateways share.
pub const SESSION_MS: u64 = 15_000;

/// Time between two renewals in milliseconds.
pub const RENEW_MS: u64 = 3_000;

/// Number of a session; 0 is none.
pub type Session = u64;

/// The leader and its epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Leader {
    /// Greatest number that a session has.
    last: Session,
    /// Session of the leader.
    pub session: Session,
    /// Number of the epoch, which increases when another session leads, and when a leader steps down.
    pub epoch: u64,
}

impl Leader {
    fn encode(self) -> Bytes {
        let mut out = Vec::new();
        [self.last, self.session, self.epoch].into_iter().for_each(|number| put_number(&mut out, number));
        out.into()
    }

    fn decode(bytes: &[u8]) -> Option<Leader> {
        let mut reader = Reader(bytes);
        Some(Leader { last: reader.number()?, session: reader.number()?, epoch: reader.number()? })
    }
}

/// Returns the leader.
///
/// # Errors
/// If the catalog cannot be read.
pub fn leader(t: &mut dyn Transaction) -> Result<Leader, CatalogError> {
    // Lost records must not end all work in the background. Only directories have them, and one process uses each.
    let row = t.last_known(keys::LEASES)?;
    Ok(row.map(|row| intact(Leader::decode(&row.head))).transpose()?.unwrap_or_default())
}

fn put_leader(t: &mut dyn Transaction, leader: Leader) {
    t.put(keys::LEASES.to_vec(), head_only(leader.encode()));
}

fn renew(t: &mut dyn Transaction, session: Session, now_ms: u64) {
    // Only the leader frees space on a full disk.
    t.use_reserve();
    // A process that owns its catalog needs no renewals.
    let until_ms = if t.is_shared() { now_ms + SESSION_MS } else { u64::MAX };
    let until = until_ms.to_be_bytes().to_vec();
    t.put(keys::lease(session), head_only(until));
}

/// Returns true if a session has not ended.
///
/// # Errors
/// If the catalog cannot be read.
pub fn is_alive(t: &mut dyn Transaction, session: Session, now_ms: u64) -> Result<bool, CatalogError> {
    Ok(t.last_known(&keys::lease(session))?.is_some_and(|row| lasts(&row, now_ms)))
}

/// Begins a session. If the catalog is not shared, all earlier sessions have ended.
///
/// # Errors
/// If the catalog cannot be read.
pub fn begin(t: &mut dyn Transaction, now_ms: u64) -> Result<Session, CatalogError> {
    let before = leader(t)?;
    // A number that was used before would make the pending blobs of an ended process look like those of this one.
    let session = before.last + 1;
    // The lock of the directory proves that the processes of these sessions have ended (docs/decisions/0026).
    if !t.is_shared() {
        for ended in all(t)? {
            t.delete(keys::lease(ended));
        }
    }
    // The former leader stays in the row. `keep` takes over when its session has ended.
    put_leader(t, Leader { last: session, ..before });
    renew(t, session, now_ms);
    Ok(session)
}

/// Result of a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Renewed {
    /// Epoch that the session leads; `None` if another session is the leader.
    pub epoch: Option<u64>,
    /// True if the session has become the leader, or other sessions have ended since the last renewal.
    pub has_ended_sessions: bool,
}

/// Renews a session, and makes it the leader if there is none. The leader removes sessions that have ended.
///
/// # Errors
/// If the catalog cannot be read.
pub fn keep(t: &mut dyn Transaction, session: Session, now_ms: u64) -> Result<Renewed, CatalogError> {
    // This also renews a session that has ended. Its blobs that were given up stay so: `NewBlob::record` fails.
    renew(t, session, now_ms);
    let mut leads = leader(t)?;
    let mut has_ended_sessions = false;
    if leads.session != session {
        if is_alive(t, leads.session, now_ms)? {
            return Ok(Renewed { epoch: None, has_ended_sessions });
        }
        // From here on, the transactions of the former leader fail (`Store::transact_in`).
        leads = Leader { session, epoch: leads.epoch + 1, ..leads };
        put_leader(t, leads);
        // The former leader may have removed ended sessions, and stopped before their blobs were given up.
        has_ended_sessions = true;
    }
    for other in all(t)? {
        if !is_alive(t, other, now_ms)? {
            t.delete(keys::lease(other));
            has_ended_sessions = true;
        }
    }
    Ok(Renewed { epoch: Some(leads.epoch), has_ended_sessions })
}

/// Renews a session without leading: if it is the leader, another session can take over, and what it is still doing in
/// the background has no effect.
///
/// # Errors
/// If the catalog cannot be read.
pub fn follow(t: &mut dyn Transaction, session: Session, now_ms: u64) -> Result<Renewed, CatalogError> {
    // The session continues, so the unfinished writes of this process are not given up.
    renew(t, session, now_ms);
    let leads = leader(t)?;
    // The epoch changes although nobody leads yet: moves that have begun must not end by a clock in doubt.
    if leads.session == session {
        put_leader(t, Leader { session: 0, epoch: leads.epoch + 1, ..leads });
    }
    Ok(Renewed { epoch: None, has_ended_sessions: false })
}

/// Ends a session, so that others need not wait until it is too old.
///
/// # Errors
/// If the catalog cannot be read.
pub fn end(t: &mut dyn Transaction, session: Session) -> Result<(), CatalogError> {
    let leads = leader(t)?;
    if leads.session == session {
        // The epoch stays: `Background::stop` ends the work of this process before its session.
        put_leader(t, Leader { session: 0, ..leads });
    }
    t.delete(keys::lease(session));
    Ok(())
}

/// Returns the numbers of all sessions.
///
/// # Errors
/// If the catalog cannot be read.
pub fn all(t: &mut dyn Transaction) -> Result<Vec<Session>, CatalogError> {
    let mut found = Vec::new();
    // Behind the row of the leader, whose key is the prefix of the others.
    let mut from = keys::lease(0);
    while let Some((key, _)) = t.first(keys::LEASES, &from)? {
        found.extend(keys::parse_lease(&key));
        from = [key.as_slice(), &[0]].concat();
    }
    Ok(found)
}

/// Sessions of a catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Numbers of the sessions that have not ended.
    pub sessions: Vec<Session>,
    /// Session of the leader; `None` if it has ended.
    pub leader: Option<Session>,
    /// Number of the epoch, which increases when another session leads, and when a leader steps down.
    pub epoch: u64,
}

/// Reads the sessions of a catalog.
///
/// # Errors
/// If the catalog cannot be read.
pub fn status(catalog: &impl Catalog, now_ms: u64) -> Result<Status, CatalogError> {
    let row = catalog.get(keys::LEASES)?;
    let leads = row.map(|row| intact(Leader::decode(&row.head))).transpose()?.unwrap_or_default();
    let mut sessions = Vec::new();
    let mut scan = catalog.scan();
    scan.seek(Bound::Included(&keys::lease(0)))?;
    while let Some((key, row)) = scan.next()?
        && let Some(session) = keys::parse_lease(&key)
    {
        sessions.extend(lasts(&row, now_ms).then_some(session));
    }
    // The row of a leader that was killed stays until another one takes over.
    let leader = sessions.contains(&leads.session).then_some(leads.session);
    Ok(Status { sessions, leader, epoch: leads.epoch })
}

/// Returns true if a session with this row has not ended.
fn lasts(row: &Row, now_ms: u64) -> bool {
    row.head[..].try_into().is_ok_and(|until| u64::from_be_bytes(until) > now_ms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_catalog::blocking::block_on;
    use plimsoll_catalog::memory::MemoryCatalog;
    use std::sync::{Arc, Mutex};

    fn run<T: Send + 'static>(
        catalog: &MemoryCatalog,
        mut f: impl FnMut(&mut dyn Transaction) -> Result<T, CatalogError> + Send + 'static,
    ) -> T {
        let result = Arc::new(Mutex::new(None));
        let inside = Arc::clone(&result);
        let work = Box::new(move |t: &mut dyn Transaction| {
            *inside.lock().unwrap() = Some(f(t)?);
            Ok(true)
        });
        block_on(catalog.commit(work, 0)).unwrap();
        result.lock().unwrap().take().unwrap()
    }

    #[test]
    fn a_leader_leads_until_it_ends_or_is_silent() {
        let catalog = MemoryCatalog::shared();
        let (a, b) = (run(&catalog, |t| begin(t, 0)), run(&catalog, |t| begin(t, 0)));
        assert_ne!(a, b);
        let renew = |session, at| run(&catalog, move |t| keep(t, session, at));
        assert_eq!(renew(a, 0), Renewed { epoch: Some(1), has_ended_sessions: true });
        assert_eq!(renew(b, 1000).epoch, None);
        assert_eq!(renew(a, 2000), Renewed { epoch: Some(1), has_ended_sessions: false });
        // Silence.
        assert_eq!(renew(b, 2000 + SESSION_MS - 1).epoch, None);
        assert_eq!(renew(b, 2000 + SESSION_MS), Renewed { epoch: Some(2), has_ended_sessions: true });
        assert!(!run(&catalog, move |t| is_alive(t, a, 2000 + SESSION_MS)));
        // The former leader returns as a follower, and leads again when the other one ends.
        assert_eq!(renew(a, 2001 + SESSION_MS).epoch, None);
        run(&catalog, move |t| end(t, b));
        assert_eq!(renew(a, 2002 + SESSION_MS).epoch, Some(3));
        // With a wrong clock, it steps down.
        assert_eq!(run(&catalog, move |t| follow(t, a, 2003 + SESSION_MS)).epoch, None);
        let c = run(&catalog, |t| begin(t, 2004 + SESSION_MS));
        // The former leader has ended its epoch.
        assert_eq!(renew(c, 2005 + SESSION_MS).epoch, Some(5));
    }

    #[test]
    fn a_process_that_owns_its_catalog_leads_at_once() {
        let catalog = MemoryCatalog::default();
        let killed = run(&catalog, |t| begin(t, 0));
        assert_eq!(run(&catalog, move |t| keep(t, killed, 0)).epoch, Some(1));
        let next = run(&catalog, |t| begin(t, 1));
        assert!(next > killed && !run(&catalog, move |t| is_alive(t, killed, 1)));
        assert_eq!(run(&catalog, move |t| keep(t, next, 1)).epoch, Some(2));
    }
}
