//! Tests of the backup of a catalog as a whole.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use object_store::ObjectStore;
use object_store::memory::InMemory;

use super::bodies::Directories;
use super::error::BackupError;
use super::history::History;
use super::once::ship_once;
use super::place::Place;
use super::prune::prune;
use super::restore::{find, write_log};
use super::ship::Shipper;
use super::verify::verify;
use crate::age::keys::Keys;
use plimsoll_bodies::tier::Backend;
use plimsoll_catalog::ambient::now_ms;
use plimsoll_catalog::blocking::block_on;
use plimsoll_catalog::disk::real::RealDisk;
use plimsoll_catalog::embedded::CatalogLimits;
use plimsoll_catalog::embedded::catalog::{CatalogSettings, EmbeddedCatalog};
use plimsoll_catalog::embedded::snapshot::Snapshot;
use plimsoll_catalog::{Catalog, Transaction, Value};
use plimsoll_objects::keys;
use plimsoll_testing::directory::TempDir;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

const CATALOG: &str = "0123";

/// Small segments, so that compaction removes some of them soon.
fn settings() -> CatalogSettings {
    let limits = CatalogLimits {
        segment_bytes: 8 << 10,
        memtable_entries: 64,
        log_bytes_per_table: 16 << 10,
        reserve_bytes: 0,
        garbage_share: 0.1,
        ..CatalogLimits::default()
    };
    CatalogSettings { limits, is_followed: true, ..CatalogSettings::default() }
}

fn open(root: &Path) -> EmbeddedCatalog {
    let (catalog, recovery) = EmbeddedCatalog::open(root, settings()).unwrap();
    assert!(recovery.damage.is_empty(), "{:?}", recovery.damage);
    catalog
}

fn change(catalog: &EmbeddedCatalog, key: &[u8], body: Option<Vec<u8>>) {
    let key = key.to_vec();
    let work = Box::new(move |t: &mut dyn Transaction| {
        match body.clone() {
            Some(body) => {
                let (head, properties) = ("head".into(), "properties".into());
                t.put(key.clone(), Value { head, properties, body: body.into() });
            }
            None => t.delete(key.clone()),
        }
        Ok(true)
    });
    block_on(catalog.commit(work, 1000)).unwrap();
}

/// Returns the bodies of all keys except that of the time.
fn content(catalog: &EmbeddedCatalog) -> Model {
    let mut scan = catalog.scan();
    let mut found = Model::new();
    while let Some((key, row)) = scan.next().unwrap() {
        if key != keys::TIME {
            let value = catalog.value(&key, &row).unwrap();
            assert_eq!(value.properties, "properties");
            found.insert(key, value.body.to_vec());
        }
    }
    found
}

/// A catalog, its backup, and what it had at each time.
struct Backed {
    dir: TempDir,
    catalog: Option<EmbeddedCatalog>,
    store: Arc<InMemory>,
    place: Place,
    model: Model,
    states: Vec<(u64, Model)>,
    random: u64,
}

impl Backed {
    fn new() -> Backed {
        let dir = TempDir::new("backup");
        let store = Arc::new(InMemory::new());
        let place = Place::new(Backend::new(Arc::clone(&store) as Arc<dyn ObjectStore>));
        let catalog = Some(open(&dir.path().join("catalog")));
        Backed { dir, catalog, store, place, model: Model::new(), states: Vec::new(), random: 7 }
    }

    fn catalog(&self) -> &EmbeddedCatalog {
        self.catalog.as_ref().unwrap()
    }

    fn below(&mut self, n: u64) -> u64 {
        self.random += 1;
        plimsoll_base::rng::mix(self.random) % n
    }

    async fn begin(&self) -> Shipper {
        let engine = Arc::clone(self.catalog().engine());
        Shipper::begin(self.place.clone(), engine, CATALOG, Directories::default()).await.unwrap()
    }

    /// Opens the catalog again, as after a clean stop or as after the end of a killed process.
    fn reopen(&mut self, cleanly: bool) {
        let (root, killed) = (self.dir.path().join("catalog"), self.dir.path().join("killed"));
        let snapshot = (!cleanly).then(|| Snapshot::take(&root).unwrap());
        self.catalog.take().unwrap().close().unwrap();
        if let Some(snapshot) = snapshot {
            // The snapshot is in the directory of the catalog.
            let name = snapshot.path().file_name().unwrap().to_os_string();
            std::fs::rename(&root, &killed).unwrap();
            std::fs::rename(killed.join(name), &root).unwrap();
            std::fs::remove_dir_all(&killed).unwrap();
        }
        self.catalog = Some(open(&root));
    }

    /// Changes a key in a millisecond without another change, and remembers the state.
    fn change(&mut self) {
        let start = now_ms();
        while now_ms() == start {}
        let key = vec![b'z', self.below(40) as u8];
        let body = (self.below(4) > 0).then(|| {
            let length = self.below(600) as usize;
            vec![self.below(256) as u8; length]
        });
        change(self.catalog(), &key, body.clone());
        match body {
            Some(body) => self.model.insert(key, body),
            None => self.model.remove(&key),
        };
        self.states.push((now_ms(), self.model.clone()));
    }

    async fn restore(&self, at_ms: Option<u64>) -> Result<(u64, Model), BackupError> {
        let history = History::load(&self.place).await?;
        let cut = find(&self.place, &history, at_ms).await?;
        let dir = TempDir::new("restored");
        write_log(&self.place, &history, &cut, &RealDisk::new(dir.path()).unwrap()).await?;
        let catalog = open(dir.path());
        let found = content(&catalog);
        catalog.close().unwrap();
        Ok((cut.at_ms, found))
    }

    /// Compares the state of each remembered time with what the backup restores.
    async fn check_states(&mut self, count: u64) {
        for _ in 0..count {
            let index = self.below(self.states.len() as u64) as usize;
            let (at_ms, expected) = &self.states[index];
            let (found_ms, found) = self.restore(Some(*at_ms)).await.unwrap();
            assert!(found_ms <= *at_ms);
            assert!(found == *expected, "state {index} of {}", self.states.len());
        }
    }
}

async fn ship_all(shipper: &mut Shipper) {
    while !shipper.step().await.unwrap().is_up_to_date {}
}

#[tokio::test]
async fn every_time_can_be_restored_while_compaction_removes_segments() {
    let mut backed = Backed::new();
    let mut shipper = backed.begin().await;
    for round in 0..60 {
        for _ in 0..backed.below(12) {
            backed.change();
        }
        ship_all(&mut shipper).await;
        if round % 13 == 5 {
            shipper.write_index(true).await.unwrap();
        }
    }
    assert!(backed.restore(None).await.unwrap().1 == backed.model);
    let removed = &backed.catalog().engine().counters.compacted_segments;
    assert!(removed.load(std::sync::atomic::Ordering::Relaxed) > 3, "compaction must remove segments");
    backed.check_states(80).await;
    let verified = verify(&backed.place, None).await.unwrap();
    assert_eq!(verified.problems, Vec::<String>::new());
}

/// Regression test: the first piece of a backlog named segments that only later pieces have.
#[tokio::test]
async fn every_state_of_a_backlog_can_be_restored_before_and_after_its_end() {
    let mut backed = Backed::new();
    let mut shipper = backed.begin().await;
    backed.change();
    ship_all(&mut shipper).await;
    for _ in 0..100 {
        backed.change();
    }
    shipper.piece_bytes = 3000;
    while !shipper.step().await.unwrap().is_up_to_date {
        let (found_ms, found) = backed.restore(None).await.unwrap();
        // A state is remembered after the time of its group, and compaction may write a group behind it.
        let next = backed.states.partition_point(|(at_ms, _)| *at_ms < found_ms);
        let mut around = backed.states[next.saturating_sub(1)..].iter().take(2);
        assert!(around.any(|(_, state)| *state == found), "no state of the catalog, at {found_ms}");
    }
    backed.check_states(40).await;
}

#[tokio::test]
async fn a_restart_continues_and_every_time_before_it_stays() {
    let mut backed = Backed::new();
    for round in 0..12 {
        let mut shipper = backed.begin().await;
        for _ in 0..20 {
            backed.change();
        }
        ship_all(&mut shipper).await;
        // What follows is not shipped before the end of the process.
        for _ in 0..backed.below(10) {
            backed.change();
        }
        backed.reopen(round % 2 == 0);
    }
    let mut shipper = backed.begin().await;
    backed.change();
    ship_all(&mut shipper).await;
    let history = History::load(&backed.place).await.unwrap();
    let first = history.pieces.iter().filter(|known| known.header.is_first).count();
    assert_eq!(first, 1, "the log is shipped only once");
    assert!(backed.restore(None).await.unwrap().1 == backed.model);
    backed.check_states(60).await;
}

#[tokio::test]
async fn a_log_with_content_is_complete_when_all_of_it_is_shipped() {
    let mut backed = Backed::new();
    for _ in 0..100 {
        backed.change();
    }
    let before = std::mem::take(&mut backed.states);
    let mut shipper = backed.begin().await;
    let early = backed.restore(None).await;
    assert!(matches!(early, Err(BackupError::Incomplete)), "{early:?}");
    ship_all(&mut shipper).await;
    for _ in 0..20 {
        backed.change();
    }
    ship_all(&mut shipper).await;
    backed.check_states(20).await;
    let too_old = backed.restore(Some(before[50].0)).await;
    assert!(matches!(too_old, Err(BackupError::TooOld(_))), "{too_old:?}");
}

#[tokio::test]
async fn an_old_process_cannot_continue_after_a_new_one() {
    let mut backed = Backed::new();
    let mut old = backed.begin().await;
    backed.change();
    ship_all(&mut old).await;
    let expected = backed.model.clone();
    let mut new = backed.begin().await;
    backed.change();
    let fenced = old.step().await;
    assert!(matches!(fenced, Err(BackupError::Fenced(2))), "{fenced:?}");
    assert!(backed.restore(None).await.unwrap().1 == expected);
    ship_all(&mut new).await;
    assert!(backed.restore(None).await.unwrap().1 == backed.model);
}

#[tokio::test]
async fn a_restored_log_begins_again_and_the_other_states_stay() {
    let mut backed = Backed::new();
    let mut shipper = backed.begin().await;
    for _ in 0..50 {
        backed.change();
        shipper.step().await.unwrap();
    }
    let (at_ms, expected) = backed.states[20].clone();
    let history = History::load(&backed.place).await.unwrap();
    let cut = find(&backed.place, &history, Some(at_ms)).await.unwrap();
    let root = backed.dir.path().join("restored");
    write_log(&backed.place, &history, &cut, &RealDisk::new(&root).unwrap()).await.unwrap();
    backed.catalog.take().unwrap().close().unwrap();
    backed.catalog = Some(open(&root));
    backed.model = expected;
    let mut shipper = backed.begin().await;
    ship_all(&mut shipper).await;
    for _ in 0..30 {
        backed.change();
        shipper.step().await.unwrap();
    }
    assert!(backed.restore(None).await.unwrap().1 == backed.model);
    backed.check_states(60).await;
}

#[tokio::test]
async fn pruning_keeps_what_the_window_needs() {
    let mut backed = Backed::new();
    let mut shipper = backed.begin().await;
    for number in 0..400 {
        backed.change();
        shipper.step().await.unwrap();
        if number % 40 == 0 {
            shipper.write_index(true).await.unwrap();
        }
        // A restart leaves a fence, with which an index may begin.
        if number == 120 {
            shipper = backed.begin().await;
        }
    }
    shipper.write_index(true).await.unwrap();
    let middle = backed.states.split_off(200);
    let since_ms = middle[0].0;
    let history = History::load(&backed.place).await.unwrap();
    let before = backed.place.list("log", None).await.unwrap().len();
    let indexes = backed.place.list("index", None).await.unwrap().len();
    let deleted = prune(&backed.place, &history, since_ms).await.unwrap() as usize;
    assert!(deleted > 50, "{deleted} of {before}");
    let left = backed.place.list("index", None).await.unwrap().len();
    assert!(left < indexes, "headers of old pieces stay for ever: {left} of {indexes} indexes");
    let pieces = backed.place.list("log", None).await.unwrap().len();
    assert_eq!(before + indexes - pieces - left, deleted);
    assert!(History::load(&backed.place).await.unwrap().pieces.len() < history.pieces.len());
    backed.states = middle;
    backed.check_states(40).await;
    assert_eq!(verify(&backed.place, Some(since_ms)).await.unwrap().problems, Vec::<String>::new());
    assert_eq!(prune(&backed.place, &history, since_ms).await.unwrap(), 0);
}

#[tokio::test]
async fn damage_and_loss_of_any_object_are_found() {
    let mut backed = Backed::new();
    let mut shipper = backed.begin().await;
    for _ in 0..60 {
        backed.change();
        shipper.step().await.unwrap();
    }
    let names = backed.place.list("log", None).await.unwrap();
    // The first piece has no bytes, and the backup also begins without it.
    for (name, ..) in names.iter().skip(1).step_by(7) {
        let whole = backed.place.read(name).await.unwrap().unwrap();
        let mut changed = whole.to_vec();
        let at = changed.len() - 1;
        changed[at] ^= 1;
        backed.place.put(name, changed.into()).await.unwrap();
        let found = verify(&backed.place, None).await.unwrap();
        assert!(found.problems.iter().any(|problem| problem.contains(name)), "{name}: {:?}", found.problems);
        backed.place.delete(name).await.unwrap();
        let is_last = names.last().is_some_and(|(last, ..)| last == name);
        let found = verify(&backed.place, None).await;
        assert!(is_last || found.is_ok_and(|found| !found.problems.is_empty()), "{name} is lost");
        backed.place.put(name, whole).await.unwrap();
    }
    assert_eq!(verify(&backed.place, None).await.unwrap().problems, Vec::<String>::new());
    assert!(Arc::strong_count(&backed.store) > 1);
}

/// Regression test: behind a damaged index, the pieces before the last index of an epoch were not found, and no state
/// could be restored although all pieces were intact.
#[tokio::test]
async fn a_damaged_index_hides_no_piece() {
    let mut backed = Backed::new();
    let mut shipper = backed.begin().await;
    for number in 0..60 {
        backed.change();
        shipper.step().await.unwrap();
        if number % 20 == 9 {
            shipper.write_index(true).await.unwrap();
        }
    }
    let whole = History::load(&backed.place).await.unwrap().pieces.len();
    let names = backed.place.list("index", None).await.unwrap();
    assert_eq!(names.len(), 3);
    for (name, ..) in names {
        let content = backed.place.read(&name).await.unwrap().unwrap();
        backed.place.put(&name, "damaged".into()).await.unwrap();
        assert_eq!(History::load(&backed.place).await.unwrap().pieces.len(), whole, "{name}");
        backed.check_states(5).await;
        backed.place.put(&name, content).await.unwrap();
    }
}

/// Regression test: the state had the time at which it was shipped, although it lacks the writes since the copy.
#[tokio::test]
async fn a_copy_that_is_shipped_has_the_time_of_the_copy() {
    let mut backed = Backed::new();
    for _ in 0..20 {
        backed.change();
    }
    let at_ms = now_ms() - 3_600_000;
    let shipped = ship_once(backed.place.clone(), backed.catalog(), CATALOG, Directories::default(), at_ms);
    assert!(shipped.await.unwrap().log_bytes > 0);
    let history = History::load(&backed.place).await.unwrap();
    assert_eq!(history.pieces.last().unwrap().header.until_ms, at_ms);
}

#[tokio::test]
async fn a_place_belongs_to_one_catalog() {
    let backed = Backed::new();
    backed.begin().await;
    let engine = Arc::clone(backed.catalog().engine());
    let other = Shipper::begin(backed.place.clone(), engine, "4567", Directories::default()).await;
    assert!(matches!(other.err(), Some(BackupError::Foreign { .. })));
}

/// A key of these tests only.
const KEY: &str = "AGE-SECRET-KEY-1U2HZQSXFTW87ZP8RXP29C0AQXWH4QM3NZAJTTS7UH6K0ZGW8TAASEZ6LJW";
/// Another key of these tests only.
const OTHER_KEY: &str = "AGE-SECRET-KEY-1RRH6NHAH9CNHRFEQDQUVDU7M53TQU78DWP2SMJNQZ4C9W5DY9R4SS5XNX5";

fn age_keys(text: &str) -> Option<Keys> {
    Some(Keys::parse(text).unwrap())
}

#[tokio::test]
async fn an_encrypted_backup_is_restored_with_its_key_only() {
    let mut backed = Backed::new();
    let plain = backed.place.clone();
    backed.place = plain.clone().encrypted(age_keys(KEY));
    let mut shipper = backed.begin().await;
    for _ in 0..40 {
        backed.change();
        ship_all(&mut shipper).await;
    }
    shipper.write_index(true).await.unwrap();
    backed.check_states(20).await;
    assert_eq!(verify(&backed.place, None).await.unwrap().problems, Vec::<String>::new());
    let names = plain.list("", None).await.unwrap();
    assert!(names.len() > 40);
    for (name, ..) in names.iter().filter(|(name, ..)| name != "plimsoll-backup.json") {
        let object = plain.read(name).await.unwrap().unwrap();
        assert!(object.starts_with(b"age-encryption.org/v1\n"), "{name}");
    }
    assert!(matches!(verify(&plain, None).await, Err(BackupError::Encrypted)));
    backed.place = plain.clone().encrypted(age_keys(OTHER_KEY));
    let error = backed.restore(None).await.unwrap_err().to_string();
    assert!(error.contains("another key"), "{error}");
    // A new key first, and the old one behind it.
    backed.place = plain.encrypted(age_keys(&format!("{OTHER_KEY}\n{KEY}")));
    let mut shipper = backed.begin().await;
    backed.change();
    ship_all(&mut shipper).await;
    backed.check_states(20).await;
}

#[tokio::test]
async fn a_place_is_encrypted_from_its_beginning_or_not_at_all() {
    let mut backed = Backed::new();
    backed.change();
    ship_all(&mut backed.begin().await).await;
    let encrypted = backed.place.clone().encrypted(age_keys(KEY));
    assert!(matches!(encrypted.claim(CATALOG).await, Err(BackupError::NotEncrypted)));
    assert!(matches!(verify(&encrypted, None).await, Err(BackupError::NotEncrypted)));
}

#[tokio::test]
async fn bodies_of_all_sizes_survive_encryption_in_parts() {
    let dir = TempDir::new("bodies");
    let plain = Place::new(Backend::new(Arc::new(InMemory::new())));
    for place in [plain.clone(), plain.encrypted(age_keys(KEY))] {
        for length in [0, 1, 65_536, (8 << 20) - 1, 8 << 20, (16 << 20) + 5] {
            let (from, to) = (dir.path().join("from"), dir.path().join("to"));
            let body: Vec<u8> = (0..length).map(|index: usize| (index / 3) as u8).collect();
            std::fs::write(&from, &body).unwrap();
            let file = std::fs::File::open(&from).unwrap();
            assert_eq!(place.upload("blobs/a/b", file).await.unwrap(), length as u64);
            assert!(place.download("blobs/a/b", &to).await.unwrap());
            assert!(std::fs::read(&to).unwrap() == body, "{length} bytes");
            std::fs::remove_file(&to).unwrap();
        }
    }
}
