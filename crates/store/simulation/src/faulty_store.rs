//! An object store that refuses writes, loses answers and executes writes late.

use std::fmt::{Display, Formatter};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result as StoreResult,
};

use super::{Random, time};
use plimsoll_catalog::blocking::block_on;

/// State of the store of the backup.
pub struct State {
    random: Random,
    /// Rate of faults in percent; 0 for a store that works.
    pub faults: u64,
    /// True if late writes replace an object although they must not.
    pub replaces: bool,
    /// True if the answer of the next write is lost.
    pub loses_next: bool,
    /// Writes that take effect at a time in Unix milliseconds.
    late: Vec<(u64, Path, Bytes)>,
    /// Name of an object that a late write has replaced with other bytes.
    pub replaced: Option<String>,
}

/// A store that fails.
#[derive(Clone)]
pub struct FaultyStore {
    objects: Arc<InMemory>,
    state: Arc<Mutex<State>>,
}

impl FaultyStore {
    /// Creates an empty store. `faults` is the rate of faults in percent; late writes replace objects if `replaces` is
    /// true.
    pub fn new(random: Random, faults: u64, replaces: bool) -> FaultyStore {
        let state = State { random, faults, replaces, loses_next: false, late: Vec::new(), replaced: None };
        FaultyStore { objects: Arc::default(), state: Arc::new(Mutex::new(state)) }
    }

    /// Locks the state.
    pub fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn chance(&self) -> bool {
        let mut state = self.lock();
        let faults = state.faults;
        state.random.chance(faults)
    }

    /// Lets late writes take effect whose time has come.
    pub fn land(&self) {
        let now_ms = time::now_ms();
        let due: Vec<_> = self.lock().late.extract_if(.., |(at_ms, ..)| *at_ms <= now_ms).collect();
        for (_, path, bytes) in due {
            let before = block_on(async { self.objects.get(&path).await.ok()?.bytes().await.ok() });
            let mode = if self.lock().replaces { PutMode::Overwrite } else { PutMode::Create };
            let _ = block_on(self.objects.put_opts(&path, bytes.clone().into(), mode.clone().into()));
            if mode == PutMode::Overwrite && before.is_some_and(|before| before != bytes) {
                self.lock().replaced = Some(path.to_string());
            }
        }
    }
}

fn failure(text: &'static str) -> Error {
    Error::Generic { store: "simulated", source: text.into() }
}

impl std::fmt::Debug for FaultyStore {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("FaultyStore")
    }
}

impl Display for FaultyStore {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("faulty store")
    }
}

#[async_trait]
impl ObjectStore for FaultyStore {
    async fn put_opts(
        &self,
        path: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> StoreResult<PutResult> {
        if self.chance() {
            return Err(failure("503"));
        }
        if options.mode == PutMode::Create && self.chance() {
            let mut state = self.lock();
            let at_ms = time::now_ms() + 1 + state.random.below(3000);
            state.late.push((at_ms, path.clone(), payload.into()));
            return Err(failure("late"));
        }
        let written = self.objects.put_opts(path, payload, options).await?;
        let is_lost = std::mem::take(&mut self.lock().loses_next);
        if is_lost || self.chance() { Err(failure("lost")) } else { Ok(written) }
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> StoreResult<Box<dyn MultipartUpload>> {
        self.objects.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> StoreResult<GetResult> {
        if self.chance() { Err(failure("503")) } else { self.objects.get_opts(path, options).await }
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, StoreResult<Path>>,
    ) -> BoxStream<'static, StoreResult<Path>> {
        self.objects.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, StoreResult<ObjectMeta>> {
        self.objects.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> StoreResult<ListResult> {
        self.objects.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> StoreResult<()> {
        self.objects.copy_opts(from, to, options).await
    }
}
