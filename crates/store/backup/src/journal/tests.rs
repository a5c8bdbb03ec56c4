//! Tests of a catalog with a journal as a whole.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use object_store::memory::InMemory;

use super::end::JournalEnd;
use super::start::{JournalSettings, has_journal, leave, open};
use crate::error::BackupError;
use crate::place::Place;
use plimsoll_bodies::tier::Backend;
use plimsoll_catalog::blocking::block_on;
use plimsoll_catalog::embedded::CatalogLimits;
use plimsoll_catalog::embedded::catalog::{CatalogSettings, EmbeddedCatalog};
use plimsoll_catalog::{Catalog, CatalogError, Transaction, Value};
use plimsoll_objects::keys;
use plimsoll_testing::directory::{TempDir, copy_directory};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

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

fn place() -> Place {
    Place::new(Backend::new(Arc::new(InMemory::new())))
}

fn start(root: &Path, place: &Place) -> EmbeddedCatalog {
    // Long enough for every test: no process takes the lead from a living one.
    let journal = JournalSettings { place: place.clone(), lease_ms: 600_000, has_groups: true };
    let started = open(root, settings(), &journal).unwrap();
    assert!(started.recovery.damage.is_empty(), "{:?}", started.recovery.damage);
    started.catalog
}

fn write(catalog: &EmbeddedCatalog, model: &mut Model, range: std::ops::Range<u64>) {
    for number in range {
        let key = format!("key {}", number % 50).into_bytes();
        let body = vec![number as u8; 100 + number as usize % 50];
        model.insert(key.clone(), body.clone());
        let value = Value { body: body.into(), ..Value::default() };
        let work = Box::new(move |t: &mut dyn Transaction| {
            t.put(key.clone(), value.clone());
            Ok(true)
        });
        block_on(catalog.commit(work, 1000)).unwrap();
    }
}

fn content(catalog: &EmbeddedCatalog) -> Model {
    let mut scan = catalog.scan();
    let mut found = Model::new();
    while let Some((key, row)) = scan.next().unwrap() {
        if ![keys::TIME, keys::IDENTITY, keys::BACKUP].contains(&&key[..]) {
            let body = catalog.value(&key, &row).unwrap().body.to_vec();
            found.insert(key, body);
        }
    }
    found
}

/// Ends the use of the directory.
fn close(catalog: EmbeddedCatalog) {
    catalog.close().unwrap();
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_catalog_outlives_its_directory() {
    let (dir, place, mut model) = (TempDir::new("journal"), place(), Model::new());
    for round in 0..3 {
        let root = dir.path().join(format!("machine {round}"));
        let catalog = start(&root, &place);
        assert_eq!(content(&catalog), model);
        write(&catalog, &mut model, 1000 * round..1000 * round + 300);
        assert_eq!(content(&catalog), model);
        close(catalog);
    }
    let last = start(&dir.path().join("machine 2"), &place);
    assert_eq!(content(&last), model);
    close(last);
}

#[test]
fn entries_that_the_backup_has_are_deleted_at_the_next_start() {
    let (dir, place, mut model) = (TempDir::new("journal"), place(), Model::new());
    let catalog = start(&dir.path().join("catalog"), &place);
    write(&catalog, &mut model, 0..100);
    close(catalog);
    let end = block_on(JournalEnd::find(&place)).unwrap();
    assert!(end.numbers.len() >= 100, "{} entries", end.numbers.len());
    close(start(&dir.path().join("catalog"), &place));
    let after = block_on(JournalEnd::find(&place)).unwrap();
    assert_eq!(after.groups_epoch, end.epoch + 1);
    assert!(after.numbers.len() < 10, "{:?}", after.numbers);
    assert!(after.numbers[0] > end.number);
}

/// As after the loss of the power: the disk may have less than the journal.
#[test]
fn an_older_directory_gets_what_it_does_not_have() {
    let (dir, place, mut model) = (TempDir::new("journal"), place(), Model::new());
    let (root, old) = (dir.path().join("catalog"), dir.path().join("old"));
    let catalog = start(&root, &place);
    write(&catalog, &mut model, 0..40);
    close(catalog);
    copy_directory(&root, &old);
    let catalog = start(&root, &place);
    write(&catalog, &mut model, 40..60);
    close(catalog);
    let catalog = start(&old, &place);
    assert_eq!(content(&catalog), model);
    close(catalog);
    let aside: Vec<String> = names(&old).into_iter().filter(|name| name.starts_with("replaced-")).collect();
    assert!(aside.is_empty(), "it was continued, and not replaced: {aside:?}");
}

#[test]
fn a_directory_with_other_writes_is_replaced_and_kept() {
    let (dir, place, mut model) = (TempDir::new("journal"), place(), Model::new());
    let (root, other) = (dir.path().join("catalog"), dir.path().join("other"));
    let catalog = start(&root, &place);
    write(&catalog, &mut model, 0..40);
    close(catalog);
    copy_directory(&root, &other);
    let catalog = start(&root, &place);
    write(&catalog, &mut model, 40..60);
    close(catalog);
    let (catalog, _) = EmbeddedCatalog::open(&other, settings()).unwrap();
    write(&catalog, &mut Model::new(), 60..70);
    close(catalog);
    let catalog = start(&other, &place);
    assert_eq!(content(&catalog), model);
    close(catalog);
    let kept: Vec<String> = names(&other).into_iter().filter(|name| name.starts_with("replaced-")).collect();
    assert_eq!(kept.len(), 1, "{:?}", names(&other));
    let left = names(&other.join(&kept[0]));
    assert_eq!(left.len(), 3, "the log, its index, and the end of what was shipped: {left:?}");
}

#[test]
fn a_catalog_leaves_its_journal() {
    let (dir, place, mut model) = (TempDir::new("journal"), place(), Model::new());
    let root = dir.path().join("catalog");
    let catalog = start(&root, &place);
    write(&catalog, &mut model, 0..10);
    close(catalog);
    assert!(has_journal(&root));
    leave(&root, settings(), &JournalSettings { place: place.clone(), lease_ms: 600_000, has_groups: true })
        .unwrap();
    assert!(!has_journal(&root));
    let (catalog, _) = EmbeddedCatalog::open(&root, settings()).unwrap();
    assert_eq!(content(&catalog), model);
    close(catalog);
}

#[test]
fn the_journal_of_another_catalog_is_not_touched() {
    let (dir, place, mut model) = (TempDir::new("journal"), place(), Model::new());
    let catalog = start(&dir.path().join("one"), &place);
    write(&catalog, &mut model, 0..10);
    let (other, _) = EmbeddedCatalog::open(&dir.path().join("other"), settings()).unwrap();
    block_on(plimsoll_objects::owner::identify(&other)).unwrap();
    close(other);
    let journal = JournalSettings { place: place.clone(), lease_ms: 600_000, has_groups: true };
    let error = open(&dir.path().join("other"), settings(), &journal).err().unwrap();
    assert!(matches!(error, BackupError::Foreign { .. }), "{error}");
    write(&catalog, &mut model, 10..20);
    assert_eq!(content(&catalog), model);
    close(catalog);
}

/// The writes of a process whose epoch another one has ended are refused, and it reads nothing any more.
#[test]
fn a_fenced_process_neither_writes_nor_reads() {
    let (dir, place, mut model) = (TempDir::new("journal"), place(), Model::new());
    let catalog = start(&dir.path().join("old"), &place);
    write(&catalog, &mut model, 0..10);
    let end = block_on(JournalEnd::find(&place)).unwrap();
    // As if its lease had ended, from its own directory.
    let writer = end.last.as_ref().unwrap().header.writer.clone();
    let candidate =
        super::take_over::Candidate { writer: "new".into(), ended: vec![writer], lease_ms: 600_000 };
    block_on(super::take_over::take_over(&place, &candidate, async |_| Ok(()))).unwrap();
    let work = Box::new(|t: &mut dyn Transaction| {
        t.put(b"late".to_vec(), Value::default());
        Ok(true)
    });
    let error = block_on(catalog.commit(work, 10)).unwrap_err();
    assert!(matches!(error, CatalogError::Unavailable(_)), "{error}");
    assert!(matches!(catalog.get(b"key 1"), Err(CatalogError::Unavailable(_))));
    assert!(catalog.close().is_err());
}
