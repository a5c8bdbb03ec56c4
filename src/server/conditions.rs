//! Conditional requests: `If-Match`, `If-None-Match`, `If-Modified-Since`, `If-Unmodified-Since` (RFC 9110, 13) and
//! their `x-amz-copy-source-` forms.

use http::HeaderMap;

use super::error::ApiError;

/// What a condition is held against.
#[derive(Debug, Clone, Copy)]
pub struct Existing<'a> {
    /// Entity tag without quotes.
    pub etag: &'a str,
    /// Last modification, Unix seconds.
    pub modified_s: i64,
}

fn matches(list: &str, etag: &str) -> bool {
    list.split(',').map(|tag| tag.trim().trim_matches('"')).any(|tag| tag == "*" || tag == etag)
}

/// Seconds of an HTTP date; what is none is ignored, as the RFC demands.
fn date(text: &str) -> Option<i64> {
    let rfc2822 = jiff::fmt::rfc2822::parse(text).ok();
    rfc2822
        .map(|z| z.timestamp().as_second())
        .or_else(|| text.parse::<jiff::Timestamp>().ok().map(|t| t.as_second()))
}

/// Outcome of a read's conditions: go on, or answer with that error.
///
/// # Errors
/// `PreconditionFailed`, or `NotModified` where a read should answer 304.
pub fn for_read(headers: &HeaderMap, prefix: &str, object: Existing<'_>, now_s: i64) -> Result<(), ApiError> {
    let value = |name: &str| headers.get(format!("{prefix}{name}")).and_then(|v| v.to_str().ok());
    let when = |name: &str| value(name).and_then(date).filter(|s| *s <= now_s);
    let failed = || ApiError::new("PreconditionFailed");
    let unmodified = if prefix.is_empty() { ApiError::new("NotModified") } else { failed() };
    if let Some(list) = value("if-match") {
        if !matches(list, object.etag) {
            return Err(failed());
        }
    } else if value("if-unmodified-since").and_then(date).is_some_and(|since| object.modified_s > since) {
        return Err(failed());
    }
    if let Some(list) = value("if-none-match") {
        if matches(list, object.etag) {
            return Err(unmodified);
        }
    } else if when("if-modified-since").is_some_and(|since| object.modified_s <= since) {
        return Err(unmodified);
    }
    Ok(())
}

/// Conditions of a write, held against what is there now.
///
/// # Errors
/// `PreconditionFailed`, or `NoSuchKey` where `If-Match` meets nothing.
pub fn for_write(headers: &HeaderMap, existing: Option<Existing<'_>>) -> Result<(), ApiError> {
    let value = |name: &str| headers.get(name).and_then(|v| v.to_str().ok());
    if let Some(list) = value("if-match") {
        match existing {
            None => return Err(ApiError::new("NoSuchKey")),
            Some(object) if !matches(list, object.etag) => return Err(ApiError::new("PreconditionFailed")),
            Some(_) => {}
        }
    }
    if let (Some(list), Some(object)) = (value("if-none-match"), existing)
        && matches(list, object.etag)
    {
        return Err(ApiError::new("PreconditionFailed"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBJECT: Existing<'static> = Existing { etag: "abc", modified_s: 1_700_000_000 };
    const BEFORE: &str = "Tue, 14 Nov 2023 22:13:19 GMT";
    const AT: &str = "Tue, 14 Nov 2023 22:13:20 GMT";

    fn read(pairs: &[(&'static str, &'static str)]) -> Result<(), &'static str> {
        let headers: HeaderMap =
            pairs.iter().map(|(n, v)| (n.parse().unwrap(), http::HeaderValue::from_static(v))).collect();
        for_read(&headers, "", OBJECT, 1_800_000_000).map_err(|e| e.code)
    }

    #[test]
    fn each_read_condition() {
        assert_eq!(read(&[("if-match", "\"abc\"")]), Ok(()));
        assert_eq!(read(&[("if-match", "\"x\", \"abc\"")]), Ok(()));
        assert_eq!(read(&[("if-match", "\"x\"")]), Err("PreconditionFailed"));
        assert_eq!(read(&[("if-none-match", "*")]), Err("NotModified"));
        assert_eq!(read(&[("if-modified-since", AT)]), Err("NotModified"));
        assert_eq!(read(&[("if-modified-since", BEFORE)]), Ok(()));
        assert_eq!(read(&[("if-unmodified-since", BEFORE)]), Err("PreconditionFailed"));
        assert_eq!(read(&[("if-modified-since", "not a date")]), Ok(()));
    }

    #[test]
    fn a_tag_overrides_a_date() {
        assert_eq!(read(&[("if-match", "abc"), ("if-unmodified-since", BEFORE)]), Ok(()));
        assert_eq!(read(&[("if-none-match", "x"), ("if-modified-since", AT)]), Ok(()));
    }

    #[test]
    fn writes() {
        let headers = |n: &str, v: &'static str| -> HeaderMap {
            [(n.parse().unwrap(), http::HeaderValue::from_static(v))].into_iter().collect()
        };
        assert!(for_write(&headers("if-none-match", "*"), None).is_ok());
        assert_eq!(
            for_write(&headers("if-none-match", "*"), Some(OBJECT)).unwrap_err().code,
            "PreconditionFailed"
        );
        assert_eq!(for_write(&headers("if-match", "abc"), None).unwrap_err().code, "NoSuchKey");
        assert!(for_write(&headers("if-match", "abc"), Some(OBJECT)).is_ok());
    }
}
