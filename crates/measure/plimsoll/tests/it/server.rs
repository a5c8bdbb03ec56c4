//! Requests to the embedded server that Plimsoll's own clients never send: refusals and exact responses.

use crate::support::Server;
use crate::support::raw::owner;
use plimsoll_s3::credentials::Credentials;

/// A date before every object of these tests was written.
const OLD_DATE: &str = "Tue, 14 Nov 2023 22:13:19 GMT";

/// Starts a server with an empty bucket `bkt`.
fn server() -> Server {
    let server = Server::start("", false);
    assert_eq!(server.ask("PUT", "/bkt", &[], b"").status, 200);
    server
}

fn put(server: &Server, key: &str, body: &[u8]) -> String {
    let answer = server.ask("PUT", &format!("/bkt/{key}"), &[], body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.header("etag").unwrap()
}

fn exists(server: &Server, key: &str) -> bool {
    server.ask("HEAD", &format!("/bkt/{key}"), &[], b"").status == 200
}

fn refusal(status: u16, code: &str) -> (u16, String) {
    (status, code.to_string())
}

#[test]
fn an_unsigned_header_on_a_presigned_url_is_refused() {
    let server = server();
    server.ask("PUT", "/other", &[], b"");
    server.ask("PUT", "/other/secret", &[], b"secret");
    for (name, value) in [
        ("x-amz-copy-source", "other/secret"),
        ("x-amz-acl", "private"),
        ("x-amz-meta-a", "b"),
        ("x-amz-anything", "1"),
    ] {
        let answer = server.presigned("PUT", "/bkt/k", &[], &[(name, value)], b"");
        assert_eq!(answer.error(), refusal(403, "AccessDenied"), "{name}");
        assert!(answer.text().contains("headers present in the request which were not signed"), "{name}");
    }
    assert!(!exists(&server, "k"));
    assert_eq!(server.presigned("PUT", "/bkt/k", &[], &[("content-type", "a/b")], b"by url").status, 200);
    assert_eq!(server.presigned("GET", "/bkt/k", &[], &[("range", "bytes=0-1")], b"").body, b"by");
}

#[test]
fn headers_in_the_query_of_a_presigned_url_are_applied() {
    let server = server();
    let put = |pairs| server.presigned("PUT", "/bkt/k", pairs, &[], b"body");
    assert_eq!(put(&[("x-amz-storage-class", "GLACIER")]).error(), refusal(501, "NotImplemented"));
    assert_eq!(put(&[("x-amz-checksum-crc32", "AAAAAA==")]).error(), refusal(400, "BadDigest"));
    assert!(!exists(&server, "k"));
    assert_eq!(put(&[("x-amz-meta-who", "me")]).status, 200);
    let stored = server.ask("HEAD", "/bkt/k", &[], b"");
    assert_eq!(stored.header("x-amz-meta-who").as_deref(), Some("me"));
    let wrong = "0".repeat(64);
    assert_eq!(put(&[("X-Amz-Content-Sha256", &wrong)]).status, 400, "the hash of another body");
}

#[test]
fn two_authentication_methods_in_one_request_are_refused() {
    let server = server();
    for query in ["X-Amz-Algorithm=AWS4-HMAC-SHA256", "X-Amz-Signature=0", "Signature=0&AWSAccessKeyId=a"] {
        let answer = server.ask("GET", &format!("/bkt?{query}"), &[], b"");
        assert_eq!(answer.error(), refusal(400, "InvalidArgument"), "{query}");
        assert!(answer.text().contains("Only one auth mechanism allowed"));
    }
}

#[test]
fn unimplemented_headers_are_refused_and_nothing_is_written() {
    let server = server();
    put(&server, "old", b"old");
    for (name, value) in [
        ("x-amz-server-side-encryption-customer-algorithm", "AES256"),
        ("x-amz-server-side-encryption", "AES256"),
        ("x-amz-storage-class", "GLACIER"),
        ("if-none-match", "\"etag\""),
    ] {
        let answer = server.ask("PUT", "/bkt/new", &[(name, value)], b"new");
        assert_eq!(answer.error(), refusal(501, "NotImplemented"), "{name}");
    }
    assert!(!exists(&server, "new"));
    let foreign = [("x-amz-expected-bucket-owner", "111122223333")];
    for (method, target) in
        [("PUT", "/bkt/new"), ("DELETE", "/bkt/old"), ("GET", "/bkt/old"), ("GET", "/bkt")]
    {
        assert_eq!(
            server.ask(method, target, &foreign, b"").error(),
            refusal(403, "AccessDenied"),
            "{method} {target}"
        );
    }
    assert!(exists(&server, "old"));
    let own = [("x-amz-expected-bucket-owner", crate::support::ACCESS)];
    assert_eq!(server.ask("GET", "/bkt/old", &own, b"").status, 200);
}

#[test]
fn delete_object_honours_its_conditions() {
    let server = server();
    let etag = put(&server, "k", b"12345");
    let delete = |headers: &[(&str, &str)]| server.ask("DELETE", "/bkt/k", headers, b"");
    for condition in [
        ("if-match", "\"other\""),
        ("x-amz-if-match-size", "6"),
        ("x-amz-if-match-last-modified-time", OLD_DATE),
    ] {
        assert_eq!(delete(&[condition]).error(), refusal(412, "PreconditionFailed"), "{condition:?}");
    }
    assert_eq!(delete(&[("if-unmodified-since", OLD_DATE)]).error(), refusal(501, "NotImplemented"));
    // Nothing happens to a version that does not exist.
    assert_eq!(server.ask("DELETE", "/bkt/k?versionId=v1", &[], b"").status, 204);
    assert!(exists(&server, "k"));
    assert_eq!(delete(&[("if-match", &etag), ("x-amz-if-match-size", "5")]).status, 204);
    assert!(!exists(&server, "k"));
}

#[test]
fn delete_objects_honours_the_conditions_of_each_key() {
    let server = server();
    for key in ["a", "b", "c", "d", "e"] {
        put(&server, key, b"12345");
    }
    let answer = server.post(
        "/bkt?delete",
        "<Delete><Object><Key>a</Key><ETag>other</ETag></Object>\
         <Object><Key>b</Key><Size>6</Size></Object>\
         <Object><Key>c</Key><LastModifiedTime>Tue, 14 Nov 2023 22:13:19 GMT</LastModifiedTime></Object>\
         <Object><Key>d</Key><VersionId>v1</VersionId></Object>\
         <Object><Key>e</Key><VersionId>null</VersionId><Size>5</Size></Object></Delete>",
    );
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.text().matches("<Code>PreconditionFailed</Code>").count(), 3, "{}", answer.text());
    assert_eq!(["a", "b", "c", "d", "e"].map(|key| exists(&server, key)), [true, true, true, true, false]);
    let unknown =
        server.post("/bkt?delete", "<Delete><Object><Key>a</Key><IfOld>1</IfOld></Object></Delete>");
    assert_eq!(unknown.error(), refusal(400, "MalformedXML"));
    assert!(exists(&server, "a"));
}

#[test]
fn a_copy_source_accepts_only_the_null_version_and_decodes_plus_as_space() {
    let server = server();
    put(&server, "a%20b", b"spaced");
    let copy = |source| server.ask("PUT", "/bkt/copy", &[("x-amz-copy-source", source)], b"");
    assert_eq!(copy("bkt/a+b?versionId=v1").error(), refusal(404, "NoSuchVersion"));
    assert_eq!(copy("bkt/a%2Bb").error(), refusal(404, "NoSuchKey"));
    assert!(!exists(&server, "copy"));
    for source in ["bkt/a+b", "/bkt/a%20b", "bkt/a+b?versionId=null"] {
        assert_eq!(copy(source).status, 200, "{source}");
    }
    assert_eq!(server.ask("GET", "/bkt/copy", &[], b"").body, b"spaced");
}

#[test]
fn a_part_number_outside_1_to_10000_is_refused() {
    let server = server();
    let created = server.ask("POST", "/bkt/k?uploads", &[], b"").text();
    let id = created.split("<UploadId>").nth(1).unwrap().split('<').next().unwrap();
    for number in ["0", "10001", "-1", "+1", "4294967297", "1.0", ""] {
        let target = format!("/bkt/k?partNumber={number}&uploadId={id}");
        let answer = server.ask("PUT", &target, &[], b"x");
        assert_eq!(answer.error(), refusal(400, "InvalidArgument"), "{number}");
    }
    let part = server.ask("PUT", &format!("/bkt/k?partNumber=1&uploadId={id}"), &[], b"x");
    let etag = part.header("etag").unwrap();
    for number in ["4294967297", "+1", "10001"] {
        let body = format!(
            "<CompleteMultipartUpload><Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part></CompleteMultipartUpload>"
        );
        let answer = server.ask("POST", &format!("/bkt/k?uploadId={id}"), &[], body.as_bytes());
        assert_eq!(answer.error(), refusal(400, "InvalidArgument"), "{number}");
    }
    assert!(!exists(&server, "k"));
}

#[test]
fn a_range_with_a_sign_is_ignored() {
    let server = server();
    put(&server, "k", b"0123456789");
    let get = |range| server.ask("GET", "/bkt/k", &[("range", range)], b"");
    assert_eq!((get("bytes=0-1").status, get("bytes=0-1").body), (206, b"01".to_vec()));
    assert_eq!((get("bytes=+0-+1").status, get("bytes=+0-+1").body.len()), (200, 10));
}

#[test]
fn invalid_bucket_names_are_refused() {
    let server = server();
    assert_eq!(server.ask("GET", "//b/k", &[], b"").error(), refusal(400, "InvalidBucketName"));
    for name in ["xn--abc", "data-s3alias", "foo-.bar", "foo.-bar"] {
        let answer = server.ask("PUT", &format!("/{name}"), &[], b"");
        assert_eq!(answer.error(), refusal(400, "InvalidBucketName"), "{name}");
    }
}

#[test]
fn expect_100_continue_works_with_an_empty_body() {
    let server = server();
    let request = server.signed(&owner(), "PUT", "/bkt/empty", &[], b"");
    let request = String::from_utf8(request)
        .unwrap()
        .replace("connection: close", "connection: close\r\nexpect: 100-continue");
    let answer = server.exchange(request.as_bytes());
    assert_eq!((answer.status, answer.head.lines().next()), (100, Some("HTTP/1.1 100 Continue")));
    assert!(answer.text().starts_with("HTTP/1.1 200 OK\r\n"), "{}", answer.text());
    assert!(exists(&server, "empty"));
}

#[test]
fn a_304_carries_the_entity_tag() {
    let server = server();
    let etag = put(&server, "k", b"x");
    for method in ["GET", "HEAD"] {
        let answer = server.ask(method, "/bkt/k", &[("if-none-match", &etag)], b"");
        assert_eq!((answer.status, answer.body.len()), (304, 0));
        assert_eq!(answer.header("etag"), Some(etag.clone()), "{method}");
        assert!(answer.header("last-modified").is_some());
    }
}

#[test]
fn listings_include_empty_elements() {
    let server = server();
    let v1 = server.ask("GET", "/bkt", &[], b"").text();
    assert!(v1.contains("<Prefix></Prefix><Marker></Marker>"), "{v1}");
    let v2 = server.ask("GET", "/bkt?list-type=2&continuation-token=", &[], b"").text();
    assert!(
        v2.contains("<Prefix></Prefix>") && v2.contains("<ContinuationToken></ContinuationToken>"),
        "{v2}"
    );
    assert!(!server.ask("GET", "/bkt?list-type=2", &[], b"").text().contains("ContinuationToken"));
}

#[test]
fn every_object_is_listed_as_the_version_null() {
    let server = server();
    for key in ["a", "b", "dir/c"] {
        put(&server, key, b"x");
    }
    let all = server.ask("GET", "/bkt?versions", &[], b"").text();
    assert_eq!(all.matches("<VersionId>null</VersionId><IsLatest>true</IsLatest>").count(), 3, "{all}");
    let first = server.ask("GET", "/bkt?versions&max-keys=1", &[], b"").text();
    assert!(
        first.contains("<NextKeyMarker>a</NextKeyMarker><NextVersionIdMarker>null</NextVersionIdMarker>"),
        "{first}"
    );
    let rest =
        server.ask("GET", "/bkt?versions&key-marker=a&version-id-marker=null&delimiter=/", &[], b"").text();
    assert!(
        rest.contains("<Key>b</Key>")
            && !rest.contains("<Key>a</Key>")
            && rest.contains("<Prefix>dir/</Prefix>"),
        "{rest}"
    );
    assert_eq!(server.ask("GET", "/bkt/a?versionId=null", &[], b"").body, b"x");
    assert_eq!(server.ask("DELETE", "/bkt/a?versionId=null", &[], b"").status, 204);
    assert!(!exists(&server, "a"));
}

#[test]
fn get_object_attributes_returns_the_requested_attributes() {
    let server = server();
    let etag = put(&server, "k", b"12345");
    let names = [("x-amz-object-attributes", "ETag,Checksum,ObjectParts,StorageClass,ObjectSize")];
    let answer = server.ask("GET", "/bkt/k?attributes", &names, b"").text();
    for part in [
        &format!("<ETag>{}</ETag>", etag.trim_matches('"')),
        "<ObjectSize>5<",
        "<StorageClass>STANDARD<",
        "<ChecksumCRC64NVME>",
    ] {
        assert!(answer.contains(part), "{part}: {answer}");
    }
    assert!(!answer.contains("ObjectParts"));
    let size =
        server.ask("GET", "/bkt/k?attributes", &[("x-amz-object-attributes", "ObjectSize")], b"").text();
    assert!(size.contains("ObjectSize") && !size.contains("ETag"), "{size}");
    let wrong = server.ask("GET", "/bkt/k?attributes", &[("x-amz-object-attributes", "Owner")], b"");
    assert_eq!(wrong.error(), refusal(400, "InvalidArgument"));
}

#[test]
fn metadata_and_content_encoding_are_returned_as_sent() {
    let server = server();
    let sent = [
        ("content-encoding", "deflate, gzip"),
        ("x-amz-meta-name", "naïve 日本"),
        ("x-amz-meta-rfc", "=?UTF-8?Q?na=C3=AFve?="),
    ];
    assert_eq!(server.ask("PUT", "/bkt/k", &sent, b"x").status, 200);
    let stored = server.ask("HEAD", "/bkt/k", &[], b"");
    for (name, value) in sent {
        assert_eq!(stored.header(name).as_deref(), Some(value), "{name}");
    }
}

#[test]
fn a_checksum_algorithm_without_its_checksum_is_refused() {
    let server = server();
    for (name, value) in [
        ("x-amz-sdk-checksum-algorithm", "CRC32"),
        ("x-amz-checksum-algorithm", "CRC99"),
        ("x-amz-checksum-type", "COMPOSITE"),
    ] {
        let answer = server.ask("PUT", "/bkt/k", &[(name, value)], b"x");
        assert_eq!(answer.error(), refusal(400, "InvalidRequest"), "{name}");
    }
    assert!(!exists(&server, "k"));
    assert_eq!(server.ask("PUT", "/bkt/k", &[("x-amz-checksum-algorithm", "SHA256")], b"x").status, 200);
    let stored = server.ask("HEAD", "/bkt/k", &[("x-amz-checksum-mode", "ENABLED")], b"");
    assert!(stored.header("x-amz-checksum-sha256").is_some());
}

#[test]
fn request_heads_above_256_kib_are_refused() {
    let server = server();
    let value = "v".repeat(60 * 1024);
    let head = |lines: usize| {
        let lines: String = (0..lines).map(|i| format!("x-header-{i}: {value}\r\n")).collect();
        format!("GET /bkt HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{lines}\r\n")
    };
    assert_eq!(server.exchange(head(3).as_bytes()).error(), refusal(403, "AccessDenied"), "180 KiB");
    let answer = server.exchange(head(5).as_bytes());
    assert!(matches!(answer.status, 0 | 431), "300 KiB: {answer:?}");
}

#[test]
fn oversized_xml_bodies_are_refused() {
    let server = server();
    let document = format!("<Delete>{}</Delete>", "<a/>".repeat(3 << 18));
    assert_eq!(server.post("/bkt?delete", &document).error(), refusal(400, "MaxMessageLengthExceeded"));
    let answer = server.ask("PUT", "/fresh", &[], format!("<a>{}</a>", "x".repeat(1 << 20)).as_bytes());
    assert_eq!(answer.error(), refusal(400, "MaxMessageLengthExceeded"));
    let parts = "<Part/>".repeat(5 << 17);
    let answer = server.ask("POST", "/bkt/k?uploadId=u", &[], parts.as_bytes());
    assert_eq!(answer.error(), refusal(400, "MaxMessageLengthExceeded"));
}

#[test]
fn a_session_is_limited_to_its_bucket_and_mode() {
    let server = server();
    put(&server, "k", b"x");
    let zone = "use1-az4";
    for bucket in ["one", "two"] {
        let body = format!(
            "<CreateBucketConfiguration><Location><Name>{zone}</Name><Type>AvailabilityZone</Type></Location>\
             <Bucket><DataRedundancy>SingleAvailabilityZone</DataRedundancy><Type>Directory</Type></Bucket></CreateBucketConfiguration>"
        );
        assert_eq!(server.ask("PUT", &format!("/{bucket}--{zone}--x-s3"), &[], body.as_bytes()).status, 200);
    }
    let session = |mode| {
        let answer = server
            .ask("GET", "/one--use1-az4--x-s3?session", &[("x-amz-create-session-mode", mode)], b"")
            .text();
        let text = |name: &str| {
            answer.split(&format!("<{name}>")).nth(1).unwrap().split('<').next().unwrap().to_string()
        };
        Credentials::new(&text("AccessKeyId"), &text("SecretAccessKey"), Some(&text("SessionToken")))
    };
    let (reads, writes) = (session("ReadOnly"), session("ReadWrite"));
    let status = |by, method, target| server.ask_as(by, method, target, &[], b"").status;
    assert_eq!(status(&writes, "PUT", "/one--use1-az4--x-s3/k"), 200);
    for (method, target) in [
        ("GET", "/"),
        ("GET", "/bkt"),
        ("GET", "/bkt/k"),
        ("PUT", "/bkt/k"),
        ("DELETE", "/bkt/k"),
        ("PUT", "/new-bucket"),
        ("GET", "/two--use1-az4--x-s3?list-type=2"),
        ("PUT", "/two--use1-az4--x-s3/k"),
        ("DELETE", "/one--use1-az4--x-s3"),
        ("GET", "/one--use1-az4--x-s3?session"),
    ] {
        for by in [&reads, &writes] {
            assert_eq!(
                server.ask_as(by, method, target, &[], b"").error(),
                refusal(403, "AccessDenied"),
                "{method} {target}"
            );
        }
    }
    let source = [("x-amz-copy-source", "bkt/k")];
    let copy = server.ask_as(&writes, "PUT", "/one--use1-az4--x-s3/copy", &source, b"");
    assert_eq!(copy.error(), refusal(403, "AccessDenied"), "the copy source is in another bucket");
    for (method, target) in [
        ("PUT", "/one--use1-az4--x-s3/k"),
        ("DELETE", "/one--use1-az4--x-s3/k"),
        ("POST", "/one--use1-az4--x-s3/k?uploads"),
    ] {
        assert_eq!(status(&reads, method, target), 403, "{method} {target}");
    }
    assert_eq!(status(&reads, "GET", "/one--use1-az4--x-s3/k"), 200);
    assert_eq!(status(&reads, "GET", "/one--use1-az4--x-s3?list-type=2"), 200);
    assert!(exists(&server, "k"));
}
