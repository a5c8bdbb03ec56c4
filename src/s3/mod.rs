//! The S3 wire: what client and server must agree on to the byte, each written once.
//!
//! Signing, checksums, XML and errors are pure functions over bytes. Neighbours: `store::s3` builds operations from it, `server` answers them with it. It
//! knows nothing of phases, histograms or stored objects.

pub mod checksum;
pub mod chunked;
pub mod credentials;
pub mod endpoint;
pub mod error;
pub mod integrity;
pub mod message;
pub mod number;
pub mod sign;
pub mod xml;
