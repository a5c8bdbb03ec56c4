//! State of a store's caches that a phase declares for its reads.

use serde::{Deserialize, Serialize};

/// State of a store's caches that a phase declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum CacheState {
    /// No object is read twice, so that a cache helps only if it holds the objects since they were written.
    Cold,
    /// An earlier warm-up phase reads every object once, so that a cache holds as many of them as it can.
    Warm,
}

impl CacheState {
    /// Returns the name used in files.
    pub fn name(self) -> &'static str {
        match self {
            CacheState::Cold => "cold",
            CacheState::Warm => "warm",
        }
    }

    /// Returns the state with this name; `None` if there is none.
    pub fn from_name(name: &str) -> Option<CacheState> {
        [CacheState::Cold, CacheState::Warm].into_iter().find(|state| state.name() == name)
    }
}
