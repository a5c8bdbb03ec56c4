//! A store in the memory of this process: the reference implementation for the conformance suite and for unit
//! tests.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use bytes::Bytes;

use super::{
    Body, Connection, Description, ErrorClass, Failure, ListedObject, Listing, Local, Observer, Reply,
    Request, Store, Timings,
};
use plimsoll_base::clock::now_ns;
use plimsoll_base::net::encode::hex;
use plimsoll_s3::checksum::md5;

type Objects = RwLock<BTreeMap<String, (Bytes, String)>>;
/// Parts by key and upload ID, then by part number.
type Uploads = Mutex<BTreeMap<(String, String), BTreeMap<u32, Bytes>>>;

/// A store that keeps objects in memory.
#[derive(Default, Clone)]
pub struct MemoryStore {
    /// Name of the store in results; `None` for `memory:`.
    name: Option<String>,
    objects: Arc<Objects>,
    uploads: Arc<Uploads>,
}

impl MemoryStore {
    /// Returns an empty store that has this name in results.
    pub fn named(name: &str) -> MemoryStore {
        MemoryStore { name: Some(name.to_string()), ..MemoryStore::default() }
    }
}

impl Store for MemoryStore {
    fn describe(&self) -> Description {
        Description {
            url: self.name.clone().unwrap_or_else(|| "memory:".into()),
            provider: "memory".into(),
            signing: "none".into(),
            ..Description::default()
        }
    }

    fn connection(&self, _: usize) -> Box<dyn Connection> {
        Box::new(MemoryConnection { objects: Arc::clone(&self.objects), uploads: Arc::clone(&self.uploads) })
    }
}

struct MemoryConnection {
    objects: Arc<Objects>,
    uploads: Arc<Uploads>,
}

/// Returns the content of a body as one piece.
fn gather(body: &Body) -> Bytes {
    let mut all = Vec::with_capacity(body.len() as usize);
    body.pieces().for_each(|piece| all.extend_from_slice(&piece));
    all.into()
}

fn answered(class: &str, message: &str) -> (ErrorClass, String) {
    (ErrorClass::Response(class.to_string()), message.to_string())
}

impl MemoryConnection {
    fn answer(
        &self,
        request: &Request<'_>,
        observer: &mut dyn Observer,
    ) -> Result<Reply, (ErrorClass, String)> {
        let missing = || answered("404 NoSuchKey", "The specified key does not exist.");
        let read = || self.objects.read().unwrap_or_else(PoisonError::into_inner);
        let write = || self.objects.write().unwrap_or_else(PoisonError::into_inner);
        let mut reply = Reply::default();
        match request {
            Request::Put { key, body } => {
                let data = gather(body);
                let etag = format!("\"{}\"", hex(&md5(&data)));
                reply.bytes = data.len() as u64;
                reply.etag = Some(etag.clone());
                write().insert((*key).to_string(), (data, etag));
            }
            Request::Get { key, range } => {
                let (data, etag) = read().get(*key).cloned().ok_or_else(missing)?;
                let whole = 0..data.len() as u64;
                let range = range.clone().unwrap_or(whole);
                if range.start >= data.len() as u64 && !data.is_empty() {
                    return Err(answered("416 InvalidRange", "The requested range is not satisfiable"));
                }
                let piece = data.slice(range.start as usize..(range.end as usize).min(data.len()));
                reply.bytes = piece.len() as u64;
                reply.etag = Some(etag);
                observer
                    .piece(&piece)
                    .map_err(|offset| (ErrorClass::Corrupt, format!("content mismatch at byte {offset}")))?;
            }
            Request::Copy { from, key } => {
                let object = read().get(*from).cloned().ok_or_else(missing)?;
                reply.etag = Some(object.1.clone());
                write().insert((*key).to_string(), object);
            }
            Request::Head { key } => {
                let objects = read();
                let (data, etag) = objects.get(*key).ok_or_else(|| answered("404 NotFound", "no message"))?;
                reply.size = Some(data.len() as u64);
                reply.etag = Some(etag.clone());
            }
            Request::List { prefix, start_after, token, max_keys } => {
                reply.listing = Some(page(&read(), prefix, (*start_after).max(*token), *max_keys as usize));
            }
            Request::Delete { key } => {
                write().remove(key.as_str());
            }
            Request::DeleteMany { keys } => {
                let mut objects = write();
                keys.as_slice().iter().for_each(|key| {
                    objects.remove(key);
                });
            }
            Request::CheckBucket | Request::CreateBucket | Request::DeleteBucket => {}
            Request::ListVersions { .. } | Request::DeleteVersions { .. } => {
                return Err(answered("501 NotImplemented", "this store does not keep versions"));
            }
            _ => return self.multipart(request),
        }
        Ok(reply)
    }
}

impl MemoryConnection {
    fn multipart(&self, request: &Request<'_>) -> Result<Reply, (ErrorClass, String)> {
        let mut uploads = self.uploads.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = || answered("404 NoSuchUpload", "The specified upload does not exist.");
        let id = |key: &str, upload_id: &str| (key.to_string(), upload_id.to_string());
        let mut reply = Reply::default();
        match request {
            Request::CreateMultipart { key } => {
                let upload_id = format!("upload-{:x}", now_ns());
                uploads.insert(id(key, &upload_id), BTreeMap::new());
                reply.upload_id = Some(upload_id);
            }
            Request::UploadPart { key, upload_id, number, body } => {
                let data = gather(body);
                reply.bytes = data.len() as u64;
                reply.etag = Some(format!("\"{}\"", hex(&md5(&data))));
                uploads.get_mut(&id(key, upload_id)).ok_or_else(missing)?.insert(*number, data);
            }
            Request::CompleteMultipart { key, upload_id, parts: tags } => {
                let parts = uploads.remove(&id(key, upload_id)).ok_or_else(missing)?;
                let chosen = parts.into_values().take(tags.len());
                let data: Bytes = chosen.flatten().collect::<Vec<u8>>().into();
                let etag = format!("\"{}-{}\"", hex(&md5(&data)), tags.len());
                self.objects
                    .write()
                    .unwrap_or_else(PoisonError::into_inner)
                    .insert((*key).to_string(), (data, etag));
            }
            Request::AbortMultipart { key, upload_id } => {
                uploads.remove(&id(key.as_str(), upload_id)).ok_or_else(missing)?;
            }
            Request::ListUploads { prefix, .. } => {
                reply.uploads = uploads.keys().filter(|(key, _)| key.starts_with(prefix)).cloned().collect();
            }
            _ => {}
        }
        Ok(reply)
    }
}

fn page(objects: &BTreeMap<String, (Bytes, String)>, prefix: &str, after: &str, max_keys: usize) -> Listing {
    let from = if after >= prefix { Bound::Excluded(after) } else { Bound::Included(prefix) };
    let mut found =
        objects.range::<str, _>((from, Bound::Unbounded)).take_while(|(key, _)| key.starts_with(prefix));
    let mut listing = Listing::default();
    for (key, (data, etag)) in found.by_ref().take(max_keys) {
        listing.objects.push(ListedObject { key: key.clone(), size: data.len() as u64, etag: etag.clone() });
    }
    if found.next().is_some() {
        listing.next_token = listing.objects.last().map(|o| o.key.clone());
    }
    listing
}

impl Connection for MemoryConnection {
    fn execute<'a>(
        &'a mut self,
        request: Request<'a>,
        observer: &'a mut dyn Observer,
    ) -> Local<'a, Result<Reply, Failure>> {
        let start_ns = now_ns();
        observer.started(start_ns);
        let result = self.answer(&request, observer);
        let end_ns = now_ns();
        let mut timings = Timings { start_ns, first_byte_ns: end_ns, end_ns, ..Timings::default() };
        if let Ok(Reply { bytes: 1.., .. }) = &result {
            (timings.body_first_ns, timings.body_last_ns) = (start_ns, end_ns);
        }
        let result = match result {
            Ok(reply) => Ok(Reply { timings, ..reply }),
            Err((class, message)) => Err(Failure::new(class, message, timings)),
        };
        Box::pin(std::future::ready(result))
    }
}
