//! Reading an answer's body with its times, and saying what went wrong with it.

use bytes::Bytes;
use hyper::header::{DATE, HeaderName};

use super::Answer;
use crate::clock::now_ns;
use crate::s3::checksum::Hasher;
use crate::store::{Algorithm, ErrorClass, Failure, Observer, Timings};

/// The failure of a connection that broke.
pub fn broken(error: &hyper::Error, timings: &mut Timings) -> Failure {
    timings.end_ns = now_ns();
    let mut message = format!("the connection broke: {error}");
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        message.push_str(&format!(": {inner}"));
        source = inner.source();
    }
    Failure::new(ErrorClass::Reset, message, *timings)
}

/// Most bytes of an error or a short answer that are read.
pub const SHORT_BODY: usize = 64 * 1024;

/// An answer being read.
pub struct Reading<'a> {
    /// The answer.
    pub answer: &'a mut Answer,
    /// The operation's times.
    pub timings: &'a mut Timings,
    /// Who looks on.
    pub observer: &'a mut dyn Observer,
}

impl Reading<'_> {
    /// A header as text.
    pub fn text(&self, name: HeaderName) -> Option<&str> {
        self.answer.head.headers.get(name).and_then(|v| v.to_str().ok())
    }

    /// The store's clock, in Unix seconds.
    pub fn store_clock_s(&self) -> Option<i64> {
        let date = self.text(DATE).and_then(|d| jiff::fmt::rfc2822::parse(d).ok());
        date.map(|d| d.timestamp().as_second())
    }

    /// Notes when the first byte of the answer came.
    pub fn begin(&mut self) {
        self.timings.first_byte_ns = self.answer.connection.stamps().first_read.get();
    }

    /// Notes when the content that was sent passed.
    pub fn sent(&mut self) {
        let stamps = self.answer.connection.stamps();
        (self.timings.body_first_ns, self.timings.body_last_ns) =
            (stamps.first_write.get(), stamps.last_write.get());
    }

    /// The operation ends with the last byte read, not when this task came round to it.
    pub fn end(&mut self) {
        if self.timings.end_ns == 0 {
            self.timings.end_ns = self.answer.connection.stamps().last_read.get();
        }
    }

    /// The failure that the store answered with.
    pub fn answered(&mut self, class: String, message: String) -> Failure {
        self.end();
        Failure::new(ErrorClass::Answered(class), message, *self.timings)
    }

    /// The failure of content that is not what it should be.
    pub fn corrupt(&mut self, message: String) -> Failure {
        self.end();
        Failure::new(ErrorClass::Corrupt, message, *self.timings)
    }

    /// Reads the content, and holds it against the checksum that the store `kept` of it.
    ///
    /// # Errors
    /// When the connection breaks or the content is wrong.
    pub async fn stream(&mut self, kept: Option<(Algorithm, String)>) -> Result<u64, Failure> {
        let mut bytes = 0;
        let mut wrong = None;
        let mut hasher = kept.as_ref().map(|(algorithm, _)| Hasher::new(*algorithm));
        while let Some(piece) = self.next().await? {
            if bytes == 0 {
                self.timings.body_first_ns = self.answer.connection.stamps().last_read.get();
            }
            bytes += piece.len() as u64;
            if wrong.is_none() {
                wrong = self.observer.piece(&piece).err();
            }
            if let Some(hasher) = &mut hasher {
                hasher.update(&piece);
            }
        }
        self.timings.body_last_ns = self.answer.connection.stamps().last_read.get();
        if let (Some((algorithm, expected)), Some(hasher)) = (kept, hasher) {
            let found = hasher.finish();
            if found != expected {
                let name = algorithm.name();
                return Err(
                    self.corrupt(format!("{name} of the content is {found}, the store keeps {expected}"))
                );
            }
        }
        match wrong {
            Some(offset) => Err(self.corrupt(format!("byte {offset} is not what was written"))),
            None => Ok(bytes),
        }
    }

    /// Reads the body to its end.
    ///
    /// # Errors
    /// When the connection breaks, or the body has more than `limit` bytes.
    pub async fn collect(&mut self, limit: usize) -> Result<Vec<u8>, Failure> {
        let mut out = Vec::new();
        while let Some(piece) = self.next().await? {
            if out.len() + piece.len() > limit {
                return Err(self.corrupt(format!("the answer has more than {limit} bytes")));
            }
            out.extend_from_slice(&piece);
        }
        Ok(out)
    }

    /// Reads up to `limit` bytes of the body; the rest is neither read nor waited for.
    ///
    /// # Errors
    /// When the connection breaks.
    pub async fn excerpt(&mut self, limit: usize) -> Result<Vec<u8>, Failure> {
        let mut out = Vec::new();
        while out.len() < limit
            && let Some(piece) = self.next().await?
        {
            let room = limit - out.len();
            out.extend_from_slice(&piece[..piece.len().min(room)]);
        }
        Ok(out)
    }

    async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        let piece = self.answer.connection.next_piece(&mut self.answer.body).await;
        piece.map_err(|error| broken(&error, self.timings))
    }
}
