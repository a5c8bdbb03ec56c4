//! Reports: terminal tables, HTML pages, JUnit XML and exports. A report of a run needs only the files of its run
//! directory, so it can be created again without another measurement. Uses `judge`, `audit` and `bills`; only
//! `plimsoll` uses it.

pub mod appendix;
pub mod clients;
pub mod comparison;
pub mod decisions;
pub mod dry_run;
pub mod export;
pub mod history;
pub mod html;
pub mod junit;
pub mod loops;
pub mod shell;
pub mod site;
pub mod terminal;
pub mod text;
pub mod ycsb;
