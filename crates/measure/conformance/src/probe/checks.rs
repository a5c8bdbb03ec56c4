//! Checks of objects, conditional writes, checksums, listings and read-only stores.

use super::{Findings, brief};
use plimsoll_base::net::encode::hex;
use plimsoll_engine::driver::background::Background;
use plimsoll_engine::store::ownership::KeySpace;
use plimsoll_engine::store::{Body, Collect, Failure, Ignore, Observer, Reply, Request, Store};
use plimsoll_s3::checksum::{Algorithm, BodyChecksum, md5};

/// Observer that adds headers to a request, and reads the entity tag of its answer.
pub struct WithHeaders(pub Vec<(&'static str, String)>);

impl Observer for WithHeaders {
    fn headers(&self) -> &[(&'static str, String)] {
        &self.0
    }

    fn wants_etag(&self) -> bool {
        true
    }
}

/// Writes a small object with additional request headers.
pub async fn put(
    background: &mut Background,
    key: &str,
    content: &[u8],
    headers: Vec<(&'static str, String)>,
) -> Result<Reply, Failure> {
    let body = Body::Whole(bytes::Bytes::copy_from_slice(content));
    background.send(Request::Put { key, body }, &mut WithHeaders(headers)).await
}

/// Reads the content of an object.
pub(super) async fn get(background: &mut Background, key: &str) -> Result<Vec<u8>, Failure> {
    let mut content = Collect::default();
    background.send(Request::Get { key, range: None }, &mut content).await.map(|_| content.0)
}

/// Checks puts, reads, ETags, range reads, conditional writes, checksums and multi-object deletes.
pub async fn objects(
    background: &mut Background,
    store: &dyn Store,
    space: &KeySpace,
    root: &str,
    findings: &mut Findings,
) {
    let key = format!("{root}object");
    let content = b"initial content".to_vec();
    let written = put(background, &key, &content, Vec::new()).await;
    let back = get(background, &key).await;
    findings.tell(
        "put and get",
        match (&written, &back) {
            (Ok(_), Ok(read)) if *read == content => Ok("the content read is the content written".into()),
            (Ok(_), Ok(_)) => Err("the content read differs from the content written".into()),
            (Err(failure), _) | (_, Err(failure)) => Err(brief(failure)),
        },
    );
    if written.is_err() {
        return;
    }
    let again = put(background, &key, b"and then this", Vec::new()).await;
    let seen = get(background, &key).await;
    let fresh = again.is_ok() && seen.is_ok_and(|read| read == b"and then this");
    findings.tell(
        "read after overwrite",
        fresh
            .then(|| "the new content is returned immediately".into())
            .ok_or("old or no content is returned".into()),
    );
    let head = background.send(Request::Head { key: &key }, &mut Ignore).await;
    let expected = hex(&md5(b"and then this"));
    findings.tell(
        "ETag is MD5",
        match head.map(|reply| reply.etag) {
            Ok(Some(tag)) if tag.trim_matches('"') == expected => {
                Ok("for an object written with one request".into())
            }
            Ok(tag) => Err(format!("the ETag is {}", tag.unwrap_or_else(|| "missing".into()))),
            Err(failure) => Err(brief(&failure)),
        },
    );
    if store.capabilities().ranges {
        let mut part = Collect::default();
        let read = background.send(Request::Get { key: &key, range: Some(4..8) }, &mut part).await;
        findings.tell(
            "ranges",
            match read {
                Ok(_) if part.0 == b"then" => Ok("returned exactly bytes 4 to 7".into()),
                Ok(_) => Err(format!("requested bytes 4 to 7, but received {} wrong bytes", part.0.len())),
                Err(failure) => Err(brief(&failure)),
            },
        );
    }
    // These checks send S3 headers.
    if store.capabilities().conditions {
        conditions(background, root, findings).await;
        checksums(background, root, findings).await;
    }
    let many: Vec<String> = (0..3).map(|i| format!("{root}many-{i}")).collect();
    for key in &many {
        let _ = put(background, key, b"x", Vec::new()).await;
    }
    if !store.capabilities().bulk_deletes {
        findings.tell("multi-object delete", Err("Plimsoll deletes objects one by one at this store".into()));
        return;
    }
    let Some(keys) = space.own_all(&many) else { return };
    let deleted = background.send(Request::DeleteMany { keys }, &mut Ignore).await;
    findings.tell(
        "multi-object delete",
        deleted
            .map(|_| "up to 1,000 objects per request".into())
            .map_err(|f| format!("objects must be deleted one by one ({})", brief(&f))),
    );
}

async fn conditions(background: &mut Background, root: &str, findings: &mut Findings) {
    let key = format!("{root}condition");
    let first = put(background, &key, b"first", vec![("if-none-match", "*".into())]).await;
    let second = put(background, &key, b"second", vec![("if-none-match", "*".into())]).await;
    let rejected = |reply: Result<Reply, Failure>| match reply {
        Err(failure) if matches!(failure.status(), Some(412 | 409)) => Ok(brief(&failure)),
        Err(failure) => Err(brief(&failure)),
        Ok(_) => Err("the condition is ignored: the object was overwritten".into()),
    };
    findings.tell(
        "put if absent",
        match first {
            Ok(_) => rejected(second),
            Err(failure) => Err(brief(&failure)),
        },
    );
    let wrong =
        put(background, &key, b"third", vec![("if-match", "\"0123456789abcdef0123456789abcdef\"".into())])
            .await;
    findings.tell("put if unchanged", rejected(wrong));
}

async fn checksums(background: &mut Background, root: &str, findings: &mut Findings) {
    let content = b"123456789".as_slice();
    let all =
        std::iter::once(BodyChecksum::Md5).chain(Algorithm::ALL.into_iter().map(BodyChecksum::Declared));
    for checksum in all {
        let key = format!("{root}checksum-{}", checksum.name());
        let header = checksum.header();
        let good = put(background, &key, content, vec![(header, checksum.of([content].into_iter()))]).await;
        let bad =
            put(background, &key, content, vec![(header, checksum.of([b"other".as_slice()].into_iter()))])
                .await;
        findings.tell(
            &format!("checksum {}", checksum.name()),
            match (good, bad) {
                (Err(failure), _) => Err(format!("rejected: {}", brief(&failure))),
                (Ok(_), Err(failure)) if failure.status().is_some_and(|s| s < 500) => {
                    Ok("verified: a wrong checksum is rejected".into())
                }
                (Ok(_), Err(failure)) => Err(brief(&failure)),
                (Ok(_), Ok(_)) => Err("ignored: a wrong checksum is accepted".into()),
            },
        );
    }
}

/// Checks the consistency, order, start and pagination of listings.
pub async fn listings(background: &mut Background, store: &dyn Store, root: &str, findings: &mut Findings) {
    let prefix = format!("{root}list/");
    let names: Vec<String> = (0..12).map(|i| format!("{prefix}{:02}", (i * 7) % 12)).collect();
    for key in &names {
        let _ = put(background, key, b"x", Vec::new()).await;
    }
    let list = |start_after| Request::List { prefix: &prefix, start_after, token: "", max_keys: 1000 };
    let keys = |reply: Reply| -> Vec<String> {
        reply.listing.unwrap_or_default().objects.into_iter().map(|o| o.key).collect()
    };
    match background.send_until_answered(list("")).await.map(keys) {
        Ok(found) if found.len() == names.len() => {
            findings.add("list after put", "yes", "new objects are listed immediately");
            findings.tell(
                "list in key order",
                if found.is_sorted() {
                    Ok("ascending".into())
                } else {
                    Err("the keys are not in order".into())
                },
            );
        }
        Ok(found) => findings.add(
            "list after put",
            "no",
            format!("{} of {} keys are listed", found.len(), names.len()),
        ),
        Err(failure) => findings.add("list after put", "no", brief(&failure)),
    }
    if store.capabilities().start_after {
        let from = format!("{prefix}05");
        let after = background.send(list(&from), &mut Ignore).await.map(keys);
        findings.tell(
            "list after a key",
            match after {
                Ok(found) if found.len() == 6 => Ok("start-after is exclusive".into()),
                Ok(found) => Err(format!("listed {} keys instead of 6", found.len())),
                Err(failure) => Err(brief(&failure)),
            },
        );
    }
    let page = Request::List { prefix: &prefix, start_after: "", token: "", max_keys: 5 };
    let paged = background.send(page, &mut Ignore).await.map(|reply| reply.listing.unwrap_or_default());
    findings.tell(
        "pagination",
        match paged {
            Ok(page) if page.objects.len() <= 5 && page.next_token.is_some() => {
                Ok("a page contains at most the requested number of keys".into())
            }
            Ok(page) => Err(format!("received {} keys instead of 5, or no next token", page.objects.len())),
            Err(failure) => Err(brief(&failure)),
        },
    );
}

/// Checks a read-only store: reads, cache status, range reads and connection reuse.
pub async fn reading(background: &mut Background, store: &dyn Store, findings: &mut Findings) {
    let Some(key) = store.only_object() else {
        findings.add("read", "-", "the URL is a directory; probe the URL of an object in it");
        return;
    };
    let whole = background.send(Request::Get { key, range: None }, &mut Ignore).await;
    let bytes = whole.as_ref().map(|reply| reply.bytes).unwrap_or(0);
    match &whole {
        Ok(reply) => {
            findings.add("read", "yes", format!("{bytes} bytes"));
            let cache = reply.cache.map_or("not reported".into(), |c| c.to_string());
            findings.add("cache", &cache, "cache status of the first response");
        }
        Err(failure) => findings.add("read", "no", brief(failure)),
    }
    if bytes > 1 {
        let part = background.send(Request::Get { key, range: Some(0..1) }, &mut Ignore).await;
        findings.tell(
            "ranges",
            part.map(|_| "returned exactly the requested byte".into()).map_err(|f| brief(&f)),
        );
    }
    let again = background.send(Request::Get { key, range: None }, &mut Ignore).await;
    if let Ok(reply) = again {
        let kept = reply.timings.connections == 0;
        findings.tell(
            "connection reuse",
            kept.then(|| "the second request reused the connection".into())
                .ok_or("the second request needed a new connection".into()),
        );
    }
}
