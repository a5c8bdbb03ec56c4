//! Files as rows of named cells: CSV, which may be compressed, Parquet, and JSON.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufRead, Read};
use std::path::Path;
use std::rc::Rc;

use parquet::file::reader::FileReader;
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::record::Field;
use parquet::schema::types::Type;
use serde_json::Value;

use super::ExplainError;
use plimsoll_experiment::logs::lines::expanded;
use plimsoll_inventory::names::plain;

/// Maximum size in bytes of a JSON document, or of a line of JSON lines. Its values take about ten times this memory.
const MAX_JSON: u64 = 32 << 20;
/// Maximum number of fields of a JSON object.
const MAX_FIELDS: usize = 2_000;
/// Maximum size of a CSV record, in bytes.
const MAX_RECORD: u64 = 16 << 20;
/// Maximum number of columns.
const MAX_COLUMNS: usize = 20_000;

/// Names of the columns of a file.
#[derive(Debug, Clone, Default)]
pub struct Columns {
    /// Names as the file has them.
    pub names: Vec<String>,
    /// Names and values that precede the columns.
    pub preamble: Vec<(String, String)>,
    /// True if semicolons separate the cells, so that a comma in a number may be a decimal one.
    pub is_comma_decimal: bool,
    index: HashMap<String, usize>,
}

impl Columns {
    /// Creates the names of a file. Of two columns with the same plain name, the first counts.
    pub fn new(names: Vec<String>) -> Columns {
        let mut columns = Columns::default();
        for name in names {
            columns.add(name);
        }
        columns
    }

    fn add(&mut self, name: String) -> usize {
        let at = self.names.len();
        self.index.entry(plain(&name)).or_insert(at);
        self.names.push(name);
        at
    }

    /// Returns true if the file has a column of that plain name.
    pub fn has(&self, name: &str) -> bool {
        self.index.contains_key(name)
    }

    /// Returns the position of the column with that plain name.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.index.get(name).copied()
    }
}

/// A row of a file.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    /// Names of the columns.
    pub columns: &'a Columns,
    /// Cells, in the order of the columns; missing ones at the end are empty.
    pub cells: &'a [String],
    /// Number of the row in the file, from 1.
    pub number: u64,
}

impl Row<'_> {
    /// Returns the cell of the column with that plain name; empty if there is none, or if it is the word NULL, which
    /// databases export for an empty cell.
    pub fn get(&self, name: &str) -> &str {
        let cell = self.columns.position(name).and_then(|at| self.cells.get(at));
        match cell.map_or("", |cell| cell.trim()) {
            "NULL" | "null" => "",
            text => text,
        }
    }

    /// Returns the first of these cells that is not empty; empty if there is none.
    pub fn first(&self, names: &[&str]) -> &str {
        names.iter().map(|name| self.get(name)).find(|cell| !cell.is_empty()).unwrap_or("")
    }
}

/// Consumer of rows. The error is a message about the row.
pub type Consume<'c> = dyn FnMut(Row<'_>) -> Result<(), String> + 'c;

/// Reads all rows of a file.
///
/// # Errors
/// If the file cannot be read, a row is malformed, or `consume` refuses one.
pub fn read(file: &Path, consume: &mut Consume<'_>) -> Result<(), ExplainError> {
    let mut head = [0; 4];
    let mut opened = File::open(file).map_err(|e| ExplainError::unreadable(file, e))?;
    if opened.metadata().is_ok_and(|metadata| !metadata.is_file()) {
        return Err(ExplainError::unreadable(
            file,
            "this is no regular file; write a stream to a file first",
        ));
    }
    match opened.read(&mut head) {
        Ok(4) if head == *b"PAR1" => parquet(file, consume),
        Ok(_) => text(file, consume),
        Err(e) => Err(ExplainError::unreadable(file, e)),
    }
}

fn text(file: &Path, consume: &mut Consume<'_>) -> Result<(), ExplainError> {
    let mut from = expanded(file)?;
    let start = from.fill_buf().map_err(|e| ExplainError::unreadable(file, e))?;
    let start = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start);
    match start.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'{' | b'[') => json(file, from, consume),
        _ => csv(file, from, consume),
    }
}

/// Returns the separator of the cells of a header.
fn separator(header: &str) -> u8 {
    let count = |separator: char| header.matches(separator).count();
    [(b',', count(',')), (b';', count(';')), (b'\t', count('\t'))]
        .into_iter()
        .max_by_key(|(separator, count)| (*count, *separator == b','))
        .map_or(b',', |(separator, _)| separator)
}

/// Maximum number of lines before the names of the columns.
const MAX_PREAMBLE: usize = 100;

/// Reader that limits the bytes of a record.
struct Limited {
    from: Box<dyn BufRead>,
    /// Number of bytes read since the last record.
    since: Rc<Cell<u64>>,
}

impl Read for Limited {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if self.since.get() > MAX_RECORD {
            return Err(std::io::Error::other(format!("a row of more than {} MiB", MAX_RECORD >> 20)));
        }
        let count = self.from.read(into)?;
        self.since.set(self.since.get() + count as u64);
        Ok(count)
    }
}

fn csv(file: &Path, mut from: Box<dyn BufRead>, consume: &mut Consume<'_>) -> Result<(), ExplainError> {
    let start = from.fill_buf().map_err(|e| ExplainError::unreadable(file, e))?;
    let line = start.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let delimiter = separator(&String::from_utf8_lossy(line));
    let since = Rc::new(Cell::new(0));
    let limited = Limited { from, since: Rc::clone(&since) };
    let mut reader =
        csv::ReaderBuilder::new().has_headers(false).flexible(true).delimiter(delimiter).from_reader(limited);
    let mut preamble = Vec::new();
    let (mut record, mut cells, mut columns) = (csv::StringRecord::new(), Vec::new(), None);
    let (mut number, mut in_preamble) = (0, false);
    loop {
        number += 1;
        since.set(0);
        if !reader.read_record(&mut record).map_err(|e| ExplainError::at(file, number, e.to_string()))? {
            return Ok(());
        }
        if record.len() > MAX_COLUMNS {
            return Err(ExplainError::at(file, number, format!("a row has more than {MAX_COLUMNS} cells")));
        }
        let Some(columns) = &columns else {
            // The cost table of Google's console begins with lines of two cells about the invoice.
            in_preamble = record.len() <= 2 && (in_preamble || record.get(0) == Some("Invoice number"));
            if !in_preamble {
                let name = |cell: &str| cell.trim_start_matches('\u{feff}').trim().to_string();
                columns = Some(Columns::new(record.iter().map(name).collect()));
                columns.iter_mut().for_each(|columns: &mut Columns| {
                    columns.preamble = std::mem::take(&mut preamble);
                    columns.is_comma_decimal = delimiter == b';';
                });
            } else if preamble.len() < MAX_PREAMBLE {
                let text = |at: usize| record.get(at).unwrap_or_default().trim().to_string();
                preamble.push((text(0), text(1)));
            }
            continue;
        };
        cells.clear();
        cells.extend(record.iter().map(str::to_string));
        consume(Row { columns, cells: &cells, number }).map_err(|e| ExplainError::at(file, number, e))?;
    }
}

/// Returns a field of a Parquet row as text. Numbers have all their digits.
fn cell(field: &Field) -> String {
    match field {
        Field::Null => String::new(),
        Field::Str(text) => text.clone(),
        Field::Double(number) => number.to_string(),
        Field::Float(number) => number.to_string(),
        Field::Bytes(bytes) => String::from_utf8_lossy(bytes.data()).into_owned(),
        other => other.to_string().split(" +").next().unwrap_or_default().to_string(),
    }
}

fn parquet(file: &Path, consume: &mut Consume<'_>) -> Result<(), ExplainError> {
    let failed = |e: parquet::errors::ParquetError| ExplainError::unreadable(file, e);
    let opened = File::open(file).map_err(|e| ExplainError::unreadable(file, e))?;
    let reader = SerializedFileReader::new(opened).map_err(failed)?;
    let schema = reader.metadata().file_metadata().schema();
    // Columns of nested types, such as tags, are not needed.
    let flat: Vec<_> = schema.get_fields().iter().filter(|field| field.is_primitive()).cloned().collect();
    let projection = Type::group_type_builder(schema.name()).with_fields(flat).build().map_err(failed)?;
    let columns =
        Columns::new(projection.get_fields().iter().map(|field| field.name().to_string()).collect());
    let rows = reader.get_row_iter(Some(projection)).map_err(failed)?;
    for (number, row) in (1..).zip(rows) {
        let row = row.map_err(failed)?;
        let cells: Vec<String> = row.get_column_iter().map(|(_, field)| cell(field)).collect();
        consume(Row { columns: &columns, cells: &cells, number })
            .map_err(|e| ExplainError::at(file, number, e))?;
    }
    Ok(())
}

/// Adds the scalars of a JSON value under names joined by dots. A line break separates the values of an array.
fn flatten(prefix: &str, value: &Value, depth: u8, out: &mut BTreeMap<String, String>) {
    let scalar = match value {
        Value::Null => return,
        Value::Bool(b) => b.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        Value::Object(fields) => {
            for (name, value) in fields.iter().filter(|_| depth < 8) {
                let name = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
                flatten(&name, value, depth + 1, out);
            }
            return;
        }
        Value::Array(values) => {
            values.iter().filter(|_| depth < 8).for_each(|value| flatten(prefix, value, depth + 1, out));
            return;
        }
    };
    match out.get_mut(prefix) {
        Some(text) => {
            text.push('\n');
            text.push_str(&scalar);
        }
        None => {
            out.insert(prefix.to_string(), scalar);
        }
    }
}

/// Names of the fields in which answers of programming interfaces have their rows, in their plain form.
const ROWS: [&str; 9] = [
    "result",
    "results",
    "rows",
    "data",
    "value",
    "viewer",
    "accounts",
    "r2operationsadaptivegroups",
    "r2storageadaptivegroups",
];

/// Returns the rows of a document: the objects of its arrays. Empty if it has none.
fn rows_of(document: &Value) -> Vec<&Value> {
    match document {
        Value::Array(values) => values
            .iter()
            .flat_map(|value| match rows_of(value) {
                nested if nested.is_empty() && value.is_object() => vec![value],
                nested => nested,
            })
            .collect(),
        Value::Object(fields) => fields
            .iter()
            .filter(|(name, value)| ROWS.contains(&plain(name).as_str()) && !value.is_null())
            .flat_map(|(_, value)| rows_of(value))
            .collect(),
        _ => Vec::new(),
    }
}

fn json(file: &Path, mut from: Box<dyn BufRead>, consume: &mut Consume<'_>) -> Result<(), ExplainError> {
    let (mut columns, mut number) = (Columns::default(), 0);
    let mut positions: HashMap<String, usize> = HashMap::new();
    let mut each = |value: &Value| {
        number += 1;
        let mut found = BTreeMap::new();
        flatten("", value, 0, &mut found);
        if found.len() > MAX_FIELDS || columns.names.len() > MAX_COLUMNS {
            let reason =
                format!("an object has more than {MAX_FIELDS} fields, or all more than {MAX_COLUMNS}");
            return Err(ExplainError::at(file, number, reason));
        }
        let mut cells = vec![String::new(); columns.names.len()];
        for (name, text) in found {
            let at = *positions.entry(name).or_insert_with_key(|name| {
                cells.push(String::new());
                columns.add(name.clone())
            });
            cells[at] = text;
        }
        consume(Row { columns: &columns, cells: &cells, number })
            .map_err(|e| ExplainError::at(file, number, e))
    };
    let wrong = |row: u64, e: serde_json::Error| ExplainError::at(file, row, format!("invalid JSON: {e}"));
    // One document, or one object for each line.
    let mut whole = Vec::new();
    let mut line = Vec::new();
    let mut read = 0;
    while from
        .by_ref()
        .take(MAX_JSON)
        .read_until(b'\n', &mut line)
        .map_err(|e| ExplainError::unreadable(file, e))?
        > 0
    {
        read += 1;
        let text = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&line);
        if whole.is_empty() && !text.trim_ascii().is_empty() {
            match serde_json::from_slice::<Value>(text) {
                Ok(value) if value.is_object() && (read > 1 || rows_of(&value).is_empty()) => each(&value)?,
                _ => whole.extend_from_slice(text),
            }
        } else {
            whole.extend_from_slice(text);
        }
        if whole.len() as u64 > MAX_JSON {
            return Err(ExplainError::unreadable(
                file,
                format!("a JSON document of more than {} MiB; write one object per line", MAX_JSON >> 20),
            ));
        }
        line.clear();
    }
    if whole.trim_ascii().is_empty() {
        return Ok(());
    }
    let document: Value = serde_json::from_slice(&whole).map_err(|e| wrong(read, e))?;
    match rows_of(&document) {
        rows if rows.is_empty() && document.is_object() => each(&document),
        rows => rows.into_iter().try_for_each(each),
    }
}
