//! The store that a command works on: a data directory, or the settings of a gateway over several tiers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;

use super::Exit;
use super::opened::Opened;
use super::{backup_place, journaled};
use crate::config::{CatalogPlace, Config, MAX_INLINE, RETAIN_MS};
use plimsoll_backup::marker::is_backup;
use plimsoll_backup::ship::BegunShipper;
use plimsoll_bodies::blob::Blobs;
use plimsoll_bodies::cache::{Cache, CacheSettings};
use plimsoll_bodies::tier::TierTable;
use plimsoll_bodies::tier::{BLOBS, Backend, Tier, Tiers, numbers, open};
use plimsoll_catalog::any::AnyCatalog;
use plimsoll_catalog::embedded::catalog::{CatalogSettings, EmbeddedCatalog};
use plimsoll_catalog::embedded::recovery::Recovery;
use plimsoll_catalog::embedded::snapshot::Snapshot;
use plimsoll_catalog::log::note;
use plimsoll_catalog::postgres::{Access, PostgresCatalog};
use plimsoll_maintenance::mover::limits::DayLimits;
use plimsoll_objects::Bodies;
use plimsoll_objects::placement::Placement;
use plimsoll_objects::reads::Reads;

/// Arguments that select a store.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct StoreArguments {
    /// Settings of a gateway over several tiers, a TOML file
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Directory of the data of a store on one machine
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

impl StoreArguments {
    /// Selects the store with these settings.
    pub fn of_file(file: &Path) -> StoreArguments {
        StoreArguments { file: Some(file.to_path_buf()), data: None }
    }

    /// Selects the store in a data directory.
    pub fn of_data(data: &Path) -> StoreArguments {
        StoreArguments { file: None, data: Some(data.to_path_buf()) }
    }

    /// Returns true if a file has the settings.
    pub fn has_file(&self) -> bool {
        self.file.is_some()
    }

    /// Returns the file with the settings; `None` for a data directory.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Returns the directory of the data; `None` if a file has the settings.
    pub fn data(&self) -> Option<&Path> {
        self.data.as_deref()
    }

    /// Returns the argument, for messages.
    pub fn name(&self) -> String {
        match (&self.file, &self.data) {
            (Some(file), _) => file.display().to_string(),
            (None, Some(data)) => format!("--data {}", data.display()),
            (None, None) => String::new(),
        }
    }

    /// Returns the words of a command line that select this store.
    pub fn words(&self) -> Vec<String> {
        match (&self.file, &self.data) {
            (Some(file), _) => vec!["--".into(), file.display().to_string()],
            (None, Some(data)) => vec![format!("--data={}", data.display())],
            (None, None) => Vec::new(),
        }
    }

    /// Converts an error of the store.
    pub fn fail(&self, error: &dyn std::fmt::Display) -> Exit {
        Exit::store(format!("{}: {error}", self.name()))
    }

    /// Returns the place of the catalog, and the settings of the tiers.
    ///
    /// # Errors
    /// If the file cannot be read or is invalid.
    pub fn settings(&self) -> Result<(CatalogPlace, Option<Config>), Exit> {
        match (&self.file, &self.data) {
            (Some(file), _) => {
                let config = Config::load(file).map_err(Exit::input)?;
                Ok((config.catalog.clone(), Some(config)))
            }
            (None, data) => {
                Ok((CatalogPlace::Directory(data.clone().unwrap_or_default().join("catalog")), None))
            }
        }
    }

    /// Returns the directory of the catalog; `None` if it is in a database.
    ///
    /// # Errors
    /// If the settings cannot be read or are invalid.
    pub fn directory(&self) -> Result<Option<PathBuf>, Exit> {
        Ok(match self.settings()?.0 {
            CatalogPlace::Directory(directory) => Some(directory),
            CatalogPlace::Database(_) => None,
        })
    }

    /// Returns an error if there is no catalog, instead of creating one.
    ///
    /// # Errors
    /// If the settings are invalid, or the directory of the catalog does not exist.
    pub fn must_exist(&self) -> Result<(), Exit> {
        let catalog = match self.settings()?.0 {
            CatalogPlace::Directory(catalog) => catalog,
            CatalogPlace::Database(database) => {
                let opened = PostgresCatalog::open(&database, Access::ReadOnly);
                return opened.map(|_| ()).map_err(|e| self.fail(&e));
            }
        };
        if is_backup(&catalog) {
            let text = "this is a backup, and not a catalog; use `restore` or `verify-backup`";
            return Err(Exit::input(format!("{}: {text}", catalog.display())));
        }
        if catalog.is_dir() {
            return Ok(());
        }
        let problem = match self.file {
            None => "this is not a data directory of plimsoll-gateway; check the path".into(),
            Some(_) => format!("there is no catalog in {}", catalog.display()),
        };
        Err(Exit::input(format!("{}: {problem}", self.name())))
    }

    /// Returns the settings of the tiers; for a data directory, those that it implies.
    ///
    /// # Errors
    /// If the file cannot be read or is invalid.
    pub fn config(&self) -> Result<Config, Exit> {
        let (catalog, config) = self.settings()?;
        Ok(config.unwrap_or_else(|| of_directory(&catalog)))
    }

    /// Returns the backends of the tiers by name.
    ///
    /// # Errors
    /// If the settings of a tier are invalid.
    pub fn backends(&self, config: &Config) -> Result<BTreeMap<String, Backend>, Exit> {
        let open = |(name, table): (&String, &TierTable)| {
            let opened = open::open(table);
            let opened = opened.map_err(|e| Exit::input(format!("{}: tier {name}: {e}", self.name())))?;
            Ok((name.clone(), opened))
        };
        let opened = config.tiers.iter().map(open).collect::<Result<BTreeMap<_, _>, Exit>>()?;
        for (name, backend) in &opened {
            let within = |(other, place): &(&String, &Backend)| {
                *other != name && place.root.starts_with(&backend.root) && !backend.root.is_empty()
            };
            if let Some((other, _)) = opened.iter().find(within) {
                let place = self.name();
                return Err(Exit::input(format!(
                    "{place}: tier {other}: its objects are in the place of tier {name}; use another bucket or prefix"
                )));
            }
        }
        Ok(opened)
    }

    /// Opens the tiers and a copy of the catalog that cannot be changed. Gateways may be running. The copy of a
    /// directory exists until the snapshot is dropped.
    ///
    /// # Errors
    /// If the settings are invalid, or the catalog cannot be used.
    pub fn open_copy(&self, mut config: Config) -> Result<(Option<Snapshot>, Opened), Exit> {
        // The cache on a disk belongs to the gateway.
        config.cache = CacheSettings::default();
        let snapshot = match &config.catalog {
            CatalogPlace::Directory(path) => Some(Snapshot::take(path).map_err(|e| self.fail(&e))?),
            CatalogPlace::Database(_) => None,
        };
        let copy = snapshot.as_ref().map(|snapshot| CatalogPlace::Directory(snapshot.path().to_path_buf()));
        let catalog = copy.unwrap_or_else(|| config.catalog.clone());
        let opened = self.open_at(&catalog, Some(config), quiet(), Access::ReadOnly, false)?;
        Ok((snapshot, opened))
    }

    /// Opens the catalog and the tiers.
    ///
    /// # Errors
    /// If the settings are invalid, or the catalog cannot be used.
    pub fn open(&self, settings: CatalogSettings) -> Result<Opened, Exit> {
        let (catalog, config) = self.settings()?;
        self.open_at(&catalog, config, settings, Access::Create, true)
    }

    /// Does the same without the backup: it is neither read nor written.
    ///
    /// # Errors
    /// As [`StoreArguments::open`].
    pub fn open_without_backup(&self, settings: CatalogSettings) -> Result<Opened, Exit> {
        let (catalog, config) = self.settings()?;
        self.open_at(&catalog, config, settings, Access::Create, false)
    }

    /// Opens the catalog at a place with these settings, and the tiers. `access` matters only to a database.
    ///
    /// # Errors
    /// If the settings are invalid, or the catalog cannot be used.
    fn open_at(
        &self,
        catalog: &CatalogPlace,
        config: Option<Config>,
        settings: CatalogSettings,
        access: Access,
        uses_backup: bool,
    ) -> Result<Opened, Exit> {
        let config = config.unwrap_or_else(|| of_directory(catalog));
        // A wrong URL is an error before the catalog is created.
        let stores = self.backends(&config)?;
        let is_followed = uses_backup && config.backup.is_some();
        let settings = CatalogSettings { is_followed, ..settings };
        let backup_place = match access {
            Access::Create if !uses_backup => None,
            Access::Create => backup_place::backup_place(&self.name(), &config, &stores)?,
            // A copy has neither a backup nor a journal.
            Access::ReadOnly => None,
        };
        let (catalog, recovery, shipper) = match catalog {
            CatalogPlace::Directory(directory) if access == Access::ReadOnly => {
                let opened = EmbeddedCatalog::open(directory, settings).map_err(|e| self.fail(&e))?;
                (AnyCatalog::Embedded(opened.0), opened.1, BegunShipper::default())
            }
            CatalogPlace::Directory(directory) => {
                let place = backup_place.as_ref().map(|found| &found.place);
                let opened = journaled::open(&self.name(), directory, settings, &config, place)?;
                (AnyCatalog::Embedded(opened.catalog), opened.recovery, opened.shipper)
            }
            CatalogPlace::Database(database) => {
                let opened = PostgresCatalog::open(database, access).map_err(|e| self.fail(&e))?;
                (AnyCatalog::Postgres(opened), Recovery::default(), BegunShipper::default())
            }
        };
        let opened = self.open_with(catalog, recovery, config, stores)?;
        Ok(Opened { backup_place, shipper, ..opened })
    }

    /// Opens the tiers of an open catalog.
    ///
    /// # Errors
    /// If the settings are invalid, or the catalog cannot be used.
    pub fn open_with(
        &self,
        catalog: AnyCatalog,
        recovery: Recovery,
        config: Config,
        stores: BTreeMap<String, Backend>,
    ) -> Result<Opened, Exit> {
        // The lock of the catalog protects the cache on a disk, too.
        let cache =
            Cache::open(&config.cache).map_err(|e| Exit::store(format!("{}: cache: {e}", self.name())))?;
        let names: Vec<String> = config.tiers.keys().cloned().collect();
        let numbers =
            plimsoll_catalog::blocking::block_on(numbers(&catalog, names)).map_err(|e| self.fail(&e))?;
        for name in numbers.keys().filter(|name| !config.tiers.contains_key(*name)) {
            note(&format!(
                "tier {name} is not in the settings; blobs that are only there answer with status 503"
            ));
        }
        let rules = self.rules(&config, &stores, &numbers)?;
        let tier = |(name, backend): (&String, &Backend)| (numbers[name], Tier::new(name, backend.clone()));
        let tiers = stores.iter().map(tier).collect();
        let classes = config.tiers.iter().flat_map(|(name, table)| {
            let classes = table.lifecycle_classes.iter().chain(&table.storage_class);
            classes.map(|class| (class.clone(), numbers[name]))
        });
        let classes = classes.collect();
        let class_names = config.tiers.iter().filter_map(|(name, table)| {
            table.storage_class.as_deref().map(|class| (numbers[name], Arc::from(class)))
        });
        let reads_file = config.reads_file();
        let reads = reads_file.as_ref().map(|path| Arc::new(Reads::load(path)));
        let bodies = Bodies {
            blobs: Blobs::new(Tiers::new(tiers), cache),
            write: Placement {
                tiers: config.write.iter().map(|name| numbers[name]).collect(),
                fallback: config.fallback.as_ref().map(|name| numbers[name]),
                inline: config.inline,
            },
            class_names: class_names.collect(),
            reads,
            classes,
            retain_ms: config.retain_ms,
        };
        let (catalog, tables, scrub, backup) = (Arc::new(catalog), config.tiers, config.scrub, config.backup);
        Ok(Opened {
            catalog,
            bodies,
            rules,
            reads_file,
            backends: stores,
            tables,
            scrub,
            backup,
            backup_place: None,
            shipper: BegunShipper::default(),
            recovery,
        })
    }
}

/// Returns settings with which the catalog of a snapshot neither merges nor compacts.
pub fn quiet() -> CatalogSettings {
    let mut settings = CatalogSettings::default();
    (settings.limits.garbage_share, settings.limits.idle_garbage_share) = (2.0, 2.0);
    (settings.limits.fan_in, settings.limits.reserve_bytes) = (usize::MAX, 0);
    settings
}

/// Returns the settings of a data directory.
fn of_directory(catalog: &CatalogPlace) -> Config {
    let tier = match catalog {
        CatalogPlace::Directory(directory) => directory_tier(directory),
        CatalogPlace::Database(_) => TierTable::default(),
    };
    Config {
        catalog: catalog.clone(),
        tiers: BTreeMap::from([(BLOBS.to_string(), tier)]),
        write: vec![BLOBS.to_string()],
        fallback: None,
        inline: MAX_INLINE,
        moves: Vec::new(),
        pack: None,
        cache: CacheSettings::default(),
        prices: Vec::new(),
        budget: DayLimits::default(),
        retain_ms: RETAIN_MS,
        scrub: None,
        backup: None,
    }
}

/// Returns the tier of a data directory, beside its catalog.
fn directory_tier(catalog: &Path) -> TierTable {
    let blobs = catalog.parent().unwrap_or(Path::new(".")).join(BLOBS);
    let absolute = std::path::absolute(&blobs).unwrap_or(blobs);
    TierTable { url: format!("file://{}", absolute.display()), ..TierTable::default() }
}
