//! Tests of the store with the work of the background, which uses it.

mod claim;
mod damage;
mod earlier;
mod full_disk;
mod slow_reader;
mod undelete;
