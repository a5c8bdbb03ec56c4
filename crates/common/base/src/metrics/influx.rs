//! InfluxDB line protocol, as <https://docs.influxdata.com/influxdb/v2/reference/syntax/line-protocol/> describes it.

use std::fmt::Write;

use super::LATENCY_EDGES_S;
use super::sample::{Histogram, Labels, Sample};

/// Returns the lines of a sample. The measurements are `plimsoll` with the counts, `plimsoll_failed` by class,
/// `plimsoll_service` and `plimsoll_response` with cumulative buckets by their upper bound `le` in seconds, and
/// `plimsoll_cost`.
pub fn lines(sample: &Sample) -> String {
    let mut out = String::new();
    let at = sample.at_unix_ns;
    for series in &sample.series {
        let tags = tags(&series.labels);
        let _ = writeln!(
            out,
            "plimsoll,{tags} operations={}i,object_bytes={},unanswered={}i {at}",
            series.operations, series.object_bytes, series.unanswered
        );
        for (class, n) in &series.failed {
            let _ = writeln!(out, "plimsoll_failed,{tags},class={} count={n}i {at}", escaped(class));
        }
        for (name, histogram) in [("service", &series.service), ("response", &series.response)] {
            if histogram.count() > 0 {
                buckets(&mut out, &format!("plimsoll_{name},{tags}"), histogram, at);
            }
        }
    }
    for (labels, dollars) in &sample.cost_usd {
        let _ = writeln!(out, "plimsoll_cost,{} usd={dollars} {at}", self::tags(labels));
    }
    out
}

fn buckets(out: &mut String, name: &str, histogram: &Histogram, at: u64) {
    let mut below = 0;
    let edges = LATENCY_EDGES_S.iter().map(f64::to_string).chain(["+Inf".to_string()]);
    for (edge, n) in edges.zip(&histogram.counts) {
        below += n;
        let _ = writeln!(out, "{name},le={edge} count={below}i {at}");
    }
    let _ = writeln!(out, "{name} sum_s={},count={}i {at}", histogram.sum_s, histogram.count());
}

/// Returns the tags of a line. Empty values are not allowed in the protocol and are left out.
fn tags(labels: &Labels) -> String {
    let tag = |(name, value): &(&'static str, String)| format!("{name}={}", escaped(value));
    labels.iter().filter(|(_, value)| !value.is_empty()).map(tag).collect::<Vec<_>>().join(",")
}

/// Escapes a tag value. Line feeds cannot be escaped and become spaces.
fn escaped(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for c in value.chars() {
        match c {
            ',' | '=' | ' ' => out.extend(['\\', c]),
            c if c.is_control() => out.push_str("\\ "),
            c => out.push(c),
        }
    }
    // A backslash at the end would escape the next separator.
    if out.ends_with('\\') {
        out.push_str("\\ ");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::sample::Series;

    #[test]
    fn values_are_escaped_and_histograms_are_cumulative() {
        let mut service = Histogram { counts: vec![0; LATENCY_EDGES_S.len() + 1], sum_s: 0.003 };
        (service.counts[3], service.counts[4]) = (2, 1);
        let labels = vec![("store", "s3://a b,c=d\\".to_string()), ("phase", String::new())];
        let series = Series {
            labels,
            operations: 3,
            object_bytes: 1536.5,
            failed: vec![("503 SlowDown".into(), 1)],
            service,
            ..Series::default()
        };
        let sample = Sample { at_unix_ns: 17, series: vec![series], ..Sample::default() };
        let text = lines(&sample);
        let tag = "store=s3://a\\ b\\,c\\=d\\\\ ";
        let first = format!("plimsoll,{tag} operations=3i,object_bytes=1536.5,unanswered=0i 17\n");
        assert!(text.starts_with(&first), "{text}");
        assert!(
            text.contains(&format!("plimsoll_failed,{tag},class=503\\ SlowDown count=1i 17\n")),
            "{text}"
        );
        for (edge, n) in [("0.0005", 0), ("0.001", 2), ("0.002", 3), ("+Inf", 3)] {
            assert!(
                text.contains(&format!("plimsoll_service,{tag},le={edge} count={n}i 17\n")),
                "{edge}\n{text}"
            );
        }
        assert!(text.contains("sum_s=0.003,count=3i 17\n") && !text.contains("plimsoll_response"), "{text}");
    }
}
