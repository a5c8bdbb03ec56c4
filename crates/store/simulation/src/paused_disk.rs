//! Work on the index beside a merge of tables that takes long.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use super::disk::{Faults, SimulatedDisk};
use super::{Model, Random, content, key, small_limits, value};
use plimsoll_catalog::Work;
use plimsoll_catalog::disk::{Disk, DiskFile};
use plimsoll_catalog::embedded::CatalogLimits;
use plimsoll_catalog::embedded::recovery::open;

/// A disk that pauses the next creation of a table until a message arrives.
struct PausedDisk {
    disk: SimulatedDisk,
    is_armed: AtomicBool,
    reached: Sender<()>,
    go_on: Mutex<Receiver<()>>,
}

impl Disk for PausedDisk {
    fn create(&self, directory: &str, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        if directory == "index" && self.is_armed.swap(false, Ordering::AcqRel) {
            self.reached.send(()).unwrap();
            self.go_on.lock().unwrap().recv().unwrap();
        }
        self.disk.create(directory, name)
    }

    fn open(&self, directory: &str, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.open(directory, name)
    }

    fn rename(&self, directory: &str, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(directory, from, to)
    }

    fn remove(&self, directory: &str, name: &str) -> io::Result<()> {
        self.disk.remove(directory, name)
    }

    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        self.disk.list(directory)
    }

    fn sync_directory(&self, directory: &str) -> io::Result<()> {
        self.disk.sync_directory(directory)
    }

    fn free_bytes(&self) -> io::Result<u64> {
        self.disk.free_bytes()
    }

    fn random(&self) -> io::Result<u64> {
        self.disk.random()
    }
}

/// Regression test: a merge of large tables held the flushes of memtables, for which commits wait.
#[test]
fn a_merge_of_tables_holds_neither_a_flush_nor_a_rebuild() {
    for is_rebuilt in [false, true] {
        let mut random = Random(5);
        let simulated = SimulatedDisk::new(1, Faults::default());
        let (reached, is_reached) = channel();
        let (goes_on, go_on) = channel();
        let disk = Arc::new(PausedDisk {
            disk: simulated.clone(),
            is_armed: AtomicBool::new(false),
            reached,
            go_on: Mutex::new(go_on),
        });
        let limits = CatalogLimits { fan_in: 2, ..small_limits(&mut random) };
        let (engine, mut writer, _) = open(Arc::clone(&disk) as Arc<dyn Disk>, limits).unwrap();
        let mut model = Model::new();
        let mut flush = |random: &mut Random| {
            let (key, new) = (key(random), value(random));
            model.insert(key.clone(), new.body.to_vec());
            let work: Work = Box::new(move |t| {
                t.put(key.clone(), new.clone());
                Ok(true)
            });
            assert!(writer.commit(vec![work], true)[0].is_ok());
            writer.freeze();
            engine.flush().unwrap();
        };
        (0..4).for_each(|_| flush(&mut random));
        disk.is_armed.store(true, Ordering::Release);
        std::thread::scope(|scope| {
            let merge = scope.spawn(|| engine.merge_step(true).unwrap());
            is_reached.recv().unwrap();
            let before = engine.tables();
            flush(&mut random);
            assert_eq!(engine.tables(), before + 1, "flushed during the merge");
            if is_rebuilt {
                engine.rebuild_index().unwrap();
            }
            goes_on.send(()).unwrap();
            assert!(merge.join().unwrap());
        });
        assert_eq!(engine.tables(), if is_rebuilt { 1 } else { 2 });
        assert_eq!(content(&engine).unwrap(), model);
        drop((engine, writer));
        let (engine, _, recovery) = open(Arc::new(simulated.killed()), limits).unwrap();
        assert!(recovery.damage.is_empty(), "{:?}", recovery.damage);
        assert_eq!(content(&engine).unwrap(), model);
    }
}
