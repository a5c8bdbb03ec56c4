//! Receives the run directories of the nodes.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Run directories that nodes are sending.
pub struct Collection {
    /// Directory in which one directory per node is written.
    root: PathBuf,
    complete: BTreeMap<u64, PathBuf>,
}

/// Returns true for a plain file name of letters, digits, dots, underscores and hyphens that is not hidden.
fn is_plain(name: &str) -> bool {
    let fit = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    (1..=200).contains(&name.len()) && name.bytes().all(fit) && !name.starts_with('.')
}

impl Collection {
    /// Creates the directory that receives the run directories.
    ///
    /// # Errors
    /// If the directory cannot be created.
    pub fn create(root: &Path) -> io::Result<Collection> {
        fs::create_dir_all(root)?;
        Ok(Collection { root: root.to_path_buf(), complete: BTreeMap::new() })
    }

    fn receiving(&self, node: u64) -> PathBuf {
        self.root.join(format!("receiving-{}", node + 1))
    }

    /// Appends bytes, in base64, to a file of a node's run directory.
    ///
    /// # Errors
    /// If the name or the data are malformed, or the file cannot be written.
    pub fn append(&self, node: u64, name: &str, data: &str) -> io::Result<()> {
        let malformed = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_string());
        if !is_plain(name) {
            return Err(malformed("a file of a node has an invalid name"));
        }
        let bytes = STANDARD.decode(data).map_err(|_| malformed("a file of a node is not base64"))?;
        let directory = self.receiving(node);
        fs::create_dir_all(&directory)?;
        let mut file = OpenOptions::new().create(true).append(true).open(directory.join(name))?;
        file.write_all(&bytes)
    }

    /// Ends the run directory of a node and gives it its name. A node without files has no directory.
    ///
    /// # Errors
    /// If the name is invalid, or the directory cannot be renamed.
    pub fn end(&mut self, node: u64, run: &str) -> io::Result<()> {
        let from = self.receiving(node);
        if run.is_empty() || !from.exists() {
            return Ok(());
        }
        if !is_plain(run) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a run of a node has an invalid name"));
        }
        let to = self.root.join(run);
        fs::rename(from, &to)?;
        self.complete.insert(node, to);
        Ok(())
    }

    /// Returns the complete run directories by node.
    pub fn complete(&self) -> &BTreeMap<u64, PathBuf> {
        &self.complete
    }

    /// Deletes what nodes had sent before they died.
    pub fn discard_incomplete(&self, nodes: u64) {
        for node in 0..nodes {
            let _ = fs::remove_dir_all(self.receiving(node));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_arrive_in_parts_and_names_cannot_leave_the_directory() {
        let root = std::env::temp_dir().join(format!("plimsoll-collect-{}", std::process::id()));
        let mut collection = Collection::create(&root).unwrap();
        for part in ["one ", "two"] {
            collection.append(0, "result.json", &STANDARD.encode(part)).unwrap();
        }
        for name in ["../result.json", "/etc/passwd", "", ".hidden", "a/b", "a\0b"] {
            assert!(collection.append(0, name, "").is_err(), "{name}");
        }
        assert!(collection.append(0, "result.json", "not base64!").is_err());
        assert!(collection.end(0, "../outside").is_err());
        collection.end(0, "run.1of2").unwrap();
        assert_eq!(fs::read_to_string(root.join("run.1of2/result.json")).unwrap(), "one two");
        collection.append(1, "result.json", "").unwrap();
        collection.discard_incomplete(2);
        assert_eq!(fs::read_dir(&root).unwrap().count(), 1);
        fs::remove_dir_all(&root).unwrap();
    }
}
