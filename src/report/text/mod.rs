//! Sentences and cells of reports, shared by the terminal, HTML and Markdown.

pub mod confidence;
pub mod cost;
pub mod knee;
pub mod percentile;
pub mod ramp;
pub mod remarks;
