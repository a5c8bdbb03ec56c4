//! Checks of multipart uploads: support, ETag, size rules of parts, and the listing of unfinished uploads.

use super::{Findings, brief};
use plimsoll_engine::driver::background::Background;
use plimsoll_engine::store::{Body, Failure, Ignore, PartTag, Reply, Request};
use plimsoll_s3::checksum::md5;
use plimsoll_s3::integrity::multipart_etag;

const MIB: usize = 1 << 20;

/// Uploads an object in parts of `sizes` bytes and returns the reply to its completion.
async fn upload(background: &mut Background, key: &str, sizes: &[usize]) -> Result<Reply, Failure> {
    let begun = background.send_until_answered(Request::CreateMultipart { key }).await?;
    let upload_id = begun.upload_id.unwrap_or_default();
    let mut parts = Vec::new();
    for (number, size) in (1..).zip(sizes) {
        let body = Body::Whole(vec![number as u8; *size].into());
        let request = Request::UploadPart { key, upload_id: &upload_id, number, body };
        let reply = background.send(request, &mut Ignore).await?;
        parts.push(PartTag { etag: reply.etag.unwrap_or_default(), checksum: reply.checksum });
    }
    let complete = Request::CompleteMultipart { key, upload_id: &upload_id, parts: &parts };
    background.send(complete, &mut Ignore).await
}

/// Begins an upload with one part: not all stores know of an upload without parts.
async fn begin(background: &mut Background, key: &str) -> Result<(), Failure> {
    let begun = background.send_until_answered(Request::CreateMultipart { key }).await?;
    let upload_id = begun.upload_id.unwrap_or_default();
    let body = Body::Whole(bytes::Bytes::from_static(b"x"));
    let part = Request::UploadPart { key, upload_id: &upload_id, number: 1, body };
    background.send_until_answered(part).await.map(drop)
}

/// Checks multipart uploads with equal, different and too small parts. Adds only one finding if the store
/// does not support them.
pub async fn multipart(background: &mut Background, root: &str, findings: &mut Findings) {
    let key = format!("{root}parts");
    let plain = upload(background, &key, &[5 * MIB, 1]).await;
    let works = plain.is_ok();
    let expected = multipart_etag(&[md5(&vec![1; 5 * MIB]), md5(&[2])]);
    findings.tell(
        "multipart upload",
        plain.as_ref().map(|_| "a part of 5 MiB and one of 1 byte".into()).map_err(brief),
    );
    if !works {
        return;
    }
    let tag = plain.ok().and_then(|reply| reply.etag).unwrap_or_default();
    findings.tell(
        "multipart ETag is MD5 of MD5s",
        if tag.trim_matches('"') == expected { Ok(expected) } else { Err(format!("the ETag is {tag}")) },
    );
    let unequal = upload(background, &format!("{root}unequal"), &[5 * MIB, 6 * MIB, 1]).await;
    findings.tell(
        "parts of different sizes",
        unequal.map(|_| "parts of 5 MiB, 6 MiB and 1 byte".into()).map_err(|f| brief(&f)),
    );
    let small = upload(background, &format!("{root}small"), &[MIB, 1]).await;
    findings.tell(
        "parts below 5 MiB",
        match small {
            Ok(_) => Ok("parts of 1 MiB and 1 byte are accepted; S3 rejects them".into()),
            Err(failure) => Err(brief(&failure)),
        },
    );
    let begun = begin(background, &format!("{root}unfinished")).await;
    let listed = background.send(Request::ListUploads { prefix: root, token: "" }, &mut Ignore).await;
    findings.tell(
        "unfinished uploads are listed",
        match (begun, listed) {
            (Ok(_), Ok(reply)) if !reply.uploads.is_empty() => {
                Ok(format!("{} under the prefix", reply.uploads.len()))
            }
            (Ok(_), Ok(_)) => Err("not listed, so clean-up cannot find them after a kill".into()),
            (Err(failure), _) | (_, Err(failure)) => Err(brief(&failure)),
        },
    );
}
