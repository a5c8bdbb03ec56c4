//! The assumption about reads on which bills rest if the workload does not specify its egress.

use super::egress::Egress;
use super::tariff::Tariff;
use super::usage::Usage;

/// Returns the assumption about reads on which bills at these tariffs rest. `None` if the egress is specified
/// or nothing is read.
pub fn assumption<'a>(usage: &Usage, tariffs: impl IntoIterator<Item = &'a Tariff>) -> Option<String> {
    if matches!(usage.egress, Egress::Stated(_)) || usage.downloaded == 0 {
        return None;
    }
    let (staying, leaving): (Vec<&Tariff>, Vec<&Tariff>) = tariffs.into_iter().partition(|t| t.sells_compute);
    // Of a provider with several storage classes, the first one stands for all.
    let mut names: Vec<&str> = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for tariff in &leaving {
        let provider = tariff.provider.as_deref().unwrap_or(&tariff.offer);
        if !seen.contains(&provider) {
            seen.push(provider);
            names.push(&tariff.title);
        }
    }
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
