//! Facts that every catalog must satisfy.

use std::ops::Bound;

use plimsoll_base::rng::Stream;

use crate::blocking::block_on;
use plimsoll_testing::postgres::Postgres;

use super::embedded::catalog::{CatalogSettings, EmbeddedCatalog};
use super::embedded::{CatalogLimits, head_only};
use super::memory::MemoryCatalog;
use super::postgres::{Access, Database, PostgresCatalog};
use super::{Catalog, CatalogError, Expected, KnownReads, Transaction, Value, Work};

fn value(head: &str, body: &[u8]) -> Value {
    Value { head: head.as_bytes().to_vec().into(), properties: "p".into(), body: body.to_vec().into() }
}

fn commit(catalog: &impl Catalog, work: Work) -> Result<(), CatalogError> {
    block_on(catalog.commit(work, 0))
}

fn put(catalog: &impl Catalog, key: &'static str, value: Value) {
    let work: Work = Box::new(move |t| {
        t.put(key.into(), value.clone());
        Ok(true)
    });
    commit(catalog, work).unwrap();
}

fn keys(catalog: &impl Catalog, from: Bound<&[u8]>) -> Vec<String> {
    let mut scan = catalog.scan();
    scan.seek(from).unwrap();
    std::iter::from_fn(|| scan.next().unwrap()).map(|(key, _)| String::from_utf8(key).unwrap()).collect()
}

fn conforms(catalog: &impl Catalog) {
    for key in ["b", "d", "a", "c"] {
        put(catalog, key, value(key, &[7; 2000]));
    }
    let row = catalog.get(b"c").unwrap().unwrap();
    assert_eq!(&row.head[..], b"c");
    assert_eq!(catalog.value(b"c", &row).unwrap(), value("c", &[7; 2000]));
    assert_eq!(&catalog.properties(b"c", &row).unwrap()[..], b"p");
    assert_eq!(catalog.get(b"x").unwrap(), None);
    assert_eq!(keys(catalog, Bound::Unbounded), ["a", "b", "c", "d"]);
    assert_eq!(keys(catalog, Bound::Excluded(b"b")), ["c", "d"]);
    assert_eq!(keys(catalog, Bound::Included(b"bb")), ["c", "d"]);
    a_transaction_sees_its_own_writes(catalog);
    a_dropped_transaction_changes_nothing(catalog);
    let work: Work = Box::new(|t| {
        t.delete(b"b".to_vec());
        t.delete(b"missing".to_vec());
        t.put(b"a".to_vec(), head_only("new"));
        Ok(true)
    });
    commit(catalog, work).unwrap();
    assert_eq!(keys(catalog, Bound::Unbounded), ["a", "c", "d"]);
    assert_eq!(&catalog.get(b"a").unwrap().unwrap().head[..], b"new");
}

fn a_transaction_sees_its_own_writes(catalog: &impl Catalog) {
    let work: Work = Box::new(|t| {
        assert_eq!(t.first(b"", b"a")?.unwrap().0, b"a");
        t.delete(b"a".to_vec());
        assert_eq!(t.get(b"a")?, None);
        assert_eq!(t.first(b"", b"a")?.unwrap().0, b"b");
        t.put(b"aa".to_vec(), value("aa", b"body"));
        let row = t.get(b"aa")?.unwrap();
        assert_eq!(t.value(&row)?, value("aa", b"body"));
        assert_eq!(t.first(b"", b"")?.unwrap().0, b"aa");
        assert_eq!(t.first(b"x", b"x")?, None);
        t.delete(b"aa".to_vec());
        t.put(b"a".to_vec(), value("a", &[7; 2000]));
        let row = t.get(b"b")?.unwrap();
        assert_eq!(t.value(&row)?, value("b", &[7; 2000]));
        Ok(true)
    });
    commit(catalog, work).unwrap();
    assert_eq!(keys(catalog, Bound::Unbounded), ["a", "b", "c", "d"]);
}

fn a_dropped_transaction_changes_nothing(catalog: &impl Catalog) {
    let work: Work = Box::new(|t| {
        t.put(b"zz".to_vec(), head_only("zz"));
        t.delete(b"a".to_vec());
        Ok(false)
    });
    commit(catalog, work).unwrap();
    let work: Work = Box::new(|t| {
        t.put(b"zz".to_vec(), head_only("zz"));
        Err(CatalogError::DiskFull)
    });
    assert!(matches!(commit(catalog, work), Err(CatalogError::DiskFull)));
    assert_eq!(keys(catalog, Bound::Unbounded), ["a", "b", "c", "d"]);
}

#[test]
fn the_memory_catalog_conforms() {
    conforms(&MemoryCatalog::default());
}

#[test]
fn a_postgres_catalog_conforms_and_survives_a_restart() {
    let Some(server) = Postgres::start() else { return };
    let database = Database::parse(&server.url(), None).unwrap();
    let open = |access| PostgresCatalog::open(&database, access);
    let error = open(Access::ReadOnly).err().unwrap();
    assert!(error.to_string().contains("no catalog in the database"), "{error}");
    let catalog = open(Access::Create).unwrap();
    conforms(&catalog);
    put(&catalog, "large", value("large", &vec![7; 3 << 20]));
    let row = catalog.get(b"large").unwrap().unwrap();
    assert_eq!((row.place.body, catalog.value(b"large", &row).unwrap().body.len()), (3 << 20, 3 << 20));
    put(&catalog, "large", head_only("new"));
    assert!(matches!(catalog.value(b"large", &row), Err(CatalogError::Changed)));
    let reader = open(Access::ReadOnly).unwrap();
    put(&reader, "dropped", head_only("dropped"));
    assert_eq!(keys(&reader, Bound::Unbounded), ["a", "c", "d", "large"]);
    server.kill();
    let work: Work = Box::new(|_| Ok(true));
    assert!(matches!(commit(&catalog, work), Err(CatalogError::Unavailable(_))));
    assert!(matches!(catalog.get(b"a"), Err(CatalogError::Unavailable(_))));
    let server = server.restart();
    while catalog.get(b"a").is_err() {}
    assert_eq!(keys(&catalog, Bound::Unbounded), ["a", "c", "d", "large"]);
    put(&catalog, "e", head_only("e"));
    drop(server);
}

#[test]
fn transactions_of_several_postgres_catalogs_are_serial() {
    let Some(server) = Postgres::start() else { return };
    let database = Database::parse(&server.url(), None).unwrap();
    let catalogs: Vec<_> =
        (0..3).map(|_| PostgresCatalog::open(&database, Access::Create).unwrap()).collect();
    std::thread::scope(|threads| {
        for catalog in &catalogs {
            for _ in 0..4 {
                threads.spawn(|| {
                    for _ in 0..50 {
                        let work: Work = Box::new(|t| {
                            let row = t.get(b"count")?;
                            let count =
                                row.map_or(0, |row| u64::from_be_bytes(row.head[..].try_into().unwrap()));
                            t.put(b"count".to_vec(), head_only((count + 1).to_be_bytes().to_vec()));
                            Ok(true)
                        });
                        commit(catalog, work).unwrap();
                    }
                });
            }
        }
    });
    let row = catalogs[0].get(b"count").unwrap().unwrap();
    assert_eq!(row.head[..], 600u64.to_be_bytes());
}

/// Moves one from an account to another one, which exist while they are not zero.
fn transfer(from: usize, to: usize) -> Work {
    let account = |number: usize| format!("account {number}").into_bytes();
    Box::new(move |t| {
        let balance = |t: &mut dyn Transaction, number| {
            let row = t.get(&account(number))?;
            Ok::<_, CatalogError>(row.map_or(0, |row| u64::from_be_bytes(row.head[..].try_into().unwrap())))
        };
        let (left, right) = (balance(t, from)?, balance(t, to)?);
        if left == 0 || from == to {
            return Ok(true);
        }
        for (number, balance) in [(from, left - 1), (to, right + 1)] {
            match balance {
                0 => t.delete(account(number)),
                _ => t.put(account(number), head_only(balance.to_be_bytes().to_vec())),
            }
        }
        Ok(true)
    })
}

/// Opens or closes a bucket, which is closed only while it is empty, or writes or removes an object while it is open.
fn use_bucket(choice: usize, object: usize) -> Work {
    let object = format!("object {object}").into_bytes();
    Box::new(move |t| {
        let is_open = t.get(b"bucket")?.is_some_and(|row| row.head[..] == *b"open");
        let write =
            |t: &mut dyn Transaction, state: &'static str| t.put(b"bucket".to_vec(), head_only(state));
        match choice {
            0 => {
                let is_empty = t.first(b"object", b"object")?.is_none();
                assert!(is_open || is_empty, "an object was written to a closed bucket");
                write(t, if is_open && is_empty { "closed" } else { "open" });
            }
            _ if !is_open => {}
            1 => t.put(object.clone(), head_only("")),
            _ => t.delete(object.clone()),
        }
        Ok(true)
    })
}

#[test]
fn transactions_with_known_reads_are_serial() {
    const ACCOUNTS: usize = 6;
    let Some(server) = Postgres::start() else { return };
    let database = Database::parse(&server.url(), None).unwrap();
    let catalogs: Vec<_> =
        (0..2).map(|_| PostgresCatalog::open(&database, Access::Create).unwrap()).collect();
    for number in 0..ACCOUNTS {
        let work: Work = Box::new(move |t| {
            t.put(format!("account {number}").into_bytes(), head_only(2u64.to_be_bytes().to_vec()));
            Ok(true)
        });
        commit(&catalogs[0], work).unwrap();
    }
    let known = |keys: Vec<Vec<u8>>| Expected { bytes: 0, reads: KnownReads { keys, is_complete: true } };
    std::thread::scope(|threads| {
        for (number, catalog) in catalogs.iter().cycle().take(8).enumerate() {
            threads.spawn(move || {
                let (random, mut turn) = (Stream::new(number as u64, "serial"), 0);
                let mut below = |limit: usize| {
                    turn += 1;
                    random.below(turn, limit as u64) as usize
                };
                for _ in 0..60 {
                    let (from, to) = (below(ACCOUNTS), below(ACCOUNTS));
                    let mut keys = vec![format!("account {from}").into_bytes()];
                    // Without the other account, the transaction is executed again under the lock.
                    if below(4) > 0 {
                        keys.push(format!("account {to}").into_bytes());
                    }
                    let expected = if below(5) > 0 { known(keys) } else { 0.into() };
                    block_on(catalog.commit(transfer(from, to), expected)).unwrap();
                    let (choice, object) = (below(5), below(3));
                    let keys = vec![b"bucket".to_vec(), format!("object {object}").into_bytes()];
                    let expected = if choice > 0 { known(keys) } else { 0.into() };
                    block_on(catalog.commit(use_bucket(choice, object), expected)).unwrap();
                }
            });
        }
    });
    let balance = |number| catalogs[0].get(format!("account {number}").as_bytes()).unwrap();
    let balances = (0..ACCOUNTS).filter_map(balance);
    let sum: u64 = balances.map(|row| u64::from_be_bytes(row.head[..].try_into().unwrap())).sum();
    assert_eq!(sum, 2 * ACCOUNTS as u64);
}

#[test]
fn the_embedded_catalog_conforms_and_survives_a_restart() {
    let directory = plimsoll_testing::directory::TempDir::new("conformance");
    // Small limits, so that the test covers tables, merges and several segments.
    let limits = CatalogLimits {
        segment_bytes: 4096,
        memtable_entries: 2,
        reserve_bytes: 0,
        ..CatalogLimits::default()
    };
    let settings = CatalogSettings { limits, ..CatalogSettings::default() };
    let (catalog, recovery) = EmbeddedCatalog::open(directory.path(), settings).unwrap();
    assert!(recovery.damage.is_empty() && recovery.rebuilt.is_none(), "{recovery:?}");
    conforms(&catalog);
    for _ in 0..2 {
        catalog.close().unwrap();
    }
    drop(catalog);
    let (catalog, recovery) = EmbeddedCatalog::open(directory.path(), settings).unwrap();
    assert!(recovery.damage.is_empty() && recovery.replayed_bytes == 0, "{recovery:?}");
    assert_eq!(keys(&catalog, Bound::Unbounded), ["a", "c", "d"]);
    let error = EmbeddedCatalog::open(directory.path(), settings).err().unwrap();
    assert!(error.to_string().contains("another process uses this directory"), "{error}");
}
