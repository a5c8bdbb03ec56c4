//! A disk in memory that forgets what was not synced.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Random;
use plimsoll_catalog::disk::{Disk, DiskFile};

/// A change of a file that is not yet durable.
#[derive(Clone)]
enum Write {
    Bytes(u64, Vec<u8>),
    Length(u64),
}

impl Write {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Write::Bytes(offset, bytes) => {
                let end = *offset as usize + bytes.len();
                if content.len() < end {
                    content.resize(end, 0);
                }
                content[*offset as usize..end].copy_from_slice(bytes);
            }
            Write::Length(length) => content.resize(*length as usize, 0),
        }
    }
}

#[derive(Clone, Default)]
struct FileState {
    content: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<Write>,
}

/// A change of a directory that is not yet durable.
#[derive(Clone)]
enum EntryChange {
    Link(String, u64),
    Unlink(String),
    Rename(String, String),
}

impl EntryChange {
    fn apply(&self, entries: &mut BTreeMap<String, u64>) {
        match self {
            EntryChange::Link(name, id) => {
                entries.insert(name.clone(), *id);
            }
            EntryChange::Unlink(name) => {
                entries.remove(name);
            }
            EntryChange::Rename(from, to) => {
                if let Some(id) = entries.remove(from) {
                    entries.insert(to.clone(), id);
                }
            }
        }
    }
}

#[derive(Clone, Default)]
struct DirectoryState {
    entries: BTreeMap<String, u64>,
    durable: BTreeMap<String, u64>,
    pending: Vec<EntryChange>,
}

/// Faults of the disk.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Faults {
    /// Syncs of files report success and do nothing, as on a disk that lies.
    pub ignores_sync: bool,
    /// Syncs of directories report success and do nothing.
    pub ignores_directory_sync: bool,
    /// Syncs of files with this text in their names, and of this directory, do nothing; `None` for none.
    pub ignored: Option<&'static str>,
}

/// State of a file system that stops writing after an error.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Writable,
    /// The next sync of a file confirms what it has not written; the disk is read-only from then on.
    LastSync,
    ReadOnly,
}

#[derive(Clone)]
struct State {
    mode: Mode,
    files: HashMap<u64, FileState>,
    directories: BTreeMap<String, DirectoryState>,
    next_file: u64,
    random: Random,
    /// Number of operations until the power fails; `None` if it does not.
    left: Option<u64>,
    /// True after the power has failed.
    dead: bool,
    /// The next sync fails.
    sync_fails: bool,
    /// The next write stops in the middle, because the disk is full.
    full: bool,
    /// Number of operations, including reads, until one fails with an input/output error; `None` if none does.
    left_before_error: Option<u64>,
    /// Free bytes that the disk states.
    free_bytes: u64,
    faults: Faults,
}

/// The simulated disk.
#[derive(Clone)]
pub struct SimulatedDisk {
    state: Arc<Mutex<State>>,
}

struct SimulatedFile {
    state: Arc<Mutex<State>>,
    id: u64,
    /// Name with which it was created or opened.
    name: String,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn no_power() -> io::Error {
    io::Error::other("the power has failed")
}

impl State {
    /// Counts an operation.
    fn count(&mut self) -> io::Result<()> {
        match &mut self.left_before_error {
            Some(0) => {
                self.left_before_error = None;
                Err(io::Error::other("input/output error"))
            }
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Counts an operation that changes the disk. Returns false if the power fails during it.
    fn count_change(&mut self) -> io::Result<bool> {
        self.count()?;
        if self.dead {
            return Err(no_power());
        }
        if self.mode == Mode::ReadOnly {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        match &mut self.left {
            Some(0) => {
                self.dead = true;
                Ok(false)
            }
            Some(left) => {
                *left -= 1;
                Ok(true)
            }
            None => Ok(true),
        }
    }

    fn change_entry(&mut self, directory: &str, change: EntryChange) -> io::Result<()> {
        let survives = self.count_change()?;
        let directory = self.directories.entry(directory.to_string()).or_default();
        change.apply(&mut directory.entries);
        directory.pending.push(change);
        if survives { Ok(()) } else { Err(no_power()) }
    }
}

impl SimulatedDisk {
    /// Creates an empty disk.
    pub fn new(seed: u64, faults: Faults) -> SimulatedDisk {
        let state = State {
            mode: Mode::Writable,
            files: HashMap::new(),
            directories: BTreeMap::new(),
            next_file: 0,
            random: Random(seed),
            left: None,
            dead: false,
            sync_fails: false,
            full: false,
            left_before_error: None,
            free_bytes: u64::MAX,
            faults,
        };
        SimulatedDisk { state: Arc::new(Mutex::new(state)) }
    }

    /// Makes the power fail after a number of operations.
    pub fn fail_power_after(&self, operations: u64) {
        lock(&self.state).left = Some(operations);
    }

    /// Makes the next sync of a file fail.
    pub fn fail_next_sync(&self) {
        lock(&self.state).sync_fails = true;
    }

    /// Makes the disk read-only during the next sync of a file, which reports success and keeps nothing, as ext4 does.
    pub fn become_read_only(&self) {
        lock(&self.state).mode = Mode::LastSync;
    }

    /// Makes the next write stop in the middle.
    pub fn fill_up(&self) {
        lock(&self.state).full = true;
    }

    /// Sets the free bytes that the disk states.
    pub fn set_free_bytes(&self, bytes: u64) {
        lock(&self.state).free_bytes = bytes;
    }

    /// Makes one operation fail with an input/output error, after a number of operations.
    pub fn fail_operation(&self, after: u64) {
        lock(&self.state).left_before_error = Some(after);
    }

    /// Returns true if the operation that was to fail has failed.
    pub fn has_failed(&self) -> bool {
        lock(&self.state).left_before_error.is_none()
    }

    /// Returns the disk after a restart of the machine. Of the changes that were not synced, any subset survives; a
    /// write may survive in part.
    pub fn restarted(&self) -> SimulatedDisk {
        let mut state = lock(&self.state).clone();
        let mut random = state.random.clone();
        for directory in state.directories.values_mut() {
            let mut entries = directory.durable.clone();
            for change in &directory.pending {
                if random.chance(50) {
                    change.apply(&mut entries);
                }
            }
            *directory = DirectoryState { durable: entries.clone(), entries, pending: Vec::new() };
        }
        let mut ids: Vec<u64> = state.files.keys().copied().collect();
        ids.sort_unstable();
        for id in ids {
            let Some(file) = state.files.get_mut(&id) else { continue };
            let mut content = file.durable.clone();
            for write in &file.pending {
                match (random.below(3), write) {
                    (0, _) => {}
                    (1, Write::Bytes(offset, bytes)) => {
                        let cut = random.below(bytes.len() as u64 + 1) as usize;
                        Write::Bytes(*offset, bytes[..cut].to_vec()).apply(&mut content);
                    }
                    (_, write) => write.apply(&mut content),
                }
            }
            *file = FileState { durable: content.clone(), content, pending: Vec::new() };
        }
        state.random = random;
        (state.left, state.dead, state.sync_fails, state.full) = (None, false, false, false);
        state.mode = Mode::Writable;
        SimulatedDisk { state: Arc::new(Mutex::new(state)) }
    }

    /// Returns the disk after a restart of the process: all changes survive.
    pub fn killed(&self) -> SimulatedDisk {
        let mut state = lock(&self.state).clone();
        (state.left, state.dead, state.sync_fails, state.full) = (None, false, false, false);
        state.mode = Mode::Writable;
        SimulatedDisk { state: Arc::new(Mutex::new(state)) }
    }

    /// Returns the contents of all files, by directory and name.
    pub fn contents(&self) -> BTreeMap<(String, String), Vec<u8>> {
        let state = lock(&self.state);
        let mut all = BTreeMap::new();
        for (directory, entries) in &state.directories {
            for (name, id) in &entries.entries {
                let content = state.files.get(id).map(|file| file.content.clone()).unwrap_or_default();
                all.insert((directory.clone(), name.clone()), content);
            }
        }
        all
    }

    /// Replaces the content of a file behind the back of its users; `None` removes the file.
    pub fn tamper(&self, directory: &str, name: &str, content: Option<Vec<u8>>) {
        let mut state = lock(&self.state);
        let id = state.directories[directory].entries[name];
        match content {
            Some(content) => {
                let durable = content.clone();
                state.files.insert(id, FileState { content, durable, pending: Vec::new() });
            }
            None => {
                let Some(directory) = state.directories.get_mut(directory) else { return };
                directory.entries.remove(name);
                directory.durable.remove(name);
            }
        }
    }
}

impl DiskFile for SimulatedFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = lock(&self.state);
        let survives = state.count_change()?;
        let full = std::mem::take(&mut state.full);
        let written = if full { state.random.below(bytes.len() as u64) as usize } else { bytes.len() };
        let Some(file) = state.files.get_mut(&self.id) else { return Err(no_power()) };
        let write = Write::Bytes(offset, bytes[..written].to_vec());
        write.apply(&mut file.content);
        file.pending.push(write);
        match (survives, full) {
            (false, _) => Err(no_power()),
            (true, true) => Err(io::ErrorKind::StorageFull.into()),
            (true, false) => Ok(()),
        }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut state = lock(&self.state);
        state.count()?;
        let content = state.files.get(&self.id).map(|file| &file.content);
        let range = offset as usize..offset as usize + buffer.len();
        let bytes = content.and_then(|content| content.get(range)).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = lock(&self.state);
        if !state.count_change()? {
            return Err(no_power());
        }
        if state.mode == Mode::LastSync {
            state.mode = Mode::ReadOnly;
            return Ok(());
        }
        if std::mem::take(&mut state.sync_fails) {
            return Err(io::Error::other("input/output error"));
        }
        if state.faults.ignores_sync || state.faults.ignored.is_some_and(|text| self.name.contains(text)) {
            return Ok(());
        }
        if let Some(file) = state.files.get_mut(&self.id) {
            file.durable = file.content.clone();
            file.pending.clear();
        }
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        let mut state = lock(&self.state);
        state.count()?;
        Ok(state.files.get(&self.id).map_or(0, |file| file.content.len() as u64))
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        let mut state = lock(&self.state);
        let survives = state.count_change()?;
        let write = Write::Length(length);
        if let Some(file) = state.files.get_mut(&self.id) {
            write.apply(&mut file.content);
            file.pending.push(write);
        }
        if survives { Ok(()) } else { Err(no_power()) }
    }
}

impl Disk for SimulatedDisk {
    fn create(&self, directory: &str, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = lock(&self.state);
        state.next_file += 1;
        let id = state.next_file;
        state.files.insert(id, FileState::default());
        state.change_entry(directory, EntryChange::Link(name.to_string(), id))?;
        Ok(Arc::new(SimulatedFile { state: Arc::clone(&self.state), id, name: name.to_string() }))
    }

    fn open(&self, directory: &str, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = lock(&self.state);
        state.count()?;
        let id = state.directories.get(directory).and_then(|d| d.entries.get(name)).copied();
        let id = id.ok_or(io::ErrorKind::NotFound)?;
        Ok(Arc::new(SimulatedFile { state: Arc::clone(&self.state), id, name: name.to_string() }))
    }

    fn rename(&self, directory: &str, from: &str, to: &str) -> io::Result<()> {
        lock(&self.state).change_entry(directory, EntryChange::Rename(from.to_string(), to.to_string()))
    }

    fn remove(&self, directory: &str, name: &str) -> io::Result<()> {
        lock(&self.state).change_entry(directory, EntryChange::Unlink(name.to_string()))
    }

    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        let mut state = lock(&self.state);
        state.count()?;
        Ok(state.directories.get(directory).map_or(Vec::new(), |d| d.entries.keys().cloned().collect()))
    }

    fn sync_directory(&self, directory: &str) -> io::Result<()> {
        let mut state = lock(&self.state);
        if !state.count_change()? {
            return Err(no_power());
        }
        if state.faults.ignores_directory_sync || state.faults.ignored == Some(directory) {
            return Ok(());
        }
        let directory = state.directories.entry(directory.to_string()).or_default();
        directory.durable = directory.entries.clone();
        directory.pending.clear();
        Ok(())
    }

    fn free_bytes(&self) -> io::Result<u64> {
        Ok(lock(&self.state).free_bytes)
    }

    fn random(&self) -> io::Result<u64> {
        Ok(lock(&self.state).random.draw())
    }
}
