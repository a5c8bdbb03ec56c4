//! An Arrow IPC stream being written: a file of batches that needs no footer, so that what was written before a kill can be read.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, Schema};

/// The stream.
pub(super) struct Stream {
    writer: StreamWriter<File>,
    schema: Arc<Schema>,
}

/// The system's own error where there is one.
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

    /// Writes a batch and brings it to the file.
    pub(super) fn write(&mut self, columns: Vec<ArrayRef>) -> io::Result<()> {
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns).map_err(to_io)?;
        self.writer.write(&batch).and_then(|()| self.writer.flush()).map_err(to_io)
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        self.writer.finish().map_err(to_io)
    }
}
