//! Uploads by HTML form: parses `multipart/form-data` (RFC 7578) and verifies the signed policy (S3 API reference,
//! "POST Object" and "Authenticating requests in browser-based uploads").

use bytes::{Bytes, BytesMut};
use http::request::Parts;
use hyper::body::Incoming;
use serde_json::Value;

use super::error::{ApiError, ErrorCode};
use super::incoming::frame;
use plimsoll_s3::checksum::from_base64;

/// Maximum size in bytes of everything before the file.
const MAX_FIELDS: usize = 64 * 1024;

/// The file of a form, as a stream.
pub struct FormFile<'a> {
    incoming: &'a mut Incoming,
    buffer: BytesMut,
    /// Line end and boundary that end the file.
    end: Vec<u8>,
    complete: bool,
}

/// Fields of a form, which precede its file. Names are in lower case.
#[derive(Debug, Default)]
pub struct Fields {
    pairs: Vec<(String, String)>,
    /// Name of the file on the client's machine; empty if the client sent none.
    pub file_name: String,
}

fn malformed() -> ApiError {
    ApiError::with(
        ErrorCode::MalformedPOSTRequest,
        "The body of your POST request is not well-formed multipart/form-data.",
    )
}

fn position(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

impl FormFile<'_> {
    /// Reads more of the body into the buffer.
    async fn fill(&mut self) -> Result<(), ApiError> {
        let piece = frame(self.incoming).await.ok_or_else(malformed)??;
        self.buffer.extend_from_slice(&piece);
        Ok(())
    }

    /// Returns the next piece of the file; `None` at its end.
    ///
    /// # Errors
    /// Returns `MalformedPOSTRequest` if the body ends before the final boundary.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ApiError> {
        loop {
            if self.complete {
                return Ok(None);
            }
            if let Some(at) = position(&self.buffer, &self.end) {
                self.complete = true;
                let last = self.buffer.split_to(at).freeze();
                // Fields after the file have no effect. Read them, so that the connection stays usable.
                let mut rest = self.buffer.len();
                while let Some(piece) = frame(self.incoming).await.transpose()? {
                    rest += piece.len();
                    if rest > MAX_FIELDS {
                        return Err(malformed());
                    }
                }
                return Ok(Some(last).filter(|piece| !piece.is_empty()));
            }
            // The last bytes may be the start of the boundary.
            let safe = self.buffer.len().saturating_sub(self.end.len());
            if safe > 0 {
                return Ok(Some(self.buffer.split_to(safe).freeze()));
            }
            self.fill().await?;
        }
    }

    /// Removes and returns the bytes before `end`, and removes `end`.
    async fn until(&mut self, end: &[u8]) -> Result<Bytes, ApiError> {
        loop {
            if let Some(at) = position(&self.buffer, end) {
                let found = self.buffer.split_to(at).freeze();
                let _ = self.buffer.split_to(end.len());
                return Ok(found);
            }
            if self.buffer.len() > MAX_FIELDS {
                return Err(ApiError::new(ErrorCode::MaxPostPreDataLengthExceededError));
            }
            self.fill().await?;
        }
    }
}

/// Returns a parameter of a header, such as the boundary of a content type.
fn parameter(header: &str, name: &str) -> Option<String> {
    header.split(';').skip(1).find_map(|part| {
        let (key, value) = part.trim().split_once('=')?;
        key.trim().eq_ignore_ascii_case(name).then(|| value.trim().trim_matches('"').to_string())
    })
}

/// Reads a form up to the start of its file.
///
/// # Errors
/// Returns `MalformedPOSTRequest` for a malformed form, `InvalidArgument` if it has no file, or
/// `MaxPostPreDataLengthExceededError` if its fields are too long.
pub async fn read<'a>(parts: &Parts, incoming: &'a mut Incoming) -> Result<(Fields, FormFile<'a>), ApiError> {
    let kind = parts.headers.get("content-type").and_then(|v| v.to_str().ok()).unwrap_or("");
    let boundary = Some(kind).filter(|kind| kind.to_ascii_lowercase().starts_with("multipart/form-data"));
    let boundary =
        boundary.and_then(|kind| parameter(kind, "boundary")).filter(|b| (1..=70).contains(&b.len()));
    let boundary = boundary.ok_or_else(|| {
        ApiError::with(
            ErrorCode::PreconditionFailed,
            "Bucket POST must be of the enclosure-type multipart/form-data",
        )
    })?;
    let end = format!("\r\n--{boundary}").into_bytes();
    let mut file = FormFile { incoming, buffer: BytesMut::from(&b"\r\n"[..]), end, complete: false };
    let end = file.end.clone();
    file.until(&end).await?;
    let mut fields = Fields::default();
    let mut size = 0;
    loop {
        let rest_of_line = file.until(b"\r\n").await?;
        if rest_of_line.starts_with(b"--") {
            return Err(ApiError::with(
                ErrorCode::InvalidArgument,
                "POST requires exactly one file upload per request.",
            ));
        }
        let head = file.until(b"\r\n\r\n").await?;
        let head = std::str::from_utf8(&head).map_err(|_| malformed())?;
        let mut disposition = None;
        for line in head.lines() {
            let (name, value) = line.split_once(':').ok_or_else(malformed)?;
            if name.trim().eq_ignore_ascii_case("content-disposition") {
                disposition = Some(value.to_string());
            } else if name.trim().eq_ignore_ascii_case("content-type") {
                fields.pairs.push(("\0content-type".into(), value.trim().to_string()));
            }
        }
        let disposition = disposition.ok_or_else(malformed)?;
        let name = parameter(&disposition, "name").ok_or_else(malformed)?.to_ascii_lowercase();
        if name == "file" {
            fields.file_name = parameter(&disposition, "filename").unwrap_or_default();
            return Ok((fields, file));
        }
        let value = file.until(&end).await?;
        size += name.len() + value.len();
        if size > MAX_FIELDS {
            return Err(ApiError::new(ErrorCode::MaxPostPreDataLengthExceededError));
        }
        let value = String::from_utf8(value.to_vec()).map_err(|_| malformed())?;
        fields.pairs.retain(|(name, _)| name != "\0content-type");
        fields.pairs.push((name, value));
    }
}

impl Fields {
    /// Returns the value of a field; `None` if the form does not have it.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// Returns the fields with their names in lower case.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter().filter(|(n, _)| !n.starts_with('\0')).map(|(n, v)| (n.as_str(), v.as_str()))
    }

    /// Returns the key of the object: the field `key`, in which `${filename}` stands for the name of the file.
    ///
    /// # Errors
    /// Returns `InvalidArgument` if the form has no key.
    pub fn key(&self) -> Result<String, ApiError> {
        let key = self.get("key").filter(|key| !key.is_empty()).ok_or_else(|| {
            ApiError::with(ErrorCode::InvalidArgument, "Bucket POST must contain a field named 'key'.")
        })?;
        Ok(key.replace("${filename}", &self.file_name))
    }

    /// Checks the policy of the form: its expiry date, its conditions on the fields, and that it covers every field.
    /// Returns the least and greatest size of the file in bytes.
    ///
    /// # Errors
    /// Returns `InvalidPolicyDocument` for a malformed policy, and `AccessDenied` if it is expired or a condition does
    /// not hold.
    pub fn check_policy(
        &self,
        bucket: &str,
        key: &str,
        now: jiff::Timestamp,
    ) -> Result<(u64, u64), ApiError> {
        let invalid =
            |text: &str| ApiError::with(ErrorCode::InvalidPolicyDocument, format!("Invalid Policy: {text}"));
        let denied = |text: String| {
            ApiError::with(ErrorCode::AccessDenied, format!("Invalid according to Policy: {text}"))
        };
        let policy = self.get("policy").and_then(from_base64).ok_or_else(|| invalid("Invalid base64."))?;
        let policy: Value = serde_json::from_slice(&policy).map_err(|_| invalid("Invalid JSON."))?;
        let expires = policy.get("expiration").and_then(Value::as_str).and_then(|text| text.parse().ok());
        let expires: jiff::Timestamp = expires.ok_or_else(|| invalid("Invalid 'expiration' value."))?;
        if expires <= now {
            return Err(denied("Policy expired.".into()));
        }
        let conditions = policy.get("conditions").and_then(Value::as_array);
        let conditions = conditions.ok_or_else(|| invalid("Invalid 'conditions' value."))?;
        let mut covered: Vec<String> = Vec::new();
        let mut range = (0, u64::MAX);
        let value_of = |name: &str| match name {
            "bucket" => bucket,
            "key" => key,
            name => self.get(name).unwrap_or(""),
        };
        for condition in conditions {
            let rule = match condition {
                Value::Object(map) if map.len() == 1 => {
                    map.iter().next().map(|(name, value)| ("eq", name.clone(), value.clone()))
                }
                Value::Array(items) => match items.as_slice() {
                    [op, least, most] if op.as_str() == Some("content-length-range") => {
                        let number = |v: &Value| v.as_u64().or_else(|| v.as_str()?.parse().ok());
                        let bounds = number(least).zip(number(most));
                        range = bounds.ok_or_else(|| invalid("Invalid content-length-range."))?;
                        continue;
                    }
                    [op, name, value] => name
                        .as_str()
                        .and_then(|name| name.strip_prefix('$'))
                        .zip(op.as_str())
                        .map(|(name, op)| (op, name.to_string(), value.clone())),
                    _ => None,
                },
                _ => None,
            };
            let (op, name, value) = rule.ok_or_else(|| invalid("Invalid condition."))?;
            let name = name.to_ascii_lowercase();
            let value = value.as_str().ok_or_else(|| invalid("Invalid condition."))?;
            let holds = match op.to_ascii_lowercase().as_str() {
                "eq" => value_of(&name) == value,
                "starts-with" => value_of(&name).starts_with(value),
                _ => return Err(invalid("Invalid operator.")),
            };
            if !holds {
                return Err(denied(format!("Policy Condition failed: [\"{op}\", \"${name}\", \"{value}\"]")));
            }
            covered.push(name);
        }
        const EXEMPT: [&str; 5] = ["x-amz-signature", "file", "policy", "awsaccesskeyid", "signature"];
        let exempt = |name: &str| EXEMPT.contains(&name) || name.starts_with("x-ignore-");
        match self.iter().find(|(name, _)| !exempt(name) && !covered.iter().any(|c| c == name)) {
            Some((name, _)) => Err(denied(format!("Extra input fields: {name}"))),
            None => Ok(range),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_s3::checksum::base64;

    fn fields(policy: &str, more: &[(&str, &str)]) -> Fields {
        let mut pairs = vec![("policy".to_string(), base64(policy.as_bytes()))];
        pairs.extend(more.iter().map(|(n, v)| (n.to_string(), v.to_string())));
        Fields { pairs, file_name: "f.txt".into() }
    }

    #[test]
    fn a_policy_covers_every_field() {
        let policy = r#"{"expiration":"2030-01-01T00:00:00Z","conditions":[{"bucket":"b"},
            ["starts-with","$key","user/"],["content-length-range",1,10],["eq","$X-Amz-Meta-A","1"]]}"#;
        let now = jiff::Timestamp::from_second(1_700_000_000).unwrap();
        let check = |form: &Fields, bucket: &str, key: &str| {
            form.check_policy(bucket, key, now).map_err(|e| e.code.name())
        };
        let form = fields(policy, &[("key", "user/${filename}"), ("x-amz-meta-a", "1")]);
        assert_eq!(form.key().unwrap(), "user/f.txt");
        assert_eq!(check(&form, "b", "user/f.txt"), Ok((1, 10)));
        assert_eq!(check(&form, "other", "user/f.txt"), Err("AccessDenied"));
        assert_eq!(check(&form, "b", "other/f.txt"), Err("AccessDenied"));
        let extra = fields(policy, &[("key", "user/a"), ("x-amz-meta-a", "1"), ("acl", "private")]);
        assert_eq!(check(&extra, "b", "user/a"), Err("AccessDenied"));
        let old = fields(&policy.replace("2030", "2020"), &[("key", "user/a"), ("x-amz-meta-a", "1")]);
        assert_eq!(check(&old, "b", "user/a"), Err("AccessDenied"));
        assert_eq!(check(&fields("{", &[]), "b", "k"), Err("InvalidPolicyDocument"));
    }

    #[test]
    fn parameters_of_headers() {
        assert_eq!(parameter("form-data; name=\"file\"; filename=\"a b\"", "filename").unwrap(), "a b");
        assert_eq!(parameter("multipart/form-data; boundary=xyz", "boundary").unwrap(), "xyz");
    }
}
