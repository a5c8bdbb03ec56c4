//! `service.hlog` and, for open loops, `response.hlog`: interval logs for HdrHistogram's own tools, with one
//! line per second, store, phase and operation. Values are microseconds; the maximum of a line is in
//! milliseconds; the tag is store, phase and operation.

use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use plimsoll_base::files;

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};

use super::{Exporter, Run, named};
use plimsoll_judge::run_dir::environment::read_environment;
use plimsoll_judge::run_dir::read::{Interval, intervals};
use plimsoll_recorder::histogram::Latencies;
use plimsoll_recorder::latency::Latency;

/// Exporter of HdrHistogram interval logs.
pub struct Hlog;

/// Returns the tag of a row, with commas and white space, which a tag must not contain, replaced by underscores.
fn tag(row: &Interval) -> String {
    let text = format!("{}/{}/{}", row.store, row.phase, row.operation);
    text.chars().map(|c| if c == ',' || c.is_whitespace() { '_' } else { c }).collect()
}

fn write(
    file: &Path,
    rows: &[Interval],
    origin_unix_s: f64,
    which: fn(&Interval) -> &Latencies,
) -> io::Result<()> {
    let mut out = BufWriter::new(files::create(file).map_err(named(file))?);
    let mut serializer = V2DeflateSerializer::new();
    let origin = SystemTime::UNIX_EPOCH + Duration::from_secs_f64(origin_unix_s.max(0.0));
    let mut writer = IntervalLogWriterBuilder::new()
        .with_start_time(origin)
        .with_base_time(origin)
        .with_max_value_divisor(1000.0)
        .begin_log_with(&mut out, &mut serializer)
        .map_err(named(file))?;
    for row in rows {
        let Some(histogram) = which(row).histogram() else { continue };
        let text = tag(row);
        writer
            .write_histogram(
                histogram,
                Duration::from_secs(row.second),
                Duration::from_secs(1),
                Tag::new(&text),
            )
            .map_err(|e| io::Error::other(format!("{}: {e:?}", file.display())))?;
    }
    io::Write::flush(&mut out).map_err(named(file))
}

impl Exporter for Hlog {
    fn export(&self, run: &Run, to: &Path) -> io::Result<Vec<PathBuf>> {
        let rows = intervals(&run.path)?;
        let origin = read_environment(&run.path).map_or(0.0, |e| e.origin_unix_s);
        let mut out = vec![to.join("service.hlog")];
        write(&out[0], &rows, origin, |row| &row.tally.latencies[Latency::Service])?;
        if rows.iter().any(|row| !row.tally.latencies[Latency::Response].is_empty()) {
            out.push(to.join("response.hlog"));
            write(&out[1], &rows, origin, |row| &row.tally.latencies[Latency::Response])?;
        }
        Ok(out)
    }
}
