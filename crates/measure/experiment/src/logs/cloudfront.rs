//! Standard logs of Amazon CloudFront (CloudFront developer guide, "Standard log file format"): tab-separated fields
//! that the line `#Fields:` names. Their times are whole seconds.

use super::nginx::kind_of_method;
use super::{Format, LogLine, Logged, call_of, unix_ns};
use plimsoll_base::provider::calls::Call;
use plimsoll_workload::OperationKind;

/// State of the parser: the positions of the columns.
#[derive(Default)]
pub struct CloudFront {
    columns: Option<Columns>,
    /// Date and time of the last line, and this time in Unix nanoseconds.
    last: (String, i64),
}

struct Columns {
    date: usize,
    time: usize,
    method: usize,
    path: usize,
    status: usize,
    /// Bytes of the body.
    content: Option<usize>,
    /// Bytes of the response with its headers.
    sent: usize,
}

impl Columns {
    fn of(names: &str) -> Option<Columns> {
        let names: Vec<&str> = names.split_whitespace().collect();
        let find = |name: &str| names.iter().position(|known| *known == name);
        Some(Columns {
            date: find("date")?,
            time: find("time")?,
            method: find("cs-method")?,
            path: find("cs-uri-stem")?,
            status: find("sc-status")?,
            content: find("sc-content-len"),
            sent: find("sc-bytes")?,
        })
    }
}

impl CloudFront {
    fn time(&mut self, date: &str, time: &str) -> Result<i64, String> {
        let (text, at_ns) = &mut self.last;
        if text.strip_prefix(date) != Some(time) {
            let at: Result<jiff::Timestamp, _> = format!("{date}T{time}Z").parse();
            let at = at.ok().and_then(unix_ns);
            *at_ns =
                at.ok_or_else(|| format!("'{date} {time}' is not a time such as 2026-02-06 00:00:38"))?;
            *text = format!("{date}{time}");
        }
        Ok(*at_ns)
    }
}

impl Format for CloudFront {
    fn resolution_ns(&self) -> u64 {
        1_000_000_000
    }

    fn parse<'a>(&mut self, line: &'a str) -> Result<LogLine<'a>, String> {
        if let Some(names) = line.strip_prefix("#Fields:") {
            let columns = Columns::of(names);
            self.columns =
                Some(columns.ok_or("the line #Fields lacks a column of CloudFront's standard log")?);
            return Ok(LogLine::Nothing);
        }
        if line.starts_with("#Version:") || line.is_empty() {
            return Ok(LogLine::Nothing);
        }
        let columns = self.columns.as_ref().ok_or("there is no line #Fields before the first request")?;
        // A list on the stack: a line has 33 fields.
        let mut fields = [""; 64];
        for (place, field) in fields.iter_mut().zip(line.split('\t')) {
            *place = field;
        }
        let get = |index: usize| fields.get(index).copied().unwrap_or("");
        let number = |index: usize| get(index).parse::<u64>().ok();
        let status = number(columns.status)
            .ok_or_else(|| format!("status '{}' is not a number", get(columns.status)))?;
        let status = super::status(status)?;
        let (method, key) = (get(columns.method), get(columns.path));
        let bytes = columns.content.and_then(number).or_else(|| number(columns.sent));
        let (date, time) = (get(columns.date), get(columns.time));
        let at_ns = self.time(date, time)?;
        let kind = kind_of_method(method, status);
        let bytes = bytes.filter(|_| kind != Some(OperationKind::Put));
        Ok(LogLine::Request(Logged {
            at_ns,
            operation: method.into(),
            kind,
            // A 304 is a GET that is billed as one.
            call: if method == "GET" { Some(Call::GetObject) } else { kind.and_then(call_of) },
            bucket: "".into(),
            key: key.into(),
            status,
            bytes,
            size: None,
            range_start: None,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_follow_the_line_of_fields() {
        let mut format = CloudFront::default();
        assert!(format.parse("2026-02-06\t00:00:38\tGET").is_err());
        assert_eq!(format.parse("#Version: 1.0"), Ok(LogLine::Nothing));
        let fields = "#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status sc-content-len";
        assert_eq!(format.parse(fields), Ok(LogLine::Nothing));
        let line =
            "2026-02-06\t00:00:38\tFRA2\t4500\t203.0.113.9\tGET\td111.cloudfront.net\t/a.jpg\t200\t4096";
        let LogLine::Request(logged) = format.parse(line).unwrap() else { panic!("no request") };
        assert_eq!(
            (logged.at_ns, &*logged.key, logged.bytes),
            (1_770_336_038_000_000_000, "/a.jpg", Some(4096))
        );
        let text = line.replace("GET", "OPTIONS");
        let LogLine::Request(other) = format.parse(&text).unwrap() else { panic!("no request") };
        assert_eq!((other.kind, &*other.operation), (None, "OPTIONS"));
        assert!(format.parse(&line.replace("\t200\t", "\tok\t")).unwrap_err().contains("status"));
    }
}
