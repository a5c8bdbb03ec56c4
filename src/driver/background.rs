//! Requests that no phase measures: preflight, listings, clean-up, probes. Each has a deadline that covers its retries, and listings
//! end: with the last page, or with an error if the store never sends one.

use std::time::Duration;

use crate::clock::{MILLISECOND, Timer, now_ns};
use crate::net::limits::timeout;
use crate::store::{
    Connection, ErrorClass, Failure, Ignore, Listing, Observer, Reply, Request, Store, Timings,
};

/// Attempts of a request at most.
const ATTEMPTS: u32 = 8;

/// A connection for requests that no phase measures.
pub struct Background {
    connection: Box<dyn Connection>,
    timeout: Duration,
    /// The request that the store did not answer in time.
    silent: Option<Failure>,
}

impl Background {
    /// A connection to `store`; each exchange has the deadline of the process.
    pub fn new(store: &dyn Store) -> Background {
        Background { connection: store.connection(0), timeout: timeout(), silent: None }
    }

    /// The same connection with a deadline of at most `most` for each exchange.
    pub fn at_most(mut self, most: Duration) -> Background {
        self.timeout = self.timeout.min(most);
        self
    }

    /// Sends a request; again, if it may be repeated and the store was too busy to answer it. A store that did not answer one request
    /// in time is not asked again.
    ///
    /// # Errors
    /// The failure, or [`ErrorClass::Timeout`] after the deadline.
    pub async fn ask(&mut self, request: Request<'_>, observer: &mut dyn Observer) -> Result<Reply, Failure> {
        if let Some(failure) = &self.silent {
            return Err(failure.clone());
        }
        let began = now_ns();
        let (connection, attempts) =
            (self.connection.as_mut(), if request.is_idempotent() { ATTEMPTS } else { 1 });
        let work = async {
            for attempt in 1..attempts {
                match connection.execute(request.clone(), observer).await {
                    Err(failure) if matches!(failure.status(), Some(429 | 503)) => pause(attempt).await,
                    result => return result,
                }
            }
            connection.execute(request.clone(), observer).await
        };
        let result = within(self.timeout, began, work).await;
        self.silent = result.as_ref().err().filter(|f| f.class == ErrorClass::Timeout).cloned();
        result
    }

    /// Sends a request, again after failures that may pass, with pauses that double from 40 ms.
    ///
    /// # Errors
    /// The last failure, or [`ErrorClass::Timeout`] after the deadline of all attempts together.
    pub async fn insist(&mut self, request: Request<'_>) -> Result<Reply, Failure> {
        insist(self.connection.as_mut(), request, self.timeout).await
    }
}

/// Sends a request as [`Background::insist`] does, on any connection.
///
/// # Errors
/// As [`Background::insist`].
pub async fn insist(
    connection: &mut dyn Connection,
    request: Request<'_>,
    timeout: Duration,
) -> Result<Reply, Failure> {
    let began = now_ns();
    let mut last = None;
    let attempts = async {
        for attempt in 1..=ATTEMPTS {
            let failure = match connection.execute(request.clone(), &mut Ignore).await {
                Err(failure) if failure.is_retryable() && attempt < ATTEMPTS => failure,
                result => return result,
            };
            // A server that refuses connections twice does not come up within seconds.
            if matches!(failure.class, ErrorClass::Connect) && attempt > 1 {
                return Err(failure);
            }
            last = Some(failure);
            pause(attempt).await;
        }
        Err(expired(timeout, began))
    };
    let result = within(timeout, began, attempts).await;
    match (result, last) {
        // The last failure is more informative than the timeout.
        (Err(failure), Some(last)) if failure.class == ErrorClass::Timeout => {
            Err(Failure { message: format!("{}; {last}", failure.message), ..failure })
        }
        (result, _) => result,
    }
}

/// Waits 40 ms after the first attempt, twice as long after each further one.
async fn pause(attempt: u32) {
    if let Ok(mut timer) = Timer::new() {
        let _ = timer.until(now_ns() + ((20 * MILLISECOND) << attempt)).await;
    }
}

async fn within(
    timeout: Duration,
    began_ns: u64,
    work: impl Future<Output = Result<Reply, Failure>>,
) -> Result<Reply, Failure> {
    let Ok(mut timer) = Timer::new() else { return work.await };
    tokio::select! {
        biased;
        result = work => result,
        _ = timer.until(began_ns + timeout.as_nanos() as u64) => Err(expired(timeout, began_ns)),
    }
}

fn expired(timeout: Duration, began_ns: u64) -> Failure {
    let timings = Timings { start_ns: began_ns, end_ns: now_ns(), ..Timings::default() };
    let message = format!("no answer within {} s (--timeout)", timeout.as_secs_f64());
    Failure::new(ErrorClass::Timeout, message, timings)
}

/// Refuses a page with keys outside the prefix that was asked for.
///
/// # Errors
/// A sentence that names the first such key.
pub fn within_prefix(page: &Listing, prefix: &str) -> Result<(), String> {
    match page.objects.iter().find(|object| !object.key.starts_with(prefix)) {
        None => Ok(()),
        Some(foreign) => Err(format!(
            "the store lists '{}' for prefix '{prefix}'; it does not filter by prefix, so nothing is written or deleted",
            foreign.key
        )),
    }
}

/// Most pages without a key that may follow each other; stores skip over deleted keys in this way.
const MOST_EMPTY_PAGES: u32 = 1_000;

/// Detects listings without end: a token that repeats, or too many pages in a row without an entry.
pub struct Tokens {
    empty: u32,
    /// Brent's cycle detection: a token is compared with one remembered at the last power of two.
    remembered: String,
    since: u64,
    power: u64,
}

impl Default for Tokens {
    fn default() -> Tokens {
        Tokens { empty: 0, remembered: String::new(), since: 0, power: 1 }
    }
}

impl Tokens {
    /// Checks the token of the next page; `empty` is true if the page before it has no entry.
    ///
    /// # Errors
    /// A sentence, if the listing has no end.
    pub fn advance(&mut self, next: &str, empty: bool) -> Result<(), String> {
        self.empty = if empty { self.empty + 1 } else { 0 };
        if self.empty >= MOST_EMPTY_PAGES {
            return Err(format!("the listing has no end: {MOST_EMPTY_PAGES} pages in a row hold no key"));
        }
        if next == self.remembered {
            return Err("the listing has no end: a continuation token repeats".into());
        }
        self.since += 1;
        if self.since == self.power {
            self.remembered = next.to_string();
            (self.since, self.power) = (0, self.power * 2);
        }
        Ok(())
    }
}

/// A listing, page by page. It refuses keys outside the prefix and listings without end.
pub struct Pages<'a> {
    prefix: &'a str,
    /// Token of the next page; `None` after the last.
    token: Option<String>,
    tokens: Tokens,
    /// The last key so far, if keys must come in their order.
    ascending: Option<String>,
}

impl<'a> Pages<'a> {
    /// The listing of all keys that begin with `prefix`.
    pub fn new(prefix: &'a str) -> Pages<'a> {
        Pages { prefix, token: Some(String::new()), tokens: Tokens::default(), ascending: None }
    }

    /// The same listing, which must bring its keys in ascending order if `ordered`, so that none comes twice.
    pub fn ascending(self, ordered: bool) -> Pages<'a> {
        Pages { ascending: ordered.then(String::new), ..self }
    }

    /// The next page; `None` after the last.
    ///
    /// # Errors
    /// If the store refuses, or its answer cannot be true.
    pub async fn next(&mut self, background: &mut Background) -> Result<Option<Listing>, Failure> {
        let Some(token) = self.token.take() else { return Ok(None) };
        let request = Request::List { prefix: self.prefix, start_after: "", token: &token, max_keys: 1000 };
        let reply = background.insist(request).await?;
        let page = reply.listing.unwrap_or_default();
        let wrong = |message| Failure::new(ErrorClass::Corrupt, message, reply.timings);
        within_prefix(&page, self.prefix).map_err(wrong)?;
        if let Some(next) = &page.next_token {
            self.tokens.advance(next, page.objects.is_empty()).map_err(wrong)?;
        }
        if let (Some(last), Some(first)) = (&mut self.ascending, page.objects.first()) {
            if !last.is_empty() && first.key <= *last {
                return Err(wrong(format!("the listing has no end: '{}' comes after '{last}'", first.key)));
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

    /// Follows a listing whose tokens are given, and returns after how many pages it was refused.
    fn refused_after(tokens: impl Iterator<Item = String>, empty: bool) -> Option<usize> {
        let mut pages = Tokens::default();
        tokens.enumerate().find_map(|(i, token)| pages.advance(&token, empty).err().map(|_| i))
    }

    /// A server that sent the same token again kept `clean` listing for ever.
    #[test]
    fn a_repeating_token_ends_the_listing() {
        assert_eq!(refused_after(std::iter::repeat_n("t".to_string(), 10), false), Some(1));
        for cycle in [2, 3, 7, 100] {
            let tokens = (0..10_000).map(|i| (i % cycle).to_string());
            let after = refused_after(tokens, false).expect("a cycle is found");
            assert!(after < 4 * cycle + 4, "{cycle}: {after}");
        }
    }

    #[test]
    fn pages_without_keys_end_the_listing() {
        let endless = (0..).map(|i: u64| i.to_string());
        assert_eq!(refused_after(endless, true), Some(MOST_EMPTY_PAGES as usize - 1));
    }

    #[test]
    fn a_listing_with_ever_new_tokens_goes_on() {
        assert_eq!(refused_after((0..100_000).map(|i| i.to_string()), false), None);
    }
}
