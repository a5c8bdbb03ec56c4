//! Functions of a workload.

use super::{Workload, WorkloadError, wrong};
use crate::functions::Functions;
use plimsoll_base::units::{parse_count, parse_duration, parse_size};

/// CPU time of an invocation in microseconds, if the workload does not specify it.
const CPU_US: u64 = 1000;
/// Memory of a function in MiB, if the workload does not specify it: that of a Worker, and Lambda's smallest.
const MEMORY_MIB: u64 = 128;
/// Maximum duration of an invocation in nanoseconds: Lambda's limit of 15 minutes.
const MAX_NS: u64 = 900_000_000_000;
/// Maximum memory of a function in MiB: Lambda's limit.
const MAX_MIB: u64 = 10_240;

fn duration(field: &'static str, text: &str) -> Result<u64, WorkloadError> {
    let ns = parse_duration(text).map_err(|e| wrong(field, e))?;
    if ns > MAX_NS { Err(wrong(field, "an invocation takes at most 15 minutes")) } else { Ok(ns) }
}

/// Returns the functions of a workload.
pub(super) fn of(workload: &Workload, assumptions: &mut Vec<String>) -> Result<Functions, WorkloadError> {
    let Workload { invocations, cpu_time, run_time, memory, .. } = workload;
    let Some(count) = invocations else {
        let given = [("cpu_time", cpu_time), ("run_time", run_time), ("memory", memory)];
        return match given.into_iter().find(|(_, text)| text.is_some()) {
            Some((field, _)) => {
                Err(wrong(field, "this value needs the number of functions; add --invocations"))
            }
            None => Ok(Functions::default()),
        };
    };
    let cpu_us = match cpu_time {
        Some(text) => duration("cpu_time", text)?.div_ceil(1000),
        None => {
            assumptions.push("an invocation uses 1 ms of CPU time (--cpu-time)".into());
            CPU_US
        }
    };
    let run_ms = match run_time {
        Some(text) => duration("run_time", text)?.div_ceil(1_000_000),
        None => {
            assumptions.push("functions do not wait, for example for the store (--run-time)".into());
            cpu_us.div_ceil(1000)
        }
    };
    if run_ms * 1000 < cpu_us {
        return Err(wrong("run_time", "an invocation cannot take less time than its CPU time, --cpu-time"));
    }
    let memory_mib = match memory {
        Some(text) => parse_size(text).map_err(|e| wrong("memory", e))?.div_ceil(1 << 20),
        None => MEMORY_MIB,
    };
    if !(1..=MAX_MIB).contains(&memory_mib) {
        return Err(wrong("memory", "use 1MiB to 10GiB"));
    }
    let invocations = parse_count(count).map_err(|e| wrong("invocations", e))?;
    Ok(Functions { invocations, cpu_us, run_ms: run_ms.max(1), memory_mib })
}
