//! A catalog in a directory that is moved.

use std::path::{Path, PathBuf};

use super::rows::{RowSource, ScannedRows};
use super::{Keys, Source};
use crate::blocking::block_on;
use crate::catalog::any::AnyCatalog;
use crate::catalog::embedded::Engine;
use crate::catalog::{Catalog, CatalogError, format};

/// A catalog in a directory, which this process uses.
pub struct DirectorySource<'a> {
    catalog: &'a AnyCatalog,
    engine: &'a Engine,
    root: PathBuf,
    is_closed: bool,
}

impl<'a> DirectorySource<'a> {
    /// Creates the source; `None` if the catalog is on another engine.
    pub fn new(catalog: &'a AnyCatalog, root: &Path) -> Option<DirectorySource<'a>> {
        let engine = catalog.engine()?;
        Some(DirectorySource { catalog, engine, root: root.to_path_buf(), is_closed: false })
    }

    /// Returns true if the catalog executes no further transaction in this process.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }
}

impl Source for DirectorySource<'_> {
    fn begin(&mut self) -> Result<Box<dyn RowSource + '_>, CatalogError> {
        self.engine.changes.begin();
        // A group that is being applied does not record its keys, and is applied before this one.
        block_on(self.catalog.commit(Box::new(|_| Ok(false)), 0))?;
        Ok(Box::new(ScannedRows::new(self.catalog)))
    }

    fn changed(&mut self) -> Result<Keys, CatalogError> {
        Ok(self.engine.changes.take())
    }

    fn close(&mut self) -> Result<Keys, CatalogError> {
        self.is_closed = true;
        self.catalog.close()?;
        Ok(self.engine.changes.take())
    }

    fn mark_moved(&mut self, to: &str) -> Result<(), CatalogError> {
        Ok(format::mark_moved(&self.root, to)?)
    }

    fn unmark(&mut self) -> Result<(), CatalogError> {
        Ok(format::unmark_moved(&self.root)?)
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
