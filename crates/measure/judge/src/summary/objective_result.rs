//! The result of an objective.

use serde::{Deserialize, Serialize};

/// Result of judging an objective.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ObjectiveResult {
    /// The whole interval meets the objective.
    Pass,
    /// The whole interval misses the objective.
    Fail,
    /// The interval contains the bound, or there is too little data.
    #[serde(rename = "inconclusive")]
    Inconclusive,
}
