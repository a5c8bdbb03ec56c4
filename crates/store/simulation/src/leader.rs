//! A process of the simulation of leaders.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;

use super::Model;
use super::disk::SimulatedDisk;
use plimsoll_backup::journal::entry::{EntryWriter, Flight};
use plimsoll_backup::ship::Shipper;
use plimsoll_catalog::embedded::Engine;
use plimsoll_catalog::embedded::writer::{Writer, WrittenGroup};
use plimsoll_catalog::lease::Lease;

/// A process with its disk.
pub struct Process {
    pub name: String,
    pub drift: i64,
    pub disk: SimulatedDisk,
    pub engine: Arc<Engine>,
    pub writer: Writer,
    pub entries: EntryWriter,
    pub lease: Lease,
    pub shipper: Shipper,
    /// Entries that were not created yet, as far as the process knows.
    pub flights: Vec<(Flight, Bytes)>,
    /// Groups that are not acknowledged yet.
    pub groups: VecDeque<WrittenGroup>,
    /// Content at the start.
    pub base: Model,
    /// Changes of all groups since the start.
    pub changes: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    pub acknowledged: usize,
    /// Number of groups that the next process has found; all before there is one.
    pub found: usize,
    pub is_fenced: bool,
}

impl Process {
    /// Returns the content after some of the groups.
    pub fn after(&self, groups: usize) -> Model {
        let mut model = self.base.clone();
        for (key, body) in &self.changes[..groups] {
            match body {
                Some(body) => model.insert(key.clone(), body.clone()),
                None => model.remove(key),
            };
        }
        model
    }
}
