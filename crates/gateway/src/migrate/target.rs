//! The copy of a catalog that is moved.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::MigrateError;
use crate::catalog::CatalogError;
use crate::catalog::any::AnyCatalog;
use crate::catalog::embedded::catalog::EmbeddedCatalog;
use crate::catalog::postgres::{Access, Database, PostgresCatalog};
use crate::config::CatalogPlace;
use crate::disk::real::create_directory;

/// A copy that no gateway uses before it is complete.
pub trait CatalogCopy {
    /// Returns the catalog of the copy.
    fn catalog(&self) -> &AnyCatalog;

    /// Lets gateways use the copy.
    ///
    /// # Errors
    /// If the disk or the database fails.
    fn complete(self: Box<Self>) -> Result<(), CatalogError>;
}

/// Begins a copy in an empty place.
///
/// # Errors
/// If there is a catalog already, or the disk or the database fails.
pub fn begin(place: &CatalogPlace) -> Result<Box<dyn CatalogCopy>, MigrateError> {
    Ok(match place {
        CatalogPlace::Directory(root) => Box::new(DirectoryCopy::begin(root)?),
        CatalogPlace::Database(database) => Box::new(DatabaseCopy::begin(database)?),
    })
}

/// A copy in a directory. It gets its name when it is complete.
pub struct DirectoryCopy {
    catalog: AnyCatalog,
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
            fs::remove_dir_all(&unfinished)?;
        }
        let (catalog, _) = EmbeddedCatalog::open(&unfinished, Default::default())?;
        Ok(DirectoryCopy { catalog: AnyCatalog::Embedded(catalog), unfinished, root: root.to_path_buf() })
    }
}

impl CatalogCopy for DirectoryCopy {
    fn catalog(&self) -> &AnyCatalog {
        &self.catalog
    }

    fn complete(self: Box<Self>) -> Result<(), CatalogError> {
        self.catalog.close()?;
        fs::rename(&self.unfinished, &self.root)?;
        let parent = self.root.parent().filter(|parent| !parent.as_os_str().is_empty());
        Ok(File::open(parent.unwrap_or(Path::new(".")))?.sync_all()?)
    }
}

/// A copy in a database, whose table says that it is not complete.
struct DatabaseCopy(AnyCatalog);

impl DatabaseCopy {
    fn begin(database: &Database) -> Result<DatabaseCopy, MigrateError> {
        let catalog = PostgresCatalog::open(database, Access::Fill)?;
        Ok(DatabaseCopy(AnyCatalog::Postgres(catalog)))
    }
}

impl CatalogCopy for DatabaseCopy {
    fn catalog(&self) -> &AnyCatalog {
        &self.0
    }

    fn complete(self: Box<Self>) -> Result<(), CatalogError> {
        match &self.0 {
            AnyCatalog::Postgres(catalog) => {
                catalog.complete()?;
                catalog.close();
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
