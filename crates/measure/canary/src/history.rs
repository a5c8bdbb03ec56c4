//! The directory of a canary: its identity, and a file for each day, of which the oldest are removed.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::Listener;
use super::day::Day;
use super::outage::{Change, Failing};
use super::target::Ended;
use plimsoll_base::clock::wall_now;
use plimsoll_base::files::read_text;
use plimsoll_engine::store::ownership::RunId;
use plimsoll_judge::run_dir::write::write_whole;

/// Name of the file with the identity of the canary, which is locked while it runs.
const IDENTITY: &str = "canary";
/// Maximum length of this file in bytes.
const MAX_IDENTITY: u64 = 64 << 10;
/// Maximum length of a file of a day in bytes.
const MAX_DAY: u64 = 4 << 20;

/// An error in the directory of a canary.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// A file or the directory cannot be used.
    #[error("{path}: {source}")]
    Unusable {
        /// Path of the file or directory.
        path: String,
        /// Error of the system.
        source: io::Error,
    },
    /// Another canary uses the directory.
    #[error("{0}: another canary uses this directory; choose another one")]
    Busy(String),
    /// A file is not one of a canary.
    #[error("{path}: {reason}; choose another directory, or move it away")]
    Foreign {
        /// Path of the file.
        path: String,
        /// Description of the error.
        reason: String,
    },
}

fn unusable(path: &Path) -> impl FnOnce(io::Error) -> HistoryError {
    let path = path.display().to_string();
    move |source| HistoryError::Unusable { path, source }
}

/// The history of a canary.
pub struct History {
    directory: PathBuf,
    /// Open while the canary runs, because its lock belongs to it.
    _identity: File,
    id: RunId,
    keep_days: u32,
    store: String,
    today: Day,
    failing: Option<Failing>,
    /// True if the last write failed.
    is_unwritten: bool,
}

/// Returns the date in UTC: `2026-11-28`.
fn date(at: jiff::Timestamp) -> String {
    at.strftime("%Y-%m-%d").to_string()
}

/// Returns the date in the name of a file of a day; `None` for other files.
fn date_of(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?.strip_suffix(".json")?;
    let is_date = name.len() == 10 && name.parse::<jiff::civil::Date>().is_ok();
    is_date.then(|| name.to_string())
}

/// Reads the file of a day; `None` if there is none.
fn read_day(path: &Path) -> Result<Option<Day>, HistoryError> {
    let text = match read_text(path, MAX_DAY) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        text => text.map_err(unusable(path))?,
    };
    let foreign = |e: serde_json::Error| HistoryError::Foreign {
        path: path.display().to_string(),
        reason: format!("not the day of a canary ({e})"),
    };
    let day: Day = serde_json::from_str(&text).map_err(foreign)?;
    match date_of(path) {
        Some(date) if date != day.day => Err(HistoryError::Foreign {
            path: path.display().to_string(),
            reason: format!("has the figures of {}", day.day),
        }),
        _ => Ok(Some(day)),
    }
}

/// Returns the paths of the files of days, in the order of their dates.
fn files(directory: &Path) -> Result<Vec<PathBuf>, HistoryError> {
    let entries = fs::read_dir(directory).map_err(unusable(directory))?;
    let mut found: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|path| date_of(path).is_some()).collect();
    found.sort();
    Ok(found)
}

/// Returns the days of a directory in their order, and the errors of the days that cannot be read.
///
/// # Errors
/// If the directory cannot be read.
pub fn days(directory: &Path) -> Result<(Vec<Day>, Vec<HistoryError>), HistoryError> {
    let (mut days, mut damaged) = (Vec::new(), Vec::new());
    for path in files(directory)? {
        match read_day(&path) {
            Ok(day) => days.extend(day),
            Err(error) => damaged.push(error),
        }
    }
    Ok((days, damaged))
}

impl History {
    /// Opens the directory, and creates it if necessary. Days older than `keep_days` are removed.
    ///
    /// # Errors
    /// If the directory cannot be used, another canary uses it, or a file in it is not one of a canary.
    pub fn open(directory: &Path, store: &str, keep_days: u32) -> Result<History, HistoryError> {
        fs::create_dir_all(directory).map_err(unusable(directory))?;
        let path = directory.join(IDENTITY);
        let opened = File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let identity = opened.map_err(unusable(&path))?;
        identity.try_lock().map_err(|_| HistoryError::Busy(directory.display().to_string()))?;
        let text = read_text(&path, MAX_IDENTITY).map_err(unusable(&path))?;
        let id = match text.split_whitespace().next() {
            None => {
                let id = RunId::generate();
                fs::write(&path, format!("{id}\n")).map_err(unusable(&path))?;
                id
            }
            Some(text) => RunId::parse(text).ok_or_else(|| HistoryError::Foreign {
                path: path.display().to_string(),
                reason: "not the identity of a canary".into(),
            })?,
        };
        let mut history = History {
            directory: directory.to_path_buf(),
            _identity: identity,
            id,
            keep_days,
            store: store.to_string(),
            today: Day::default(),
            failing: None,
            is_unwritten: false,
        };
        history.begin(date(wall_now()))?;
        Ok(history)
    }

    /// Returns the id under which the canary's object is stored.
    pub fn id(&self) -> &RunId {
        &self.id
    }

    /// Sets the name of the store, without secrets.
    ///
    /// # Errors
    /// If the history is that of another store.
    pub fn set_store(&mut self, name: &str) -> Result<(), HistoryError> {
        let path = self.directory.join(IDENTITY);
        let text = read_text(&path, MAX_IDENTITY).map_err(unusable(&path))?;
        match text.split_once(' ').map(|(_, store)| store.trim_end()) {
            Some(known) if known != name => {
                let reason = format!("the history of {known}");
                return Err(HistoryError::Foreign { path: self.directory.display().to_string(), reason });
            }
            Some(_) => {}
            None => fs::write(&path, format!("{} {name}\n", self.id)).map_err(unusable(&path))?,
        }
        self.store = name.to_string();
        self.today.store.clone_from(&self.store);
        Ok(())
    }

    /// Begins or continues a day, and removes old ones.
    fn begin(&mut self, day: String) -> Result<(), HistoryError> {
        let known = read_day(&self.path_of(&day))?;
        let usual_ns = self.today.usual_ns();
        self.today = known.unwrap_or_default().continued().after(usual_ns);
        (self.today.day, self.today.store) = (day, self.store.clone());
        let days = files(&self.directory)?;
        let before: Vec<&PathBuf> =
            days.iter().filter(|path| **path != self.path_of(&self.today.day)).collect();
        // The current day is one of those that are kept.
        let old = (before.len() + 1).saturating_sub(self.keep_days as usize);
        for path in &before[..old] {
            fs::remove_file(path).map_err(unusable(path))?;
        }
        Ok(())
    }

    fn path_of(&self, day: &str) -> PathBuf {
        self.directory.join(format!("{day}.json"))
    }

    /// Returns true if the day has changed since the last write.
    pub fn is_another_day(&self) -> bool {
        date(wall_now()) != self.today.day
    }

    /// Adds an operation that has just ended, and `missed` intervals without one. Returns the change from success to
    /// failure or back, if the operation is one.
    pub fn add(&mut self, ended: &Ended, missed: u64) -> Option<Change> {
        self.today.add(ended, missed, wall_now(), &mut self.failing)
    }

    /// Writes the day, and begins another one if the date has changed.
    ///
    /// # Errors
    /// If the file cannot be written. Nothing is lost; the next call tries again.
    pub fn write(&mut self) -> Result<(), HistoryError> {
        let path = self.path_of(&self.today.day);
        let text = serde_json::to_string_pretty(&self.today.shown(self.failing.as_ref())).unwrap_or_default();
        write_whole(&path, &(text + "\n")).map_err(unusable(&path))?;
        if self.is_another_day() {
            self.begin(date(wall_now()))?;
        }
        Ok(())
    }

    /// Writes the day. Tells the first failure to do so, and the first success after failures.
    pub fn write_or_tell(&mut self, listener: &dyn Listener) {
        let written = self.write();
        match &written {
            Err(error) if !self.is_unwritten => {
                listener.changed(&format!("the history cannot be written: {error}"));
            }
            Ok(()) if self.is_unwritten => listener.changed("the history is written again"),
            _ => {}
        }
        self.is_unwritten = written.is_err();
    }

    /// Returns true if the last write failed, so that the files lack the last operations.
    pub fn is_unwritten(&self) -> bool {
        self.is_unwritten
    }

    /// Returns the current day, as its file has it.
    pub fn today(&self) -> Day {
        self.today.shown(self.failing.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_workload::OperationKind;

    fn scratch(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("plimsoll-canary-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        path
    }

    fn ended() -> Ended {
        Ended {
            kind: OperationKind::Put,
            address: None,
            bytes: 1,
            service_ns: 1,
            response_ns: 1,
            failure: None,
        }
    }

    #[test]
    fn a_directory_keeps_its_identity_and_the_counts_of_the_day() {
        let dir = scratch("identity");
        let mut first = History::open(&dir, "memory:", 10).unwrap();
        first.add(&ended(), 0);
        first.write().unwrap();
        assert!(matches!(History::open(&dir, "memory:", 10), Err(HistoryError::Busy(_))));
        let id = first.id().clone();
        drop(first);
        let mut again = History::open(&dir, "memory:", 10).unwrap();
        again.add(&ended(), 0);
        again.write().unwrap();
        assert_eq!((again.id(), days(&dir).unwrap().0[0].counts()), (&id, (2, 0)));
        fs::remove_dir_all(&dir).unwrap();
    }

    /// Regression test: a canary of another store continued the counts of the day.
    #[test]
    fn the_history_of_another_store_is_refused() {
        let dir = scratch("another");
        let mut first = History::open(&dir, "", 10).unwrap();
        first.set_store("s3://one").unwrap();
        drop(first);
        let mut again = History::open(&dir, "", 10).unwrap();
        again.set_store("s3://one").unwrap();
        let error = again.set_store("s3://two").unwrap_err().to_string();
        assert!(error.contains("the history of s3://one"), "{error}");
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn old_days_are_removed_and_other_files_stay() {
        let dir = scratch("old");
        fs::create_dir_all(&dir).unwrap();
        let day = |day: &str| serde_json::to_string(&Day { day: day.into(), ..Day::default() }).unwrap();
        for name in ["2020-01-01", "2020-01-02", "2020-01-03"] {
            fs::write(dir.join(format!("{name}.json")), day(name)).unwrap();
        }
        fs::write(dir.join("2020-01-01.txt"), "mine").unwrap();
        fs::write(dir.join("notes.json"), "mine").unwrap();
        History::open(&dir, "memory:", 3).unwrap();
        let left: Vec<String> = days(&dir).unwrap().0.into_iter().map(|day| day.day).collect();
        assert_eq!(left, ["2020-01-02", "2020-01-03"]);
        assert!(dir.join("2020-01-01.txt").exists() && dir.join("notes.json").exists());
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_file_that_is_no_day_is_not_replaced() {
        let dir = scratch("foreign");
        fs::create_dir_all(&dir).unwrap();
        let path = dir.join(format!("{}.json", date(wall_now())));
        fs::write(&path, "precious").unwrap();
        let error = History::open(&dir, "memory:", 2).err().unwrap();
        assert!(error.to_string().contains("not the day of a canary"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        fs::remove_dir_all(&dir).unwrap();
    }
}
