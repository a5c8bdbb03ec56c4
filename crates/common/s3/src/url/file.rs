//! Parses `file:` URLs.

use plimsoll_base::net::encode::decode;

use super::{Query, StoreUrl, UrlError};

/// The optional steps of a put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Steps {
    /// True if the content is flushed to disk before the object becomes visible.
    pub fsync: bool,
    /// True if a put writes to a temporary file and renames it.
    pub rename: bool,
    /// True if the directory entry is flushed to disk as well.
    pub dirsync: bool,
}

impl Default for Steps {
    fn default() -> Steps {
        Steps { fsync: true, rename: true, dirsync: false }
    }
}

/// Parses the rest of `file:///directory?fsync=on&rename=on&dirsync=off` after `file://`.
pub(super) fn parse(rest: &str) -> Result<StoreUrl, UrlError> {
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    if !path.starts_with('/') || path.len() < 2 {
        return Err(UrlError::Directory(path.into()));
    }
    let (mut steps, mut query) = (Steps::default(), Query::parse(query));
    for (name, step) in
        [("fsync", &mut steps.fsync), ("rename", &mut steps.rename), ("dirsync", &mut steps.dirsync)]
    {
        *step = query.choice(name, &[("on", true), ("off", false)])?.unwrap_or(*step);
    }
    query.finish("fsync, rename, dirsync (each on or off)")?;
    let path = decode(path, false).unwrap_or_else(|| path.to_string());
    Ok(StoreUrl::File(path.into(), steps))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::url::parse;

    #[test]
    fn file_urls_set_the_steps_of_a_put() {
        let steps = Steps { fsync: false, rename: true, dirsync: true };
        let url = parse("file:///mnt/efs?fsync=off&dirsync=on", &|_| None);
        assert_eq!(url, Ok(StoreUrl::File("/mnt/efs".into(), steps)));
        let message = |text: &str| parse(text, &|_| None).unwrap_err().to_string();
        assert!(message("file://mnt/efs").contains("file:///mnt/efs"));
        assert!(message("file:///").contains("absolute path"));
        assert!(message("file:///a?sync=on").contains("fsync, rename, dirsync"));
        assert!(message("file:///a?fsync=yes").contains("on, off"));
    }
}
