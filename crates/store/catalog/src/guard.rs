//! Checks that protect objects while they move. A simulation removes one after the other, and must find the damage.

/// A check whose removal loses or leaks bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// A move ends only if its intent still exists.
    Intent,
    /// Transactions of moves, packing, deletions and announcements of the position need the current epoch.
    Epoch,
    /// The destination is read back before it is used.
    Verification,
    /// The source stays for a time.
    RollbackWindow,
    /// Bytes of unfinished writes are deleted a second time.
    SecondDelete,
    /// Garbage is kept for a time, for a catalog that is restored.
    Retention,
    /// A source is deleted only if its copy exists.
    Copy,
    /// Nothing is moved or deleted while a tier has seen a later state of the catalog.
    Owner,
    /// Nothing is moved or deleted by a clock that differs from its witnesses.
    Clock,
    /// A log segment whose records were copied stays until the backup has the copies.
    Copies,
    /// Pieces of a backup that do not follow the piece before them are refused.
    Chain,
    /// A process serves only while no other one can lead.
    Lease,
    /// A group is acknowledged only if the journal has all groups before it.
    Order,
    /// Pieces of a backup are created only if they do not exist, and none counts behind the fence of its epoch.
    Fence,
}

#[cfg(any(test, feature = "simulation"))]
thread_local! {
    static REMOVED: std::cell::Cell<Option<Guard>> = const { std::cell::Cell::new(None) };
}

/// Removes a guard on this thread, or puts it back.
#[cfg(any(test, feature = "simulation"))]
pub fn remove(guard: Option<Guard>) {
    REMOVED.set(guard);
}

/// Returns true if a check is made, which is always so outside simulations.
#[inline]
pub fn is_made(guard: Guard) -> bool {
    #[cfg(any(test, feature = "simulation"))]
    return REMOVED.get() != Some(guard);
    // A published binary has no switch that turns a check off (decision 0075).
    #[cfg(not(any(test, feature = "simulation")))]
    {
        let _ = guard;
        true
    }
}
