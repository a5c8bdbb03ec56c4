//! Parallel composite uploads (Google Cloud Storage documentation, "Composite objects"): parts are objects of their own, `compose` joins up
//! to 32 of them at a time, and then they are deleted.

use std::sync::atomic::{AtomicU64, Ordering};

use super::GcsConnection;
use super::answer::{Resource, page_of};
use super::request::Call;
use crate::clock::wall_now;
use crate::provider::calls::Call as BilledCall;
use crate::store::{
    Algorithm, Body, BodyChecksum, ErrorClass, Failure, Ignore, Observer, PartTag, Reply, Request, Timings,
};

/// Most objects that one call joins.
const MOST_SOURCES: usize = 32;
/// Between an object's name and what tells one part of it from another.
const MARK: &str = ".plimsoll-part-";

/// Uploads of this process differ by it.
static SERIAL: AtomicU64 = AtomicU64::new(0);

fn fresh_id() -> String {
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    format!("{:x}-{:x}-{serial:x}", wall_now().as_nanosecond() as u64, std::process::id())
}

/// Pages of a listing, as requests.
fn listings(pages: usize) -> Vec<BilledCall> {
    vec![BilledCall::ListObjects; pages]
}

/// The name of a part; `level` 0 holds the parts themselves, higher ones what was joined of them.
fn part_name(key: &str, upload_id: &str, level: u32, number: u32) -> String {
    format!("{key}{MARK}{upload_id}-{level}-{number:05}")
}

/// The key and upload that a name is a part of.
fn part_of(name: &str) -> Option<(String, String)> {
    let (key, rest) = name.rsplit_once(MARK)?;
    let (rest, _) = rest.rsplit_once('-')?;
    let (upload_id, _) = rest.rsplit_once('-')?;
    Some((key.to_string(), upload_id.to_string()))
}

impl GcsConnection {
    /// Multipart uploads.
    pub(super) async fn composite(
        &mut self,
        request: Request<'_>,
        observer: &mut dyn Observer,
    ) -> Result<Reply, Failure> {
        match request {
            Request::CreateMultipart { key } => {
                let upload_id = fresh_id();
                // An empty object says that the upload has begun, so that it is found whatever becomes of it.
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
                // The first page is the request that was asked for.
                Ok(Reply { uploads, timings, also: listings(pages - 1), ..Reply::default() })
            }
            _ => Err(super::unfit("not an operation of this store".into())),
        }
    }

    /// Joins the parts, in rounds of 32 where there are more, and deletes them.
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
        while sources.len() > MOST_SOURCES {
            level += 1;
            let mut joined = Vec::new();
            for (number, group) in (0..).zip(sources.chunks(MOST_SOURCES)) {
                let name = part_name(key, upload_id, level, number);
                let call = Call::compose(&self.url, &name, group);
                let (_, answer) = self.ask(&call, observer, &mut timings).await?;
                also.push(BilledCall::CompleteMultipartUpload);
                joined.push((name, Resource::parse(&answer, timings)?.generation));
            }
            sources = joined;
        }
        let call = Call::compose(&self.url, key, &sources);
        let (_, answer) = self.ask(&call, observer, &mut timings).await?;
        let made = Resource::parse(&answer, timings)?;
        // The object is there; what its parts leave behind is no part of its time.
        let mut after = timings;
        match self.delete_parts(key, upload_id, &mut Ignore, &mut after).await {
            Ok(asked) => also.extend(asked),
            Err(failure) if failure.class == ErrorClass::Corrupt => return Err(failure),
            Err(_) => {}
        }
        let checksum = made.crc32c.map(|sum| (BodyChecksum::Declared(Algorithm::Crc32c), sum));
        Ok(Reply { etag: made.generation, checksum, timings, also, ..Reply::default() })
    }

    /// Names of all objects under a prefix that are parts of something, and the pages that they were on.
    async fn names(
        &mut self,
        prefix: &str,
        observer: &mut dyn Observer,
        timings: &mut Timings,
    ) -> Result<(Vec<String>, usize), Failure> {
        let (mut names, mut pages, mut token) = (Vec::new(), 0, String::new());
        loop {
            let call = Call::list(&self.url, prefix, "", &token, 1000);
            let (_, body) = self.ask(&call, observer, timings).await?;
            let page = page_of(&body, "", *timings)?;
            pages += 1;
            if let Some(foreign) = page.objects.iter().find(|object| !object.key.starts_with(prefix)) {
                let message = format!("the store lists '{}' for prefix '{prefix}'", foreign.key);
                return Err(Failure::new(ErrorClass::Corrupt, message, *timings));
            }
            if page.next_token.as_ref() == Some(&token) {
                let message = "the listing has no end: a continuation token repeats";
                return Err(Failure::new(ErrorClass::Corrupt, message, *timings));
            }
            names.extend(page.objects.into_iter().map(|o| o.key).filter(|key| key.contains(MARK)));
            match page.next_token {
                Some(next) => token = next,
                None => return Ok((names, pages)),
            }
        }
    }

    /// Deletes what an upload consists of; returns the requests that this took.
    async fn delete_parts(
        &mut self,
        key: &str,
        upload_id: &str,
        observer: &mut dyn Observer,
        timings: &mut Timings,
    ) -> Result<Vec<BilledCall>, Failure> {
        let prefix = format!("{key}{MARK}{upload_id}-");
        let (names, pages) = self.names(&prefix, observer, timings).await?;
        let mut asked = listings(pages);
        for name in names {
            self.delete(&name, observer, timings).await?;
            asked.push(BilledCall::DeleteObject);
        }
        Ok(asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_tell_what_they_are_parts_of() {
        let id = fresh_id();
        for key in ["a", "p/plimsoll/r/d/0001", "odd.plimsoll-part-x", "ü"] {
            let name = part_name(key, &id, 0, 7);
            assert_eq!(part_of(&name), Some((key.to_string(), id.clone())), "{name}");
        }
        assert_eq!(part_of("a"), None);
        assert_ne!(id, fresh_id());
    }
}
