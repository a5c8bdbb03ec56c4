//! The place in a bucket in which one check works, with the requests that several checks send.

use futures_util::future::join_all;
use plimsoll_base::clock::{SECOND, Timer, now_ns};
use plimsoll_engine::store::ownership::KeySpace;

use super::call::{Answer, CheckCall};
use super::client::BucketClient;
use super::problem::{Problem, require};
use plimsoll_s3::xml::{Element, XmlWriter};

/// Clients that write at the same time.
pub const WRITERS: usize = 8;
/// Most repetitions of a check of concurrent requests.
const MAX_ROUNDS: u64 = 300;
/// Repetitions that a check executes however long they take.
pub const MIN_ROUNDS: u64 = 20;
/// Repetitions of a request until a late write is visible.
const MAX_POLLS: u32 = 40;
/// Pause between them, in nanoseconds.
const POLL_NS: u64 = SECOND / 20;
/// Time after which a check begins no further repetition.
const ROUNDS_NS: u64 = 10 * SECOND;

/// The place of one check.
pub struct Scene<'a> {
    /// Client that sends the requests.
    pub client: &'a BucketClient,
    /// Keys that Plimsoll owns.
    pub space: &'a KeySpace,
    /// Prefix of all keys of the check; ends in `/`.
    pub root: String,
    /// Time at which the check began, in nanoseconds on the monotonic clock.
    pub began_ns: u64,
    /// Repetitions of concurrent requests; `None` for as many as fit into ten seconds, from 20 to 300.
    pub rounds: Option<u64>,
    /// True if each write is awaited until it is visible, because the store is known to show writes late.
    pub settles: bool,
}

/// An object in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectEntry {
    /// Key of the object.
    pub key: String,
    /// Size in bytes; `None` if it is missing or not a number.
    pub size: Option<u64>,
    /// Entity tag as listed.
    pub etag: String,
    /// Time of the last change as listed.
    pub modified: String,
}

/// A page of a listing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// Objects in the order of the page.
    pub entries: Vec<ObjectEntry>,
    /// Common prefixes in the order of the page.
    pub prefixes: Vec<String>,
    /// Continuation token, or for version 1 of the operation the next marker; empty if there is none.
    pub next: String,
    /// True if the page says that more follow.
    pub is_truncated: bool,
}

impl Page {
    /// Parses the answer to a listing.
    fn of(root: &Element) -> Page {
        let text = |element: &Element, name: &str| element.text_of(name).unwrap_or_default().to_string();
        let entry = |element: &Element| ObjectEntry {
            key: text(element, "Key"),
            size: text(element, "Size").parse().ok(),
            etag: text(element, "ETag"),
            modified: text(element, "LastModified"),
        };
        let named = |name: &'static str| root.children.iter().filter(move |child| child.name == name);
        let next = text(root, "NextContinuationToken");
        Page {
            entries: named("Contents").map(entry).collect(),
            prefixes: named("CommonPrefixes").map(|prefix| text(prefix, "Prefix")).collect(),
            next: if next.is_empty() { text(root, "NextMarker") } else { next },
            is_truncated: text(root, "IsTruncated") == "true",
        }
    }

    /// Returns the keys in the order of the page.
    pub fn keys(&self) -> Vec<&str> {
        self.entries.iter().map(|entry| entry.key.as_str()).collect()
    }
}

impl Scene<'_> {
    /// Returns the key with this name.
    pub fn key(&self, name: &str) -> String {
        format!("{}{name}", self.root)
    }

    /// Returns true if the check also covers what needs many requests, or large objects: not with a few rounds.
    pub fn is_thorough(&self) -> bool {
        self.rounds.is_none_or(|rounds| rounds >= MIN_ROUNDS)
    }

    /// Returns true if the check is to begin repetition `round`, counted from 0. Forgets the exchanges of earlier
    /// repetitions.
    pub fn begins(&self, round: u64) -> bool {
        let begins = match self.rounds {
            Some(rounds) => round < rounds,
            None => round < MIN_ROUNDS || (round < MAX_ROUNDS && now_ns() < self.began_ns + ROUNDS_NS),
        };
        if begins {
            self.client.begin_trace(&self.root);
        }
        begins
    }

    /// Sends a request on connection slot `index` and returns the answer, whatever its status.
    ///
    /// # Errors
    /// [`Problem::Inconclusive`] if there is no answer, or access is denied.
    pub async fn send(&self, index: usize, call: CheckCall) -> Result<Answer, Problem> {
        let (name, is_expired) = (self.name(&call), call.presigned.is_some_and(|age_s| age_s > 0));
        let answer = self.client.send(index, call).await?;
        // Credentials without the right to do something say nothing about the store.
        if answer.is_denied() && !is_expired {
            return Err(Problem::Inconclusive(format!("{name} was answered {}", answer.outcome())));
        }
        Ok(answer)
    }

    /// Sends a request that the store must execute.
    ///
    /// # Errors
    /// [`Problem::Violated`] if it refuses it, [`Problem::Inconclusive`] if it gives no answer or denies access.
    pub async fn expect(&self, index: usize, call: CheckCall) -> Result<Answer, Problem> {
        let name = self.name(&call);
        let answer = self.send(index, call).await?;
        match answer.is_done() {
            true => Ok(answer),
            false => Err(refusal(&name, &answer)),
        }
    }

    /// Returns the beginning of a key in messages.
    fn short(&self, key: &str) -> String {
        key.strip_prefix(self.root.as_str()).unwrap_or(key).chars().take(40).collect()
    }

    /// Describes a request in messages.
    pub fn name(&self, call: &CheckCall) -> String {
        let key = self.short(&call.key);
        let key = if key.is_empty() { "the bucket".to_string() } else { format!("{key:?}") };
        let query = call.query.first().map_or(String::new(), |(name, _)| format!(" with {name}"));
        format!("{} {key}{query}", call.method)
    }

    /// Writes an object.
    ///
    /// # Errors
    /// As [`Scene::expect`].
    pub async fn put(&self, key: &str, content: impl Into<bytes::Bytes>) -> Result<Answer, Problem> {
        self.write(CheckCall::put(key, content)).await
    }

    /// Sends a PUT of an object, which may have headers.
    ///
    /// # Errors
    /// As [`Scene::expect`].
    pub async fn write(&self, call: CheckCall) -> Result<Answer, Problem> {
        let key = call.key.clone();
        let answer = self.expect(0, call).await?;
        self.settle(&key, Some(answer.etag())).await?;
        Ok(answer)
    }

    /// If the store shows writes late, waits until HEAD and a listing show the ETag of an object or, with `None`, that
    /// it is gone. Waits at most two seconds: a store that shows them later violates what is checked.
    ///
    /// # Errors
    /// As [`Scene::send`].
    pub async fn settle(&self, key: &str, etag: Option<&str>) -> Result<(), Problem> {
        for _ in 0..if self.settles { MAX_POLLS } else { 0 } {
            let head = self.send(0, CheckCall::head(key)).await?;
            let page = self
                .send(0, CheckCall::list(key))
                .await?
                .xml()
                .map(|root| Page::of(&root))
                .unwrap_or_default();
            let listed = page.entries.iter().find(|entry| entry.key == key);
            let is_tag = |tag: &str| etag.is_some_and(|etag| tag.trim_matches('"') == etag.trim_matches('"'));
            match listed {
                Some(listed) if head.is_done() && is_tag(head.etag()) && is_tag(&listed.etag) => break,
                None if etag.is_none() && head.status == 404 => break,
                _ => poll_pause().await,
            }
        }
        Ok(())
    }

    /// Reads an object. If the store shows writes late, repeats it until the content is accepted, for two seconds.
    ///
    /// # Errors
    /// As [`Scene::send`].
    pub async fn get_until(
        &self,
        index: usize,
        key: &str,
        accept: impl Fn(&Answer) -> bool,
    ) -> Result<Answer, Problem> {
        let mut answer = self.send(index, CheckCall::get(key)).await?;
        for _ in 0..if self.settles { MAX_POLLS } else { 0 } {
            if accept(&answer) {
                break;
            }
            poll_pause().await;
            answer = self.send(index, CheckCall::get(key)).await?;
        }
        Ok(answer)
    }

    /// Writes several objects at the same time, each with its own name as its content.
    ///
    /// # Errors
    /// As [`Scene::expect`].
    pub async fn put_all(&self, keys: &[String]) -> Result<(), Problem> {
        for (number, group) in (1..).zip(keys.chunks(WRITERS)) {
            let writes = group.iter().enumerate();
            let writes =
                writes.map(|(index, key)| self.expect(index, CheckCall::put(key, key.clone().into_bytes())));
            let written = join_all(writes).await.into_iter().collect::<Result<Vec<_>, _>>()?;
            // A store that shows the last writes shows those before them.
            if number * WRITERS >= keys.len() {
                for (key, answer) in group.iter().zip(written) {
                    self.settle(key, Some(answer.etag())).await?;
                }
            }
        }
        Ok(())
    }

    /// Deletes an object.
    ///
    /// # Errors
    /// As [`Scene::expect`].
    pub async fn delete(&self, key: &str) -> Result<Answer, Problem> {
        match self.space.own(key) {
            Some(owned) => {
                let answer = self.expect(0, CheckCall::delete(owned)).await?;
                self.settle(key, None).await?;
                Ok(answer)
            }
            None => Err(Problem::Inconclusive(format!("{key:?} is outside the keys of this check"))),
        }
    }

    /// Reads an object on connection slot `index`, and requires its content.
    ///
    /// # Errors
    /// As [`Scene::expect`], and [`Problem::Violated`] if the content differs. `when` completes the message.
    pub async fn reads(
        &self,
        index: usize,
        key: &str,
        content: &[u8],
        when: &str,
    ) -> Result<Answer, Problem> {
        let answer = self.get_until(index, key, |answer| answer.body == content).await?;
        let name = self.short(key);
        require(answer.is_done(), || format!("GET {name:?} {when} was answered {}", answer.outcome()))?;
        require(answer.body == content, || {
            format!("GET {name:?} {when} returned {}", difference(&answer.body, content))
        })?;
        Ok(answer)
    }

    /// Requests a page of a listing.
    ///
    /// # Errors
    /// As [`Scene::expect`], and [`Problem::Violated`] if the answer is no listing.
    pub async fn page(&self, index: usize, call: CheckCall) -> Result<Page, Problem> {
        let name = self.name(&call);
        let answer = self.expect(index, call).await?;
        let root = answer.xml().filter(|root| root.name == "ListBucketResult");
        root.map(|root| Page::of(&root))
            .ok_or_else(|| Problem::Violated(format!("the answer to {name} is no ListBucketResult")))
    }

    /// Begins a multipart upload and returns its id.
    ///
    /// # Errors
    /// As [`Scene::expect`], and [`Problem::Violated`] if the answer has no id.
    pub async fn begin_upload(&self, key: &str) -> Result<String, Problem> {
        let answer = self.expect(0, CheckCall::post(key, "").query("uploads", "").repeatable()).await?;
        let id = answer.text_of("UploadId");
        require(!id.is_empty(), || "the answer to CreateMultipartUpload has no UploadId".into())?;
        Ok(id)
    }

    /// Uploads a part and returns its entity tag.
    ///
    /// # Errors
    /// As [`Scene::expect`].
    pub async fn part(
        &self,
        index: usize,
        key: &str,
        upload: &str,
        number: u64,
        call: CheckCall,
    ) -> Result<UploadedPart, Problem> {
        let call = CheckCall { key: key.to_string(), ..call };
        let call = call.query("partNumber", number.to_string()).query("uploadId", upload);
        Ok((number, self.expect(index, call).await?.etag().to_string()))
    }

    /// Returns the request that completes an upload.
    pub fn completion(key: &str, upload: &str, parts: &[UploadedPart]) -> CheckCall {
        let mut writer = XmlWriter::new("CompleteMultipartUpload");
        for (number, etag) in parts {
            writer.open("Part");
            writer.text("ETag", etag).text("PartNumber", &number.to_string()).close();
        }
        CheckCall::post(key, writer.finish()).query("uploadId", upload)
    }

    /// Completes an upload.
    ///
    /// # Errors
    /// As [`Scene::expect`].
    pub async fn complete(&self, key: &str, upload: &str, parts: &[UploadedPart]) -> Result<Answer, Problem> {
        let answer = self.expect(0, Scene::completion(key, upload, parts)).await?;
        let etag = answer.text_of("ETag");
        self.settle(key, Some(etag.as_str())).await?;
        Ok(answer)
    }
}

async fn poll_pause() {
    if let Ok(mut timer) = Timer::new() {
        let _ = timer.until(now_ns() + POLL_NS).await;
    }
}

/// Number and entity tag of a part.
pub type UploadedPart = (u64, String);

/// Returns the problem of a request that the store did not execute.
pub fn refusal(name: &str, answer: &Answer) -> Problem {
    Problem::Violated(format!("{name} was answered {}", answer.outcome()))
}

/// Describes how content differs from what was expected.
pub fn difference(found: &[u8], expected: &[u8]) -> String {
    let at = found.iter().zip(expected).position(|(a, b)| a != b);
    match at {
        _ if found.is_empty() => "no content".into(),
        _ if found.len() <= 60 && std::str::from_utf8(found).is_ok() => {
            format!("{:?}, not {:?}", String::from_utf8_lossy(found), start(expected))
        }
        Some(at) => format!("{} bytes that differ from those written at byte {at}", found.len()),
        None => format!("{} bytes instead of {}", found.len(), expected.len()),
    }
}

/// Returns the beginning of content as text.
fn start(content: &[u8]) -> String {
    String::from_utf8_lossy(&content[..content.len().min(60)]).into_owned()
}
