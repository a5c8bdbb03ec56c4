//! Runs of a directory over time: their summaries, figures and change points.

pub mod changes;
pub mod entry;
pub mod reference;
