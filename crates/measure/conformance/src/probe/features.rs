//! Checks of what a bucket can be configured for, and of tags, copies and conditions under contention.

use futures_util::future::join_all;

use super::checks::{WithHeaders, get, put};
use super::{Findings, brief};
use plimsoll_base::clock::wall_now;
use plimsoll_base::net::encode::encode_into;
use plimsoll_engine::driver::background::Background;
use plimsoll_engine::store::web::WebStore;
use plimsoll_engine::store::{Body, Collect, Connection, Failure, Request, Store};
use plimsoll_s3::credentials::CredentialSource;
use plimsoll_s3::sign::Signer;
use plimsoll_s3::url::s3::S3Url;
use plimsoll_s3::url::{StoreUrl, web};
use plimsoll_session::open::Opened;

/// Lifetime of the requests, in seconds.
const LIFETIME_S: u32 = 300;

/// Configurations of a bucket: the name of the check, the parameter that reads it, the root element of the answer, and
/// the error code if there is none.
const CONFIGURATIONS: [(&str, &str, &str, &str); 5] = [
    ("versioning", "versioning", "VersioningConfiguration", ""),
    ("lifecycle", "lifecycle", "LifecycleConfiguration", "NoSuchLifecycleConfiguration"),
    ("object lock", "object-lock", "ObjectLockConfiguration", "ObjectLockConfigurationNotFoundError"),
    ("bucket policy", "policy", "\"Statement\"", "NoSuchBucketPolicy"),
    ("CORS", "cors", "CORSConfiguration", "NoSuchCORSConfiguration"),
];

/// Reader of an S3 store's settings, with signed requests.
struct Reader<'a> {
    opened: &'a Opened,
    url: &'a S3Url,
    source: &'a CredentialSource,
}

impl Reader<'_> {
    /// Reads the setting `parameter` of the bucket, or with `key` of an object.
    async fn read(&self, parameter: &str, key: Option<&str>) -> Result<String, Failure> {
        let mut path = String::new();
        self.url.endpoint.path_into(&mut path, key.unwrap_or(""));
        let pairs = [(parameter.to_string(), String::new())];
        let mut signer = Signer::new(&self.url.endpoint.region, "s3");
        let (host, now) = (&self.url.endpoint.authority, wall_now().as_second());
        let query =
            signer.presign_at(&self.source.current(), now, "GET", host, &path, (&pairs, &[]), LIFETIME_S);
        let text = format!("{}{path}?{query}", self.url.endpoint.url());
        let refused = |e: String| Failure::new(plimsoll_recorder::ErrorClass::Connect, e, Default::default());
        let web = web::parse(&text).map_err(|e| refused(e.to_string()))?;
        let store = WebStore::open(web, self.opened.route()).map_err(|e| refused(e.to_string()))?;
        let mut content = Collect::default();
        Background::new(&store).send(Request::Get { key: "", range: None }, &mut content).await?;
        Ok(String::from_utf8_lossy(&content.0).into_owned())
    }
}

/// Adds what a bucket can be configured for, and whether it is.
pub async fn configurations(opened: &Opened, findings: &mut Findings) {
    let Some(reader) = reader(opened) else { return };
    for (check, parameter, root, missing) in CONFIGURATIONS {
        let found = reader.read(parameter, None).await;
        findings.tell(
            check,
            match found {
                Ok(text) if text.contains(root) => {
                    let enabled = text.contains("<Status>Enabled") || text.contains(">Enabled<");
                    Ok(match (check, enabled) {
                        ("versioning", false) => "can be configured; not enabled for this bucket".into(),
                        ("versioning", true) => "enabled for this bucket".into(),
                        _ => "configured for this bucket".into(),
                    })
                }
                Ok(_) => Err("the answer is not that setting".into()),
                // Servers without these settings answer like buckets without them.
                Err(failure)
                    if failure.is_code(missing) && ["policy", "object-lock"].contains(&parameter) =>
                {
                    findings.add(check, "unknown", "not configured for this bucket");
                    continue;
                }
                Err(failure) if !missing.is_empty() && failure.is_code(missing) => {
                    Ok("can be configured; not configured for this bucket".into())
                }
                Err(failure) if failure.status() == Some(403) => {
                    findings.add(check, "unknown", brief(&failure));
                    continue;
                }
                Err(failure) => Err(brief(&failure)),
            },
        );
    }
}

fn reader(opened: &Opened) -> Option<Reader<'_>> {
    let (Some(StoreUrl::S3(url)), Some(source)) = (&opened.url, &opened.credentials) else { return None };
    // The requests of sessions are signed differently, and directory buckets have none of these settings.
    (!url.profile.sessions).then_some(Reader { opened, url, source })
}

/// Checks that the tags of an object are stored, and that an object can be copied within the store.
pub async fn tags_and_copies(
    background: &mut Background,
    opened: &Opened,
    root: &str,
    findings: &mut Findings,
) {
    let Some(reader) = reader(opened) else { return };
    let (tagged, copied) = (format!("{root}tagged"), format!("{root}copied"));
    let written = put(background, &tagged, b"content", vec![("x-amz-tagging", "colour=blue".into())]).await;
    let found = match written {
        Ok(_) => reader.read("tagging", Some(&tagged)).await,
        Err(failure) => Err(failure),
    };
    findings.tell(
        "object tags",
        match found {
            Ok(text) if text.contains("colour") && text.contains("blue") => Ok("a tag was read back".into()),
            Ok(_) => Err("ignored: the tag of a put was not stored".into()),
            Err(failure) => Err(brief(&failure)),
        },
    );
    let mut source = format!("/{}/", reader.url.endpoint.bucket);
    encode_into(&mut source, tagged.as_bytes(), true);
    let made = put(background, &copied, b"", vec![("x-amz-copy-source", source)]).await;
    let content = get(background, &copied).await;
    findings.tell(
        "copy",
        match (made, content) {
            (Ok(_), Ok(content)) if content == b"content" => Ok("the copy has the content".into()),
            (Ok(_), Ok(_)) => Err("ignored: an empty object was written".into()),
            (Err(failure), _) | (_, Err(failure)) => Err(brief(&failure)),
        },
    );
}

/// Number of concurrent writes with one condition, and how often they are tried.
const WRITERS: usize = 8;
const ROUNDS: usize = 10;

/// Writes an object on a condition; returns true if the write succeeded.
async fn write(
    connection: &mut dyn Connection,
    key: &str,
    number: usize,
    headers: Vec<(&'static str, String)>,
) -> bool {
    let body = Body::Whole(format!("writer {number}").into());
    connection.execute(Request::Put { key, body }, &mut WithHeaders(headers)).await.is_ok()
}

/// Checks that of several concurrent writes with one condition, one succeeds.
pub async fn contention(background: &mut Background, store: &dyn Store, root: &str, findings: &mut Findings) {
    let mut connections: Vec<_> = (0..WRITERS).map(|index| store.connection(index)).collect();
    for (check, is_match) in [("put if absent, 8 at once", false), ("put if unchanged, 8 at once", true)] {
        let (mut winners, mut problem) = (Vec::new(), None);
        for round in 0..ROUNDS {
            let key = format!("{root}contended-{is_match}-{round}");
            let condition = match is_match {
                false => ("if-none-match", "*".to_string()),
                true => match put(background, &key, b"first", Vec::new()).await.map(|reply| reply.etag) {
                    Ok(Some(etag)) => ("if-match", etag),
                    Ok(None) => {
                        problem = Some("a put returns no ETag".to_string());
                        break;
                    }
                    Err(failure) => {
                        problem = Some(brief(&failure));
                        break;
                    }
                },
            };
            let writes = connections.iter_mut().enumerate();
            let writes =
                writes.map(|(number, one)| write(one.as_mut(), &key, number, vec![condition.clone()]));
            let done = join_all(writes).await;
            winners.push(done.iter().filter(|is_done| **is_done).count());
        }
        let several = winners.iter().filter(|n| **n > 1).count();
        findings.tell(
            check,
            match problem {
                Some(problem) => Err(problem),
                None if several > 0 => {
                    Err(format!("not atomic: several writes succeeded in {several} of {ROUNDS} rounds"))
                }
                None if winners.contains(&0) => Err("no write succeeded in at least one round".into()),
                None => Ok(format!("one write succeeded in each of {ROUNDS} rounds")),
            },
        );
    }
}
