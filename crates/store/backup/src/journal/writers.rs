//! The file with the processes that have used the directory of a catalog.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Name of the file.
pub const WRITERS: &str = "WRITERS";

/// A process that has used a directory.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct WriterId {
    id: String,
    /// Random number of the start of its machine, with the device and the inode of the directory: a copy of the
    /// directory is another one, and the process may use the original.
    place: String,
    /// True if the process has led, so that the directory may have what nobody else has.
    #[serde(default)]
    has_led: bool,
}

/// The processes that have used a directory, from the oldest to the newest.
#[derive(Debug, Default)]
pub struct Writers {
    known: Vec<WriterId>,
    place: String,
}

impl Writers {
    /// Number of processes that are remembered of each kind: those that have led, and those that have failed to start.
    const MOST: usize = 64;

    /// Reads the file of a directory.
    pub fn load(root: &Path) -> Writers {
        // Without this number, no process counts as ended, and a start waits for the lease.
        let machine_start = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let place = match std::fs::metadata(root) {
            Ok(found) if !machine_start.trim().is_empty() => {
                format!("{} {} {}", machine_start.trim(), found.dev(), found.ino())
            }
            _ => String::new(),
        };
        let text = std::fs::read_to_string(root.join(WRITERS)).unwrap_or_default();
        // From a damaged file, no process is known. The start waits for the lease, and sets aside the groups that only
        // this log has.
        let known = serde_json::from_str(&text).unwrap_or_default();
        Writers { known, place }
    }

    /// Returns the ids of all processes.
    pub fn ids(&self) -> Vec<String> {
        self.known.iter().map(|known| known.id.clone()).collect()
    }

    /// Returns the ids of processes that do not live any more, because the directory is locked. After a restart of the
    /// machine, nothing is known: a copy of its disk may be in use elsewhere.
    pub fn ended(&self) -> Vec<String> {
        let is_here = |known: &&WriterId| !known.place.is_empty() && known.place == self.place;
        self.known.iter().filter(is_here).map(|known| known.id.clone()).collect()
    }

    /// Adds a process, before it leads.
    ///
    /// # Errors
    /// If there is no file, and it cannot be written.
    pub fn add(&mut self, id: &str, root: &Path) -> std::io::Result<()> {
        self.known.push(WriterId { id: id.into(), place: self.place.clone(), has_led: false });
        self.store(root)
    }

    /// Records that the process that was added last leads.
    ///
    /// # Errors
    /// As [`Writers::add`].
    pub fn lead(&mut self, root: &Path) -> std::io::Result<()> {
        if let Some(last) = self.known.last_mut() {
            last.has_led = true;
        }
        self.store(root)
    }

    /// Forgets the oldest processes of each kind.
    fn forget(&mut self) {
        // Separately, so that many failed starts do not displace the process that has written the log.
        for has_led in [true, false] {
            let mut left = self.known.iter().filter(|known| known.has_led == has_led).count();
            self.known.retain(|known| {
                let stays = known.has_led != has_led || left <= Writers::MOST;
                left -= usize::from(known.has_led == has_led);
                stays
            });
        }
    }

    /// Writes the file.
    ///
    /// # Errors
    /// If there is no file, and it cannot be written.
    pub fn store(&mut self, root: &Path) -> std::io::Result<()> {
        self.forget();
        let (path, new) = (root.join(WRITERS), root.join("WRITERS.new"));
        let text = serde_json::to_string(&self.known).unwrap_or_default() + "\n";
        // Renamed, so that a process that is killed here leaves the old file whole.
        let written = write_durably(&new, &text).and_then(|()| {
            std::fs::rename(&new, &path)?;
            // Lost with the power, the file would not have this process, and the next start would set aside what it has
            // acknowledged as that of another one.
            File::open(root)?.sync_all()
        });
        // On a full disk, an older file does: the next start may then wait for the end of the lease.
        // Without its process in the file, it also sets aside the groups that only this log has.
        if path.exists() { Ok(()) } else { written }
    }
}

fn write_durably(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_testing::directory::TempDir;

    /// Regression test: many failed starts made a directory forget the process that had written its log.
    #[test]
    fn failed_starts_do_not_displace_a_process_that_has_led() {
        let dir = TempDir::new("writers");
        let mut writers = Writers::load(dir.path());
        writers.add("leader", dir.path()).unwrap();
        writers.lead(dir.path()).unwrap();
        for number in 0..200 {
            let mut writers = Writers::load(dir.path());
            writers.add(&format!("failed {number}"), dir.path()).unwrap();
        }
        let ids = Writers::load(dir.path()).ids();
        assert_eq!((ids.len(), ids[0].as_str(), ids[64].as_str()), (65, "leader", "failed 199"));
    }
}
