//! Properties of the objects of an S3 store that the client of the backends does not return: tags, checksums and the
//! sizes of parts.

use futures_util::StreamExt;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use object_store::client::{HttpClient, HttpRequest, HttpRequestBody, HttpResponse};
use object_store::{Error, Result};
use plimsoll_s3::checksum::{Algorithm, from_base64};
use plimsoll_s3::endpoint::Endpoint;
use plimsoll_server::config::tags::Tags;
use plimsoll_server::service::{ObjectPart, StoredChecksum};

use plimsoll_catalog::ambient::pause;

/// Largest answer of a request for tags in bytes.
const MAX_BYTES: usize = 256 << 10;
/// Number of times that a request is repeated after an error of the server.
const REPETITIONS: u32 = 3;
/// Largest number of parts of an upload.
const MAX_PARTS: u32 = 10_000;
/// Number of requests for the parts of one object at a time.
const IN_FLIGHT: usize = 8;

/// Headers of an object that a client has stored with it, apart from user metadata.
const STORED: [&str; 6] = [
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-type",
    "expires",
];

/// Properties of an object as its store knows them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Details {
    /// Headers that are stored with the object, sorted by name.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Tags of the object.
    pub tags: Tags,
    /// Checksum of the object; `None` if there is none.
    pub checksum: Option<StoredChecksum>,
    /// Parts of the upload, without checksums; empty if the object was not uploaded in parts, or the store does not say
    /// what they are.
    pub parts: Vec<ObjectPart>,
}

/// An S3 bucket whose objects have details.
#[derive(Debug)]
pub struct DetailedBucket {
    /// Client of the requests, which signs them.
    pub http: HttpClient,
    /// Place of the bucket.
    pub endpoint: Endpoint,
    /// Start of all keys.
    pub prefix: String,
}

fn failure(text: String) -> Error {
    Error::Generic { store: "S3", source: text.into() }
}

/// Returns a header as text.
fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Returns the headers that a client has stored with an object.
fn stored(headers: &HeaderMap) -> Vec<(HeaderName, HeaderValue)> {
    let is_stored = |name: &str| STORED.contains(&name) || name.starts_with("x-amz-meta-");
    let found = headers.iter().filter(|(name, _)| is_stored(name.as_str()));
    let mut found: Vec<_> = found.map(|(name, value)| (name.clone(), value.clone())).collect();
    found.sort_by(|a, b| a.0.as_str().cmp(b.0.as_str()));
    found
}

/// Returns the checksum of an object from the headers of its HEAD request.
fn checksum(headers: &HeaderMap) -> Option<StoredChecksum> {
    Algorithm::ALL.into_iter().find_map(|algorithm| {
        let value = text(headers, algorithm.header())?.to_string();
        let (digest, is_of_parts) =
            value.split_once('-').map_or((&*value, false), |(digest, _)| (digest, true));
        let is_whole = from_base64(digest)?.len() == algorithm.size();
        let full_object =
            text(headers, "x-amz-checksum-type").map_or(!is_of_parts, |kind| kind == "FULL_OBJECT");
        is_whole.then_some(StoredChecksum { algorithm, value, full_object })
    })
}

/// Returns the parts with these sizes, if they are those of an object of `size` bytes.
fn parts(sizes: impl Iterator<Item = u64>, size: u64) -> Option<Vec<ObjectPart>> {
    let part = |(number, size)| ObjectPart { number, size, checksum: None };
    let parts: Vec<ObjectPart> = (1..).zip(sizes).map(part).collect();
    let sum = parts.iter().try_fold(0_u64, |sum, part| sum.checked_add(part.size));
    (sum == Some(size)).then_some(parts)
}

impl DetailedBucket {
    fn request(&self, method: Method, key: &str, query: &str) -> Result<HttpRequest> {
        let mut path = String::new();
        self.endpoint.path_into(&mut path, &format!("{}{key}", self.prefix));
        let separator = if query.is_empty() { "" } else { "?" };
        let mut request = http::Request::builder()
            .method(&method)
            .uri(format!("{}{path}{separator}{query}", self.endpoint.url()))
            .body(HttpRequestBody::empty())
            .map_err(|error| failure(error.to_string()))?;
        if method == Method::HEAD {
            request.headers_mut().insert("x-amz-checksum-mode", HeaderValue::from_static("ENABLED"));
        }
        Ok(request)
    }

    /// Sends a request. After an error of the server, it is repeated.
    async fn send(&self, method: &Method, key: &str, query: &str) -> Result<HttpResponse> {
        let mut repetitions = 0;
        loop {
            let sent = self.http.execute(self.request(method.clone(), key, query)?).await;
            let is_temporary = sent.as_ref().map_or(true, |answer| {
                answer.status().is_server_error() || answer.status() == StatusCode::TOO_MANY_REQUESTS
            });
            if !is_temporary || repetitions == REPETITIONS {
                return sent.map_err(|error| failure(format!("{method} {key}: {error}")));
            }
            repetitions += 1;
            pause(50 << repetitions).await;
        }
    }

    /// Sends a request that must succeed.
    async fn succeed(&self, method: Method, key: &str, query: &str) -> Result<HttpResponse> {
        let answer = self.send(&method, key, query).await?;
        match answer.status() {
            status if status.is_success() => Ok(answer),
            StatusCode::NOT_FOUND => {
                Err(Error::NotFound { path: key.into(), source: "the object was deleted".into() })
            }
            status => Err(failure(format!("{method} {key}: status {status}"))),
        }
    }

    async fn tags(&self, key: &str) -> Result<Tags> {
        let mut body = self.succeed(Method::GET, key, "tagging=").await?.into_body().bytes_stream();
        let mut document = Vec::new();
        while let Some(bytes) = body.next().await {
            document.extend_from_slice(&bytes.map_err(|error| failure(format!("tags of {key}: {error}")))?);
            if document.len() > MAX_BYTES {
                return Err(failure(format!("tags of {key}: more than {MAX_BYTES} bytes")));
            }
        }
        Tags::parse(&document, false).map_err(|error| failure(format!("tags of {key}: {error}")))
    }

    /// Returns the size of a part; `None` if the store does not say it.
    async fn part_size(&self, key: &str, number: u32) -> Result<Option<u64>> {
        let answer = self.send(&Method::HEAD, key, &format!("partNumber={number}")).await?;
        if answer.status().is_server_error() {
            return Err(failure(format!("HEAD part {number} of {key}: status {}", answer.status())));
        }
        let size = text(answer.headers(), CONTENT_LENGTH.as_str()).and_then(|length| length.parse().ok());
        Ok(size.filter(|_| answer.status().is_success()))
    }

    /// Returns the parts of an object that was uploaded in `count` parts. If the first and the last part show that all
    /// parts before the last one can have the same size, they are taken to have it; otherwise each is requested.
    async fn parts(&self, key: &str, size: u64, count: u32) -> Result<Option<Vec<ObjectPart>>> {
        // A store that does not know parts answers with the whole object.
        let is_part = |part: &u64| count == 1 || *part < size;
        let Some(first) = self.part_size(key, 1).await?.filter(is_part) else { return Ok(None) };
        let Some(last) = self.part_size(key, count).await? else { return Ok(None) };
        let equal = (1..count).map(|_| first).chain([last]);
        if let Some(parts) = parts(equal, size) {
            return Ok(Some(parts));
        }
        let sizes = futures_util::stream::iter(1..=count).map(|number| self.part_size(key, number));
        let sizes: Vec<Result<Option<u64>>> = sizes.buffered(IN_FLIGHT).collect().await;
        let sizes: Option<Vec<u64>> = sizes.into_iter().collect::<Result<_>>()?;
        Ok(sizes.and_then(|sizes| parts(sizes.into_iter(), size)))
    }

    /// Returns the details of an object of `size` bytes, whose entity tag says that it was uploaded in `parts` parts,
    /// or 0 if it was not.
    ///
    /// # Errors
    /// If the object does not exist, or the store fails or refuses the request.
    pub async fn details(&self, key: &str, size: u64, parts: u32) -> Result<Details> {
        let head = self.succeed(Method::HEAD, key, "").await?;
        let headers = head.headers();
        let has_tags = text(headers, "x-amz-tagging-count").is_some_and(|count| count != "0");
        let details = Details { headers: stored(headers), checksum: checksum(headers), ..Details::default() };
        let tags = if has_tags { self.tags(key).await? } else { Tags::default() };
        let parts = match parts {
            1..=MAX_PARTS => self.parts(key, size, parts).await?,
            _ => None,
        };
        Ok(Details { tags, parts: parts.unwrap_or_default(), ..details })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::client::{HttpError, HttpResponseBody, HttpService};
    use plimsoll_s3::endpoint::Style;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A store with an object in parts of these sizes. Without sizes, it answers with the whole object.
    #[derive(Debug)]
    struct Parts {
        sizes: Vec<u64>,
        requests: Arc<AtomicU32>,
    }

    #[async_trait::async_trait]
    impl HttpService for Parts {
        async fn call(&self, request: HttpRequest) -> std::result::Result<HttpResponse, HttpError> {
            self.requests.fetch_add(1, Ordering::Relaxed);
            let number: Option<usize> =
                request.uri().query().and_then(|query| query.strip_prefix("partNumber=")?.parse().ok());
            let size = number.and_then(|number| self.sizes.get(number - 1)).copied().unwrap_or(18);
            let answer = http::Response::builder().header(CONTENT_LENGTH, size);
            Ok(answer.body(HttpResponseBody::from(String::new())).unwrap())
        }
    }

    /// Returns the sizes of the parts that are found, and the number of requests.
    async fn found(sizes: &[u64], count: u32) -> (Vec<u64>, u32) {
        let requests = Arc::new(AtomicU32::new(0));
        let store = Parts { sizes: sizes.to_vec(), requests: Arc::clone(&requests) };
        let bucket = DetailedBucket {
            http: HttpClient::new(store),
            endpoint: Endpoint::new("http://127.0.0.1:9", "bucket", Style::Path, "us-east-1").unwrap(),
            prefix: String::new(),
        };
        let details = bucket.details("key", 18, count).await.unwrap();
        let sizes = details.parts.iter().map(|part| part.size).collect();
        (sizes, requests.load(Ordering::Relaxed))
    }

    #[tokio::test]
    async fn parts_of_equal_sizes_need_two_requests_and_unknown_ones_one() {
        assert_eq!(found(&[8, 8, 2], 3).await, (vec![8, 8, 2], 3));
        assert_eq!(found(&[18], 1).await, (vec![18], 3));
        assert_eq!(found(&[5, 6, 3, 4], 4).await, (vec![5, 6, 3, 4], 7));
        assert_eq!(found(&[], 0).await, (vec![], 1), "the object was not uploaded in parts");
        assert_eq!(found(&[], 9000).await, (vec![], 2), "a store without parts");
        assert_eq!(found(&[8, 8], u32::MAX).await, (vec![], 1), "more parts than an upload can have");
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn a_checksum_is_read_with_its_type() {
        let of = |pairs: &[(&'static str, &'static str)]| {
            checksum(&headers(pairs)).map(|found| (found.algorithm, found.value, found.full_object))
        };
        let value = || "yZRlqg==".to_string();
        assert_eq!(of(&[("x-amz-checksum-crc32", "yZRlqg==")]), Some((Algorithm::Crc32, value(), true)));
        let composite = [("x-amz-checksum-crc32", "yZRlqg==-2"), ("x-amz-checksum-type", "COMPOSITE")];
        assert_eq!(of(&composite), Some((Algorithm::Crc32, "yZRlqg==-2".into(), false)));
        assert_eq!(of(&composite[..1]), Some((Algorithm::Crc32, "yZRlqg==-2".into(), false)));
        let whole = [("x-amz-checksum-crc32", "yZRlqg=="), ("x-amz-checksum-type", "FULL_OBJECT")];
        assert_eq!(of(&whole), Some((Algorithm::Crc32, value(), true)));
        for wrong in ["", "yZRlqg", "yZRlqgAA", "-", "?"] {
            assert_eq!(of(&[("x-amz-checksum-crc32", wrong)]), None, "{wrong}");
        }
        assert_eq!(of(&[("x-amz-checksum-md5", "yZRlqg==")]), None);
    }

    #[test]
    fn parts_must_make_up_the_object() {
        let sizes = |sizes: &[u64], size| parts(sizes.iter().copied(), size).map(|parts| parts.len());
        assert_eq!(sizes(&[5, 5, 3], 13), Some(3));
        assert_eq!(sizes(&[5, 5, 3], 12), None);
        assert_eq!(sizes(&[u64::MAX, 6], 5), None, "a store may answer anything");
    }
}
