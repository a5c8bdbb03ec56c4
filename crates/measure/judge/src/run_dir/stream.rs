//! Arrow IPC streams of a run directory: files of batches without a footer, so that the file of a killed run
//! can be read.
//!
//! The reader does not trust the file. It compares every length with the rest of the file before it allocates
//! memory, because Arrow's own reader panics on some invalid lengths. It ignores an incomplete message at the
//! end of the file; any other defect is an error that names the file.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_ipc::{self as ipc, root_as_message};
use arrow_schema::{ArrowError, DataType, Schema};

/// Writer of an Arrow stream.
pub(super) struct Stream {
    writer: StreamWriter<File>,
    schema: Arc<Schema>,
}

/// Converts an Arrow error to an I/O error, preserving the operating system's error if there is one.
pub(super) fn to_io(error: ArrowError) -> io::Error {
    match error {
        ArrowError::IoError(_, source) => source,
        other => io::Error::other(other),
    }
}

impl Stream {
    pub(super) fn create(path: &Path, schema: Schema) -> io::Result<Stream> {
        let schema = Arc::new(schema);
        let writer = StreamWriter::try_new(File::create(path)?, &schema).map_err(to_io)?;
        Ok(Stream { writer, schema })
    }

    /// Writes a batch to the file and flushes it.
    pub(super) fn write(&mut self, columns: Vec<ArrayRef>) -> io::Result<()> {
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns).map_err(to_io)?;
        self.writer.write(&batch).and_then(|()| self.writer.flush()).map_err(to_io)
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        self.writer.finish().map_err(to_io)
    }
}

/// Returns an error about a file of a run directory.
pub(super) fn invalid(path: &Path, problem: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{}: {problem}", path.display()))
}

/// Reader of a stream's batches, one by one.
pub(super) struct Batches {
    path: PathBuf,
    reader: StreamReader<Checked<BufReader<File>>>,
}

impl Batches {
    /// Opens a stream. `content` describes the expected content, for error messages.
    ///
    /// # Errors
    /// Fails if the file does not exist or does not begin like a stream of flat columns.
    pub(super) fn open(path: &Path, content: &str) -> io::Result<Batches> {
        let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
        let file = plimsoll_base::files::open(path).map_err(named)?;
        let left = file.metadata().map_err(named)?.len();
        let from = Checked {
            from: BufReader::with_capacity(1 << 18, file),
            left,
            head: Vec::new(),
            given: 0,
            body: 0,
            widths: Vec::new(),
            ended: false,
        };
        let reader = without_panic(path, || StreamReader::try_new(from, None).map_err(to_io))?
            .map_err(|e| invalid(path, format!("not {content} ({e})")))?;
        let flat = |kind: &DataType| {
            kind.is_integer() || matches!(kind, DataType::Float64 | DataType::Utf8 | DataType::Binary)
        };
        let unexpected = reader.schema().fields().iter().find_map(|field| {
            let known = match field.data_type() {
                DataType::Dictionary(key, value) => key.is_integer() && flat(value),
                kind => flat(kind),
            };
            (!known)
                .then(|| format!("not {content} (column {} is of type {})", field.name(), field.data_type()))
        });
        match unexpected {
            Some(problem) => Err(invalid(path, problem)),
            None => Ok(Batches { path: path.to_path_buf(), reader }),
        }
    }

    /// Returns the schema of the stream.
    pub(super) fn schema(&self) -> Arc<Schema> {
        self.reader.schema()
    }

    /// Reads the next batch. Returns `None` at the end of the stream.
    pub(super) fn next(&mut self) -> io::Result<Option<RecordBatch>> {
        let reader = &mut self.reader;
        without_panic(&self.path, || reader.next().transpose().map_err(to_io))?
            .map_err(|e| invalid(&self.path, format!("damaged ({e})")))
    }
}

/// Runs a part of Arrow's reader, and converts a panic to an error that names the file.
fn without_panic<T>(path: &Path, part: impl FnOnce() -> T) -> io::Result<T> {
    catch_unwind(AssertUnwindSafe(part)).map_err(|_| invalid(path, "damaged (its messages are inconsistent)"))
}

/// Wrapper that checks the messages of a stream before Arrow's reader sees them.
struct Checked<R> {
    from: R,
    /// Bytes of the file that have not been read.
    left: u64,
    /// Length and metadata of the current message.
    head: Vec<u8>,
    /// Number of bytes of `head` that were passed on.
    given: usize,
    /// Bytes of the current message's body that were not passed on yet.
    body: u64,
    /// Size of a value, in bytes, of each buffer of a batch.
    widths: Vec<u64>,
    ended: bool,
}

impl<R: Read> Checked<R> {
    /// Adds the next `n` bytes of the file to the head. Returns false if the file is too short.
    fn take(&mut self, n: u64) -> io::Result<bool> {
        if n > self.left {
            return Ok(false);
        }
        let read = (&mut self.from).take(n).read_to_end(&mut self.head)? as u64;
        self.left -= read;
        Ok(read == n)
    }

    /// Returns the last four bytes of the head as a little-endian number.
    fn last_word(&self) -> u32 {
        let word = self.head.last_chunk::<4>().copied().unwrap_or_default();
        u32::from_le_bytes(word)
    }

    /// Reads and checks the next message up to its body. Returns false at the end of the stream or in an
    /// incomplete message.
    fn message(&mut self) -> io::Result<bool> {
        self.head.clear();
        self.given = 0;
        let marked = self.take(4)? && (self.last_word() != u32::MAX || self.take(4)?);
        if !marked || self.last_word() == 0 {
            return Ok(false);
        }
        let before = self.head.len();
        if !self.take(u64::from(self.last_word()))? {
            return Ok(false);
        }
        let wrong = |problem: &str| io::Error::new(io::ErrorKind::InvalidData, problem.to_string());
        let message = root_as_message(&self.head[before..]).map_err(|e| wrong(&e.to_string()))?;
        let body = u64::try_from(message.bodyLength()).map_err(|_| wrong("a negative length"))?;
        if body > self.left {
            return Ok(false);
        }
        if let Some(schema) = message.header_as_schema() {
            self.widths = schema.fields().into_iter().flatten().flat_map(|field| widths(&field)).collect();
        } else if let Some(batch) = message.header_as_record_batch() {
            fits(&batch, body, &self.widths).map_err(wrong)?;
        } else if let Some(batch) = message.header_as_dictionary_batch().and_then(|d| d.data()) {
            fits(&batch, body, &TEXT).map_err(wrong)?;
        }
        self.body = body;
        self.left -= body;
        Ok(true)
    }
}

/// Sizes of a value, in bytes, in the buffers of a text or binary column: validity, offsets, content.
const TEXT: [u64; 3] = [1, 4, 1];

/// Returns the number of bytes per value in each buffer of a column.
fn widths(field: &ipc::Field<'_>) -> Vec<u64> {
    if field.dictionary().is_some() {
        return vec![1, 4];
    }
    match field.type_type() {
        ipc::Type::Utf8 | ipc::Type::Binary => TEXT.to_vec(),
        ipc::Type::Int => {
            vec![1, field.type_as_int().map_or(8, |int| u64::from(int.bitWidth().unsigned_abs() / 8).max(1))]
        }
        _ => vec![1, 8],
    }
}

/// Checks that the columns of a batch are inside its body and consist of whole values.
fn fits(batch: &ipc::RecordBatch<'_>, body: u64, widths: &[u64]) -> Result<(), &'static str> {
    // A value takes at least one bit.
    let rows = |n: i64| u64::try_from(n).is_ok_and(|n| n <= body.saturating_mul(8));
    let nodes = batch.nodes().into_iter().flatten();
    let counted =
        |node: &ipc::FieldNode| rows(node.length()) && (0..=node.length()).contains(&node.null_count());
    if batch.compression().is_some() {
        return Err("it is compressed");
    }
    if !rows(batch.length()) || !nodes.into_iter().all(counted) {
        return Err("it contains more rows than bytes");
    }
    let inside = |buffer: &ipc::Buffer| {
        let ends = u64::try_from(buffer.offset()).ok().zip(u64::try_from(buffer.length()).ok());
        ends.and_then(|(offset, length)| offset.checked_add(length)).is_some_and(|end| end <= body)
    };
    let buffers: Vec<&ipc::Buffer> = batch.buffers().into_iter().flatten().collect();
    if buffers.len() != widths.len() {
        return Err("its columns differ from those of the stream");
    }
    if !buffers.iter().all(|buffer| inside(buffer)) {
        return Err("a column extends beyond its end");
    }
    // Arrow's reader considers a partial value a bug of its caller, and panics.
    let parts = buffers.iter().zip(widths).any(|(buffer, width)| buffer.length().unsigned_abs() % width != 0);
    if parts { Err("a column ends in the middle of a value") } else { Ok(()) }
}

impl<R: Read> Read for Checked<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.given == self.head.len() && self.body == 0 && !self.ended && !self.message()? {
            self.ended = true;
            self.head.clear();
            self.given = 0;
        }
        if self.given < self.head.len() {
            let n = out.len().min(self.head.len() - self.given);
            out[..n].copy_from_slice(&self.head[self.given..self.given + n]);
            self.given += n;
            return Ok(n);
        }
        let most = usize::try_from(self.body).unwrap_or(usize::MAX).min(out.len());
        let n = if most > 0 { self.from.read(&mut out[..most])? } else { 0 };
        self.body -= n as u64;
        Ok(n)
    }
}
