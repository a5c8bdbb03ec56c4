//! What every store that is reached by HTTP stands on: timed connections, TLS, percent-encoding, the surroundings of credential chains.

pub mod chain;
pub mod connection;
pub mod encode;
mod fetch;
pub mod limits;
pub mod tls;
