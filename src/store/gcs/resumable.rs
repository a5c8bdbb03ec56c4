//! Resumable uploads (Google Cloud Storage documentation, "Resumable uploads"): a session, then chunks; after a broken connection or a
//! server error the session is asked how much it has kept, and goes on from there.

use http::header::{LOCATION, RANGE};
use http::response::Parts;

use super::answer::{Resource, failure_of};
use super::request::Call;
use super::{GcsConnection, crc32c};
use crate::clock::{MILLISECOND, Timer, now_ns};
use crate::store::url::gcs::CHUNK_UNIT;
use crate::store::{Body, ErrorClass, Failure, Observer, Reply, Timings};

/// How often in a row an upload is resumed without a byte more being kept.
const MOST_RESUMES: u32 = 5;

/// Where an upload stands after an answer.
enum Standing {
    /// So many bytes are kept.
    Kept(u64),
    /// It is done; this is its resource.
    Done(Vec<u8>),
}

/// Bytes that a 308 says are kept: `Range: bytes=0-N`; none without that header.
fn kept(head: &Parts) -> u64 {
    let range = head.headers.get(RANGE).and_then(|v| v.to_str().ok());
    let last = range.and_then(|r| r.trim().strip_prefix("bytes=0-")?.parse::<u64>().ok());
    last.map_or(0, |last| last + 1)
}

fn standing(head: &Parts, body: Vec<u8>, timings: Timings) -> Result<Standing, Failure> {
    match head.status.as_u16() {
        308 => Ok(Standing::Kept(kept(head))),
        200 | 201 => Ok(Standing::Done(body)),
        _ => Err(failure_of(head, &body, timings)),
    }
}

/// How many bytes the next request sends: all that is left, or a chunk.
fn next_len(left: u64, chunk: u64) -> u64 {
    if chunk == 0 || left <= chunk { left } else { chunk - chunk % CHUNK_UNIT }
}

impl GcsConnection {
    /// Puts an object through a session of its own.
    pub(super) async fn put_resumable(
        &mut self,
        key: &str,
        body: Body,
        observer: &mut dyn Observer,
    ) -> Result<Reply, Failure> {
        let total = body.len();
        let sum = crc32c(&body);
        let mut timings = Timings::default();
        let begin = Call::begin_resumable(&self.url, key, total, &sum);
        let (head, _) = self.ask(&begin, observer, &mut timings).await?;
        let session = head.headers.get(LOCATION).and_then(|v| v.to_str().ok()).and_then(path_of);
        let Some(session) = session else {
            let message = "the store began a resumable upload without saying where it goes on";
            return Err(Failure::new(ErrorClass::Corrupt, message, timings));
        };
        // The content passes now, not when the session was asked for.
        (timings.body_first_ns, timings.body_last_ns) = (0, 0);
        let (mut at, mut resumes) = (0, 0);
        loop {
            let len = next_len(total - at, self.url.chunk);
            let call = Call::chunk(&session, body.slice(at, at + len), at, total);
            let sent = self.exchange(&call, observer, &mut timings).await;
            let stands = match sent {
                Ok((head, answer)) => standing(&head, answer, timings),
                Err(failure) => Err(failure),
            };
            let stands = match stands {
                Err(failure) if failure.is_retryable() && resumes < MOST_RESUMES => {
                    resumes += 1;
                    timings.reconnects += 1;
                    self.pause(resumes).await;
                    match self.exchange(&Call::status(&session, total), observer, &mut timings).await {
                        Ok((head, answer)) => standing(&head, answer, timings),
                        // The store is not back yet; the next round asks again by sending nothing new.
                        Err(failure) if failure.is_retryable() && resumes < MOST_RESUMES => {
                            Ok(Standing::Kept(at))
                        }
                        Err(failure) => Err(failure),
                    }
                }
                stands => stands,
            };
            match stands? {
                Standing::Done(resource) => {
                    let made = Resource::parse(&resource, timings)?;
                    return self.finished(key, made, total, &sum, timings, observer).await;
                }
                Standing::Kept(bytes) => {
                    if bytes > at {
                        resumes = 0;
                    } else if resumes >= MOST_RESUMES {
                        let message =
                            format!("the upload stands at byte {at} of {total} and gets no further");
                        return Err(Failure::new(ErrorClass::Reset, message, timings));
                    }
                    if bytes == at && resumes == 0 {
                        // It took a chunk and kept none of it.
                        resumes += 1;
                    }
                    at = bytes.min(total);
                }
            }
        }
    }

    /// Waits a little longer each time: 100 ms, 200 ms and so on.
    async fn pause(&self, times: u32) {
        if let Ok(mut timer) = Timer::new() {
            let _ = timer.until(now_ns() + ((50 * MILLISECOND) << times)).await;
        }
    }
}

/// Path and query of a session's address.
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
    fn what_is_kept_is_what_the_store_says() {
        assert_eq!(kept(&parts(308, Some("bytes=0-524287"))), 524_288);
        assert_eq!(kept(&parts(308, None)), 0, "no Range: nothing was kept");
        assert!(matches!(standing(&parts(200, None), vec![1], Timings::default()), Ok(Standing::Done(_))));
        assert!(standing(&parts(410, None), vec![], Timings::default()).is_err());
    }

    #[test]
    fn chunks_are_multiples_of_their_unit_but_for_the_last() {
        assert_eq!(next_len(10 << 20, 0), 10 << 20);
        assert_eq!(next_len(10 << 20, 4 << 20), 4 << 20);
        assert_eq!(next_len(1 << 20, 4 << 20), 1 << 20);
        assert_eq!(path_of("http://h:1/upload/x?id=1").as_deref(), Some("/upload/x?id=1"));
        assert_eq!(path_of("/upload/x?id=1").as_deref(), Some("/upload/x?id=1"));
    }
}
