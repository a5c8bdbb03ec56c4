//! Configuration documents of buckets and objects: tags, access control lists, CORS rules and lifecycle rules, as XML
//! and as types.

pub mod acl;
pub mod cors;
pub mod lifecycle;
pub mod tags;
