//! Sentences and cells of reports, shared by the terminal, HTML and Markdown.

pub mod addresses;
pub mod answer;
pub mod cache;
pub mod capacity;
pub mod confidence;
pub mod contention;
pub mod cost;
pub mod objectives;
pub mod percentile;
pub mod ramp;
pub mod remarks;
pub mod sizes;
pub mod sweep;
