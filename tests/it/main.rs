//! Integration tests in one program, so that the dependencies are linked once. One module per subject.

mod support;

mod bills;
mod budget;
mod cli;
mod cost;
mod damaged;
mod decisions;
mod experiments;
mod express;
mod fuzz;
mod hostile;
mod import;
mod judge;
mod layering;
mod limits;
mod plans;
mod price_books;
mod probe;
mod resume;
mod schema;
mod server;
mod shards;
mod signing;
mod stores;
mod sync;
mod uploads;
mod web;
mod wire;
mod ycsb;
