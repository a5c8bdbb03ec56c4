//! A server on a simulated disk: each cut begins with the same disk, so that it can be repeated by its seed.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::DurabilityError;
use super::pause::{Limit, block_for, pause};
use super::process::{self, ServerProcess, TEMPORARY};
use super::server::{Access, Placeholders, ServerProfile};
use super::signed::SignedClient;
use super::versions::Versions;
use super::work::CheckedStore;
use plimsoll_disk::mount::{Mounted, SharedDisk, use_private_mounts};
use plimsoll_disk::{Disk, Model};
use plimsoll_engine::driver::background::Background;
use plimsoll_engine::store::ownership::{KeySpace, RunId};
use plimsoll_engine::store::{Ignore, Request, Store};
use plimsoll_s3::credentials::{CredentialSource, Credentials};
use plimsoll_s3::url::StoreUrl;
use plimsoll_session::open::{Named, open_as};
use plimsoll_session::runtime::block_on;

/// Bucket of the check.
const BUCKET: &str = "plimsoll-durability";
/// Bucket with versions, if the server has them.
const VERSIONED_BUCKET: &str = "plimsoll-durability-versions";
/// Key of an object that every disk has.
const KNOWN_KEY: &str = "known";
/// Time that a server has to serve the known object, once it answers.
const SERVES_WITHIN: Duration = Duration::from_secs(15);
/// Interval between two attempts to reach a server that starts.
const KNOCK: Duration = Duration::from_millis(10);

/// A fault that the disk shows in each cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// One sync fails with an input/output error.
    Eio,
    /// The disk is full from a certain moment on.
    Enospc,
    /// Each sync takes time.
    SlowSync,
    /// One bit of the files flips while the server is stopped.
    BitFlip,
}

/// Settings of a check.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Rules of the disk.
    pub model: Model,
    /// Number of cuts.
    pub cuts: u64,
    /// True to end the check after the first violation.
    pub until_violation: bool,
    /// The only cut to execute; `None` for all.
    pub only: Option<u64>,
    /// Acknowledged operations before each cut, at most.
    pub operations: u64,
    /// Number of clients.
    pub clients: u64,
    /// Seed of the operations and the cuts.
    pub seed: u64,
    /// Fault of the disk; `None` for none.
    pub fault: Option<Fault>,
    /// Capacity of the disk in bytes.
    pub capacity: u64,
    /// Syncs of paths that contain this text do nothing; empty for none.
    pub ignored_syncs: String,
    /// Time that the server has to start.
    pub start_limit: Duration,
}

/// A server with a prepared disk.
pub struct Simulation {
    /// Commands that start the server.
    pub profile: ServerProfile,
    /// Settings of the check.
    pub settings: Settings,
    values: Placeholders,
    folder: Folder,
    /// Disk with a bucket, after a clean shutdown.
    pub(super) prepared: Disk,
    /// True if `sync` and `syncfs` of the server reach the disk.
    pub(super) syncs_whole_disk: bool,
    /// True once the disk has the known object.
    has_known_object: bool,
    pub(super) target: CheckedStore,
}

/// A temporary directory that is removed with this value.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder, DurabilityError> {
        let path = std::env::temp_dir().join(format!("plimsoll-durability-{}", RunId::generate()));
        let created = std::fs::create_dir(&path).and_then(|()| std::fs::create_dir(path.join("disk")));
        // Some servers write logs and sockets there, also as another user.
        let created = created.and_then(|()| {
            let temporary = path.join(TEMPORARY);
            std::fs::create_dir(&temporary)?;
            std::fs::set_permissions(&temporary, std::fs::Permissions::from_mode(0o1777))
        });
        created.map_err(|e| {
            DurabilityError::System(format!("{}: {e}; set TMPDIR to another directory", path.display()))
        })?;
        Ok(Folder(path))
    }

    fn disk(&self) -> PathBuf {
        self.0.join("disk")
    }

    fn log(&self) -> PathBuf {
        self.0.join("server.log")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Only what this value created: never the content of a disk that is still mounted.
        let _ = std::fs::remove_file(self.log());
        let _ = std::fs::remove_dir(self.disk());
        let _ = std::fs::remove_dir_all(self.0.join(TEMPORARY));
        let _ = std::fs::remove_dir(&self.0);
    }
}

fn store_at(access: &Access) -> Result<(Arc<dyn Store>, SignedClient), DurabilityError> {
    let url = format!("s3://{BUCKET}?endpoint=http://127.0.0.1:{}&region=us-east-1", access.port);
    let credentials = Credentials::new(&access.access_key, &access.secret_key, None);
    let source = CredentialSource::fixed(credentials.clone());
    let opened = open_as(&url, &Named::new(), None, Some(source))?;
    match opened.url {
        Some(StoreUrl::S3(s3)) => Ok((opened.store, SignedClient::new(*s3, credentials))),
        _ => Err(DurabilityError::System("the address of the server is no S3 URL".into())),
    }
}

impl Simulation {
    /// Prepares a disk: starts the server once, creates a bucket, and stops it.
    ///
    /// # Errors
    /// [`DurabilityError::System`] if the system does not allow mounts, [`DurabilityError::Server`] if the server does
    /// not start or the bucket cannot be created.
    pub fn prepare(profile: ServerProfile, settings: Settings) -> Result<Simulation, DurabilityError> {
        process::check_program(&profile)?;
        use_private_mounts();
        process::adopt_orphans();
        let folder = Folder::new()?;
        let (access, values) = Access::choose(&folder.disk())?;
        plimsoll_base::redaction::register_secret(&access.secret_key);
        let (store, signed) = store_at(&access)?;
        // The bucket is new, so its keys may be the same in every check: a server may place objects by them.
        let id = RunId::at(jiff::Timestamp::UNIX_EPOCH, settings.seed);
        let (seed, space) = (settings.seed, KeySpace::of_run("", &id));
        let target =
            CheckedStore { store, signed, space, folder: String::new(), tags: false, versions: None, seed };
        let prepared = Disk::new(settings.model, settings.capacity);
        let mut simulation = Simulation {
            profile,
            settings,
            values,
            folder,
            prepared,
            syncs_whole_disk: false,
            has_known_object: false,
            target,
        };
        let mounted = simulation.mount(simulation.prepared.clone())?;
        process::set_up(&simulation.profile, &simulation.values, &simulation.folder.log())?;
        let mut server = simulation.start(&mounted)?;
        simulation.syncs_whole_disk = server.syncs_whole_disk();
        simulation.wait_for(&mut server, None).map_err(DurabilityError::Server)?;
        block_on(simulation.create_bucket())??;
        simulation.target.tags = block_on(simulation.target.has_tags(KNOWN_KEY))?
            .map_err(|e| DurabilityError::Server(format!("{e}; its last words: {}", server.last_output())))?;
        simulation.has_known_object = true;
        let signed = simulation.target.signed.of_bucket(VERSIONED_BUCKET);
        simulation.target.versions = Versions::create(signed, &simulation.target.key(KNOWN_KEY));
        server.stop();
        simulation.prepared =
            mounted.unmount().map_err(|e| DurabilityError::System(e.to_string()))?.shut_down();
        Ok(simulation)
    }

    pub(super) fn mount(&self, disk: Disk) -> Result<Mounted, DurabilityError> {
        Mounted::new(SharedDisk::new(disk), &self.folder.disk())
            .map_err(|e| DurabilityError::System(e.to_string()))
    }

    pub(super) fn start(&self, mounted: &Mounted) -> Result<ServerProcess, DurabilityError> {
        ServerProcess::start(&self.profile, &self.values, &self.folder.log(), Some(mounted))
    }

    /// Waits until the server answers requests for the bucket, or the power fails. Returns the server's last words if
    /// it ends or does not answer in time.
    pub(super) fn wait_for(
        &self,
        server: &mut ServerProcess,
        disk: Option<&SharedDisk>,
    ) -> Result<(), String> {
        let limit = Limit::new(self.settings.start_limit);
        loop {
            if let Some(status) = server.ended() {
                return Err(format!("the server ended ({status}): {}", server.last_output()));
            }
            if disk.is_some_and(|disk| !disk.lock().has_power()) {
                return Ok(());
            }
            match block_on(self.knock()) {
                Ok(true) => {
                    let _ = block_on(self.wait_for_known_object(disk));
                    return Ok(());
                }
                _ if limit.is_over() => {
                    let limit = self.settings.start_limit.as_secs_f64();
                    return Err(format!(
                        "the server does not answer at its address within {limit} s (--start-limit): {}",
                        server.last_output()
                    ));
                }
                _ => block_for(KNOCK),
            }
        }
    }

    /// Returns true if the server answers, with success or a missing bucket.
    async fn knock(&self) -> bool {
        let mut background =
            Background::new(self.target.store.as_ref()).with_max_timeout(Duration::from_secs(2));
        match background.send(Request::CheckBucket, &mut Ignore).await {
            Ok(_) => true,
            Err(failure) => failure.status() == Some(404),
        }
    }

    /// Waits until the server serves the object that every disk has, because a server may answer before all of its
    /// parts have started. Gives up after a time, when that object may be lost.
    async fn wait_for_known_object(&self, disk: Option<&SharedDisk>) {
        let (limit, key) = (Limit::new(SERVES_WITHIN), self.target.key(KNOWN_KEY));
        let has_power = || disk.is_none_or(|disk| disk.lock().has_power());
        while self.has_known_object && !limit.is_over() && has_power() {
            let mut background =
                Background::new(self.target.store.as_ref()).with_max_timeout(Duration::from_secs(2));
            match background.send(Request::Get { key: &key, range: None }, &mut Ignore).await {
                Err(failure) if failure.status() != Some(404) => pause(KNOCK).await,
                // The object is there, or lost.
                _ => return,
            }
        }
    }

    /// Returns true if the server has no bucket. A server may answer before all of its parts have started, so this
    /// waits for the bucket.
    pub(super) async fn has_lost_its_bucket(&self) -> bool {
        let limit = Limit::new(SERVES_WITHIN);
        loop {
            let mut background = Background::new(self.target.store.as_ref());
            match background.send(Request::CheckBucket, &mut Ignore).await {
                Err(failure) if failure.status() == Some(404) && limit.is_over() => return true,
                Err(failure) if failure.status() == Some(404) => pause(KNOCK).await,
                _ => return false,
            }
        }
    }

    async fn create_bucket(&self) -> Result<(), DurabilityError> {
        let limit = Limit::new(self.settings.start_limit);
        loop {
            let mut background = Background::new(self.target.store.as_ref());
            match background.send(Request::CreateBucket, &mut Ignore).await {
                Ok(_) => return Ok(()),
                // A server may answer before all of its parts have started.
                Err(failure) if failure.status().is_none_or(|s| s >= 500) && !limit.is_over() => {
                    pause(KNOCK).await
                }
                Err(failure) => {
                    return Err(DurabilityError::Server(format!(
                        "the bucket cannot be created: {}",
                        failure.message
                    )));
                }
            }
        }
    }
}
