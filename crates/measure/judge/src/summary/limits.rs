//! Detects windows in which the client was the bottleneck (docs/method.md, "Limits of the client").

use super::result::Percentiles;
use plimsoll_recorder::collector::Usage;

/// Share of the available CPU time above which the client, not the store, is considered the bottleneck.
const CPU_SHARE: f64 = 0.8;
/// Share of a network link's speed above which the client is considered the bottleneck.
const LINK_SHARE: f64 = 0.9;
/// Start lag, as a share of the median service time, above which the client is considered the bottleneck.
const LAG_SHARE_OF_SERVICE: f64 = 0.05;
/// Start lag in milliseconds that must also be exceeded.
const LAG_MS: f64 = 1.0;

/// Resources available to the client.
#[derive(Debug, Clone, Copy)]
pub struct Means {
    /// CPU cores that the process may use.
    pub usable_cores: f64,
    /// Number of worker threads.
    pub workers: usize,
}

/// Returns true if the CPU or the network link of the client was exhausted, which limits its rate. Start lag alone
/// limits only latencies.
pub fn exhausted(usage: &Usage, window_s: f64, means: Means) -> bool {
    client_limited(usage, window_s, means, &Percentiles::default(), &Percentiles::default()).is_some()
}

/// Returns the reasons why the client was the bottleneck in a window of `window_s` seconds, `None` if it was not.
pub fn client_limited(
    usage: &Usage,
    window_s: f64,
    means: Means,
    lag: &Percentiles,
    service: &Percentiles,
) -> Option<String> {
    let mut reasons = Vec::new();
    let worker = usage.busiest_worker_ns as f64 / 1e9 / window_s;
    let process = usage.process_cpu_ns as f64 / 1e9 / window_s / means.usable_cores;
    if worker > CPU_SHARE || process > CPU_SHARE {
        let (share, of) = if worker > process {
            (worker, format!("a core by the busiest of {} workers", means.workers))
        } else {
            (process, format!("the {:.3} usable cores", means.usable_cores))
        };
        reasons.push(format!("cpu: {:.0}% of {of}", share.min(1.0) * 100.0));
    }
    // Without a p99, because of too few samples, the lag is not judged.
    let lag_p99 = lag.p99.unwrap_or(0.0);
    if lag_p99 > LAG_MS && lag_p99 > LAG_SHARE_OF_SERVICE * service.p50.unwrap_or(0.0) {
        reasons.push(format!("start lag: p99 {lag_p99:.1} ms"));
    }
    if let Some((name, share)) = usage.link.as_ref().filter(|(_, share)| *share > LINK_SHARE) {
        reasons.push(format!("link: {name} {:.0}% full", share * 100.0));
    }
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

/// Returns true if a reason of [`client_limited`] is start lag alone. It delays response times, and leaves service
/// times and rates as they are.
pub fn is_only_lag(reason: &str) -> bool {
    reason.starts_with("start lag") && !reason.contains("; link: ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_of_the_client_is_named() {
        let means = Means { usable_cores: 2.0, workers: 2 };
        let lag = |p99| Percentiles { p99: Some(p99), ..Percentiles::default() };
        let service = Percentiles { p50: Some(10.0), ..Percentiles::default() };
        let judge = |usage: Usage, lag_ms: f64| client_limited(&usage, 10.0, means, &lag(lag_ms), &service);
        assert_eq!(judge(Usage::default(), 0.9), None);
        assert_eq!(judge(Usage::default(), 1.1).unwrap(), "start lag: p99 1.1 ms");
        let busy = Usage { busiest_worker_ns: 9_000_000_000, ..Usage::default() };
        assert!(exhausted(&busy, 10.0, means) && !exhausted(&Usage::default(), 10.0, means));
        assert_eq!(judge(busy, 0.0).unwrap(), "cpu: 90% of a core by the busiest of 2 workers");
        assert!(is_only_lag(&judge(Usage::default(), 1.1).unwrap()));
        let full = Usage { link: Some(("eth0".into(), 0.95)), ..Usage::default() };
        assert_eq!(judge(full.clone(), 0.0).unwrap(), "link: eth0 95% full");
        assert!(!is_only_lag(&judge(full, 1.1).unwrap()));
        let slow_store = Percentiles { p50: Some(100.0), ..Percentiles::default() };
        assert_eq!(
            client_limited(&Usage::default(), 10.0, means, &lag(4.0), &slow_store),
            None,
            "4 ms of 100 ms"
        );
    }
}
