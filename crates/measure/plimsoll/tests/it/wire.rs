//! The S3 store against the embedded server, over real sockets.

use std::net::ToSocketAddrs;

use crate::support::{ACCESS, SECRET, Server, block_on};
use plimsoll_engine::store::http::Route;
use plimsoll_engine::store::testing::conformance::check;
use plimsoll_engine::store::{Body, Collect, Connection, Failure, Ignore, Reply, Request};
use plimsoll_recorder::ErrorClass;
use plimsoll_s3::credentials::Credentials;

fn put<'a>(key: &'a str, content: &'static str) -> Request<'a> {
    Request::Put { key, body: Body::Whole(content.into()) }
}

async fn get(connection: &mut dyn Connection, key: &str) -> Result<(Reply, Vec<u8>), Failure> {
    let mut content = Collect::default();
    let reply = connection.execute(Request::Get { key, range: None }, &mut content).await?;
    Ok((reply, content.0))
}

#[test]
fn conforms_over_http_with_signed_payloads() {
    let server = Server::start("", false);
    block_on(check(server.ready("").as_ref(), "some/prefix/"));
}

#[test]
fn conforms_over_tls_with_unsigned_payloads() {
    let server = Server::start("", true);
    block_on(check(server.ready("").as_ref(), "some/prefix/"));
}

#[test]
fn conforms_with_the_bucket_in_the_host_name() {
    let has_ipv6 = ("localhost", 0).to_socket_addrs().unwrap().any(|address| address.is_ipv6());
    let server = Server::start_on(if has_ipv6 { "[::]:0" } else { "127.0.0.1:0" }, "", false);
    block_on(check(server.ready("&style=virtual").as_ref(), "some/prefix/"));
}

#[test]
fn conforms_with_presigned_urls() {
    let server = Server::start("", false);
    let store = server.ready("&presign=15m");
    assert!(store.describe().signing.contains("900 s"));
    block_on(check(store.as_ref(), "some/prefix/"));
    // Headers that describe the object are signed as well.
    block_on(check(
        server.store("&presign=15m&checksum=crc32c&storage_class=STANDARD").as_ref(),
        "some/prefix/",
    ));
    // URLs with a short lifetime are renewed before they expire.
    block_on(check(server.store("&presign=2s").as_ref(), "some/prefix/"));
}

#[test]
fn every_s3_provider_profile_conforms() {
    let server = Server::start("", false);
    server.ready("");
    for name in plimsoll_base::provider::names().into_iter().filter(|name| *name != "aws-s3-express") {
        let store = server.store(&format!("&provider={name}&style=path"));
        assert_eq!(store.describe().provider, name);
        block_on(check(store.as_ref(), "some/prefix/"));
    }
}

#[test]
fn uploads_carry_the_configured_checksum() {
    let server = Server::start("", false);
    for checksum in ["md5", "crc32", "crc32c", "crc64nvme", "sha1", "sha256"] {
        let store = server.store(&format!("&provider=embedded&checksum={checksum}&storage_class=STANDARD"));
        let _ = block_on(async { store.connection(0).execute(Request::CreateBucket, &mut Ignore).await });
        block_on(check(store.as_ref(), "some/prefix/"));
    }
}

#[test]
fn connect_and_tls_handshake_are_timed_separately() {
    let server = Server::start("", true);
    let store = server.ready("");
    block_on(async {
        let mut connection = store.connection(0);
        let first = connection.execute(put("k", "x"), &mut Ignore).await.unwrap().timings;
        assert!(first.connections == 1 && first.connect_ns > 0 && first.tls_ns > 0, "{first:?}");
        let second = connection.execute(put("k", "x"), &mut Ignore).await.unwrap().timings;
        assert!(second.connections == 0 && second.tls_ns == 0, "the connection is reused: {second:?}");
        assert!(second.start_ns < second.first_byte_ns && second.first_byte_ns <= second.end_ns);
    });
}

#[test]
fn an_untrusted_certificate_is_a_tls_failure() {
    let server = Server::start("", true);
    let text = format!("s3://bucket?endpoint={}", server.endpoint());
    let Ok(plimsoll_s3::url::StoreUrl::S3(url)) = plimsoll_s3::url::parse(&text, &|_| None) else { panic!() };
    // The server's certificate is not a certificate authority.
    let ca = crate::support::data("tls/server.pem");
    let store = plimsoll_engine::store::s3::S3Store::open(
        *url,
        &text,
        None,
        Route { ca_bundle: Some(&ca), relay: None },
    )
    .unwrap();
    let failure = block_on(async {
        use plimsoll_engine::store::Store;
        store.connection(0).execute(Request::CheckBucket, &mut Ignore).await.map(|_| ()).unwrap_err()
    });
    assert_eq!(failure.class, ErrorClass::Tls, "{failure}");
}

#[test]
fn wrong_credentials_return_the_s3_error_code() {
    let server = Server::start("", false);
    server.ready("");
    let failure = |credentials| {
        let store = server.store_with("", credentials);
        let request = Request::List { prefix: "", start_after: "", token: "", max_keys: 1 };
        block_on(async { store.connection(0).execute(request, &mut Ignore).await.map(|_| ()).unwrap_err() })
    };
    assert!(failure(Credentials::new(ACCESS, "wrong", None)).is_code("SignatureDoesNotMatch"));
    assert!(failure(Credentials::new("nobody", SECRET, None)).is_code("InvalidAccessKeyId"));
    let anonymous = server.store("&sign=off");
    let failure = block_on(async {
        anonymous.connection(0).execute(put("k", "v"), &mut Ignore).await.map(|_| ()).unwrap_err()
    });
    assert!(failure.is_code("AccessDenied"), "{failure}");
}

#[test]
fn truncated_reset_and_error_responses_are_classified() {
    for (inject, class) in [
        ("truncate=1", ErrorClass::Reset),
        ("reset=1", ErrorClass::Reset),
        ("error=1", ErrorClass::Response("503 SlowDown".into())),
    ] {
        let server = Server::start(inject, false);
        let store = server.store("");
        let failure =
            block_on(async { get(store.connection(0).as_mut(), "k").await.map(|_| ()).unwrap_err() });
        assert_eq!(failure.class, class, "{inject}: {failure}");
    }
}

#[test]
fn one_connection_survives_many_faults() {
    let server = Server::start("error=0.2,reset=0.2,truncate=0.2,seed=3", false);
    let store = server.store("");
    crate::support::create_through_faults(store.as_ref());
    block_on(async {
        let mut connection = store.connection(0);
        let mut done = 0;
        for i in 0..300 {
            let key = format!("k{i}");
            done += usize::from(connection.execute(put(&key, "content"), &mut Ignore).await.is_ok());
        }
        assert!((120..300).contains(&done), "{done} of 300 puts succeeded");
    });
}

/// If a reused connection closes during a request, before the first byte of the response, the operation must not fail.
#[test]
fn a_connection_closed_during_a_request_is_replaced_once_and_counted() {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
        let mut buffer = [0; 4096];
        let (mut first, _) = listener.accept().unwrap();
        let _ = first.read(&mut buffer).unwrap();
        first.write_all(answer).unwrap();
        let _ = first.read(&mut buffer).unwrap();
        drop(first);
        let (mut second, _) = listener.accept().unwrap();
        let _ = second.read(&mut buffer).unwrap();
        second.write_all(answer).unwrap();
    });
    let text = format!("s3://bucket?endpoint=http://127.0.0.1:{port}&sign=off");
    let Ok(plimsoll_s3::url::StoreUrl::S3(url)) = plimsoll_s3::url::parse(&text, &|_| None) else { panic!() };
    let store = plimsoll_engine::store::s3::S3Store::open(*url, &text, None, Route::default()).unwrap();
    block_on(async {
        use plimsoll_engine::store::Store;
        let mut connection = store.connection(0);
        let (first, _) = get(connection.as_mut(), "k").await.unwrap();
        let (second, content) = get(connection.as_mut(), "k").await.unwrap();
        assert_eq!((first.timings.connections, first.timings.reconnects), (1, 0));
        assert_eq!((second.timings.connections, second.timings.reconnects), (1, 1));
        assert_eq!(content, b"ok");
    });
    server.join().unwrap();
}

/// Regression: moto closes the connection after every response, so creating a bucket after a listing failed.
#[test]
fn a_server_that_closes_after_each_response_fails_no_operation() {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        for _ in 0..3 {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]).unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok").unwrap();
        }
    });
    let text = format!("s3://bucket?endpoint=http://127.0.0.1:{port}&sign=off");
    let Ok(plimsoll_s3::url::StoreUrl::S3(url)) = plimsoll_s3::url::parse(&text, &|_| None) else { panic!() };
    let store = plimsoll_engine::store::s3::S3Store::open(*url, &text, None, Route::default()).unwrap();
    block_on(async {
        use plimsoll_engine::store::Store;
        let mut connection = store.connection(0);
        get(connection.as_mut(), "k").await.unwrap();
        connection.execute(Request::CreateBucket, &mut Ignore).await.unwrap();
        let (third, _) = get(connection.as_mut(), "k").await.unwrap();
        assert_eq!((third.timings.connections, third.timings.reconnects), (1, 0));
    });
    server.join().unwrap();
}

#[test]
fn a_refused_connection_names_the_address() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let text = format!("s3://bucket?endpoint=http://127.0.0.1:{port}&sign=off");
    let Ok(plimsoll_s3::url::StoreUrl::S3(url)) = plimsoll_s3::url::parse(&text, &|_| None) else { panic!() };
    let store = plimsoll_engine::store::s3::S3Store::open(*url, &text, None, Route::default()).unwrap();
    let failure = block_on(async {
        use plimsoll_engine::store::Store;
        get(store.connection(0).as_mut(), "k").await.map(|_| ()).unwrap_err()
    });
    assert_eq!(failure.class, ErrorClass::Connect);
    assert!(failure.message.contains(&format!("127.0.0.1:{port}")), "{failure}");
}
