//! Columns of flat Parquet files, read by name and in batches.

use std::collections::HashMap;
use std::fs::File;

use parquet::basic::{ConvertedType, LogicalType, TimeUnit};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType, Int96};
use parquet::errors::Result;
use parquet::file::reader::{FileReader, RowGroupReader};
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::schema::types::ColumnDescPtr;

/// Maximum number of rows in a batch.
const BATCH: usize = 8_192;

/// Values of a column, by row; `None` where the row has none.
#[derive(Debug, Clone, PartialEq)]
pub enum Column {
    /// Numbers. Timestamps are in seconds since 1970, and booleans are 0 or 1.
    Numbers(Vec<Option<f64>>),
    /// Texts, or other bytes.
    Texts(Vec<Option<ByteArray>>),
    /// Values of another type, whose name is given.
    Other(String),
}

/// Consecutive rows of a file.
#[derive(Debug, Default)]
pub struct RowBatch {
    /// Number of rows.
    pub rows: usize,
    columns: HashMap<&'static str, Column>,
}

impl RowBatch {
    /// Returns a column; `None` if the file does not have it.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.get(name)
    }
}

/// A column of the file that is being read.
struct Source {
    name: &'static str,
    reader: ColumnReader,
    descriptor: ColumnDescPtr,
}

/// Returns the length in seconds of one unit of an integer column: that of a timestamp, otherwise 1.
fn unit(descriptor: &ColumnDescPtr) -> f64 {
    match (descriptor.logical_type_ref(), descriptor.converted_type()) {
        (Some(LogicalType::Timestamp(of)), _) => match of.unit {
            TimeUnit::MILLIS => 1e-3,
            TimeUnit::MICROS => 1e-6,
            TimeUnit::NANOS => 1e-9,
        },
        (_, ConvertedType::TIMESTAMP_MILLIS) => 1e-3,
        (_, ConvertedType::TIMESTAMP_MICROS) => 1e-6,
        _ => 1.0,
    }
}

/// Reads up to `count` values of a column and converts them.
fn values<T: DataType, V>(
    reader: &mut ColumnReaderImpl<T>,
    descriptor: &ColumnDescPtr,
    count: usize,
    convert: impl Fn(T::T) -> V,
) -> Result<Vec<Option<V>>> {
    let (mut present, mut out) = (Vec::new(), Vec::new());
    let mut levels = Vec::new();
    while out.len() < count {
        present.clear();
        levels.clear();
        let (rows, ..) = reader.read_records(count - out.len(), Some(&mut levels), None, &mut present)?;
        if rows == 0 {
            break;
        }
        let mut next = present.drain(..).map(&convert);
        match descriptor.max_def_level() {
            0 => out.extend(next.map(Some)),
            defined => {
                out.extend(levels.iter().map(|level| (*level == defined).then(|| next.next()).flatten()))
            }
        }
    }
    Ok(out)
}

impl Source {
    /// Returns the next `count` values, or fewer at the end of the row group.
    fn next(&mut self, count: usize) -> Result<Column> {
        let descriptor = &self.descriptor;
        let (scale, kind) = (unit(descriptor), descriptor.converted_type());
        let number = |values: Vec<Option<f64>>| Ok(Column::Numbers(values));
        match &mut self.reader {
            ColumnReader::Int32ColumnReader(r) if kind == ConvertedType::UINT_32 => {
                number(values(r, descriptor, count, |v| f64::from(v as u32))?)
            }
            ColumnReader::Int32ColumnReader(r) if !matches!(kind, ConvertedType::DECIMAL) => {
                number(values(r, descriptor, count, f64::from)?)
            }
            ColumnReader::Int64ColumnReader(r) if kind == ConvertedType::UINT_64 => {
                number(values(r, descriptor, count, |v| v as u64 as f64)?)
            }
            ColumnReader::Int64ColumnReader(r) if !matches!(kind, ConvertedType::DECIMAL) => {
                number(values(r, descriptor, count, |v| v as f64 * scale)?)
            }
            ColumnReader::BoolColumnReader(r) => {
                number(values(r, descriptor, count, |v| f64::from(u8::from(v)))?)
            }
            ColumnReader::Int96ColumnReader(r) => {
                number(values(r, descriptor, count, |v: Int96| v.to_nanos() as f64 * 1e-9)?)
            }
            ColumnReader::FloatColumnReader(r) => number(values(r, descriptor, count, f64::from)?),
            ColumnReader::DoubleColumnReader(r) => number(values(r, descriptor, count, |v| v)?),
            ColumnReader::ByteArrayColumnReader(r) if kind != ConvertedType::DECIMAL => {
                Ok(Column::Texts(values(r, descriptor, count, |v| v)?))
            }
            _ => Ok(Column::Other(format!("{} ({kind})", descriptor.physical_type()))),
        }
    }
}

/// Opens the columns of a row group that have one of the names.
fn open(group: &dyn RowGroupReader, names: &[&'static str]) -> Result<Vec<Source>> {
    let described = group.metadata().schema_descr();
    let flat = |column: &ColumnDescPtr| column.path().parts().len() == 1 && column.max_rep_level() == 0;
    let mut out = Vec::new();
    for (index, descriptor) in described.columns().iter().enumerate().filter(|(_, column)| flat(column)) {
        if let Some(name) = names.iter().find(|name| **name == descriptor.name()) {
            let reader = group.get_column_reader(index)?;
            out.push(Source { name, reader, descriptor: descriptor.clone() });
        }
    }
    Ok(out)
}

/// Reads the columns with these names, and passes their rows to `consume` in batches. Columns of nested types and
/// columns with other names are ignored.
///
/// # Errors
/// Returns the error of `consume`, or a failure to read the file.
pub fn read<E>(
    file: File,
    names: &[&'static str],
    failed: impl Fn(parquet::errors::ParquetError) -> E,
    mut consume: impl FnMut(&RowBatch) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let reader = SerializedFileReader::new(file).map_err(&failed)?;
    for index in 0..reader.num_row_groups() {
        let group = reader.get_row_group(index).map_err(&failed)?;
        let mut sources = open(group.as_ref(), names).map_err(&failed)?;
        let mut left = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
        while left > 0 {
            let mut batch = RowBatch { rows: left.min(BATCH), columns: HashMap::new() };
            for source in &mut sources {
                let column = source.next(batch.rows).map_err(&failed)?;
                let found = match &column {
                    Column::Numbers(values) => values.len(),
                    Column::Texts(values) => values.len(),
                    Column::Other(_) => batch.rows,
                };
                if found != batch.rows {
                    let problem = format!("the column {} has fewer rows than the file", source.name);
                    return Err(failed(parquet::errors::ParquetError::General(problem)));
                }
                batch.columns.insert(source.name, column);
            }
            consume(&batch)?;
            left -= batch.rows;
        }
    }
    Ok(())
}
