//! Reads everything after a cut, and compares it with what was acknowledged.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use futures_util::{StreamExt, stream};

use super::content::{ContentId, bytes_of};
use super::history::{Event, Expected, KeyState, OperationKind, expected};
use super::pause::pause;
use super::signed::blocking;
use super::versions::has_versions;
use super::violation::{Violation, ViolationKind};
use super::work::CheckedStore;
use plimsoll_base::clock::{MILLISECOND, now_ns};
use plimsoll_engine::driver::background::{Background, Pages};
use plimsoll_engine::store::{Body, Collect, Failure, Request};
use plimsoll_recorder::error_class::ErrorClass;

/// Number of keys that are read at the same time.
const PARALLEL_READS: usize = 64;
/// Least deadline of a read, so that no server is accused because it is slow.
const READ_WITHIN: Duration = Duration::from_secs(10);
/// Most attempts to connect for one read.
const MAX_CONNECTIONS: u32 = 10;
/// Time until a violation is looked at again.
const SECOND_LOOK: Duration = Duration::from_millis(300);

/// Entry of a key in a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListingEntry {
    /// The listing could not be read.
    Unknown,
    /// The key is not listed.
    Missing,
    /// The key is listed with this size in bytes.
    Size(u64),
}

/// Answers of a store about a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Content; `None` if the object does not exist, an error if reads fail.
    pub content: Result<Option<Vec<u8>>, String>,
    /// Entry in the listing.
    pub listed: ListingEntry,
    /// Tag; `None` if the object has none or does not exist, an error if reads of tags fail.
    pub tag: Result<Option<u64>, String>,
}

/// Compares what a store answers with what is expected. Returns the kind of the violation with its details; `None` if
/// there is none.
pub fn judge(expected: &Expected, seen: &Seen, seed: u64) -> Option<(ViolationKind, String)> {
    let is = |content: &Option<Vec<u8>>, id: Option<ContentId>| match (content, id) {
        (Some(bytes), Some(id)) => bytes.len() as u64 == id.size && *bytes == bytes_of(seed, id),
        (None, None) => true,
        _ => false,
    };
    let content = match &seen.content {
        Ok(content) => content,
        Err(message) => return Some((ViolationKind::Unreadable, message.clone())),
    };
    let matching: Vec<&KeyState> =
        expected.states.iter().filter(|state| is(content, state.content)).collect();
    if matching.is_empty() {
        let Some(bytes) = content else { return Some((ViolationKind::Lost, "GET: no such key".into())) };
        let earlier = expected.earlier.iter().rev().find(|id| is(content, Some(**id)));
        return Some(match (expected.states[0].content, earlier) {
            (None, Some(_)) => (ViolationKind::Back, "GET returns the deleted object".into()),
            (Some(_), Some(_)) => (ViolationKind::Old, "GET returns an earlier object".into()),
            (due, None) => (ViolationKind::Damaged, difference(bytes, due, seed)),
        });
    }
    match (content, seen.listed) {
        (Some(_), ListingEntry::Missing) => {
            return Some((ViolationKind::Listing, "GET returns it, but it is not listed".into()));
        }
        (None, ListingEntry::Size(_)) => {
            return Some((ViolationKind::Listing, "it is listed, but GET finds no such key".into()));
        }
        (Some(bytes), ListingEntry::Size(size)) if bytes.len() as u64 != size => {
            let detail = format!("listed with {size} bytes; GET returns {}", bytes.len());
            return Some((ViolationKind::Listing, detail));
        }
        _ => {}
    }
    match &seen.tag {
        Err(message) => Some((ViolationKind::Unreadable, format!("tags: {message}"))),
        Ok(tag) if matching.iter().any(|state| state.tag == *tag) => None,
        Ok(None) => Some((ViolationKind::Lost, "the object has no tag".into())),
        Ok(Some(tag)) if expected.earlier_tags.contains(tag) => {
            Some((ViolationKind::Old, "the object has an earlier tag".into()))
        }
        Ok(Some(tag)) => {
            Some((ViolationKind::Damaged, format!("the object has the tag {tag}, which nobody set")))
        }
    }
}

/// Describes content that nobody wrote.
fn difference(found: &[u8], due: Option<ContentId>, seed: u64) -> String {
    let Some(due) = due else {
        return format!("GET returns {} bytes that nobody wrote, instead of no object", found.len());
    };
    if found.len() as u64 != due.size {
        return format!("GET returns {} bytes, instead of the {} that were written", found.len(), due.size);
    }
    let first = bytes_of(seed, due).iter().zip(found).position(|(due, found)| due != found).unwrap_or(0);
    format!("GET returns {} bytes that differ from byte {first} on", found.len())
}

/// Result of an audit.
#[derive(Debug, Default)]
pub struct Audit {
    /// Violations; their cut is 0.
    pub violations: Vec<Violation>,
    /// Kinds of the operations whose effect was due.
    pub due: Vec<OperationKind>,
    /// Reason why the store accepts no write; `None` if it does.
    pub not_writable: Option<String>,
}

/// Reads all keys of `events` and the listing. A violation counts only if it still exists after
/// [`SECOND_LOOK`], because a server may answer before all of its parts have started. `cut_ns` is the time of the cut
/// on the monotonic clock.
pub async fn audit(target: &CheckedStore, events: &[Event], cut_ns: u64) -> Audit {
    let mut keys: BTreeMap<&str, Expected> = BTreeMap::new();
    for event in events {
        let key = event.operation.key.as_str();
        if !keys.contains_key(key) {
            keys.insert(key, expected(events.iter().filter(|event| event.operation.key == key)));
        }
    }
    keys.retain(|_, expected| expected.last.is_some());
    let due = keys
        .values()
        .filter_map(|expected| expected.last.as_ref())
        .map(|last| last.operation.kind())
        .collect();
    let mut violations = look(target, &keys, cut_ns).await;
    if !violations.is_empty() {
        pause(SECOND_LOOK).await;
        keys.retain(|key, _| violations.iter().any(|violation| violation.key == *key));
        violations = look(target, &keys, cut_ns).await;
    }
    let not_writable = write(target).await.err().map(|failure| failure.message);
    Audit { violations, due, not_writable }
}

/// Writes an object, with retries.
async fn write(target: &CheckedStore) -> Result<(), Failure> {
    let mut background = Background::new(target.store.as_ref());
    let key = target.key("after the cut");
    let body = Body::Whole(bytes_of(target.seed, ContentId { operation: u64::MAX, size: 100 }));
    background.send_until_answered(Request::Put { key: &key, body }).await.map(drop)
}

/// Reads keys and the listing once, and returns the violations.
async fn look(target: &CheckedStore, keys: &BTreeMap<&str, Expected>, cut_ns: u64) -> Vec<Violation> {
    let listed = list(target).await;
    // A request without an answer delays only its own key.
    let looks = keys.iter().map(|(key, expected)| {
        let entry = match &listed {
            _ if has_versions(key) => ListingEntry::Unknown,
            Ok(listed) => {
                listed.get(&target.key(key)).map_or(ListingEntry::Missing, |size| ListingEntry::Size(*size))
            }
            Err(_) => ListingEntry::Unknown,
        };
        async move { (*key, expected, see(target, key, expected, entry).await) }
    });
    let seen: Vec<_> = stream::iter(looks).buffered(PARALLEL_READS).collect().await;
    let mut failed_listing = listed.as_ref().err().cloned();
    let mut found = Vec::new();
    for (key, expected, seen) in seen {
        let Some(last) = &expected.last else { continue };
        let fails = |message: String| (ViolationKind::Listing, format!("the listing fails: {message}"));
        // A listing that fails is one violation, not one for each key.
        let failed = || failed_listing.take().map(fails);
        let Some((kind, detail)) = judge(expected, &seen, target.seed).or_else(failed) else { continue };
        let age_ns = cut_ns.saturating_sub(last.acknowledged_ns.unwrap_or(cut_ns));
        found.push(Violation {
            cut: 0,
            key: key.to_string(),
            operation: last.operation.kind(),
            kind,
            age_ms: age_ns as f64 / MILLISECOND as f64,
            detail,
            history: expected.history.clone(),
        });
    }
    found
}

/// Reads a key, and its tag if it should have one.
async fn see(target: &CheckedStore, key: &str, expected: &Expected, listed: ListingEntry) -> Seen {
    let content = read(target, key).await;
    let has_tags = expected.states.iter().any(|state| state.tag.is_some());
    let tag = match (&content, has_tags) {
        (Ok(Some(_)), true) => tag(target, key).await,
        _ => Ok(None),
    };
    Seen { content, listed, tag }
}

async fn list(target: &CheckedStore) -> Result<HashMap<String, u64>, String> {
    let mut background = Background::new(target.store.as_ref()).with_min_timeout(READ_WITHIN);
    let mut all = HashMap::new();
    let prefix = target.key("");
    let mut pages = Pages::new(&prefix);
    while let Some(page) = pages.next(&mut background).await.map_err(|failure| failure.message)? {
        all.extend(page.objects.into_iter().map(|object| (object.key, object.size)));
    }
    Ok(all)
}

/// Reads an object; `None` if it does not exist.
async fn read(target: &CheckedStore, key: &str) -> Result<Option<Vec<u8>>, String> {
    if let Some(versions) = target.versions.clone().filter(|_| has_versions(key)) {
        let key = target.key(key);
        return blocking(move || versions.read(&key)).await;
    }
    let (key, began) = (target.key(key), now_ns());
    // A connection that a busy server does not accept says nothing about the object.
    let again = |failure: &Failure, attempt| {
        let is_left = attempt < MAX_CONNECTIONS && now_ns() - began < READ_WITHIN.as_nanos() as u64;
        failure.class == ErrorClass::Connect && is_left
    };
    let mut attempt = 1;
    loop {
        let mut background = Background::new(target.store.as_ref()).with_min_timeout(READ_WITHIN);
        let mut content = Collect::default();
        match background.send(Request::Get { key: &key, range: None }, &mut content).await {
            Ok(_) => return Ok(Some(content.0)),
            Err(failure) if failure.status() == Some(404) => return Ok(None),
            Err(failure) if again(&failure, attempt) => pause(Duration::from_millis(100)).await,
            Err(failure) => return Err(format!("GET fails: {}", failure.message)),
        }
        attempt += 1;
    }
}

async fn tag(target: &CheckedStore, key: &str) -> Result<Option<u64>, String> {
    let (signed, key) = (target.signed.clone(), target.key(key));
    blocking(move || signed.tag(&key)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(operation: u64, size: u64) -> ContentId {
        ContentId { operation, size }
    }

    fn key(states: &[Option<ContentId>], earlier: &[ContentId]) -> Expected {
        Expected {
            states: states.iter().map(|content| KeyState { content: *content, tag: None }).collect(),
            earlier: earlier.to_vec(),
            earlier_tags: Vec::new(),
            history: Vec::new(),
            last: None,
        }
    }

    fn seen(content: Option<Vec<u8>>) -> Seen {
        let listed =
            content.as_ref().map_or(ListingEntry::Missing, |bytes| ListingEntry::Size(bytes.len() as u64));
        Seen { content: Ok(content), listed, tag: Ok(None) }
    }

    fn found(expected: &Expected, seen: &Seen) -> Option<ViolationKind> {
        judge(expected, seen, 1).map(|(kind, _)| kind)
    }

    #[test]
    fn each_violation_is_named() {
        let (new, old) = (id(2, 100), id(1, 100));
        let bytes = |id| Some(bytes_of(1, id).to_vec());
        let written = key(&[Some(new)], &[old]);
        assert_eq!(found(&written, &seen(bytes(new))), None);
        assert_eq!(found(&written, &seen(None)), Some(ViolationKind::Lost));
        assert_eq!(found(&written, &seen(bytes(old))), Some(ViolationKind::Old));
        assert_eq!(
            found(&written, &seen(bytes(new).map(|all| all[..50].to_vec()))),
            Some(ViolationKind::Damaged)
        );
        assert_eq!(
            found(&written, &Seen { listed: ListingEntry::Missing, ..seen(bytes(new)) }),
            Some(ViolationKind::Listing)
        );
        assert_eq!(
            found(&written, &Seen { listed: ListingEntry::Size(7), ..seen(bytes(new)) }),
            Some(ViolationKind::Listing)
        );
        let deleted = key(&[None], &[old]);
        assert_eq!(found(&deleted, &seen(None)), None);
        assert_eq!(found(&deleted, &seen(bytes(old))), Some(ViolationKind::Back));
        assert_eq!(
            found(&deleted, &Seen { listed: ListingEntry::Size(100), ..seen(None) }),
            Some(ViolationKind::Listing)
        );
        let error = Seen { content: Err("500".into()), ..seen(None) };
        assert_eq!(found(&written, &error), Some(ViolationKind::Unreadable));
    }

    #[test]
    fn an_operation_without_an_answer_breaks_no_promise() {
        let (new, old) = (id(2, 100), id(1, 100));
        let open = key(&[Some(old), Some(new), None], &[]);
        for content in [Some(new), Some(old), None] {
            assert_eq!(found(&open, &seen(content.map(|id| bytes_of(1, id).to_vec()))), None);
        }
    }

    /// Regression: a delete without an answer that took effect was taken for a wrong tag.
    #[test]
    fn a_missing_object_has_no_tag() {
        let states = vec![KeyState { content: Some(id(1, 8)), tag: Some(5) }, KeyState::default()];
        let expected = Expected { states, ..key(&[], &[]) };
        assert_eq!(found(&expected, &seen(None)), None);
    }
}
