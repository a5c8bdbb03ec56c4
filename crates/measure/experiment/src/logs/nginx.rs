//! Access logs of nginx in the formats `common` and `combined`, whose times are whole seconds. Other servers write the
//! same. The sizes of uploads are unknown.

use super::common_log::{Fields, Times, number};
use super::{Format, LogLine, Logged, call_of};
use plimsoll_base::provider::calls::Call;
use plimsoll_workload::OperationKind;

/// State of the parser.
#[derive(Default)]
pub struct Nginx {
    times: Times,
}

/// Returns the kind of a request by its method and status; `None` if it is not repeated.
pub fn kind_of_method(method: &str, status: u16) -> Option<OperationKind> {
    match method {
        "GET" if status == 206 => Some(OperationKind::GetRange),
        "GET" if status == 304 => Some(OperationKind::Head),
        "GET" => Some(OperationKind::Get),
        "HEAD" => Some(OperationKind::Head),
        "PUT" => Some(OperationKind::Put),
        "DELETE" => Some(OperationKind::Delete),
        _ => None,
    }
}

impl Format for Nginx {
    fn resolution_ns(&self) -> u64 {
        1_000_000_000
    }

    fn parse<'a>(&mut self, line: &'a str) -> Result<LogLine<'a>, String> {
        if line.is_empty() {
            return Ok(LogLine::Nothing);
        }
        let mut fields = Fields(line);
        let mut next = |name: &str| fields.next().ok_or_else(|| format!("the line has no {name}"));
        for name in ["address", "identity", "user"] {
            next(name)?;
        }
        let at_ns = self.times.parse(next("time")?)?;
        let request = next("request")?;
        let status = super::status(number("status", next("status")?)?.ok_or("the line has no status")?)?;
        let sent = number("bytes sent", next("bytes sent")?)?;
        let mut words = request.split(' ');
        let (method, target) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let kind = kind_of_method(method, status);
        let key = target.split_once('?').map_or(target, |(path, _)| path);
        let bytes = if kind == Some(OperationKind::Put) { None } else { sent };
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
    fn a_line_is_parsed() {
        let line = "203.0.113.9 - ann [06/Feb/2026:00:00:38 +0000] \"GET /a/b.jpg?x=1 HTTP/1.1\" 200 4096 \"-\" \"curl/8\"";
        let LogLine::Request(logged) = Nginx::default().parse(line).unwrap() else { panic!("no request") };
        assert_eq!(
            (logged.kind.unwrap(), &*logged.key, logged.status, logged.bytes),
            (OperationKind::Get, "/a/b.jpg", 200, Some(4096))
        );
        let put = line.replace("GET", "PUT");
        let LogLine::Request(logged) = Nginx::default().parse(&put).unwrap() else { panic!("no request") };
        assert_eq!((logged.kind.unwrap(), logged.bytes), (OperationKind::Put, None));
        let text = line.replace("GET", "POST");
        let LogLine::Request(other) = Nginx::default().parse(&text).unwrap() else { panic!("no request") };
        assert_eq!((other.kind, &*other.operation), (None, "POST"));
        assert!(Nginx::default().parse("no log").is_err());
    }
}
