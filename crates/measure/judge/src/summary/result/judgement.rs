//! Conclusions that a run draws from its windows: the capacity, the objectives and the confidence intervals.

use crate::summary::objective_result::ObjectiveResult;
use crate::summary::size_range::SizeRange;
use plimsoll_workload::OperationKind;
use serde::{Deserialize, Serialize};

/// Load that a search for the capacity varied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum CapacityBy {
    /// Rate of an open loop: the capacity is the highest rate that meets the objectives.
    #[default]
    Rate,
    /// Operations in flight of a closed loop: the capacity is the highest throughput.
    Concurrency,
}

/// Capacity of a store, and the steps of the search for it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CapacityFigures {
    /// Load that the search varied.
    #[serde(default)]
    pub by: CapacityBy,
    /// Objectives as written; a step must meet all of them.
    pub objectives: Vec<String>,
    /// Capacity in successful operations per second. Null if the search found none.
    #[serde(default)]
    pub per_s: Option<f64>,
    /// Lower end of the interval of `per_s`: the 95% confidence interval by concurrency, `highest_met_per_s` by rate.
    #[serde(default)]
    pub low_per_s: Option<f64>,
    /// Upper end of the interval of `per_s`: the 95% confidence interval by concurrency, `lowest_missed_per_s` by rate.
    #[serde(default)]
    pub high_per_s: Option<f64>,
    /// Object bytes per second at the capacity. Null if the operations transfer none.
    #[serde(default)]
    pub bytes_per_s: Option<f64>,
    /// Lowest concurrency of a step that reached 95% of the capacity. Null if no step had a closed loop.
    #[serde(default)]
    pub in_flight: Option<u64>,
    /// True if the throughput still grew at the maximum concurrency or rate, so that `per_s` is only a lower bound.
    #[serde(default)]
    pub growing: bool,
    /// Highest rate that met the objectives in most of its tries, in operations per second. Null if no
    /// rate did.
    #[serde(alias = "holds_per_s")]
    pub highest_met_per_s: Option<f64>,
    /// Lowest rate above `highest_met_per_s` that missed an objective in most of its tries. Null if no
    /// rate did.
    #[serde(alias = "breaks_per_s")]
    pub lowest_missed_per_s: Option<f64>,
    /// Length in seconds of the measurement that confirms the capacity: of all steps at the best concurrency, or of the
    /// last step at the rate. Null if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_s: Option<f64>,
    /// Operations in flight in these steps. Null for a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_in_flight: Option<u64>,
    /// Change of the store during the search: one load with different results. Null if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<CapacityChange>,
    /// True if the search ran to its end.
    pub finished: bool,
    /// Step at which the client became the bottleneck, which ended the search. Null if the store was the limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_limit: Option<ClientLimit>,
    /// Steps in order; the windows of a step have the same step number.
    pub steps: Vec<CapacityStep>,
}

/// Results of one load that differ by more than a quarter.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CapacityChange {
    /// Operations in flight of the load.
    pub in_flight: u64,
    /// Successful operations per second in the steps before the change.
    pub before_per_s: f64,
    /// Successful operations per second in the steps since then.
    pub after_per_s: f64,
}

/// Rate at which the client became the bottleneck.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClientLimit {
    /// Successful operations per second in that step.
    pub per_s: f64,
    /// Resource that limited the client.
    pub reason: String,
}

/// One step of the search: one load and its result.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CapacityStep {
    /// Number of the step, from 0.
    pub step: u32,
    /// Operations intended per second. Null in a closed loop.
    pub offered_per_s: Option<f64>,
    /// Operations in flight of a closed loop. Null in an open loop.
    #[serde(default)]
    pub in_flight: Option<u64>,
    /// Successful operations per second.
    pub achieved_per_s: f64,
    /// True if the step met the objectives.
    #[serde(alias = "held")]
    pub met: bool,
    /// Missed objective with its measured value, or the reason that the rate was not achieved. Null if the step
    /// met the objectives.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "broke")]
    pub missed: Option<String>,
    /// Resource that limited the client; a missed objective is then not evidence about the store. Null
    /// if the client was not the bottleneck.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_limited: Option<String>,
    /// Share of the step, from 0 to 1, during which a core of the client was paused.
    #[serde(default)]
    pub paused_share: f64,
    /// True if the step only showed whether the store was still busy with an earlier one. It is not part of the curve.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recovery: bool,
}

/// Result of judging one objective by the figures of one store and phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ObjectiveFigures {
    /// Objective as the user wrote it.
    pub objective: String,
    /// URL of the store as the user wrote it, without credentials.
    pub store: String,
    /// Name of the phase.
    pub phase: String,
    /// Step of a ramp, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// Kind of operation. Null if the objective is about all operations of the phase together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<OperationKind>,
    /// Sizes of the objects that the objective is about. Null if it is about all operations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<SizeRange>,
    /// Result of the judgement.
    pub outcome: ObjectiveResult,
    /// Measured value with its 95% confidence interval, for people.
    pub detail: String,
    /// Seconds of measurement that the judgement would probably need; null if it is decided, or if the figure is too
    /// close to the objective.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_needed_s: Option<f64>,
    /// Resource that limited the client; the figure then measures the client, not the store. Null if the client was
    /// not the bottleneck.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_limited: Option<String>,
    /// Scope of a pass that may have missed stalls, because the run is too short to see them. Null if the run is long
    /// enough, or if the objective is not a pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unseen_stalls: Option<UnseenStalls>,
}

/// Length of a run that may have missed the stalls of its store, and the length that it needs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnseenStalls {
    /// Measured time, in seconds.
    pub measured_s: f64,
    /// Measured time after which a percentile cannot have missed its stalls, in seconds.
    pub needed_s: f64,
}

/// Question of a run that measured until its answer, with the answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UntilFigures {
    /// Question as the user wrote it.
    pub question: String,
    /// Answer, or the reason why there is none.
    pub answer: String,
    /// True if the question was answered.
    pub answered: bool,
    /// Measured time per store, in seconds.
    pub measured_s: f64,
    /// Maximum measured time per store, in seconds.
    pub max_s: f64,
    /// Number of times that the results were judged. All looks together are wrong with a probability of at most 5%.
    pub looks: u32,
}

/// A figure with its 95% confidence interval.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConfidenceInterval {
    /// URL of the store as the user wrote it, without credentials.
    pub store: String,
    /// Name of the phase.
    pub phase: String,
    /// Step of a ramp, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// Kind of operation.
    pub operation: OperationKind,
    /// Name of the metric: a percentile such as `p50` (of the response time in open loops, of the service time
    /// in closed ones) or `service.p50`, or `rate`, `throughput`, `errors`.
    pub metric: String,
    /// Unit of the figures: `ms`, `per_s`, `bytes_per_s` or `share`.
    pub unit: String,
    /// Measured value; null if there are too few operations.
    pub value: Option<f64>,
    /// Lower end of the interval; null if the run is too short, if it shows slow structure, or if the interval is wider
    /// than a factor of ten.
    pub low: Option<f64>,
    /// Upper end of the interval; null if `low` is.
    pub high: Option<f64>,
    /// Seconds of measurement that an interval would need if the store behaves as before; null if there is an
    /// interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(alias = "needs_s")]
    pub duration_needed_s: Option<f64>,
    /// Seconds that were measured. The interval is about these seconds.
    #[serde(default)]
    pub measured_s: f64,
    /// A third of the measured time, in seconds. The run may have missed events that are rarer than one in this time.
    #[serde(default)]
    pub rare_event_s: f64,
    /// True if there is no interval because the run shows changes that last longer than a third of it, such as drifts,
    /// level changes and slow cycles.
    #[serde(default)]
    pub slow_structure: bool,
    /// Resource that limited the client; the figure then measures the client, not the store. Null if the
    /// client was not the bottleneck.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_limited: Option<String>,
}
