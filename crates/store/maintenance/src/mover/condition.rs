//! Conditions of moves, such as `age > 7d and size >= 64KiB`: pure, without I/O.
//!
//! ```text
//! condition  = all { "or" all }
//! all        = one { "and" one }
//! one        = "not" one | "(" condition ")" | comparison
//! comparison = ("age" | "size") ("<" | "<=" | ">" | ">=") value
//!            | "reads_per_day" ("<" | "<=" | ">" | ">=") number
//!            | ("bucket" | "prefix" | "suffix" | "tag.NAME") ("=" | "!=") "text"
//! ```

use std::cmp::Ordering;

use plimsoll_base::units::{parse_duration, parse_size, show_duration};

/// Properties of an object that conditions examine.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    /// Name of the bucket.
    pub bucket: &'a str,
    /// Key of the object.
    pub key: &'a str,
    /// Size in bytes.
    pub size: u64,
    /// Time since the object was written, in milliseconds.
    pub age_ms: u64,
    /// Returns the recent reads per day.
    pub reads_per_day: &'a dyn Fn() -> f64,
    /// Reads the tags of the object.
    pub tags: &'a dyn Fn() -> Vec<(String, String)>,
}

/// Parses a time, such as `7d`, `12h` or `90s`, and returns milliseconds.
///
/// # Errors
/// A message that quotes the text.
pub fn parse_time_ms(text: &str) -> Result<u64, String> {
    /// Milliseconds of a day.
    const DAY_MS: f64 = 86_400_000.0;
    /// Maximum number of days: a hundred years.
    const MAX_DAYS: f64 = 36_525.0;
    if let Some(days) = text.strip_suffix('d').and_then(|days| days.trim().parse::<f64>().ok()) {
        // The range does not contain NaN, which `parse` accepts.
        let is_allowed = (0.0..=MAX_DAYS).contains(&days);
        return if is_allowed { Ok((days * DAY_MS) as u64) } else { Err(format!("'{text}' is not a time")) };
    }
    parse_duration(text)
        .map(|ns| ns / 1_000_000)
        .map_err(|_| format!("'{text}' is not a time; write it as 7d, 12h or 90s"))
}

/// Returns a time in milliseconds as text: in days if it has no other part.
pub fn show_time_ms(ms: u64) -> String {
    /// Milliseconds of a day.
    const DAY_MS: u64 = 86_400_000;
    match ms {
        1.. if ms.is_multiple_of(DAY_MS) => format!("{}d", ms / DAY_MS),
        _ => show_duration(ms.saturating_mul(1_000_000)),
    }
}

/// Parses a number of reads per day.
fn parse_rate(text: &str) -> Result<f64, String> {
    // `total_cmp` puts NaN above each number, so the condition would be the same for all objects.
    let rate = text.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate >= 0.0);
    rate.ok_or_else(|| format!("'{text}' is not a number, such as 0.1"))
}

/// A parsed condition.
#[derive(Debug, Clone, PartialEq)]
pub enum Condition {
    /// All conditions are true.
    All(Vec<Condition>),
    /// At least one condition is true.
    Any(Vec<Condition>),
    /// The condition is false.
    Not(Box<Condition>),
    /// The time since the object was written, in milliseconds, satisfies the comparison.
    Age(Comparison, u64),
    /// The size in bytes satisfies the comparison.
    Size(Comparison, u64),
    /// The recent reads per day satisfy the comparison.
    Reads(Comparison, f64),
    /// The bucket has this name.
    Bucket(String),
    /// The key starts with this text.
    Prefix(String),
    /// The key ends with this text.
    Suffix(String),
    /// The tag with this key has this value.
    Tag(String, String),
}

/// An order between a property and a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// Less than the value.
    Less,
    /// Less than the value, or equal.
    AtMost,
    /// Greater than the value.
    Greater,
    /// Greater than the value, or equal.
    AtLeast,
}

impl Comparison {
    fn holds(self, order: Ordering) -> bool {
        match self {
            Comparison::Less => order.is_lt(),
            Comparison::AtMost => order.is_le(),
            Comparison::Greater => order.is_gt(),
            Comparison::AtLeast => order.is_ge(),
        }
    }
}

impl Condition {
    /// Parses a condition.
    ///
    /// # Errors
    /// A message that names the unexpected word.
    pub fn parse(text: &str) -> Result<Condition, String> {
        let words = words(text)?;
        let mut parser = Parser { words: &words, depth: 0 };
        let condition = parser.any()?;
        match parser.words.first() {
            None => Ok(condition),
            Some(word) => Err(format!("unexpected {word}; combine conditions with and, or, parentheses")),
        }
    }

    /// Returns true if the condition examines tags. Such conditions are last in a list, because tags are read from the
    /// log and everything else is in the index.
    fn needs_tags(&self) -> bool {
        match self {
            Condition::All(list) | Condition::Any(list) => list.iter().any(Condition::needs_tags),
            Condition::Not(one) => one.needs_tags(),
            Condition::Tag(..) => true,
            _ => false,
        }
    }

    /// Returns true if the condition examines reads, which are counted only then.
    pub fn needs_reads(&self) -> bool {
        match self {
            Condition::All(list) | Condition::Any(list) => list.iter().any(Condition::needs_reads),
            Condition::Not(one) => one.needs_reads(),
            Condition::Reads(..) => true,
            _ => false,
        }
    }

    /// Returns the ages in milliseconds that the condition compares with.
    pub fn ages(&self) -> Vec<u64> {
        match self {
            Condition::All(list) | Condition::Any(list) => list.iter().flat_map(Condition::ages).collect(),
            Condition::Not(one) => one.ages(),
            Condition::Age(_, ms) => vec![*ms],
            _ => Vec::new(),
        }
    }

    /// Returns true if an object satisfies the condition.
    pub fn is_true(&self, facts: &Facts<'_>) -> bool {
        match self {
            Condition::All(all) => all.iter().all(|one| one.is_true(facts)),
            Condition::Any(any) => any.iter().any(|one| one.is_true(facts)),
            Condition::Not(one) => !one.is_true(facts),
            Condition::Age(comparison, ms) => comparison.holds(facts.age_ms.cmp(ms)),
            Condition::Size(comparison, bytes) => comparison.holds(facts.size.cmp(bytes)),
            Condition::Reads(comparison, rate) => comparison.holds((facts.reads_per_day)().total_cmp(rate)),
            Condition::Bucket(name) => facts.bucket == name,
            Condition::Prefix(prefix) => facts.key.starts_with(prefix.as_str()),
            Condition::Suffix(suffix) => facts.key.ends_with(suffix.as_str()),
            Condition::Tag(name, value) => (facts.tags)().iter().any(|(n, v)| n == name && v == value),
        }
    }
}

/// Splits a condition into words, operators and quoted texts. A text begins with a double quote, also if it was written
/// in single quotes, and has no closing quote.
///
/// # Errors
/// A message if a quoted text does not end.
pub fn words(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '(' | ')' => 1,
            '"' | '\'' => {
                let end = rest[1..].find(first).ok_or_else(|| format!("{rest}: the quote does not end"))?;
                // Both kinds of quotes become a double quote, which tells `Parser::text` that this is not a plain word.
                words.push(format!("\"{}", &rest[1..=end]));
                rest = rest[end + 2..].trim_start();
                continue;
            }
            '<' | '>' | '=' | '!' => 1 + usize::from(rest[1..].starts_with('=')),
            _ => rest.find(|c: char| c.is_whitespace() || "()<>=!\"'".contains(c)).unwrap_or(rest.len()),
        };
        words.push(rest[..length].to_string());
        rest = rest[length..].trim_start();
    }
    Ok(words)
}

struct Parser<'a> {
    words: &'a [String],
    depth: u32,
}

impl Parser<'_> {
    fn take(&mut self, word: &str) -> bool {
        let found = self.words.first().is_some_and(|first| first == word);
        if found {
            self.words = &self.words[1..];
        }
        found
    }

    fn next(&mut self, expected: &str) -> Result<&str, String> {
        let (first, rest) = self.words.split_first().ok_or_else(|| format!("{expected} is missing"))?;
        self.words = rest;
        Ok(first)
    }

    fn any(&mut self) -> Result<Condition, String> {
        let mut any = vec![self.all()?];
        while self.take("or") {
            any.push(self.all()?);
        }
        any.sort_by_key(Condition::needs_tags);
        Ok(if any.len() == 1 { any.remove(0) } else { Condition::Any(any) })
    }

    fn all(&mut self) -> Result<Condition, String> {
        let mut all = vec![self.one()?];
        while self.take("and") {
            all.push(self.one()?);
        }
        all.sort_by_key(Condition::needs_tags);
        Ok(if all.len() == 1 { all.remove(0) } else { Condition::All(all) })
    }

    fn one(&mut self) -> Result<Condition, String> {
        /// Maximum depth of parentheses and negations.
        const MAX_DEPTH: u32 = 20;
        self.depth += 1;
        // The parser is recursive: without a limit, many parentheses in a setting would overflow the stack.
        if self.depth > MAX_DEPTH {
            return Err("the condition is nested too deeply".into());
        }
        let condition = if self.take("not") {
            Condition::Not(Box::new(self.one()?))
        } else if self.take("(") {
            let inner = self.any()?;
            if !self.take(")") {
                return Err("a closing parenthesis is missing".into());
            }
            inner
        } else {
            self.comparison()?
        };
        self.depth -= 1;
        Ok(condition)
    }

    fn comparison(&mut self) -> Result<Condition, String> {
        let property = self.next("a condition such as age > 7d")?.to_string();
        match property.as_str() {
            "age" => Ok(Condition::Age(self.order()?, self.value(&property, parse_time_ms)?)),
            "size" => Ok(Condition::Size(self.order()?, self.value(&property, parse_size)?)),
            "reads_per_day" => Ok(Condition::Reads(self.order()?, self.value(&property, parse_rate)?)),
            "bucket" => self.text(&property, Condition::Bucket),
            "prefix" => self.text(&property, Condition::Prefix),
            "suffix" => self.text(&property, Condition::Suffix),
            tag if tag.starts_with("tag.") => {
                let name = tag["tag.".len()..].to_string();
                self.text(tag, |value| Condition::Tag(name, value))
            }
            other => Err(format!(
                "{other} is no property; use age, size, reads_per_day, bucket, prefix, suffix or tag.NAME"
            )),
        }
    }

    fn order(&mut self) -> Result<Comparison, String> {
        match self.next("a comparison")? {
            "<" => Ok(Comparison::Less),
            "<=" => Ok(Comparison::AtMost),
            ">" => Ok(Comparison::Greater),
            ">=" => Ok(Comparison::AtLeast),
            other => Err(format!("{other} is no comparison; use <, <=, > or >=")),
        }
    }

    fn value<T, E: std::fmt::Display>(
        &mut self,
        property: &str,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Result<T, String> {
        let first = self.next("a value")?.to_string();
        // A number and its unit may be two words.
        if let Some(unit) = self.words.first()
            && let Ok(value) = parse(&format!("{first} {unit}"))
        {
            self.words = &self.words[1..];
            return Ok(value);
        }
        parse(&first).map_err(|error| format!("{property}: {error}"))
    }

    fn text(
        &mut self,
        property: &str,
        condition: impl FnOnce(String) -> Condition,
    ) -> Result<Condition, String> {
        let is_equal = match self.next("a comparison")? {
            "=" | "==" => true,
            "!=" => false,
            other => return Err(format!("{other} is no comparison of {property}; use = or !=")),
        };
        let value = self.next("a text")?;
        // A plain word is refused: in `prefix = and size > 1`, the forgotten value would be `and`.
        let Some(value) = value.strip_prefix('"') else {
            return Err(format!("{property}: write the text {value} in quotes"));
        };
        let condition = condition(value.to_string());
        Ok(if is_equal { condition } else { Condition::Not(Box::new(condition)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: u64 = 86_400_000;

    fn facts(age_days: u64, size: u64) -> Facts<'static> {
        Facts {
            bucket: "logs",
            key: "2026/a.gz",
            size,
            age_ms: age_days * DAY_MS,
            reads_per_day: &|| 0.5,
            tags: &Vec::new,
        }
    }

    #[test]
    fn a_time_is_shown_as_it_is_written() {
        for text in ["7d", "1d", "12h", "90s", "0s", "25h"] {
            assert_eq!(show_time_ms(parse_time_ms(text).unwrap()), text);
        }
    }

    #[test]
    fn and_binds_more_than_or_and_parentheses_more_than_both() {
        let plain = Condition::parse("age > 7d or size >= 1MiB and prefix = 'x/'").unwrap();
        assert!(plain.is_true(&facts(8, 0)) && !plain.is_true(&facts(7, 2 << 20)));
        let grouped = Condition::parse("(age > 7d or size >= 1 MiB) and prefix = \"2026/\"").unwrap();
        assert!(grouped.is_true(&facts(7, 1 << 20)) && !grouped.is_true(&facts(7, (1 << 20) - 1)));
        let negated = Condition::parse("not (bucket = 'logs' or suffix = '.gz')").unwrap();
        assert!(!negated.is_true(&facts(0, 0)));
    }

    #[test]
    fn each_comparison_has_its_bound() {
        for (text, expected) in [
            ("size < 10", [true, false, false]),
            ("size <= 10", [true, true, false]),
            ("size > 10", [false, false, true]),
            ("size >= 10", [false, true, true]),
            ("reads_per_day < 1 and size > 9", [false, true, true]),
            ("reads_per_day >= 0.5 and size > 9", [false, true, true]),
            ("reads_per_day > 0.5 or size > 10", [false, false, true]),
        ] {
            let condition = Condition::parse(text).unwrap();
            assert_eq!([9, 10, 11].map(|size| condition.is_true(&facts(0, size))), expected, "{text}");
        }
    }

    #[test]
    fn tags_are_compared() {
        let tags = || vec![("team".to_string(), "a b".to_string())];
        let with_tags = Facts { tags: &tags, ..facts(0, 0) };
        assert!(Condition::parse("tag.team = \"a b\"").unwrap().is_true(&with_tags));
        assert!(Condition::parse("tag.team != 'c'").unwrap().is_true(&with_tags));
    }

    #[test]
    fn tags_are_read_only_if_nothing_else_decides() {
        let tags = || unreachable!();
        let facts = Facts { tags: &tags, ..facts(1, 0) };
        assert!(!Condition::parse("tag.a = 'b' and age > 7d").unwrap().is_true(&facts));
        assert!(Condition::parse("(not tag.a = 'b' and size = size) or age < 7d").is_err());
        assert!(Condition::parse("not tag.a = 'b' or age < 7d").unwrap().is_true(&facts));
    }

    #[test]
    fn an_error_names_the_problem() {
        for (text, problem) in [
            ("", "a condition such as age > 7d is missing"),
            ("age", "a comparison is missing"),
            ("age > ", "a value is missing"),
            ("age = 7d", "= is no comparison"),
            ("colour > 3", "colour is no property"),
            ("prefix = logs/", "in quotes"),
            ("prefix = 'logs/", "the quote does not end"),
            ("(age > 1d", "a closing parenthesis is missing"),
            ("age > 1d size > 3", "unexpected size"),
            ("age > 7 years", "'7' is not a time"),
            ("reads_per_day < few", "'few' is not a number"),
            ("reads_per_day = 1", "= is no comparison"),
            ("age > -1d", "'-1d' is not a time"),
        ] {
            let error = Condition::parse(text).unwrap_err();
            assert!(error.contains(problem), "{text}: {error}");
        }
        assert!(Condition::parse(&"(".repeat(1000)).unwrap_err().contains("nested too deeply"));
    }
}
