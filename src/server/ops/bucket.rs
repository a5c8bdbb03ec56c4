//! ListBuckets, CreateBucket, HeadBucket, DeleteBucket, GetBucketLocation.

use super::Call;
use crate::s3::endpoint::is_bucket_name;
use crate::s3::xml::{Element, XmlWriter};
use crate::server::error::ApiError;
use crate::server::express;
use crate::server::response::{Answer, empty, set, xml};
use crate::server::state::iso_date;

pub fn list(call: &Call<'_>) -> Result<Answer, ApiError> {
    let prefix = call.route.parameter("prefix").unwrap_or("");
    let after = call.route.parameter("continuation-token").unwrap_or("");
    let most = match call.route.parameter("max-buckets").map(str::parse) {
        None => 10_000usize,
        Some(Ok(most)) if (1..=10_000).contains(&most) => most,
        Some(_) => {
            return Err(ApiError::with(
                "InvalidArgument",
                "Argument max-buckets must be an integer between 1 and 10000",
            ));
        }
    };
    let all = call.shared.state.buckets();
    let mut found = all.iter().filter(|(name, _)| name.starts_with(prefix) && name.as_str() > after);
    let mut writer = XmlWriter::new("ListAllMyBucketsResult");
    writer.open("Owner").text("ID", &call.shared.credentials.access_key).close();
    writer.open("Buckets");
    let mut last = None;
    for (name, created) in found.by_ref().take(most) {
        writer.open("Bucket").text("Name", name).text("CreationDate", &iso_date(*created));
        writer.text("BucketRegion", &call.shared.settings.region).close();
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

pub fn create(call: &Call<'_>) -> Result<Answer, ApiError> {
    if !is_bucket_name(&call.route.bucket) {
        return Err(ApiError::new("InvalidBucketName"));
    }
    if !call.received.data.is_empty() {
        let root = Element::parse(&call.received.data).map_err(|_| ApiError::new("MalformedXML"))?;
        if root.name != "CreateBucketConfiguration" {
            return Err(ApiError::new("MalformedXML"));
        }
    }
    if express::is_directory(&call.route.bucket) {
        check_zone(&call.route.bucket, &call.received.data)?;
    }
    call.shared.state.create_bucket(&call.route.bucket)?;
    let mut answer = empty(200);
    set(answer.headers_mut(), "location", &format!("/{}", call.route.bucket));
    Ok(answer)
}

pub fn session(call: &Call<'_>) -> Result<Answer, ApiError> {
    call.shared.state.bucket(&call.route.bucket)?;
    express::create_session(&call.shared.sessions, call.parts, &call.route.bucket)
}

/// A directory bucket says which zone it is to be in, which is the one in its name.
fn check_zone(bucket: &str, body: &[u8]) -> Result<(), ApiError> {
    let root = Element::parse(body).map_err(|_| ApiError::new("MalformedXML"))?;
    let text = |outer: &str, inner: &str| root.child(outer).and_then(|e| e.text_of(inner));
    let zone = bucket.strip_suffix(express::SUFFIX).and_then(|b| b.rsplit_once("--")).map(|(_, zone)| zone);
    if zone.is_none_or(str::is_empty) {
        return Err(ApiError::new("InvalidBucketName"));
    }
    if text("Location", "Name") != zone || text("Bucket", "Type") != Some("Directory") {
        let text = "A directory bucket is created with Bucket.Type Directory and the Location of its name";
        return Err(ApiError::with("InvalidRequest", text));
    }
    Ok(())
}

pub fn head(call: &Call<'_>) -> Result<Answer, ApiError> {
    call.shared.state.bucket(&call.route.bucket)?;
    let mut answer = empty(200);
    set(answer.headers_mut(), "x-amz-bucket-region", &call.shared.settings.region);
    Ok(answer)
}

pub fn delete(call: &Call<'_>) -> Result<Answer, ApiError> {
    call.shared.state.delete_bucket(&call.route.bucket)?;
    Ok(empty(204))
}

pub fn location(call: &Call<'_>) -> Result<Answer, ApiError> {
    call.shared.state.bucket(&call.route.bucket)?;
    // The API writes the empty string for us-east-1.
    let region = call.shared.settings.region.as_str();
    let document = XmlWriter::new("LocationConstraint").finish();
    let shown = if region == "us-east-1" { "" } else { region };
    Ok(xml(document.replace("</LocationConstraint>", &format!("{shown}</LocationConstraint>"))))
}
