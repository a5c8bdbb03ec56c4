//! Output of go-ycsb: lines such as `READ - Takes(s): 84.2, Count: 99402, OPS: 1181.0, Avg(us): 3625, 99th(us): 4147`
//! after `Run finished`, or the same as JSON. Failed operations are lines of their own, `READ_ERROR`.

use std::collections::BTreeMap;

use super::super::facts::Facts;
use super::{closed, undisclosed};

/// Line that separates intermediate figures from the final ones.
const END: &str = "Run finished, takes ";
/// Suffix of the names of failed operations.
const ERROR: &str = "_ERROR";

/// Columns of a line, by name.
type Columns = BTreeMap<String, String>;

/// Reads the final figures.
///
/// # Errors
/// A message if there are none.
pub fn facts(text: &str) -> Result<Facts, String> {
    let (before, end) = text.rsplit_once(END).ok_or("the run has not finished")?;
    let rows: Vec<(String, Columns)> = end.lines().skip(1).flat_map(rows).collect();
    let count = |columns: &Columns| columns.get("Count").and_then(|n| n.parse::<u64>().ok());
    let errors: BTreeMap<&str, u64> = rows
        .iter()
        .filter_map(|(name, columns)| Some((name.strip_suffix(ERROR)?, count(columns)?)))
        .collect();
    let mut measurements = Vec::new();
    for (name, columns) in rows.iter().filter(|(name, _)| !name.ends_with(ERROR) && name != "TOTAL") {
        let succeeded = count(columns).ok_or_else(|| format!("{name} has no Count"))?;
        let failed = errors.get(name.as_str()).copied().unwrap_or(0);
        let mut one = closed(name);
        one.operations = Some(succeeded + failed);
        one.failed = Some(failed);
        one.samples = Some(succeeded);
        one.measured_s = columns.get("Takes(s)").and_then(|s| s.parse().ok());
        one.values = columns.get("OPS").and_then(|s| s.parse().ok()).into_iter().collect();
        one.percentiles = columns.keys().filter_map(|name| share(name)).collect();
        one.has_times = true;
        measurements.push(one);
    }
    // If an operation always fails, go-ycsb prints only the line of its errors.
    for (name, failed) in errors.iter().filter(|(name, _)| !rows.iter().any(|(own, _)| own == *name)) {
        let mut one = closed(name);
        (one.operations, one.failed) = (Some(*failed), Some(*failed));
        measurements.push(one);
    }
    if measurements.is_empty() {
        return Err("no figures after 'Run finished'".into());
    }
    let warmup = before.lines().any(|line| {
        let value = line.strip_prefix("\"warmuptime\"=").unwrap_or_default().trim_matches('"');
        value.parse::<f64>().is_ok_and(|seconds| seconds > 0.0)
    });
    let has_properties = before.contains("\"workload\"=") || before.contains("\"recordcount\"=");
    Ok(Facts {
        tool: "go-ycsb".into(),
        measurements,
        has_warmup: has_properties.then_some(warmup),
        undisclosed: undisclosed(if has_properties {
            &["version of the tool"]
        } else {
            &["version of the tool", "experiment"]
        }),
        ..Facts::default()
    })
}

/// Returns the rows of a line: one for plain output, several for JSON.
fn rows(line: &str) -> Vec<(String, Columns)> {
    if line.starts_with('[') {
        let rows: Vec<Columns> = serde_json::from_str(line).unwrap_or_default();
        return rows.into_iter().filter_map(|row| Some((row.get("Operation")?.clone(), row))).collect();
    }
    let Some((name, rest)) = line.split_once(" - ").filter(|(_, rest)| rest.contains("Count: ")) else {
        return Vec::new();
    };
    let columns = rest.split(", ").filter_map(|part| part.split_once(": "));
    let columns = columns.map(|(name, value)| (name.trim().to_string(), value.trim().to_string())).collect();
    vec![(name.trim().to_string(), columns)]
}

/// Returns the share of a column such as `99.9th(us)`.
fn share(column: &str) -> Option<f64> {
    column.strip_suffix("th(us)")?.parse::<f64>().ok().map(|percent| percent / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "***************** properties *****************\n\"recordcount\"=\"1000\"\n\
        \"warmuptime\"=\"5\"\n**********************************************\n\
        READ   - Takes(s): 10.0, Count: 5, OPS: 0.5, Avg(us): 1, Min(us): 1, Max(us): 1, 99th(us): 1\n\
        Run finished, takes 1m24.17s\n\
        READ   - Takes(s): 84.2, Count: 99402, OPS: 1181.0, Avg(us): 3625, 50th(us): 3595, 99.9th(us): 14351\n\
        READ_ERROR - Takes(s): 83.9, Count: 598, OPS: 7.1, Avg(us): 9476, 99th(us): 12239\n\
        TOTAL  - Takes(s): 84.2, Count: 99402, OPS: 1181.0, Avg(us): 3625, 99th(us): 4147\n";

    #[test]
    fn final_figures_and_errors_are_read() {
        let facts = facts(OUTPUT).unwrap();
        let [read] = &facts.measurements[..] else { panic!("{facts:?}") };
        assert_eq!((read.operations, read.failed, read.samples), (Some(100_000), Some(598), Some(99_402)));
        assert_eq!((read.measured_s, &read.values[..]), (Some(84.2), &[1181.0][..]));
        assert!((read.percentiles[1] - 0.999).abs() < 1e-9 && facts.has_warmup == Some(true), "{facts:?}");
    }

    #[test]
    fn json_output_is_read_and_unfinished_runs_are_refused() {
        let row = "[{\"99th(us)\":\"4147\",\"Count\":\"100\",\"OPS\":\"10.0\",\"Operation\":\"READ\",\"Takes(s)\":\"10.0\"}]";
        let facts = facts(&format!("Run finished, takes 10s\n{row}\n")).unwrap();
        assert_eq!(facts.measurements[0].operations, Some(100));
        let failing =
            super::facts("Run finished, takes 10s\nREAD_ERROR - Takes(s): 1, Count: 9, OPS: 9.0\n").unwrap();
        assert_eq!((failing.measurements[0].failed, failing.measurements[0].reads), (Some(9), true));
        assert!(super::facts("READ - Takes(s): 1, Count: 1").is_err());
        assert!(super::facts("Run finished, takes 10s\n").is_err());
    }
}
