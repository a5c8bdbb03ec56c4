//! The files of a log.

use std::path::PathBuf;

use super::LogError;

/// Returns the files of a list, with those in its directories, in the order of their names.
pub(crate) fn files_of(paths: &[PathBuf]) -> Result<Vec<PathBuf>, LogError> {
    let mut files = Vec::new();
    for path in paths {
        let unreadable = |e: std::io::Error| LogError::unreadable(path, e);
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let mut within = Vec::new();
        for entry in std::fs::read_dir(path).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?.path();
            let is_hidden = entry.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
            within.extend((entry.is_file() && !is_hidden).then_some(entry));
        }
        within.sort();
        files.append(&mut within);
    }
    Ok(files)
}
