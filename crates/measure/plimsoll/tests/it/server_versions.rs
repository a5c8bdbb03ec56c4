//! Versions, tags, access control lists and lifecycle rules of the embedded server.

use crate::support::Server;
use crate::support::raw::Answered;

/// Starts a server with a bucket `bkt` that keeps versions.
fn versioned() -> Server {
    let server = Server::start("", false);
    assert_eq!(server.ask("PUT", "/bkt", &[], b"").status, 200);
    set_versioning(&server, "Enabled");
    server
}

fn set_versioning(server: &Server, status: &str) {
    let document = format!("<VersioningConfiguration><Status>{status}</Status></VersioningConfiguration>");
    assert_eq!(server.ask("PUT", "/bkt?versioning", &[], document.as_bytes()).status, 200);
}

fn version(answer: &Answered) -> String {
    answer.header("x-amz-version-id").unwrap_or_default()
}

fn put(server: &Server, body: &[u8]) -> String {
    let answer = server.ask("PUT", "/bkt/k", &[], body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    version(&answer)
}

/// The elements of a listing of versions: name of the element, version id, and whether it is the latest one.
fn listed(server: &Server, query: &str) -> Vec<(String, String, bool)> {
    let text = server.ask("GET", &format!("/bkt?versions{query}"), &[], b"").text();
    let element = |part: &str, name: &str| {
        let from = part.find(&format!("<{name}>")).unwrap() + name.len() + 2;
        part[from..].split('<').next().unwrap().to_string()
    };
    let mut found = Vec::new();
    for kind in ["Version", "DeleteMarker"] {
        for part in text.split(&format!("<{kind}>")).skip(1) {
            found.push((
                text.find(part).unwrap(),
                kind,
                element(part, "VersionId"),
                element(part, "IsLatest"),
            ));
        }
    }
    found.sort();
    found.into_iter().map(|(_, kind, id, latest)| (kind.to_string(), id, latest == "true")).collect()
}

#[test]
fn every_write_makes_a_version_and_a_delete_hides_them() {
    let server = versioned();
    let (first, second) = (put(&server, b"one"), put(&server, b"two"));
    assert!(!first.is_empty() && first != second);
    let get = |version: &str| server.ask("GET", &format!("/bkt/k?versionId={version}"), &[], b"");
    assert_eq!((get(&first).body, get(&second).body), (b"one".to_vec(), b"two".to_vec()));
    let deleted = server.ask("DELETE", "/bkt/k", &[], b"");
    assert_eq!((deleted.status, deleted.header("x-amz-delete-marker").as_deref()), (204, Some("true")));
    let marker = version(&deleted);
    let hidden = server.ask("GET", "/bkt/k", &[], b"");
    assert_eq!((hidden.status, version(&hidden)), (404, marker.clone()));
    assert_eq!(get(&marker).status, 405);
    assert_eq!(server.ask("GET", "/bkt?list-type=2", &[], b"").text().matches("<Key>").count(), 0);
    let all = [("DeleteMarker", &marker, true), ("Version", &second, false), ("Version", &first, false)];
    let all = all.map(|(kind, id, latest)| (kind.to_string(), id.clone(), latest));
    assert_eq!(listed(&server, ""), all);
    let after = format!("&key-marker=k&version-id-marker={second}");
    assert_eq!(listed(&server, &after), all[2..], "a page continues behind a version");
    assert_eq!(server.ask("DELETE", "/bkt", &[], b"").status, 409, "a bucket with versions is not empty");
    // Without the marker, the newest version is the current one again.
    assert_eq!(server.ask("DELETE", &format!("/bkt/k?versionId={marker}"), &[], b"").status, 204);
    assert_eq!(server.ask("GET", "/bkt/k", &[], b"").body, b"two");
    for version in [&second, &first] {
        assert_eq!(server.ask("DELETE", &format!("/bkt/k?versionId={version}"), &[], b"").status, 204);
    }
    assert_eq!(server.ask("DELETE", "/bkt", &[], b"").status, 204);
}

#[test]
fn the_version_null_is_replaced_where_versioning_is_suspended() {
    let server = Server::start("", false);
    assert_eq!(server.ask("PUT", "/bkt", &[], b"").status, 200);
    assert_eq!(put(&server, b"before"), "");
    set_versioning(&server, "Enabled");
    assert_eq!(version(&server.ask("GET", "/bkt/k", &[], b"")), "null", "it was written before");
    let kept = put(&server, b"kept");
    set_versioning(&server, "Suspended");
    assert_eq!(put(&server, b"after"), "null");
    let ids: Vec<String> = listed(&server, "").into_iter().map(|(_, id, _)| id).collect();
    assert_eq!(ids, ["null".to_string(), kept.clone()], "the older version null is gone");
    assert_eq!(server.ask("GET", "/bkt/k?versionId=null", &[], b"").body, b"after");
    assert_eq!(version(&server.ask("DELETE", "/bkt/k", &[], b"")), "null");
    assert_eq!(server.ask("GET", "/bkt/k?versionId=null", &[], b"").status, 405, "a delete marker");
    assert_eq!(server.ask("GET", &format!("/bkt/k?versionId={kept}"), &[], b"").body, b"kept");
}

#[test]
fn tags_belong_to_a_version() {
    let server = versioned();
    let tagged = server.ask("PUT", "/bkt/k", &[("x-amz-tagging", "a=1")], b"one");
    let (first, second) = (version(&tagged), put(&server, b"two"));
    let tags =
        |version: &str| server.ask("GET", &format!("/bkt/k?tagging&versionId={version}"), &[], b"").text();
    assert!(tags(&first).contains("<Key>a</Key><Value>1</Value>"), "{}", tags(&first));
    assert!(!tags(&second).contains("<Key>"));
    let document = b"<Tagging><TagSet><Tag><Key>b</Key><Value>2</Value></Tag></TagSet></Tagging>";
    assert_eq!(server.ask("PUT", &format!("/bkt/k?tagging&versionId={first}"), &[], document).status, 200);
    assert!(tags(&first).contains("<Key>b</Key><Value>2</Value>") && !tags(&second).contains("<Key>"));
    assert_eq!(server.ask("GET", &format!("/bkt/k?versionId={first}"), &[], b"").body, b"one");
}

#[test]
fn directory_buckets_have_no_versions_tags_and_rules() {
    let server = Server::start("", false);
    let location = "<CreateBucketConfiguration><Location><Name>use1-az4</Name><Type>AvailabilityZone</Type></Location>\
                    <Bucket><DataRedundancy>SingleAvailabilityZone</DataRedundancy><Type>Directory</Type></Bucket>\
                    </CreateBucketConfiguration>";
    let bucket = "/one--use1-az4--x-s3";
    assert_eq!(server.ask("PUT", bucket, &[], location.as_bytes()).status, 200);
    for target in ["versioning", "tagging", "lifecycle", "cors", "acl"] {
        let answer = server.ask("PUT", &format!("{bucket}?{target}"), &[], b"<X/>");
        assert_eq!(answer.error().0, 501, "{target}: {}", answer.text());
    }
}
