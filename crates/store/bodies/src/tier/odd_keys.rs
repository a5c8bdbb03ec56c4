//! A backend whose listing goes on after keys that its client cannot address, such as `a//b`.
//!
//! The client fails for a whole page with such a key. The page is then requested in smaller ones, until a request
//! contains the key alone. The listing has an error in its place, which [`odd_key`] recognizes.

use std::collections::VecDeque;
use std::fmt::{Debug, Display, Formatter};
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::stream::{self, BoxStream, StreamExt};
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::{Error as PathError, Path};
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

/// Largest number of keys in a page.
const PAGE: usize = 1000;

/// Returns the key that a client cannot address if this is the reason of an error.
pub fn odd_key(error: &Error) -> Option<&str> {
    match error {
        Error::InvalidPath {
            source:
                PathError::EmptySegment { path }
                | PathError::BadSegment { path, .. }
                | PathError::NonUnicode { path, .. },
        } => Some(path),
        _ => None,
    }
}

/// A backend with a listing that goes on after odd keys.
#[derive(Debug)]
pub struct ListsOddKeys<S>(Arc<S>);

impl<S> ListsOddKeys<S> {
    /// Wraps a client.
    pub fn new(client: S) -> ListsOddKeys<S> {
        ListsOddKeys(Arc::new(client))
    }
}

/// A listing that is being read.
struct Listing<S> {
    store: Arc<S>,
    prefix: Option<String>,
    /// Place of the next page: a token, or the key after which it begins.
    token: Option<String>,
    after: Option<String>,
    most: usize,
    found: VecDeque<Result<ObjectMeta>>,
    ended: bool,
}

impl<S: PaginatedListStore> Listing<S> {
    async fn next(mut self) -> Option<(Result<ObjectMeta>, Listing<S>)> {
        loop {
            if let Some(found) = self.found.pop_front() {
                return Some((found, self));
            }
            if self.ended {
                return None;
            }
            self.request().await;
        }
    }

    /// Requests the next page, or a part of it.
    async fn request(&mut self) {
        let options = PaginatedListOptions {
            offset: self.after.clone(),
            page_token: self.token.clone(),
            max_keys: Some(self.most),
            ..PaginatedListOptions::default()
        };
        match self.store.list_paginated(self.prefix.as_deref(), options).await {
            Ok(page) => {
                self.ended = page.page_token.is_none();
                self.token = page.page_token;
                self.found.extend(page.result.objects.into_iter().map(Ok));
            }
            Err(error) => match odd_key(&error).map(str::to_string) {
                Some(_) if self.most > 1 => self.most /= 2,
                Some(key) if self.after.as_ref() != Some(&key) => {
                    self.found.push_back(Err(error));
                    (self.after, self.token, self.most) = (Some(key), None, PAGE);
                }
                Some(key) => {
                    let problem = format!("the store cannot list the keys after '{key}'");
                    self.found.push_back(Err(Error::Generic { store: "listing", source: problem.into() }));
                    self.ended = true;
                }
                None => {
                    self.found.push_back(Err(error));
                    self.ended = true;
                }
            },
        }
    }
}

impl<S: Display> Display for ListsOddKeys<S> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        Display::fmt(&self.0, f)
    }
}

#[async_trait]
impl<S: ObjectStore + PaginatedListStore + Debug> ObjectStore for ListsOddKeys<S> {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.0.put_opts(path, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.0.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        self.0.get_opts(path, options).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.0.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let listing = Listing {
            store: Arc::clone(&self.0),
            prefix: prefix.filter(|prefix| !prefix.as_ref().is_empty()).map(|prefix| format!("{prefix}/")),
            token: None,
            after: None,
            most: PAGE,
            found: VecDeque::new(),
            ended: false,
        };
        stream::unfold(listing, Listing::next).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.0.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.0.copy_opts(from, to, options).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::list::PaginatedListResult;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A store with keys that the client may not be able to address. Its tokens are the last keys of pages.
    struct Keys {
        keys: Vec<String>,
        requests: AtomicUsize,
        starts: bool,
    }

    #[async_trait]
    impl PaginatedListStore for Keys {
        async fn list_paginated(
            &self,
            prefix: Option<&str>,
            options: PaginatedListOptions,
        ) -> Result<PaginatedListResult> {
            self.requests.fetch_add(1, Ordering::Relaxed);
            let start = options.page_token.or(options.offset.filter(|_| self.starts)).unwrap_or_default();
            let later = |key: &&String| **key > start && key.starts_with(prefix.unwrap_or_default());
            let mut page: Vec<&String> = self.keys.iter().filter(later).collect();
            let most = options.max_keys.unwrap_or(1000);
            let is_truncated = page.len() > most;
            page.truncate(most);
            let page_token = page.last().filter(|_| is_truncated).map(|key| key.to_string());
            let meta = |key: &&String| {
                Ok(ObjectMeta {
                    location: Path::parse(key)?,
                    last_modified: Default::default(),
                    size: 1,
                    e_tag: None,
                    version: None,
                })
            };
            let objects = page.iter().map(meta).collect::<Result<Vec<_>>>()?;
            let result = ListResult { common_prefixes: Vec::new(), objects, extensions: Default::default() };
            Ok(PaginatedListResult { result, page_token })
        }
    }

    async fn listed(keys: &Arc<Keys>, prefix: Option<&str>) -> Vec<String> {
        let listing = Listing {
            store: Arc::clone(keys),
            prefix: prefix.map(str::to_string),
            token: None,
            after: None,
            most: PAGE,
            found: VecDeque::new(),
            ended: false,
        };
        let name = |item: Result<ObjectMeta>| match item {
            Ok(meta) => meta.location.to_string(),
            Err(error) => odd_key(&error).map_or(error.to_string(), |key| format!("odd: {key}")),
        };
        stream::unfold(listing, Listing::next).map(name).take(10_000).collect().await
    }

    fn store(starts: bool) -> Arc<Keys> {
        let mut keys: Vec<String> = (0..2500).map(|n| format!("key/{n:04}")).collect();
        keys.extend(["key//odd", "key/1500/../x", "key/2499//", "other"].map(str::to_string));
        keys.sort();
        Arc::new(Keys { keys, requests: AtomicUsize::new(0), starts })
    }

    /// Regression test: one key that the client could not address ended every adoption and every sweep.
    #[tokio::test]
    async fn a_listing_goes_on_after_odd_keys_and_names_them() {
        let keys = store(true);
        let names = listed(&keys, None).await;
        let expected: Vec<String> = keys
            .keys
            .iter()
            .map(|key| if Path::parse(key).is_err() { format!("odd: {key}") } else { key.clone() })
            .collect();
        assert_eq!(names, expected);
        assert_eq!(names.iter().filter(|name| name.starts_with("odd")).count(), 3);
        let requests = keys.requests.load(Ordering::Relaxed);
        assert!(requests < 100, "{requests} requests");
        assert_eq!(listed(&keys, Some("other")).await, ["other"]);
    }

    #[tokio::test]
    async fn a_store_that_cannot_start_after_a_key_ends_the_listing() {
        let names = listed(&store(false), None).await;
        assert_eq!(names[0], "odd: key//odd");
        assert!(names.len() == 2 && names[1].contains("cannot list the keys after 'key//odd'"), "{names:?}");
    }
}
