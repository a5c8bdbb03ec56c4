//! Received bytes of a connection, taken apart into heads and bodies of responses.

use std::ops::Range;

use super::HttpError;
use super::framing::{Framing, Step};
use super::head::Head;

/// Size of the buffer at first, in bytes: enough for a small object with its head.
const FIRST_BUFFER: usize = 8 * 1024;
/// Maximum size of the buffer, in bytes, so that a large body is read in few calls.
const MAX_BUFFER: usize = 256 * 1024;
/// Maximum length of the head of a response, in bytes.
const MAX_HEAD: usize = 64 * 1024;

/// Received bytes, and the position in the current response.
pub struct Receiver {
    /// Buffer; the bytes from `start` to `end` are received and not consumed yet.
    input: Vec<u8>,
    start: usize,
    end: usize,
    /// Number of unconsumed bytes that are known to contain no complete head.
    scanned: usize,
    /// True if the last read filled the buffer.
    is_full: bool,
    is_head: bool,
    framing: Framing,
    /// True if the peer keeps the connection after the response.
    keeps_open: bool,
    /// Head of an earlier response, whose memory the next one uses.
    spare: Head,
}

impl Default for Receiver {
    fn default() -> Receiver {
        Receiver {
            input: vec![0; FIRST_BUFFER],
            start: 0,
            end: 0,
            scanned: 0,
            is_full: false,
            is_head: false,
            framing: Framing::Done,
            keeps_open: true,
            spare: Head::default(),
        }
    }
}

impl Receiver {
    /// Begins a response. `is_head` is true for a response to HEAD.
    pub fn begin(&mut self, is_head: bool) {
        (self.is_head, self.scanned) = (is_head, 0);
    }

    /// Returns the space for the next read. It moves unconsumed bytes to the front, and grows if the last read filled
    /// it.
    pub fn space(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.end == self.input.len() {
            self.input.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if (self.is_full || self.end == self.input.len()) && self.input.len() < MAX_BUFFER {
            self.input.resize(self.input.len() * 2, 0);
        }
        &mut self.input[self.end..]
    }

    /// Adds bytes that a read has put at the start of the space.
    pub fn received(&mut self, bytes: usize) {
        self.end += bytes;
        self.is_full = self.end == self.input.len();
    }

    /// Parses the head of the response; `None` if it is not complete. Interim responses (1xx) are skipped.
    ///
    /// # Errors
    /// [`HttpError::Invalid`] if the bytes are no head, or one that is too long.
    pub fn head(&mut self) -> Result<Option<Head>, HttpError> {
        // A head ends with a line, so only a new line can complete it.
        while self.input[self.start + self.scanned..self.end].contains(&b'\n') {
            let mut head = std::mem::take(&mut self.spare);
            let Some(length) = head.parse(&self.input[self.start..self.end])? else {
                self.spare = head;
                break;
            };
            self.start += length;
            self.scanned = 0;
            match head.status() {
                101 => return Err(HttpError::Invalid("another protocol")),
                100..=199 => self.spare = head,
                _ => {
                    self.framing = Framing::of(&head, self.is_head)?;
                    self.keeps_open &= head.keeps_connection() && self.framing != Framing::ToEnd;
                    return Ok(Some(head));
                }
            }
        }
        self.scanned = self.end - self.start;
        match self.scanned >= MAX_HEAD {
            true => Err(HttpError::Invalid("the head is too long")),
            false => Ok(None),
        }
    }

    /// Takes the next step in the body. The positions of a piece are those for [`Receiver::bytes`], until the next
    /// read.
    ///
    /// # Errors
    /// [`HttpError::Invalid`] if the bytes are not the body that the head announced.
    pub fn step(&mut self) -> Result<Step, HttpError> {
        let (from, mut used) = (self.start, 0);
        let step = self.framing.step(&self.input[self.start..self.end], &mut used)?;
        self.start += used;
        Ok(match step {
            Step::Piece(range) => Step::Piece(from + range.start..from + range.end),
            other => other,
        })
    }

    /// Returns the bytes of a piece.
    pub fn bytes(&self, piece: Range<usize>) -> &[u8] {
        &self.input[piece]
    }

    /// Returns the number of bytes that are left of the body; `None` if they are not known.
    pub fn left(&self) -> Option<u64> {
        match self.framing {
            Framing::Done => Some(0),
            Framing::Length(left) => Some(left),
            Framing::Chunked(_) | Framing::ToEnd => None,
        }
    }

    /// Returns the number of bytes of the body that have not been received, if nothing else can follow and all
    /// received bytes are taken; `None` otherwise.
    pub fn unread(&self) -> Option<u64> {
        match self.framing {
            Framing::Length(left) if self.start == self.end => Some(left),
            _ => None,
        }
    }

    /// Takes bytes of the body that were read elsewhere, at most as many as [`Receiver::unread`] says.
    pub fn skipped(&mut self, bytes: u64) {
        if let Framing::Length(left) = self.framing {
            self.framing = match left.saturating_sub(bytes) {
                0 => Framing::Done,
                left => Framing::Length(left),
            };
        }
    }

    /// Ends the input, in a body.
    ///
    /// # Errors
    /// [`HttpError::Closed`] if the body is not complete.
    pub fn ended(&mut self) -> Result<(), HttpError> {
        match self.framing {
            Framing::Done => Ok(()),
            Framing::ToEnd => {
                self.framing = Framing::Done;
                Ok(())
            }
            _ => Err(HttpError::Closed),
        }
    }

    /// Notes that the connection cannot be used again.
    pub fn close(&mut self) {
        self.keeps_open = false;
    }

    /// Returns true if the response has been read to its end, nothing follows it, and the peer keeps the connection.
    pub fn is_reusable(&self) -> bool {
        self.framing == Framing::Done && self.keeps_open && self.start == self.end
    }

    /// Gives the memory of a head back, for the next response.
    pub fn reuse(&mut self, head: Head) {
        self.spare = head;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Receives all bytes in reads of at most `step` bytes, then the end. Returns status, body and the state after it.
    fn received(bytes: &[u8], step: usize) -> Result<(u16, Vec<u8>, bool), HttpError> {
        let mut receiver = Receiver::default();
        let mut left = bytes;
        let read = |receiver: &mut Receiver, left: &mut &[u8]| {
            let space = receiver.space();
            let taken = left.len().min(step).min(space.len());
            space[..taken].copy_from_slice(&left[..taken]);
            *left = &left[taken..];
            receiver.received(taken);
            taken
        };
        let head = loop {
            match receiver.head()? {
                Some(head) => break head,
                None if read(&mut receiver, &mut left) == 0 => return Err(HttpError::Closed),
                None => {}
            }
        };
        let mut body = Vec::new();
        loop {
            match receiver.step()? {
                Step::Piece(piece) => body.extend_from_slice(receiver.bytes(piece)),
                Step::End => return Ok((head.status(), body, receiver.is_reusable())),
                Step::More if read(&mut receiver, &mut left) == 0 => receiver.ended()?,
                Step::More => {}
            }
        }
    }

    #[test]
    fn a_response_is_the_same_however_it_arrives() {
        let large = "x".repeat(700_000);
        let responses = [
            (
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello".into(),
                "hello",
                true,
            ),
            (format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{large}", large.len()), &*large, true),
            ("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nhello".into(), "hello", false),
            ("HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\nx".into(), "x", false),
            ("HTTP/1.0 200 OK\r\nconnection: Keep-Alive\r\ncontent-length: 1\r\n\r\nx".into(), "x", true),
            ("HTTP/1.1 200 OK\r\nconnection: x, Close\r\ncontent-length: 1\r\n\r\nx".into(), "x", false),
            ("HTTP/1.1 204 No Content\r\n\r\n".into(), "", true),
            (
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n".into(),
                "abc",
                true,
            ),
            // Bytes after the response belong to no request.
            ("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nxHTTP/1.1 200 OK\r\n\r\n".into(), "x", false),
        ];
        for (text, body, reusable) in responses {
            for step in [1, 7, 4096, usize::MAX] {
                let (status, found, is_reusable) = received(text.as_bytes(), step).unwrap();
                assert!(
                    status / 100 == 2 && found == body.as_bytes(),
                    "{step}: {}",
                    &text[..40.min(text.len())]
                );
                // A read of few bytes has not yet seen what follows.
                assert!(is_reusable == reusable || step < 4096, "{step}: {}", &text[..40.min(text.len())]);
            }
        }
    }

    #[test]
    fn a_response_that_ends_early_or_never_begins_is_an_error() {
        for text in ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhell"] {
            assert!(matches!(received(text.as_bytes(), 10), Err(HttpError::Closed)), "{text:?}");
        }
        let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n";
        assert!(matches!(received(chunked.as_bytes(), 10), Err(HttpError::Closed)));
        let endless = format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(100_000));
        for text in ["HTTP/1.1 101 Switching\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", &endless] {
            assert!(matches!(received(text.as_bytes(), 4096), Err(HttpError::Invalid(_))), "{:.40}", text);
        }
    }
}
