//! Where something stands in a file, and how `--set` changes it: paths such as `phase.get.objects.size`, in which phases go by
//! their names.

use toml::Value;
use toml::de::{DeTable, DeValue};

/// Splits a path into its names.
fn names(path: &str) -> Vec<&str> {
    path.split('.').collect()
}

/// Whether a phase of that name begins the path; names may hold dots, so the longest match wins. Returns how many parts it took.
fn phase_at<'a>(parts: &[&str], phases: impl Iterator<Item = (usize, &'a str)>) -> Option<(usize, usize)> {
    phases
        .filter_map(|(index, name)| {
            let taken = name.split('.').count();
            (parts.len() >= taken && parts[..taken].join(".") == name).then_some((index, taken))
        })
        .max_by_key(|(_, taken)| *taken)
}

/// The line, from 1, of what `path` names; the nearest thing around it where it is not written itself.
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

/// Why `--set` could not be done.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SetError {
    /// Not `path=value`.
    #[error("--set '{0}' is not path=value, such as phase.get.objects.size=1MiB")]
    Shape(String),
    /// No such phase.
    #[error("--set {path}: there is no phase '{name}'; there are {known}")]
    Phase {
        /// As written.
        path: String,
        /// The name that was looked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// The path goes through something that holds nothing.
    #[error("--set {0}: the path goes through a value that has no fields")]
    NoTable(String),
}

/// Splits `path=value`; the value is read as TOML where it is TOML, else as text.
///
/// # Errors
/// [`SetError::Shape`].
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

/// Sets one value in a document.
///
/// # Errors
/// See [`SetError`].
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
            // A plain value gives way to the table that the path asks for: concurrency = 8 to concurrency.from = 4.
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
    fn lines_are_those_of_the_field_or_of_what_holds_it() {
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
    fn what_cannot_be_set_says_why() {
        let mut table: toml::Table = toml::from_str(TEXT).unwrap();
        let error = set(&mut table, "phase.z.duration", Value::Integer(1)).unwrap_err().to_string();
        assert!(error.contains("no phase 'z'; there are a, b.c"), "{error}");
        assert!(parse_set("seed").is_err() && parse_set("=3").is_err() && parse_set("a..b=3").is_err());
        assert!(set(&mut table, "phase.a", Value::Integer(1)).is_err());
    }
}
