//! Lifecycle rules of the buckets in memory.

use std::convert::Infallible;
use std::sync::Arc;

use super::MemoryService;
use super::object::Object;
use super::state::Bucket;
use plimsoll_server::config::lifecycle::{Lifecycle, LifecycleRule};
use plimsoll_server::error::{ApiError, ErrorCode};
use plimsoll_server::expiry::{Due, Now, VersionFacts, aborts, due};

/// Versions of a key that are due: the version, and true to hide it instead of removing it.
type DueOfKey = (String, Vec<(Arc<Object>, bool)>);

impl MemoryService {
    /// Applies the lifecycle rules of all buckets once. Returns the number of versions and uploads that were removed.
    ///
    /// # Errors
    /// Returns `SlowDown` if there is no memory for a delete marker.
    pub fn expire(&self, now: Now) -> Result<u64, ApiError> {
        let mut count = 0;
        for (_, bucket) in self.state.buckets() {
            let Some(rules) = &bucket.info.lifecycle else { continue };
            for (key, versions) in due_in(&bucket, rules, now) {
                for (version, expires) in versions {
                    count += u64::from(self.expire_version(&bucket, &key, &version, expires)?);
                }
            }
            bucket.uploads().retain(|(key, _), upload| {
                let initiated_ms = upload.info.initiated.as_millisecond();
                let is_due = aborts(rules, key, &upload.info.object.tags, initiated_ms, now);
                count += u64::from(is_due);
                !is_due
            });
        }
        Ok(count)
    }

    /// Hides or removes a version. Returns false if a client has changed the object meanwhile.
    fn expire_version(
        &self,
        bucket: &Bucket,
        key: &str,
        version: &Arc<Object>,
        expires: bool,
    ) -> Result<bool, ApiError> {
        let named = (!expires || !bucket.is_versioned()).then(|| version.version());
        let mut is_same = false;
        let removed = self.remove(bucket, key, named, |found| {
            is_same = found.is_some_and(|found| Arc::ptr_eq(found, version));
            if is_same { Ok(()) } else { Err(ApiError::new(ErrorCode::NoSuchVersion)) }
        });
        if is_same { removed.map(|_| true) } else { Ok(false) }
    }
}

/// Returns the versions of all keys of a bucket that are due.
fn due_in(bucket: &Bucket, rules: &Lifecycle, now: Now) -> Vec<DueOfKey> {
    let objects = bucket.objects();
    let noncurrent = bucket.noncurrent();
    let mut found = Vec::new();
    for (key, current) in objects.iter() {
        let versions: Vec<&Arc<Object>> =
            std::iter::once(current).chain(noncurrent.get(key).into_iter().flatten()).collect();
        let fact = |object: &&Arc<Object>| VersionFacts {
            is_marker: object.is_marker,
            modified_ms: object.info.modified.as_millisecond(),
        };
        let applies = |rule: &LifecycleRule, version: usize| {
            let info = &versions[version].info;
            Ok::<_, Infallible>(rule.filter.matches(key, info.size, &info.tags))
        };
        let facts: Vec<VersionFacts> = versions.iter().map(fact).collect();
        let of_key = |Due { version, expires }| (Arc::clone(versions[version]), expires);
        let Ok(due) = due(rules, &facts, now, applies);
        if !due.is_empty() {
            found.push((key.clone(), due.into_iter().map(of_key).collect()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_server::config::lifecycle::{Expiration, NoncurrentExpiration};
    use plimsoll_server::reserve::Memory;
    use plimsoll_server::service::{BucketChange, ObjectService, Versioning};

    const DAY_MS: u64 = 1000;

    /// A service with a bucket `bkt` that has these rules.
    fn service(rules: Vec<LifecycleRule>, versioned: bool) -> MemoryService {
        let memory = Memory::new(u64::MAX);
        let service = MemoryService::new(&memory).with_bucket("bkt").unwrap();
        service.state.change_bucket("bkt", BucketChange::Lifecycle(Some(Lifecycle { rules }))).unwrap();
        if versioned {
            service.state.change_bucket("bkt", BucketChange::Versioning(true)).unwrap();
        }
        service
    }

    fn write(service: &MemoryService, key: &str) {
        let bucket = service.state.bucket("bkt").unwrap();
        let object = Object::new(&service.memory, key, Vec::new(), "e", Vec::new()).unwrap();
        service.store(&bucket, key, object, &Default::default()).unwrap();
    }

    /// Number of the versions of a key: all, and the delete markers among them.
    fn versions(service: &MemoryService, key: &str) -> (usize, usize) {
        let bucket = service.state.bucket("bkt").unwrap();
        let objects = bucket.objects();
        let noncurrent = bucket.noncurrent();
        let all: Vec<_> =
            objects.get(key).into_iter().chain(noncurrent.get(key).into_iter().flatten()).collect();
        (all.len(), all.iter().filter(|object| object.is_marker).count())
    }

    fn after(days: i64) -> Now {
        let ms = plimsoll_base::clock::wall_now().as_millisecond() + days * DAY_MS.cast_signed();
        Now { ms, day_ms: DAY_MS }
    }

    fn rule(expiration: Option<Expiration>, noncurrent: Option<NoncurrentExpiration>) -> LifecycleRule {
        LifecycleRule { enabled: true, expiration, noncurrent, ..LifecycleRule::default() }
    }

    #[test]
    fn objects_expire_after_their_days() {
        let rule = LifecycleRule {
            filter: plimsoll_server::config::lifecycle::Filter {
                prefix: "old/".into(),
                ..Default::default()
            },
            ..rule(Some(Expiration::Days(3)), None)
        };
        let service = service(vec![rule], false);
        for key in ["old/a", "new/a"] {
            write(&service, key);
        }
        assert_eq!(service.expire(after(2)).unwrap(), 0);
        assert_eq!(service.expire(after(4)).unwrap(), 1);
        assert_eq!((versions(&service, "old/a").0, versions(&service, "new/a").0), (0, 1));
    }

    #[test]
    fn versions_are_hidden_and_then_removed() {
        let noncurrent = NoncurrentExpiration { days: 5, keep: 0 };
        let rules = vec![
            rule(Some(Expiration::Days(1)), Some(noncurrent)),
            rule(Some(Expiration::DeleteMarkers), None),
        ];
        let service = service(rules, true);
        let features = service.features();
        assert!(features.versions && features.bucket_configuration);
        assert_eq!(service.state.bucket("bkt").unwrap().info.versioning, Versioning::Enabled);
        write(&service, "k");
        assert_eq!(service.expire(after(2)).unwrap(), 1);
        assert_eq!(versions(&service, "k"), (2, 1), "hidden behind a marker");
        assert_eq!(service.expire(after(2)).unwrap(), 0, "a marker does not expire by days");
        assert_eq!(service.expire(after(9)).unwrap(), 1);
        assert_eq!(versions(&service, "k"), (1, 1), "only the marker is left");
        assert_eq!(service.expire(after(9)).unwrap(), 1);
        assert_eq!(versions(&service, "k"), (0, 0));
        assert!(service.memory.used() < 2048, "the memory of versions is free again");
    }
}
