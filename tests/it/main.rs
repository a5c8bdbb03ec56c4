//! Integration tests, one module per subject. They form a single program, so that the dependencies are linked once.

mod support;

mod bills;
mod budget;
mod cli;
mod consistency;
mod cost;
mod damaged;
mod decisions;
mod edge;
mod experiments;
mod express;
mod fleet;
mod fuzz;
mod hostile;
mod import;
mod judge;
mod layering;
mod limits;
mod plans;
mod price_books;
mod probe;
mod prose;
mod replay;
mod resume;
mod schema;
mod server;
mod shards;
mod signing;
mod stores;
mod sync;
mod truth;
mod uploads;
mod web;
mod wire;
mod ycsb;
