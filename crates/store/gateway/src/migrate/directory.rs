//! A catalog in a directory that is moved.

use std::path::{Path, PathBuf};

use super::rows::{RowSource, ScannedRows};
use super::{Keys, Marked, Source};
use plimsoll_catalog::any::AnyCatalog;
use plimsoll_catalog::blocking::block_on;
use plimsoll_catalog::embedded::Engine;
use plimsoll_catalog::{Catalog, CatalogError, format};

/// A catalog in a directory, which this process uses.
pub struct DirectorySource<'a> {
    catalog: &'a AnyCatalog,
    engine: &'a Engine,
    root: PathBuf,
    is_closed: bool,
}

impl<'a> DirectorySource<'a> {
    /// Creates the source; `None` if the catalog is on another engine.
    ///
    /// # Errors
    /// If the catalog cannot be moved now.
    pub fn new(catalog: &'a AnyCatalog, root: &Path) -> Result<Option<DirectorySource<'a>>, CatalogError> {
        let Some(engine) = catalog.engine() else { return Ok(None) };
        if catalog.lease().is_some() || catalog.following().is_some() {
            return Err(CatalogError::Io(
                "another gateway could continue it; restart it without backup.lease".into(),
            ));
        }
        // Rows that may be older than what is lost would look certain in a copy.
        if !engine.damage().is_empty() {
            return Err(CatalogError::Io(
                "it is damaged; run `plimsoll-gateway scrub`, repair what it names, and then `scrub --accept`".into(),
            ));
        }
        if !engine.changes.begin() {
            return Err(CatalogError::Io("another command moves this catalog already".into()));
        }
        Ok(Some(DirectorySource { catalog, engine, root: root.to_path_buf(), is_closed: false }))
    }

    /// Returns true if the catalog executes no further transaction in this process.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }
}

impl Source for DirectorySource<'_> {
    fn begin(&mut self) -> Result<Box<dyn RowSource + '_>, CatalogError> {
        // A group that is being applied does not record its keys, and is applied before this one.
        block_on(self.catalog.commit(Box::new(|_| Ok(false)), 0))?;
        Ok(Box::new(ScannedRows::new(self.catalog)))
    }

    fn changed(&mut self) -> Result<Keys, CatalogError> {
        Ok(self.engine.changes.take())
    }

    fn close(&mut self) -> Result<Option<Keys>, CatalogError> {
        self.is_closed = true;
        self.catalog.close()?;
        Ok(Some(self.engine.changes.take()))
    }

    fn mark_moved(&mut self, to: &str) -> Result<Marked, CatalogError> {
        format::mark_moved(&self.root, to)?;
        Ok(Marked::Moved)
    }

    fn unmark(&mut self) -> Result<(), CatalogError> {
        Ok(format::unmark_moved(&self.root)?)
    }

    fn way_back(&self) -> &'static str {
        "delete the file MOVED in the directory of the old catalog"
    }

    fn catalog(&self) -> &AnyCatalog {
        self.catalog
    }
}

impl Drop for DirectorySource<'_> {
    fn drop(&mut self) {
        self.engine.changes.end();
    }
}
