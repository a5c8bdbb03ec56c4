//! `aws-chunked` bodies: the framing with which SDKs sign a payload, or add a checksum to it, while it streams (S3 API
//! reference, "Signature calculations: transferring payload in multiple chunks").
//!
//! A chunk is `SIZE[;chunk-signature=HEX]\r\nDATA\r\n`. The last chunk has size 0 and may be followed by trailers. If
//! chunks are signed, each signature covers the previous one, and the first covers the signature of the request.

use aws_lc_rs::{digest, hmac};
use bytes::Bytes;

use super::number::hexadecimal;
use super::sign::{EMPTY_SHA256, sha256};
use plimsoll_base::net::encode::hex;

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
    /// Computes the signature of the next chunk, whose SHA-256 is `hash`, and stores it in `previous`.
    pub fn chunk(&mut self, hash: &[u8]) -> String {
        let to_sign = format!(
            "AWS4-HMAC-SHA256-PAYLOAD\n{}\n{}\n{}\n{EMPTY_SHA256}\n{}",
            self.date_time,
            self.scope,
            self.previous,
            hex(hash)
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

/// Maximum length of a framing line in bytes: the size and signature of a chunk, or a trailer.
const MAX_LINE: usize = 8 * 1024;
/// Maximum total length of the trailers, in bytes.
const MAX_TRAILERS: usize = 64 * 1024;

/// Element of the framing that the decoder reads next.
enum Expected {
    /// Size and signature of a chunk.
    Head,
    /// Bytes of a chunk; the number of bytes that are still missing.
    Data(u64),
    /// Line end after a chunk.
    End,
    /// Trailing headers, until the end of the body.
    Trailers,
}

/// A decoder that removes the framing piece by piece and, with a signer, verifies every signature in it.
pub struct ChunkDecoder {
    signer: Option<Box<ChunkSigner>>,
    expected: Expected,
    /// Bytes of an incomplete line of the framing.
    line: Vec<u8>,
    hash: digest::Context,
    /// Signature of the current chunk, as in its head.
    given: String,
    trailer_bytes: usize,
    trailers: Vec<(String, String)>,
    trailer_signature: Option<String>,
}

impl ChunkDecoder {
    /// Creates a decoder. Without a signer, chunks need no signature.
    pub fn new(signer: Option<Box<ChunkSigner>>) -> ChunkDecoder {
        ChunkDecoder {
            signer,
            expected: Expected::Head,
            line: Vec::new(),
            hash: digest::Context::new(&digest::SHA256),
            given: String::new(),
            trailer_bytes: 0,
            trailers: Vec::new(),
            trailer_signature: None,
        }
    }

    /// Removes framing and at most one run of payload bytes from the start of `input`. Returns the payload bytes, or
    /// `None` if `input` is used up. The signature of a chunk is verified with its last byte.
    ///
    /// # Errors
    /// If the framing is malformed, or a signature does not match; see [`ChunkError`].
    pub fn next(&mut self, input: &mut Bytes) -> Result<Option<Bytes>, ChunkError> {
        while !input.is_empty() {
            match self.expected {
                Expected::Data(left) => {
                    let piece = input.split_to(left.min(input.len() as u64) as usize);
                    if self.signer.is_some() {
                        self.hash.update(&piece);
                    }
                    let left = left - piece.len() as u64;
                    self.expected = if left == 0 { Expected::End } else { Expected::Data(left) };
                    if left == 0 {
                        self.check_signature()?;
                    }
                    return Ok(Some(piece));
                }
                _ => {
                    if let Some(line) = self.take_line(input)? {
                        self.read_line(&line)?;
                    }
                }
            }
        }
        Ok(None)
    }

    /// Checks that the body was complete, and returns its trailers with lower-case names.
    ///
    /// # Errors
    /// If the body ended early or the signature of the trailers does not match; see [`ChunkError`].
    pub fn finish(mut self) -> Result<Vec<(String, String)>, ChunkError> {
        if !matches!(self.expected, Expected::Trailers) {
            return Err(ChunkError::Incomplete);
        }
        // Clients send the last line with or without its CRLF.
        let rest = std::mem::take(&mut self.line);
        let rest = String::from_utf8(rest).map_err(|_| ChunkError::Malformed)?;
        self.read_trailer(&rest)?;
        if let (Some(signer), false) = (&self.signer, self.trailers.is_empty()) {
            let lines: String =
                self.trailers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
            if self.trailer_signature.as_deref() != Some(signer.trailer(&lines).as_str()) {
                return Err(ChunkError::Signature);
            }
        }
        Ok(self.trailers)
    }

    /// Removes a line and its CRLF from the start of the input; `None` if the line is not complete.
    fn take_line(&mut self, input: &mut Bytes) -> Result<Option<String>, ChunkError> {
        let end = input.iter().position(|byte| *byte == b'\n').map_or(input.len(), |at| at + 1);
        self.line.extend_from_slice(&input.split_to(end));
        if matches!(self.expected, Expected::Trailers) {
            self.trailer_bytes += end;
        }
        if self.line.len() > MAX_LINE || self.trailer_bytes > MAX_TRAILERS {
            return Err(ChunkError::Malformed);
        }
        if !self.line.ends_with(b"\r\n") {
            return Ok(None);
        }
        let mut line = std::mem::take(&mut self.line);
        line.truncate(line.len() - 2);
        String::from_utf8(line).map(Some).map_err(|_| ChunkError::Malformed)
    }

    fn read_line(&mut self, line: &str) -> Result<(), ChunkError> {
        match self.expected {
            Expected::Head => {
                let (size, extension) = line.split_once(';').unwrap_or((line, ""));
                let size = hexadecimal(size.trim()).ok_or(ChunkError::Malformed)?;
                if self.signer.is_some() {
                    let given = extension.trim().strip_prefix("chunk-signature=");
                    self.given = given.ok_or(ChunkError::Signature)?.to_string();
                }
                self.expected = Expected::Data(size);
                if size == 0 {
                    self.check_signature()?;
                    self.expected = Expected::Trailers;
                }
                Ok(())
            }
            Expected::End if line.is_empty() => {
                self.expected = Expected::Head;
                Ok(())
            }
            Expected::Trailers => self.read_trailer(line),
            Expected::End | Expected::Data(_) => Err(ChunkError::Malformed),
        }
    }

    fn read_trailer(&mut self, line: &str) -> Result<(), ChunkError> {
        let text = line.trim_end_matches('\n');
        if text.is_empty() {
            return Ok(());
        }
        let (name, value) = text.split_once(':').ok_or(ChunkError::Malformed)?;
        let (name, value) = (name.trim().to_ascii_lowercase(), value.trim().to_string());
        if name == "x-amz-trailer-signature" {
            self.trailer_signature = Some(value);
        } else {
            self.trailers.push((name, value));
        }
        Ok(())
    }

    /// Checks the signature of the chunk that is now complete.
    fn check_signature(&mut self) -> Result<(), ChunkError> {
        let Some(signer) = &mut self.signer else { return Ok(()) };
        let hash = std::mem::replace(&mut self.hash, digest::Context::new(&digest::SHA256)).finish();
        if self.given == signer.chunk(hash.as_ref()) { Ok(()) } else { Err(ChunkError::Signature) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sign::derive_key;

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

    type Decoded = (Vec<u8>, Vec<(String, String)>);

    /// Decodes a body that arrives in pieces of `size` bytes.
    fn decode_in(size: usize, body: &[u8], signer: Option<ChunkSigner>) -> Result<Decoded, ChunkError> {
        let mut decoder = ChunkDecoder::new(signer.map(Box::new));
        let mut data = Vec::new();
        for piece in body.chunks(size) {
            let mut input = Bytes::copy_from_slice(piece);
            while let Some(piece) = decoder.next(&mut input)? {
                data.extend_from_slice(&piece);
            }
        }
        Ok((data, decoder.finish()?))
    }

    fn decode(body: &[u8], signer: Option<ChunkSigner>) -> Result<Decoded, ChunkError> {
        decode_in(usize::MAX, body, signer)
    }

    #[test]
    fn verifies_the_documented_example_in_pieces_of_any_size() {
        for size in [1, 7, 1000, usize::MAX] {
            let (signer, body) = documented();
            assert_eq!(decode_in(size, &body, Some(signer)).unwrap().0, vec![b'a'; 66_560]);
        }
    }

    #[test]
    fn a_changed_byte_is_rejected() {
        let (signer, mut body) = documented();
        body[200] = b'b';
        assert_eq!(decode(&body, Some(signer)), Err(ChunkError::Signature));
    }

    #[test]
    fn unsigned_trailers_are_decoded() {
        let body = b"5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n";
        let (data, trailers) = decode(body, None).unwrap();
        assert_eq!(data, b"hello");
        assert_eq!(trailers, [("x-amz-checksum-crc32".to_string(), "NhCmhg==".to_string())]);
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
