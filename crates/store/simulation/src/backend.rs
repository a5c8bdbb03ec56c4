//! A tier and the catalog of a simulation: they fail, answer late, and lose answers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Display, Formatter};
use std::future::poll_fn;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::{BoxStream, StreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use super::{Random, time};
use plimsoll_catalog::blocking::block_on;
use plimsoll_objects::owner::{buckets, record};

/// Rates of faults in percent.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// Requests that fail without effect.
    pub refused: u64,
    /// Requests that take effect and whose answer is lost.
    pub lost: u64,
    /// Writes that fail and take effect later.
    pub late: u64,
    /// Writes of moves whose bytes are cut or changed.
    pub damaged: u64,
    /// Transactions that fail, half of them after they are durable.
    pub transactions: u64,
}

/// State that the parts of a simulation share.
pub struct Shared {
    /// Random numbers of the faults.
    pub random: Random,
    /// Rates of the faults.
    pub faults: Faults,
    /// Times in Unix milliseconds until which tiers do not answer.
    pub down_until_ms: [u64; 2],
    /// Writes that take effect at a time.
    late: Vec<(u64, usize, Path, Bytes)>,
    /// Names of all objects that were ever written.
    names: BTreeSet<(usize, String)>,
    /// Times before which objects must not be deleted, because a move can be rolled back.
    pub kept_until_ms: BTreeMap<(usize, String), u64>,
    /// First violation of an invariant.
    pub violation: Option<String>,
}

impl Shared {
    /// Creates the state of a simulation.
    pub fn new(random: Random, faults: Faults) -> Arc<Mutex<Shared>> {
        Arc::new(Mutex::new(Shared {
            random,
            faults,
            down_until_ms: [0; 2],
            late: Vec::new(),
            names: BTreeSet::new(),
            kept_until_ms: BTreeMap::new(),
            violation: None,
        }))
    }

    /// Records a violation; the first one counts.
    pub fn violate(&mut self, text: String) {
        self.violation.get_or_insert(text);
    }
}

/// Returns the shared state.
pub fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets other tasks work.
pub async fn pause() {
    let mut is_paused = false;
    poll_fn(|context| {
        if std::mem::replace(&mut is_paused, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// A simulated tier.
#[derive(Clone)]
pub struct SimulatedTier {
    /// Number of the tier.
    pub number: usize,
    /// Objects of the tier.
    pub objects: Arc<InMemory>,
    shared: Arc<Mutex<Shared>>,
}

impl SimulatedTier {
    /// Creates an empty tier.
    pub fn new(number: usize, shared: &Arc<Mutex<Shared>>) -> SimulatedTier {
        SimulatedTier { number, objects: Arc::default(), shared: Arc::clone(shared) }
    }

    /// Returns the names of all blobs.
    pub fn names(&self) -> BTreeSet<String> {
        let listed = self.objects.list(None).map(|object| object.unwrap().location.to_string());
        let names = block_on(listed.collect::<BTreeSet<_>>());
        names.into_iter().filter(|name| !is_record(name)).collect()
    }

    /// Loses an object. Returns its bytes.
    pub fn lose(&self, path: &Path) -> Bytes {
        let bytes = block_on(async { self.objects.get(path).await.unwrap().bytes().await.unwrap() });
        block_on(self.objects.delete(path)).unwrap();
        bytes
    }

    /// Writes an object.
    pub fn store(&self, path: &Path, bytes: Bytes) {
        block_on(self.objects.put(path, bytes.into())).unwrap();
    }

    /// Fails if the tier is down, or by chance.
    fn admit(&self) -> Result<()> {
        let mut shared = lock(&self.shared);
        let percent = shared.faults.refused;
        let is_down = shared.down_until_ms[self.number] > time::now_ms();
        if is_down || shared.random.chance(percent) { Err(failure("503")) } else { Ok(()) }
    }

    /// Loses the answer by chance.
    fn answer(&self) -> Result<()> {
        let mut shared = lock(&self.shared);
        let percent = shared.faults.lost;
        if shared.random.chance(percent) { Err(failure("lost")) } else { Ok(()) }
    }

    /// Decides how a write ends: the bytes that are stored now, or an error.
    fn write(&self, path: &Path, bytes: Bytes) -> Result<Bytes> {
        let mut shared = lock(&self.shared);
        if !shared.names.insert((self.number, path.to_string())) {
            shared.violate(format!("the name {path} was used twice"));
        }
        let (late, damaged) = (shared.faults.late, shared.faults.damaged);
        if shared.random.chance(late) {
            // Late writes land before the second deletion.
            let at_ms = time::now_ms() + 1 + shared.random.below(600_000);
            shared.late.push((at_ms, self.number, path.clone(), bytes));
            return Err(failure("late"));
        }
        // Only moves write to the second tier, and they verify what they have written.
        if self.number == 0 || bytes.is_empty() || !shared.random.chance(damaged) {
            return Ok(bytes);
        }
        let at = shared.random.below(bytes.len() as u64) as usize;
        if shared.random.chance(50) {
            return Ok(bytes.slice(..at));
        }
        let mut changed = bytes.to_vec();
        changed[at] ^= 1 << shared.random.below(8);
        Ok(changed.into())
    }
}

/// Returns true if an object is about the catalog, and not a blob.
fn is_record(name: &str) -> bool {
    [record::NAME, buckets::NAME].contains(&name)
}

/// Lets late writes take effect whose time has come.
pub fn land(shared: &Mutex<Shared>, tiers: &[SimulatedTier]) {
    let now_ms = time::now_ms();
    let due: Vec<_> = lock(shared).late.extract_if(.., |(at_ms, ..)| *at_ms <= now_ms).collect();
    for (_, tier, path, bytes) in due {
        tiers[tier].store(&path, bytes);
    }
}

fn failure(text: &'static str) -> Error {
    Error::Generic { store: "simulated", source: text.into() }
}

impl std::fmt::Debug for SimulatedTier {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "SimulatedTier {}", self.number)
    }
}

impl Display for SimulatedTier {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "simulated tier {}", self.number)
    }
}

#[async_trait]
impl ObjectStore for SimulatedTier {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        pause().await;
        self.admit()?;
        if is_record(path.as_ref()) {
            let written = self.objects.put_opts(path, payload, options).await?;
            pause().await;
            self.answer()?;
            return Ok(written);
        }
        let bytes = self.write(path, payload.into())?;
        self.store(path, bytes);
        pause().await;
        self.answer()?;
        Ok(PutResult { e_tag: None, version: None, extensions: Default::default() })
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Err(Error::NotImplemented { operation: "multipart".into(), implementer: "SimulatedTier".into() })
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        pause().await;
        self.admit()?;
        self.objects.get_opts(path, options).await
    }

    async fn get_ranges(&self, path: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        pause().await;
        self.admit()?;
        self.objects.get_ranges(path, ranges).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let tier = self.clone();
        let delete = move |path: Result<Path>| {
            let tier = tier.clone();
            async move {
                let path = path?;
                pause().await;
                tier.admit()?;
                let place = (tier.number, path.to_string());
                let kept_until_ms = lock(&tier.shared).kept_until_ms.get(&place).copied().unwrap_or(0);
                if time::now_ms() < kept_until_ms {
                    lock(&tier.shared)
                        .violate(format!("the source {path} was deleted in its rollback window"));
                }
                let deleted = tier.objects.delete(&path).await;
                pause().await;
                tier.answer()?;
                deleted.map(|()| path)
            }
        };
        paths.then(delete).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.objects.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.objects.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.objects.copy_opts(from, to, options).await
    }
}
