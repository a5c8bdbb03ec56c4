//! Unfinished multipart uploads, and those at the limits of the S3 API.

use futures_util::future::join_all;

use super::super::call::CheckCall;
use super::super::problem::{Checked, Problem, require};
use super::super::scene::{Scene, UploadedPart};
use super::content::{MIN_PART, pattern};
use plimsoll_s3::xml::Element;

/// ListParts shows the parts of an unfinished upload.
pub async fn list_parts(scene: &Scene<'_>) -> Checked {
    let key = scene.key("unfinished");
    let id = scene.begin_upload(&key).await?;
    let mut written = Vec::new();
    for (number, content) in [(1, "one"), (3, "three")] {
        let (number, etag) = scene.part(0, &key, &id, number, CheckCall::put("", content)).await?;
        written.push((number.to_string(), etag, content.len().to_string()));
    }
    let answer = scene.expect(1, CheckCall::get(&key).query("uploadId", id)).await?;
    let root = answer.xml().unwrap_or_default();
    let text = |part: &Element, name| part.text_of(name).unwrap_or("").to_string();
    let listed: Vec<_> = root
        .children
        .iter()
        .filter(|child| child.name == "Part")
        .map(|part| (text(part, "PartNumber"), text(part, "ETag"), text(part, "Size")))
        .collect();
    require(listed == written, || format!("ListParts gives {listed:?}, not {written:?}"))?;
    Ok("numbers, sizes and ETags".into())
}

/// Begins uploads of keys, and requires that ListMultipartUploads with a prefix lists exactly them.
async fn listed(scene: &Scene<'_>, keys: &[String], prefix: &str) -> Result<(), Problem> {
    let mut begun = Vec::new();
    for key in keys {
        begun.push((key.clone(), scene.begin_upload(key).await?));
    }
    let answer = scene.expect(1, CheckCall::get("").query("uploads", "").query("prefix", prefix)).await?;
    let root = answer.xml().unwrap_or_default();
    let listed = root.children.iter().filter(|child| child.name == "Upload");
    let mut listed: Vec<(String, String)> = listed
        .map(|upload| {
            let text = |name| upload.text_of(name).unwrap_or("").to_string();
            (text("Key"), text("UploadId"))
        })
        .collect();
    listed.sort();
    begun.sort();
    require(listed == begun, || {
        let found = begun.iter().filter(|upload| listed.contains(upload)).count();
        format!(
            "{} uploads were begun; {found} of them and {} others are listed",
            begun.len(),
            listed.len() - found
        )
    })
}

/// ListMultipartUploads shows the unfinished uploads of a key.
pub async fn list_uploads(scene: &Scene<'_>) -> Checked {
    let key = scene.key("upload");
    listed(scene, &[key.clone(), key.clone()], &key).await?;
    Ok("both uploads of a key are listed".into())
}

/// ListMultipartUploads shows the unfinished uploads of all keys below a prefix.
pub async fn list_uploads_prefix(scene: &Scene<'_>) -> Checked {
    let keys = ["uploads/a", "uploads/b/c"].map(|name| scene.key(name));
    listed(scene, &keys, &scene.key("uploads/")).await?;
    Ok("uploads of two keys are listed by their prefix".into())
}

/// An aborted upload cannot be completed, and leaves nothing.
pub async fn abort(scene: &Scene<'_>) -> Checked {
    let key = scene.key("aborted");
    let id = scene.begin_upload(&key).await?;
    let part = scene.part(0, &key, &id, 1, CheckCall::put("", "content")).await?;
    let Some(owned) = scene.space.own(&key) else { return Err(Problem::Inconclusive("foreign key".into())) };
    scene.expect(0, CheckCall::delete(owned).query("uploadId", id.clone())).await?;
    // Every error is right, also one that looks temporary.
    let late = scene.send(0, Scene::completion(&key, &id, &[part])).await;
    require(!late.is_ok_and(|late| late.is_done()), || "an aborted upload was completed".into())?;
    let read = scene.send(1, CheckCall::get(&key)).await?;
    require(read.status == 404, || format!("a GET after the abort was answered {}", read.outcome()))?;
    Ok("an aborted upload is gone".into())
}

/// Number of parts that an upload may have.
const MAX_PARTS: u64 = 10_000;
/// Uploads of parts at the same time.
const SENDERS: u64 = 8;

/// An upload may have 10,000 parts of 5 MiB.
pub async fn many_parts(scene: &Scene<'_>) -> Checked {
    let key = scene.key("many");
    let id = scene.begin_upload(&key).await?;
    let data = bytes::Bytes::from(pattern(MIN_PART));
    let mut parts = Vec::new();
    for first in (1..=MAX_PARTS).step_by(SENDERS as usize) {
        let numbers = first..(first + SENDERS).min(MAX_PARTS + 1);
        let sent = numbers.map(|number| {
            scene.part((number - first) as usize, &key, &id, number, CheckCall::put("", data.clone()))
        });
        parts.extend(join_all(sent).await.into_iter().collect::<Result<Vec<UploadedPart>, _>>()?);
        scene.client.begin_trace(&scene.root);
    }
    scene.complete(&key, &id, &parts).await?;
    large(scene, &key, MAX_PARTS * MIN_PART as u64, &data).await?;
    Ok("10,000 parts of 5 MiB".into())
}

/// Size of the largest part.
const MAX_PART: u64 = 5 << 30;

/// A part may have 5 GiB.
pub async fn large_part(scene: &Scene<'_>) -> Checked {
    let key = scene.key("large");
    let id = scene.begin_upload(&key).await?;
    let data = bytes::Bytes::from(pattern(MIN_PART));
    let call = CheckCall::put("", data.clone()).repeated(MAX_PART / MIN_PART as u64);
    let part = scene.part(0, &key, &id, 1, call).await?;
    scene.complete(&key, &id, &[part]).await?;
    large(scene, &key, MAX_PART, &data).await?;
    Ok("a part of 5 GiB".into())
}

/// Checks the size of a large object and a range at its end, and deletes it.
async fn large(scene: &Scene<'_>, key: &str, bytes: u64, data: &[u8]) -> Result<(), Problem> {
    let head = scene.expect(0, CheckCall::head(key)).await?;
    require(head.header("content-length") == Some(&bytes.to_string()), || {
        format!("the object has {} bytes, not {bytes}", head.header("content-length").unwrap_or("no"))
    })?;
    let tail = scene
        .expect(0, CheckCall::get(key).header("range", format!("bytes={}-{}", bytes - 1000, bytes - 1)))
        .await?;
    require(tail.body == data[data.len() - 1000..], || {
        "the last 1,000 bytes of the object are wrong".into()
    })?;
    scene.delete(key).await.map(|_| ())
}
