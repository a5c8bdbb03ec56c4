//! Handlers: what a server does with each request.

use std::io;
use std::sync::Arc;

pub use http::{Method, Request};
pub use hyper::body::Incoming;

use super::ServerState;
use super::error::{ApiError, ErrorCode};
use super::exchange::Exchange;
use super::forward::Forward;
use super::response::ServerResponse;
use super::service::ObjectService;
use super::timestamps::ConnectionTimestamps;

/// Component that answers the requests of all connections.
pub trait Handler: Send + Sync + 'static {
    /// Returns true if answers depend on the times at which requests arrive.
    fn needs_times(&self) -> bool {
        false
    }

    /// Answers one request.
    ///
    /// # Errors
    /// Returns an error to break the connection.
    fn handle(
        &self,
        shared: &Arc<ServerState>,
        stamps: &ConnectionTimestamps,
        request: Request<Incoming>,
    ) -> impl Future<Output = io::Result<ServerResponse>>;
}

/// Handler that executes every request on a service.
pub struct Plain<S>(pub Arc<S>);

impl<S: ObjectService> Handler for Plain<S> {
    async fn handle(
        &self,
        shared: &Arc<ServerState>,
        stamps: &ConnectionTimestamps,
        request: Request<Incoming>,
    ) -> io::Result<ServerResponse> {
        let mut exchange = Exchange::begin(shared, stamps, request);
        let answer = exchange.execute(shared, &*self.0, stamps).await;
        exchange.finish(shared, stamps, &answer);
        Ok(answer)
    }
}

/// Handler that executes nothing, and answers every request with status 503 and a text.
pub struct Refusing(pub &'static str);

impl Handler for Refusing {
    async fn handle(
        &self,
        shared: &Arc<ServerState>,
        stamps: &ConnectionTimestamps,
        request: Request<Incoming>,
    ) -> io::Result<ServerResponse> {
        let mut exchange = Exchange::begin(shared, stamps, request);
        let answer = exchange.refuse(ApiError::with(ErrorCode::ServiceUnavailable, self.0)).await;
        exchange.finish(shared, stamps, &answer);
        Ok(answer)
    }
}

/// Handler that verifies every request and passes it on.
pub struct Forwarding<F>(pub Arc<F>);

impl<F: Forward> Handler for Forwarding<F> {
    async fn handle(
        &self,
        shared: &Arc<ServerState>,
        stamps: &ConnectionTimestamps,
        request: Request<Incoming>,
    ) -> io::Result<ServerResponse> {
        let mut exchange = Exchange::begin(shared, stamps, request);
        let answer = exchange.forward(shared, &*self.0, stamps).await;
        exchange.finish(shared, stamps, &answer);
        Ok(answer)
    }
}
