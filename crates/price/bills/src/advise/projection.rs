//! Extrapolation of a measured run to the workload of a month.

use plimsoll_base::units::{format_per_s, parse_rate, short_names};
use plimsoll_cost::period::MONTH_HOURS;
use plimsoll_cost::workload::Workload;
use plimsoll_judge::summary::result::{RunResult, Window};
use plimsoll_workload::OperationKind;
use plimsoll_workload::schedule::Role;

/// Seconds in a month.
pub const MONTH_S: f64 = MONTH_HOURS as f64 * 3600.0;

/// Rate of the extrapolated month.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scale {
    /// Multiple of the measured rate.
    Times(f64),
    /// Total operations per second.
    PerS(f64),
}

impl Scale {
    /// Parses `0.2`, `10x` or `500/s`.
    ///
    /// # Errors
    /// A message with the accepted forms.
    pub fn parse(text: &str) -> Result<Scale, String> {
        if let Ok(per_s) = parse_rate(text) {
            return Ok(Scale::PerS(per_s));
        }
        let number: Option<f64> = text.trim().trim_end_matches('x').parse().ok();
        match number.filter(|n| *n > 0.0 && *n <= 1e6) {
            Some(times) => Ok(Scale::Times(times)),
            None => Err(format!(
                "'{text}' is not a scale; use a factor such as 0.2 or 10x, or a rate such as 500/s"
            )),
        }
    }
}

/// Error while extrapolating a run.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ProjectError {
    /// No operation succeeded in a measured phase.
    #[error("no successful operation was measured on {0}; choose another run or store")]
    Nothing(String),
    /// The extrapolated month is too large.
    #[error("the extrapolated month exceeds 4 EiB or 10^15 requests; lower --scale")]
    Overflow,
}

/// Measured work per second, by kind of request.
#[derive(Debug, Default)]
struct Rates {
    put: f64,
    get: f64,
    head: f64,
    list: f64,
    copy: f64,
    delete: f64,
    written: f64,
    read: f64,
    operations: f64,
    /// Size of a part, in bytes; `None` if objects are not written in parts.
    part_bytes: Option<u64>,
    objects_put: f64,
}

impl Rates {
    fn add(&mut self, window: &Window, seconds: f64) {
        // Only operations that succeeded inside the window count. Failures, later completions and retries are
        // left out.
        let operations = window.achieved_per_s * window.window_s / seconds;
        let bytes = window.bytes as f64 / seconds;
        let each =
            (window.attempts - window.retries.min(window.attempts)) as f64 / window.operations.max(1) as f64;
        self.operations += operations;
        match window.operation {
            OperationKind::Put | OperationKind::Update => {
                let parts = window.upload.as_ref().map(|upload| upload.part_bytes);
                self.part_bytes = parts.filter(|bytes| *bytes > 0).or(self.part_bytes);
                self.put += operations;
                self.objects_put += operations;
                self.written += bytes;
            }
            OperationKind::Get | OperationKind::GetRange => {
                self.get += operations;
                self.read += bytes;
            }
            OperationKind::Head => self.head += operations,
            OperationKind::Copy => self.copy += operations,
            OperationKind::List => self.list += operations,
            OperationKind::Delete => self.delete += operations,
            OperationKind::Scan => {
                // A scan is one listing, then one read per object.
                self.list += operations;
                self.get += operations * (each - 1.0).max(0.0);
                self.read += bytes;
            }
            OperationKind::ReadModifyWrite | OperationKind::CompareAndSwap => {
                self.get += operations;
                self.put += operations;
                self.read += bytes / 2.0;
                self.written += bytes / 2.0;
                self.objects_put += operations;
            }
        }
    }
}

/// Rounds a mean size to whole KiB if it differs by less than 1%. An operation that crosses the edge of a
/// window counts in part, so the measured mean is slightly off.
fn nearly_whole(mean: f64) -> u64 {
    let whole = (mean / 1024.0).round() * 1024.0;
    if whole > 0.0 && (mean / whole - 1.0).abs() < 0.01 { whole as u64 } else { mean.round() as u64 }
}

/// Returns the time for which a store was measured, in seconds. Windows of the same phase, repeat, block and
/// step share their time, so it counts once.
fn measured_s(windows: &[&Window]) -> f64 {
    let mut seen: Vec<(&str, u32, u32, Option<u32>)> = Vec::new();
    let mut sum = 0.0;
    for window in windows {
        let interval = (window.phase.as_str(), window.repeat, window.block, window.step);
        if !seen.contains(&interval) {
            seen.push(interval);
            sum += window.window_s;
        }
    }
    sum
}

/// Describes the parts of a run that are not extrapolated: failed operations, and the part that did not run.
fn left_out(windows: &[&Window], partial: bool) -> Vec<String> {
    let sum = |of: fn(&Window) -> u64| windows.iter().map(|w| of(w)).sum::<u64>();
    let failed = 100.0 * sum(|w| w.errors.values().sum()) as f64 / sum(|w| w.operations).max(1) as f64;
    let failures = (failed > 0.0).then(|| format!("the {failed:.1}% of operations that failed are left out"));
    let cut = partial.then(|| "the run is incomplete; only its measured part is extrapolated".to_string());
    failures.into_iter().chain(cut).collect()
}

/// Extrapolates the work that a run measured on a store to a month. Returns the workload and the assumptions.
///
/// Only successful operations are extrapolated. The data stored is the data that the run wrote in its prepare
/// phases.
///
/// # Errors
/// [`ProjectError`] if no operation succeeded, or if the month is too large.
pub fn project(
    result: &RunResult,
    store: &str,
    scale: Scale,
) -> Result<(Workload, Vec<String>), ProjectError> {
    let of = |role: Role| -> Vec<&Window> {
        result.windows.iter().filter(|w| w.store == store && w.role == role).collect()
    };
    let windows = of(Role::Measure);
    let seconds = measured_s(&windows);
    let mut rates = Rates::default();
    windows.iter().for_each(|w| rates.add(w, seconds));
    if rates.operations == 0.0 || !rates.operations.is_finite() {
        return Err(ProjectError::Nothing(store.into()));
    }
    let times = match scale {
        Scale::Times(times) => times,
        Scale::PerS(per_s) => per_s / rates.operations,
    };
    let whole = |per_s: f64, most: f64| {
        let n = (per_s * times * MONTH_S).round();
        if n <= most { Ok(n as u64) } else { Err(ProjectError::Overflow) }
    };
    let count = |per_s: f64| -> Result<Option<String>, ProjectError> {
        Ok(Some(whole(per_s, 1e15)?).filter(|n| *n > 0).map(|n| n.to_string()))
    };
    let bytes = |per_s: f64| -> Result<Option<String>, ProjectError> {
        Ok(Some(whole(per_s, (1u64 << 62) as f64)?).filter(|n| *n > 0).map(|n| format!("{n}B")))
    };
    let stored: u64 = of(Role::Prepare).iter().map(|w| w.bytes).sum();
    let mean =
        |bytes: f64, objects: f64| (objects > 0.0 && bytes > 0.0).then(|| nearly_whole(bytes / objects));
    let object = mean(rates.written, rates.objects_put).or(mean(rates.read, rates.get));
    let cost = result.cost.iter().find(|cost| cost.store == store);
    let is_egress =
        cost.is_some_and(|cost| cost.bill.lines.iter().any(|line| line.item.starts_with("egress")));
    let mut assumptions = vec![format!(
        "a month of 730 hours at {}/s in total, {} times the rate measured on {}",
        format_per_s(rates.operations * times),
        (times * 1000.0).round() / 1000.0,
        short_names(&[store]).concat()
    )];
    assumptions.extend(left_out(&windows, result.run.partial));
    if stored > 0 {
        assumptions
            .push("the data stored is the data written in the prepare phases of the run (--storage)".into());
    }
    if stored > 0 && rates.objects_put > rates.delete {
        assumptions.push(
            "the data stored does not grow, although the workload writes more than it deletes (--storage)"
                .into(),
        );
    }
    if is_egress {
        assumptions.push("all data read is internet egress, as in the run (--egress)".into());
    }
    let workload = Workload {
        storage: (stored > 0).then(|| format!("{stored}B")),
        put: count(rates.put)?,
        get: count(rates.get)?,
        head: count(rates.head)?,
        list: count(rates.list)?,
        copy: count(rates.copy)?,
        delete: count(rates.delete)?,
        written: bytes(rates.written)?,
        read: bytes(rates.read)?,
        egress: (is_egress && rates.read > 0.0).then(|| "100%".into()),
        object_size: object.map(|n| format!("{}B", n.max(1))),
        part_size: rates.part_bytes.map(|n| format!("{n}B")),
        ..Workload::default()
    };
    Ok((workload, assumptions))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_workload::schedule::Role;

    fn window(operation: &str, attempts: u64, bytes: u64) -> Window {
        Window {
            store: "s".into(),
            role: Role::Measure,
            operation: plimsoll_workload::OperationKind::from_name(operation).unwrap(),
            operations: attempts,
            attempts,
            achieved_per_s: attempts as f64 / 10.0,
            bytes,
            window_s: 10.0,
            ..Window::default()
        }
    }

    #[test]
    fn a_month_has_the_measured_rates() {
        let windows = vec![window("get", 900, 900 << 10), window("put", 100, 100 << 10)];
        let result = RunResult { windows, ..RunResult::default() };
        let (workload, _) = project(&result, "s", Scale::Times(1.0)).unwrap();
        // 90/s and 10/s for 2,628,000 seconds: operations of one phase share its time.
        assert_eq!((workload.get.as_deref(), workload.put.as_deref()), (Some("236520000"), Some("26280000")));
        assert_eq!(workload.object_size.as_deref(), Some("1024B"));
        let (half, _) = project(&result, "s", Scale::PerS(50.0)).unwrap();
        assert_eq!(half.get.as_deref(), Some("118260000"));
        assert_eq!(project(&result, "t", Scale::Times(1.0)), Err(ProjectError::Nothing("t".into())));
        assert_eq!(project(&result, "s", Scale::Times(1e6)).map(|_| ()), Ok(()));
    }

    #[test]
    fn scales_are_factors_or_rates() {
        assert_eq!(Scale::parse("10x"), Ok(Scale::Times(10.0)));
        assert_eq!(Scale::parse("500/s"), Ok(Scale::PerS(500.0)));
        for bad in ["0", "-1", "x", "fast", "1e9"] {
            assert!(Scale::parse(bad).is_err(), "{bad}");
        }
    }
}
