//! The place of a backup: its objects by name.

use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{Error, GetOptions, ObjectStore, ObjectStoreExt, PutMode, PutPayload};
use serde::{Deserialize, Serialize};

use super::error::{BackupError, WAIT};
use super::marker::MARKER;
use crate::age::keys::Keys;
use crate::age::stream::{CHUNK, Opener, Sealer};
use crate::age::{self, AgeError};
use plimsoll_bodies::tier::{Backend, Tier};
use plimsoll_catalog::ambient::in_time;
use plimsoll_catalog::disk::real::read_some;
use plimsoll_catalog::liveness;

/// Newest format that this program knows. It changes if an older program could not read what it writes.
const FORMAT: u32 = ENCRYPTED;
/// Format of a backup without a journal.
const WITHOUT_JOURNAL: u32 = 1;
/// Format of a backup with a journal.
const WITH_JOURNAL: u32 = 2;
/// Format of an encrypted backup, with or without a journal.
const ENCRYPTED: u32 = 3;
/// Encryption in the marker.
const AGE: &str = "age";
/// Bytes that are read for the start of an encrypted object in addition to its chunks. The header of this program has
/// about 200; one with further recipients has more.
const BEFORE_CHUNKS: u64 = 4096;
/// Largest object in bytes that is read as a whole. A piece has at most one large group besides small ones.
const MAX_BYTES: u64 = 1 << 30;
/// Size in bytes of a part of an upload.
const PART_BYTES: usize = 8 << 20;

#[derive(Debug, Serialize, Deserialize)]
struct Marker {
    format: u32,
    catalog: String,
    /// Encryption of all other objects; `None` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    encryption: Option<String>,
}

/// A sequence of objects that are created one after the other, and never replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chain {
    /// The pieces of the log.
    Log,
    /// The entries of the journal.
    Journal,
}

impl Chain {
    fn directory(self) -> &'static str {
        match self {
            Chain::Log => "log",
            Chain::Journal => "journal",
        }
    }

    /// Returns the name of an object of the sequence.
    pub fn name(self, epoch: u64, number: u64) -> String {
        format!("{}/{epoch:08}/{number:012}", self.directory())
    }
}

/// Returns the name of a piece.
pub fn piece(epoch: u64, number: u64) -> String {
    Chain::Log.name(epoch, number)
}

/// Returns the number of the piece with a name in an epoch.
fn number_of(name: &str) -> Option<u64> {
    let digits = name.rsplit('/').next()?;
    (digits.len() == 12).then(|| digits.parse().ok()).flatten()
}

/// Returns the name of the index of the pieces up to this one.
pub fn index(epoch: u64, number: u64) -> String {
    format!("index/{epoch:08}-{number:012}")
}

/// Name of the place in metrics. No tier of the settings can have it.
pub const NAME: &str = "(backup)";

/// The place of a backup.
#[derive(Debug, Clone)]
pub struct Place {
    store: Arc<dyn ObjectStore>,
    /// Tier that counts the requests.
    pub tier: Tier,
    /// Keys of the objects; `None` if they are not encrypted.
    keys: Option<Arc<Keys>>,
}

/// Object with the number of the first piece whose state can be restored.
const WINDOW: &str = "window.json";

#[derive(Debug, Serialize, Deserialize)]
struct Window {
    first_number: u64,
}

/// Returns the path of an object, whose name is encoded already.
fn path_of(name: &str) -> Path {
    Path::parse(name).unwrap_or_else(|_| Path::from(name))
}

/// Waits for an answer of the place.
async fn answer<T>(request: impl Future<Output = Result<T, Error>>) -> Result<T, BackupError> {
    liveness::at_most("the answer of the place of the backup", WAIT);
    let answered = in_time(WAIT, request).await;
    liveness::at("its next step");
    Ok(answered.ok_or(BackupError::Silent)??)
}

impl Place {
    /// Creates a place over a backend, and counts its requests.
    pub fn new(backend: Backend) -> Place {
        let tier = Tier::new(NAME, backend);
        Place { store: Arc::clone(&tier.store), tier, keys: None }
    }

    /// Encrypts what is written, and decrypts what is read, if there are keys.
    pub fn encrypted(self, keys: Option<Keys>) -> Place {
        Place { keys: keys.map(Arc::new), ..self }
    }

    /// Returns the bytes of an object with a content.
    fn seal(&self, content: Bytes) -> Result<Bytes, BackupError> {
        let Some(keys) = &self.keys else { return Ok(content) };
        Ok(age::seal(keys, &content)?)
    }

    /// Creates an object. Returns false if it exists.
    ///
    /// # Errors
    /// If the place fails.
    pub async fn create(&self, name: &str, content: impl Into<Bytes>) -> Result<bool, BackupError> {
        self.create_as_is(name, self.seal(content.into())?).await
    }

    async fn create_as_is(&self, name: &str, content: Bytes) -> Result<bool, BackupError> {
        let (path, payload) = (path_of(name), PutPayload::from(content));
        match answer(self.store.put_opts(&path, payload, PutMode::Create.into())).await {
            Err(BackupError::Place(Error::AlreadyExists { .. } | Error::Precondition { .. })) => Ok(false),
            put => put.map(|_| true),
        }
    }

    /// Writes an object, which replaces one of the same name.
    ///
    /// # Errors
    /// If the place fails.
    pub async fn put(&self, name: &str, content: Bytes) -> Result<(), BackupError> {
        self.put_as_is(name, self.seal(content)?).await
    }

    async fn put_as_is(&self, name: &str, content: Bytes) -> Result<(), BackupError> {
        answer(self.store.put(&path_of(name), content.into())).await.map(|_| ())
    }

    /// Returns the path of an object's file, if the place is a directory; `None` if objects are encrypted, or the file
    /// could have another name than the object.
    pub fn file(&self, name: &str) -> Option<std::path::PathBuf> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.".contains(&byte);
        let directory = self.tier.directory.as_deref().filter(|_| self.keys.is_none())?;
        let has_dots = name.split('/').any(|part| part.starts_with('.'));
        (name.bytes().all(is_plain) && !has_dots).then(|| directory.join(name))
    }

    /// Writes a file as an object. Returns its size in bytes. The object exists as a whole or not at all.
    ///
    /// # Errors
    /// If the place fails, or the file cannot be read.
    pub async fn upload(&self, name: &str, mut file: File) -> Result<u64, BackupError> {
        let mut part = read_some(&mut file, PART_BYTES)?;
        if part.len() < PART_BYTES {
            let size = part.len() as u64;
            return self.put(name, part).await.map(|()| size);
        }
        let mut size = 0;
        let mut parts = Parts::new(self.keys.as_deref())?;
        let mut upload = answer(self.store.put_multipart(&path_of(name))).await?;
        let uploaded = async {
            while !part.is_empty() {
                size += part.len() as u64;
                parts.add(&part)?;
                while let Some(part) = parts.next() {
                    answer(upload.put_part(part.into())).await?;
                }
                part = read_some(&mut file, PART_BYTES)?;
            }
            answer(upload.put_part(parts.end()?.into())).await?;
            answer(upload.complete()).await
        };
        let uploaded = uploaded.await;
        if uploaded.is_err() {
            // Parts of an unfinished upload only cost space, and its own error is the one to report.
            let _ = answer(upload.abort()).await;
        }
        uploaded.map(|_| size)
    }

    /// Writes an object to a new file, durably. Returns false if the object does not exist.
    ///
    /// # Errors
    /// If the place fails, or the file cannot be written.
    pub async fn download(&self, name: &str, to: &std::path::Path) -> Result<bool, BackupError> {
        let result = match answer(self.store.get(&path_of(name))).await {
            Err(BackupError::Place(Error::NotFound { .. })) => return Ok(false),
            result => result?,
        };
        let size = result.meta.size;
        let (mut file, mut stream) = (File::create_new(to)?, result.into_stream());
        let damaged = |error: AgeError| BackupError::damaged(name, error.to_string());
        let (mut read, mut opener, mut plain) = (0, Opener::default(), Vec::new());
        while let Some(part) = answer(stream.try_next()).await? {
            read += part.len() as u64;
            let Some(keys) = &self.keys else {
                file.write_all(&part)?;
                continue;
            };
            opener.add(keys, &part, &mut plain).map_err(damaged)?;
            file.write_all(&plain)?;
            plain.clear();
        }
        if self.keys.is_some() {
            opener.end(&mut plain).map_err(damaged)?;
            file.write_all(&plain)?;
        }
        file.sync_all()?;
        if read == size { Ok(true) } else { Err(BackupError::damaged(name, "it is cut off")) }
    }

    /// Returns the content of an object; `None` if it does not exist.
    ///
    /// # Errors
    /// If the place fails, or the object is too large to be one of a backup.
    pub async fn read(&self, name: &str) -> Result<Option<Bytes>, BackupError> {
        self.read_part(name, None).await
    }

    /// Returns the first bytes of an object, at most `length`; `None` if it does not exist.
    ///
    /// # Errors
    /// As [`Place::read`].
    pub async fn read_start(&self, name: &str, length: u64) -> Result<Option<Bytes>, BackupError> {
        self.read_part(name, Some(0..length)).await
    }

    async fn read_part(&self, name: &str, range: Option<Range<u64>>) -> Result<Option<Bytes>, BackupError> {
        let Some(keys) = &self.keys else {
            return self.read_as_is(name, range).await.map(|found| Some(found?.0));
        };
        let sealed = range.map(|range| {
            // One byte more, with which the chunk before it is not the last one.
            0..BEFORE_CHUNKS + range.end.div_ceil(CHUNK as u64) * (CHUNK as u64 + 16) + 1
        });
        let Some((bytes, is_whole)) = self.read_as_is(name, sealed).await? else { return Ok(None) };
        let opened = age::open_start(keys, &bytes, is_whole);
        opened.map(Some).map_err(|error| BackupError::damaged(name, error.to_string()))
    }

    /// Reads an object, and returns true if these are all its bytes.
    async fn read_as_is(
        &self,
        name: &str,
        range: Option<Range<u64>>,
    ) -> Result<Option<(Bytes, bool)>, BackupError> {
        let options = GetOptions { range: range.map(Into::into), ..GetOptions::default() };
        let result = match answer(self.store.get_opts(&path_of(name), options)).await {
            Err(BackupError::Place(Error::NotFound { .. })) => return Ok(None),
            result => result?,
        };
        // Before the bytes are in memory.
        if result.range.end - result.range.start > MAX_BYTES {
            return Err(BackupError::damaged(name, "it is too large"));
        }
        let size = result.meta.size;
        let bytes = answer(result.bytes()).await?;
        let is_whole = bytes.len() as u64 == size;
        Ok(Some((bytes, is_whole)))
    }

    /// Deletes an object; a missing one is not an error.
    ///
    /// # Errors
    /// If the place fails.
    pub async fn delete(&self, name: &str) -> Result<(), BackupError> {
        match answer(self.store.delete(&path_of(name))).await {
            Err(BackupError::Place(Error::NotFound { .. })) => Ok(()),
            deleted => deleted,
        }
    }

    /// Deletes objects of an epoch; missing ones are not an error.
    ///
    /// # Errors
    /// If the place fails.
    pub async fn delete_numbers(
        &self,
        chain: Chain,
        epoch: u64,
        numbers: impl IntoIterator<Item = u64>,
    ) -> Result<(), BackupError> {
        let names: Vec<_> =
            numbers.into_iter().map(|number| Ok(path_of(&chain.name(epoch, number)))).collect();
        let mut deleted = self.store.delete_stream(futures_util::stream::iter(names).boxed());
        while let Some(result) = deleted.next().await {
            match result {
                Ok(_) | Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Returns the names under a prefix with the sizes and the Unix times in milliseconds of the objects. `after` is
    /// the last name that is left out.
    ///
    /// # Errors
    /// If the place fails.
    pub async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
    ) -> Result<Vec<(String, u64, i64)>, BackupError> {
        let prefix = Path::from(prefix);
        let listing = match after {
            Some(after) => self.store.list_with_offset(Some(&prefix), &path_of(after)),
            None => self.store.list(Some(&prefix)),
        };
        // A listing has as many requests as it needs, so its time is not limited; each request is, by the client.
        let listing =
            listing.inspect_ok(|_| liveness::at("the rest of a listing of the place of the backup"));
        let found: Vec<_> = listing.try_collect().await?;
        let mut found: Vec<_> = found
            .into_iter()
            .map(|one| (one.location.to_string(), one.size, one.last_modified.timestamp_millis()))
            .collect();
        found.sort_unstable();
        Ok(found)
    }

    /// Returns the epochs that have objects, in their order.
    ///
    /// # Errors
    /// If the place fails.
    pub async fn epochs(&self, chain: Chain) -> Result<Vec<u64>, BackupError> {
        let names = self.directories(chain.directory()).await?;
        Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
    }

    /// Returns the names of the directories in a directory, in their order.
    ///
    /// # Errors
    /// If the place fails.
    pub async fn directories(&self, directory: &str) -> Result<Vec<String>, BackupError> {
        let found = answer(self.store.list_with_delimiter(Some(&Path::from(directory)))).await?;
        let name = |path: &Path| path.filename().map(str::to_string);
        let mut names: Vec<String> = found.common_prefixes.iter().filter_map(name).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Returns the numbers of the objects of an epoch behind a number, in their order.
    ///
    /// # Errors
    /// If the place fails.
    pub async fn numbers(
        &self,
        chain: Chain,
        epoch: u64,
        after: Option<u64>,
    ) -> Result<Vec<u64>, BackupError> {
        let after = after.map(|number| chain.name(epoch, number));
        let found = self.list(&format!("{}/{epoch:08}", chain.directory()), after.as_deref()).await?;
        Ok(found.iter().filter_map(|(name, ..)| number_of(name)).collect())
    }

    /// Returns the id of the catalog whose backup is in the place; `None` if there is no backup.
    ///
    /// # Errors
    /// If the place fails, has a newer format, is encrypted and there are no keys, or is not and there are.
    pub async fn catalog(&self) -> Result<Option<String>, BackupError> {
        let Some((bytes, _)) = self.read_as_is(MARKER, None).await? else { return Ok(None) };
        let wrong = |problem: String| BackupError::damaged(MARKER, problem);
        let marker: Marker =
            serde_json::from_slice(&bytes).map_err(|_| wrong("it has an unknown form".into()))?;
        if marker.format > FORMAT {
            let found = marker.format;
            return Err(wrong(format!("format {found}; this version knows formats up to {FORMAT}")));
        }
        match (marker.encryption.as_deref(), &self.keys) {
            (None, None) | (Some(AGE), Some(_)) => Ok(Some(marker.catalog)),
            (Some(AGE), None) => Err(BackupError::Encrypted),
            (None, Some(_)) => Err(BackupError::NotEncrypted),
            (Some(other), _) => Err(wrong(format!("encryption {other}; this version knows {AGE}"))),
        }
    }

    /// Returns the content of the object with the format and the id of the catalog.
    fn marker(&self, format: u32, catalog: &str) -> Bytes {
        let format = if self.keys.is_some() { ENCRYPTED } else { format };
        let encryption = self.keys.is_some().then(|| AGE.to_string());
        let marker = Marker { format, catalog: catalog.into(), encryption };
        (serde_json::to_string_pretty(&marker).unwrap_or_default() + "\n").into()
    }

    /// Returns the number of the first piece whose state can be restored; earlier pieces may be deleted.
    ///
    /// # Errors
    /// If the place fails, or the object is damaged.
    pub async fn first_number(&self) -> Result<u64, BackupError> {
        let Some(bytes) = self.read(WINDOW).await? else { return Ok(0) };
        let window: Result<Window, _> = serde_json::from_slice(&bytes);
        Ok(window.map_err(|_| BackupError::damaged(WINDOW, "it has an unknown form"))?.first_number)
    }

    /// Gives up the states before a piece.
    ///
    /// # Errors
    /// If the place fails.
    pub async fn set_first_number(&self, first_number: u64) -> Result<(), BackupError> {
        let text = serde_json::to_string(&Window { first_number }).unwrap_or_default();
        self.put(WINDOW, text.into()).await
    }

    /// Records a catalog as the owner of the place, and checks that the place creates objects only if they do not
    /// exist.
    ///
    /// # Errors
    /// If the place fails, belongs to another catalog, or replaces objects.
    pub async fn claim(&self, own: &str) -> Result<(), BackupError> {
        let text = self.marker(WITHOUT_JOURNAL, own);
        if self.catalog().await?.is_none() {
            self.create_as_is(MARKER, text.clone()).await?;
        }
        let found = self.catalog().await?.ok_or(BackupError::Missing)?;
        if found != own {
            return Err(BackupError::Foreign { found, own: own.into() });
        }
        // It has the same owner, so a place that replaces it loses nothing.
        if self.create_as_is(MARKER, text).await? { Err(BackupError::Unconditional) } else { Ok(()) }
    }

    /// Records that a journal may have newer groups than the backup, for programs that do not know journals.
    ///
    /// # Errors
    /// If the place fails.
    pub async fn require_journal(&self, own: &str) -> Result<(), BackupError> {
        self.put_as_is(MARKER, self.marker(WITH_JOURNAL, own)).await
    }
}

/// Parts of an upload, all of the same size but the last one, encrypted if there are keys.
struct Parts {
    sealer: Option<Sealer>,
    bytes: Vec<u8>,
}

impl Parts {
    fn new(keys: Option<&Keys>) -> Result<Parts, AgeError> {
        let mut sealer = keys.map(Sealer::new).transpose()?;
        let bytes = sealer.as_mut().map(Sealer::begin).unwrap_or_default();
        Ok(Parts { sealer, bytes })
    }

    fn add(&mut self, plain: &[u8]) -> Result<(), AgeError> {
        match &mut self.sealer {
            Some(sealer) => sealer.add(plain, &mut self.bytes),
            None => {
                self.bytes.extend_from_slice(plain);
                Ok(())
            }
        }
    }

    /// Returns the next part that certainly is not the last one.
    fn next(&mut self) -> Option<Bytes> {
        let rest = (self.bytes.len() > PART_BYTES).then(|| self.bytes.split_off(PART_BYTES))?;
        Some(std::mem::replace(&mut self.bytes, rest).into())
    }

    /// Returns the last part.
    fn end(mut self) -> Result<Bytes, AgeError> {
        if let Some(sealer) = &mut self.sealer {
            sealer.end(&mut self.bytes)?;
        }
        Ok(self.bytes.into())
    }
}
