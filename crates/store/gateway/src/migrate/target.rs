//! The copy of a catalog that is moved.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::MigrateError;
use crate::config::CatalogPlace;
use plimsoll_catalog::blocking::block_on;
use plimsoll_catalog::disk::real::create_directory;
use plimsoll_catalog::embedded::catalog::{EmbeddedCatalog, lock};
use plimsoll_catalog::postgres::filling::Filling;
pub use plimsoll_catalog::postgres::filling::Incomplete;
use plimsoll_catalog::{Catalog, CatalogError, Transaction, Value};

/// A copy that no gateway uses before it is complete.
pub trait CatalogCopy {
    /// Writes rows, of about `bytes` bytes, in one transaction; `None` removes one.
    ///
    /// # Errors
    /// If the disk or the database fails.
    fn write(&self, rows: Vec<(Vec<u8>, Option<Value>)>, bytes: usize) -> Result<(), CatalogError>;

    /// Lets gateways use the copy.
    ///
    /// # Errors
    /// If the disk or the database fails.
    fn complete(self: Box<Self>) -> Result<(), Incomplete>;
}

/// Begins a copy in an empty place.
///
/// # Errors
/// If there is a catalog already, or the disk or the database fails.
pub fn begin(place: &CatalogPlace) -> Result<Box<dyn CatalogCopy>, MigrateError> {
    Ok(match place {
        CatalogPlace::Directory(root) => Box::new(DirectoryCopy::begin(root)?),
        CatalogPlace::Database(database) => {
            Box::new(DatabaseCopy(Filling::begin(database)?.map_err(MigrateError::Occupied)?))
        }
    })
}

/// A copy in a directory. It gets its name when it is complete.
pub struct DirectoryCopy {
    catalog: EmbeddedCatalog,
    unfinished: PathBuf,
    root: PathBuf,
}

impl DirectoryCopy {
    /// Begins a copy; what an earlier attempt has left is removed.
    ///
    /// # Errors
    /// If the directory exists and is not empty, or the disk fails.
    pub fn begin(root: &Path) -> Result<DirectoryCopy, MigrateError> {
        let occupied = |problem: &str| MigrateError::Occupied(format!("{}: {problem}", root.display()));
        let parent = root.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let name = root.file_name().ok_or_else(|| occupied("name a new directory"))?;
        if fs::read_dir(root).is_ok_and(|mut found| found.next().is_some()) {
            return Err(occupied("there is something already; name a new directory"));
        }
        create_directory(parent)?;
        let unfinished = parent.join(format!("{}.unfinished", name.to_string_lossy()));
        if unfinished.exists() {
            // Its lock says whether somebody writes it.
            drop(lock(&unfinished).map_err(|error| MigrateError::Occupied(error.to_string()))?);
            fs::remove_dir_all(&unfinished)?;
        }
        let (catalog, _) = EmbeddedCatalog::open(&unfinished, Default::default())?;
        Ok(DirectoryCopy { catalog, unfinished, root: root.to_path_buf() })
    }
}

impl Drop for DirectoryCopy {
    fn drop(&mut self) {
        // It has another name if it is complete.
        let _ = fs::remove_dir_all(&self.unfinished);
    }
}

impl CatalogCopy for DirectoryCopy {
    fn write(&self, rows: Vec<(Vec<u8>, Option<Value>)>, bytes: usize) -> Result<(), CatalogError> {
        let work = Box::new(move |t: &mut dyn Transaction| {
            for (key, value) in &rows {
                match value {
                    Some(value) => t.put(key.clone(), value.clone()),
                    None => t.delete(key.clone()),
                }
            }
            Ok(true)
        });
        block_on(self.catalog.commit(work, bytes))
    }

    fn complete(self: Box<Self>) -> Result<(), Incomplete> {
        let certainly = |error: std::io::Error| Incomplete::Certainly(error.into());
        self.catalog.close().map_err(Incomplete::Certainly)?;
        fs::rename(&self.unfinished, &self.root).map_err(certainly)?;
        let parent = self.root.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = File::open(parent.unwrap_or(Path::new(".")));
        parent.and_then(|parent| parent.sync_all()).map_err(|error| {
            match fs::rename(&self.root, &self.unfinished) {
                Ok(()) => certainly(error),
                Err(_) => Incomplete::Perhaps(error.into()),
            }
        })
    }
}

/// A copy in a database.
struct DatabaseCopy(Filling);

impl CatalogCopy for DatabaseCopy {
    fn write(&self, rows: Vec<(Vec<u8>, Option<Value>)>, _: usize) -> Result<(), CatalogError> {
        self.0.write(&rows)
    }

    fn complete(self: Box<Self>) -> Result<(), Incomplete> {
        self.0.complete()
    }
}
