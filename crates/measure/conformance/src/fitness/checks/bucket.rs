//! Properties of the bucket, presigned URLs, and the form of answers.

use super::super::call::{Answer, CheckCall};
use super::super::client::PRESIGNED_S;
use super::super::problem::{Checked, Problem, require};
use super::super::scene::Scene;

/// HeadBucket answers for the bucket.
pub async fn head_bucket(scene: &Scene<'_>) -> Checked {
    scene.expect(0, CheckCall::head("")).await?;
    Ok("answered 200".into())
}

/// GetBucketLocation answers for the bucket.
pub async fn bucket_location(scene: &Scene<'_>) -> Checked {
    let answer = scene.expect(0, CheckCall::get("").query("location", "")).await?;
    // Clients take the text of the root, whatever its name.
    let Some(root) = answer.xml() else {
        return Err(Problem::violated("the answer to GetBucketLocation is no XML"));
    };
    Ok(if root.text.is_empty() { "us-east-1 (empty)".into() } else { root.text })
}

/// Versions can be kept.
pub async fn versioning(scene: &Scene<'_>) -> Checked {
    let answer = scene.expect(0, CheckCall::get("").query("versioning", "")).await?;
    // Servers name the root differently; one that ignores the parameter answers with a listing.
    let root = answer.xml().filter(|root| root.name.contains("Versioning"));
    let Some(root) = root else {
        return Err(Problem::violated("the answer to GetBucketVersioning says nothing about versions"));
    };
    Ok(match root.text_of("Status") {
        Some("Enabled") => "enabled for this bucket".into(),
        _ => "the store answers; not enabled for this bucket".into(),
    })
}

/// The bucket has object lock. No object is locked, because it could not be deleted.
pub async fn object_lock(scene: &Scene<'_>) -> Checked {
    let answer = scene.send(0, CheckCall::get("").query("object-lock", "")).await?;
    require(answer.is_done(), || format!("GetObjectLockConfiguration was answered {}", answer.outcome()))?;
    require(answer.text_of("ObjectLockEnabled") == "Enabled", || {
        "object lock is not enabled for this bucket".into()
    })?;
    Ok("enabled for this bucket; no object was locked".into())
}

/// Sends a request with a presigned URL that was signed this many seconds ago.
async fn presigned(scene: &Scene<'_>, call: CheckCall, age_s: i64) -> Result<Answer, Problem> {
    if !scene.client.is_signed() {
        return Err(Problem::Inconclusive("the store is used without credentials".into()));
    }
    scene.send(0, call.presigned(age_s)).await
}

/// Presigned URLs read objects.
pub async fn presigned_get(scene: &Scene<'_>) -> Checked {
    let key = scene.key("presigned +1");
    scene.put(&key, "content").await?;
    let answer = presigned(scene, CheckCall::get(&key), 0).await?;
    require(answer.is_done() && answer.body == b"content", || {
        format!("a presigned GET was answered {}", answer.outcome())
    })?;
    Ok("works".into())
}

/// Presigned URLs write objects.
pub async fn presigned_put(scene: &Scene<'_>) -> Checked {
    let key = scene.key("presigned");
    let answer = presigned(scene, CheckCall::put(&key, "content"), 0).await?;
    require(answer.is_done(), || format!("a presigned PUT was answered {}", answer.outcome()))?;
    scene.settle(&key, Some(answer.etag())).await?;
    scene.reads(1, &key, b"content", "after a presigned PUT").await?;
    Ok("works".into())
}

/// Presigned URLs expire.
pub async fn presigned_expiry(scene: &Scene<'_>) -> Checked {
    let (key, age_s) = (scene.key("expired"), i64::from(PRESIGNED_S) + 60);
    scene.put(&key, "content").await?;
    for call in [CheckCall::get(&key), CheckCall::put(&key, "other")] {
        let method = call.method;
        let answer = presigned(scene, call, age_s).await?;
        require(!answer.is_done(), || format!("a presigned {method} that expired a minute ago still works"))?;
    }
    Ok("a GET and a PUT that expired a minute ago are refused".into())
}

/// The header `ETag` is written with these letters in the answer to UploadPart.
pub async fn header_case(scene: &Scene<'_>) -> Checked {
    let key = scene.key("headers");
    let upload = scene.begin_upload(&key).await?;
    let part = CheckCall::put(&key, "part").query("partNumber", "1").query("uploadId", upload);
    let answer = scene.expect(0, part).await?;
    let written = answer.headers.iter().map(|(own, _)| own.as_str());
    let written: Vec<&str> = written.filter(|own| own.eq_ignore_ascii_case("etag")).collect();
    require(written == ["ETag"], || match written.first() {
        Some(written) => format!("the header ETag of UploadPart is written as {written}"),
        None => "the answer to UploadPart has no ETag".into(),
    })?;
    Ok("the header ETag is written with these letters".into())
}
