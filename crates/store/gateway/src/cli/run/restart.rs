//! The end of a gateway that starts itself again, with the same or with other settings.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

/// Settings with which a gateway starts again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Those that it has.
    Same,
    /// Those of another file.
    File(PathBuf),
}

/// Lets a gateway end and start again.
pub struct Restart {
    next: Mutex<Option<Next>>,
    stop: watch::Sender<bool>,
}

impl Restart {
    /// Creates it for a gateway that ends with `stop`.
    pub fn new(stop: watch::Sender<bool>) -> Restart {
        Restart { next: Mutex::new(None), stop }
    }

    /// Decides that the gateway starts again when the command that wants it has ended.
    pub fn prepare(&self, next: Next) {
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) = Some(next);
    }

    /// Ends the gateway, if a command wants it. The result of the command was sent.
    pub fn begin(&self) {
        if self.next().is_some() {
            let _ = self.stop.send(true);
        }
    }

    /// Returns the settings with which the gateway starts again; `None` if it does not.
    pub fn next(&self) -> Option<Next> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Returns the words of a command line with another file with settings.
pub fn with_file(words: Vec<OsString>, old: &Path, new: &Path) -> Vec<OsString> {
    let at = words.iter().rposition(|word| word == old.as_os_str());
    let replace = |(index, word)| if Some(index) == at { new.as_os_str().to_owned() } else { word };
    words.into_iter().enumerate().map(replace).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_file_is_replaced() {
        let words = ["--phase=lead,127.0.0.1:1", "--region", "a.toml", "--", "a.toml"];
        let found = with_file(words.map(Into::into).to_vec(), Path::new("a.toml"), Path::new("/b.toml"));
        assert_eq!(found, ["--phase=lead,127.0.0.1:1", "--region", "a.toml", "--", "/b.toml"]);
    }
}
