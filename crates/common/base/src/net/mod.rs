//! The network layer of all HTTP stores: timed connections, TLS, percent-encoding, and the context of credential
//! chains.

mod cells;
pub mod chain;
pub mod client_limits;
pub mod connection;
pub mod encode;
pub mod fetch;
pub mod http1;
pub mod lasting_port;
pub mod socket;
pub mod stamps;
pub mod tls;
