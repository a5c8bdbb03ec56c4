//! The comparison of an object that is read back, if several slots may have written it at the same time.

use std::cell::{Cell, RefCell};

use super::content::Content;

/// Comparison of an object with the content that an operation has written, and with the contents of overlapping writes.
pub struct Overlaps<'a> {
    /// Returns the contents of the writes that overlap so far. A read cannot return one that is missing here when its
    /// bytes arrive, because a write is known before its request is sent.
    others: &'a dyn Fn() -> Vec<Content>,
    /// Those of the others that have everything that was read; `None` while the object has the expected content.
    left: RefCell<Option<Vec<Content>>>,
    /// True if content was compared, and not only the size.
    has_compared: Cell<bool>,
}

impl<'a> Overlaps<'a> {
    /// Returns a comparison that has not begun.
    pub fn new(others: &'a dyn Fn() -> Vec<Content>) -> Overlaps<'a> {
        Overlaps { others, left: RefCell::new(None), has_compared: Cell::new(false) }
    }

    /// Compares `piece` at offset `at` with the expected content `own`, or with the others. A read begins at 0.
    ///
    /// # Errors
    /// Returns the offset of the first byte that differs from `own` if it also differs from the others.
    pub fn compare(&self, own: &Content, at: u64, piece: &[u8]) -> Result<(), u64> {
        self.has_compared.set(true);
        let mut left = self.left.borrow_mut();
        if at == 0 {
            *left = None;
        }
        if let Some(others) = &mut *left {
            others.retain(|other| other.compare(at, piece).is_ok());
            return if others.is_empty() { Err(at) } else { Ok(()) };
        }
        let Err(differs) = own.compare(at, piece) else { return Ok(()) };
        let has_all = |other: &Content| begins_like(other, own, at) && other.compare(at, piece).is_ok();
        let others: Vec<Content> = (self.others)().into_iter().filter(has_all).collect();
        if others.is_empty() {
            return Err(differs);
        }
        *left = Some(others);
        Ok(())
    }

    /// Returns true if an object with everything that was compared may have this size. `own` is the expected size. All
    /// values are in bytes.
    pub fn has_size(&self, own: u64, size: u64) -> bool {
        let is_one_of = |others: &[Content]| others.iter().any(|other| other.total() == size);
        match &*self.left.borrow() {
            Some(others) => is_one_of(others),
            None => own == size || !self.has_compared.get() && is_one_of(&(self.others)()),
        }
    }
}

/// Returns true if a content has the same first `end` bytes as another one, which is known.
fn begins_like(content: &Content, known: &Content, end: u64) -> bool {
    let mut at = 0;
    while at < end {
        let Some(piece) = known.piece(at, end) else { return false };
        if content.compare(at, &piece).is_err() {
            return false;
        }
        at += piece.len() as u64;
    }
    true
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn whole(text: &'static str) -> Content {
        Content::Whole(Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn an_object_has_the_whole_content_of_one_write() {
        let others = || vec![whole("aaXX"), whole("bb")];
        let own = whole("aabb");
        let read = |pieces: &[&str]| {
            let overlaps = Overlaps::new(&others);
            let mut at = 0;
            for piece in pieces {
                overlaps.compare(&own, at, piece.as_bytes())?;
                at += piece.len() as u64;
            }
            if overlaps.has_size(4, at) { Ok(()) } else { Err(at) }
        };
        assert_eq!(read(&["aa", "bb"]), Ok(()));
        assert_eq!(read(&["aa", "XX"]), Ok(()), "the writes begin with the same bytes");
        assert_eq!(read(&["b", "b"]), Ok(()));
        assert_eq!(read(&["aa"]), Err(2), "half of a content");
        assert_eq!(read(&["aa", "X"]), Err(3));
        assert_eq!(read(&["aa", "bX"]), Err(3), "half of one and half of another");
        assert_eq!(read(&["aa", "XX", "X"]), Err(4));
        assert_eq!(read(&["cc"]), Err(0));
    }

    #[test]
    fn a_repeated_read_begins_anew() {
        let others = || vec![whole("bb")];
        let (own, overlaps) = (whole("aa"), Overlaps::new(&others));
        assert_eq!(overlaps.compare(&own, 0, b"b"), Ok(()));
        assert_eq!((overlaps.compare(&own, 0, b"aa"), overlaps.has_size(2, 2)), (Ok(()), true));
    }

    #[test]
    fn a_size_that_is_only_looked_at_is_that_of_any_write() {
        let others = || vec![whole("b")];
        let overlaps = Overlaps::new(&others);
        assert_eq!([1, 2, 3].map(|size| overlaps.has_size(2, size)), [true, true, false]);
    }
}
