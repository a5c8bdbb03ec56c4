//! Settings of a scan of Parquet files.

/// Names of the readers.
pub const READERS: [&str; 2] = ["duckdb", "pyarrow"];

/// A scan: who reads which columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scan {
    /// Program whose requests are computed.
    pub reader: Reader,
    /// Names of the columns that are read; empty for all. A nested column is read with all its parts.
    pub select: Vec<String>,
}

/// A program that reads Parquet files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// `read_parquet` of DuckDB, with one thread.
    DuckDb,
    /// `pyarrow.parquet.read_table` of Apache Arrow.
    PyArrow,
}

impl Reader {
    /// Returns the reader with a name of [`READERS`]; `None` for other names.
    pub fn of(name: &str) -> Option<Reader> {
        match name {
            "duckdb" => Some(Reader::DuckDb),
            "pyarrow" => Some(Reader::PyArrow),
            _ => None,
        }
    }

    /// Returns the name of the reader.
    pub fn name(self) -> &'static str {
        match self {
            Reader::DuckDb => "duckdb",
            Reader::PyArrow => "pyarrow",
        }
    }
}
