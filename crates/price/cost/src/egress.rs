//! Bytes that leave a provider for the internet.

use super::tariff::Tariff;

/// Bytes that leave a provider for the internet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Egress {
    /// Number of bytes, as the workload specifies.
    Stated(u64),
    /// Not specified. At a provider that sells no compute, all reads are egress, because no reader can run near
    /// the store. At other providers, `from_compute` bytes are egress.
    Unstated {
        /// Bytes that leave a provider that sells compute.
        from_compute: u64,
    },
}

impl Default for Egress {
    fn default() -> Egress {
        Egress::Stated(0)
    }
}

impl Egress {
    /// Egress of a workload that does not specify it.
    pub const UNSTATED: Egress = Egress::Unstated { from_compute: 0 };

    /// Applies a function to the number of bytes.
    pub fn map(self, change: impl Fn(u64) -> u64) -> Egress {
        match self {
            Egress::Stated(bytes) => Egress::Stated(change(bytes)),
            Egress::Unstated { from_compute } => Egress::Unstated { from_compute: change(from_compute) },
        }
    }

    /// Returns the specified bytes; 0 if the workload does not specify them.
    pub fn stated(self) -> u64 {
        match self {
            Egress::Stated(bytes) => bytes,
            Egress::Unstated { .. } => 0,
        }
    }

    /// Returns the bytes that leave the provider of a tariff if `downloaded` bytes are read. No other code
    /// decides this.
    pub fn at(self, tariff: &Tariff, downloaded: u64) -> u64 {
        match self {
            Egress::Stated(bytes) => bytes,
            Egress::Unstated { .. } if !tariff.sells_compute => downloaded,
            Egress::Unstated { from_compute } => from_compute,
        }
    }
}
