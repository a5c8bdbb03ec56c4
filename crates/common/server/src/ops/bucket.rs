//! The bucket operations: ListBuckets, CreateBucket, HeadBucket, DeleteBucket, GetBucketLocation and CreateSession.

use super::VerifiedCall;
use crate::error::{ApiError, ErrorCode};
use crate::express;
use crate::response::{ServerResponse, empty, iso_date, set, xml};
use crate::service::{NewBucket, ObjectService};
use plimsoll_base::provider::zone;
use plimsoll_s3::endpoint::is_bucket_name;
use plimsoll_s3::number::decimal;
use plimsoll_s3::xml::{Element, XmlWriter};

pub async fn list<S: ObjectService>(call: &VerifiedCall<'_, S>) -> Result<ServerResponse, ApiError> {
    let prefix = call.route.parameter("prefix").unwrap_or("");
    let after = call.route.parameter("continuation-token").unwrap_or("");
    let most = match call.route.parameter("max-buckets").map(decimal) {
        None => 10_000,
        Some(Some(most)) if (1..=10_000).contains(&most) => most as usize,
        Some(_) => {
            return Err(ApiError::with(
                ErrorCode::InvalidArgument,
                "Argument max-buckets must be an integer between 1 and 10000",
            ));
        }
    };
    let region = call.route.parameter("bucket-region");
    let all = call.service.buckets().await?;
    let all = all.iter().map(|(name, bucket)| (name, bucket.as_ref()));
    let mut found = all.filter(|(name, bucket)| {
        name.starts_with(prefix)
            && name.as_str() > after
            && region.is_none_or(|region| region == bucket.region)
            && (call.rights.cover(name) || (!call.client.is_empty() && bucket.owner == call.client))
    });
    let mut writer = XmlWriter::new("ListAllMyBucketsResult");
    writer.open("Owner").text("ID", call.owner()).text("DisplayName", call.owner()).close();
    writer.open("Buckets");
    let mut last = None;
    for (name, bucket) in found.by_ref().take(most) {
        writer.open("Bucket").text("Name", name).text("CreationDate", &iso_date(bucket.created));
        writer.text("BucketRegion", &bucket.region).close();
        last = Some(name);
    }
    writer.close();
    if let (Some(last), true) = (last, found.next().is_some()) {
        writer.text("ContinuationToken", last);
    }
    if !prefix.is_empty() {
        writer.text("Prefix", prefix);
    }
    Ok(xml(writer.finish()))
}

/// Returns true if a bucket with this name may be created (S3 user guide, "General purpose bucket naming rules").
/// Besides invalid characters, the rules exclude labels that begin or end with a hyphen, and prefixes and
/// suffixes that S3 reserves.
pub fn may_be_created(name: &str) -> bool {
    const PREFIXES: [&str; 3] = ["xn--", "sthree-", "amzn-s3-demo-"];
    const SUFFIXES: [&str; 4] = ["-s3alias", "--ol-s3", ".mrap", "--table-s3"];
    is_bucket_name(name)
        && !name.contains("-.")
        && !name.contains(".-")
        && !PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        && !SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
}

pub async fn create<S: ObjectService>(call: &VerifiedCall<'_, S>) -> Result<ServerResponse, ApiError> {
    if !may_be_created(&call.route.bucket) {
        return Err(ApiError::new(ErrorCode::InvalidBucketName));
    }
    let mut region = call.shared.settings.region.clone();
    if !call.document.is_empty() {
        let root = Element::parse(&call.document).map_err(|_| ApiError::new(ErrorCode::MalformedXML))?;
        if root.name != "CreateBucketConfiguration" {
            return Err(ApiError::new(ErrorCode::MalformedXML));
        }
        let known =
            |child: &&Element| matches!(child.name.as_str(), "LocationConstraint" | "Location" | "Bucket");
        if let Some(other) = root.children.iter().find(|child| !known(child)) {
            let text = format!("This server does not implement {} in CreateBucketConfiguration", other.name);
            return Err(ApiError::with(ErrorCode::NotImplemented, text));
        }
        if let Some(constraint) = root.text_of("LocationConstraint").filter(|c| !c.is_empty()) {
            let name = |c: u8| c.is_ascii_alphanumeric() || c == b'-';
            if constraint.len() > 64 || !constraint.bytes().all(name) {
                return Err(ApiError::new(ErrorCode::InvalidLocationConstraint));
            }
            region = constraint.to_string();
        }
    }
    if zone::is_directory(&call.route.bucket) {
        if !call.service.features().directory_buckets {
            return Err(ApiError::new(ErrorCode::InvalidBucketName));
        }
        check_zone(&call.route.bucket, &call.document)?;
    }
    let new = NewBucket { region: &region, owner: call.client, acl: call.acl()? };
    call.service.create_bucket(&call.route.bucket, new).await?;
    let mut answer = empty(200);
    set(answer.headers_mut(), "location", &format!("/{}", call.route.bucket));
    Ok(answer)
}

pub async fn session<S: ObjectService>(call: &VerifiedCall<'_, S>) -> Result<ServerResponse, ApiError> {
    call.bucket().await?;
    express::create_session(&call.shared.sessions, call.parts, &call.route.bucket, &call.shared.memory)
}

/// Checks that the body of a CreateBucket request for a directory bucket names the same zone as the bucket's name.
fn check_zone(bucket: &str, body: &[u8]) -> Result<(), ApiError> {
    let root = Element::parse(body).map_err(|_| ApiError::new(ErrorCode::MalformedXML))?;
    let text = |outer: &str, inner: &str| root.child(outer).and_then(|e| e.text_of(inner));
    let zone = bucket.strip_suffix(zone::SUFFIX).and_then(|b| b.rsplit_once("--")).map(|(_, zone)| zone);
    if zone.is_none_or(str::is_empty) {
        return Err(ApiError::new(ErrorCode::InvalidBucketName));
    }
    if text("Location", "Name") != zone || text("Bucket", "Type") != Some("Directory") {
        let text =
            "A directory bucket requires Bucket.Type Directory and the zone of its name in Location.Name";
        return Err(ApiError::with(ErrorCode::InvalidRequest, text));
    }
    Ok(())
}

pub async fn head<S: ObjectService>(call: &VerifiedCall<'_, S>) -> Result<ServerResponse, ApiError> {
    let bucket = call.bucket().await?;
    let bucket = bucket.as_ref();
    let mut answer = empty(200);
    set(answer.headers_mut(), "x-amz-bucket-region", &bucket.region);
    Ok(answer)
}

pub async fn delete<S: ObjectService>(call: &VerifiedCall<'_, S>) -> Result<ServerResponse, ApiError> {
    call.service.delete_bucket(&call.route.bucket).await?;
    Ok(empty(204))
}

pub async fn location<S: ObjectService>(call: &VerifiedCall<'_, S>) -> Result<ServerResponse, ApiError> {
    let bucket = call.bucket().await?;
    let bucket = bucket.as_ref();
    // The API returns an empty string for us-east-1.
    let region = if bucket.region == "us-east-1" { "" } else { &bucket.region };
    let document = XmlWriter::new("LocationConstraint").finish();
    Ok(xml(document.replace("</LocationConstraint>", &format!("{region}</LocationConstraint>"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_bucket_names_are_rejected() {
        for wrong in [
            "xn--abc",
            "data-s3alias",
            "foo-.bar",
            "foo.-bar",
            "sthree-abc",
            "data--ol-s3",
            "a.mrap",
            "x--table-s3",
        ] {
            assert!(!may_be_created(wrong), "{wrong}");
        }
        for right in ["foo", "foo-bar", "foo.bar", "foo--bar", "data--use1-az4--x-s3", "s3alias"] {
            assert!(may_be_created(right), "{right}");
        }
    }
}
