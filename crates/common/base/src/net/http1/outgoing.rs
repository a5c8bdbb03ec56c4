//! Requests as the bytes that are sent.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request};

/// A request body: empty, one buffer, or buffers that an iterator produces.
pub struct Payload {
    next: Option<Bytes>,
    more: Option<Box<dyn Iterator<Item = Bytes> + Send>>,
    len: u64,
}

impl Payload {
    /// Returns an empty body.
    pub fn empty() -> Payload {
        Payload { next: None, more: None, len: 0 }
    }

    /// Returns a body of one buffer.
    pub fn whole(data: Bytes) -> Payload {
        Payload { len: data.len() as u64, next: Some(data).filter(|d| !d.is_empty()), more: None }
    }

    /// Returns a body of `len` bytes that consists of `pieces`.
    pub fn pieces(len: u64, mut pieces: Box<dyn Iterator<Item = Bytes> + Send>) -> Payload {
        Payload { next: pieces.next(), more: Some(pieces), len }
    }

    /// Returns the number of bytes, before any piece is taken.
    pub fn bytes(&self) -> u64 {
        self.len
    }

    /// Returns true if no piece is left.
    pub fn is_empty(&self) -> bool {
        self.next.is_none()
    }

    /// Takes the next piece; `None` after the last one.
    pub fn take(&mut self) -> Option<Bytes> {
        let piece = self.next.take()?;
        self.next = self.more.as_mut().and_then(Iterator::next);
        Some(piece)
    }
}

/// A request that is ready to be sent.
pub struct Outgoing {
    /// Request line and header fields, with the empty line that ends them.
    pub head: Vec<u8>,
    /// Body of the request.
    pub payload: Payload,
    /// True if the response has no body because the method is HEAD.
    pub is_head: bool,
}

/// Returns true if a byte may be part of a field value: visible, a space, a tab, or not ASCII (RFC 9110, 5.5).
fn is_value_byte(byte: u8) -> bool {
    ((byte >= b' ') & (byte != 127)) | (byte == b'\t')
}

/// A head that is being written.
pub struct HeadWriter(Vec<u8>);

impl HeadWriter {
    /// Begins a head with its request line. `path` and `query` are percent-encoded; an empty query is left out.
    ///
    /// # Errors
    /// If the path or the query contains a byte that no request line can have.
    pub fn new(method: &str, path: &str, query: &str) -> Result<HeadWriter, &'static str> {
        let is_visible = |text: &str| text.bytes().fold(true, |valid, byte| valid & byte.is_ascii_graphic());
        if !path.starts_with('/') || !is_visible(path) || !is_visible(query) {
            return Err("the key does not give a valid URL");
        }
        let mut head = Vec::with_capacity(1024);
        head.extend_from_slice(method.as_bytes());
        head.push(b' ');
        head.extend_from_slice(path.as_bytes());
        if !query.is_empty() {
            head.push(b'?');
            head.extend_from_slice(query.as_bytes());
        }
        head.extend_from_slice(b" HTTP/1.1\r\n");
        Ok(HeadWriter(head))
    }

    /// Appends a field. `name` is a valid name.
    ///
    /// # Errors
    /// If the value contains a byte that no field can have, such as a line break.
    pub fn field(&mut self, name: &str, value: &[u8]) -> Result<(), &'static str> {
        // Without an early end, so that the compiler checks several bytes at once.
        if !value.iter().fold(true, |valid, byte| valid & is_value_byte(*byte)) {
            return Err("a header contains a character that no header can have");
        }
        self.0.extend_from_slice(name.as_bytes());
        self.0.extend_from_slice(b": ");
        self.0.extend_from_slice(value);
        self.0.extend_from_slice(b"\r\n");
        Ok(())
    }

    /// Appends the length of the body.
    pub fn length(&mut self, bytes: u64) {
        self.0.extend_from_slice(format!("content-length: {bytes}\r\n").as_bytes());
    }

    /// Ends the head, and returns the request with its body.
    pub fn finish(mut self, is_head: bool, payload: Payload) -> Outgoing {
        self.0.extend_from_slice(b"\r\n");
        Outgoing { head: self.0, payload, is_head }
    }
}

impl From<Request<Payload>> for Outgoing {
    /// Converts a request. A body that is not empty gets its length.
    fn from(request: Request<Payload>) -> Outgoing {
        let (parts, payload) = request.into_parts();
        let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
        let mut head = Vec::with_capacity(1024);
        head.extend_from_slice(format!("{} {target} HTTP/1.1\r\n", parts.method).as_bytes());
        let mut writer = HeadWriter(head);
        for (name, value) in &parts.headers {
            // A header value has been checked when it was made.
            let _ = writer.field(name.as_str(), value.as_bytes());
        }
        if payload.bytes() > 0 && !parts.headers.contains_key(http::header::CONTENT_LENGTH) {
            writer.length(payload.bytes());
        }
        writer.finish(parts.method == Method::HEAD, payload)
    }
}

impl Outgoing {
    /// Converts the request back, for a relay that wraps it. `None` if the head is not one that [`HeadWriter`] wrote.
    pub fn into_request(self) -> Option<Request<Payload>> {
        let mut fields = [httparse::EMPTY_HEADER; 100];
        let mut parsed = httparse::Request::new(&mut fields);
        parsed.parse(&self.head).ok()?.is_complete().then_some(())?;
        let mut headers = HeaderMap::with_capacity(16);
        for field in parsed.headers.iter() {
            let name = http::HeaderName::try_from(field.name).ok()?;
            headers.append(name, HeaderValue::from_bytes(field.value).ok()?);
        }
        let mut request = Request::new(self.payload);
        *request.method_mut() = parsed.method?.parse().ok()?;
        *request.uri_mut() = parsed.path?.parse().ok()?;
        *request.headers_mut() = headers;
        Some(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_written_and_read_back() {
        let mut head = HeadWriter::new("PUT", "/bucket/a%20b", "x=1").unwrap();
        head.field("host", b"store.example").unwrap();
        head.length(5);
        let made = head.finish(false, Payload::whole(Bytes::from_static(b"hello")));
        let text = "PUT /bucket/a%20b?x=1 HTTP/1.1\r\nhost: store.example\r\ncontent-length: 5\r\n\r\n";
        assert_eq!(made.head, text.as_bytes());
        let request = made.into_request().unwrap();
        assert_eq!((request.method(), request.uri().to_string()), (&Method::PUT, "/bucket/a%20b?x=1".into()));
        assert_eq!(Outgoing::from(request).head, text.as_bytes());
    }

    /// A value with a line break would be a second header, and a space in a path would end it.
    #[test]
    fn bytes_that_would_change_the_request_are_refused() {
        for path in ["/a b", "/a\r\nx: y", "no-slash", "/\u{fc}", ""] {
            assert!(HeadWriter::new("GET", path, "").is_err(), "{path:?}");
        }
        assert!(HeadWriter::new("GET", "/", "a=b c").is_err());
        let mut head = HeadWriter::new("GET", "/", "").unwrap();
        for value in ["a\r\nx: y", "a\nb", "a\0", "\u{7f}"] {
            assert!(head.field("x", value.as_bytes()).is_err(), "{value:?}");
        }
        assert!(head.field("x", "caf\u{e9}\t1".as_bytes()).is_ok());
    }

    #[test]
    fn a_payload_gives_its_pieces_once() {
        let pieces = ["ab", "c"].map(|text| Bytes::from_static(text.as_bytes()));
        let mut payload = Payload::pieces(3, Box::new(pieces.into_iter()));
        assert_eq!((payload.bytes(), payload.is_empty()), (3, false));
        assert_eq!((payload.take().unwrap(), payload.take().unwrap()), ("ab".into(), "c".into()));
        assert_eq!((payload.take(), payload.is_empty()), (None, true));
        assert!(Payload::whole(Bytes::new()).is_empty());
    }
}
