//! Access tokens that are renewed before they expire.
//!
//! Renewals run on a separate thread, one at a time, while requests continue to use the token that is still valid.

use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use plimsoll_base::clock::{now_ns, wall_now};
use plimsoll_recorder::store_facts::{BackgroundRequest, BackgroundRequestKind};

use crate::store::Local;

/// An access token with its expiry time.
#[derive(Debug)]
pub struct Token {
    /// Value of the `Authorization` header.
    pub header: String,
    /// Expiry time in Unix seconds; `None` if the token does not expire.
    pub expires_at_s: Option<i64>,
}

/// A function that obtains a token from the credential chain of a provider.
pub type LoadToken<E> = fn() -> Local<'static, Result<Token, E>>;

/// The current token, shared by all connections of a store.
pub struct Tokens {
    current: RwLock<Arc<Token>>,
    renewing: AtomicBool,
    background_requests: Mutex<Vec<BackgroundRequest>>,
    load: Box<dyn Fn() -> Result<Token, String> + Send + Sync>,
}

/// Time before expiry at which a token is renewed, in seconds.
const MARGIN_S: i64 = 300;

impl Tokens {
    /// Obtains the first token.
    ///
    /// # Errors
    /// The errors of `load`.
    pub async fn begin<E: Display + 'static>(load: LoadToken<E>) -> Result<Arc<Tokens>, E> {
        let began_ns = now_ns();
        let token = load().await?;
        Ok(Arc::new(Tokens {
            current: RwLock::new(Arc::new(token)),
            renewing: AtomicBool::new(false),
            background_requests: Mutex::new(vec![request(began_ns, None)]),
            load: Box::new(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let runtime = runtime.map_err(|error| error.to_string())?;
                runtime.block_on(load()).map_err(|error| error.to_string())
            }),
        }))
    }

    /// Returns the value of the `Authorization` header, and starts a renewal if one is due.
    pub fn header(self: &Arc<Tokens>) -> String {
        let token = Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner));
        let due = token.expires_at_s.is_some_and(|expires| expires - MARGIN_S <= wall_now().as_second());
        if due && !self.renewing.swap(true, Ordering::AcqRel) {
            let tokens = Arc::clone(self);
            let renewal = move || tokens.renew();
            if std::thread::Builder::new().name("token".into()).spawn(renewal).is_err() {
                self.renewing.store(false, Ordering::Release);
            }
        }
        token.header.clone()
    }

    fn renew(&self) {
        let began_ns = now_ns();
        let error = match (self.load)() {
            Ok(token) => {
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(token);
                None
            }
            Err(error) => Some(error),
        };
        let request = request(began_ns, error);
        self.background_requests.lock().unwrap_or_else(PoisonError::into_inner).push(request);
        self.renewing.store(false, Ordering::Release);
    }

    /// Returns the requests made for tokens so far.
    pub fn calls(&self) -> Vec<BackgroundRequest> {
        self.background_requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Returns a request for a token that ends now.
fn request(began_ns: u64, error: Option<String>) -> BackgroundRequest {
    let took_ns = now_ns() - began_ns;
    BackgroundRequest { kind: BackgroundRequestKind::Token, began_ns, took_ns, error }
}
