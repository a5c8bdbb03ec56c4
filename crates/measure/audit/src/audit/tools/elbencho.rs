//! Result file of elbencho (`--csvfile`): a row for each phase, with columns by name. Figures of the slowest thread are
//! `[last]`. There are neither percentiles nor counts of failures.

use super::super::facts::Facts;
use super::{closed, undisclosed};

/// Reads the rows.
///
/// # Errors
/// A message if there are none, or a row has another number of cells than the header.
pub fn facts(text: &str) -> Result<Facts, String> {
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text.as_bytes());
    let header = reader.headers().map_err(|e| e.to_string())?.clone();
    let place = |name: &str| header.iter().position(|own| own.trim() == name);
    let operation = place("operation").ok_or("there is no column 'operation'")?;
    let mut measurements = Vec::new();
    let mut has_version = false;
    for row in reader.records() {
        let row = row.map_err(|e| e.to_string())?;
        let cell = |name: &str| place(name).and_then(|at| row.get(at)).filter(|cell| !cell.is_empty());
        let number = |name: &str| cell(name).and_then(|cell| cell.parse::<f64>().ok());
        let Some(name) = row.get(operation).filter(|name| !name.is_empty()) else { continue };
        if ["MKDIRS", "RMDIRS", "SYNC", "DROPCACHE"].contains(&name) {
            continue;
        }
        has_version |= cell("version").is_some();
        let mut one = closed(name);
        one.measured_s = number("time ms [last]").map(|ms| ms / 1e3);
        one.operations = number("IOPS [last]")
            .zip(one.measured_s)
            .map(|(rate, s)| rate * s)
            .or(number("entries [last]"))
            .map(|count| count as u64);
        one.values = number("IOPS [last]").or(number("entries/s [last]")).into_iter().collect();
        one.has_times = cell("IO lat us [avg]").or(cell("Ent lat us [avg]")).is_some();
        if one.operations.is_none() && one.measured_s.is_none() {
            return Err(format!("row '{name}' has no figures"));
        }
        measurements.push(one);
    }
    if measurements.is_empty() {
        return Err("there are no rows".into());
    }
    Ok(Facts {
        tool: "elbencho".into(),
        measurements,
        undisclosed: undisclosed(if has_version { &[] } else { &["version of the tool", "command"] }),
        ..Facts::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_by_the_names_of_their_columns() {
        let text = "ISO date,label,operation,time ms [first],time ms [last],IOPS [last],Ent lat us [avg],IO lat us [avg]\n\
                    2026-05-22T16:09:38,,MKDIRS,2,5,,1068,\n2026-05-22T16:09:38,,READ,2134,2784,2941,609112,9383\n";
        let facts = facts(text).unwrap();
        let [read] = &facts.measurements[..] else { panic!("{facts:?}") };
        assert!(read.reads && read.has_times && read.percentiles.is_empty() && read.failed.is_none());
        assert_eq!((read.measured_s, &read.values[..]), (Some(2.784), &[2941.0][..]));
        assert!(super::facts("ISO date,operation\n").is_err());
    }
}
