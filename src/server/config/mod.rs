//! Configuration documents of buckets and objects: tags, CORS rules and lifecycle rules, as XML and as types.

pub mod cors;
pub mod lifecycle;
pub mod tags;
