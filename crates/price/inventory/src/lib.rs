//! Listings of buckets, in one reader: inventories of S3 and Google Cloud Storage in CSV, ORC or Parquet, tables, and
//! the output of `aws s3 ls`. Uses `base`; `bills` counts the objects, `maintenance` plans their moves, and `audit`
//! reads columns of Parquet files with it.

pub mod columns;
mod csv;
mod error;
mod files;
mod listed;
mod listing_file;
mod manifest;
pub mod names;
mod orc;
mod parquet;
mod read;
mod text;

pub use self::error::InventoryError;
pub use self::listed::{Listed, Modified, Receive};
pub use self::read::read;
