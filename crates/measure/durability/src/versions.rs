//! Writes, deletes and reads versions. The history of a cut has one key for each version.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::signed::SignedClient;

/// Start of the keys that are in the bucket with versions, without the prefix of the check.
pub const FOLDER: &str = "versions/";
/// Character between the name of an object and the number of the operation that wrote the version.
pub const SEPARATOR: char = '#';

/// Returns true if a key is in the bucket with versions.
pub fn has_versions(key: &str) -> bool {
    key.starts_with(FOLDER)
}

/// Client of a bucket with versions. A key is that of an object, or of one version of it: its name, [`SEPARATOR`] and
/// the number of the operation that wrote the version.
#[derive(Clone)]
pub struct Versions {
    signed: SignedClient,
    /// Ids of the versions by the operation that wrote them.
    ids: Arc<Mutex<HashMap<u64, String>>>,
}

/// Splits a complete key into the name of the object and the number of the operation; `None` for an object.
fn split(key: &str) -> (&str, Option<u64>) {
    match key.rsplit_once(SEPARATOR) {
        Some((name, operation)) => (name, operation.parse().ok()),
        None => (key, None),
    }
}

impl Versions {
    /// Creates a bucket with versions; `None` if the store does not keep versions.
    pub fn create(signed: SignedClient, key: &str) -> Option<Versions> {
        let versions = Versions { signed, ids: Arc::default() };
        let is_enabled = versions.signed.create_bucket().ok()? && versions.signed.enable_versions().ok()?;
        if !is_enabled {
            return None;
        }
        let (old, new) = (format!("{key}{SEPARATOR}0"), format!("{key}{SEPARATOR}1"));
        let keeps = versions.put(&old, Bytes::from_static(b"old")).ok()?
            && versions.put(&new, Bytes::from_static(b"new")).ok()?
            && versions.read(&old).ok()? == Some(b"old".to_vec())
            && versions.read(&new).ok()? == Some(b"new".to_vec());
        keeps.then_some(versions)
    }

    fn ids(&self) -> MutexGuard<'_, HashMap<u64, String>> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes an object, or a version of it. Returns true if the store acknowledged it.
    ///
    /// # Errors
    /// A message if there was no answer.
    pub fn put(&self, key: &str, content: Bytes) -> Result<bool, String> {
        let (name, operation) = split(key);
        let answer = self.signed.put(name, content)?;
        let id = answer.headers().get("x-amz-version-id").and_then(|id| id.to_str().ok());
        if let (Some(operation), Some(id)) = (operation, id) {
            self.ids().insert(operation, id.to_string());
        }
        Ok(answer.status().is_success() && id.is_some())
    }

    /// Writes a delete marker of an object, or deletes a version for good. Returns true after an acknowledgement.
    ///
    /// # Errors
    /// A message if there was no answer, or the id of the version is not known.
    pub fn delete(&self, key: &str) -> Result<bool, String> {
        let (name, id) = self.find(key)?;
        Ok(self.signed.delete(name, id.as_deref())?.status().is_success())
    }

    /// Reads an object or a version; `None` if it does not exist.
    ///
    /// # Errors
    /// A message if there was no answer or another error than a missing key, or the id of the version is not known.
    pub fn read(&self, key: &str) -> Result<Option<Vec<u8>>, String> {
        let (name, id) = self.find(key)?;
        let answer = self.signed.get(name, id.as_deref())?;
        match answer.status().as_u16() {
            200 => Ok(Some(answer.body().to_vec())),
            404 => Ok(None),
            status => Err(format!("GET fails: HTTP status {status}")),
        }
    }

    fn find<'a>(&self, key: &'a str) -> Result<(&'a str, Option<String>), String> {
        let (name, operation) = split(key);
        let Some(operation) = operation else { return Ok((name, None)) };
        let id = self.ids().get(&operation).cloned();
        id.map(|id| (name, Some(id))).ok_or_else(|| format!("the version of operation {operation} has no id"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_an_object_or_a_version() {
        assert_eq!(split("p/versions/c0/v1#130"), ("p/versions/c0/v1", Some(130)));
        assert_eq!(split("p/versions/c0/k1"), ("p/versions/c0/k1", None));
        assert!(has_versions("versions/c0/k1") && !has_versions("c0/k1"));
    }
}
