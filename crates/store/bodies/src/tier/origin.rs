//! The bucket for whose requests a tier is used, so that costs have an owner.

use std::sync::{Arc, LazyLock};

tokio::task_local! {
    static ORIGIN: Arc<str>;
}

/// Origin of moves and of other work in the background. It is not a valid name of a bucket.
pub const BACKGROUND: &str = "(background)";

/// Attributes the requests that a future makes to a bucket.
pub async fn attributed<T>(bucket: &Arc<str>, future: impl Future<Output = T>) -> T {
    ORIGIN.scope(Arc::clone(bucket), future).await
}

/// Returns the bucket to which requests of the current task are attributed.
pub fn current() -> Arc<str> {
    static NONE: LazyLock<Arc<str>> = LazyLock::new(|| BACKGROUND.into());
    ORIGIN.try_with(Arc::clone).unwrap_or_else(|_| Arc::clone(&NONE))
}
