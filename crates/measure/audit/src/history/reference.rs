//! References to runs: a path, the id of a run or its beginning, `latest`, `latest~1`, or a pattern with `*` and `?`.

use std::path::{Path, PathBuf};

/// A reference that does not denote a run.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum ReferenceError {
    /// No run matches.
    #[error("{text}: neither a run directory nor a run in {directory}; `plimsoll history` lists the runs")]
    NotFound {
        /// Reference as written.
        text: String,
        /// Directory that was searched.
        directory: String,
    },
    /// Several runs begin with the text.
    #[error("{text}: {count} runs in {directory} begin with this; write more of the id")]
    Ambiguous {
        /// Reference as written.
        text: String,
        /// Number of runs that begin with it.
        count: usize,
        /// Directory that was searched.
        directory: String,
    },
}

/// Returns the paths of the runs in a directory whose names `accepts` accepts, in order of their names, which begin
/// with the time of their start.
fn runs(directory: &Path, accepts: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .filter(|entry| entry.file_name().to_str().is_some_and(&accepts))
        .map(|entry| entry.path())
        .filter(|path| path.join("result.json").is_file())
        .collect();
    found.sort();
    found
}

/// Returns true if `name` matches a pattern in which `*` is any text and `?` is any character.
fn matches(pattern: &[char], name: &[char]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some(('*', rest)), _) => {
            matches(rest, name) || name.split_first().is_some_and(|(_, name)| matches(pattern, name))
        }
        (Some(('?', rest)), Some((_, name))) => matches(rest, name),
        (Some((one, rest)), Some((other, name))) => one == other && matches(rest, name),
        _ => false,
    }
}

/// Returns the runs that a reference denotes; ids and `latest` are searched in `directory`. An existing path denotes
/// itself, and so does a text that looks like a path.
///
/// # Errors
/// Returns an error if the reference denotes no run, or if an id is ambiguous.
pub fn resolve(text: &str, directory: &Path) -> Result<Vec<PathBuf>, ReferenceError> {
    let path = Path::new(text);
    if path.exists() {
        return Ok(vec![path.to_path_buf()]);
    }
    let not_found =
        |at: &Path| ReferenceError::NotFound { text: text.into(), directory: at.display().to_string() };
    if text.contains(['*', '?']) {
        let parent = path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(directory);
        let pattern: Vec<char> = path.file_name().unwrap_or_default().to_string_lossy().chars().collect();
        let found = runs(parent, |name| matches(&pattern, &name.chars().collect::<Vec<_>>()));
        return if found.is_empty() { Err(not_found(parent)) } else { Ok(found) };
    }
    if let Some(back) = text.strip_prefix("latest") {
        let back =
            if back.is_empty() { Some(0) } else { back.strip_prefix('~').and_then(|n| n.parse().ok()) };
        if let Some(back) = back {
            let found = runs(directory, |_| true).into_iter().rev().nth(back);
            return found.map(|path| vec![path]).ok_or_else(|| not_found(directory));
        }
    }
    if text.contains(std::path::MAIN_SEPARATOR) {
        return Ok(vec![path.to_path_buf()]);
    }
    let mut found = runs(directory, |name| name.starts_with(text) && !text.is_empty());
    match found.len() {
        0 => Err(not_found(directory)),
        1 => Ok(found),
        count => match found.iter().position(|path| path.file_name().is_some_and(|name| name == text)) {
            Some(exact) => Ok(vec![found.swap_remove(exact)]),
            None => Err(ReferenceError::Ambiguous {
                text: text.into(),
                count,
                directory: directory.display().to_string(),
            }),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_by_id_pattern_and_age() {
        let directory = std::env::temp_dir().join(format!("plimsoll-references-{}", std::process::id()));
        for id in ["20261101T000000-aa", "20261102T000000-bb", "20261102T000000-bc"] {
            std::fs::create_dir_all(directory.join(id)).unwrap();
            std::fs::write(directory.join(id).join("result.json"), "{}").unwrap();
        }
        std::fs::create_dir_all(directory.join("20261103-empty")).unwrap();
        let names = |text: &str| {
            resolve(text, &directory).map(|paths| {
                paths
                    .iter()
                    .map(|p| p.file_name().unwrap().to_string_lossy()[14..].to_string())
                    .collect::<Vec<_>>()
            })
        };
        assert_eq!(names("latest").unwrap(), ["0-bc"]);
        assert_eq!(names("latest~2").unwrap(), ["0-aa"]);
        assert_eq!(names("20261101").unwrap(), ["0-aa"]);
        assert_eq!(names("20261102T000000-bb").unwrap(), ["0-bb"]);
        assert_eq!(names("20261102*").unwrap(), ["0-bb", "0-bc"]);
        assert_eq!(names("*-?b").unwrap(), ["0-bb"]);
        assert!(matches!(names("20261102"), Err(ReferenceError::Ambiguous { count: 2, .. })));
        for missing in ["latest~3", "2025", "x*", "latests"] {
            assert!(matches!(names(missing), Err(ReferenceError::NotFound { .. })), "{missing}");
        }
        assert_eq!(resolve("no/such/run", &directory).unwrap(), [PathBuf::from("no/such/run")]);
        std::fs::remove_dir_all(directory).unwrap();
    }
}
