//! OpenTelemetry metrics in the JSON encoding of OTLP/HTTP:
//! <https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding>.

use serde_json::{Value, json};

use super::LATENCY_EDGES_S;
use super::sample::{Histogram, Labels, Sample, Series};

/// Value of `AGGREGATION_TEMPORALITY_CUMULATIVE`.
const CUMULATIVE: u32 = 2;

/// A counter: name, unit, description, and its value for a series.
type Counter = (&'static str, &'static str, &'static str, fn(&Series) -> Value);

/// Returns the body of a request to `/v1/metrics`. Integers are strings, as the encoding requires for 64 bits.
pub fn request(sample: &Sample) -> String {
    let counters: [Counter; 3] = [
        ("plimsoll.operations", "{operation}", "Successful operations", |s| integer(s.operations)),
        ("plimsoll.object_bytes", "By", "Object bytes delivered", |s| json!({ "asDouble": s.object_bytes })),
        ("plimsoll.unanswered_operations", "{operation}", "Operations that were not answered in time", |s| {
            integer(s.unanswered)
        }),
    ];
    let mut metrics: Vec<Value> = counters
        .iter()
        .map(|(name, unit, help, value)| {
            let points = sample.series.iter().map(|s| point(sample, &s.labels, None, value(s)));
            sum(name, unit, help, points.collect())
        })
        .collect();
    let failed = sample
        .series
        .iter()
        .flat_map(|s| s.failed.iter().map(|(class, n)| point(sample, &s.labels, Some(class), integer(*n))));
    let help = "Operations that failed, by class";
    metrics.push(sum("plimsoll.failed_operations", "{operation}", help, failed.collect()));
    let cost =
        sample.cost_usd.iter().map(|(labels, usd)| point(sample, labels, None, json!({ "asDouble": usd })));
    let help = "Cost of the run so far at list prices";
    metrics.push(sum("plimsoll.cost", "USD", help, cost.collect()));
    let help = "Service time of successful operations, from start to end";
    metrics.push(histogram(sample, "plimsoll.service_time", help, |s| &s.service));
    let help = "Response time of successful operations, from intended time to end; open loops only";
    metrics.push(histogram(sample, "plimsoll.response_time", help, |s| &s.response));
    let service = json!([{ "key": "service.name", "value": { "stringValue": "plimsoll" } }]);
    let scope = json!({ "name": "plimsoll", "version": env!("CARGO_PKG_VERSION") });
    json!({ "resourceMetrics": [{
        "resource": { "attributes": service },
        "scopeMetrics": [{ "scope": scope, "metrics": metrics }],
    }] })
    .to_string()
}

fn integer(n: u64) -> Value {
    json!({ "asInt": n.to_string() })
}

fn attributes(labels: &Labels, class: Option<&str>) -> Value {
    let one = |key: &str, value: &str| json!({ "key": key, "value": { "stringValue": value } });
    let all = labels.iter().map(|(key, value)| one(key, value)).chain(class.map(|class| one("class", class)));
    Value::Array(all.collect())
}

/// Returns a data point: the fields of `value` with labels and times.
fn point(sample: &Sample, labels: &Labels, class: Option<&str>, mut value: Value) -> Value {
    value["attributes"] = attributes(labels, class);
    value["startTimeUnixNano"] = sample.start_unix_ns.to_string().into();
    value["timeUnixNano"] = sample.at_unix_ns.to_string().into();
    value
}

fn sum(name: &str, unit: &str, help: &str, points: Vec<Value>) -> Value {
    let sum = json!({ "aggregationTemporality": CUMULATIVE, "isMonotonic": true, "dataPoints": points });
    json!({ "name": name, "unit": unit, "description": help, "sum": sum })
}

fn histogram(sample: &Sample, name: &str, help: &str, of: fn(&Series) -> &Histogram) -> Value {
    let recorded = sample.series.iter().filter(|series| of(series).count() > 0);
    let points = recorded.map(|series| {
        let found = of(series);
        let counts: Vec<String> = found.counts.iter().map(u64::to_string).collect();
        let value = json!({
            "count": found.count().to_string(),
            "sum": found.sum_s,
            "bucketCounts": counts,
            "explicitBounds": LATENCY_EDGES_S,
        });
        point(sample, &series.labels, None, value)
    });
    let points: Vec<Value> = points.collect();
    let histogram = json!({ "aggregationTemporality": CUMULATIVE, "dataPoints": points });
    json!({ "name": name, "unit": "s", "description": help, "histogram": histogram })
}
