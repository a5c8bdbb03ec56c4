//! Paths into an experiment file, such as `phase.get.objects.size`: finds the line of a path and applies `--set`. A
//! path refers to a phase by its name.

use toml::Value;
use toml::de::{DeTable, DeValue};

/// Splits a path into its parts.
fn names(path: &str) -> Vec<&str> {
    path.split('.').collect()
}

/// Finds the phase whose name begins the path. Returns its index and the number of parts in its name. Names may
/// contain dots, so the longest match wins.
fn phase_at<'a>(parts: &[&str], phases: impl Iterator<Item = (usize, &'a str)>) -> Option<(usize, usize)> {
    phases
        .filter_map(|(index, name)| {
            let taken = name.split('.').count();
            (parts.len() >= taken && parts[..taken].join(".") == name).then_some((index, taken))
        })
        .max_by_key(|(_, taken)| *taken)
}

/// Returns the line, from 1, of the field at `path`, or of the closest enclosing element if the file does not set it.
pub fn line_of(text: &str, path: &str) -> usize {
    let line = |offset: usize| text[..offset.min(text.len())].matches('\n').count() + 1;
    let Ok(document) = DeTable::parse(text) else { return 1 };
    let parts = names(path);
    let mut offset = 0;
    let mut table: &DeTable<'_> = document.get_ref();
    let mut at = 0;
    while at < parts.len() {
        let Some((key, value)) = table.iter().find(|(key, _)| key.get_ref().as_ref() == parts[at]) else {
            break;
        };
        offset = key.span().start;
        at += 1;
        let mut value = value;
        if let DeValue::Array(items) = value.get_ref() {
            let named = items.iter().enumerate().filter_map(|(i, item)| match item.get_ref() {
                DeValue::Table(table) => table
                    .iter()
                    .find(|(key, _)| key.get_ref().as_ref() == "name")
                    .and_then(|(_, name)| Some((i, name.get_ref().as_str()?))),
                _ => None,
            });
            let Some((index, taken)) = phase_at(&parts[at..], named) else { break };
            value = &items[index];
            offset = value.span().start;
            at += taken;
        }
        match value.get_ref() {
            DeValue::Table(inner) => table = inner,
            _ => break,
        }
    }
    line(offset)
}

/// An error in applying a `--set` option.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SetError {
    /// The option is not of the form `path=value`.
    #[error("--set '{0}' is not in the form path=value, such as phase.get.objects.size=1MiB")]
    Shape(String),
    /// The path names a phase that does not exist.
    #[error("--set {path}: there is no phase '{name}'; the phases are {known}")]
    Phase {
        /// The path as written.
        path: String,
        /// The first part of the path that matches no phase name.
        name: String,
        /// Names of the phases, separated by commas.
        known: String,
    },
    /// The path does not lead to a field.
    #[error("--set {0}: the path does not lead to a field; specify a field, such as phase.get.duration")]
    NoTable(String),
}

/// Splits `path=value`. A value that is valid TOML is parsed as TOML; any other value is taken as text.
///
/// # Errors
/// Returns [`SetError::Shape`] if there is no `=`, or if the path is empty or has an empty part.
pub fn parse_set(text: &str) -> Result<(String, Value), SetError> {
    let (path, value) = text.split_once('=').ok_or_else(|| SetError::Shape(text.into()))?;
    let path = path.trim();
    if path.is_empty() || path.split('.').any(str::is_empty) {
        return Err(SetError::Shape(text.into()));
    }
    let as_toml = toml::from_str::<toml::Table>(&format!("value = {}", value.trim()));
    let read = as_toml.ok().and_then(|mut table| table.remove("value"));
    Ok((path.to_string(), read.unwrap_or_else(|| Value::String(value.trim().to_string()))))
}

/// Sets the value at `path` in a document and creates missing tables on the way.
///
/// # Errors
/// Returns [`SetError::Phase`] if the path names an unknown phase, and [`SetError::NoTable`] if it does not lead to a
/// field.
pub fn set(document: &mut toml::Table, path: &str, value: Value) -> Result<(), SetError> {
    let parts = names(path);
    let mut table = document;
    let mut at = 0;
    while at + 1 < parts.len() {
        let next = table.entry(parts[at]).or_insert_with(|| Value::Table(toml::Table::new()));
        at += 1;
        table = match next {
            Value::Table(inner) => inner,
            Value::Array(items) => {
                let name_of =
                    |item: &Value| item.get("name").and_then(Value::as_str).unwrap_or("").to_string();
                let all: Vec<String> = items.iter().map(name_of).collect();
                let named = all.iter().enumerate().map(|(i, name)| (i, name.as_str()));
                let Some((index, taken)) = phase_at(&parts[at..], named) else {
                    let name = parts[at].to_string();
                    return Err(SetError::Phase { path: path.into(), name, known: all.join(", ") });
                };
                at += taken;
                match items.get_mut(index) {
                    Some(Value::Table(inner)) if at < parts.len() => inner,
                    _ => return Err(SetError::NoTable(path.into())),
                }
            }
            // A table replaces a plain value: concurrency.from = 4 removes concurrency = 8.
            other => {
                *other = Value::Table(toml::Table::new());
                match other {
                    Value::Table(inner) => inner,
                    _ => return Err(SetError::NoTable(path.into())),
                }
            }
        };
    }
    table.insert(parts[parts.len() - 1].to_string(), value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "name = 'x'\n\n[[phase]]\nname = 'a'\nduration = '1s'\n\n[[phase]]\nname = 'b.c'\n\
                        objects = { count = 5,\n size = '1 KiB' }\n";

    #[test]
    fn line_of_finds_the_field_or_its_enclosing_element() {
        for (path, line) in [
            ("name", 1),
            ("phase.a.duration", 5),
            ("phase.a.timeout", 3),
            ("phase.b.c.objects.size", 10),
            ("phase.b.c.objects.range", 9),
            ("nothing", 1),
        ] {
            assert_eq!(line_of(TEXT, path), line, "{path}");
        }
    }

    #[test]
    fn any_value_can_be_set() {
        let mut table: toml::Table = toml::from_str(TEXT).unwrap();
        for (text, path) in [
            ("seed=7", "/seed"),
            ("phase.a.duration=5s", "/phase/0/duration"),
            ("phase.b.c.objects.size=1MiB", "/phase/1/objects/size"),
            ("phase.a.objects.count=3", "/phase/0/objects/count"),
            ("phase.a.concurrency={ from = 1, step = 1, every = '1s' }", "/phase/0/concurrency"),
        ] {
            let (name, value) = parse_set(text).unwrap();
            set(&mut table, &name, value.clone()).unwrap();
            let mut found = &Value::Table(table.clone());
            for part in path.split('/').skip(1) {
                found = match part.parse::<usize>() {
                    Ok(index) => &found[index],
                    Err(_) => &found[part],
                };
            }
            assert_eq!(*found, value, "{text}");
        }
        assert_eq!(parse_set("seed=7").unwrap().1, Value::Integer(7));
        assert_eq!(parse_set("block=10s").unwrap().1, Value::String("10s".into()));
    }

    #[test]
    fn invalid_set_options_are_rejected_with_the_reason() {
        let mut table: toml::Table = toml::from_str(TEXT).unwrap();
        let error = set(&mut table, "phase.z.duration", Value::Integer(1)).unwrap_err().to_string();
        assert!(error.contains("no phase 'z'; the phases are a, b.c"), "{error}");
        assert!(parse_set("seed").is_err() && parse_set("=3").is_err() && parse_set("a..b=3").is_err());
        assert!(set(&mut table, "phase.a", Value::Integer(1)).is_err());
    }
}
