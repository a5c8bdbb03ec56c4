//! The multipart operations: CreateMultipartUpload, UploadPart, CompleteMultipartUpload and AbortMultipartUpload.

use http::header::ETAG;

use super::Call;
use crate::clock::wall_now;
use crate::net::encode::hex;
use crate::s3::checksum::{Algorithm, Hasher, from_base64, md5};
use crate::s3::integrity::{composite, full_object};
use crate::s3::message::checksum_element;
use crate::s3::number::decimal;
use crate::s3::xml::{Element, XmlWriter};
use crate::server::error::ApiError;
use crate::server::response::{ServerResponse, empty, set, xml};
use crate::server::state::{OVERHEAD, Object, ObjectPart, Part, StoredChecksum, Upload, headers_size};

/// Minimum size in bytes of every part but the last (S3: 5 MiB).
const SMALLEST_PART: usize = 5 << 20;

fn requested_checksum(call: &Call<'_>) -> Result<Option<(Algorithm, bool)>, ApiError> {
    let kind = call.header("x-amz-checksum-type");
    let Some(name) = call.header("x-amz-checksum-algorithm") else {
        return match kind {
            None => Ok(None),
            Some(_) => Err(ApiError::with(
                "InvalidRequest",
                "The x-amz-checksum-type header can only be used with the x-amz-checksum-algorithm header.",
            )),
        };
    };
    let algorithm = Algorithm::from_name(name).ok_or_else(|| {
        ApiError::with("InvalidRequest", "Checksum algorithm provided is unsupported. Please try again with any of the valid types: [CRC32, CRC32C, CRC64NVME, SHA1, SHA256]")
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
            return Err(ApiError::with("InvalidRequest", text));
        }
        Some(_) => {
            return Err(ApiError::with("InvalidRequest", "Value for x-amz-checksum-type header is invalid."));
        }
    };
    Ok(Some((algorithm, full)))
}

pub fn create(call: &Call<'_>) -> Result<ServerResponse, ApiError> {
    let bucket = call.shared.state.bucket(&call.route.bucket)?;
    let checksum = requested_checksum(call)?;
    let headers = call.object_headers()?;
    let overhead = OVERHEAD + call.route.key.len() as u64 + headers_size(&headers);
    let upload = Upload {
        overhead: call.memory().reserve(overhead)?,
        headers,
        checksum,
        initiated: wall_now(),
        parts: Default::default(),
    };
    let id = call.shared.state.upload_id();
    bucket.uploads().insert((call.route.key.clone(), id.clone()), upload);
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
        ApiError::with("InvalidArgument", "Part number must be an integer between 1 and 10000, inclusive.")
    })
}

/// Returns the part number of the request.
pub fn part_number(call: &Call<'_>) -> Result<u32, ApiError> {
    number_of_part(call.route.parameter("partNumber"))
}

/// Stores a part of the upload that the request names, and returns the part.
pub fn store_part(
    call: &Call<'_>,
    data: bytes::Bytes,
    known_md5: Option<[u8; 16]>,
) -> Result<Part, ApiError> {
    let bucket = call.shared.state.bucket(&call.route.bucket)?;
    let number = part_number(call)?;
    let id = call.route.parameter("uploadId").unwrap_or("").to_string();
    let md5 = bucket.tag(known_md5.unwrap_or_else(|| md5(&data)));
    let mut uploads = bucket.uploads();
    let upload =
        uploads.get_mut(&(call.route.key.clone(), id)).ok_or_else(|| ApiError::new("NoSuchUpload"))?;
    let declared = call.received.checksum.clone();
    if let (Some((algorithm, _)), Some((given, _))) = (upload.checksum, &declared)
        && algorithm != *given
    {
        let text = format!(
            "Checksum Type mismatch occurred, expected checksum Type: {}, actual checksum Type: {}",
            algorithm.name(),
            given.name()
        );
        return Err(ApiError::with("InvalidRequest", text));
    }
    let checksum = match upload.checksum {
        Some((algorithm, _)) => Some(declared.unwrap_or_else(|| (algorithm, algorithm.of(&data)))),
        None => declared,
    };
    if !upload.parts.contains_key(&number) {
        upload.overhead.grow(OVERHEAD)?;
    }
    let part = Part { data, md5, modified: wall_now(), checksum };
    upload.parts.insert(number, part.clone());
    Ok(part)
}

pub fn part(call: &Call<'_>) -> Result<ServerResponse, ApiError> {
    let part = store_part(call, call.received.data.clone(), call.received.md5)?;
    let mut answer = empty(200);
    set(answer.headers_mut(), "etag", &format!("\"{}\"", hex(&part.md5)));
    if let Some((algorithm, value)) = &part.checksum {
        set(answer.headers_mut(), algorithm.header(), value);
    }
    Ok(answer)
}

pub fn abort(call: &Call<'_>) -> Result<ServerResponse, ApiError> {
    let bucket = call.shared.state.bucket(&call.route.bucket)?;
    let id = call.route.parameter("uploadId").unwrap_or("").to_string();
    let removed = bucket.uploads().remove(&(call.route.key.clone(), id));
    removed.map(|_| empty(204)).ok_or_else(|| ApiError::new("NoSuchUpload"))
}

/// Returns the parts that a CompleteMultipartUpload lists, in its order, after checking them against the upload.
fn listed_parts(body: &[u8], upload: &Upload, consecutive: bool) -> Result<Vec<(u32, Part)>, ApiError> {
    let malformed = || ApiError::new("MalformedXML");
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
            return Err(ApiError::with("InvalidArgument", "PartNumber must be >= 1"));
        }
        let number = number_of_part(Some(number))?;
        if number <= previous {
            return Err(ApiError::new("InvalidPartOrder"));
        }
        if consecutive && number != previous + 1 {
            let text = "Part numbers must begin with 1 and be consecutive for directory buckets";
            return Err(ApiError::with("InvalidRequest", text));
        }
        previous = number;
        let etag = named.text_of("ETag").ok_or_else(malformed)?.trim().trim_matches('"').to_string();
        let part = upload.parts.get(&number).filter(|p| hex(&p.md5) == etag);
        let part = part.ok_or_else(|| ApiError::new("InvalidPart"))?;
        for algorithm in Algorithm::ALL {
            let Some(given) = named.text_of(checksum_element(algorithm)) else { continue };
            match &part.checksum {
                Some((stored, value)) if *stored == algorithm => {
                    if value != given {
                        return Err(ApiError::new("InvalidPart"));
                    }
                }
                _ => {
                    return Err(ApiError::with(
                        "BadDigest",
                        format!(
                            "The {} you specified for part {number} did not match what we received.",
                            algorithm.name().to_lowercase()
                        ),
                    ));
                }
            }
        }
        parts.push((number, part.clone()));
    }
    if parts.is_empty() {
        return Err(malformed());
    }
    let all_but_last = &parts[..parts.len() - 1];
    if all_but_last.iter().any(|(_, p)| p.data.len() < SMALLEST_PART) {
        return Err(ApiError::new("EntityTooSmall"));
    }
    Ok(parts)
}

/// Computes the checksum of the object from the checksums of its parts.
fn combined(parts: &[Part], algorithm: Algorithm, full: bool) -> StoredChecksum {
    let values: Vec<Vec<u8>> = parts
        .iter()
        .map(|p| match &p.checksum {
            Some((_, value)) => from_base64(value).unwrap_or_default(),
            None => Vec::new(),
        })
        .collect();
    let whole = || {
        let parts: Vec<_> = values.iter().cloned().zip(parts.iter().map(|p| p.data.len() as u64)).collect();
        full_object(algorithm, &parts)
    };
    let value = full.then(whole).flatten().unwrap_or_else(|| composite(algorithm, &values));
    StoredChecksum { algorithm, value, full_object: full }
}

pub fn complete(call: &Call<'_>) -> Result<ServerResponse, ApiError> {
    let bucket = call.shared.state.bucket(&call.route.bucket)?;
    let id = (call.route.key.clone(), call.route.parameter("uploadId").unwrap_or("").to_string());
    let mut uploads = bucket.uploads();
    let Some(upload) = uploads.get(&id) else {
        // A client that did not receive the first response repeats the request.
        let earlier = bucket.object(&call.route.key).ok().filter(|o| o.upload_id.as_ref() == Some(&id.1));
        return earlier.map(|object| completed(call, &object)).ok_or_else(|| ApiError::new("NoSuchUpload"));
    };
    let listed = listed_parts(&call.received.data, upload, bucket.directory)?;
    let numbers: Vec<u32> = listed.iter().map(|(number, _)| *number).collect();
    let parts: Vec<Part> = listed.into_iter().map(|(_, part)| part).collect();
    let size: usize = parts.iter().map(|p| p.data.len()).sum();
    if let Some(declared) = call.header("x-amz-mp-object-size")
        && decimal(declared) != Some(size as u64)
    {
        return Err(ApiError::with(
            "InvalidRequest",
            "The provided 'x-amz-mp-object-size' header value does not match what was computed",
        ));
    }
    let digests: Vec<u8> = parts.iter().flat_map(|p| p.md5).collect();
    let etag = format!("{}-{}", hex(&md5(&digests)), parts.len());
    let pieces = parts.iter().map(|p| p.data.clone()).collect();
    let mut object = Object::new(call.memory(), &call.route.key, pieces, etag, upload.headers.clone())?;
    let described = parts.iter().zip(numbers);
    object.parts =
        Some(described.map(|(p, number)| ObjectPart { number, checksum: p.checksum.clone() }).collect());
    object.upload_id = Some(id.1.clone());
    object.checksum = Some(match upload.checksum {
        Some((algorithm, full)) => combined(&parts, algorithm, full),
        // S3 computes CRC64NVME for an object uploaded without a checksum.
        None => {
            let mut hasher = Hasher::new(Algorithm::Crc64Nvme);
            parts.iter().for_each(|p| hasher.update(&p.data));
            StoredChecksum { algorithm: Algorithm::Crc64Nvme, value: hasher.finish(), full_object: true }
        }
    });
    check_declared(call, object.checksum.as_ref(), parts.len())?;
    let answer = completed(call, &object);
    call.store(&bucket, object)?;
    uploads.remove(&id);
    Ok(answer)
}

/// Checks the object checksum that a CompleteMultipartUpload declares against the computed one.
fn check_declared(call: &Call<'_>, computed: Option<&StoredChecksum>, parts: usize) -> Result<(), ApiError> {
    let invalid = |text: &str| Err(ApiError::with("InvalidRequest", text));
    let Some(computed) = computed else { return Ok(()) };
    let kind = if computed.full_object { "FULL_OBJECT" } else { "COMPOSITE" };
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
            return Err(ApiError::with("BadDigest", text));
        }
    }
    Ok(())
}

/// Returns the response to a CompleteMultipartUpload that created `object`.
fn completed(call: &Call<'_>, object: &Object) -> ServerResponse {
    let mut writer = XmlWriter::new("CompleteMultipartUploadResult");
    let host = call.header("host").unwrap_or("localhost");
    writer.text("Location", &format!("http://{host}/{}/{}", call.route.bucket, call.route.key));
    writer
        .text("Bucket", &call.route.bucket)
        .text("Key", &call.route.key)
        .text("ETag", &format!("\"{}\"", object.etag));
    if let Some(checksum) = &object.checksum {
        writer.text(checksum_element(checksum.algorithm), &checksum.value);
        writer.text("ChecksumType", if checksum.full_object { "FULL_OBJECT" } else { "COMPOSITE" });
    }
    let mut answer = xml(writer.finish());
    answer.headers_mut().insert(ETAG, object.etag_header.clone());
    answer
}
