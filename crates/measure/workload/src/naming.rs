//! Names of the objects below a dataset's prefix. A name follows a template whose placeholders are functions of the
//! object's number, so that Plimsoll can reproduce any key and recognise its own keys in a listing.

use std::fmt;

use plimsoll_base::rng::{Stream, mix};

/// A piece of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    /// The object's number, padded to at least eight digits.
    Index,
    /// Eight pseudo-random hex digits.
    Hex,
    /// One of several prefixes, such as `p0000`, assigned in turn.
    Prefix,
    /// A directory for every thousand objects, such as `00000`.
    Directory,
    /// A YCSB record's number: its order (hashed or plain), its minimum number of digits, and the number of the
    /// record that is the first object.
    Record(RecordOrder, usize, u64),
}

/// Order of YCSB records when sorted by key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordOrder {
    /// Order of the record numbers.
    Ordered,
    /// Order of YCSB's FNV-1a hash of the number's bytes, least significant byte first.
    Hashed,
    /// Order of go-ycsb's FNV-1a hash of the number's bytes, most significant byte first.
    HashedGo,
}

impl RecordOrder {
    /// All orders of records.
    pub const ALL: [RecordOrder; 3] = [RecordOrder::Ordered, RecordOrder::Hashed, RecordOrder::HashedGo];

    /// Returns the name used in files.
    pub fn name(self) -> &'static str {
        match self {
            RecordOrder::Ordered => "ordered",
            RecordOrder::Hashed => "hashed",
            RecordOrder::HashedGo => "hashed-go",
        }
    }

    /// Returns the number in the key of a record.
    pub fn number(self, record: u64) -> u64 {
        let bytes = match self {
            RecordOrder::Ordered => return record,
            RecordOrder::Hashed => record.to_le_bytes(),
            RecordOrder::HashedGo => record.to_be_bytes(),
        };
        // 64-bit FNV-1a with the offset basis and the prime of its definition.
        let hash = bytes.iter().fold(0xCBF2_9CE4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3)
        });
        (hash as i64).unsigned_abs()
    }
}

/// Naming scheme of the objects of a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Naming {
    parts: Vec<Part>,
    prefixes: u64,
}

/// An error in a template.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum NamingError {
    /// The template does not contain `{index}` exactly once, so keys would collide.
    #[error("the template '{0}' must contain {{index}} exactly once, or keys would collide")]
    NoIndex(String),
    /// The template contains an unknown placeholder.
    #[error("unknown placeholder '{{{0}}}' in the template; use {{index}}, {{hex}}, {{prefix}} or {{dir}}")]
    Placeholder(String),
    /// The template does not form a valid key.
    #[error(
        "the template '{0}' must have 1 to 200 printable characters, no leading '/' and neither '//' nor '..'"
    )]
    Key(String),
    /// The template contains `{prefix}`, but the number of prefixes is not set.
    #[error("the template contains {{prefix}}, but the number of prefixes is not set; add prefixes = 16")]
    Prefixes,
}

impl Default for Naming {
    fn default() -> Naming {
        Naming { parts: vec![Part::Index], prefixes: 0 }
    }
}

impl Naming {
    /// Returns the scheme `HHHHHHHH/NUMBER`, with a random prefix of eight hex digits per object.
    pub fn hex() -> Naming {
        Naming { parts: vec![Part::Hex, Part::Text("/".into()), Part::Index], prefixes: 0 }
    }

    /// Returns the scheme `pNNNN/NUMBER`, with `count` prefixes to which the objects are assigned in turn.
    pub fn prefixes(count: u64) -> Naming {
        Naming { parts: vec![Part::Prefix, Part::Text("/".into()), Part::Index], prefixes: count }
    }

    /// Returns YCSB's scheme for records: `prefix`, followed by the record's number.
    pub fn records(prefix: &str, order: RecordOrder, digits: usize, first: u64) -> Naming {
        let parts = vec![Part::Text(prefix.into()), Part::Record(order, digits, first)];
        Naming { parts, prefixes: 0 }
    }

    /// Returns prefix, order, digits and first number of records; `None` for objects that are not records.
    pub fn record_parts(&self) -> Option<(&str, RecordOrder, usize, u64)> {
        match &self.parts[..] {
            [Part::Text(prefix), Part::Record(order, digits, first)] => {
                Some((prefix, *order, *digits, *first))
            }
            _ => None,
        }
    }

    /// Returns the number in the key of record `index`; `None` for objects that are not records.
    pub fn record_number(&self, index: u64) -> Option<u64> {
        match &self.parts[..] {
            [Part::Text(_), Part::Record(order, _, first)] => Some(order.number(first + index)),
            _ => None,
        }
    }

    /// Parses a template such as `logs/{hex}/{index}.bin`; `prefixes` is the number of values of `{prefix}`.
    ///
    /// # Errors
    /// Returns a [`NamingError`] if the template is not a valid key, contains an unknown placeholder, or does not
    /// contain `{index}` exactly once, or if it contains `{prefix}` and `prefixes` is 0.
    pub fn template(text: &str, prefixes: u64) -> Result<Naming, NamingError> {
        let fit = (1..=200).contains(&text.len())
            && text.chars().all(|c| !c.is_control())
            && !text.starts_with('/')
            && !text.contains("//")
            && !text.contains("..");
        if !fit {
            return Err(NamingError::Key(text.into()));
        }
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            if !before.is_empty() {
                parts.push(Part::Text(before.into()));
            }
            let (name, after) =
                after.split_once('}').ok_or_else(|| NamingError::Placeholder(after.into()))?;
            parts.push(match name {
                "index" => Part::Index,
                "hex" => Part::Hex,
                "prefix" => Part::Prefix,
                "dir" => Part::Directory,
                other => return Err(NamingError::Placeholder(other.into())),
            });
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.into()));
        }
        if parts.iter().filter(|p| **p == Part::Index).count() != 1 {
            return Err(NamingError::NoIndex(text.into()));
        }
        if parts.contains(&Part::Prefix) && prefixes == 0 {
            return Err(NamingError::Prefixes);
        }
        Ok(Naming { parts, prefixes })
    }

    /// Returns the number of `{prefix}` values; 0 if the template has no `{prefix}`.
    pub fn prefix_count(&self) -> u64 {
        self.prefixes
    }

    /// Appends the name of object `index` to `out`.
    pub fn name_into(&self, out: &mut String, seed: u64, index: u64) {
        use fmt::Write;
        for part in &self.parts {
            let _ = match part {
                Part::Text(text) => {
                    out.push_str(text);
                    Ok(())
                }
                Part::Index => write!(out, "{index:08}"),
                Part::Hex => write!(out, "{:08x}", Stream::new(seed, "naming").at(index) as u32),
                Part::Prefix => write!(out, "p{:04}", index % self.prefixes.max(1)),
                Part::Directory => write!(out, "{:05}", index / 1000),
                Part::Record(order, digits, first) => {
                    write!(out, "{:0digits$}", order.number(first + index))
                }
            };
        }
    }

    /// Returns the number of the object with this name; `None` if no object has it, or if names are hashed records.
    pub fn index_of(&self, seed: u64, name: &str) -> Option<u64> {
        // Every part before the number has a known length, except prefixes above p9999 and directories above 99999.
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let mut at = 0;
        for part in &self.parts {
            let rest = name.get(at..)?;
            at += match part {
                Part::Text(text) => text.len(),
                Part::Hex => 8,
                Part::Prefix => 1 + digits(rest.get(1..)?),
                Part::Directory => digits(rest),
                // The hash in a record's name cannot be inverted.
                Part::Record(..) => return None,
                Part::Index => {
                    // Digits after the number would be parsed as part of it, so the round trip below decides.
                    let index = rest.get(..digits(rest))?.parse().ok()?;
                    let mut again = String::new();
                    self.name_into(&mut again, seed, index);
                    return (again == name).then_some(index);
                }
            };
        }
        None
    }

    /// Returns the label of the keys in reports, such as `one prefix`, `16 sequential prefixes` or `random prefixes`;
    /// `None` for other templates.
    pub fn group(&self) -> Option<String> {
        match &self.parts[..] {
            [Part::Index] => Some("one prefix".into()),
            [Part::Hex, ..] => Some("random prefixes".into()),
            [.., Part::Record(order, ..)] => Some(format!("{} records", order.name())),
            [Part::Prefix, ..] => Some(format!("{} sequential prefixes", self.prefixes)),
            _ => None,
        }
    }
}

/// Formats the template as it is written in files.
impl fmt::Display for Naming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in &self.parts {
            match part {
                Part::Text(text) => f.write_str(text)?,
                Part::Index => f.write_str("{index}")?,
                Part::Hex => f.write_str("{hex}")?,
                Part::Prefix => f.write_str("{prefix}")?,
                Part::Directory => f.write_str("{dir}")?,
                Part::Record(order, ..) => write!(f, "{{{} record}}", order.name())?,
            }
        }
        Ok(())
    }
}

/// Returns the seed of the names in a dataset.
pub fn names_seed(seed: u64, dataset_id: u64) -> u64 {
    mix(seed ^ dataset_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(naming: &Naming, index: u64) -> String {
        let mut out = String::new();
        naming.name_into(&mut out, 42, index);
        out
    }

    #[test]
    fn names_are_distinct_and_recognised() {
        let template = Naming::template("logs/{prefix}-{hex}/{dir}/{index}.bin", 3).unwrap();
        for naming in [Naming::default(), Naming::hex(), Naming::prefixes(16), template] {
            let names: std::collections::HashSet<String> = (0..2000).map(|i| name(&naming, i)).collect();
            assert_eq!(names.len(), 2000);
            for index in [0, 7, 99_999_999, 100_000_000, u64::from(u32::MAX)] {
                assert_eq!(naming.index_of(42, &name(&naming, index)), Some(index), "{naming}");
            }
            for foreign in
                ["", "x", "0000001", "00000001x", "p0001/00000002", "deadbeef/00000001", "é0000001"]
            {
                assert_eq!(naming.index_of(42, foreign), None, "{naming} {foreign}");
            }
        }
        assert_eq!(name(&Naming::prefixes(4), 6), "p0002/00000006");
        assert_eq!(name(&Naming::default(), 12), "00000012");
    }

    #[test]
    fn records_are_named_as_ycsb_names_them() {
        // FNV-1a of eight zero bytes; the second value is YCSB's `Utils.hash(1)`.
        let java = Naming::records("user", RecordOrder::Hashed, 1, 0);
        assert_eq!(name(&java, 0), "user6284781860667377211");
        assert_eq!(name(&java, 1), "user8517097267634966620");
        let go = Naming::records("user", RecordOrder::HashedGo, 1, 0);
        assert_eq!(name(&go, 0), "user6284781860667377211", "zero is the same in both byte orders");
        assert_ne!(name(&go, 1), name(&java, 1));
        assert_eq!(name(&Naming::records("k", RecordOrder::Ordered, 5, 0), 42), "k00042");
        assert_eq!(java.index_of(42, "user6284781860667377211"), None);
    }

    #[test]
    fn invalid_templates_are_rejected_with_the_reason() {
        let error = |text: &str| Naming::template(text, 0).unwrap_err().to_string();
        assert!(error("data").contains("{index} exactly once"));
        assert!(error("{index}{index}").contains("exactly once"));
        assert!(error("{number}").contains("use {index}"));
        assert!(error("../{index}").contains("must have 1 to 200"));
        assert!(error("{prefix}/{index}").contains("prefixes = 16"));
    }
}
