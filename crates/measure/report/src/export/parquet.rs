//! `windows.parquet` with one row per window; `intervals.parquet` and, if operations were recorded,
//! `operations.parquet`, with the columns of the Arrow streams. The intervals have further columns: the time,
//! percentiles, and the values of a sweep.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plimsoll_base::files;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, TimestampMicrosecondType, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrowPrimitiveType, RecordBatch};
use arrow_schema::{DataType, Schema, TimeUnit as ArrowUnit};
use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::data_type::{self, ByteArray};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};

use super::columns::{batch, of_intervals, windows};
use super::{Exporter, Run, named};
use plimsoll_judge::run_dir::read::{batches, intervals};

/// Exporter of Parquet files with Snappy compression.
pub struct Parquet;

/// Maximum number of rows in a row group.
const GROUP_ROWS: usize = 1 << 20;

/// Returns the Parquet type of a column of a log.
fn column_type(field: &arrow_schema::Field) -> Result<TypePtr> {
    let (physical, logical) = match field.data_type() {
        DataType::UInt32 => (Physical::INT32, Some(LogicalType::integer(32, false))),
        DataType::UInt64 => (Physical::INT64, Some(LogicalType::integer(64, false))),
        DataType::Float64 => (Physical::DOUBLE, None),
        DataType::Boolean => (Physical::BOOLEAN, None),
        DataType::Timestamp(ArrowUnit::Microsecond, _) => {
            (Physical::INT64, Some(LogicalType::timestamp(true, TimeUnit::MICROS)))
        }
        DataType::Utf8 | DataType::Dictionary(..) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        DataType::Binary => (Physical::BYTE_ARRAY, None),
        other => return Err(ParquetError::NYI(format!("the column {} is of type {other}", field.name()))),
    };
    let repetition = if field.is_nullable() { Repetition::OPTIONAL } else { Repetition::REQUIRED };
    let column = Type::primitive_type_builder(field.name(), physical);
    column.with_logical_type(logical).with_repetition(repetition).build().map(Arc::new)
}

/// Writes the values of a column; those of rows without a value are ignored.
fn write<T: data_type::DataType>(
    writer: &mut SerializedColumnWriter<'_>,
    column: &dyn Array,
    nullable: bool,
    value: impl Fn(usize) -> T::T,
) -> Result<()> {
    let present = (0..column.len()).filter(|row| column.is_valid(*row));
    let values: Vec<T::T> = present.map(value).collect();
    let levels: Vec<i16> = (0..column.len()).map(|row| i16::from(column.is_valid(row))).collect();
    writer.typed::<T>().write_batch(&values, nullable.then_some(&levels), None)?;
    Ok(())
}

/// Writes the numbers of a column.
fn write_numbers<T: data_type::DataType, A: ArrowPrimitiveType>(
    writer: &mut SerializedColumnWriter<'_>,
    column: &dyn Array,
    nullable: bool,
    convert: fn(A::Native) -> T::T,
) -> Result<()> {
    let numbers = column.as_primitive::<A>();
    write::<T>(writer, column, nullable, |row| convert(numbers.value(row)))
}

/// Writes the part of a column that is in one batch.
fn write_part(writer: &mut SerializedColumnWriter<'_>, column: &dyn Array, nullable: bool) -> Result<()> {
    use data_type::{BoolType, ByteArrayType, DoubleType, Int32Type as Int32, Int64Type as Int64};
    match column.data_type() {
        DataType::UInt32 => write_numbers::<Int32, UInt32Type>(writer, column, nullable, |v| v as i32),
        DataType::UInt64 => write_numbers::<Int64, UInt64Type>(writer, column, nullable, |v| v as i64),
        DataType::Float64 => write_numbers::<DoubleType, Float64Type>(writer, column, nullable, |v| v),
        DataType::Timestamp(..) => {
            write_numbers::<Int64, TimestampMicrosecondType>(writer, column, nullable, |v| v)
        }
        DataType::Boolean => {
            let values = column.as_boolean();
            write::<BoolType>(writer, column, nullable, |row| values.value(row))
        }
        DataType::Binary => {
            let values = column.as_binary::<i32>();
            write::<ByteArrayType>(writer, column, nullable, |row| ByteArray::from(values.value(row)))
        }
        DataType::Utf8 => {
            let values = column.as_string::<i32>();
            write::<ByteArrayType>(writer, column, nullable, |row| ByteArray::from(values.value(row)))
        }
        _ => {
            let dictionary = column.as_dictionary::<Int32Type>();
            let texts = dictionary.values().as_string::<i32>();
            let text = |row| texts.value(dictionary.keys().value(row) as usize);
            write::<ByteArrayType>(writer, column, nullable, |row| ByteArray::from(text(row)))
        }
    }
}

/// Writes batches of one schema to a Parquet file.
fn write_file(batches: &[RecordBatch], file: File) -> Result<()> {
    let Some(first) = batches.first() else { return Ok(()) };
    let fields = first.schema();
    let columns = fields.fields().iter().map(|field| column_type(field)).collect::<Result<Vec<_>>>()?;
    let schema = Type::group_type_builder("plimsoll").with_fields(columns).build()?;
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties))?;
    let mut rest = batches;
    while !rest.is_empty() {
        let mut rows = 0;
        let more = rest.iter().take_while(|batch| {
            rows += batch.num_rows();
            rows <= GROUP_ROWS
        });
        // A batch with more rows than that is the only one in its group.
        let (group, after) = rest.split_at(more.count().max(1));
        rest = after;
        let mut groups = writer.next_row_group()?;
        for (index, field) in fields.fields().iter().enumerate() {
            let Some(mut column) = groups.next_column()? else { break };
            for batch in group {
                write_part(&mut column, batch.column(index), field.is_nullable())?;
            }
            column.close()?;
        }
        groups.close()?;
    }
    writer.close()?;
    Ok(())
}

/// Writes batches of one schema to a new Parquet file.
///
/// # Errors
/// If the file cannot be written.
pub(super) fn write_to(path: &Path, batches: &[RecordBatch]) -> io::Result<()> {
    let file = files::create(path).map_err(named(path))?;
    write_file(batches, file).map_err(io::Error::other).map_err(named(path))
}

/// Returns the batches of the interval log with the columns for people.
fn with_columns(run: &Run, batches: Vec<RecordBatch>) -> io::Result<Vec<RecordBatch>> {
    let more = batch(&of_intervals(run, &intervals(&run.path)?)).map_err(io::Error::other)?;
    let Some(more) = more else { return Ok(batches) };
    let mut first = 0;
    let join = |raw: RecordBatch| {
        let added = more.slice(first, raw.num_rows());
        first += raw.num_rows();
        let fields = [raw.schema().fields().to_vec(), added.schema().fields().to_vec()].concat();
        let columns = [raw.columns(), added.columns()].concat();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(io::Error::other)
    };
    batches.into_iter().map(join).collect()
}

impl Exporter for Parquet {
    fn export(&self, run: &Run, to: &Path) -> io::Result<Vec<PathBuf>> {
        let mut out = Vec::new();
        let mut write = |name: &str, batches: Vec<RecordBatch>| {
            let file = to.join(format!("{name}.parquet"));
            if !batches.is_empty() {
                write_to(&file, &batches)?;
                out.push(file);
            }
            io::Result::Ok(())
        };
        write("windows", batch(&windows(run)).map_err(io::Error::other)?.into_iter().collect())?;
        write("intervals", with_columns(run, batches(&run.path.join("intervals.arrows"))?)?)?;
        let operations = run.path.join("operations.arrows");
        if operations.exists() {
            write("operations", batches(&operations)?)?;
        }
        Ok(out)
    }
}
