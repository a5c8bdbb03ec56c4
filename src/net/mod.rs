//! What every store that is reached by HTTP stands on: timed connections, TLS, percent-encoding.

pub mod connection;
pub mod encode;
pub mod tls;
