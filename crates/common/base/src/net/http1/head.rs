//! Heads of responses: parsed once, and looked up by name without a map.

use std::mem::MaybeUninit;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Version, response};

use super::HttpError;

/// Maximum number of fields, as in hyper.
pub const MAX_FIELDS: usize = 100;

/// Returns a value as text; `None` if it is not visible ASCII with spaces and tabs.
pub fn visible(value: &[u8]) -> Option<&str> {
    let is_visible = value.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\t'));
    if is_visible { std::str::from_utf8(value).ok() } else { None }
}

/// A field, as positions in the bytes of the head.
#[derive(Debug, Clone, Copy)]
struct Field {
    name: u32,
    name_end: u32,
    value: u32,
    value_end: u32,
}

/// Status and fields of a response.
#[derive(Debug, Clone, Default)]
pub struct Head {
    status: u16,
    /// True for HTTP/1.0.
    is_old: bool,
    /// True if there is a field Transfer-Encoding.
    is_coded: bool,
    /// True if there is a field Connection.
    has_options: bool,
    bytes: Vec<u8>,
    fields: Vec<Field>,
}

impl Head {
    /// Parses a head at the start of `bytes` into `self`, reusing its memory. Returns its length, or `None` if it is
    /// not complete yet.
    ///
    /// # Errors
    /// [`HttpError::Invalid`] if the bytes do not begin with a head.
    pub fn parse(&mut self, bytes: &[u8]) -> Result<Option<usize>, HttpError> {
        let mut fields = [const { MaybeUninit::<httparse::Header<'_>>::uninit() }; MAX_FIELDS];
        let mut parsed = httparse::Response::new(&mut []);
        let config = httparse::ParserConfig::default();
        let length = match config.parse_response_with_uninit_headers(&mut parsed, bytes, &mut fields) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(httparse::Error::TooManyHeaders) => return Err(HttpError::Invalid("too many headers")),
            Err(_) => return Err(HttpError::Invalid("the head of the response")),
        };
        let status = parsed.code.filter(|code| (100..1000).contains(code));
        self.status = status.ok_or(HttpError::Invalid("the status"))?;
        self.is_old = parsed.version == Some(0);
        self.bytes.clear();
        self.bytes.extend_from_slice(&bytes[..length]);
        self.fields.clear();
        let start = bytes.as_ptr() as usize;
        let place = |part: &[u8]| {
            let at = part.as_ptr() as usize - start;
            (at as u32, (at + part.len()) as u32)
        };
        (self.is_coded, self.has_options) = (false, false);
        self.fields.extend(parsed.headers.iter().map(|field| {
            match field.name.len() {
                17 => self.is_coded |= field.name.eq_ignore_ascii_case("transfer-encoding"),
                10 => self.has_options |= field.name.eq_ignore_ascii_case("connection"),
                _ => {}
            }
            let ((name, name_end), (value, value_end)) = (place(field.name.as_bytes()), place(field.value));
            Field { name, name_end, value, value_end }
        }));
        Ok(Some(length))
    }

    /// Creates a head from its parts.
    pub fn from_parts(status: StatusCode, headers: &HeaderMap) -> Head {
        let mut head = Head { status: status.as_u16(), ..Head::default() };
        for (name, value) in headers {
            let start = head.bytes.len() as u32;
            head.bytes.extend_from_slice(name.as_str().as_bytes());
            let middle = head.bytes.len() as u32;
            head.bytes.extend_from_slice(value.as_bytes());
            let end = head.bytes.len() as u32;
            head.fields.push(Field { name: start, name_end: middle, value: middle, value_end: end });
        }
        head
    }

    /// Returns the status code, from 100 to 999.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Returns true if the status is 2xx.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Returns true if the version is HTTP/1.0.
    pub fn is_old(&self) -> bool {
        self.is_old
    }

    /// Returns all fields: name and value, in order.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let part = |from: u32, to: u32| &self.bytes[from as usize..to as usize];
        self.fields.iter().map(move |f| (part(f.name, f.name_end), part(f.value, f.value_end)))
    }

    /// Returns the values of all fields of a name, in order. Names do not depend on the case of letters.
    pub fn values<'a, 'n>(&'a self, name: &'n str) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n> {
        self.fields().filter(|(own, _)| own.eq_ignore_ascii_case(name.as_bytes())).map(|(_, value)| value)
    }

    /// Returns the first value of a name as text; `None` if there is none, or it is not visible ASCII.
    pub fn text(&self, name: &str) -> Option<&str> {
        visible(self.values(name).next()?)
    }

    /// Returns true if the body has a transfer encoding. False for a head that was created from its parts.
    pub fn is_coded(&self) -> bool {
        self.is_coded
    }

    /// Returns true if the peer keeps the connection after the response, as far as the head says.
    pub fn keeps_connection(&self) -> bool {
        if !self.has_options {
            return !self.is_old;
        }
        (!self.is_old || self.lists("connection", "keep-alive")) && !self.lists("connection", "close")
    }

    /// Returns true if a field of that name lists a word, whatever the case of its letters.
    fn lists(&self, name: &str, word: &str) -> bool {
        let mut values = self.values(name).filter_map(visible);
        values.any(|value| value.split(',').any(|part| part.trim().eq_ignore_ascii_case(word)))
    }

    /// Converts the head to the form of the library `http`. Fields that it cannot represent are left out.
    pub fn parts(&self) -> response::Parts {
        let (mut parts, ()) = http::Response::new(()).into_parts();
        parts.status = StatusCode::from_u16(self.status).unwrap_or_default();
        parts.version = if self.is_old { Version::HTTP_10 } else { Version::HTTP_11 };
        for (name, value) in self.fields() {
            if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
                parts.headers.append(name, value);
            }
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_name_whatever_the_case() {
        let text = b"HTTP/1.1 200 OK\r\nETag: \"a\"\r\nx-goog-hash: crc32c=1\r\nX-Goog-Hash: md5=2\r\nB: \xff\r\n\r\nbody";
        let mut head = Head::default();
        assert_eq!(head.parse(text).unwrap(), Some(text.len() - 4));
        assert_eq!((head.status(), head.is_success(), head.is_old()), (200, true, false));
        assert_eq!((head.text("etag"), head.text("missing"), head.text("b")), (Some("\"a\""), None, None));
        let all: Vec<&[u8]> = head.values("x-goog-hash").collect();
        assert_eq!(all, [b"crc32c=1", &b"md5=2"[..]]);
        let parts = head.parts();
        assert_eq!((parts.status.as_u16(), parts.headers.len()), (200, 4));
        assert_eq!(Head::from_parts(parts.status, &parts.headers).text("ETAG"), Some("\"a\""));
    }

    #[test]
    fn a_head_is_complete_only_with_its_last_byte() {
        let text = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n";
        for end in 0..text.len() {
            assert_eq!(Head::default().parse(&text[..end]).unwrap(), None, "{end}");
        }
        for wrong in
            ["SSH-2.0\r\n", "HTTP/1.1 20 OK\r\n\r\n", "HTTP/1.1 200 OK\r\n: x\r\n\r\n", "HTTP/2 200\r\n\r\n"]
        {
            assert!(Head::default().parse(wrong.as_bytes()).is_err(), "{wrong:?}");
        }
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(101));
        assert!(Head::default().parse(many.as_bytes()).is_err());
    }
}
