//! The content of a file: pages, some of them allocated.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Size of a page, the unit of allocation and of the page cache, in bytes.
pub const PAGE: u64 = 4096;
/// Size of a sector, the unit that a disk writes as a whole, in bytes.
pub const SECTOR: u64 = 512;

type Page = [u8; PAGE as usize];

/// Sparse content. Copies share their pages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Content {
    pages: BTreeMap<u64, Arc<Page>>,
    size: u64,
}

/// Returns the parts of a byte range that lie in different units of `unit` bytes.
pub fn split(range: Range<u64>, unit: u64) -> impl Iterator<Item = Range<u64>> {
    let mut from = range.start;
    std::iter::from_fn(move || {
        if from >= range.end {
            return None;
        }
        let to = range.end.min((from / unit + 1) * unit);
        let part = from..to;
        from = to;
        Some(part)
    })
}

impl Content {
    /// Returns the size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the number of allocated bytes.
    pub fn allocated(&self) -> u64 {
        self.pages.len() as u64 * PAGE
    }

    /// Returns true if the page that contains this byte is allocated.
    pub fn has_page(&self, offset: u64) -> bool {
        self.pages.contains_key(&(offset / PAGE))
    }

    /// Returns the number of bytes that a write to `range` would allocate.
    pub fn to_allocate(&self, range: Range<u64>) -> u64 {
        split(range, PAGE).filter(|part| !self.has_page(part.start)).count() as u64 * PAGE
    }

    /// Returns up to `length` bytes from `offset`; fewer at the end of the file.
    pub fn read(&self, offset: u64, length: u64) -> Vec<u8> {
        let end = self.size.min(offset.saturating_add(length));
        let mut out = Vec::with_capacity(end.saturating_sub(offset) as usize);
        for part in split(offset..end, PAGE) {
            let (at, count) = ((part.start % PAGE) as usize, (part.end - part.start) as usize);
            match self.pages.get(&(part.start / PAGE)) {
                Some(page) => out.extend_from_slice(&page[at..at + count]),
                None => out.resize(out.len() + count, 0),
            }
        }
        out
    }

    /// Writes bytes at `offset`, and extends the file if it is shorter.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        let end = offset + data.len() as u64;
        for part in split(offset..end, PAGE) {
            let page = self.pages.entry(part.start / PAGE).or_insert_with(|| Arc::new([0; PAGE as usize]));
            let (at, from) = ((part.start % PAGE) as usize, (part.start - offset) as usize);
            let count = (part.end - part.start) as usize;
            Arc::make_mut(page)[at..at + count].copy_from_slice(&data[from..from + count]);
        }
        self.size = self.size.max(end);
    }

    /// Truncates or extends the file.
    pub fn resize(&mut self, size: u64) {
        if size < self.size {
            self.pages.retain(|page, _| page * PAGE < size);
            let tail = size..(size.div_ceil(PAGE) * PAGE);
            if self.has_page(size) {
                self.zero(tail);
            }
        }
        self.size = size;
    }

    /// Fills allocated bytes with zeros.
    fn zero(&mut self, range: Range<u64>) {
        for part in split(range, PAGE) {
            if let Some(page) = self.pages.get_mut(&(part.start / PAGE)) {
                let at = (part.start % PAGE) as usize;
                Arc::make_mut(page)[at..at + (part.end - part.start) as usize].fill(0);
            }
        }
    }

    /// Allocates the pages of a range without a change of their bytes.
    pub fn allocate(&mut self, range: Range<u64>) {
        for part in split(range, PAGE) {
            self.pages.entry(part.start / PAGE).or_insert_with(|| Arc::new([0; PAGE as usize]));
        }
    }

    /// Makes a hole: bytes become zeros, and whole pages are freed.
    pub fn punch(&mut self, range: Range<u64>) {
        self.zero(range.clone());
        self.pages.retain(|page, _| page * PAGE < range.start || (page + 1) * PAGE > range.end);
    }

    /// Returns the offset of the first allocated byte at or after `offset`, or of the first hole (`SEEK_DATA` and
    /// `SEEK_HOLE`). The end of the file is a hole. `None` if there is none.
    pub fn seek(&self, offset: u64, data: bool) -> Option<u64> {
        if offset >= self.size {
            return None;
        }
        let mut at = offset;
        while at < self.size && self.has_page(at) != data {
            at = (at / PAGE + 1) * PAGE;
        }
        match (at < self.size, data) {
            (true, _) => Some(at),
            (false, true) => None,
            (false, false) => Some(self.size),
        }
    }

    /// Flips one bit of the file.
    pub fn flip(&mut self, offset: u64, bit: u32) {
        let byte = self.read(offset, 1).first().copied().unwrap_or(0);
        self.write(offset, &[byte ^ (1 << (bit % 8))]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_equal_to_a_vector_of_bytes() {
        let mut draws = crate::draws::Draws::new(1, "content");
        for _ in 0..200 {
            let (mut content, mut bytes) = (Content::default(), Vec::<u8>::new());
            for step in 0..20u8 {
                let (offset, length) = (draws.below(20_000), draws.below(9_000));
                let range = offset as usize..(offset + length) as usize;
                match draws.below(4) {
                    0 => {
                        content.resize(offset);
                        bytes.resize(offset as usize, 0);
                    }
                    1 => {
                        content.punch(offset..offset + length);
                        let end = range.end.min(bytes.len());
                        bytes[range.start.min(end)..end].fill(0);
                    }
                    _ => {
                        content.write(offset, &vec![step + 1; length as usize]);
                        bytes.resize(bytes.len().max(range.end), 0);
                        bytes[range].fill(step + 1);
                    }
                }
                assert_eq!(content.size(), bytes.len() as u64);
                assert!(content.read(0, u64::MAX) == bytes, "after step {step}");
            }
        }
    }

    #[test]
    fn seeks_find_data_and_holes() {
        let mut content = Content::default();
        content.write(2 * PAGE, b"x");
        assert_eq!((content.seek(0, true), content.seek(0, false)), (Some(2 * PAGE), Some(0)));
        assert_eq!(
            (content.seek(2 * PAGE, false), content.seek(2 * PAGE + 1, true)),
            (Some(2 * PAGE + 1), None)
        );
    }
}
