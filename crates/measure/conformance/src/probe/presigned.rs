//! Checks that presigned URLs work and expire.

use super::checks::put;
use super::{Findings, brief};
use plimsoll_base::clock::wall_now;
use plimsoll_engine::driver::background::Background;
use plimsoll_engine::store::web::WebStore;
use plimsoll_engine::store::{Failure, Ignore, Request};
use plimsoll_s3::sign::Signer;
use plimsoll_s3::url::StoreUrl;
use plimsoll_s3::url::web;
use plimsoll_session::open::Opened;

/// Lifetime of the tested URLs, in seconds (15 minutes).
const LIFETIME_S: u32 = 900;

/// Reads an object with a new presigned URL and with one that expired a minute ago.
pub async fn urls(background: &mut Background, opened: &Opened, root: &str, findings: &mut Findings) {
    let Some(StoreUrl::S3(url)) = &opened.url else { return };
    let Some(source) = &opened.credentials else { return };
    if url.profile.sessions {
        // A store with sessions signs URLs with a session, so they expire with it after 5 minutes.
        return;
    }
    let key = format!("{root}presigned");
    if put(background, &key, b"signed ahead", Vec::new()).await.is_err() {
        return;
    }
    let mut path = String::new();
    url.endpoint.path_into(&mut path, &key);
    let mut signer = Signer::new(&url.endpoint.region, "s3");
    let mut read = async |second: i64| -> Result<u64, Failure> {
        let host = &url.endpoint.authority;
        let query = signer.presign_at(&source.current(), second, "GET", host, &path, (&[], &[]), LIFETIME_S);
        let text = format!("{}{path}?{query}", url.endpoint.url());
        let refused = |e: String| Failure::new(plimsoll_recorder::ErrorClass::Connect, e, Default::default());
        let web = web::parse(&text).map_err(|e| refused(e.to_string()))?;
        let store = WebStore::open(web, opened.route()).map_err(|e| refused(e.to_string()))?;
        let mut reader = Background::new(&store);
        reader.send(Request::Get { key: "", range: None }, &mut Ignore).await.map(|reply| reply.bytes)
    };
    let now = wall_now().as_second();
    let fresh = read(now).await;
    findings.tell(
        "presigned URL",
        fresh.map(|_| "a URL with a lifetime of 15 minutes works".into()).map_err(|f| brief(&f)),
    );
    let expired = read(now - i64::from(LIFETIME_S) - 60).await;
    findings.tell(
        "presigned URLs expire",
        match expired {
            Err(failure) if matches!(failure.status(), Some(400..=403)) => Ok(brief(&failure)),
            Err(failure) => Err(brief(&failure)),
            Ok(_) => Err("a URL that expired a minute ago still works".into()),
        },
    );
}
