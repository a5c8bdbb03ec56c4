//! Parallel composite uploads (Google Cloud Storage documentation, "Composite objects"). Each part is a
//! separate object; `compose` joins up to 32 objects at a time. Afterwards the parts are deleted.

use std::sync::atomic::{AtomicU64, Ordering};

use super::GcsConnection;
use super::answer::{Resource, page_of};
use super::request::JsonCall;
use crate::store::{Algorithm, Body, BodyChecksum, Failure, Ignore, Observer, PartTag, Reply, Request};
use plimsoll_base::clock::wall_now;
use plimsoll_base::provider::calls::Call as BilledCall;
use plimsoll_recorder::ErrorClass;
use plimsoll_recorder::Timings;

/// Maximum number of objects that one `compose` call joins.
const MAX_SOURCES: usize = 32;
/// Separator in a part's name, between the key of the object and the upload ID.
const MARK: &str = ".plimsoll-part-";

/// Serial number that makes the upload IDs of this process unique.
static SERIAL: AtomicU64 = AtomicU64::new(0);

fn fresh_id() -> String {
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    format!("{:x}-{:x}-{serial:x}", wall_now().as_nanosecond() as u64, std::process::id())
}

/// Returns one billed list request for each page.
fn listings(pages: usize) -> Vec<BilledCall> {
    vec![BilledCall::ListObjects; pages]
}

/// Returns the name of a part. Level 0 contains the parts themselves; higher levels contain intermediate
/// objects joined from them.
fn part_name(key: &str, upload_id: &str, level: u32, number: u32) -> String {
    format!("{key}{MARK}{upload_id}-{level}-{number:05}")
}

/// Parses the name of a part and returns its key and upload ID; `None` for any other name.
fn part_of(name: &str) -> Option<(String, String)> {
    let (key, rest) = name.rsplit_once(MARK)?;
    let (rest, _) = rest.rsplit_once('-')?;
    let (upload_id, _) = rest.rsplit_once('-')?;
    Some((key.to_string(), upload_id.to_string()))
}

impl GcsConnection {
    /// Executes a request of a multipart upload.
    pub(super) async fn composite(
        &mut self,
        request: Request<'_>,
        observer: &mut dyn Observer,
    ) -> Result<Reply, Failure> {
        match request {
            Request::CreateMultipart { key } => {
                let upload_id = fresh_id();
                // An empty object marks the start of the upload, so that a later listing always finds the
                // upload.
                let name = part_name(key, &upload_id, 0, 0);
                let reply = self.put_media(&name, &Body::Whole(Default::default()), observer).await?;
                Ok(Reply { upload_id: Some(upload_id), timings: reply.timings, ..Reply::default() })
            }
            Request::UploadPart { key, upload_id, number, body } => {
                self.put_media(&part_name(key, upload_id, 0, number), &body, observer).await
            }
            Request::CompleteMultipart { key, upload_id, parts } => {
                self.join(key, upload_id, parts, observer).await
            }
            Request::AbortMultipart { key, upload_id } => {
                let mut timings = Timings::default();
                let also = self.delete_parts(key.as_str(), upload_id, observer, &mut timings).await?;
                Ok(Reply { timings, also, ..Reply::default() })
            }
            Request::ListUploads { prefix, .. } => {
                let mut timings = Timings::default();
                let (names, pages) = self.names(prefix, observer, &mut timings).await?;
                let mut uploads: Vec<(String, String)> = names.iter().filter_map(|n| part_of(n)).collect();
                uploads.dedup();
                // The request itself is billed as the first page.
                Ok(Reply { uploads, timings, also: listings(pages - 1), ..Reply::default() })
            }
            _ => Err(super::invalid_request("this store does not support the operation".into())),
        }
    }

    /// Joins the parts, level by level if there are more than 32, and then deletes them.
    async fn join(
        &mut self,
        key: &str,
        upload_id: &str,
        parts: &[PartTag],
        observer: &mut dyn Observer,
    ) -> Result<Reply, Failure> {
        let mut timings = Timings::default();
        let mut sources: Vec<(String, Option<String>)> = (1..)
            .zip(parts)
            .map(|(number, part)| (part_name(key, upload_id, 0, number), Some(part.etag.clone())))
            .collect();
        let (mut level, mut also) = (0, Vec::new());
        while sources.len() > MAX_SOURCES {
            level += 1;
            let mut joined = Vec::new();
            for (number, group) in (0..).zip(sources.chunks(MAX_SOURCES)) {
                let name = part_name(key, upload_id, level, number);
                let call = JsonCall::compose(&self.url, &name, group);
                let (_, answer) = self.ask(&call, observer, &mut timings).await?;
                also.push(BilledCall::CompleteMultipartUpload);
                joined.push((name, Resource::parse(&answer, timings)?.generation));
            }
            sources = joined;
        }
        let call = JsonCall::compose(&self.url, key, &sources);
        let (_, answer) = self.ask(&call, observer, &mut timings).await?;
        let made = Resource::parse(&answer, timings)?;
        // The object is complete, so deleting its parts does not count towards the operation's time.
        let mut after = timings;
        match self.delete_parts(key, upload_id, &mut Ignore, &mut after).await {
            Ok(requests) => also.extend(requests),
            Err(failure) if failure.class == ErrorClass::Corrupt => return Err(failure),
            Err(_) => {}
        }
        let checksum = made.crc32c.map(|sum| (BodyChecksum::Declared(Algorithm::Crc32c), sum));
        Ok(Reply { etag: made.generation, checksum, timings, also, ..Reply::default() })
    }

    /// Returns the names of all parts under a prefix, and the number of pages listed.
    async fn names(
        &mut self,
        prefix: &str,
        observer: &mut dyn Observer,
        timings: &mut Timings,
    ) -> Result<(Vec<String>, usize), Failure> {
        let (mut names, mut pages, mut token) = (Vec::new(), 0, String::new());
        loop {
            let call = JsonCall::list(&self.url, prefix, "", &token, 1000);
            let (_, body) = self.ask(&call, observer, timings).await?;
            let page = page_of(&body, "", *timings)?;
            pages += 1;
            if let Some(foreign) = page.objects.iter().find(|object| !object.key.starts_with(prefix)) {
                let message = format!(
                    "the store listed '{}' for prefix '{prefix}', so it does not filter by prefix",
                    foreign.key
                );
                return Err(Failure::new(ErrorClass::Corrupt, message, *timings));
            }
            if page.next_token.as_ref() == Some(&token) {
                let message = "the listing does not end: a continuation token repeats";
                return Err(Failure::new(ErrorClass::Corrupt, message, *timings));
            }
            names.extend(page.objects.into_iter().map(|o| o.key).filter(|key| key.contains(MARK)));
            match page.next_token {
                Some(next) => token = next,
                None => return Ok((names, pages)),
            }
        }
    }

    /// Deletes the parts of an upload and returns the billed requests.
    async fn delete_parts(
        &mut self,
        key: &str,
        upload_id: &str,
        observer: &mut dyn Observer,
        timings: &mut Timings,
    ) -> Result<Vec<BilledCall>, Failure> {
        let prefix = format!("{key}{MARK}{upload_id}-");
        let (names, pages) = self.names(&prefix, observer, timings).await?;
        let mut requests = listings(pages);
        for name in names {
            self.delete(&name, observer, timings).await?;
            requests.push(BilledCall::DeleteObject);
        }
        Ok(requests)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_names_contain_the_key_and_the_upload_id() {
        let id = fresh_id();
        for key in ["a", "p/plimsoll/r/d/0001", "odd.plimsoll-part-x", "ü"] {
            let name = part_name(key, &id, 0, 7);
            assert_eq!(part_of(&name), Some((key.to_string(), id.clone())), "{name}");
        }
        assert_eq!(part_of("a"), None);
        assert_ne!(id, fresh_id());
    }
}
