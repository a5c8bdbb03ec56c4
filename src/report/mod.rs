//! Reports: terminal tables, HTML pages, JUnit XML and exports. Each works from the files of a run directory
//! alone, so a report can be created again without another measurement.

pub mod comparison;
pub mod decisions;
pub mod document;
pub mod export;
pub mod html;
pub mod junit;
pub mod loops;
pub mod page;
pub mod terminal;
pub mod ycsb;
