//! Shows results: the terminal table, JSON, and the files of the run directory. One file per form; each works from
//! `result.json` or from the recorder's rows alone, so any report can be made again without measuring again.

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
