//! The tariff of the place of a backup.

use std::path::PathBuf;

use jiff::tz::TimeZone;
use plimsoll_base::clock::wall_now;
use plimsoll_cost::book::read_prices;
use plimsoll_cost::tariff::Tariff;

use plimsoll_bodies::pricing::of_tier;
use plimsoll_bodies::tier::{Backend, TierTable};
use plimsoll_catalog::log::note;

/// Returns the tariff of the place of a backup; `None` if it has no known price, which is reported if the settings
/// have an offer.
pub fn tariff(prices: &[PathBuf], table: &TierTable, backend: &Backend) -> Option<Tariff> {
    let today = wall_now().to_zoned(TimeZone::UTC).date();
    let books = read_prices(prices).ok()?;
    match of_tier(&books, table, backend, today) {
        Ok(found) => found.map(|found| found.tariff),
        Err(error) => {
            if table.offer.is_some() {
                note(&format!("backup: {}; its costs are not counted", renamed(error)));
            }
            None
        }
    }
}

/// Returns a message about prices, which names the options of `plimsoll cost`, with those of the settings file.
pub fn renamed(message: String) -> String {
    message.replace("with --prices FILE", "in a file of [prices]")
}
