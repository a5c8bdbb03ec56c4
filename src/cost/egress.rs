//! Which bytes leave a provider for the internet, and what is assumed if the workload does not say.

use super::tariff::Tariff;
use super::usage::Usage;

/// Bytes that leave a provider for the internet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Egress {
    /// As the workload states.
    Stated(u64),
    /// Not stated. All reads are egress at a provider that sells no compute, because no reader can run near the store. At other
    /// providers this many bytes are.
    Unstated {
        /// Bytes that leave a provider with compute.
        from_compute: u64,
    },
}

impl Default for Egress {
    fn default() -> Egress {
        Egress::Stated(0)
    }
}

impl Egress {
    /// What a workload has that says nothing of egress.
    pub const UNSTATED: Egress = Egress::Unstated { from_compute: 0 };

    /// The same with its bytes changed.
    pub fn map(self, change: impl Fn(u64) -> u64) -> Egress {
        match self {
            Egress::Stated(bytes) => Egress::Stated(change(bytes)),
            Egress::Unstated { from_compute } => Egress::Unstated { from_compute: change(from_compute) },
        }
    }

    /// The stated bytes; 0 if nothing is stated.
    pub fn stated(self) -> u64 {
        match self {
            Egress::Stated(bytes) => bytes,
            Egress::Unstated { .. } => 0,
        }
    }

    /// Bytes that leave the provider of a tariff when `downloaded` bytes are read: the only place that decides it.
    pub fn at(self, tariff: &Tariff, downloaded: u64) -> u64 {
        match self {
            Egress::Stated(bytes) => bytes,
            Egress::Unstated { .. } if !tariff.sells_compute => downloaded,
            Egress::Unstated { from_compute } => from_compute,
        }
    }
}

/// The assumption about reads on which bills by these tariffs rest; `None` if egress is stated or nothing is read.
pub fn assumption<'a>(usage: &Usage, tariffs: impl IntoIterator<Item = &'a Tariff>) -> Option<String> {
    if matches!(usage.egress, Egress::Stated(_)) || usage.downloaded == 0 {
        return None;
    }
    let (staying, leaving): (Vec<&Tariff>, Vec<&Tariff>) = tariffs.into_iter().partition(|t| t.sells_compute);
    let mut names: Vec<&str> = leaving.iter().map(|t| t.title.as_str()).collect();
    names.dedup();
    let names = names.join(", ");
    Some(match (staying.is_empty(), leaving.is_empty()) {
        (_, true) => "reads stay in the store's region and are no egress (--egress)".into(),
        (true, false) => {
            format!("all reads are egress, because no compute is sold beside the store: {names} (--egress)")
        }
        (false, false) => format!(
            "all reads are egress from providers that sell no compute ({names}), and stay in the store's region at the others (--egress)"
        ),
    })
}
