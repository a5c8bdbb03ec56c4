//! Reading of a response body with timestamps, and conversion of errors to failures.

use std::sync::Arc;

use super::Answer;
use crate::store::{BodyChecksum, Failure, Observer};
use plimsoll_base::clock::now_ns;
use plimsoll_base::net::http1::HttpError;
use plimsoll_base::net::http1::head::Head;
use plimsoll_recorder::ErrorClass;
use plimsoll_recorder::Timings;

/// Converts the error of a broken connection to a failure.
pub fn broken(error: &HttpError, timings: &mut Timings) -> Failure {
    timings.end_ns = now_ns();
    Failure::new(ErrorClass::Reset, format!("the connection broke: {error}"), *timings)
}

/// Maximum number of bytes to read from an error response or a short response.
pub const SHORT_BODY: usize = 64 * 1024;

/// Returns the store's clock from the `Date` header of a response, in Unix seconds.
pub fn store_clock_s(head: &Head) -> Option<i64> {
    let date = head.text("date").and_then(|d| jiff::fmt::rfc2822::parse(d).ok());
    date.map(|d| d.timestamp().as_second())
}

/// A response that is being read.
pub struct Reading<'a> {
    /// Response to read.
    pub answer: &'a mut Answer,
    /// Times of the operation.
    pub timings: &'a mut Timings,
    /// Observer that receives the content.
    pub observer: &'a mut dyn Observer,
}

impl Reading<'_> {
    /// Records the time of the first byte of the response, and reports that of the first byte of the request.
    pub fn begin(&mut self) {
        if let Some(relayed) = self.answer.relayed {
            // The connections of this process lead to the relay, not to the store.
            *self.timings = Timings { start_ns: self.timings.start_ns, ..Timings::default() };
            self.timings.first_byte_ns = self.timings.start_ns + relayed.first_byte_ns;
            self.timings.end_ns = self.timings.start_ns + relayed.total_ns;
            return;
        }
        let stamps = self.answer.connection.stamps();
        if self.timings.first_byte_ns == 0 && self.timings.connections == 0 {
            self.observer.sent(stamps.first_write.get());
        }
        self.timings.first_byte_ns = stamps.first_read.get();
    }

    /// Records the times of the first and last byte of the sent content.
    pub fn sent(&mut self) {
        let stamps = self.answer.connection.stamps();
        (self.timings.body_first_ns, self.timings.body_last_ns) = match self.answer.relayed {
            Some(_) => (self.timings.start_ns, self.timings.first_byte_ns),
            None => (stamps.first_write.get(), stamps.last_write.get()),
        };
    }

    /// Records the end of the operation: the arrival of the last byte, not the time at which this task ran again.
    pub fn end(&mut self) {
        if self.timings.end_ns == 0 {
            let stamps = self.answer.connection.stamps();
            self.timings.end_ns = stamps.last_read.get();
            let delay_us = stamps.client_delay_ns.get() / 1_000;
            self.timings.client_delay_us = u32::try_from(delay_us).unwrap_or(u32::MAX);
            self.timings.by_kernel = stamps.by_kernel.get();
        }
    }

    /// Ends the operation and returns the failure for an error response.
    pub fn answered(&mut self, class: String, message: String) -> Failure {
        self.end();
        Failure::new(ErrorClass::Response(class), message, *self.timings)
    }

    /// Ends the operation and returns the failure for corrupt content.
    pub fn corrupt(&mut self, message: String) -> Failure {
        self.end();
        Failure::new(ErrorClass::Corrupt, message, *self.timings)
    }

    /// Reads the content and returns its length in bytes. Verifies the store's checksum (`kept`), if given.
    ///
    /// # Errors
    /// Fails if the connection breaks or the content is corrupt.
    pub async fn stream(&mut self, kept: Option<(BodyChecksum, String)>) -> Result<u64, Failure> {
        let mut bytes = 0;
        let mut wrong = None;
        let stamps = Arc::clone(self.answer.connection.stamps());
        let mut hasher = kept.as_ref().map(|(checksum, _)| checksum.hasher());
        loop {
            let piece = self.answer.connection.next_piece().await;
            let Some(piece) = piece.map_err(|error| broken(&error, self.timings))? else { break };
            if bytes == 0 {
                self.timings.body_first_ns = stamps.last_read.get();
            }
            bytes += piece.len() as u64;
            if wrong.is_none() {
                wrong = self.observer.piece(piece).err();
            }
            if let Some(hasher) = &mut hasher {
                hasher.update(piece);
            }
        }
        self.timings.body_last_ns = stamps.last_read.get();
        if self.answer.relayed.is_some() {
            (self.timings.body_first_ns, self.timings.body_last_ns) =
                (self.timings.first_byte_ns, self.timings.end_ns);
        }
        if let (Some((checksum, expected)), Some(hasher)) = (kept, hasher) {
            let found = hasher.finish();
            if found != expected {
                let name = checksum.name();
                return Err(self.corrupt(format!(
                    "the {name} of the content is {found}, but the store reports {expected}"
                )));
            }
        }
        match wrong {
            Some(offset) => Err(self.corrupt(format!("content mismatch at byte {offset}"))),
            None => Ok(bytes),
        }
    }

    /// Reads the whole body.
    ///
    /// # Errors
    /// Fails if the connection breaks or the body has more than `limit` bytes.
    pub async fn collect(&mut self, limit: usize) -> Result<Vec<u8>, Failure> {
        let mut out = Vec::new();
        while let Some(piece) = self.next().await? {
            if out.len() + piece.len() > limit {
                return Err(self.corrupt(format!("the response has more than {limit} bytes")));
            }
            out.extend_from_slice(piece);
        }
        Ok(out)
    }

    /// Reads up to `limit` bytes of the body, without waiting for the rest.
    ///
    /// # Errors
    /// Fails if the connection breaks.
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

    async fn next(&mut self) -> Result<Option<&[u8]>, Failure> {
        let piece = self.answer.connection.next_piece().await;
        piece.map_err(|error| broken(&error, self.timings))
    }
}
