//! The conformance suite that every [`Store`] must pass. Unit tests run it on the memory store and the
//! wrappers, wire tests on real servers.

use crate::store::ownership::{KeySpace, RunId};
use crate::store::{
    Body, Collect, Connection, Failure, Ignore, Listing, Observer, PartTag, Reply, Request, Segments, Store,
};
use bytes::Bytes;
use plimsoll_base::rng::Stream;

/// Tests every behaviour of `store` that Plimsoll relies on, with keys that begin with `prefix`.
///
/// # Panics
/// Panics with a description if the store misbehaves.
pub async fn check(store: &dyn Store, prefix: &str) {
    let space = KeySpace::of_run(prefix, &RunId::generate());
    let prefix = space.root();
    let can = store.capabilities();
    let mut connection = store.connection(0);
    let connection = connection.as_mut();
    round_trip(connection, prefix, can.max_object_bytes.unwrap_or(u64::MAX)).await;
    if can.ranges {
        ranges(connection, prefix).await;
    }
    overwrite(connection, prefix).await;
    if can.copies {
        copies(connection, prefix).await;
    }
    missing(connection, &space).await;
    hostile_keys(connection, prefix).await;
    listing(connection, prefix, can.start_after).await;
    if can.multipart {
        multipart(connection, &space).await;
    }
    clean(connection, &space).await;
}

async fn put(connection: &mut dyn Connection, key: &str, data: &[u8]) -> Reply {
    let body = Body::Whole(Bytes::copy_from_slice(data));
    connection
        .execute(Request::Put { key, body }, &mut Ignore)
        .await
        .unwrap_or_else(|e| panic!("put {key}: {e}"))
}

async fn get(
    connection: &mut dyn Connection,
    key: &str,
    range: Option<std::ops::Range<u64>>,
) -> Result<Vec<u8>, Failure> {
    let mut content = Collect::default();
    let reply = connection.execute(Request::Get { key, range }, &mut content).await?;
    assert_eq!(reply.bytes, content.0.len() as u64, "byte count of {key}");
    Ok(content.0)
}

async fn list(
    connection: &mut dyn Connection,
    prefix: &str,
    start_after: &str,
    token: &str,
    max_keys: u32,
) -> Listing {
    let request = Request::List { prefix, start_after, token, max_keys };
    let reply = connection.execute(request, &mut Ignore).await.unwrap_or_else(|e| panic!("list: {e}"));
    reply.listing.expect("the reply to a list has a listing")
}

async fn list_all(connection: &mut dyn Connection, prefix: &str) -> Vec<String> {
    let (mut keys, mut token) = (Vec::new(), String::new());
    loop {
        let page = list(connection, prefix, "", &token, 1000).await;
        keys.extend(page.objects.into_iter().map(|o| o.key));
        match page.next_token {
            Some(next) => token = next,
            None => return keys,
        }
    }
}

fn noise(len: usize) -> Vec<u8> {
    let stream = Stream::new(1, "conformance");
    (0..len).map(|i| stream.at(i as u64) as u8).collect()
}

struct Thirds(Vec<u8>);

impl Segments for Thirds {
    fn total(&self) -> u64 {
        self.0.len() as u64
    }

    fn segment(&self, index: usize) -> Option<Bytes> {
        self.0.chunks(self.0.len() / 3 + 1).nth(index).map(Bytes::copy_from_slice)
    }
}

struct Starts(Vec<u64>);

impl Observer for Starts {
    fn started(&mut self, at_ns: u64) {
        self.0.push(at_ns);
    }
}

async fn round_trip(connection: &mut dyn Connection, prefix: &str, max_object_bytes: u64) {
    for len in [0, 1, 1024, 400_000, 1_000_000].into_iter().filter(|len| *len as u64 <= max_object_bytes) {
        let (key, data) = (format!("{prefix}round-{len}"), noise(len));
        assert_eq!(put(connection, &key, &data).await.bytes, len as u64);
        assert!(get(connection, &key, None).await.unwrap() == data, "{len} bytes are read back unchanged");
        let head = connection.execute(Request::Head { key: &key }, &mut Ignore).await.unwrap();
        assert_eq!(head.size, Some(len as u64), "size of {len} bytes");
    }
    let (key, data) = (format!("{prefix}segmented"), noise(300_001));
    let body = Body::Segmented(std::sync::Arc::new(Thirds(data.clone())));
    let mut starts = Starts(Vec::new());
    let reply = connection.execute(Request::Put { key: &key, body }, &mut starts).await.unwrap();
    assert!(get(connection, &key, None).await.unwrap() == data, "a segmented body is read back unchanged");
    let t = reply.timings;
    assert_eq!(starts.0, [t.start_ns], "the start is reported once and equals the recorded one");
    assert!(t.start_ns <= t.body_first_ns && t.body_first_ns <= t.body_last_ns && t.body_last_ns <= t.end_ns);
}

async fn ranges(connection: &mut dyn Connection, prefix: &str) {
    let (key, data) = (format!("{prefix}range"), noise(10_000));
    put(connection, &key, &data).await;
    for range in [0..1, 17..4_711, 9_999..10_000, 9_000..20_000] {
        let expected = &data[range.start as usize..(range.end as usize).min(10_000)];
        assert_eq!(get(connection, &key, Some(range.clone())).await.unwrap(), expected, "range {range:?}");
    }
    let failure = get(connection, &key, Some(10_001..10_002)).await.unwrap_err();
    assert!(failure.is_code("InvalidRange"), "{failure}");
}

async fn overwrite(connection: &mut dyn Connection, prefix: &str) {
    let key = format!("{prefix}again");
    put(connection, &key, b"one").await;
    put(connection, &key, b"two!").await;
    assert_eq!(get(connection, &key, None).await.unwrap(), b"two!");
}

async fn copies(connection: &mut dyn Connection, prefix: &str) {
    let data = noise(70_000);
    for name in ["copied", "ü b+%2F?", "a/b"] {
        let (from, key) = (format!("{prefix}copy/{name}"), format!("{prefix}copy/of/{name}"));
        put(connection, &from, &data).await;
        let copied = connection.execute(Request::Copy { from: &from, key: &key }, &mut Ignore).await;
        let copied = copied.unwrap_or_else(|e| panic!("copy of {from}: {e}"));
        assert_eq!(copied.bytes, 0, "no content passes through the client");
        assert!(copied.timings.start_ns > 0 && copied.timings.start_ns <= copied.timings.end_ns);
        for key in [&from, &key] {
            assert!(get(connection, key, None).await.unwrap() == data, "{key} has the content");
        }
    }
    let (from, key) = (format!("{prefix}copy/absent"), format!("{prefix}copy/of/absent"));
    let failure =
        connection.execute(Request::Copy { from: &from, key: &key }, &mut Ignore).await.unwrap_err();
    assert_eq!(failure.status(), Some(404), "{failure}");
}

async fn missing(connection: &mut dyn Connection, space: &KeySpace) {
    let prefix = space.root();
    let key = format!("{prefix}absent");
    let failure = get(connection, &key, None).await.unwrap_err();
    assert!(failure.is_code("NoSuchKey"), "{failure}");
    let failure = connection.execute(Request::Head { key: &key }, &mut Ignore).await.unwrap_err();
    assert_eq!(failure.status(), Some(404), "{failure}");
    let key = space.own(&key).expect("the key is below the prefix");
    connection
        .execute(Request::Delete { key }, &mut Ignore)
        .await
        .expect("deleting a missing object succeeds");
}

async fn hostile_keys(connection: &mut dyn Connection, prefix: &str) {
    for name in
        ["a b", "a+b", "ü/日本", "a%2Fb", "~-_.!*'()", "q?x=1&y=2", "x=y;z,@:$", "#frag", "\"<&>\"", "a//b"]
    {
        let key = format!("{prefix}hostile/{name}");
        put(connection, &key, name.as_bytes()).await;
        assert_eq!(get(connection, &key, None).await.unwrap(), name.as_bytes(), "{key}");
        let listed = list_all(connection, &format!("{prefix}hostile/")).await;
        assert!(listed.contains(&key), "{key} is listed unchanged");
    }
}

async fn listing(connection: &mut dyn Connection, prefix: &str, ordered: bool) {
    let prefix = format!("{prefix}list/");
    for i in 0..25 {
        put(connection, &format!("{prefix}{i:04}"), &[0; 7]).await;
    }
    let (mut token, mut keys, mut pages) = (String::new(), Vec::new(), 0);
    loop {
        let page = list(connection, &prefix, "", &token, 10).await;
        assert!(page.objects.len() <= 10 && page.objects.iter().all(|o| o.size == 7));
        keys.extend(page.objects.into_iter().map(|o| o.key));
        pages += 1;
        match page.next_token {
            Some(next) => token = next,
            None => break,
        }
    }
    let expected: Vec<String> = (0..25).map(|i| format!("{prefix}{i:04}")).collect();
    if ordered {
        assert_eq!((pages, &keys), (3, &expected));
        let after = list(connection, &prefix, &expected[19], "", 1000).await;
        assert_eq!(after.objects.len(), 5, "start-after is exclusive");
    }
    keys.sort();
    assert_eq!(keys, expected, "every key is listed exactly once");
    assert!(list(connection, &format!("{prefix}none/"), "", "", 1000).await.objects.is_empty());
}

async fn multipart(connection: &mut dyn Connection, space: &KeySpace) {
    let prefix = space.root();
    let key = format!("{prefix}parts");
    let mut execute = async |request: Request<'_>| {
        connection.execute(request, &mut Ignore).await.unwrap_or_else(|e| panic!("multipart: {e}"))
    };
    let upload_id =
        execute(Request::CreateMultipart { key: &key }).await.upload_id.expect("an upload has an ID");
    let parts = [noise(5 << 20), noise(1000)];
    let mut tags = Vec::new();
    for (number, part) in (1..).zip(&parts) {
        let body = Body::Whole(Bytes::copy_from_slice(part));
        let reply = execute(Request::UploadPart { key: &key, upload_id: &upload_id, number, body }).await;
        assert_eq!(reply.bytes, part.len() as u64);
        tags.push(PartTag { etag: reply.etag.expect("a part has a tag"), checksum: reply.checksum });
        // Not all stores know of an upload before it has a part.
        let listed = execute(Request::ListUploads { prefix, token: "" }).await.uploads;
        assert_eq!(listed, [(key.clone(), upload_id.clone())]);
    }
    execute(Request::CompleteMultipart { key: &key, upload_id: &upload_id, parts: &tags }).await;
    let abandoned =
        execute(Request::CreateMultipart { key: &key }).await.upload_id.expect("an upload has an ID");
    let owned = space.own(&key).expect("the key is below the prefix");
    execute(Request::AbortMultipart { key: owned, upload_id: &abandoned }).await;
    assert!(
        execute(Request::ListUploads { prefix, token: "" }).await.uploads.is_empty(),
        "no unfinished upload remains"
    );
    assert!(get(connection, &key, None).await.unwrap() == parts.concat(), "the object consists of its parts");
}

/// Deletes all keys of `space`: the first on its own, the others in bulk.
async fn clean(connection: &mut dyn Connection, space: &KeySpace) {
    let prefix = space.root();
    let first = list_all(connection, prefix).await.remove(0);
    let key = space.own(&first).expect("the key is below the prefix");
    connection.execute(Request::Delete { key }, &mut Ignore).await.expect("delete");
    loop {
        let keys = list_all(connection, prefix).await;
        if keys.is_empty() {
            return;
        }
        assert!(!keys.contains(&first));
        for keys in keys.chunks(1000) {
            let keys = space.own_all(keys).expect("the key is below the prefix");
            connection.execute(Request::DeleteMany { keys }, &mut Ignore).await.expect("delete many");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::counted::Counted;
    use crate::store::memory::MemoryStore;
    use crate::store::testing::faulty::{FaultShares, Faulty};
    use crate::store::testing::throttled::Throttled;
    use plimsoll_base::provider::calls::Call;
    use std::sync::Arc;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    #[test]
    fn memory_conforms() {
        block_on(check(&MemoryStore::default(), "p/"));
    }

    #[test]
    fn throttled_conforms_and_limits_the_rate() {
        block_on(async {
            check(&Throttled::new(MemoryStore::default(), 1e6), "p/").await;
            let slow = Throttled::new(MemoryStore::default(), 1_000.0);
            let (mut connection, begin) = (slow.connection(0), plimsoll_base::clock::now_ns());
            for _ in 0..21 {
                connection.execute(Request::CheckBucket, &mut Ignore).await.unwrap();
            }
            assert!(plimsoll_base::clock::now_ns() - begin >= 20_000_000, "20 intervals of 1 ms");
        });
    }

    #[test]
    fn faulty_without_faults_conforms() {
        block_on(check(&Faulty::new(MemoryStore::default(), FaultShares::default(), 1), "p/"));
    }

    #[test]
    fn faulty_fails_the_same_operations_for_the_same_seed() {
        let faults = FaultShares { slow_down: 0.2, reset: 0.1, corrupt: 0.0 };
        let results = |seed| {
            block_on(async move {
                let mut connection = Faulty::new(MemoryStore::default(), faults, seed).connection(0);
                let mut classes = Vec::new();
                for _ in 0..1000 {
                    let result = connection.execute(Request::CheckBucket, &mut Ignore).await;
                    classes.push(result.err().map(|f| f.class.to_string()));
                }
                classes
            })
        };
        let first = results(7);
        assert_eq!(first, results(7));
        assert_ne!(first, results(8));
        let slow = first.iter().filter(|c| c.as_deref() == Some("503 SlowDown")).count();
        assert!((150..250).contains(&slow), "{slow}");
    }

    #[test]
    fn counted_conforms_and_counts() {
        let counts = Arc::<crate::store::counted::RequestCounts>::default();
        let store = Counted::new(Arc::new(MemoryStore::default()), Arc::clone(&counts));
        block_on(check(&store, "p/"));
        assert!(counts.requests(Call::PutObject) > 40 && counts.uploaded() > 0 && counts.downloaded() > 0);
        assert_eq!(counts.failures(), 4, "one invalid range, three missing keys");
        let refused: u64 = counts.refused().iter().map(|(_, _, n)| n).sum();
        assert_eq!(refused, 4);
    }
}
