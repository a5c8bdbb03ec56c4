//! Directory buckets (S3 Express One Zone) over real sockets: sessions, their renewal, and the rules of such buckets.

use std::sync::Arc;

use crate::support::{ACCESS, SECRET, Server, block_on};
use plimsoll_engine::store::testing::conformance::check;
use plimsoll_engine::store::{Body, Failure, Ignore, PartTag, Reply, Request, Store};
use plimsoll_s3::credentials::Credentials;
use plimsoll_server::ServerSettings;

const BUCKET: &str = "data--use1-az4--x-s3";

fn own() -> Credentials {
    Credentials::new(ACCESS, SECRET, None)
}

fn server(session_life_s: u32) -> Server {
    Server::start_as("127.0.0.1:0", "", false, ServerSettings { session_life_s, ..ServerSettings::default() })
}

fn ready(server: &Server, bucket: &str) -> Arc<dyn Store> {
    let store = server.store_of(bucket, "", own());
    one(store.as_ref(), Request::CreateBucket).unwrap();
    store
}

fn one(store: &dyn Store, request: Request<'_>) -> Result<Reply, Failure> {
    block_on(async { store.connection(0).execute(request, &mut Ignore).await })
}

fn list(prefix: &'static str) -> Request<'static> {
    Request::List { prefix, start_after: "", token: "", max_keys: 1000 }
}

#[test]
fn a_directory_bucket_conforms_with_one_session() {
    let server = server(300);
    let store = ready(&server, BUCKET);
    assert!(!store.capabilities().start_after);
    block_on(check(store.as_ref(), "some/prefix/"));
    let calls = store.background_requests();
    assert_eq!(calls.len(), 1, "{calls:?}");
    assert!(
        calls[0].kind == plimsoll_recorder::store_facts::BackgroundRequestKind::CreateSession
            && calls[0].took_ns > 0
            && calls[0].error.is_none()
    );
    assert!(store.describe().signing.starts_with("session"));
    one(store.as_ref(), Request::DeleteBucket).unwrap();
    assert!(one(store.as_ref(), Request::CheckBucket).is_err());
}

#[test]
fn sessions_are_renewed_before_they_expire_and_never_concurrently() {
    let server = server(3);
    let store = ready(&server, BUCKET);
    let begin = plimsoll_base::clock::now_ns();
    let put = |i: usize| {
        let key = format!("some/prefix/{i}");
        one(store.as_ref(), Request::Put { key: &key, body: Body::Whole("x".into()) }).unwrap();
    };
    let mut done = 0;
    // Operations from several threads for longer than two sessions. An operation with an expired session would fail.
    std::thread::scope(|scope| {
        let worker = |n: usize| {
            let mut i = n;
            while store.background_requests().len() < 3 {
                put(i);
                i += 4;
            }
            i
        };
        let threads: Vec<_> = (0..4).map(|n| scope.spawn(move || worker(n))).collect();
        threads.into_iter().for_each(|t| done += t.join().unwrap());
    });
    let calls = store.background_requests();
    assert!(done > 4 && calls.iter().all(|c| c.error.is_none()), "{calls:?}");
    assert!(calls.windows(2).all(|two| two[0].began_ns + two[0].took_ns <= two[1].began_ns), "{calls:?}");
    assert!(
        plimsoll_base::clock::now_ns() - begin >= 2 * 2_000_000_000,
        "a session is used for most of its lifetime"
    );
}

#[test]
fn object_requests_need_a_session_of_their_bucket() {
    let server = server(300);
    let store = ready(&server, BUCKET);
    one(store.as_ref(), list("")).unwrap();
    // The same bucket treated as a general-purpose bucket: requests are signed with the account's credentials.
    let plain = server.store_of(BUCKET, "&provider=generic", own());
    assert!(one(plain.as_ref(), list("")).unwrap_err().is_code("AccessDenied"));
    one(plain.as_ref(), Request::CheckBucket).expect("HeadBucket accepts the account's credentials");
    let wrong = server.store_of(BUCKET, "", Credentials::new(ACCESS, "wrong", None));
    assert!(one(wrong.as_ref(), list("")).unwrap_err().is_code("SignatureDoesNotMatch"));
    assert!(one(wrong.as_ref(), list("")).is_err(), "a second attempt fails as well and does not hang");
    let missing = server.store_of("none--use1-az4--x-s3", "", own());
    assert!(one(missing.as_ref(), list("")).unwrap_err().is_code("NoSuchBucket"));
}

#[test]
fn the_rules_of_directory_buckets_are_enforced() {
    let server = server(300);
    let store = ready(&server, BUCKET);
    let refused = |request| one(store.as_ref(), request).unwrap_err();
    assert!(refused(list("half-a-name")).is_code("InvalidArgument"));
    let after = Request::List { prefix: "", start_after: "k", token: "", max_keys: 10 };
    assert!(refused(after).is_code("InvalidArgument"));
    let upload_id = one(store.as_ref(), Request::CreateMultipart { key: "k" }).unwrap().upload_id.unwrap();
    let part = |number| {
        let body = Body::Whole(vec![7; 5 << 20].into());
        let request = Request::UploadPart { key: "k", upload_id: &upload_id, number, body };
        let reply = one(store.as_ref(), request).unwrap();
        PartTag { etag: reply.etag.unwrap(), checksum: reply.checksum }
    };
    // Parts 2 and 3 are uploaded. The client numbers the completed parts from 1, and part 1 does not exist.
    part(2);
    let parts = [part(3)];
    let complete = Request::CompleteMultipart { key: "k", upload_id: &upload_id, parts: &parts };
    assert!(one(store.as_ref(), complete).is_err());
    let tag = &parts[0].etag;
    assert_ne!(
        tag.trim_matches('"'),
        plimsoll_base::net::encode::hex(&plimsoll_s3::checksum::md5(&[7; 5 << 20]))
    );
    one(
        store.as_ref(),
        Request::AbortMultipart {
            key: crate::support::everything().own("k").unwrap(),
            upload_id: &upload_id,
        },
    )
    .unwrap();
}
