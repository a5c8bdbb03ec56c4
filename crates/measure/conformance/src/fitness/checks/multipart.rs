//! Multipart uploads and the objects that they become.

use futures_util::future::join_all;

use super::super::call::CheckCall;
use super::super::problem::{Checked, Problem, require};
use super::super::scene::{Scene, UploadedPart};
use super::content::{MIN_PART, copy_source, pattern};

/// Uploads parts of a content at the same time, the last one first, and completes the upload.
async fn upload(scene: &Scene<'_>, key: &str, content: &[u8], sizes: &[usize]) -> Result<(), Problem> {
    let id = scene.begin_upload(key).await?;
    let mut from = 0;
    let mut parts: Vec<(u64, &[u8])> = Vec::new();
    for (number, size) in (1..).zip(sizes) {
        parts.push((number, &content[from..from + size]));
        from += size;
    }
    let sent = parts.iter().rev().enumerate().map(|(index, (number, data))| {
        scene.part(index % 4, key, &id, *number, CheckCall::put("", data.to_vec()))
    });
    let mut parts = join_all(sent).await.into_iter().collect::<Result<Vec<UploadedPart>, _>>()?;
    parts.sort_unstable();
    scene.complete(key, &id, &parts).await?;
    scene.reads(1, key, content, "after the completion").await.map(|_| ())
}

/// Parts that are uploaded at the same time, the last one first, become the object.
pub async fn multipart(scene: &Scene<'_>) -> Checked {
    let content = pattern(2 * MIN_PART + 100_001);
    upload(scene, &scene.key("parts"), &content, &[MIN_PART, MIN_PART, 100_001]).await?;
    Ok("parts of 5 MiB, uploaded at the same time and out of order".into())
}

/// Parts may have different sizes.
pub async fn unequal_parts(scene: &Scene<'_>) -> Checked {
    let sizes = [MIN_PART + 1, MIN_PART + 700_003, MIN_PART, 1];
    let content = pattern(sizes.iter().sum());
    upload(scene, &scene.key("unequal"), &content, &sizes).await?;
    Ok("parts of four sizes".into())
}

/// Part numbers reach 10,000 and may have gaps.
pub async fn part_numbers(scene: &Scene<'_>) -> Checked {
    let key = scene.key("numbers");
    let (first, last) = (pattern(MIN_PART), b"the end".to_vec());
    let id = scene.begin_upload(&key).await?;
    let parts = [
        scene.part(0, &key, &id, 7, CheckCall::put("", first.clone())).await?,
        scene.part(0, &key, &id, 10_000, CheckCall::put("", last.clone())).await?,
    ];
    scene.complete(&key, &id, &parts).await?;
    scene.reads(1, &key, &[first, last].concat(), "after the completion").await?;
    Ok("numbers 7 and 10,000".into())
}

/// An object appears at the completion of its upload, not before.
pub async fn multipart_visibility(scene: &Scene<'_>) -> Checked {
    for (name, before) in [("fresh", None), ("replaced", Some("the old content"))] {
        let key = scene.key(name);
        if let Some(old) = before {
            scene.put(&key, old).await?;
        }
        let id = scene.begin_upload(&key).await?;
        let content = format!("the new content of {name}");
        let part = scene.part(0, &key, &id, 1, CheckCall::put("", content.clone())).await?;
        let page = scene.page(1, CheckCall::list(&key)).await?;
        match before {
            Some(old) => scene.reads(1, &key, old.as_bytes(), "before the completion").await.map(|_| ())?,
            None => {
                let answer = scene.send(1, CheckCall::get(&key)).await?;
                require(answer.status == 404, || {
                    format!("a GET before the completion was answered {}", answer.outcome())
                })?;
                require(page.entries.is_empty(), || "a listing has the object before its completion".into())?;
            }
        }
        scene.complete(&key, &id, &[part]).await?;
        scene.reads(2, &key, content.as_bytes(), "after the completion").await?;
        let page = scene.page(1, CheckCall::list(&key)).await?;
        require(page.entries.first().is_some_and(|entry| entry.size == Some(content.len() as u64)), || {
            "a listing lacks the object after its completion".into()
        })?;
    }
    Ok("nothing before the completion, everything after it".into())
}

/// UploadPartCopy copies a range of an object into a part.
pub async fn copy_part(scene: &Scene<'_>) -> Checked {
    let (from, to) = (scene.key("source"), scene.key("assembled"));
    let content = pattern(MIN_PART + 1000);
    scene.put(&from, content.clone()).await?;
    let id = scene.begin_upload(&to).await?;
    let mut parts = Vec::new();
    let ranges = [(0, MIN_PART - 1), (MIN_PART, MIN_PART + 999)];
    for (number, (first, last)) in (1_u64..).zip(ranges) {
        let call = CheckCall::put(&to, "")
            .header("x-amz-copy-source", copy_source(scene, &from))
            .header("x-amz-copy-source-range", format!("bytes={first}-{last}"))
            .query("partNumber", number.to_string())
            .query("uploadId", id.clone());
        let etag = scene.expect(0, call).await?.text_of("ETag");
        require(!etag.is_empty(), || "the answer to UploadPartCopy has no ETag".into())?;
        parts.push((number, etag));
    }
    scene.complete(&to, &id, &parts).await?;
    scene.reads(1, &to, &content, "after copies of two ranges").await?;
    Ok("two ranges of an object became parts".into())
}

/// The only part of an upload may be empty.
pub async fn empty_part(scene: &Scene<'_>) -> Checked {
    let key = scene.key("nothing");
    upload(scene, &key, b"", &[0]).await?;
    Ok("an object of 0 bytes".into())
}
