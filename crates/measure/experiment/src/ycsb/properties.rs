//! YCSB property files of either family, and single properties from `-p`.

use std::collections::BTreeMap;

use super::lines::LogicalLines;
use super::names::{DEFAULT_ONLY, KNOWN, WITHOUT_EFFECT, belongs_to_other_binding};

/// YCSB implementation for which a property file is written. The two differ in their built-in workloads and in how
/// they hash keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// YCSB, the original in Java.
    Ycsb,
    /// go-ycsb, the rewrite in Go.
    GoYcsb,
}

/// The core workloads that both families ship: name, proportions, and YCSB's request distribution.
const WORKLOADS: &[(&str, &str, &str)] = &[
    ("workloada", "readproportion=0.5\nupdateproportion=0.5", "zipfian"),
    ("workloadb", "readproportion=0.95\nupdateproportion=0.05", "zipfian"),
    ("workloadc", "readproportion=1\nupdateproportion=0", "zipfian"),
    ("workloadd", "readproportion=0.95\nupdateproportion=0\ninsertproportion=0.05", "latest"),
    (
        "workloade",
        "readproportion=0\nupdateproportion=0\nscanproportion=0.95\ninsertproportion=0.05",
        "zipfian",
    ),
    ("workloadf", "readproportion=0.5\nupdateproportion=0\nreadmodifywriteproportion=0.5", "zipfian"),
];

/// Returns the properties of a built-in workload as text; `None` if there is no workload of this name.
pub fn built_in(name: &str, family: Family) -> Option<String> {
    let (_, proportions, distribution) = WORKLOADS.iter().find(|(n, ..)| *n == name)?;
    let (distribution, scan) = match family {
        Family::Ycsb => (*distribution, 100),
        Family::GoYcsb => (if *distribution == "latest" { "latest" } else { "uniform" }, 1),
    };
    Some(format!(
        "recordcount=1000\noperationcount=1000\nworkload=core\n{proportions}\nrequestdistribution={distribution}\n\
         maxscanlength={scan}\nscanlengthdistribution=uniform\n"
    ))
}

/// A property's value and its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// Value of the property, as written.
    pub value: String,
    /// Source of the value: `FILE:LINE` or `-p NAME`.
    pub place: String,
}

/// Properties, indexed by name.
#[derive(Debug, Clone, Default)]
pub struct Properties(BTreeMap<String, Given>);

/// An error in reading or using properties.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PropertyError {
    /// A file cannot be read, and no built-in workload replaces it.
    #[error("-P {path}: {reason}; the built-in workloads are workloada to workloadf")]
    File {
        /// The path as written.
        path: String,
        /// The system's error message.
        reason: String,
    },
    /// A line or an argument of `-p` is not a property.
    #[error("{place}: '{text}' is not in the form name=value")]
    Line {
        /// Source of the text: `FILE:LINE` or `-p`.
        place: String,
        /// The text that is not a property.
        text: String,
    },
    /// No family or binding has a property of this name.
    #[error("{place}: property '{name}' is unknown{hint}")]
    Unknown {
        /// Source of the property: `FILE:LINE` or `-p NAME`.
        place: String,
        /// The name as written.
        name: String,
        /// Suggestion of a similar name, such as `; did you mean table?`; may be empty.
        hint: String,
    },
    /// The value of a property is invalid.
    #[error("{place}: {name}={value} must be {expected}")]
    Value {
        /// Source of the value: `FILE:LINE`, `-p NAME` or `the default`.
        place: String,
        /// Name of the property.
        name: String,
        /// The value as written.
        value: String,
        /// Description of the valid values.
        expected: String,
    },
}

/// Returns the edit distance between two names: the number of letters to insert, delete or replace.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let next = (row[j] + 1).min(row[j + 1] + 1).min(diagonal + usize::from(x != *y));
            diagonal = row[j + 1];
            row[j + 1] = next;
        }
    }
    row[b.len()]
}

impl Properties {
    /// Reads files, then single properties (`name=value`); later values override earlier ones. A file that does not
    /// exist may be a built-in workload, which is used instead.
    ///
    /// # Errors
    /// Returns a [`PropertyError`] if a file cannot be read, or if a property is malformed, unknown or not supported.
    pub fn read(files: &[String], single: &[String], family: Family) -> Result<Properties, PropertyError> {
        let mut out = Properties::default();
        for file in files {
            let text = match std::fs::read_to_string(file) {
                Ok(text) => text,
                Err(cause) => {
                    let name = file.rsplit('/').next().unwrap_or(file);
                    let missing = cause.kind() == std::io::ErrorKind::NotFound;
                    let reason = cause.to_string();
                    let error = || PropertyError::File { path: file.clone(), reason };
                    built_in(name, family).filter(|_| missing).ok_or_else(error)?
                }
            };
            out.add_text(file, &text)?;
        }
        for pair in single {
            let (name, value) = pair
                .split_once('=')
                .ok_or_else(|| PropertyError::Line { place: "-p".into(), text: pair.clone() })?;
            out.add(name.trim(), value.trim(), format!("-p {}", name.trim()))?;
        }
        Ok(out)
    }

    /// Parses the text of one file; `file` is its name in error messages.
    ///
    /// # Errors
    /// Returns a [`PropertyError`] if a property is malformed, unknown or not supported.
    pub fn parse(file: &str, text: &str) -> Result<Properties, PropertyError> {
        let mut out = Properties::default();
        out.add_text(file, text).map(|()| out)
    }

    /// Adds the properties in the text of a file.
    fn add_text(&mut self, file: &str, text: &str) -> Result<(), PropertyError> {
        for line in LogicalLines::of(text) {
            let place = format!("{file}:{}", line.number);
            let error = || PropertyError::Line { place: place.clone(), text: line.text.trim().to_string() };
            let (name, value) = line.pair().ok_or_else(error)?;
            self.add(&name, value.trim(), place.clone())?;
        }
        Ok(())
    }

    fn add(&mut self, name: &str, value: &str, place: String) -> Result<(), PropertyError> {
        if WITHOUT_EFFECT.contains(&name) || belongs_to_other_binding(name) {
            return Ok(());
        }
        if let Some((_, default)) = DEFAULT_ONLY.iter().find(|(known, _)| *known == name) {
            let expected = || format!("{default}, the only value that Plimsoll supports");
            return match value.is_empty() || value.eq_ignore_ascii_case(default) {
                true => Ok(()),
                false => Err(PropertyError::Value {
                    place,
                    name: name.into(),
                    value: value.into(),
                    expected: expected(),
                }),
            };
        }
        if !KNOWN.contains(&name) {
            let near = KNOWN.iter().map(|known| (distance(name, known), known)).min();
            let hint = near.filter(|(d, _)| *d <= 3).map(|(_, known)| format!("; did you mean {known}?"));
            return Err(PropertyError::Unknown { place, name: name.into(), hint: hint.unwrap_or_default() });
        }
        self.0.insert(name.to_string(), Given { value: value.to_string(), place });
        Ok(())
    }

    /// Returns the value of a property; `None` if it is not set or empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|g| g.value.as_str()).filter(|v| !v.is_empty())
    }

    /// Returns names and values, sorted by name, with secrets replaced by `...`.
    pub fn redacted(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, given)| {
            let secret = name.contains("secret") || name.contains("access");
            (name.as_str(), if secret { "..." } else { given.value.as_str() })
        })
    }

    /// Returns the error for the invalid value of a property.
    pub fn wrong(&self, name: &str, expected: &str) -> PropertyError {
        let given = self.0.get(name).cloned();
        let Given { value, place } =
            given.unwrap_or_else(|| Given { value: String::new(), place: "the default".into() });
        PropertyError::Value { place, name: name.into(), value, expected: expected.into() }
    }

    /// Returns a property as a whole number; underscores between digits are ignored.
    ///
    /// # Errors
    /// If the value is not a whole number, 0 or more.
    pub fn whole(&self, name: &str, default: u64) -> Result<u64, PropertyError> {
        match self.get(name) {
            None => Ok(default),
            Some(text) => {
                text.replace('_', "").parse().map_err(|_| self.wrong(name, "a whole number, 0 or more"))
            }
        }
    }

    /// Returns a property as a number.
    ///
    /// # Errors
    /// If the value is not a finite number, 0 or more.
    pub fn number(&self, name: &str, default: f64) -> Result<f64, PropertyError> {
        match self.get(name) {
            None => Ok(default),
            Some(text) => text
                .parse()
                .ok()
                .filter(|n: &f64| n.is_finite() && *n >= 0.0)
                .ok_or_else(|| self.wrong(name, "a number, 0 or more")),
        }
    }

    /// Returns a property as a boolean, regardless of case.
    ///
    /// # Errors
    /// If the value is neither `true` nor `false`.
    pub fn flag(&self, name: &str, default: bool) -> Result<bool, PropertyError> {
        match self.get(name).map(str::to_ascii_lowercase).as_deref() {
            None => Ok(default),
            Some("true") => Ok(true),
            Some("false") => Ok(false),
            Some(_) => Err(self.wrong(name, "true or false")),
        }
    }

    /// Returns a property as one of `words`, regardless of case. The first word is the default.
    ///
    /// # Errors
    /// If the value is none of the words.
    pub fn word<'a>(&self, name: &str, words: &[&'a str]) -> Result<&'a str, PropertyError> {
        let Some(text) = self.get(name).map(str::to_ascii_lowercase) else { return Ok(words[0]) };
        let found = words.iter().find(|w| **w == text);
        found.copied().ok_or_else(|| self.wrong(name, &format!("one of {}", words.join(", "))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Properties, PropertyError> {
        let mut out = Properties::default();
        out.add_text("f", text).map(|()| out)
    }

    #[test]
    fn every_form_of_a_property_line_is_read() {
        let text = "# comment\n! another\n\nrecordcount=1000\noperationcount: 5_000\ntable  usertable\nfieldcount = \\\n  3\n\
                    s3.bucket=b\nmongodb.url=x\nmeasurementtype=hdrhistogram\n";
        let properties = read(text).unwrap();
        assert_eq!(properties.whole("recordcount", 0), Ok(1000));
        assert_eq!(properties.whole("operationcount", 0), Ok(5000));
        assert_eq!((properties.get("table"), properties.get("fieldcount")), (Some("usertable"), Some("3")));
        assert_eq!(properties.get("mongodb.url"), None, "a property of another binding is ignored");
    }

    #[test]
    fn errors_name_the_line_and_suggest_a_name() {
        let message = |text: &str| read(text).map(|_| ()).unwrap_err().to_string();
        assert_eq!(message("a=1\n").split(':').next(), Some("f"));
        assert!(message("x=1\nreadpropotion=0.5").starts_with("f:1"));
        assert!(
            message("recordcount=5\nreadpropotion=0.5")
                .contains("f:2: property 'readpropotion' is unknown; did you mean readproportion?")
        );
        assert!(message("=5").contains("is not in the form name=value"));
        let negative = read("readproportion=-1").unwrap().number("readproportion", 0.0).unwrap_err();
        assert_eq!(negative.to_string(), "f:1: readproportion=-1 must be a number, 0 or more");
        let word =
            read("requestdistribution=zipf").unwrap().word("requestdistribution", &["uniform", "zipfian"]);
        assert!(word.unwrap_err().to_string().contains("uniform, zipfian"));
    }

    /// Regression test: every dotted name was accepted as a property of another binding, and every name after `s3.`
    /// was ignored.
    #[test]
    fn misspelt_dotted_names_are_rejected() {
        for wrong in [
            "plimsoll.foo=1",
            "s3.sizee=1",
            "exponential.fraction=1",
            "mongdb.url=x",
            "measurement.intervall=1",
            "mongodb.=x",
        ] {
            let message = read(wrong).map(|_| ()).unwrap_err().to_string();
            assert!(message.starts_with("f:1: property '") && message.contains("is unknown"), "{message}");
        }
        for right in
            ["mongodb.url=x", "measurement.interval=1", "s3.maxErrorRetry=15", "s3.sse=false", "s3.ssec=null"]
        {
            assert!(read(right).is_ok(), "{right}");
        }
        let encrypted = read("s3.sse=true").map(|_| ()).unwrap_err().to_string();
        assert_eq!(encrypted, "f:1: s3.sse=true must be false, the only value that Plimsoll supports");
    }

    #[test]
    fn a_comment_that_ends_in_a_backslash_hides_no_property() {
        let properties = read("# data in C:\\\nrecordcount=7\ntable=caf\\u00e9\n").unwrap();
        assert_eq!((properties.get("recordcount"), properties.get("table")), (Some("7"), Some("caf\u{e9}")));
        assert!(read("table=\\u00zz").map(|_| ()).unwrap_err().to_string().contains("f:1"));
    }

    #[test]
    fn secrets_are_redacted() {
        let properties = read("s3.secret_key=hush\ns3.accessKeyId=id\ns3.bucket=b\n").unwrap();
        let redacted: Vec<_> = properties.redacted().collect();
        assert!(redacted.iter().all(|(_, v)| *v != "hush" && *v != "id"));
        assert!(redacted.contains(&("s3.bucket", "b")));
    }

    #[test]
    fn every_built_in_workload_of_both_families_can_be_read() {
        for family in [Family::Ycsb, Family::GoYcsb] {
            for (name, ..) in WORKLOADS {
                let files = [format!("/nowhere/{name}")];
                let properties = Properties::read(&files, &["recordcount=7".into()], family).unwrap();
                assert_eq!(properties.whole("recordcount", 0), Ok(7), "{name}: -p overrides the file");
            }
        }
        assert!(Properties::read(&["/nowhere/workloadz".into()], &[], Family::Ycsb).is_err());
        let go = Properties::read(&["workloada".into()], &[], Family::GoYcsb).unwrap();
        assert_eq!(go.get("requestdistribution"), Some("uniform"), "the default of go-ycsb");
    }
}
