//! Checks of what applications need, one file for each kind.

pub mod bucket;
pub mod conditions;
pub mod content;
pub mod deletes;
pub mod listings;
pub mod multipart;
pub mod reads;
pub mod uploads;
pub mod visibility;
pub mod writes;
