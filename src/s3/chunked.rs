//! `aws-chunked` bodies: the framing with which SDKs sign a payload, or add a checksum to it, while it streams (S3 API
//! reference, "Signature calculations: transferring payload in multiple chunks").
//!
//! A chunk is `SIZE[;chunk-signature=HEX]\r\nDATA\r\n`. The last chunk has size 0 and may be followed by trailers. If
//! chunks are signed, each signature covers the previous one, and the first covers the signature of the request.

use aws_lc_rs::hmac;

use super::number::hexadecimal;
use super::sign::{EMPTY_SHA256, sha256};
use crate::net::encode::hex;

/// Reason for rejecting a body. Each variant maps to one S3 error code.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ChunkError {
    /// The framing is malformed.
    #[error("the aws-chunked body is malformed")]
    Malformed,
    /// The body ended before the final chunk.
    #[error("the aws-chunked body ended early")]
    Incomplete,
    /// The signature of a chunk or of the trailer does not match.
    #[error("a chunk signature does not match")]
    Signature,
}

/// State for computing the signatures of consecutive chunks.
pub struct ChunkSigner {
    /// Signing key derived for the request.
    pub key: hmac::Key,
    /// Value of `x-amz-date` of the request.
    pub date_time: String,
    /// Credential scope of the request.
    pub scope: String,
    /// Signature of the previous chunk; initially that of the request.
    pub previous: String,
}

impl ChunkSigner {
    /// Computes the signature of the next chunk, and stores it in `previous`.
    pub fn chunk(&mut self, data: &[u8]) -> String {
        let to_sign = format!(
            "AWS4-HMAC-SHA256-PAYLOAD\n{}\n{}\n{}\n{EMPTY_SHA256}\n{}",
            self.date_time,
            self.scope,
            self.previous,
            hex(&sha256(data))
        );
        self.previous = hex(hmac::sign(&self.key, to_sign.as_bytes()).as_ref());
        self.previous.clone()
    }

    /// Computes the signature of the trailing headers, which `lines` lists as `name:value\n`.
    pub fn trailer(&self, lines: &str) -> String {
        let to_sign = format!(
            "AWS4-HMAC-SHA256-TRAILER\n{}\n{}\n{}\n{}",
            self.date_time,
            self.scope,
            self.previous,
            hex(&sha256(lines.as_bytes()))
        );
        hex(hmac::sign(&self.key, to_sign.as_bytes()).as_ref())
    }
}

/// A decoded body: the payload and the trailers.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Decoded {
    /// Payload without the framing.
    pub data: Vec<u8>,
    /// Trailing headers, with lower-case names.
    pub trailers: Vec<(String, String)>,
}

/// Maximum length of a framing line in bytes: the size and signature of a chunk, or a trailer.
const MAX_LINE: usize = 8 * 1024;
/// Maximum total length of the trailers, in bytes.
const MAX_TRAILERS: usize = 64 * 1024;

fn line<'a>(rest: &mut &'a [u8]) -> Result<&'a str, ChunkError> {
    let near = &rest[..rest.len().min(MAX_LINE)];
    let missing = if rest.len() > MAX_LINE { ChunkError::Malformed } else { ChunkError::Incomplete };
    let end = near.windows(2).position(|w| w == b"\r\n").ok_or(missing)?;
    let text = std::str::from_utf8(&rest[..end]).map_err(|_| ChunkError::Malformed)?;
    *rest = &rest[end + 2..];
    Ok(text)
}

/// Removes the framing and, with a signer, verifies every signature in it.
///
/// # Errors
/// If the body is malformed or truncated, or a signature does not match; see [`ChunkError`].
pub fn decode(body: &[u8], mut signer: Option<&mut ChunkSigner>) -> Result<Decoded, ChunkError> {
    let mut rest = body;
    let mut out = Decoded { data: Vec::with_capacity(body.len()), trailers: Vec::new() };
    loop {
        let head = line(&mut rest)?;
        let (size, extension) = head.split_once(';').unwrap_or((head, ""));
        let size = hexadecimal(size.trim()).and_then(|size| usize::try_from(size).ok());
        let size = size.ok_or(ChunkError::Malformed)?;
        let data = rest.get(..size).ok_or(ChunkError::Incomplete)?;
        if let Some(signer) = signer.as_deref_mut() {
            let given = extension.trim().strip_prefix("chunk-signature=").ok_or(ChunkError::Signature)?;
            if given != signer.chunk(data) {
                return Err(ChunkError::Signature);
            }
        }
        if size == 0 {
            break;
        }
        out.data.extend_from_slice(data);
        rest = &rest[size..];
        if !line(&mut rest)?.is_empty() {
            return Err(ChunkError::Malformed);
        }
    }
    if rest.len() > MAX_TRAILERS {
        return Err(ChunkError::Malformed);
    }
    let mut signed_lines = String::new();
    let mut given = None;
    while !rest.is_empty() {
        // Clients send the last line with or without its CRLF.
        let text = if rest.windows(2).any(|w| w == b"\r\n") {
            line(&mut rest)?
        } else {
            let text = std::str::from_utf8(rest).map_err(|_| ChunkError::Malformed)?;
            rest = &[];
            text
        };
        let text = text.trim_end_matches('\n');
        if text.is_empty() {
            continue;
        }
        let (name, value) = text.split_once(':').ok_or(ChunkError::Malformed)?;
        let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
        if name == "x-amz-trailer-signature" {
            given = Some(value.to_string());
        } else {
            signed_lines.push_str(&format!("{name}:{value}\n"));
            out.trailers.push((name, value.to_string()));
        }
    }
    if let (Some(signer), false) = (signer, out.trailers.is_empty())
        && given.as_deref() != Some(signer.trailer(&signed_lines).as_str())
    {
        return Err(ChunkError::Signature);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::s3::sign::derive_key;

    /// Returns the worked example of the S3 documentation: 66,560 bytes of 'a' in chunks of 64 KiB.
    fn documented() -> (ChunkSigner, Vec<u8>) {
        let signer = ChunkSigner {
            key: derive_key("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "20130524", "us-east-1", "s3"),
            date_time: "20130524T000000Z".into(),
            scope: "20130524/us-east-1/s3/aws4_request".into(),
            previous: "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9".into(),
        };
        let mut body = Vec::new();
        for (size, signature) in [
            (65_536, "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648"),
            (1_024, "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497"),
            (0, "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9"),
        ] {
            body.extend(format!("{size:x};chunk-signature={signature}\r\n").bytes());
            body.extend(std::iter::repeat_n(b'a', size));
            body.extend(b"\r\n");
        }
        (signer, body)
    }

    #[test]
    fn verifies_the_documented_example() {
        let (mut signer, body) = documented();
        let decoded = decode(&body, Some(&mut signer)).unwrap();
        assert_eq!(decoded.data, vec![b'a'; 66_560]);
    }

    #[test]
    fn a_changed_byte_is_rejected() {
        let (mut signer, mut body) = documented();
        body[200] = b'b';
        assert_eq!(decode(&body, Some(&mut signer)), Err(ChunkError::Signature));
    }

    #[test]
    fn unsigned_trailers_are_decoded() {
        let body = b"5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n";
        let decoded = decode(body, None).unwrap();
        assert_eq!(decoded.data, b"hello");
        assert_eq!(decoded.trailers, [("x-amz-checksum-crc32".to_string(), "NhCmhg==".to_string())]);
    }

    #[test]
    fn a_signed_number_is_not_a_chunk_size() {
        for body in ["+5\r\nhello\r\n0\r\n\r\n", "+a\r\n0123456789\r\n0\r\n\r\n", "5\r\nhello\r\n+0\r\n\r\n"]
        {
            assert_eq!(decode(body.as_bytes(), None), Err(ChunkError::Malformed), "{body}");
        }
    }

    #[test]
    fn long_lines_and_trailers_are_rejected() {
        let long = [b"5;".as_slice(), &[b'x'; MAX_LINE]].concat();
        assert_eq!(decode(&long, None), Err(ChunkError::Malformed));
        let trailers = "a:b\r\n".repeat(MAX_TRAILERS / 4);
        assert_eq!(decode(format!("0\r\n{trailers}").as_bytes(), None), Err(ChunkError::Malformed));
    }

    #[test]
    fn broken_framing_is_rejected() {
        assert_eq!(decode(b"5\r\nhel", None), Err(ChunkError::Incomplete));
        assert_eq!(decode(b"5\r\nhelloX\r\n", None), Err(ChunkError::Malformed));
        assert_eq!(decode(b"zz\r\n", None), Err(ChunkError::Malformed));
        assert_eq!(decode(b"", None), Err(ChunkError::Incomplete));
    }
}
