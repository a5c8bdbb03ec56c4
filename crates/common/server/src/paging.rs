//! Pages of listings: groups keys into common prefixes and limits keys and prefixes together.

use std::ops::Bound;

use super::error::ApiError;
use super::service::{ListEntry, ListPage, ListQuery};

/// Position among the objects or versions of a bucket, in the order of a listing.
pub trait EntryCursor {
    /// Moves to the first entry whose key satisfies the bound.
    fn seek(&mut self, from: Bound<String>);

    /// Moves behind a version of a key.
    fn seek_after_version(&mut self, key: &str, version: &str);

    /// Returns the next entry; `None` at the end.
    ///
    /// # Errors
    /// Returns `InternalError` if the entries cannot be read.
    fn next(&mut self) -> Result<Option<ListEntry>, ApiError>;
}

/// Returns the page of `entries` that a query selects.
///
/// # Errors
/// Returns the error of the entries.
pub fn page(entries: &mut impl EntryCursor, query: &ListQuery<'_>) -> Result<ListPage, ApiError> {
    let mut page = ListPage::default();
    if query.most == 0 {
        return Ok(page);
    }
    let (prefix, after) = (query.prefix, query.after);
    if !query.after_version.is_empty() && after >= prefix {
        entries.seek_after_version(after, query.after_version);
    } else if !after.is_empty() && after >= prefix {
        entries.seek(Bound::Excluded(after.to_string()));
    } else {
        entries.seek(Bound::Included(prefix.to_string()));
    }
    let mut last: Option<(String, Option<String>)> = None;
    while let Some(entry) = entries.next()? {
        let Some(rest) = entry.key.strip_prefix(prefix) else { break };
        let cut = if query.delimiter.is_empty() { None } else { rest.find(query.delimiter) };
        let common = cut.map(|at| format!("{prefix}{}", &rest[..at + query.delimiter.len()]));
        if let Some(common) = &common {
            entries.seek(Bound::Excluded(after_all(common)));
            // If the marker is inside a common prefix, an earlier page listed that prefix.
            if after.starts_with(common.as_str()) {
                continue;
            }
        }
        if page.objects.len() + page.prefixes.len() == query.most {
            (page.next, page.next_version) = last.map_or((None, None), |(key, version)| (Some(key), version));
            break;
        }
        match common {
            Some(common) => {
                last = Some((common.clone(), None));
                page.prefixes.push(common);
            }
            None => {
                last = Some((entry.key.clone(), Some(entry.version.clone())));
                page.objects.push(entry);
            }
        }
    }
    Ok(page)
}

/// Returns a string that sorts after every key with this prefix: U+10FFFF is the highest code point.
fn after_all(prefix: &str) -> String {
    format!("{prefix}{}", "\u{10ffff}".repeat(4))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Keys {
        keys: Vec<&'static str>,
        at: usize,
    }

    impl EntryCursor for Keys {
        fn seek(&mut self, from: Bound<String>) {
            self.at = self.keys.partition_point(|key| match &from {
                Bound::Included(first) => *key < first.as_str(),
                Bound::Excluded(last) => *key <= last.as_str(),
                Bound::Unbounded => false,
            });
        }

        fn seek_after_version(&mut self, key: &str, _: &str) {
            self.seek(Bound::Excluded(key.to_string()));
        }

        fn next(&mut self) -> Result<Option<ListEntry>, ApiError> {
            let key = self.keys.get(self.at).copied();
            self.at += 1;
            Ok(key.map(|key| ListEntry {
                key: key.to_string(),
                size: 0,
                etag: String::new(),
                modified: jiff::Timestamp::UNIX_EPOCH,
                checksum: None,
                version: "null".into(),
                latest: true,
                marker: false,
                storage_class: None,
            }))
        }
    }

    fn listed(
        prefix: &str,
        delimiter: &str,
        after: &str,
        most: usize,
    ) -> (Vec<String>, Vec<String>, Option<String>) {
        let mut keys = Keys { keys: vec!["a", "dir/1", "dir/2", "dir2/x", "e/f/g", "z"], at: 0 };
        let query = ListQuery { prefix, delimiter, after, most, ..ListQuery::default() };
        let page = page(&mut keys, &query).unwrap();
        (page.objects.into_iter().map(|o| o.key).collect(), page.prefixes, page.next)
    }

    #[test]
    fn delimiters_group_keys_into_common_prefixes() {
        let (keys, prefixes, next) = listed("", "/", "", 1000);
        assert_eq!(
            (keys, prefixes, next),
            (vec!["a".into(), "z".into()], vec!["dir/".into(), "dir2/".into(), "e/".into()], None)
        );
        let (keys, prefixes, _) = listed("dir/", "/", "", 1000);
        assert_eq!((keys, prefixes), (vec!["dir/1".into(), "dir/2".into()], vec![]));
    }

    #[test]
    fn pages_join_without_gaps_or_repetitions() {
        for delimiter in ["", "/"] {
            for size in 1..=6 {
                let (mut seen, mut after) = (Vec::new(), String::new());
                loop {
                    let (keys, prefixes, next) = listed("", delimiter, &after, size);
                    assert!(keys.len() + prefixes.len() <= size);
                    seen.extend(keys);
                    seen.extend(prefixes);
                    match next {
                        Some(next) => after = next,
                        None => break,
                    }
                }
                let (mut whole, prefixes, _) = listed("", delimiter, "", 1000);
                whole.extend(prefixes);
                whole.sort();
                seen.sort();
                assert_eq!(seen, whole, "delimiter '{delimiter}', pages of {size}");
            }
        }
        assert_eq!(listed("", "", "", 0), (vec![], vec![], None));
    }
}
