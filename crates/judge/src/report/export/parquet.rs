//! `intervals.parquet` and, if operations were recorded, `operations.parquet`, with the columns of the Arrow streams.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

use super::{Exporter, Run, named};
use crate::run_dir::read::batches;

/// Exporter of Parquet files with Snappy compression.
pub struct Parquet;

fn convert(from: &Path, to: &Path) -> io::Result<()> {
    let all = batches(from)?;
    let Some(first) = all.first() else { return Ok(()) };
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let file = File::create(to).map_err(named(to))?;
    let mut writer =
        ArrowWriter::try_new(file, first.schema(), Some(properties)).map_err(io::Error::other)?;
    for batch in &all {
        writer.write(batch).map_err(io::Error::other).map_err(named(to))?;
    }
    writer.close().map_err(io::Error::other).map_err(named(to))?;
    Ok(())
}

impl Exporter for Parquet {
    fn export(&self, run: &Run, to: &Path) -> io::Result<Vec<PathBuf>> {
        let mut out = Vec::new();
        for name in ["intervals", "operations"] {
            let from = run.path.join(format!("{name}.arrows"));
            if name == "operations" && !from.exists() {
                continue;
            }
            let file = to.join(format!("{name}.parquet"));
            convert(&from, &file)?;
            out.push(file);
        }
        Ok(out)
    }
}
