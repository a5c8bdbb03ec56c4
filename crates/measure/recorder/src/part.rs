//! Parts of the successful operations of a window. Each part has a histogram.

use crate::cache_status::CacheStatus;

/// A part of the successful operations of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WindowPart {
    /// Operations whose response has this cache status.
    Cache(CacheStatus),
    /// Operations that were sent to this address, by its number among those of the store.
    Address(u16),
    /// Operations on objects of a size class, by the smallest size of the class in bytes.
    Size(u64),
}
