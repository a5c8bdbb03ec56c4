//! A directory as a store: what EFS and any POSIX mount are. `file:///mnt/efs?fsync=on&rename=on&dirsync=off`.
//!
//! A put takes these steps, each of which can be switched off to see what it costs: write to a temporary file beside the object
//! (`rename=off`: write to the object itself, which readers may then see half written), bring it to the disk with fdatasync
//! (`fsync=off`: leave that to the kernel), rename it into place. `dirsync=on` adds an fsync of the directory, without which a power cut may
//! undo the rename. Reads come from the page cache where the kernel has it.
//!
//! Every connection has a thread of its own, because file operations block; handing over to it is part of the service time (some
//! microseconds). [`path`] says where a key lives, [`work`] does the operations.

pub mod path;
mod work;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use bytes::Bytes;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::{Body, Connection, Description, ErrorClass, Failure, Local, Observer, Reply, Request, Store};
use crate::clock::now_ns;
use work::{Job, Worker, WorkerReply};

/// Which steps a put takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Steps {
    /// Bring the content to the disk before the object appears.
    pub fsync: bool,
    /// Write to a temporary file and rename it.
    pub rename: bool,
    /// Bring the directory entry to the disk as well.
    pub dirsync: bool,
}

impl Default for Steps {
    fn default() -> Steps {
        Steps { fsync: true, rename: true, dirsync: false }
    }
}

/// A directory.
pub struct FileStore {
    root: Arc<Path>,
    redacted: String,
    container: String,
    steps: Steps,
}

impl FileStore {
    /// The directory `root`, which need not be there yet.
    pub fn new(root: PathBuf, redacted: &str, steps: Steps) -> FileStore {
        let container = root.display().to_string();
        FileStore { root: root.into(), redacted: redacted.into(), container, steps }
    }
}

impl Store for FileStore {
    fn describe(&self) -> Description {
        let on = |name: &str, on: bool| format!("{name} {}", if on { "on" } else { "off" });
        let Steps { fsync, rename, dirsync } = self.steps;
        Description {
            url: self.redacted.clone(),
            provider: "file".into(),
            endpoint: self.root.display().to_string(),
            addresses: Vec::new(),
            signing: [on("fsync", fsync), on("rename", rename), on("dirsync", dirsync)].join(", "),
        }
    }

    fn connection(&self, _: usize) -> Box<dyn Connection> {
        Box::new(FileConnection { root: Arc::clone(&self.root), steps: self.steps, hand: None, busy: false })
    }

    fn container(&self) -> &str {
        &self.container
    }

    fn tidy(&self, prefix: &str, process: u32) {
        path::remove_temporary(&self.root, prefix, process);
        path::remove_empty(&self.root, prefix);
    }
}

/// The thread of a connection as the connection holds it.
struct Hand {
    jobs: Sender<Job>,
    told: UnboundedReceiver<WorkerReply>,
}

struct FileConnection {
    root: Arc<Path>,
    steps: Steps,
    hand: Option<Hand>,
    /// An operation was begun and its end not heard: the thread may hang in it.
    busy: bool,
}

impl FileConnection {
    fn hand(&mut self) -> std::io::Result<&mut Hand> {
        if self.busy {
            // Whatever the thread still does, it does for nobody.
            self.hand = None;
            self.busy = false;
        }
        let hand = match self.hand.take() {
            Some(hand) => hand,
            None => {
                let (jobs, inbox) = channel();
                let (outbox, told) = unbounded_channel();
                let worker = Worker { root: Arc::clone(&self.root), steps: self.steps, told: outbox };
                std::thread::Builder::new().name("file".into()).spawn(move || worker.run(&inbox))?;
                Hand { jobs, told }
            }
        };
        Ok(self.hand.insert(hand))
    }

    async fn run(&mut self, request: Request<'_>, observer: &mut dyn Observer) -> Result<Reply, Failure> {
        let job = Job::of(&request);
        let start_ns = now_ns();
        observer.started(start_ns);
        let broken = |message: String| {
            let timings = super::Timings { start_ns, end_ns: now_ns(), ..Default::default() };
            Failure::new(ErrorClass::Reset, message, timings)
        };
        let hand = self.hand().map_err(|e| broken(format!("no thread for file operations: {e}")))?;
        let sent = hand.jobs.send(job).is_ok();
        self.busy = true;
        let mut wrong = None;
        while let Some(told) = match (&mut self.hand, sent) {
            (Some(hand), true) => hand.told.recv().await,
            _ => None,
        } {
            match told {
                WorkerReply::Piece(piece) => {
                    if wrong.is_none() {
                        wrong = observer.piece(&piece).err();
                    }
                }
                WorkerReply::Done(result) => {
                    self.busy = false;
                    return finish(*result, start_ns, wrong);
                }
            }
        }
        self.hand = None;
        Err(broken("the thread of this connection is gone".into()))
    }
}

fn finish(result: Result<Reply, Failure>, start_ns: u64, wrong: Option<u64>) -> Result<Reply, Failure> {
    match (result, wrong) {
        (Ok(mut reply), None) => {
            reply.timings.start_ns = start_ns;
            Ok(reply)
        }
        (Ok(reply), Some(offset)) => {
            let timings = super::Timings { start_ns, ..reply.timings };
            Err(Failure::new(ErrorClass::Corrupt, format!("byte {offset} is not what was written"), timings))
        }
        (Err(mut failure), _) => {
            failure.timings.start_ns = start_ns;
            Err(failure)
        }
    }
}

impl Connection for FileConnection {
    fn execute<'a>(
        &'a mut self,
        request: Request<'a>,
        observer: &'a mut dyn Observer,
    ) -> Local<'a, Result<Reply, Failure>> {
        Box::pin(self.run(request, observer))
    }
}

/// The pieces of a body, as they can be sent to a thread.
fn pieces(body: &Body) -> Vec<Bytes> {
    body.pieces().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::testing::conformance;

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("plimsoll-file-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn it_conforms_whatever_steps_are_off() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for (fsync, rename, dirsync) in
            [(true, true, false), (false, false, false), (true, true, true), (false, true, false)]
        {
            let root = directory(&format!("{fsync}-{rename}-{dirsync}"));
            let store = FileStore::new(root.clone(), "file:", Steps { fsync, rename, dirsync });
            runtime.block_on(conformance::check(&store, "some/prefix/"));
            let left = std::fs::read_dir(&root).unwrap().count();
            std::fs::remove_dir_all(&root).unwrap();
            assert_eq!(left, 0, "no file, no temporary file and no empty directory is left");
        }
    }

    #[test]
    fn a_missing_directory_is_a_missing_bucket_until_it_is_created() {
        let root = directory("missing").join("deeper");
        let store = FileStore::new(root.clone(), "file:", Steps::default());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let list = || Request::List { prefix: "", start_after: "", token: "", max_keys: 1 };
            let mut connection = store.connection(0);
            let failure = connection.execute(list(), &mut super::super::Ignore).await.unwrap_err();
            assert!(failure.is_code("NoSuchBucket"), "{failure}");
            connection.execute(Request::CreateBucket, &mut super::super::Ignore).await.unwrap();
            connection.execute(list(), &mut super::super::Ignore).await.unwrap();
        });
        std::fs::remove_dir_all(root.parent().unwrap()).unwrap();
    }
}
