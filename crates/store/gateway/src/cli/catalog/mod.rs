//! `plimsoll-gateway catalog`: commands for the catalog as a whole.

pub mod migrate;

use clap::Subcommand;

/// Commands for the catalog as a whole.
#[derive(Debug, Subcommand)]
pub enum CatalogCommand {
    /// Move the catalog to the place in other settings, from a directory to a database or back, while gateways run
    Migrate(migrate::Arguments),
}
