//! File operations, executed and timed on the worker thread of a connection.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;

use bytes::Bytes;
use tokio::sync::mpsc::UnboundedSender;

use super::path::{HIDDEN, of_key, walk};
use super::{Steps, pieces};
use crate::store::{Failure, ListedObject, Listing, Reply, Request};
use plimsoll_base::clock::now_ns;
use plimsoll_recorder::ErrorClass;
use plimsoll_recorder::Timings;

/// Maximum number of bytes per read.
const CHUNK: usize = 256 * 1024;

/// A request that owns its data, so that it can be sent to the worker thread.
pub(super) enum Job {
    Put { key: String, body: Vec<Bytes> },
    Get { key: String, range: Option<Range<u64>> },
    Copy { from: String, key: String },
    Head { key: String },
    List { prefix: String, after: String, max_keys: usize },
    Delete { keys: Vec<String>, tidy: bool },
    CreateMultipart { key: String },
    UploadPart { upload_id: String, number: u32, body: Vec<Bytes> },
    CompleteMultipart { key: String, upload_id: String, parts: usize },
    AbortMultipart { upload_id: String },
    ListUploads { prefix: String },
    Versions,
    CheckBucket,
    CreateBucket,
    DeleteBucket,
}

impl Job {
    pub(super) fn of(request: &Request<'_>) -> Job {
        let own = |text: &str| text.to_string();
        match request {
            Request::Put { key, body } => Job::Put { key: own(key), body: pieces(body) },
            Request::Get { key, range } => Job::Get { key: own(key), range: range.clone() },
            Request::Copy { from, key } => Job::Copy { from: own(from), key: own(key) },
            Request::Head { key } => Job::Head { key: own(key) },
            Request::List { prefix, start_after, token, max_keys } => Job::List {
                prefix: own(prefix),
                after: own((*start_after).max(*token)),
                max_keys: *max_keys as usize,
            },
            Request::Delete { key } => Job::Delete { keys: vec![own(key.as_str())], tidy: false },
            Request::DeleteMany { keys } => Job::Delete { keys: keys.as_slice().to_vec(), tidy: true },
            Request::ListVersions { .. } | Request::DeleteVersions { .. } => Job::Versions,
            Request::CreateMultipart { key } => Job::CreateMultipart { key: own(key) },
            Request::UploadPart { upload_id, number, body, .. } => {
                Job::UploadPart { upload_id: own(upload_id), number: *number, body: pieces(body) }
            }
            Request::CompleteMultipart { key, upload_id, parts } => {
                Job::CompleteMultipart { key: own(key), upload_id: own(upload_id), parts: parts.len() }
            }
            Request::AbortMultipart { upload_id, .. } => Job::AbortMultipart { upload_id: own(upload_id) },
            Request::ListUploads { prefix, .. } => Job::ListUploads { prefix: own(prefix) },
            Request::CheckBucket => Job::CheckBucket,
            Request::CreateBucket => Job::CreateBucket,
            Request::DeleteBucket => Job::DeleteBucket,
        }
    }
}

/// A message from the worker thread to its connection.
pub(super) enum WorkerReply {
    /// The next piece of the object's content.
    Piece(Bytes),
    /// The result of the finished operation.
    Done(Box<Result<Reply, Failure>>),
}

/// The worker thread of one connection.
pub(super) struct Worker {
    pub(super) root: Arc<Path>,
    pub(super) steps: Steps,
    pub(super) replies: UnboundedSender<WorkerReply>,
}

/// Serial number that makes the names of temporary files unique within the process.
static SERIAL: AtomicU64 = AtomicU64::new(0);

fn serial() -> String {
    format!("{}-{}", std::process::id(), SERIAL.fetch_add(1, Ordering::Relaxed))
}

fn tag(data: &fs::Metadata) -> String {
    format!("\"{:x}-{:x}\"", data.mtime_nsec() as u64 ^ ((data.mtime() as u64) << 30), data.len())
}

impl Worker {
    /// Executes jobs until the connection is dropped.
    pub(super) fn run(self, jobs: &Receiver<Job>) {
        while let Ok(job) = jobs.recv() {
            let mut timings = Timings::default();
            let result = self.carry_out(&job, &mut timings);
            timings.end_ns = now_ns();
            let result = match result {
                Ok(reply) => Ok(Reply { timings, ..reply }),
                Err(error) => Err(self.failure(&job, &error, timings)),
            };
            if self.replies.send(WorkerReply::Done(Box::new(result))).is_err() {
                return;
            }
        }
    }

    /// Converts an I/O error to a failure, with the error code of an object store if there is an equivalent.
    fn failure(&self, job: &Job, error: &io::Error, timings: Timings) -> Failure {
        let class = match (error.kind(), job) {
            (ErrorKind::NotFound, _) if !self.root.is_dir() => "404 NoSuchBucket",
            (ErrorKind::NotFound, Job::Head { .. }) => "404 NotFound",
            (ErrorKind::NotFound, Job::Get { .. } | Job::Copy { .. }) => "404 NoSuchKey",
            (ErrorKind::NotFound, _) => "404 NoSuchUpload",
            (ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem, _) => "403 AccessDenied",
            (ErrorKind::InvalidInput, Job::Get { .. }) => "416 InvalidRange",
            (ErrorKind::StorageFull | ErrorKind::QuotaExceeded, _) => "507 InsufficientStorage",
            (ErrorKind::IsADirectory | ErrorKind::NotADirectory, _) => "409 KeyConflict",
            (ErrorKind::Unsupported, _) => "501 NotImplemented",
            _ => "500 IoError",
        };
        Failure::new(ErrorClass::Response(class.into()), error.to_string(), timings)
    }

    fn carry_out(&self, job: &Job, timings: &mut Timings) -> io::Result<Reply> {
        match job {
            Job::Put { key, body } => self.put(&of_key(&self.root, key), body, timings),
            Job::Get { key, range } => self.get(&of_key(&self.root, key), range.as_ref(), timings),
            Job::Copy { from, key } => {
                self.copy(&of_key(&self.root, from), &of_key(&self.root, key), timings)
            }
            Job::Head { key } => {
                let data = fs::metadata(of_key(&self.root, key))?;
                if !data.is_file() {
                    return Err(ErrorKind::NotFound.into());
                }
                Ok(Reply { size: Some(data.len()), etag: Some(tag(&data)), ..Reply::default() })
            }
            Job::List { prefix, after, max_keys } => self.list(prefix, after, *max_keys),
            Job::Delete { keys, tidy } => {
                keys.iter().try_for_each(|key| self.delete(key, *tidy)).map(|()| Reply::default())
            }
            Job::Versions => Err(ErrorKind::Unsupported.into()),
            Job::CheckBucket => fs::read_dir(&self.root).map(|_| Reply::default()),
            Job::CreateBucket => fs::create_dir_all(&self.root).map(|()| Reply::default()),
            Job::DeleteBucket => fs::remove_dir(&self.root).map(|()| Reply::default()),
            _ => self.multipart(job, timings),
        }
    }

    /// Creates a file and any missing parent directories.
    fn create(&self, path: &Path) -> io::Result<File> {
        let open = || OpenOptions::new().write(true).create(true).truncate(true).open(path);
        match open() {
            Err(e) if e.kind() == ErrorKind::NotFound && self.root.is_dir() => {
                if let Some(parent) = path.parent() {
                    fs::create_dir_all(parent)?;
                }
                open()
            }
            result => result,
        }
    }

    fn put(&self, path: &Path, body: &[Bytes], timings: &mut Timings) -> io::Result<Reply> {
        let etag = self.place(path, timings, |file, timings| {
            timings.body_first_ns = now_ns();
            let written = body.iter().try_for_each(|piece| file.write_all(piece));
            timings.body_last_ns = now_ns();
            written
        })?;
        Ok(Reply { bytes: body.iter().map(|b| b.len() as u64).sum(), etag, ..Reply::default() })
    }

    /// Copies a file. Linux copies within one file system without passing the content through this process.
    fn copy(&self, from: &Path, path: &Path, timings: &mut Timings) -> io::Result<Reply> {
        let mut source = File::open(from)?;
        if !source.metadata()?.is_file() {
            return Err(ErrorKind::NotFound.into());
        }
        let etag = self.place(path, timings, |file, _| io::copy(&mut source, file).map(|_| ()))?;
        Ok(Reply { etag, ..Reply::default() })
    }

    /// Makes the file of an object, whose content `write` writes, and returns its entity tag.
    fn place(
        &self,
        path: &Path,
        timings: &mut Timings,
        write: impl FnOnce(&mut File, &mut Timings) -> io::Result<()>,
    ) -> io::Result<Option<String>> {
        let hidden = path.with_file_name(format!("{HIDDEN}{}", serial()));
        let target = if self.steps.rename { &hidden } else { path };
        let mut file = self.create(target)?;
        let written = write(&mut file, timings);
        let synced = written.and_then(|()| if self.steps.fsync { file.sync_data() } else { Ok(()) });
        let placed = synced.and_then(|()| if self.steps.rename { fs::rename(&hidden, path) } else { Ok(()) });
        if placed.is_err() && self.steps.rename {
            let _ = fs::remove_file(&hidden);
        }
        placed?;
        if self.steps.dirsync
            && let Some(parent) = path.parent()
        {
            File::open(parent)?.sync_all()?;
        }
        timings.first_byte_ns = now_ns();
        Ok(Some(tag(&file.metadata()?)))
    }

    fn get(&self, path: &Path, range: Option<&Range<u64>>, timings: &mut Timings) -> io::Result<Reply> {
        let mut file = File::open(path)?;
        let data = file.metadata()?;
        if !data.is_file() {
            return Err(ErrorKind::NotFound.into());
        }
        let end = range.map_or(data.len(), |r| r.end.min(data.len()));
        let start = range.map_or(0, |r| r.start);
        if start > 0 {
            if start >= data.len() {
                return Err(io::Error::new(
                    ErrorKind::InvalidInput,
                    "the range begins beyond the end of the object",
                ));
            }
            file.seek(SeekFrom::Start(start))?;
        }
        let mut left = end.saturating_sub(start);
        let bytes = left;
        while left > 0 {
            let mut chunk = vec![0; CHUNK.min(left as usize)];
            file.read_exact(&mut chunk)?;
            timings.body_last_ns = now_ns();
            if timings.body_first_ns == 0 {
                timings.body_first_ns = timings.body_last_ns;
            }
            left -= chunk.len() as u64;
            if self.replies.send(WorkerReply::Piece(chunk.into())).is_err() {
                break;
            }
        }
        timings.first_byte_ns = if timings.body_first_ns > 0 { timings.body_first_ns } else { now_ns() };
        Ok(Reply { bytes, etag: Some(tag(&data)), ..Reply::default() })
    }

    fn list(&self, prefix: &str, after: &str, max_keys: usize) -> io::Result<Reply> {
        let mut found = walk(&self.root, prefix, after, max_keys + 1)?;
        let more = found.len() > max_keys;
        found.truncate(max_keys);
        let next_token = found.last().filter(|_| more).map(|f| f.key.clone());
        let listed =
            |f: super::path::FoundFile| ListedObject { key: f.key, size: f.size, etag: String::new() };
        let objects = found.into_iter().map(listed).collect();
        Ok(Reply {
            listing: Some(Listing { objects, common_prefixes: Vec::new(), next_token }),
            ..Reply::default()
        })
    }

    /// Deletes an object. With `tidy`, also removes the directories that become empty.
    fn delete(&self, key: &str, tidy: bool) -> io::Result<()> {
        let path = of_key(&self.root, key);
        match fs::remove_file(&path) {
            Err(e) if !matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Err(e),
            _ => {}
        }
        let mut parent = path.parent();
        while let Some(directory) = parent.filter(|p| tidy && *p != &*self.root) {
            if fs::remove_dir(directory).is_err() {
                break;
            }
            parent = directory.parent();
        }
        Ok(())
    }

    fn upload(&self, upload_id: &str) -> PathBuf {
        self.root.join(format!("{HIDDEN}uploads")).join(upload_id.replace('/', "_"))
    }

    fn multipart(&self, job: &Job, timings: &mut Timings) -> io::Result<Reply> {
        let mut reply = Reply::default();
        match job {
            Job::CreateMultipart { key } => {
                let upload_id = format!("{:x}-{}", now_ns(), serial());
                let directory = self.upload(&upload_id);
                fs::create_dir_all(&directory)?;
                fs::write(directory.join("key"), key)?;
                reply.upload_id = Some(upload_id);
            }
            Job::UploadPart { upload_id, number, body } => {
                let directory = self.upload(upload_id);
                fs::metadata(&directory)?;
                return self.put(&directory.join(number.to_string()), body, timings);
            }
            Job::CompleteMultipart { key, upload_id, parts } => {
                let directory = self.upload(upload_id);
                fs::metadata(&directory)?;
                self.join(&of_key(&self.root, key), &directory, *parts)?;
                self.forget(&directory)?;
            }
            Job::AbortMultipart { upload_id } => self.forget(&self.upload(upload_id))?,
            Job::ListUploads { prefix } => {
                let entries = match fs::read_dir(self.root.join(format!("{HIDDEN}uploads"))) {
                    Err(e) if e.kind() == ErrorKind::NotFound => return Ok(reply),
                    entries => entries?,
                };
                for entry in entries.flatten() {
                    let key = fs::read_to_string(entry.path().join("key")).unwrap_or_default();
                    if key.starts_with(prefix.as_str()) {
                        reply.uploads.push((key, entry.file_name().to_string_lossy().into_owned()));
                    }
                }
            }
            _ => {}
        }
        Ok(reply)
    }

    /// Joins the parts into one file, with the fsync and rename steps of a put.
    fn join(&self, path: &Path, directory: &Path, parts: usize) -> io::Result<()> {
        let whole = directory.join("whole");
        let target = if self.steps.rename { whole.as_path() } else { path };
        let mut file = self.create(target)?;
        for number in 1..=parts {
            io::copy(&mut File::open(directory.join(number.to_string()))?, &mut file)?;
        }
        if self.steps.fsync {
            file.sync_data()?;
        }
        if self.steps.rename {
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::rename(&whole, path)?;
        }
        Ok(())
    }

    /// Removes an upload, and the directory of uploads if no other upload is left.
    fn forget(&self, directory: &Path) -> io::Result<()> {
        fs::remove_dir_all(directory)?;
        if let Some(parent) = directory.parent() {
            let _ = fs::remove_dir(parent);
        }
        Ok(())
    }
}
