//! Bytes that leave a provider for the internet, and the assumption if the workload does not specify them.

use super::tariff::Tariff;
use super::usage::Usage;

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

/// Returns the assumption about reads on which bills at these tariffs rest. `None` if the egress is specified
/// or nothing is read.
pub fn assumption<'a>(usage: &Usage, tariffs: impl IntoIterator<Item = &'a Tariff>) -> Option<String> {
    if matches!(usage.egress, Egress::Stated(_)) || usage.downloaded == 0 {
        return None;
    }
    let (staying, leaving): (Vec<&Tariff>, Vec<&Tariff>) = tariffs.into_iter().partition(|t| t.sells_compute);
    let mut names: Vec<&str> = leaving.iter().map(|t| t.title.as_str()).collect();
    names.dedup();
    let names = names.join(", ");
    Some(match (staying.is_empty(), leaving.is_empty()) {
        (_, true) => "reads stay in the store's region and are not egress (--egress)".into(),
        (true, false) => {
            format!("all reads are egress, because no compute is sold near the store: {names} (--egress)")
        }
        (false, false) => format!(
            "all reads from providers that sell no compute ({names}) are egress, and reads from other \
             providers stay in the store's region (--egress)"
        ),
    })
}
