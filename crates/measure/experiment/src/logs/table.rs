//! Tables in CSV (RFC 4180) whose first line names the columns. Settings can assign other names to the columns.

use std::borrow::Cow;

use super::nginx::kind_of_method;
use super::{Format, LogLine, Logged, call_of, unix_ns};
use plimsoll_base::provider::calls::Call;
use plimsoll_workload::OperationKind;

/// Names of the columns. `time`, `operation` and `key` are required.
pub const COLUMNS: [&str; 7] = ["time", "operation", "key", "size", "bytes", "status", "bucket"];

/// State of the parser.
pub struct Table {
    /// Names of the columns in the file, in the order of [`COLUMNS`].
    names: Vec<String>,
    /// Positions of the columns; `None` before the header.
    columns: Option<[Option<usize>; COLUMNS.len()]>,
}

impl Table {
    /// Creates the parser of a table in which some columns have other names.
    pub fn new(renamed: &[(String, String)]) -> Table {
        let name = |column: &&str| {
            let other = renamed.iter().find(|(name, _)| name == column);
            other.map_or_else(|| column.to_string(), |(_, name)| name.clone())
        };
        Table { names: COLUMNS.iter().map(name).collect(), columns: None }
    }

    fn header(&mut self, line: &str) -> Result<(), String> {
        let mut found = [None; COLUMNS.len()];
        let fields: Vec<Cow<'_, str>> = Fields(Some(line)).collect();
        for (place, name) in found.iter_mut().zip(&self.names) {
            *place = fields.iter().position(|field| field.trim() == name);
        }
        if let Some(missing) = (0..3).find(|index| found[*index].is_none()) {
            let (column, name) = (COLUMNS[missing], &self.names[missing]);
            return Err(format!(
                "the header has no column {name}; --columns {column}=NAME names another one"
            ));
        }
        self.columns = Some(found);
        Ok(())
    }
}

/// Fields of a line, without their quotes.
struct Fields<'a>(Option<&'a str>);

impl<'a> Iterator for Fields<'a> {
    type Item = Cow<'a, str>;

    fn next(&mut self) -> Option<Cow<'a, str>> {
        let rest = self.0?;
        let Some(quoted) = rest.strip_prefix('"') else {
            let (field, rest) =
                rest.split_once(',').map_or((rest, None), |(field, rest)| (field, Some(rest)));
            self.0 = rest;
            return Some(field.into());
        };
        let mut end = 0;
        let mut has_quotes = false;
        // A quote in a quoted field is written twice.
        while let Some(at) = quoted[end..].find('"') {
            end += at;
            if !quoted[end + 1..].starts_with('"') {
                break;
            }
            has_quotes = true;
            end += 2;
        }
        let field = &quoted[..end.min(quoted.len())];
        let after = quoted.get(end + 1..).unwrap_or("");
        self.0 = after.split_once(',').map(|(_, rest)| rest);
        Some(if has_quotes { field.replace("\"\"", "\"").into() } else { field.into() })
    }
}

/// Returns a time in Unix nanoseconds: RFC 3339, or a number of seconds, milliseconds, microseconds or nanoseconds
/// since 1970, as its magnitude shows.
fn time(text: &str) -> Option<i64> {
    if let Ok(number) = text.parse::<i64>() {
        let factor = match number.unsigned_abs() {
            0..100_000_000_000 => 1_000_000_000,
            100_000_000_000..100_000_000_000_000 => 1_000_000,
            100_000_000_000_000..100_000_000_000_000_000 => 1_000,
            _ => 1,
        };
        return Some(number.saturating_mul(factor));
    }
    if let Some((seconds, fraction)) = text.split_once('.')
        && let Ok(seconds) = seconds.parse::<i64>()
        && !fraction.is_empty()
        && fraction.bytes().all(|digit| digit.is_ascii_digit())
    {
        let digits = &fraction[..fraction.len().min(9)];
        let ns = digits.parse::<i64>().ok()? * 10i64.pow(9 - digits.len() as u32);
        return seconds.checked_mul(1_000_000_000)?.checked_add(ns);
    }
    let at: jiff::Timestamp = text.parse().ok()?;
    unix_ns(at)
}

impl Format for Table {
    fn resolution_ns(&self) -> u64 {
        1
    }

    fn parse<'a>(&mut self, line: &'a str) -> Result<LogLine<'a>, String> {
        if line.is_empty() {
            return Ok(LogLine::Nothing);
        }
        let Some(columns) = self.columns else {
            self.header(line)?;
            return Ok(LogLine::Nothing);
        };
        let mut fields: [Cow<'a, str>; COLUMNS.len()] = Default::default();
        for (index, field) in Fields(Some(line)).enumerate() {
            if let Some(column) = columns.iter().position(|column| *column == Some(index)) {
                fields[column] = field;
            }
        }
        let [at, operation, key, size, bytes, status, bucket] = fields;
        let number = |name: &str, text: &str| match text {
            "" | "-" => Ok(None),
            text => text.parse::<u64>().map(Some).map_err(|_| format!("{name} '{text}' is not a number")),
        };
        let at_ns = time(&at).ok_or_else(|| format!("time '{at}' is neither RFC 3339 nor a Unix time"))?;
        let (size, bytes) = (number("size", &size)?, number("bytes", &bytes)?);
        let status = super::status(number("status", &status)?.unwrap_or(0))?;
        let kind = kind_of_method(&operation.to_ascii_uppercase(), status)
            .or_else(|| OperationKind::from_name(&operation.to_ascii_lowercase()));
        let kind = kind.filter(|kind| *kind as usize <= OperationKind::Delete as usize);
        let named = Call::ALL.into_iter().find(|call| call.name().eq_ignore_ascii_case(&operation));
        let call = named.or(kind.and_then(call_of));
        let moves = matches!(kind, Some(OperationKind::Get | OperationKind::Put))
            || matches!(named, Some(Call::PutObject | Call::UploadPart))
            || (named == Some(Call::GetObject) && status != 206);
        let bytes = bytes.or_else(|| size.filter(|_| moves));
        Ok(LogLine::Request(Logged {
            at_ns,
            operation,
            kind,
            call,
            bucket,
            key,
            status,
            bytes,
            size,
            range_start: None,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request<'a>(table: &mut Table, line: &'a str) -> Logged<'a> {
        match table.parse(line).unwrap() {
            LogLine::Request(logged) => logged,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn columns_are_found_by_their_names() {
        let mut table = Table::new(&[("time".into(), "when".into())]);
        assert!(table.parse("time,operation,key").unwrap_err().contains("--columns time=NAME"));
        assert_eq!(table.parse("size,when,key,operation"), Ok(LogLine::Nothing));
        let logged = request(&mut table, "120,1770336038.25,\"a,\"\"b\"\"\",GET");
        assert_eq!((logged.at_ns, &*logged.key), (1_770_336_038_250_000_000, "a,\"b\""));
        assert_eq!(
            (logged.kind.unwrap(), logged.size, logged.bytes),
            (OperationKind::Get, Some(120), Some(120))
        );
        assert_eq!(request(&mut table, ",1,k,get_range").kind, Some(OperationKind::GetRange));
        let LogLine::Request(other) = table.parse(",1,k,scan").unwrap() else { panic!("no request") };
        assert_eq!((other.kind, &*other.operation), (None, "scan"));
        assert!(table.parse("many,1,k,put").unwrap_err().contains("size 'many' is not a number"));
        assert!(table.parse("1,noon,k,put").unwrap_err().contains("time 'noon'"));
    }

    #[test]
    fn times_have_the_unit_of_their_magnitude() {
        for text in
            ["1770336038", "1770336038000", "1770336038000000", "1770336038000000000", "2026-02-06T00:00:38Z"]
        {
            assert_eq!(time(text), Some(1_770_336_038_000_000_000), "{text}");
        }
        assert_eq!((time("0.25"), time("inf"), time("1.x")), (Some(250_000_000), None, None));
    }
}
