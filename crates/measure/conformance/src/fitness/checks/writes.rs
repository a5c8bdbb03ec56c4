//! Writes: empty objects, headers that are kept, checksums, encryption, storage classes, tags and copies.

use super::super::call::{Answer, CheckCall, Framing};
use super::super::problem::{Checked, Problem, require};
use super::super::scene::Scene;
use super::content::{copy_source, pattern};
use plimsoll_s3::checksum::{Algorithm, base64, md5};

/// An object of 0 bytes can be written, read and listed.
pub async fn empty_object(scene: &Scene<'_>) -> Checked {
    let key = scene.key("empty");
    scene.put(&key, "").await?;
    scene.reads(1, &key, b"", "after its PUT").await?;
    let head = scene.expect(0, CheckCall::head(&key)).await?;
    require(head.header("content-length") == Some("0"), || {
        format!("a HEAD gives the length {}", head.header("content-length").unwrap_or("none"))
    })?;
    let page = scene.page(0, CheckCall::list(&key)).await?;
    let sizes: Vec<Option<u64>> = page.entries.iter().map(|entry| entry.size).collect();
    require(sizes == [Some(0)], || format!("a listing gives {} objects, not one of 0 bytes", sizes.len()))?;
    Ok("written, read and listed".into())
}

/// Writes an object with headers, and requires them in HEAD and GET.
async fn kept(scene: &Scene<'_>, name: &str, headers: &[(&'static str, &str)]) -> Result<(), Problem> {
    let key = scene.key(name);
    let call =
        headers.iter().fold(CheckCall::put(&key, "content"), |call, (name, value)| call.header(name, *value));
    scene.write(call).await?;
    for call in [CheckCall::head(&key), CheckCall::get(&key)] {
        let method = call.method;
        let answer = scene.expect(1, call).await?;
        for (name, value) in headers {
            let found = answer.header(name).unwrap_or("none");
            require(found == *value, || format!("{method} gives {name}: {found}, not {value}"))?;
        }
    }
    Ok(())
}

/// Metadata of the user is kept.
pub async fn metadata(scene: &Scene<'_>) -> Checked {
    kept(scene, "metadata", &[("x-amz-meta-colour", "blue"), ("x-amz-meta-long-name-9", "a b; c=\"d\"/e")])
        .await?;
    Ok("HEAD and GET return it".into())
}

/// The headers that describe content are kept.
pub async fn content_headers(scene: &Scene<'_>) -> Checked {
    let headers = [
        ("content-type", "application/vnd.oci.image.manifest.v1+json"),
        ("cache-control", "max-age=3600"),
        ("content-encoding", "zstd"),
        ("content-disposition", "attachment; filename=\"a.txt\""),
    ];
    kept(scene, "described", &headers).await?;
    Ok("HEAD and GET return them".into())
}

/// Function that adds a checksum of some content to a request.
type Protection = fn(CheckCall, &[u8]) -> CheckCall;

/// Bytes of the objects with checksums.
const CHECKED_BYTES: usize = 10_000;

/// Requires that a PUT with a right checksum or a framing is accepted, and stores the content.
async fn accepted(scene: &Scene<'_>, protect: impl Fn(CheckCall, &[u8]) -> CheckCall) -> Result<(), Problem> {
    let (key, content) = (scene.key("checked"), pattern(CHECKED_BYTES));
    scene.write(protect(CheckCall::put(&key, content.clone()), &content)).await?;
    scene.reads(1, &key, &content, "after its PUT").await.map(|_| ())
}

fn with_md5(call: CheckCall, content: &[u8]) -> CheckCall {
    call.header("content-md5", base64(&md5(content)))
}

fn with_crc32(call: CheckCall, content: &[u8]) -> CheckCall {
    call.header(Algorithm::Crc32.header(), Algorithm::Crc32.of(content))
}

fn with_sha256(call: CheckCall, content: &[u8]) -> CheckCall {
    call.header(Algorithm::Sha256.header(), Algorithm::Sha256.of(content))
}

fn with_trailer(call: CheckCall, content: &[u8]) -> CheckCall {
    call.framed(Framing::Trailer(Algorithm::Crc32.of(content)))
}

/// A PUT with `Content-MD5` is accepted.
pub async fn content_md5(scene: &Scene<'_>) -> Checked {
    accepted(scene, with_md5).await?;
    Ok("accepted".into())
}

/// A PUT with `x-amz-checksum-crc32` is accepted.
pub async fn checksum_crc32(scene: &Scene<'_>) -> Checked {
    accepted(scene, with_crc32).await?;
    Ok("accepted".into())
}

/// A PUT with `x-amz-checksum-sha256` is accepted.
pub async fn checksum_sha256(scene: &Scene<'_>) -> Checked {
    accepted(scene, with_sha256).await?;
    Ok("accepted".into())
}

/// A CRC32 in a trailer is accepted, and is not part of the object.
pub async fn trailing_checksum(scene: &Scene<'_>) -> Checked {
    accepted(scene, with_trailer).await?;
    Ok("accepted, and not part of the object".into())
}

/// A body in signed chunks is accepted, and its framing is not part of the object.
pub async fn signed_chunks(scene: &Scene<'_>) -> Checked {
    if !scene.client.is_signed() {
        return Err(Problem::Inconclusive("the store is used without credentials".into()));
    }
    accepted(scene, |call, _| call.framed(Framing::Signed)).await?;
    Ok("STREAMING-AWS4-HMAC-SHA256-PAYLOAD is accepted".into())
}

/// A PUT with a wrong checksum is refused, and changes nothing.
pub async fn checksums_verified(scene: &Scene<'_>) -> Checked {
    let (key, content) = (scene.key("verified"), pattern(CHECKED_BYTES));
    let kinds: [(&str, Protection); 4] = [
        ("Content-MD5", with_md5),
        (Algorithm::Crc32.header(), with_crc32),
        (Algorithm::Sha256.header(), with_sha256),
        ("CRC32 in the trailer", with_trailer),
    ];
    for (name, protect) in kinds {
        scene.put(&key, content.clone()).await?;
        let answer = scene.send(0, protect(CheckCall::put(&key, "something else"), &content)).await?;
        require(!answer.is_done(), || format!("a PUT with a wrong {name} was accepted"))?;
        scene.reads(1, &key, &content, "after a PUT with a wrong checksum").await?;
    }
    Ok("four kinds of wrong checksums are refused".into())
}

/// A PUT may request the store's own encryption.
pub async fn server_side_encryption(scene: &Scene<'_>) -> Checked {
    let key = scene.key("encrypted");
    let call = CheckCall::put(&key, "content").header("x-amz-server-side-encryption", "AES256");
    scene.write(call).await?;
    scene.reads(1, &key, b"content", "after a PUT with encryption").await?;
    Ok("x-amz-server-side-encryption: AES256 is accepted".into())
}

/// A PUT may name the standard storage class.
pub async fn storage_class(scene: &Scene<'_>) -> Checked {
    let key = scene.key("classed");
    scene.write(CheckCall::put(&key, "content").header("x-amz-storage-class", "STANDARD")).await?;
    scene.reads(1, &key, b"content", "after a PUT with a storage class").await?;
    Ok("STANDARD is accepted".into())
}

/// A PUT may name the canned ACL `private`.
pub async fn canned_acl(scene: &Scene<'_>) -> Checked {
    let key = scene.key("private");
    scene.write(CheckCall::put(&key, "content").header("x-amz-acl", "private")).await?;
    scene.reads(1, &key, b"content", "after a PUT with an ACL").await?;
    Ok("x-amz-acl: private is accepted".into())
}

/// Tags of a PUT are stored.
pub async fn tags(scene: &Scene<'_>) -> Checked {
    let key = scene.key("tags");
    scene.write(CheckCall::put(&key, "content").header("x-amz-tagging", "colour=blue&size=9")).await?;
    let answer = scene.expect(1, CheckCall::get(&key).query("tagging", "")).await?;
    let tags = answer.xml().and_then(|root| root.children.into_iter().find(|child| child.name == "TagSet"));
    let mut tags: Vec<(String, String)> = tags
        .map(|set| set.children)
        .unwrap_or_default()
        .iter()
        .map(|tag| (tag.text_of("Key").unwrap_or("").into(), tag.text_of("Value").unwrap_or("").into()))
        .collect();
    tags.sort();
    require(tags == [("colour".into(), "blue".into()), ("size".into(), "9".into())], || {
        format!("a PUT with two tags was acknowledged, but {} are stored", tags.len())
    })?;
    Ok("tags of a PUT are read back".into())
}

/// Copies an object with metadata, and returns the answer to a GET of the copy.
async fn copied(scene: &Scene<'_>) -> Result<Answer, Problem> {
    let (from, to) = (scene.key("source +1"), scene.key("copies/of source"));
    let content = pattern(70_000);
    scene.write(CheckCall::put(&from, content.clone()).header("x-amz-meta-colour", "blue")).await?;
    let call = CheckCall::put(&to, "").header("x-amz-copy-source", copy_source(scene, &from));
    let answer = scene.expect(0, call).await?;
    scene.settle(&to, Some(answer.text_of("ETag").as_str())).await?;
    scene.reads(1, &to, &content, "after a copy").await
}

/// CopyObject copies content.
pub async fn copy(scene: &Scene<'_>) -> Checked {
    copied(scene).await?;
    Ok("the copy has the content".into())
}

/// CopyObject copies metadata.
pub async fn copy_metadata(scene: &Scene<'_>) -> Checked {
    let read = copied(scene).await?;
    require(read.header("x-amz-meta-colour") == Some("blue"), || "a copy lacks the metadata".into())?;
    Ok("the copy has the metadata".into())
}
