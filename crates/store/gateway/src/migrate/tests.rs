use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use plimsoll_base::rng::mix;

use super::database::{DatabaseSource, Rows};
use super::directory::DirectorySource;
use super::rows::{RowSource, ScannedRows};
use super::target::{Incomplete, begin};
use super::*;
use crate::config::CatalogPlace;
use plimsoll_catalog::blocking::block_on;
use plimsoll_catalog::embedded::CatalogLimits;
use plimsoll_catalog::embedded::catalog::{CatalogSettings, EmbeddedCatalog};
use plimsoll_catalog::postgres::{Access, Database, PostgresCatalog};
use plimsoll_catalog::{Catalog, Transaction, Value};
use plimsoll_objects::keys;
use plimsoll_testing::directory::TempDir;
use plimsoll_testing::postgres::Postgres;

type Model = BTreeMap<Vec<u8>, Value>;

/// Small segments, so that compaction moves rows while they are copied.
fn directory(root: &Path) -> AnyCatalog {
    let limits = CatalogLimits { segment_bytes: 16 << 10, garbage_share: 0.1, ..CatalogLimits::default() };
    let settings = CatalogSettings { limits, ..CatalogSettings::default() };
    AnyCatalog::Embedded(EmbeddedCatalog::open(root, settings).unwrap().0)
}

fn value(seed: u64) -> Value {
    let bytes = |salt: u64, most: u64| vec![salt as u8; (mix(seed ^ salt) % most) as usize];
    // Some bodies are larger than those that a database returns with their rows.
    let most = if seed.is_multiple_of(23) { 200_000 } else { 300 };
    Value { head: bytes(1, 50).into(), properties: bytes(2, 80).into(), body: bytes(3, most).into() }
}

fn change(catalog: &AnyCatalog, key: &[u8], new: Option<Value>) -> Result<(), CatalogError> {
    let key = key.to_vec();
    let work = Box::new(move |t: &mut dyn Transaction| {
        match &new {
            Some(value) => t.put(key.clone(), value.clone()),
            None => t.delete(key.clone()),
        }
        Ok(true)
    });
    block_on(catalog.commit(work, 1000))
}

fn content(rows: &mut dyn RowSource) -> Model {
    let mut found = Model::new();
    while let Some((key, value)) = rows.next().unwrap() {
        found.insert(key, value);
    }
    found
}

/// A copy that is slow: before its first rows are written, others write to the catalog. Later it must not wait for
/// others, because the last rows are copied while nobody can write.
struct Slow(Box<dyn CatalogCopy>, Arc<AtomicU64>, AtomicBool);

impl CatalogCopy for Slow {
    fn write(&self, rows: Vec<(Vec<u8>, Option<Value>)>, bytes: usize) -> Result<(), CatalogError> {
        let Slow(copy, written, waited) = self;
        let start = written.load(Ordering::Relaxed);
        if !waited.swap(true, Ordering::Relaxed) {
            while written.load(Ordering::Relaxed) < start + 100 {
                std::thread::yield_now();
            }
        }
        copy.write(rows, bytes)
    }

    fn complete(self: Box<Self>) -> Result<(), Incomplete> {
        self.0.complete()
    }
}

/// Changes rows until the catalog refuses it. Returns what was acknowledged, and the change that was refused.
fn write(catalog: &AnyCatalog, mut model: Model, done: &AtomicBool, written: &AtomicU64) -> (Model, Vec<u8>) {
    for number in 10_000.. {
        let key = [b"o".as_slice(), &(mix(number) % 3000).to_be_bytes()].concat();
        let new = (!mix(number ^ 9).is_multiple_of(4)).then(|| value(number));
        if done.load(Ordering::Relaxed) || change(catalog, &key, new.clone()).is_err() {
            return (model, key);
        }
        match new {
            Some(value) => model.insert(key, value),
            None => model.remove(&key),
        };
        written.fetch_add(1, Ordering::Relaxed);
    }
    unreachable!("there are always more numbers")
}

/// Fills a catalog, moves it while it is changed, and returns what the copy must have. The last change may have been
/// committed although it was refused.
fn move_while_changing(
    catalog: &AnyCatalog,
    source: &mut dyn Source,
    to: &CatalogPlace,
    mut model: Model,
) -> (Model, Vec<u8>) {
    for number in 0..2000u64 {
        let (key, value) = ([b"o".as_slice(), &number.to_be_bytes()].concat(), value(number));
        change(catalog, &key, Some(value.clone())).unwrap();
        model.insert(key, value);
    }
    let (done, written) = (AtomicBool::new(false), Arc::new(AtomicU64::new(0)));
    let copy = Box::new(Slow(begin(to).unwrap(), Arc::clone(&written), AtomicBool::default()));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(catalog, model, &done, &written));
        let moved = migrate(source, copy, "the other place", &mut |_| Ok(()));
        done.store(true, Ordering::Relaxed);
        let moved = moved.unwrap();
        assert!(moved.rows >= 1000 && moved.changed + moved.last > 0, "{moved:?}");
        writer.join().unwrap()
    })
}

fn assert_same(mut expected: Model, mut found: Model, unknown: &[u8]) {
    expected.remove(unknown);
    found.remove(unknown);
    let differs = |key: &&Vec<u8>| expected.get(*key) != found.get(*key);
    let wrong = expected.keys().chain(found.keys()).filter(differs).count();
    assert_eq!(wrong, 0, "of {} rows", expected.len());
}

#[test]
fn a_directory_moves_to_another_one_while_it_is_changed() {
    let dir = TempDir::new("migrate");
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    let catalog = directory(&from);
    let mut source = DirectorySource::new(&catalog, &from).unwrap().unwrap();
    let place = CatalogPlace::Directory(to.clone());
    let (expected, unknown) = move_while_changing(&catalog, &mut source, &place, Model::new());
    let copy = directory(&to);
    assert_same(expected, content(&mut ScannedRows::new(&copy)), &unknown);
    drop(source);
    drop(catalog);
    let error = EmbeddedCatalog::open(&from, Default::default()).err().unwrap().to_string();
    assert!(error.contains("was moved to the other place") && error.contains("MOVED"), "{error}");
    let error = begin(&place).err().unwrap().to_string();
    assert!(error.contains("something already"), "{error}");
    copy.close().unwrap();
}

#[test]
fn a_catalog_moves_into_a_database_and_back_while_it_is_changed() {
    let Some(server) = Postgres::start() else { return };
    let database = Database::parse(&server.url(), None).unwrap();
    let dir = TempDir::new("migrate");
    let (from, back) = (dir.path().join("from"), dir.path().join("back"));
    let catalog = directory(&from);
    let mut source = DirectorySource::new(&catalog, &from).unwrap().unwrap();
    let place = CatalogPlace::Database(Box::new(database.clone()));
    let (expected, unknown) = move_while_changing(&catalog, &mut source, &place, Model::new());
    let open = || PostgresCatalog::open(&database, Access::Create);
    let opened = Arc::new(AnyCatalog::Postgres(open().unwrap()));
    let AnyCatalog::Postgres(postgres) = &*opened else { unreachable!() };
    let found = content(&mut Rows::begin(postgres).unwrap());
    assert_same(expected, found.clone(), &unknown);
    let occupied = begin(&place).err().unwrap().to_string();
    assert!(occupied.contains("there is a catalog in the database already"), "{occupied}");

    // Two gateways use the database, and one of them knows nothing of the move.
    let other = AnyCatalog::Postgres(open().unwrap());
    let mut source = DatabaseSource::new(&opened).unwrap().unwrap();
    assert!(DatabaseSource::new(&other).is_err(), "one process moves a catalog at a time");
    let (expected, unknown) =
        move_while_changing(&other, &mut source, &CatalogPlace::Directory(back.clone()), found);
    let copy = directory(&back);
    assert_same(expected, content(&mut ScannedRows::new(&copy)), &unknown);
    drop(source);
    let refused = change(&other, b"o", None).unwrap_err().to_string();
    assert!(refused.contains("was it moved?"), "{refused}");
    assert!(other.get(b"o").is_err(), "nobody reads what is old");
    for access in [Access::Create, Access::ReadOnly] {
        let error = PostgresCatalog::open(&database, access).err().unwrap().to_string();
        assert!(error.contains("was moved to the other place"), "{error}");
    }
    copy.close().unwrap();
}

#[test]
fn an_unfinished_copy_in_a_database_is_no_catalog_and_is_begun_again() {
    let Some(server) = Postgres::start() else { return };
    let database = Database::parse(&server.url(), None).unwrap();
    let place = CatalogPlace::Database(Box::new(database.clone()));
    let copy = begin(&place).unwrap();
    let row = |key: &str| vec![(key.as_bytes().to_vec(), Some(value(1)))];
    copy.write(row("a"), 10).unwrap();
    for access in [Access::ReadOnly, Access::Create] {
        let error = PostgresCatalog::open(&database, access).err().unwrap().to_string();
        assert!(error.contains("a copy of a catalog that is not complete"), "{error}");
    }
    let error = begin(&place).err().unwrap().to_string();
    assert!(error.contains("another process writes a copy"), "{error}");
    drop(copy);
    // The server ends the connection soon.
    let copy = std::iter::repeat_with(|| begin(&place)).find_map(Result::ok).unwrap();
    copy.write(row("b"), 10).unwrap();
    copy.write(row("c"), 10).unwrap();
    copy.write(vec![(b"c".to_vec(), None), (b"d".to_vec(), Some(value(2)))], 10).unwrap();
    copy.complete().unwrap();
    let catalog = PostgresCatalog::open(&database, Access::Create).unwrap();
    let found = [b"a", b"b", b"c", b"d"].map(|key| catalog.get(key).unwrap().is_some());
    assert_eq!(found, [false, true, false, true]);
}

#[test]
fn one_process_moves_a_catalog_and_sessions_stay_behind() {
    let dir = TempDir::new("migrate");
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    let catalog = directory(&from);
    for key in [keys::LEASES.to_vec(), keys::lease(1), keys::TIME.to_vec(), b"o".to_vec()] {
        change(&catalog, &key, Some(value(1))).unwrap();
    }
    let mut source = DirectorySource::new(&catalog, &from).unwrap().unwrap();
    assert!(DirectorySource::new(&catalog, &from).is_err(), "another command would take a part of the keys");
    let place = CatalogPlace::Directory(to.clone());
    let copy = begin(&place).unwrap();
    assert!(begin(&place).is_err(), "another command would write into the same copy");
    migrate(&mut source, copy, "", &mut |_| Ok(())).unwrap();
    let copy = directory(&to);
    let found = [keys::LEASES.to_vec(), keys::lease(1), keys::TIME.to_vec(), b"o".to_vec()];
    assert_eq!(found.map(|key| copy.get(&key).unwrap().is_some()), [true, false, false, true]);
    copy.close().unwrap();
}

/// A copy whose end fails.
struct Failing(Box<dyn CatalogCopy>);

impl CatalogCopy for Failing {
    fn write(&self, rows: Vec<(Vec<u8>, Option<Value>)>, bytes: usize) -> Result<(), CatalogError> {
        self.0.write(rows, bytes)
    }

    fn complete(self: Box<Self>) -> Result<(), Incomplete> {
        Err(Incomplete::Certainly(CatalogError::DiskFull))
    }
}

#[test]
fn a_copy_that_fails_at_its_end_leaves_the_catalog_in_use() {
    let dir = TempDir::new("migrate");
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    let place = CatalogPlace::Directory(to.clone());
    let catalog = directory(&from);
    change(&catalog, b"o", Some(value(1))).unwrap();
    let mut source = DirectorySource::new(&catalog, &from).unwrap().unwrap();
    let copy = Box::new(Failing(begin(&place).unwrap()));
    assert!(migrate(&mut source, copy, "", &mut |_| Ok(())).is_err());
    assert!(!to.exists());
    drop(source);
    drop(catalog);
    assert!(directory(&from).get(b"o").unwrap().is_some());
    if let Some(server) = Postgres::start() {
        let database = Database::parse(&server.url(), None).unwrap();
        let catalog = AnyCatalog::Postgres(PostgresCatalog::open(&database, Access::Create).unwrap());
        change(&catalog, b"o", Some(value(1))).unwrap();
        let mut source = DatabaseSource::new(&catalog).unwrap().unwrap();
        let copy = Box::new(Failing(begin(&place).unwrap()));
        assert!(migrate(&mut source, copy, "it's there", &mut |_| Ok(())).is_err());
        drop(source);
        change(&catalog, b"p", Some(value(1))).unwrap();
        assert!(PostgresCatalog::open(&database, Access::Create).unwrap().get(b"o").unwrap().is_some());
    }
}
