//! Parts of the operations of a window: by the size of their object, and by the address to which they were sent.

use serde::{Deserialize, Serialize};

use super::Percentiles;
use crate::summary::size_range::SizeRange;

/// Successful operations on objects of one class of sizes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SizeClassFigures {
    /// Smallest size of the class in bytes.
    pub from_bytes: u64,
    /// First size above the class in bytes. Null if the class has no end.
    pub to_bytes: Option<u64>,
    /// Start to end of the operations.
    pub service_ms: Percentiles,
}

impl SizeClassFigures {
    /// Returns the sizes of the class.
    pub fn range(&self) -> SizeRange {
        SizeRange { from_bytes: self.from_bytes, to_bytes: self.to_bytes }
    }

    /// Returns the name of the class's histogram in [`super::Window::histograms`].
    pub fn histogram(&self) -> String {
        format!("size_{}", self.from_bytes)
    }
}

/// Operations that were sent to one address of the store.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AddressFigures {
    /// Address and port.
    pub address: String,
    /// Number of failed operations.
    pub failed: u64,
    /// Number of failed attempts, repeated ones included. 0 without retries.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed_attempts: u64,
    /// Start to end of the successful operations.
    pub service_ms: Percentiles,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde expects")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl AddressFigures {
    /// Returns the name of the address's histogram in [`super::Window::histograms`].
    pub fn histogram(&self) -> String {
        format!("address_{}", self.address)
    }

    /// Returns the number of operations, failed ones included.
    pub fn operations(&self) -> u64 {
        self.failed + self.service_ms.n
    }
}
