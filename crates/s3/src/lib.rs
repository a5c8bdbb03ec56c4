//! The S3 wire format, shared by the client and the embedded server.
//!
//! Signing, checksums, XML and errors are pure functions over bytes: `store::s3` builds requests from them, and
//! `server` answers requests with them. This module does not depend on phases, histograms or stored objects.

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
