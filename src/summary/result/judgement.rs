//! What a run concludes from its windows: the knee and the confidence intervals.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The highest rate that holds its objectives, and the steps of the search.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KneeFigures {
    /// The objectives as written; all of them must hold.
    pub objectives: Vec<String>,
    /// The highest rate that held them in most of its tries; null when none did.
    pub holds_per_s: Option<f64>,
    /// The lowest rate above it that broke one in most of its tries; null when none did.
    pub breaks_per_s: Option<f64>,
    /// True if the search came to its end.
    pub finished: bool,
    /// The step at which the client, not the store, was the limit, which ended the search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_limit: Option<ClientLimit>,
    /// Every step in order; its windows have the same step number.
    pub steps: Vec<KneeStep>,
}

/// The rate at which the client became the limit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClientLimit {
    /// Operations answered well per second in that step.
    pub per_s: f64,
    /// What limited the client.
    pub reason: String,
}

/// One rate tried.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KneeStep {
    /// Number of the step, from 0.
    pub step: u32,
    /// Operations intended per second.
    pub offered_per_s: f64,
    /// Operations answered well per second.
    pub achieved_per_s: f64,
    /// True if the objectives held.
    pub held: bool,
    /// What broke; null when the step held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broke: Option<String>,
    /// What limited the client; a step that broke then says nothing about the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_limited: Option<String>,
}

/// A figure with its 95% interval.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Judged {
    /// The store as written.
    pub store: String,
    /// Name of the phase.
    pub phase: String,
    /// Step of a ramp, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// Kind of operation.
    pub operation: String,
    /// `p50` and the like (response time in open loops, service time in closed ones), `service.p50`, `rate`, `throughput`, `errors`.
    pub metric: String,
    /// `ms`, `per_s`, `bytes_per_s` or `share`.
    pub unit: String,
    /// The measured value; null when too few operations carry it.
    pub value: Option<f64>,
    /// Lower end of the interval; null below two degrees of freedom and for an interval wider than a factor of ten.
    pub low: Option<f64>,
    /// Upper end of the interval.
    pub high: Option<f64>,
    /// Seconds of measurement that would be enough for an interval, if the store continues as it did; null when there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs_s: Option<f64>,
    /// What limited the client; the figure then measures the client, not the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_limited: Option<String>,
}
