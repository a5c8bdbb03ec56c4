//! Conditional requests: `If-Match`, `If-None-Match`, `If-Modified-Since`, `If-Unmodified-Since` (RFC 9110, 13) and
//! their `x-amz-copy-source-` forms.

use http::HeaderMap;
use http::header::{HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE};

use super::error::{ApiError, ErrorCode};
use plimsoll_s3::number::decimal;

/// Properties of an object that conditions are compared with.
#[derive(Debug, Clone, Copy)]
pub struct Existing<'a> {
    /// Entity tag without quotes.
    pub etag: &'a str,
    /// Time of the last modification in Unix seconds.
    pub modified_s: i64,
}

fn matches(list: &str, etag: &str) -> bool {
    list.split(',').map(|tag| tag.trim().trim_matches('"')).any(|tag| tag == "*" || tag == etag)
}

/// Returns the Unix seconds of an HTTP or ISO 8601 date; `None` for any other text, which RFC 9110 ignores.
fn date(text: &str) -> Option<i64> {
    let rfc2822 = jiff::fmt::rfc2822::parse(text).ok();
    rfc2822
        .map(|z| z.timestamp().as_second())
        .or_else(|| text.parse::<jiff::Timestamp>().ok().map(|t| t.as_second()))
}

/// The headers that state conditions of one kind.
#[derive(Debug)]
pub struct ConditionHeaders {
    matches: HeaderName,
    matches_none: HeaderName,
    modified_since: HeaderName,
    unmodified_since: HeaderName,
    /// True for the source of a copy.
    is_copy: bool,
}

/// Conditions of a read.
pub static OF_READ: ConditionHeaders = ConditionHeaders {
    matches: IF_MATCH,
    matches_none: IF_NONE_MATCH,
    modified_since: IF_MODIFIED_SINCE,
    unmodified_since: IF_UNMODIFIED_SINCE,
    is_copy: false,
};

/// Conditions of the source of a copy.
pub static OF_COPY_SOURCE: ConditionHeaders = ConditionHeaders {
    matches: HeaderName::from_static("x-amz-copy-source-if-match"),
    matches_none: HeaderName::from_static("x-amz-copy-source-if-none-match"),
    modified_since: HeaderName::from_static("x-amz-copy-source-if-modified-since"),
    unmodified_since: HeaderName::from_static("x-amz-copy-source-if-unmodified-since"),
    is_copy: true,
};

/// Checks the conditions of a read, or the conditions on the source of a copy.
///
/// # Errors
/// Returns `PreconditionFailed`, `NotModified` if the response to a read is 304, or `InvalidArgument` for an
/// invalid date in a condition of a copy.
pub fn for_read(
    headers: &HeaderMap,
    of: &ConditionHeaders,
    object: Existing<'_>,
    now_s: i64,
) -> Result<(), ApiError> {
    let value = |name: &HeaderName| headers.get(name).and_then(|v| v.to_str().ok());
    let past_date = |name: &HeaderName| value(name).and_then(date).filter(|s| *s <= now_s);
    let failed = || ApiError::new(ErrorCode::PreconditionFailed);
    // A read ignores an invalid date, as RFC 9110 requires. A copy fails, so that it is not written unconditionally.
    let is_invalid = |name: &HeaderName| value(name).is_some_and(|text| date(text).is_none());
    if of.is_copy && (is_invalid(&of.modified_since) || is_invalid(&of.unmodified_since)) {
        return Err(ApiError::with(ErrorCode::InvalidArgument, "A condition has an invalid date"));
    }
    let unmodified = || if of.is_copy { failed() } else { ApiError::new(ErrorCode::NotModified) };
    if let Some(list) = value(&of.matches) {
        if !matches(list, object.etag) {
            return Err(failed());
        }
    } else if value(&of.unmodified_since).and_then(date).is_some_and(|since| object.modified_s > since) {
        return Err(failed());
    }
    if let Some(list) = value(&of.matches_none) {
        if matches(list, object.etag) {
            return Err(unmodified());
        }
    } else if past_date(&of.modified_since).is_some_and(|since| object.modified_s <= since) {
        return Err(unmodified());
    }
    Ok(())
}

/// Conditions of a write on the existing object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WriteConditions {
    /// Entity tags to match, or `*` for any existing object.
    pub if_match: Option<String>,
    /// Entity tags that must not match, or `*` for no existing object.
    pub if_none_match: Option<String>,
}

impl WriteConditions {
    /// Returns the conditions in the headers of a request.
    pub fn of(headers: &HeaderMap) -> WriteConditions {
        let value = |name: HeaderName| headers.get(name).and_then(|v| v.to_str().ok()).map(str::to_string);
        WriteConditions { if_match: value(IF_MATCH), if_none_match: value(IF_NONE_MATCH) }
    }

    /// Checks the conditions against the existing object; `None` means that there is none.
    ///
    /// # Errors
    /// Returns `PreconditionFailed`, or `NoSuchKey` for `If-Match` without an existing object.
    pub fn check(&self, existing: Option<Existing<'_>>) -> Result<(), ApiError> {
        if let Some(list) = &self.if_match {
            match existing {
                None => return Err(ApiError::new(ErrorCode::NoSuchKey)),
                Some(object) if !matches(list, object.etag) => {
                    return Err(ApiError::new(ErrorCode::PreconditionFailed));
                }
                Some(_) => {}
            }
        }
        if let (Some(list), Some(object)) = (&self.if_none_match, existing)
            && matches(list, object.etag)
        {
            return Err(ApiError::new(ErrorCode::PreconditionFailed));
        }
        Ok(())
    }
}

/// Conditions of DeleteObject and DeleteObjects: entity tag, modification time and size.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeleteConditions {
    /// Entity tags to match, or `*` for any existing object.
    pub etag: Option<String>,
    /// Time of the last modification, as an HTTP or ISO 8601 date.
    pub modified: Option<String>,
    /// Size in bytes, as a decimal number.
    pub size: Option<String>,
}

impl DeleteConditions {
    /// Checks the conditions against the existing object, if any, and its size in bytes.
    ///
    /// # Errors
    /// Returns `PreconditionFailed`, or `InvalidArgument` for a malformed size or date. Deleting a missing object
    /// is not an error.
    pub fn check(&self, existing: Option<(Existing<'_>, u64)>) -> Result<(), ApiError> {
        if *self == DeleteConditions::default() {
            return Ok(());
        }
        let invalid = |field: &str| {
            ApiError::with(ErrorCode::InvalidArgument, format!("A condition has an invalid {field}"))
        };
        let size =
            self.size.as_deref().map(|s| decimal(s.trim()).ok_or_else(|| invalid("size"))).transpose()?;
        let modified =
            self.modified.as_deref().map(|m| date(m.trim()).ok_or_else(|| invalid("date"))).transpose()?;
        let Some((object, bytes)) = existing else { return Ok(()) };
        let met = self.etag.as_deref().is_none_or(|list| matches(list, object.etag))
            && size.is_none_or(|size| size == bytes)
            && modified.is_none_or(|at| at == object.modified_s);
        if met { Ok(()) } else { Err(ApiError::new(ErrorCode::PreconditionFailed)) }
    }
}

/// Returns true if the range applies (RFC 9110, 13.1.5): `If-Range` is absent, or its tag or date is that of the
/// object.
pub fn range_applies(headers: &HeaderMap, object: Existing<'_>) -> bool {
    let Some(value) = headers.get(IF_RANGE) else { return true };
    let text = value.to_str().unwrap_or("").trim();
    if text.starts_with('"') {
        text.trim_matches('"') == object.etag
    } else {
        date(text) == Some(object.modified_s)
    }
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
        for_read(&headers, &OF_READ, OBJECT, 1_800_000_000).map_err(|e| e.code.name())
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
    fn a_copy_with_an_invalid_date_is_rejected() {
        let name = "x-amz-copy-source-if-unmodified-since";
        let headers =
            [(name.parse().unwrap(), http::HeaderValue::from_static("yesterday"))].into_iter().collect();
        let result = for_read(&headers, &OF_COPY_SOURCE, OBJECT, 1_800_000_000);
        assert_eq!(result.unwrap_err().code, ErrorCode::InvalidArgument);
    }

    #[test]
    fn a_tag_overrides_a_date() {
        assert_eq!(read(&[("if-match", "abc"), ("if-unmodified-since", BEFORE)]), Ok(()));
        assert_eq!(read(&[("if-none-match", "x"), ("if-modified-since", AT)]), Ok(()));
    }

    #[test]
    fn conditions_of_deletes() {
        let check = |c: DeleteConditions| c.check(Some((OBJECT, 5))).map_err(|e| e.code.name());
        let none = DeleteConditions::default();
        assert_eq!(none.check(None), Ok(()));
        assert_eq!(
            check(DeleteConditions {
                etag: Some("\"abc\"".into()),
                modified: Some(AT.into()),
                size: Some("5".into())
            }),
            Ok(())
        );
        assert_eq!(check(DeleteConditions { etag: Some("*".into()), ..none.clone() }), Ok(()));
        for wrong in [
            DeleteConditions { etag: Some("x".into()), ..none.clone() },
            DeleteConditions { modified: Some(BEFORE.into()), ..none.clone() },
            DeleteConditions { size: Some("6".into()), ..none.clone() },
        ] {
            assert_eq!(check(wrong.clone()), Err("PreconditionFailed"), "{wrong:?}");
            assert_eq!(wrong.check(None), Ok(()), "deleting a missing object succeeds");
        }
        assert_eq!(
            check(DeleteConditions { size: Some("+5".into()), ..none.clone() }),
            Err("InvalidArgument")
        );
        assert_eq!(
            check(DeleteConditions { modified: Some("today".into()), ..none }),
            Err("InvalidArgument")
        );
    }

    #[test]
    fn a_range_applies_only_to_the_object_in_if_range() {
        let applies = |v: &'static str| {
            let headers =
                [("if-range".parse().unwrap(), http::HeaderValue::from_static(v))].into_iter().collect();
            range_applies(&headers, OBJECT)
        };
        assert!(applies("\"abc\"") && applies(AT) && range_applies(&HeaderMap::new(), OBJECT));
        assert!(!applies("\"x\"") && !applies(BEFORE) && !applies("W/\"abc\""));
    }

    #[test]
    fn conditions_of_writes() {
        let check = |n: &str, v: &'static str, existing| {
            let headers: HeaderMap =
                [(n.parse().unwrap(), http::HeaderValue::from_static(v))].into_iter().collect();
            WriteConditions::of(&headers).check(existing).map_err(|e| e.code.name())
        };
        assert_eq!(check("if-none-match", "*", None), Ok(()));
        assert_eq!(check("if-none-match", "*", Some(OBJECT)), Err("PreconditionFailed"));
        assert_eq!(check("if-match", "abc", None), Err("NoSuchKey"));
        assert_eq!(check("if-match", "abc", Some(OBJECT)), Ok(()));
    }
}
