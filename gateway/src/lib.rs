//! A durable S3 object store on one machine.

pub mod blocking;
pub mod catalog;
pub mod disk;

#[cfg(test)]
mod testing;
