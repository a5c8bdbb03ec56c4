//! Removes what a run wrote, and nothing else.

use crate::store::{Failure, Ignore, Lane, Request, Store};

/// What was found and removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Objects deleted.
    pub deleted: u64,
    /// Keys under the run's prefix that the run did not write; they stay.
    pub foreign: u64,
}

/// Whether a key under a run's root has the shape that runs write: `DATASET/NUMBER`.
pub fn is_ours(root: &str, key: &str) -> bool {
    let Some((dataset, number)) = key.strip_prefix(root).and_then(|rest| rest.rsplit_once('/')) else {
        return false;
    };
    !dataset.is_empty()
        && !dataset.contains('/')
        && number.len() >= 8
        && number.bytes().all(|c| c.is_ascii_digit())
}

/// The prefix of all keys of a run: `<URL prefix>plimsoll/<run-id>/`.
pub fn root(prefix: &str, run_id: &str) -> String {
    format!("{prefix}plimsoll/{run_id}/")
}

/// Deletes every object under `root` that the run wrote; `progress` hears the number so far.
///
/// # Errors
/// When the store refuses a listing or a delete.
pub async fn clean(store: &dyn Store, root: &str, mut progress: impl FnMut(u64)) -> Result<Cleaned, Failure> {
    let mut lane = store.lane(0);
    let mut cleaned = Cleaned::default();
    let mut start_after = String::new();
    let mut one_by_one = false;
    loop {
        let request = Request::List { prefix: root, start_after: &start_after, token: "", max_keys: 1000 };
        let page = lane.execute(request, &mut Ignore).await?.listing.unwrap_or_default();
        // Listings in key order go on after the last key; deleted ones do not come again either way.
        let last = page.objects.last().map(|o| o.key.clone());
        let (ours, foreign): (Vec<String>, Vec<String>) =
            page.objects.into_iter().map(|o| o.key).partition(|key| is_ours(root, key));
        cleaned.foreign += foreign.len() as u64;
        if !ours.is_empty() {
            delete(lane.as_mut(), &ours, &mut one_by_one).await?;
            cleaned.deleted += ours.len() as u64;
            progress(cleaned.deleted);
        }
        match last {
            Some(last) if page.next_token.is_some() => start_after = last,
            _ => return Ok(cleaned),
        }
    }
}

/// In bulk where the store can, else one by one.
async fn delete(lane: &mut dyn Lane, keys: &[String], one_by_one: &mut bool) -> Result<(), Failure> {
    if !*one_by_one {
        match lane.execute(Request::DeleteMany { keys }, &mut Ignore).await {
            Ok(_) => return Ok(()),
            Err(failure) if matches!(failure.status(), Some(400 | 405 | 501)) => *one_by_one = true,
            Err(failure) => return Err(failure),
        }
    }
    for key in keys {
        lane.execute(Request::Delete { key }, &mut Ignore).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::memory::MemoryStore;
    use crate::store::{Body, Collect};

    #[test]
    fn only_what_a_run_writes_is_ours() {
        let root = root("mine/", "20261121-1");
        assert_eq!(root, "mine/plimsoll/20261121-1/");
        assert!(is_ours(&root, "mine/plimsoll/20261121-1/objects/00000012"));
        assert!(is_ours(&root, "mine/plimsoll/20261121-1/objects/123456789"));
        for foreign in [
            "mine/plimsoll/20261121-1/notes.txt",
            "mine/plimsoll/20261121-10/objects/00000001",
            "mine/data",
            "mine/plimsoll/20261121-1/a/b/00000001",
            "mine/plimsoll/20261121-1//00000001",
        ] {
            assert!(!is_ours(&root, foreign), "{foreign}");
        }
    }

    #[test]
    fn foreign_objects_survive() {
        let store = MemoryStore::default();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut lane = store.lane(0);
            let foreign = ["precious", "plimsoll/run/README", "plimsoll/run-2/d/00000001", "zebra"];
            let ours: Vec<String> = (0..2500).map(|i| format!("plimsoll/run/d/{i:08}")).collect();
            for key in foreign.into_iter().chain(ours.iter().map(String::as_str)) {
                lane.execute(Request::Put { key, body: Body::Whole("x".into()) }, &mut Ignore).await.unwrap();
            }
            let cleaned = clean(&store, "plimsoll/run/", |_| {}).await.unwrap();
            assert_eq!(cleaned, Cleaned { deleted: 2500, foreign: 1 });
            for key in foreign {
                lane.execute(Request::Get { key, range: None }, &mut Collect::default()).await.unwrap();
            }
            assert_eq!(clean(&store, "plimsoll/run/", |_| {}).await.unwrap().deleted, 0);
        });
    }
}
