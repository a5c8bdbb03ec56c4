//! The credential of a signed request: its access key and the scope of its signing key.

use crate::signing_key::KeyScope;

/// A parsed credential, `ACCESS_KEY/DATE/REGION/SERVICE/aws4_request`.
pub struct Scope<'a> {
    /// Access key of the client.
    pub access_key: &'a str,
    /// Date of the signing key in the format `yyyyMMdd`.
    pub date: &'a str,
    /// Region of the request.
    region: &'a str,
    /// Service of the request.
    service: &'a str,
    /// The scope as text: `DATE/REGION/SERVICE/aws4_request`.
    pub text: &'a str,
}

impl<'a> Scope<'a> {
    /// Parses a credential.
    ///
    /// # Errors
    /// Returns a message for the client.
    pub fn parse(credential: &'a str) -> Result<Scope<'a>, String> {
        // The access key may contain slashes; the scope is the last four fields.
        let mut rest = credential;
        let mut next = || {
            let slash = rest.bytes().rposition(|byte| byte == b'/')?;
            let field = &rest[slash + 1..];
            rest = &rest[..slash];
            Some(field)
        };
        let mut fields = || Some((next()?, next()?, next()?, next()?));
        let (terminator, service, region, date) = fields().ok_or_else(|| {
            "the Credential is mal-formed; expecting \"<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request\".".to_string()
        })?;
        if terminator != "aws4_request" {
            return Err(format!("incorrect terminal \"{terminator}\". This endpoint uses \"aws4_request\"."));
        }
        if !matches!(service, "s3" | "s3express") {
            return Err(format!("incorrect service \"{service}\". This endpoint belongs to \"s3\"."));
        }
        if date.len() != 8 || !date.bytes().all(|c| c.is_ascii_digit()) {
            return Err(format!(
                "incorrect date format \"{date}\". This date in the credential must be in the format \"yyyyMMdd\"."
            ));
        }
        Ok(Scope { access_key: rest, date, region, service, text: &credential[rest.len() + 1..] })
    }

    /// Returns the parts from which the signing key is derived.
    pub fn of_key(&self) -> KeyScope<'a> {
        KeyScope { date: self.date, region: self.region, service: self.service, text: self.text }
    }
}

/// Parses an `x-amz-date` value, such as `20261124T101112Z`, and returns its Unix seconds; `None` if it is malformed.
pub fn parse_date_time(text: &str) -> Option<i64> {
    let bytes: &[u8; 16] = text.as_bytes().try_into().ok()?;
    let number = |digits: &[u8]| {
        let digit = |number: Option<i16>, byte: &u8| {
            Some(number? * 10 + i16::from(byte.is_ascii_digit().then(|| byte - b'0')?))
        };
        digits.iter().fold(Some(0), digit)
    };
    let two = |at: usize| number(&bytes[at..at + 2])?.try_into().ok();
    if (bytes[8], bytes[15]) != (b'T', b'Z') {
        return None;
    }
    let time =
        jiff::civil::DateTime::new(number(&bytes[..4])?, two(4)?, two(6)?, two(9)?, two(11)?, two(13)?, 0)
            .ok()?;
    Some(jiff::tz::Offset::UTC.to_timestamp(time).ok()?.as_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_key_may_contain_slashes() {
        let scope = Scope::parse("a/b//20261124/eu-1/s3/aws4_request").map_err(drop).unwrap();
        assert_eq!(
            (scope.access_key, scope.date, scope.text),
            ("a/b/", "20261124", "20261124/eu-1/s3/aws4_request")
        );
        let key = scope.of_key();
        assert_eq!((key.region, key.service), ("eu-1", "s3"));
        for wrong in [
            "",
            "k",
            "20261124/eu-1/s3/aws4_request",
            "k/2026112/eu-1/s3/aws4_request",
            "k/20261124/eu-1/s4/aws4_request",
        ] {
            assert!(Scope::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn date_times_are_those_that_jiff_parses() {
        for text in ["20261124T101112Z", "19700101T000000Z", "20240229T235959Z", "00010101T000000Z"] {
            let time = jiff::civil::DateTime::strptime("%Y%m%dT%H%M%SZ", text).unwrap();
            let expected = time.to_zoned(jiff::tz::TimeZone::UTC).unwrap().timestamp().as_second();
            assert_eq!(parse_date_time(text), Some(expected), "{text}");
        }
        for wrong in [
            "",
            "20261124",
            "20261124T101112",
            "20261124t101112Z",
            "20261124T101112z",
            "20261324T101112Z",
            "20230229T101112Z",
            "20261124T241112Z",
            "20261124T10111 Z",
            "+0261124T101112Z",
            "20261124T101112Z ",
        ] {
            assert_eq!(parse_date_time(wrong), None, "{wrong}");
        }
    }
}
