//! Finds tiers that cannot be used, so that wrong settings are reported at the start and not with the first object.

use std::time::Duration;

use futures_util::StreamExt;

use super::odd_keys::odd_key;
use super::{Tier, Tiers};

/// Time that a tier has to answer.
const WAIT: Duration = Duration::from_secs(20);
/// Name of the file that is written to a directory and deleted.
const PROBE: &str = ".plimsoll-gateway-probe";

/// Returns the problem of a tier; `None` if it can be listed or, for a directory, written.
pub async fn problem(tier: &Tier) -> Option<String> {
    if let Some(directory) = &tier.directory {
        let path = directory.join(PROBE);
        let written = std::fs::write(&path, "").and_then(|()| std::fs::remove_file(&path));
        return written.err().map(|e| format!("{}: {e}", directory.display()));
    }
    match tokio::time::timeout(WAIT, tier.store.list(None).next()).await {
        Ok(Some(Err(error))) if odd_key(&error).is_none() => Some(error.to_string()),
        Ok(_) => None,
        Err(_) => Some(format!("no answer in {} s", WAIT.as_secs())),
    }
}

/// Reports the tiers that cannot be used, from a thread of the background.
pub fn start(tiers: Tiers) {
    std::thread::spawn(move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        for (_, tier) in tiers.iter() {
            if let Some(problem) = runtime.block_on(problem(tier)) {
                plimsoll_catalog::log::warn(&format!("tier {} cannot be used: {problem}", tier.name));
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tier::TierTable;
    use crate::tier::open::open;
    use plimsoll_testing::directory::TempDir;

    #[test]
    fn dead_tiers_and_directories_that_cannot_be_written_have_a_problem() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let dir = TempDir::new("tier-check");
        let open = |url: String| {
            let backend = open(&TierTable { url, ..TierTable::default() }).unwrap();
            Tier::new("cold", backend)
        };
        let good = open(format!("file://{}", dir.path().display()));
        assert_eq!(runtime.block_on(problem(&good)), None);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        std::fs::remove_dir_all(dir.path()).unwrap();
        assert!(runtime.block_on(problem(&good)).unwrap().contains("No such file"));
        // Nothing listens on port 9 of the loopback interface.
        let dead = open("s3://bucket?endpoint=http://127.0.0.1:9&sign=off".into());
        assert!(runtime.block_on(problem(&dead)).is_some());
    }
}
