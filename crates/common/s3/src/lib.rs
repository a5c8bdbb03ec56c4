//! The S3 wire format, shared by the client of the engine, the server and the gateway.
//!
//! Signing, checksums, XML and errors are pure functions over bytes; [`url`] parses the URLs of stores. This crate
//! opens no connection and knows neither phases nor stored objects.

pub mod azure;
pub mod checksum;
pub mod chunked;
pub mod credentials;
pub mod endpoint;
pub mod error;
pub mod integrity;
pub mod message;
pub mod number;
pub mod sign;
pub mod url;
pub mod xml;
