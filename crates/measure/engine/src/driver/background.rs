//! Requests outside measured phases: preflight checks, listings, clean-up and probes. Each request has a
//! deadline that includes its retries. An endless listing is an error.

use std::time::Duration;

use crate::store::{Connection, Failure, Ignore, Listing, Observer, Reply, Request, Store};
use plimsoll_base::clock::{MILLISECOND, Timer, now_ns};
use plimsoll_base::net::client_limits::timeout;
use plimsoll_recorder::ErrorClass;
use plimsoll_recorder::Timings;

/// Maximum number of attempts of a request.
const MAX_ATTEMPTS: u32 = 8;

/// A connection for requests outside measured phases.
pub struct Background {
    connection: Box<dyn Connection>,
    timeout: Duration,
    /// Addresses of the store, which failures name.
    addresses: Vec<String>,
    /// Number of endpoints of the store.
    endpoints: usize,
    /// Number of consecutive requests that timed out.
    timeouts: usize,
    /// Failure of the last [`Background::send`], if it and the requests before it timed out at every endpoint.
    timed_out: Option<Failure>,
}

impl Background {
    /// Creates a connection to `store`. Each request has the deadline of the process (`--timeout`).
    pub fn new(store: &dyn Store) -> Background {
        Background {
            connection: store.connection(0),
            timeout: timeout(),
            addresses: store.describe().addresses,
            endpoints: store.endpoints(),
            timeouts: 0,
            timed_out: None,
        }
    }

    /// Returns the connection with a deadline of at most `most` for each request.
    pub fn with_max_timeout(mut self, most: Duration) -> Background {
        self.timeout = self.timeout.min(most);
        self
    }

    /// Returns the connection with a deadline of at least `least` for each request.
    pub fn with_min_timeout(mut self, least: Duration) -> Background {
        self.timeout = self.timeout.max(least);
        self
    }

    /// Sends a request. If the request is idempotent or creates a bucket, retries it after throttling (429 or 503).
    /// After a timeout at every endpoint, this method sends no further requests and returns the same failure again.
    ///
    /// # Errors
    /// Returns the last failure, or one of class [`ErrorClass::Timeout`] at the deadline.
    pub async fn send(
        &mut self,
        request: Request<'_>,
        observer: &mut dyn Observer,
    ) -> Result<Reply, Failure> {
        if let Some(failure) = &self.timed_out {
            return Err(failure.clone());
        }
        let is_repeatable = request.is_idempotent();
        loop {
            let result = self.send_once(request.clone(), observer).await;
            let Err(failure) = result else {
                self.timeouts = 0;
                return result;
            };
            if failure.class != ErrorClass::Timeout {
                self.timeouts = 0;
                return Err(failure);
            }
            self.timeouts += 1;
            let failure = self.with_address(failure);
            if self.timeouts >= self.endpoints {
                self.timed_out = Some(failure.clone());
                return Err(failure);
            }
            if !is_repeatable {
                return Err(failure);
            }
        }
    }

    /// Returns a failure with the address that did not answer, if the store has several.
    fn with_address(&self, failure: Failure) -> Failure {
        let number = self.connection.address().filter(|_| self.addresses.len() > 1);
        match number.and_then(|number| self.addresses.get(number)) {
            Some(address) => Failure { message: format!("{address}: {}", failure.message), ..failure },
            None => failure,
        }
    }

    /// Sends a request to one endpoint, with the deadline.
    async fn send_once(
        &mut self,
        request: Request<'_>,
        observer: &mut dyn Observer,
    ) -> Result<Reply, Failure> {
        let began = now_ns();
        let retries = request.is_idempotent() || matches!(request, Request::CreateBucket);
        let (connection, attempts) = (self.connection.as_mut(), if retries { MAX_ATTEMPTS } else { 1 });
        let work = async {
            for attempt in 1..attempts {
                match connection.execute(request.clone(), observer).await {
                    Err(failure) if matches!(failure.status(), Some(429 | 503)) => pause(attempt).await,
                    result => return result,
                }
            }
            connection.execute(request.clone(), observer).await
        };
        with_deadline(self.timeout, began, work).await
    }

    /// Sends a request and retries it after transient failures. The pauses start at 40 ms and double.
    ///
    /// # Errors
    /// Returns the last failure, or one of class [`ErrorClass::Timeout`] at the deadline, which covers all
    /// attempts. If a store has several endpoints, each has a deadline.
    pub async fn send_until_answered(&mut self, request: Request<'_>) -> Result<Reply, Failure> {
        for _ in 1..self.endpoints {
            match send_until_answered(self.connection.as_mut(), request.clone(), self.timeout).await {
                Err(failure) if failure.class == ErrorClass::Timeout => {}
                result => return result,
            }
        }
        let last = send_until_answered(self.connection.as_mut(), request, self.timeout).await;
        last.map_err(|failure| match failure.class {
            ErrorClass::Timeout => self.with_address(failure),
            _ => failure,
        })
    }
}

/// Does the same as [`Background::send_until_answered`] on any connection.
///
/// # Errors
/// Returns the same errors as [`Background::send_until_answered`].
pub async fn send_until_answered(
    connection: &mut dyn Connection,
    request: Request<'_>,
    timeout: Duration,
) -> Result<Reply, Failure> {
    let began = now_ns();
    let mut last = None;
    let attempts = async {
        for attempt in 1..=MAX_ATTEMPTS {
            let failure = match connection.execute(request.clone(), &mut Ignore).await {
                Err(failure) if failure.is_retryable() && attempt < MAX_ATTEMPTS => failure,
                result => return result,
            };
            // A server that refuses two connections is unlikely to start within seconds.
            if matches!(failure.class, ErrorClass::Connect) && attempt > 1 {
                return Err(failure);
            }
            last = Some(failure);
            pause(attempt).await;
        }
        Err(timeout_failure(timeout, began))
    };
    let result = with_deadline(timeout, began, attempts).await;
    match (result, last) {
        // The last failure is more informative than the timeout.
        (Err(failure), Some(last)) if failure.class == ErrorClass::Timeout => {
            Err(Failure { message: format!("{}; {last}", failure.message), ..failure })
        }
        (result, _) => result,
    }
}

/// Waits 40 ms after the first attempt, and twice as long after each further attempt.
async fn pause(attempt: u32) {
    if let Ok(mut timer) = Timer::new() {
        let _ = timer.until(now_ns() + ((20 * MILLISECOND) << attempt)).await;
    }
}

/// Waits for `work`, at most until `timeout` after `began_ns`.
async fn with_deadline(
    timeout: Duration,
    began_ns: u64,
    work: impl Future<Output = Result<Reply, Failure>>,
) -> Result<Reply, Failure> {
    let Ok(mut timer) = Timer::new() else { return work.await };
    tokio::select! {
        biased;
        result = work => result,
        _ = timer.until(began_ns + timeout.as_nanos() as u64) => Err(timeout_failure(timeout, began_ns)),
    }
}

/// Returns the failure of a request that started at `began_ns` and exceeded its deadline.
fn timeout_failure(timeout: Duration, began_ns: u64) -> Failure {
    let timings = Timings { start_ns: began_ns, end_ns: now_ns(), ..Timings::default() };
    let message = format!("no answer within {} s (--timeout)", timeout.as_secs_f64());
    Failure::new(ErrorClass::Timeout, message, timings)
}

/// Checks that all keys of a page have the requested prefix.
///
/// # Errors
/// Returns a message that names the first key without it.
pub fn within_prefix(page: &Listing, prefix: &str) -> Result<(), String> {
    match page.objects.iter().find(|object| !object.key.starts_with(prefix)) {
        None => Ok(()),
        Some(foreign) => Err(format!(
            "the store listed '{}' for prefix '{prefix}', so it does not filter by prefix; Plimsoll refuses \
             to use such a store",
            foreign.key
        )),
    }
}

/// Maximum number of consecutive pages without a key. Stores send such pages while they skip deleted keys.
const MAX_EMPTY_PAGES: u32 = 1_000;

/// Detector of endless listings, which repeat a continuation token or have too many consecutive empty pages.
pub struct ListingGuard {
    /// Number of consecutive empty pages so far.
    empty: u32,
    /// Token to which later ones are compared (Brent's cycle detection); replaced after `power` pages.
    remembered: String,
    /// Number of pages since `remembered` was replaced.
    since: u64,
    /// Power of two that doubles with each replacement.
    power: u64,
}

impl Default for ListingGuard {
    fn default() -> ListingGuard {
        ListingGuard { empty: 0, remembered: String::new(), since: 0, power: 1 }
    }
}

impl ListingGuard {
    /// Checks the token of the next page. `empty` is true if the current page has no entries.
    ///
    /// # Errors
    /// Returns a message if the listing does not end.
    pub fn advance(&mut self, next: &str, empty: bool) -> Result<(), String> {
        self.empty = if empty { self.empty + 1 } else { 0 };
        if self.empty >= MAX_EMPTY_PAGES {
            return Err(format!(
                "the listing does not end: {MAX_EMPTY_PAGES} consecutive pages have no keys"
            ));
        }
        if next == self.remembered {
            return Err("the listing does not end: a continuation token repeats".into());
        }
        self.since += 1;
        if self.since == self.power {
            self.remembered = next.to_string();
            (self.since, self.power) = (0, self.power * 2);
        }
        Ok(())
    }
}

/// A listing that is read page by page. It fails on keys outside the prefix and on endless listings.
pub struct Pages<'a> {
    prefix: &'a str,
    /// Continuation token of the next page; `None` after the last page.
    token: Option<String>,
    guard: ListingGuard,
    /// Last key so far, if keys must be in ascending order; otherwise `None`.
    ascending: Option<String>,
}

impl<'a> Pages<'a> {
    /// Creates a listing of all keys that begin with `prefix`.
    pub fn new(prefix: &'a str) -> Pages<'a> {
        Pages { prefix, token: Some(String::new()), guard: ListingGuard::default(), ascending: None }
    }

    /// Returns the listing. If `ordered` is true, each page must begin after the last key of the previous
    /// page, so that no key appears on two pages.
    pub fn ascending(self, ordered: bool) -> Pages<'a> {
        Pages { ascending: ordered.then(String::new), ..self }
    }

    /// Requests the next page; returns `None` after the last page.
    ///
    /// # Errors
    /// Returns the failure of the request, or one of class [`ErrorClass::Corrupt`] if the page is invalid.
    pub async fn next(&mut self, background: &mut Background) -> Result<Option<Listing>, Failure> {
        let Some(token) = self.token.take() else { return Ok(None) };
        let request = Request::List { prefix: self.prefix, start_after: "", token: &token, max_keys: 1000 };
        let reply = background.send_until_answered(request).await?;
        let page = reply.listing.unwrap_or_default();
        let wrong = |message| Failure::new(ErrorClass::Corrupt, message, reply.timings);
        within_prefix(&page, self.prefix).map_err(wrong)?;
        if let Some(next) = &page.next_token {
            self.guard.advance(next, page.objects.is_empty()).map_err(wrong)?;
        }
        if let (Some(last), Some(first)) = (&mut self.ascending, page.objects.first()) {
            if !last.is_empty() && first.key <= *last {
                return Err(wrong(format!(
                    "the listing is not in ascending order: '{}' follows '{last}'",
                    first.key
                )));
            }
            page.objects.last().iter().for_each(|object| last.clone_from(&object.key));
        }
        self.token.clone_from(&page.next_token);
        Ok(Some(page))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the index of the token at which the guard rejects a listing; `None` if it rejects none.
    fn rejected_at(tokens: impl Iterator<Item = String>, empty: bool) -> Option<usize> {
        let mut guard = ListingGuard::default();
        tokens.enumerate().find_map(|(i, token)| guard.advance(&token, empty).err().map(|_| i))
    }

    /// Regression test: a server that repeated a continuation token made `clean` list forever.
    #[test]
    fn a_repeating_token_ends_the_listing() {
        assert_eq!(rejected_at(std::iter::repeat_n("t".to_string(), 10), false), Some(1));
        for cycle in [2, 3, 7, 100] {
            let tokens = (0..10_000).map(|i| (i % cycle).to_string());
            let index = rejected_at(tokens, false).expect("the guard detects the cycle");
            assert!(index < 4 * cycle + 4, "cycle of {cycle} tokens: rejected at {index}");
        }
    }

    #[test]
    fn pages_without_keys_end_the_listing() {
        let endless = (0..).map(|i: u64| i.to_string());
        assert_eq!(rejected_at(endless, true), Some(MAX_EMPTY_PAGES as usize - 1));
    }

    #[test]
    fn a_listing_with_new_tokens_continues() {
        assert_eq!(rejected_at((0..100_000).map(|i| i.to_string()), false), None);
    }
}
