//! A durable S3 object store over a directory or several tiers: the S3 protocol of the instrument over a log-structured
//! catalog and blobs.

pub mod adoption;
pub mod age;
pub mod alerts;
pub mod ambient;
pub mod background;
pub mod backup;
pub mod blocking;
pub mod body;
pub mod catalog;
pub mod certificate;
pub mod cli;
pub mod config;
pub mod disk;
pub mod ending;
pub mod guard;
pub mod journal;
pub mod lease;
pub mod listing;
pub mod liveness;
pub mod log;
pub mod metrics;
pub mod migrate;
pub mod mover;
pub mod object;
pub mod overview;
pub mod owner;
pub mod plan;
pub mod pricing;
pub mod queues;
pub mod reattach;
pub mod scrub;
pub mod sweep;
pub mod threads;
pub mod tier;
pub mod whereabouts;

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod testing;
