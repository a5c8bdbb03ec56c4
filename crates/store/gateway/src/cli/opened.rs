//! An open store, as commands and the server need it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::backup_place::BackupPlace;
use crate::config::BackupRule;
use plimsoll_backup::place;
use plimsoll_backup::ship::BegunShipper;
use plimsoll_bodies::tier::{Backend, Tier, TierTable, open};
use plimsoll_catalog::any::AnyCatalog;
use plimsoll_catalog::embedded::recovery::Recovery;
use plimsoll_catalog::log::note;
use plimsoll_maintenance::mover::rules::Rules;
use plimsoll_maintenance::scrub::ScrubRule;
use plimsoll_objects::Bodies;

/// An open store without its services.
pub struct Opened {
    /// Catalog of the store.
    pub catalog: Arc<AnyCatalog>,
    /// Places of bodies, and the settings of the store.
    pub bodies: Bodies,
    /// Rules of moves.
    pub rules: Rules,
    /// File with the counts of reads; `None` if no rule needs them.
    pub reads_file: Option<PathBuf>,
    /// Backends by name, with what is known about them.
    pub backends: BTreeMap<String, Backend>,
    /// Settings of the tiers by name.
    pub tables: BTreeMap<String, TierTable>,
    /// Rule of the verification in the background; `None` for none.
    pub scrub: Option<ScrubRule>,
    /// Rule of the backup; `None` for none.
    pub backup: Option<BackupRule>,
    /// Place of the backup; `None` for none.
    pub backup_place: Option<BackupPlace>,
    /// Writer of the backup, if a journal has begun it.
    pub shipper: BegunShipper,
    /// Findings of the start.
    pub recovery: Recovery,
}

impl Opened {
    /// Returns a function that opens the tiers again, for credentials that have changed. A tier that cannot be opened
    /// keeps the old ones. The argument of the function is the place of the backup.
    pub fn reload_tiers(&self) -> impl Fn(Option<&Tier>) + Send + 'static {
        let (mut tables, tiers) = (self.tables.clone(), self.bodies.blobs.tiers().clone());
        tables.extend(self.backup.as_ref().map(|rule| (place::NAME.to_string(), rule.place.clone())));
        move |backup| {
            for tier in tiers.iter().map(|(_, tier)| tier).chain(backup) {
                match tables.get(&tier.name).map(open::open) {
                    Some(Ok(backend)) => tier.use_client(backend.store),
                    Some(Err(error)) => {
                        note(&format!("the credentials of tier {} were not reloaded: {error}", tier.name))
                    }
                    None => {}
                }
            }
        }
    }
}
