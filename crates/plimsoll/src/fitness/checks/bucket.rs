//! Properties of the bucket, presigned URLs, and the form of answers.

use super::super::call::{Answer, Call};
use super::super::client::PRESIGNED_S;
use super::super::problem::{Checked, Problem, require};
use super::super::scene::Scene;

/// HeadBucket answers.
pub async fn head_bucket(scene: &Scene<'_>) -> Checked {
    scene.expect(0, Call::head("")).await?;
    Ok("answered 200".into())
}

/// GetBucketLocation answers.
pub async fn bucket_location(scene: &Scene<'_>) -> Checked {
    let answer = scene.expect(0, Call::get("").query("location", "")).await?;
    // Clients take the text of the root, whatever its name.
    let Some(root) = answer.xml() else {
        return Err(Problem::violated("the answer to GetBucketLocation is no XML"));
    };
    Ok(if root.text.is_empty() { "us-east-1 (empty)".into() } else { root.text })
}

/// Versions can be kept.
pub async fn versioning(scene: &Scene<'_>) -> Checked {
    let answer = scene.expect(0, Call::get("").query("versioning", "")).await?;
    let root = answer.xml().filter(|root| root.name == "VersioningConfiguration");
    let Some(root) = root else {
        return Err(Problem::violated("the answer to GetBucketVersioning is no VersioningConfiguration"));
    };
    Ok(match root.text_of("Status") {
        Some("Enabled") => "enabled for this bucket".into(),
        _ => "the store answers; not enabled for this bucket".into(),
    })
}

/// The bucket has object lock. No object is locked, because it could not be deleted.
pub async fn object_lock(scene: &Scene<'_>) -> Checked {
    let answer = scene.send(0, Call::get("").query("object-lock", "")).await?;
    require(answer.is_done(), || format!("GetObjectLockConfiguration was answered {}", answer.outcome()))?;
    require(answer.text_of("ObjectLockEnabled") == "Enabled", || {
        "object lock is not enabled for this bucket".into()
    })?;
    Ok("enabled for this bucket; no object was locked".into())
}

/// Sends a request with a presigned URL that is valid, and one that has expired.
async fn presigned(scene: &Scene<'_>, call: Call) -> Result<Answer, Problem> {
    if !scene.client.is_signed() {
        return Err(Problem::Inconclusive("the store is used without credentials".into()));
    }
    let method = call.method;
    let fresh = scene.send(0, call.clone().presigned(0)).await?;
    require(fresh.is_done(), || format!("a presigned {method} was answered {}", fresh.outcome()))?;
    let expired = scene.send(0, call.presigned(i64::from(PRESIGNED_S) + 60)).await?;
    require(!expired.is_done(), || format!("a presigned {method} that expired a minute ago still works"))?;
    Ok(fresh)
}

/// Presigned URLs read objects, and expire.
pub async fn presigned_get(scene: &Scene<'_>) -> Checked {
    let key = scene.key("presigned +1");
    scene.put(&key, "content").await?;
    let answer = presigned(scene, Call::get(&key)).await?;
    require(answer.body == b"content", || "a presigned GET returned other content".into())?;
    Ok("works, and expires".into())
}

/// Presigned URLs write objects, and expire.
pub async fn presigned_put(scene: &Scene<'_>) -> Checked {
    let key = scene.key("presigned");
    presigned(scene, Call::put(&key, "content")).await?;
    scene.reads(1, &key, b"content", "after a presigned PUT").await?;
    Ok("works, and expires".into())
}

/// Names of headers as S3 writes them.
const NAMES: [&str; 4] = ["ETag", "Content-Length", "Content-Type", "Last-Modified"];

/// Names of headers in answers have the letters that S3 uses.
pub async fn header_case(scene: &Scene<'_>) -> Checked {
    let key = scene.key("headers");
    scene.put(&key, "content").await?;
    let answer = scene.expect(0, Call::get(&key)).await?;
    for name in NAMES {
        let written = answer.headers.iter().map(|(own, _)| own).find(|own| own.eq_ignore_ascii_case(name));
        require(written.is_none_or(|written| written == name), || {
            format!("the header {name} is written as {}", written.map_or("", String::as_str))
        })?;
    }
    Ok("names as S3 writes them".into())
}
