//! The multipart operations: CreateMultipartUpload, UploadPart, CompleteMultipartUpload and AbortMultipartUpload.

use http::header::ETAG;

use super::{VerifiedCall, set_version};
use crate::body::BodyReader;
use crate::conditions::WriteConditions;
use crate::error::{ApiError, ErrorCode};
use crate::response::{ServerResponse, empty, set, xml};
use crate::service::{
    Completion, ObjectInfo, ObjectService, PartInfo, StoredChecksum, UploadInfo, UploadName,
};
use plimsoll_base::clock::wall_now;
use plimsoll_base::net::encode::hex;
use plimsoll_s3::checksum::{Algorithm, from_base64, md5};
use plimsoll_s3::integrity::{composite, full_object};
use plimsoll_s3::message::checksum_element;
use plimsoll_s3::number::decimal;
use plimsoll_s3::xml::{Element, XmlWriter};

/// Minimum size in bytes of every part but the last (S3: 5 MiB).
const SMALLEST_PART: u64 = 5 << 20;

fn requested_checksum<S: ObjectService>(
    call: &VerifiedCall<'_, S>,
) -> Result<Option<(Algorithm, bool)>, ApiError> {
    let kind = call.header("x-amz-checksum-type");
    let Some(name) = call.header("x-amz-checksum-algorithm") else {
        return match kind {
            None => Ok(None),
            Some(_) => Err(ApiError::with(
                ErrorCode::InvalidRequest,
                "The x-amz-checksum-type header can only be used with the x-amz-checksum-algorithm header.",
            )),
        };
    };
    let algorithm = Algorithm::from_name(name).ok_or_else(|| {
        ApiError::with(ErrorCode::InvalidRequest, "Checksum algorithm provided is unsupported. Please try again with any of the valid types: [CRC32, CRC32C, CRC64NVME, SHA1, SHA256]")
    })?;
    let full = match kind.map(str::to_ascii_uppercase).as_deref() {
        None => algorithm == Algorithm::Crc64Nvme,
        Some("FULL_OBJECT") if algorithm.is_crc() => true,
        Some("COMPOSITE") if algorithm != Algorithm::Crc64Nvme => false,
        Some(kind @ ("FULL_OBJECT" | "COMPOSITE")) => {
            let text = format!(
                "The {kind} checksum type cannot be used with the {} checksum algorithm.",
                algorithm.name().to_lowercase()
            );
            return Err(ApiError::with(ErrorCode::InvalidRequest, text));
        }
        Some(_) => {
            return Err(ApiError::with(
                ErrorCode::InvalidRequest,
                "Value for x-amz-checksum-type header is invalid.",
            ));
        }
    };
    Ok(Some((algorithm, full)))
}

pub async fn create<S: ObjectService>(call: &VerifiedCall<'_, S>) -> Result<ServerResponse, ApiError> {
    let bucket = call.bucket().await?;
    let checksum = requested_checksum(call)?;
    let upload = UploadInfo { object: call.new_object()?, checksum, initiated: wall_now() };
    let id = call.service.create_upload(&bucket, &call.route.key, upload).await?;
    let mut writer = XmlWriter::new("InitiateMultipartUploadResult");
    writer.text("Bucket", &call.route.bucket).text("Key", &call.route.key).text("UploadId", &id);
    let mut answer = xml(writer.finish());
    if let Some((algorithm, full)) = checksum {
        set(answer.headers_mut(), "x-amz-checksum-algorithm", algorithm.name());
        set(answer.headers_mut(), "x-amz-checksum-type", if full { "FULL_OBJECT" } else { "COMPOSITE" });
    }
    Ok(answer)
}

/// Parses a part number from 1 to 10,000.
fn number_of_part(text: Option<&str>) -> Result<u32, ApiError> {
    let number = text.and_then(decimal).filter(|n| (1..=10_000).contains(n));
    number.map(|number| number as u32).ok_or_else(|| {
        ApiError::with(
            ErrorCode::InvalidArgument,
            "Part number must be an integer between 1 and 10000, inclusive.",
        )
    })
}

/// Returns the part number of the request.
pub fn part_number<S: ObjectService>(call: &VerifiedCall<'_, S>) -> Result<u32, ApiError> {
    number_of_part(call.route.parameter("partNumber"))
}

/// Returns the upload that the request names.
pub fn upload_name<'a, S: ObjectService>(call: &VerifiedCall<'a, S>) -> UploadName<'a> {
    UploadName { key: &call.route.key, id: call.route.parameter("uploadId").unwrap_or("") }
}

pub async fn part<S: ObjectService>(
    call: &VerifiedCall<'_, S>,
    body: &mut BodyReader<'_>,
) -> Result<ServerResponse, ApiError> {
    let number = part_number(call)?;
    let bucket = call.bucket().await?;
    let name = upload_name(call);
    let upload = call.service.upload(&bucket, name).await?;
    let algorithm = upload.checksum.map(|(algorithm, _)| algorithm);
    if let (Some(expected), Some(given)) = (algorithm, body.declared())
        && expected != given
    {
        let text = format!(
            "Checksum Type mismatch occurred, expected checksum Type: {}, actual checksum Type: {}",
            expected.name(),
            given.name()
        );
        return Err(ApiError::with(ErrorCode::InvalidRequest, text));
    }
    body.want(algorithm);
    body.want_crc64();
    let part = call.service.put_part(&bucket, name, number, algorithm, body).await?;
    let mut answer = empty(200);
    set(answer.headers_mut(), "etag", &format!("\"{}\"", hex(&part.md5)));
    if let Some((algorithm, value)) = &part.checksum {
        set(answer.headers_mut(), algorithm.header(), value);
    }
    Ok(answer)
}

pub async fn abort<S: ObjectService>(call: &VerifiedCall<'_, S>) -> Result<ServerResponse, ApiError> {
    let bucket = call.bucket().await?;
    call.service.abort_upload(&bucket, upload_name(call)).await?;
    Ok(empty(204))
}

/// Returns the parts that a CompleteMultipartUpload lists, in its order, after checking them against the upload.
fn listed_parts(body: &[u8], stored: &[PartInfo], consecutive: bool) -> Result<Vec<PartInfo>, ApiError> {
    let malformed = || ApiError::new(ErrorCode::MalformedXML);
    let root = Element::parse(body).map_err(|_| malformed())?;
    if root.name != "CompleteMultipartUpload" {
        return Err(malformed());
    }
    let mut parts = Vec::new();
    let mut previous = 0;
    for named in root.all("Part") {
        let number = named.text_of("PartNumber").ok_or_else(malformed)?;
        let number = number.trim();
        if number.strip_prefix('-').map_or(number == "0", |rest| decimal(rest).is_some()) {
            return Err(ApiError::with(ErrorCode::InvalidArgument, "PartNumber must be >= 1"));
        }
        let number = number_of_part(Some(number))?;
        if number <= previous {
            return Err(ApiError::new(ErrorCode::InvalidPartOrder));
        }
        if consecutive && number != previous + 1 {
            let text = "Part numbers must begin with 1 and be consecutive for directory buckets";
            return Err(ApiError::with(ErrorCode::InvalidRequest, text));
        }
        previous = number;
        let etag = named.text_of("ETag").ok_or_else(malformed)?.trim().trim_matches('"').to_string();
        let part = stored.iter().find(|p| p.number == number && hex(&p.md5) == etag);
        let part = part.ok_or_else(|| ApiError::new(ErrorCode::InvalidPart))?;
        for algorithm in Algorithm::ALL {
            let Some(given) = named.text_of(checksum_element(algorithm)) else { continue };
            match &part.checksum {
                Some((stored, value)) if *stored == algorithm => {
                    if value != given {
                        return Err(ApiError::new(ErrorCode::InvalidPart));
                    }
                }
                _ => {
                    return Err(ApiError::with(
                        ErrorCode::BadDigest,
                        format!(
                            "The {} you specified for part {number} did not match what we received.",
                            algorithm.name().to_lowercase()
                        ),
                    ));
                }
            }
        }
        parts.push(part.clone());
    }
    if parts.is_empty() {
        return Err(malformed());
    }
    let all_but_last = &parts[..parts.len() - 1];
    if all_but_last.iter().any(|p| p.size < SMALLEST_PART) {
        return Err(ApiError::new(ErrorCode::EntityTooSmall));
    }
    Ok(parts)
}

/// Computes the checksum of the object from the checksums of its parts.
fn combined(parts: &[PartInfo], algorithm: Algorithm, full: bool) -> StoredChecksum {
    let values: Vec<Vec<u8>> = parts
        .iter()
        .map(|p| match &p.checksum {
            Some((_, value)) => from_base64(value).unwrap_or_default(),
            None => Vec::new(),
        })
        .collect();
    let whole = || {
        let parts: Vec<_> = values.iter().cloned().zip(parts.iter().map(|p| p.size)).collect();
        full_object(algorithm, &parts)
    };
    let value = full.then(whole).flatten().unwrap_or_else(|| composite(algorithm, &values));
    StoredChecksum { algorithm, value, full_object: full }
}

/// Computes the CRC-64/NVME of the object from those of its parts.
fn combined_crc64(parts: &[PartInfo]) -> StoredChecksum {
    let pairs: Vec<_> = parts.iter().map(|p| (from_base64(&p.crc64).unwrap_or_default(), p.size)).collect();
    let value = full_object(Algorithm::Crc64Nvme, &pairs).unwrap_or_default();
    StoredChecksum { algorithm: Algorithm::Crc64Nvme, value, full_object: true }
}

pub async fn complete<S: ObjectService>(call: &VerifiedCall<'_, S>) -> Result<ServerResponse, ApiError> {
    let bucket = call.bucket().await?;
    let name = upload_name(call);
    let upload = match call.service.upload(&bucket, name).await {
        Err(error) if error.code == ErrorCode::NoSuchUpload => {
            // A client that did not receive the first response repeats the request.
            let earlier = call.service.open(&bucket, name.key, None).await.ok();
            let earlier = earlier.filter(|o| o.as_ref().upload_id.as_deref() == Some(name.id));
            return earlier.map(|object| completed(call, object.as_ref())).ok_or(error);
        }
        upload => upload?,
    };
    let stored = call.service.parts(&bucket, name).await?;
    let parts = listed_parts(&call.document, &stored, bucket.as_ref().directory)?;
    let size: u64 = parts.iter().map(|p| p.size).sum();
    if let Some(declared) = call.header("x-amz-mp-object-size")
        && decimal(declared) != Some(size)
    {
        return Err(ApiError::with(
            ErrorCode::InvalidRequest,
            "The provided 'x-amz-mp-object-size' header value does not match what was computed",
        ));
    }
    let digests: Vec<u8> = parts.iter().flat_map(|p| p.md5).collect();
    let etag = format!("{}-{}", hex(&md5(&digests)), parts.len());
    let checksum = match upload.checksum {
        Some((algorithm, full)) => combined(&parts, algorithm, full),
        // S3 computes CRC64NVME for an object uploaded without a checksum.
        None => combined_crc64(&parts),
    };
    check_declared(call, &checksum, parts.len())?;
    let conditions = WriteConditions::of(&call.parts.headers);
    let completion = Completion { parts, etag, checksum, conditions };
    let object = call.service.complete_upload(&bucket, name, completion).await?;
    Ok(completed(call, &object))
}

/// Checks the object checksum that a CompleteMultipartUpload declares against the computed one.
fn check_declared<S: ObjectService>(
    call: &VerifiedCall<'_, S>,
    computed: &StoredChecksum,
    parts: usize,
) -> Result<(), ApiError> {
    let invalid = |text: &str| Err(ApiError::with(ErrorCode::InvalidRequest, text));
    let kind = computed.kind();
    for (name, value) in &call.parts.headers {
        let Some(suffix) = name.as_str().strip_prefix("x-amz-checksum-") else { continue };
        let given = value.to_str().unwrap_or("");
        if suffix == "type" {
            if !given.eq_ignore_ascii_case(kind) {
                return invalid("The checksum type does not match the one that the upload was created with.");
            }
            continue;
        }
        let Some(algorithm) = Algorithm::from_header(name.as_str()) else {
            return invalid("The algorithm type you specified in x-amz-checksum- header is invalid.");
        };
        let count = format!("-{parts}");
        if computed.algorithm != algorithm
            || computed.value.trim_end_matches(&count) != given.trim_end_matches(&count)
        {
            let name = algorithm.name().to_lowercase();
            let text = format!("The {name} you specified did not match the calculated checksum.");
            return Err(ApiError::with(ErrorCode::BadDigest, text));
        }
    }
    Ok(())
}

/// Returns the response to a CompleteMultipartUpload that created `object`.
fn completed<S: ObjectService>(call: &VerifiedCall<'_, S>, object: &ObjectInfo) -> ServerResponse {
    let mut writer = XmlWriter::new("CompleteMultipartUploadResult");
    let host = call.header("host").unwrap_or("localhost");
    writer.text("Location", &format!("http://{host}/{}/{}", call.route.bucket, call.route.key));
    writer
        .text("Bucket", &call.route.bucket)
        .text("Key", &call.route.key)
        .text("ETag", &format!("\"{}\"", object.etag()));
    if let Some(checksum) = &object.checksum {
        writer.text(checksum_element(checksum.algorithm), &checksum.value);
        writer.text("ChecksumType", checksum.kind());
    }
    let mut answer = xml(writer.finish());
    set_version(&mut answer, object.version.as_deref());
    answer.headers_mut().insert(ETAG, object.etag_header.clone());
    answer
}
