//! A directory as a store, on EFS or any other POSIX mount: `file:///mnt/efs?fsync=on&rename=on&dirsync=off`.
//!
//! A put takes these steps, each of which can be switched off to measure its cost:
//!
//! - Write to a temporary file. `rename=off` writes to the object itself, so readers may see partial content.
//! - Flush the content to disk with fdatasync. `fsync=off` leaves this to the kernel.
//! - Rename the temporary file into place.
//!
//! `dirsync=on` adds an fsync of the directory; without it, a power failure may undo the rename. The kernel
//! serves reads from its page cache if it can.
//!
//! Each connection has its own thread, because file operations block. Passing an operation to the thread takes
//! some microseconds, which are part of the service time. [`path`] maps keys to paths; [`work`] executes the
//! operations.

pub mod path;
mod work;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use bytes::Bytes;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::{Body, Connection, Failure, Local, Observer, Reply, Request, Store};
use plimsoll_base::clock::now_ns;
use plimsoll_recorder::ErrorClass;
use plimsoll_recorder::store_facts::Description;
use plimsoll_s3::url::file::Steps;
use work::{Job, Worker, WorkerReply};

/// A store that keeps each object as a file below one directory.
pub struct FileStore {
    root: Arc<Path>,
    redacted: String,
    container: String,
    steps: Steps,
}

impl FileStore {
    /// Creates a store in the directory `root`, which need not exist yet. `redacted` is its URL without
    /// secrets.
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
        Box::new(FileConnection {
            root: Arc::clone(&self.root),
            steps: self.steps,
            worker: None,
            busy: false,
        })
    }

    fn container(&self) -> &str {
        &self.container
    }

    fn remove_leftovers(&self, prefix: &str, process: u32) {
        path::remove_temporary(&self.root, prefix, process);
        path::remove_empty(&self.root, prefix);
    }
}

/// A connection's channels to its worker thread.
struct WorkerHandle {
    jobs: Sender<Job>,
    replies: UnboundedReceiver<WorkerReply>,
}

struct FileConnection {
    root: Arc<Path>,
    steps: Steps,
    worker: Option<WorkerHandle>,
    /// True if an operation was started and its result was not received. The thread may be stuck in that
    /// operation.
    busy: bool,
}

impl FileConnection {
    fn worker(&mut self) -> std::io::Result<&mut WorkerHandle> {
        if self.busy {
            // Abandon the thread; it exits after its current operation.
            self.worker = None;
            self.busy = false;
        }
        let handle = match self.worker.take() {
            Some(handle) => handle,
            None => {
                let (jobs, inbox) = channel();
                let (outbox, replies) = unbounded_channel();
                let worker = Worker { root: Arc::clone(&self.root), steps: self.steps, replies: outbox };
                std::thread::Builder::new().name("file".into()).spawn(move || worker.run(&inbox))?;
                WorkerHandle { jobs, replies }
            }
        };
        Ok(self.worker.insert(handle))
    }

    async fn run(&mut self, request: Request<'_>, observer: &mut dyn Observer) -> Result<Reply, Failure> {
        let job = Job::of(&request);
        let start_ns = now_ns();
        observer.started(start_ns);
        let broken = |message: String| {
            let timings = super::Timings { start_ns, end_ns: now_ns(), ..Default::default() };
            Failure::new(ErrorClass::Reset, message, timings)
        };
        let worker = self.worker();
        let worker = worker.map_err(|e| broken(format!("cannot start a thread for file operations: {e}")))?;
        let sent = worker.jobs.send(job).is_ok();
        self.busy = true;
        let mut wrong = None;
        while let Some(message) = match (&mut self.worker, sent) {
            (Some(worker), true) => worker.replies.recv().await,
            _ => None,
        } {
            match message {
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
        self.worker = None;
        Err(broken("the worker thread of this connection has exited".into()))
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
            Err(Failure::new(ErrorClass::Corrupt, format!("content mismatch at byte {offset}"), timings))
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

/// Returns the pieces of a body, which unlike the body can be sent to another thread.
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
    fn every_combination_of_steps_conforms() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for (fsync, rename, dirsync) in
            [(true, true, false), (false, false, false), (true, true, true), (false, true, false)]
        {
            let root = directory(&format!("{fsync}-{rename}-{dirsync}"));
            let store = FileStore::new(root.clone(), "file:", Steps { fsync, rename, dirsync });
            runtime.block_on(conformance::check(&store, "some/prefix/"));
            let left = std::fs::read_dir(&root).unwrap().count();
            std::fs::remove_dir_all(&root).unwrap();
            assert_eq!(left, 0, "no object, temporary file or empty directory remains");
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
