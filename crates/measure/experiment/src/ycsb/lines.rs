//! The syntax of property files, as `java.util.Properties.load` and go-ycsb's library read them.

/// A line of a property file, joined with its continuation lines.
#[derive(Debug, PartialEq, Eq)]
pub struct LogicalLine {
    /// Number of the first line, from 1.
    pub number: usize,
    /// Text of the line, with escapes as written.
    pub text: String,
}

/// The lines of a file that are neither blank nor comments.
pub struct LogicalLines<'a> {
    lines: std::iter::Enumerate<std::str::Lines<'a>>,
}

const SPACES: [char; 3] = [' ', '\t', '\u{c}'];

/// Returns true if a line ends in a backslash that is not itself escaped.
fn continues(line: &str) -> bool {
    line.chars().rev().take_while(|c| *c == '\\').count() % 2 == 1
}

impl<'a> LogicalLines<'a> {
    /// Iterates over the lines of a text.
    pub fn of(text: &'a str) -> LogicalLines<'a> {
        LogicalLines { lines: text.lines().enumerate() }
    }
}

impl Iterator for LogicalLines<'_> {
    type Item = LogicalLine;

    fn next(&mut self) -> Option<LogicalLine> {
        loop {
            let (index, line) = self.lines.next()?;
            let first = line.trim_start_matches(SPACES);
            // A comment never continues, not even after a backslash.
            if first.is_empty() || first.starts_with(['#', '!']) {
                continue;
            }
            let mut text = first.to_string();
            while continues(&text) {
                text.pop();
                match self.lines.next() {
                    Some((_, next)) => text.push_str(next.trim_start_matches(SPACES)),
                    None => break,
                }
            }
            return Some(LogicalLine { number: index + 1, text });
        }
    }
}

/// Parses the four hexadecimal digits of an escape `\uXXXX` as a UTF-16 unit.
fn unit(digits: &str) -> Option<u16> {
    let hex = digits.get(..4).filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()))?;
    u16::from_str_radix(hex, 16).ok()
}

/// Replaces the escapes in a text. Returns `None` if `\u` is not followed by four hexadecimal digits, or if it is an
/// unpaired surrogate.
fn unescape(text: &str) -> Option<String> {
    let mut units: Vec<u16> = Vec::with_capacity(text.len());
    let mut rest = text;
    let push = |units: &mut Vec<u16>, c: char| units.extend_from_slice(c.encode_utf16(&mut [0; 2]));
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        if c != '\\' {
            push(&mut units, c);
            continue;
        }
        let Some(escaped) = rest.chars().next() else { break };
        rest = &rest[escaped.len_utf8()..];
        match escaped {
            't' => push(&mut units, '\t'),
            'n' => push(&mut units, '\n'),
            'r' => push(&mut units, '\r'),
            'f' => push(&mut units, '\u{c}'),
            'u' => {
                units.push(unit(rest)?);
                rest = &rest[4..];
            }
            other => push(&mut units, other),
        }
    }
    String::from_utf16(&units).ok()
}

impl LogicalLine {
    /// Returns the name and value of the property. The name ends at the first `=`, `:` or space that is not escaped.
    /// Returns `None` if the name is empty, if nothing ends it, or if an escape is invalid.
    pub fn pair(&self) -> Option<(String, String)> {
        let mut escaped = false;
        let end = self.text.char_indices().find(|(_, c)| {
            let ends = !escaped && (matches!(c, '=' | ':') || SPACES.contains(c));
            escaped = *c == '\\' && !escaped;
            ends
        });
        let (end, _) = end?;
        let (name, rest) = self.text.split_at(end);
        let rest = rest.trim_start_matches(SPACES);
        let rest = rest.strip_prefix(['=', ':']).unwrap_or(rest);
        let name = unescape(name).filter(|name| !name.is_empty())?;
        Some((name, unescape(rest.trim_start_matches(SPACES))?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<Option<(String, String)>> {
        LogicalLines::of(text).map(|line| line.pair()).collect()
    }

    fn pair(name: &str, value: &str) -> Option<(String, String)> {
        Some((name.to_string(), value.to_string()))
    }

    /// Regression test: a comment that ended in a backslash hid the property on the next line.
    #[test]
    fn a_comment_never_continues() {
        assert_eq!(pairs("# C:\\data\\\nrecordcount=5\n"), [pair("recordcount", "5")]);
        assert_eq!(pairs("! \\\n  # \\\na=1"), [pair("a", "1")]);
        // A continuation line may look like a comment, as in Java.
        assert_eq!(pairs("a=1\\\n  #2\nb=3"), [pair("a", "1#2"), pair("b", "3")]);
        assert_eq!(pairs("a=1\\\\\nb=2"), [pair("a", "1\\"), pair("b", "2")]);
        let numbers: Vec<usize> = LogicalLines::of("\n# x\\\na=\\\n1\nb=2").map(|l| l.number).collect();
        assert_eq!(numbers, [3, 5]);
    }

    #[test]
    fn unicode_escapes_are_replaced() {
        assert_eq!(pairs(r"table=caf\u00e9"), [pair("table", "café")]);
        assert_eq!(pairs(r"t\u0061ble=\ud83d\ude00x"), [pair("table", "😀x")]);
        assert_eq!(pairs(r"a\=b\ c=x\ty\q"), [pair("a=b c", "x\tyq")]);
        for wrong in [r"a=\u00g0", r"a=\u12", r"a=\ud83d"] {
            assert_eq!(pairs(wrong), [None], "{wrong}");
        }
    }
}
