//! Resumable uploads (Google Cloud Storage documentation, "Resumable uploads"). The client opens a session and
//! sends chunks. After a broken connection or a server error, it queries how many bytes the server has stored
//! and continues from there.

use http::header::{LOCATION, RANGE};
use http::response::Parts;

use super::answer::{Resource, failure_of};
use super::request::JsonCall;
use super::{GcsConnection, crc32c};
use crate::store::{Body, Failure, Observer, Reply};
use plimsoll_base::clock::{MILLISECOND, Timer, now_ns};
use plimsoll_recorder::ErrorClass;
use plimsoll_recorder::Timings;
use plimsoll_s3::url::gcs::CHUNK_UNIT;

/// Maximum number of consecutive resumptions without progress.
const MAX_RESUMES: u32 = 5;

/// The progress of an upload after a response.
enum Progress {
    /// The server has stored this number of bytes.
    Stored(u64),
    /// The upload is complete; this is the JSON of the object resource.
    Done(Vec<u8>),
}

/// Returns the number of bytes stored according to a 308 response: `Range: bytes=0-N`, or 0 without that
/// header.
fn stored_bytes(head: &Parts) -> u64 {
    let range = head.headers.get(RANGE).and_then(|v| v.to_str().ok());
    let last = range.and_then(|r| r.trim().strip_prefix("bytes=0-")?.parse::<u64>().ok());
    last.map_or(0, |last| last + 1)
}

fn progress_of(head: &Parts, body: Vec<u8>, timings: Timings) -> Result<Progress, Failure> {
    match head.status.as_u16() {
        308 => Ok(Progress::Stored(stored_bytes(head))),
        200 | 201 => Ok(Progress::Done(body)),
        _ => Err(failure_of(head, &body, timings)),
    }
}

/// Returns the number of bytes for the next request: all remaining bytes, or one chunk.
fn next_len(left: u64, chunk: u64) -> u64 {
    if chunk == 0 || left <= chunk { left } else { chunk - chunk % CHUNK_UNIT }
}

impl GcsConnection {
    /// Puts an object through a new upload session.
    pub(super) async fn put_resumable(
        &mut self,
        key: &str,
        body: Body,
        observer: &mut dyn Observer,
    ) -> Result<Reply, Failure> {
        let total = body.len();
        let sum = crc32c(&body);
        let mut timings = Timings::default();
        let begin = JsonCall::begin_resumable(&self.url, key, total, &sum);
        let (head, _) = self.ask(&begin, observer, &mut timings).await?;
        let session = head.headers.get(LOCATION).and_then(|v| v.to_str().ok()).and_then(path_of);
        let Some(session) = session else {
            let message = "the store started a resumable upload but sent no session URL";
            return Err(Failure::new(ErrorClass::Corrupt, message, timings));
        };
        // The content is sent from here on, not in the request for the session.
        (timings.body_first_ns, timings.body_last_ns) = (0, 0);
        let (mut at, mut resumes) = (0, 0);
        loop {
            let len = next_len(total - at, self.url.chunk);
            let call = JsonCall::chunk(&session, body.slice(at, at + len), at, total);
            let sent = self.exchange(&call, observer, &mut timings).await;
            let progress = match sent {
                Ok((head, answer)) => progress_of(&head, answer, timings),
                Err(failure) => Err(failure),
            };
            let progress = match progress {
                Err(failure) if failure.is_retryable() && resumes < MAX_RESUMES => {
                    resumes += 1;
                    timings.reconnects += 1;
                    self.pause(resumes).await;
                    match self.exchange(&JsonCall::status(&session, total), observer, &mut timings).await {
                        Ok((head, answer)) => progress_of(&head, answer, timings),
                        // The store has not recovered; the next iteration tries again from the same byte.
                        Err(failure) if failure.is_retryable() && resumes < MAX_RESUMES => {
                            Ok(Progress::Stored(at))
                        }
                        Err(failure) => Err(failure),
                    }
                }
                progress => progress,
            };
            match progress? {
                Progress::Done(resource) => {
                    let made = Resource::parse(&resource, timings)?;
                    return self.finished(key, made, total, &sum, timings, observer).await;
                }
                Progress::Stored(bytes) => {
                    if bytes > at {
                        resumes = 0;
                    } else if resumes >= MAX_RESUMES {
                        let message =
                            format!("the upload stalled at byte {at} of {total} after {resumes} resumptions");
                        return Err(Failure::new(ErrorClass::Reset, message, timings));
                    }
                    if bytes == at && resumes == 0 {
                        // The server accepted a chunk but stored none of it.
                        resumes += 1;
                    }
                    at = bytes.min(total);
                }
            }
        }
    }

    /// Waits 100 ms before the first resumption and twice as long before each further one.
    async fn pause(&self, times: u32) {
        if let Ok(mut timer) = Timer::new() {
            let _ = timer.until(now_ns() + ((50 * MILLISECOND) << times)).await;
        }
    }
}

/// Returns the path and query of a session URL.
fn path_of(location: &str) -> Option<String> {
    let uri: hyper::Uri = location.parse().ok()?;
    uri.path_and_query().map(|p| p.as_str().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(status: u16, range: Option<&str>) -> Parts {
        let mut response = http::Response::builder().status(status);
        if let Some(range) = range {
            response = response.header("range", range);
        }
        response.body(()).unwrap().into_parts().0
    }

    #[test]
    fn stored_bytes_come_from_the_range_header() {
        assert_eq!(stored_bytes(&parts(308, Some("bytes=0-524287"))), 524_288);
        assert_eq!(stored_bytes(&parts(308, None)), 0, "no Range header: nothing is stored");
        assert!(matches!(progress_of(&parts(200, None), vec![1], Timings::default()), Ok(Progress::Done(_))));
        assert!(progress_of(&parts(410, None), vec![], Timings::default()).is_err());
    }

    #[test]
    fn all_chunks_except_the_last_are_multiples_of_the_unit() {
        assert_eq!(next_len(10 << 20, 0), 10 << 20);
        assert_eq!(next_len(10 << 20, 4 << 20), 4 << 20);
        assert_eq!(next_len(1 << 20, 4 << 20), 1 << 20);
        assert_eq!(path_of("http://h:1/upload/x?id=1").as_deref(), Some("/upload/x?id=1"));
        assert_eq!(path_of("/upload/x?id=1").as_deref(), Some("/upload/x?id=1"));
    }
}
