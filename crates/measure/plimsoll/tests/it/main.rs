//! Integration tests, one module per subject. They form a single program, so that the dependencies are linked once.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "tests report what they skip")]

mod support;

mod audit;
mod budget;
mod caches;
mod cli;
mod consistency;
mod copies;
mod cost;
mod damaged;
mod decisions;
mod edge;
mod endpoints;
mod experiments;
mod express;
mod fleet;
mod fuzz;
mod history;
mod hostile;
mod import;
mod joints;
mod judge;
mod limits;
mod log_costs;
mod plans;
mod price_books;
mod probe;
mod prose;
mod ranges;
mod regression;
mod replay;
mod resume;
mod schema;
mod server;
mod server_versions;
mod shards;
mod stores;
mod sync;
mod truth;
mod uploads;
mod verify;
mod web;
mod wire;
mod ycsb;
