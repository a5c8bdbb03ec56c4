//! Single objects, conditions, checksums, listings.

use super::{Findings, brief};
use crate::driver::background::Background;
use crate::net::encode::hex;
use crate::s3::checksum::{Algorithm, BodyChecksum, md5};
use crate::store::ownership::KeySpace;
use crate::store::{Body, Collect, Failure, Ignore, Observer, Reply, Request, Store};

/// Puts headers on a request.
pub struct Bearing(pub Vec<(&'static str, String)>);

impl Observer for Bearing {
    fn headers(&self) -> &[(&'static str, String)] {
        &self.0
    }
}

/// Puts a small object.
pub async fn put(
    background: &mut Background,
    key: &str,
    content: &[u8],
    headers: Vec<(&'static str, String)>,
) -> Result<Reply, Failure> {
    let body = Body::Whole(bytes::Bytes::copy_from_slice(content));
    background.ask(Request::Put { key, body }, &mut Bearing(headers)).await
}

async fn get(background: &mut Background, key: &str) -> Result<Vec<u8>, Failure> {
    let mut content = Collect::default();
    background.ask(Request::Get { key, range: None }, &mut content).await.map(|_| content.0)
}

/// Put, read, tags, ranges, conditions, checksums.
pub async fn objects(
    background: &mut Background,
    store: &dyn Store,
    (space, root): (&KeySpace, &str),
    findings: &mut Findings,
) {
    let key = format!("{root}object");
    let content = b"what is put here".to_vec();
    let written = put(background, &key, &content, Vec::new()).await;
    let back = get(background, &key).await;
    findings.tell(
        "put and get",
        match (&written, &back) {
            (Ok(_), Ok(read)) if *read == content => Ok("what was put comes back".into()),
            (Ok(_), Ok(_)) => Err("something else comes back".into()),
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
        fresh.then(|| "new content at once".into()).ok_or("old content, or none".into()),
    );
    let head = background.ask(Request::Head { key: &key }, &mut Ignore).await;
    let expected = hex(&md5(b"and then this"));
    findings.tell(
        "entity tag is MD5",
        match head.map(|reply| reply.etag) {
            Ok(Some(tag)) if tag.trim_matches('"') == expected => {
                Ok("of an object put by one request".into())
            }
            Ok(tag) => Err(format!("it is {}", tag.unwrap_or_else(|| "none".into()))),
            Err(failure) => Err(brief(&failure)),
        },
    );
    if store.capabilities().ranges {
        let mut part = Collect::default();
        let read = background.ask(Request::Get { key: &key, range: Some(4..8) }, &mut part).await;
        findings.tell(
            "ranges",
            match read {
                Ok(_) if part.0 == b"then" => Ok("bytes 4 to 7 and no others".into()),
                Ok(_) => Err(format!("{} bytes came for 4", part.0.len())),
                Err(failure) => Err(brief(&failure)),
            },
        );
    }
    // Headers of conditions and checksums are S3's.
    if store
        .profile()
        .is_some_and(|p| p.name != "google-cloud-storage" || store.describe().signing.contains("payload"))
    {
        conditions(background, root, findings).await;
        checksums(background, root, findings).await;
    }
    let many: Vec<String> = (0..3).map(|i| format!("{root}many-{i}")).collect();
    for key in &many {
        let _ = put(background, key, b"x", Vec::new()).await;
    }
    let Some(keys) = space.own_all(&many) else { return };
    let deleted = background.ask(Request::DeleteMany { keys }, &mut Ignore).await;
    findings.tell(
        "delete of many",
        deleted
            .map(|_| "up to 1,000 in one request".into())
            .map_err(|f| format!("one by one instead ({})", brief(&f))),
    );
}

async fn conditions(background: &mut Background, root: &str, findings: &mut Findings) {
    let key = format!("{root}condition");
    let first = put(background, &key, b"first", vec![("if-none-match", "*".into())]).await;
    let second = put(background, &key, b"second", vec![("if-none-match", "*".into())]).await;
    let told = |refused: Result<Reply, Failure>| match refused {
        Err(failure) if matches!(failure.status(), Some(412 | 409)) => Ok(brief(&failure)),
        Err(failure) => Err(brief(&failure)),
        Ok(_) => Err("the condition is ignored: the object was overwritten".into()),
    };
    findings.tell(
        "put if absent",
        match first {
            Ok(_) => told(second),
            Err(failure) => Err(brief(&failure)),
        },
    );
    let wrong =
        put(background, &key, b"third", vec![("if-match", "\"0123456789abcdef0123456789abcdef\"".into())])
            .await;
    findings.tell("put if unchanged", told(wrong));
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
                (Err(failure), _) => Err(format!("refused: {}", brief(&failure))),
                (Ok(_), Err(failure)) if failure.status().is_some_and(|s| s < 500) => {
                    Ok("verified: a wrong one is refused".into())
                }
                (Ok(_), Err(failure)) => Err(brief(&failure)),
                (Ok(_), Ok(_)) => Err("ignored: a wrong one is accepted".into()),
            },
        );
    }
}

/// Order, and where a listing may begin.
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
    match background.insist(list("")).await.map(keys) {
        Ok(found) if found.len() == names.len() => {
            findings.add("list after put", "yes", "what was put is listed at once");
            findings.tell(
                "list in key order",
                if found.is_sorted() { Ok("ascending".into()) } else { Err("in none that is known".into()) },
            );
        }
        Ok(found) => findings.add("list after put", "no", format!("{} of {} keys", found.len(), names.len())),
        Err(failure) => findings.add("list after put", "no", brief(&failure)),
    }
    if store.capabilities().start_after {
        let from = format!("{prefix}05");
        let after = background.ask(list(&from), &mut Ignore).await.map(keys);
        findings.tell(
            "list from a key on",
            match after {
                Ok(found) if found.len() == 6 => Ok("start-after is exclusive".into()),
                Ok(found) => Err(format!("{} keys came for 6", found.len())),
                Err(failure) => Err(brief(&failure)),
            },
        );
    }
    let page = Request::List { prefix: &prefix, start_after: "", token: "", max_keys: 5 };
    let paged = background.ask(page, &mut Ignore).await.map(|reply| reply.listing.unwrap_or_default());
    findings.tell(
        "pages",
        match paged {
            Ok(page) if page.objects.len() <= 5 && page.next_token.is_some() => {
                Ok("of the size asked for".into())
            }
            Ok(page) => Err(format!("{} keys came for 5, and no token", page.objects.len())),
            Err(failure) => Err(brief(&failure)),
        },
    );
}

/// What can be asked of a store that is only read.
pub async fn reading(background: &mut Background, store: &dyn Store, findings: &mut Findings) {
    let Some(key) = store.only_object() else {
        findings.add("read", "-", "a directory; name one of its objects to probe it");
        return;
    };
    let whole = background.ask(Request::Get { key, range: None }, &mut Ignore).await;
    let bytes = whole.as_ref().map(|reply| reply.bytes).unwrap_or(0);
    match &whole {
        Ok(reply) => {
            findings.add("read", "yes", format!("{bytes} bytes"));
            let cache = reply.cache.map_or("none speaks".into(), |c| c.to_string());
            findings.add("cache", &cache, "what a cache on the way says of the first answer");
        }
        Err(failure) => findings.add("read", "no", brief(failure)),
    }
    if bytes > 1 {
        let part = background.ask(Request::Get { key, range: Some(0..1) }, &mut Ignore).await;
        findings.tell("ranges", part.map(|_| "one byte and no more".into()).map_err(|f| brief(&f)));
    }
    let again = background.ask(Request::Get { key, range: None }, &mut Ignore).await;
    if let Ok(reply) = again {
        let kept = reply.timings.connections == 0;
        findings.tell(
            "connection kept",
            kept.then(|| "the second request needed no new one".into())
                .ok_or("closed after each answer".into()),
        );
    }
}
