//! Fields and times of the Common Log Format and its relatives.

use jiff::fmt::strtime::BrokenDownTime;

/// Iterator over the fields of a line. A field in quotes or brackets may contain spaces; it is returned without them.
pub struct Fields<'a>(pub &'a str);

impl<'a> Iterator for Fields<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let rest = self.0.trim_start_matches(' ');
        let (close, from) = match rest.bytes().next()? {
            b'"' => ('"', 1),
            b'[' => (']', 1),
            _ => (' ', 0),
        };
        let end = rest[from..].find(close).map(|length| from + length);
        let field = &rest[from..end.unwrap_or(rest.len())];
        self.0 = end.map_or("", |end| &rest[end + 1..]);
        Some(field)
    }
}

/// Parser of times such as `06/Feb/2026:00:00:38 +0000`. It remembers the last one, because many
/// requests have the same time.
#[derive(Debug, Default)]
pub struct Times {
    text: String,
    at_ns: i64,
}

impl Times {
    /// Returns a time in Unix nanoseconds.
    ///
    /// # Errors
    /// A message if the text is not a time.
    pub fn parse(&mut self, text: &str) -> Result<i64, String> {
        if self.text != text {
            let wrong = || format!("'{text}' is not a time such as 06/Feb/2026:00:00:38 +0000");
            let parsed = BrokenDownTime::parse("%d/%b/%Y:%H:%M:%S %z", text).map_err(|_| wrong())?;
            let at = parsed.to_timestamp().map_err(|_| wrong())?;
            self.at_ns = super::unix_ns(at).ok_or_else(wrong)?;
            self.text.clear();
            self.text.push_str(text);
        }
        Ok(self.at_ns)
    }
}

/// Returns a number; `None` for `-`.
///
/// # Errors
/// A message if the text is something else.
pub fn number(name: &str, text: &str) -> Result<Option<u64>, String> {
    match text {
        "-" | "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| format!("{name} '{text}' is not a number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_brackets_group() {
        let line = r#"h - [06/Feb/2026:00:00:38 +0000] "GET /a b HTTP/1.1" 200 "" end"#;
        let fields: Vec<&str> = Fields(line).collect();
        assert_eq!(fields, ["h", "-", "06/Feb/2026:00:00:38 +0000", "GET /a b HTTP/1.1", "200", "", "end"]);
        assert_eq!(Fields("\"open").collect::<Vec<_>>(), ["open"]);
    }

    #[test]
    fn times_have_their_offset() {
        let mut times = Times::default();
        let at = times.parse("06/Feb/2026:01:00:38 +0100").unwrap();
        assert_eq!(at, 1_770_336_038_000_000_000);
        assert_eq!(times.parse("06/Feb/2026:00:00:38 +0000"), Ok(at));
        // Regression: a time beyond 2262 ended the program.
        for wrong in ["2026-02-06", "06/Feb/9999:00:00:38 +0000"] {
            assert!(times.parse(wrong).unwrap_err().contains("is not a time"), "{wrong}");
        }
    }
}
