//! The cache status of a response, as reported by caches between the client and the origin.

use http::HeaderMap;
use plimsoll_recorder::cache_status::CacheStatus;

/// Parses the status from response headers: `CF-Cache-Status` (Cloudflare), `Cache-Status` (RFC 9211),
/// `X-Cache` (CloudFront, Fastly, Akamai), or `Age` (RFC 9111), in this order. If a header lists several
/// caches, the last one is next to the client and counts. Returns `None` if no cache reports a status.
pub fn cache_status(headers: &HeaderMap) -> Option<CacheStatus> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::to_ascii_lowercase);
    if let Some(status) = text("cf-cache-status") {
        return Some(match status.trim() {
            "hit" | "stale" | "updating" => CacheStatus::Hit,
            "revalidated" => CacheStatus::Revalidated,
            "bypass" | "dynamic" | "none" | "unknown" => CacheStatus::Bypass,
            _ => CacheStatus::Miss,
        });
    }
    if let Some(status) = text("cache-status") {
        let nearest = status.rsplit(',').next().unwrap_or("").to_string();
        let has = |word: &str| nearest.split(';').any(|p| p.trim().starts_with(word));
        return Some(match () {
            () if has("hit") => CacheStatus::Hit,
            () if has("fwd=stale") => CacheStatus::Revalidated,
            () if has("fwd=bypass") || has("fwd=method") => CacheStatus::Bypass,
            () => CacheStatus::Miss,
        });
    }
    if let Some(status) = text("x-cache") {
        let nearest = status.rsplit(',').next().unwrap_or("").trim().to_string();
        return Some(match () {
            () if nearest.contains("refresh") => CacheStatus::Revalidated,
            () if nearest.contains("hit") => CacheStatus::Hit,
            () if nearest.contains("pass") || nearest.contains("nocache") => CacheStatus::Bypass,
            () => CacheStatus::Miss,
        });
    }
    text("age")
        .and_then(|age| age.trim().parse::<u64>().ok())
        .map(|age| if age > 0 { CacheStatus::Hit } else { CacheStatus::Miss })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_known_caches_are_parsed() {
        use CacheStatus::{Bypass, Hit, Miss, Revalidated};
        for (name, value, status) in [
            ("cf-cache-status", "HIT", Hit),
            ("cf-cache-status", "EXPIRED", Miss),
            ("cf-cache-status", "DYNAMIC", Bypass),
            ("cf-cache-status", "REVALIDATED", Revalidated),
            ("x-cache", "Hit from cloudfront", Hit),
            ("x-cache", "Miss from cloudfront", Miss),
            ("x-cache", "RefreshHit from cloudfront", Revalidated),
            ("x-cache", "HIT, MISS", Miss),
            ("x-cache", "MISS, HIT", Hit),
            ("x-cache", "TCP_MEM_HIT from a1", Hit),
            ("cache-status", "Origin; fwd=miss, Edge; hit; ttl=30", Hit),
            ("cache-status", "Edge; fwd=uri-miss", Miss),
            ("age", "12", Hit),
            ("age", "0", Miss),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            assert_eq!(cache_status(&headers), Some(status), "{name}: {value}");
        }
        assert_eq!(cache_status(&HeaderMap::new()), None);
    }
}
