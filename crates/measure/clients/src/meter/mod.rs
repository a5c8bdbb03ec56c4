//! Metering of S3 clients: a local endpoint that counts the requests of a command.

pub mod child;
pub mod counter;
pub mod endpoint;
pub mod upstream;
pub mod words;
