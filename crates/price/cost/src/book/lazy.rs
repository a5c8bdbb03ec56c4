//! A price book whose prices are read when they are first needed. A run needs the prices of one or two offers, and
//! reading all built-in books takes longer than a short run.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use super::BookError;
use super::check::checked;
use super::entries::Entries;
use super::spec::OfferSpec;

/// A checked price book.
#[derive(Debug, Clone)]
pub struct Book {
    /// Path of the book, or its name within the program.
    pub path: String,
    /// Offers that the book defines.
    pub offers: Vec<OfferSpec>,
    entries: OnceLock<Entries>,
    /// Text of a built-in book, and the names of the offers in it; `None` if its prices are read.
    unread: Option<(&'static str, BTreeSet<&'static str>)>,
}

/// Returns the names of the offers to which prices and rules of a book refer.
fn mentioned(text: &'static str) -> BTreeSet<&'static str> {
    let lists = text.split("offers = [").skip(1).filter_map(|rest| rest.split(']').next());
    lists.flat_map(|list| list.split(',')).map(|name| name.trim().trim_matches('"')).collect()
}

impl Book {
    /// Parses a price book, and checks all of it.
    ///
    /// # Errors
    /// [`BookError::At`], with the line of the invalid table.
    pub fn checked(path: &str, text: &str) -> Result<Book, BookError> {
        let (offers, entries) = checked(path, text)?;
        Ok(Book { path: path.into(), offers, entries: OnceLock::from(entries), unread: None })
    }

    /// Reads the offers of a built-in book, which precede its prices.
    ///
    /// # Errors
    /// [`BookError::At`] if an offer is invalid.
    pub fn built_in(path: &str, text: &'static str) -> Result<Book, BookError> {
        let heads = ["\n[[price]]", "\n[[rule]]"].into_iter().filter_map(|head| text.find(head));
        let offers = checked(path, &text[..heads.min().unwrap_or(text.len())])?.0;
        let unread = Some((text, mentioned(text)));
        Ok(Book { path: path.into(), offers, entries: OnceLock::new(), unread })
    }

    /// Returns the prices and rules of the book. Reads them first, if it is built in.
    ///
    /// # Panics
    /// If a built-in book is invalid, which a test excludes.
    pub fn entries(&self) -> &Entries {
        self.entries.get_or_init(|| {
            let Some((text, _)) = &self.unread else { return Entries::default() };
            let book = checked(&self.path, text);
            book.unwrap_or_else(|e| panic!("a built-in price book is invalid: {e}")).1
        })
    }

    /// Returns the prices and rules of the book if any may be of an offer.
    pub fn about(&self, offer: &str) -> Option<&Entries> {
        let may = self.unread.as_ref().is_none_or(|(_, names)| names.contains(offer));
        may.then(|| self.entries())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::book::{BUILT_IN, may_price};

    #[test]
    fn a_built_in_book_is_read_completely() {
        for (name, text) in BUILT_IN {
            let (lazy, whole) = (Book::built_in(name, text).unwrap(), Book::checked(name, text).unwrap());
            assert_eq!(lazy.offers, whole.offers, "{name}");
            let (lazy, whole) = (lazy.entries(), whole.entries());
            assert_eq!((lazy.prices.len(), lazy.rules.len()), (whole.prices.len(), whole.rules.len()));
            let names = mentioned(text);
            let offers =
                whole.prices.iter().flat_map(|p| &p.offers).chain(whole.rules.iter().flat_map(|r| &r.offers));
            offers.for_each(|offer| assert!(names.contains(offer.as_str()), "{name}: {offer}"));
        }
        for text in BUILT_IN.iter().map(|(name, text)| Book::built_in(name, text).unwrap()) {
            let providers = text.offers.iter().filter_map(|offer| offer.provider.as_deref());
            providers.for_each(|provider| assert!(may_price(provider), "{provider}"));
        }
        assert!(!may_price("none") && !may_price("") && !may_price("minio"));
        let only = |text| Book::built_in("x", text).unwrap();
        assert!(only("title = 'x'\n").about("aws-s3").is_none());
    }
}
