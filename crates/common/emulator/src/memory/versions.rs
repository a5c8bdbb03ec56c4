//! Versions of the objects in memory, by the rules of [`plimsoll_server::versions`].

use std::collections::BTreeMap;
use std::sync::Arc;

use super::object::{Object, Objects};
use plimsoll_server::service::Versioning;
use plimsoll_server::versions::of_write;

/// Versions that are not the current one, by key, the newest first. No list is empty.
pub type Noncurrent = BTreeMap<String, Vec<Arc<Object>>>;

/// The objects of a bucket with all their versions, under their locks.
pub struct Versions<'a> {
    /// Current versions, which may be delete markers.
    pub current: &'a mut Objects,
    /// The other ones.
    pub noncurrent: &'a mut Noncurrent,
}

impl Versions<'_> {
    /// Makes an object the current version of a key. Returns the versions that it replaces, so that the caller can free
    /// them without the locks.
    pub fn write(&mut self, key: &str, new: Arc<Object>, versioning: Versioning) -> Vec<Arc<Object>> {
        let old = self.current.insert(key.to_string(), new);
        let effect = of_write(versioning, old.as_ref().map(|old| old.is_null()));
        let mut replaced = Vec::new();
        if effect.removes_null {
            let others = self.noncurrent.get(key).map_or(&[][..], Vec::as_slice);
            let at = others.iter().position(|version| version.is_null());
            replaced.extend(at.and_then(|at| self.take_noncurrent(key, at)));
        }
        match old {
            Some(old) if effect.replaces_current => replaced.push(old),
            Some(old) => self.noncurrent.entry(key.to_string()).or_default().insert(0, old),
            None => {}
        }
        replaced
    }

    /// Removes a version of a key. If it is the current one, the newest other version becomes current. Returns it;
    /// `None` if there is none.
    pub fn remove(&mut self, key: &str, version: &str) -> Option<Arc<Object>> {
        if self.current.get(key).is_some_and(|current| current.version() == version) {
            return match self.take_noncurrent(key, 0) {
                Some(next) => self.current.insert(key.to_string(), next),
                None => self.current.remove(key),
            };
        }
        let at = self.noncurrent.get(key)?.iter().position(|object| object.version() == version)?;
        self.take_noncurrent(key, at)
    }

    /// Replaces a version of a key by the same one with other properties.
    pub fn replace(&mut self, key: &str, old: &Arc<Object>, new: Arc<Object>) {
        let current = self.current.get_mut(key).into_iter();
        let mut all = current.chain(self.noncurrent.get_mut(key).into_iter().flatten());
        if let Some(place) = all.find(|object| Arc::ptr_eq(object, old)) {
            *place = new;
        }
    }

    /// Removes the noncurrent version at a position; `None` if there is none.
    fn take_noncurrent(&mut self, key: &str, at: usize) -> Option<Arc<Object>> {
        let others = self.noncurrent.get_mut(key)?;
        let taken = (at < others.len()).then(|| others.remove(at));
        if others.is_empty() {
            self.noncurrent.remove(key);
        }
        taken
    }
}

/// Returns a version of a key, or its current one; `None` if there is none.
pub fn find<'a>(
    current: &'a Objects,
    noncurrent: &'a Noncurrent,
    key: &str,
    version: Option<&str>,
) -> Option<&'a Arc<Object>> {
    let Some(version) = version else { return current.get(key) };
    let mut all = current.get(key).into_iter().chain(noncurrent.get(key).into_iter().flatten());
    all.find(|object| object.version() == version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryService;
    use plimsoll_server::reserve::Memory;
    use plimsoll_server::service::BucketChange;

    /// Regression test: a slow upload that had begun before versioning was enabled removed the newest version.
    #[test]
    fn a_write_that_began_before_versioning_keeps_the_versions_written_meanwhile() {
        let service = MemoryService::new(&Memory::new(u64::MAX)).with_bucket("bkt").unwrap();
        let begun = service.state.bucket("bkt").unwrap();
        service.state.change_bucket("bkt", BucketChange::Versioning(true)).unwrap();
        let store = |bucket: &crate::memory::state::Bucket| {
            let object = Object::new(&service.memory, "k", Vec::new(), "e", Vec::new()).unwrap();
            service.store(bucket, "k", object, &Default::default()).unwrap().version.unwrap()
        };
        let meanwhile = store(&service.state.bucket("bkt").unwrap());
        let late = store(&begun);
        let (objects, noncurrent) = (begun.objects(), begun.noncurrent());
        let found = |version: &str| find(&objects, &noncurrent, "k", Some(version)).is_some();
        assert!(found(&meanwhile) && found(&late) && meanwhile != late);
    }
}
