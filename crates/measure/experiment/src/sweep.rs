//! A sweep: phases, written once, that run at every combination of the values of one or two fields.

use std::collections::BTreeMap;

use super::Problem;
use super::field_specs::PopularitySpec;
use super::spec::{ConcurrencySpec, PhaseSpec, RateSpec, SizeSpec, SweepSpec};
use plimsoll_base::units::{format_rate, format_size, parse_rate, parse_size};

/// Maximum number of points in a sweep.
const MAX_POINTS: usize = 200;
/// Maximum number of fields in a sweep: the result is a matrix.
const MAX_FIELDS: usize = 2;
/// Fields that a sweep can combine, in the order in which phase names contain their values.
const FIELDS: [&str; 6] = ["size", "working_set", "part_size", "parts_in_flight", "concurrency", "rate"];

/// One value of a swept field.
#[derive(Debug, Clone, PartialEq)]
struct Value {
    field: &'static str,
    /// Value in the usual notation, such as `64 KiB`.
    text: String,
    /// Value in a phase name, such as `64KiB`.
    label: String,
    /// Value as written in the file.
    written: String,
}

/// Adds a field and its values, such as `size=1KiB,1MiB`, to a sweep.
///
/// # Errors
/// Describes the expected syntax.
pub fn parse_field(text: &str, sweep: &mut SweepSpec) -> Result<(), String> {
    let known = FIELDS.join(", ");
    let (field, values) = text
        .split_once('=')
        .ok_or_else(|| format!("write FIELD=VALUE,VALUE with one of the fields {known}"))?;
    let values: Vec<String> = values.split(',').map(|value| value.trim().to_string()).collect();
    let numbers = || -> Result<Vec<u64>, String> {
        let number =
            |v: &String| v.parse().map_err(|_| format!("{field}: '{v}' is not a number; write 1,8,64"));
        values.iter().map(number).collect()
    };
    let given = match field.replace('-', "_").as_str() {
        "size" => sweep.size.replace(values).is_some(),
        "working_set" => sweep.working_set.replace(values).is_some(),
        "part_size" => sweep.part_size.replace(values).is_some(),
        "parts_in_flight" => sweep.parts_in_flight.replace(numbers()?).is_some(),
        "concurrency" => sweep.concurrency.replace(numbers()?).is_some(),
        "rate" => sweep.rate.replace(values).is_some(),
        _ => return Err(format!("'{field}' cannot be swept; use one of {known}")),
    };
    if given { Err(format!("{field} is given twice; list all its values in one option")) } else { Ok(()) }
}

/// Returns the phases of a file, with each phase that has a sweep replaced by one phase per point, such as
/// `upload-8MiB-x4`. Consecutive phases with the same sweep are kept together at each point.
///
/// # Errors
/// If a sweep has no values, too many points or an invalid value, if its phase has no limit, if `objects` also sets a
/// swept field, or if a phase reads objects of another sweep.
pub fn expand(phases: &[PhaseSpec]) -> Result<Vec<PhaseSpec>, Problem> {
    let mut out = Vec::new();
    for group in phases.chunk_by(|a, b| a.sweep.is_some() && a.sweep == b.sweep) {
        for point in points(&group[0])? {
            for phase in group {
                out.push(at(phase, &point, phases)?);
            }
        }
    }
    Ok(out)
}

fn problem(phase: &PhaseSpec, field: &str, text: String) -> Problem {
    let path = format!("phase.{}.{field}", phase.name);
    Problem::new(&path, format!("phase '{}': {text}", phase.name))
}

/// Returns the points of a phase's sweep: every combination of the values. One empty point without a sweep.
fn points(phase: &PhaseSpec) -> Result<Vec<Vec<Value>>, Problem> {
    let Some(sweep) = &phase.sweep else { return Ok(vec![Vec::new()]) };
    let wrong = |text: String| problem(phase, "sweep", text);
    let fields = fields(sweep).map_err(wrong)?;
    if fields.is_empty() || fields.iter().any(Vec::is_empty) {
        let text = "a sweep needs values for its fields, such as sweep = { size = [\"1 KiB\", \"1 MiB\"], concurrency = [1, 8] }";
        return Err(wrong(text.into()));
    }
    if fields.len() > MAX_FIELDS {
        return Err(wrong(format!(
            "a sweep has at most {MAX_FIELDS} fields, because its result is a matrix"
        )));
    }
    if let Some(twice) = fields.iter().find_map(|values| first_repeated(values)) {
        return Err(wrong(format!("{} {} is listed twice", twice.field, twice.text)));
    }
    if fields.iter().map(Vec::len).product::<usize>() > MAX_POINTS {
        return Err(wrong(format!("the sweep has more than {MAX_POINTS} points; use fewer values")));
    }
    let mut points = vec![Vec::new()];
    for values in fields {
        let longer = |point: &Vec<Value>| {
            let point = point.clone();
            values
                .iter()
                .map(move |value| [&point[..], std::slice::from_ref(value)].concat())
                .collect::<Vec<_>>()
        };
        points = points.iter().flat_map(longer).collect();
    }
    Ok(points)
}

fn first_repeated(values: &[Value]) -> Option<&Value> {
    values.iter().enumerate().find(|(i, value)| values[..*i].contains(value)).map(|(_, value)| value)
}

/// Returns the values of each field that a sweep contains.
fn fields(sweep: &SweepSpec) -> Result<Vec<Vec<Value>>, String> {
    let sizes = |field: &'static str, values: &Option<Vec<String>>| {
        let value = |written: &String| {
            let bytes = parse_size(written).map_err(|e| format!("sweep.{field}: {e}"))?;
            let text = format_size(bytes);
            Ok(Value { field, label: text.replace(' ', ""), text, written: written.clone() })
        };
        values.as_ref().map(|values| values.iter().map(value).collect::<Result<Vec<_>, String>>()).transpose()
    };
    let numbers = |field: &'static str, values: &Option<Vec<u64>>| {
        let value =
            |n: &u64| Value { field, label: format!("x{n}"), text: n.to_string(), written: n.to_string() };
        values.as_ref().map(|values| values.iter().map(value).collect::<Vec<_>>())
    };
    let rate = |written: &String| {
        let text = format_rate(parse_rate(written).map_err(|e| format!("sweep.rate: {e}"))?);
        let label = text.replace('/', "-per-");
        Ok(Value { field: "rate", label, text, written: written.clone() })
    };
    let rates = sweep.rate.as_ref().map(|values| values.iter().map(rate).collect::<Result<Vec<_>, String>>());
    let all = [
        sizes("size", &sweep.size)?,
        sizes("working_set", &sweep.working_set)?,
        sizes("part_size", &sweep.part_size)?,
        numbers("parts_in_flight", &sweep.parts_in_flight),
        numbers("concurrency", &sweep.concurrency),
        rates.transpose()?,
    ];
    Ok(all.into_iter().flatten().collect())
}

/// Returns a phase at one point of its sweep. Without a sweep, returns the phase as it is.
fn at(phase: &PhaseSpec, point: &[Value], phases: &[PhaseSpec]) -> Result<PhaseSpec, Problem> {
    let mut out = phase.clone();
    out.objects.from = source(phase, point, phases)?;
    if phase.sweep.is_none() {
        return Ok(out);
    }
    let prepares = phase.role.as_deref() == Some("prepare");
    // A warm-up phase without a limit may read each object once, which the resolution decides.
    let is_warmup = phase.role.as_deref() == Some("warmup") && phase.objects.popularity.is_some();
    if phase.stop_after.is_none() && phase.duration.is_none() && !prepares && !is_warmup {
        let text = "a sweep needs a limit per point; add stop_after = 3 or duration = \"10s\"";
        return Err(problem(phase, "stop_after", text.into()));
    }
    out.name = named(&phase.name, point);
    out.sweep = None;
    out.sweep_of = Some(phase.name.clone());
    out.sweep_at = point.iter().map(|value| (value.field.to_string(), value.text.clone())).collect();
    let writes = prepares || phase.operations.contains_key("put");
    let is_measured = phase.role.as_deref().is_none_or(|role| role == "measure");
    let is_uniform = match &phase.objects.popularity {
        None => true,
        Some(PopularitySpec::Name(name)) => name == "uniform",
        Some(_) => false,
    };
    for value in point {
        let number = || value.written.parse().ok();
        let twice = match value.field {
            "size" if writes => out.objects.size.replace(SizeSpec::Fixed(value.written.clone())).is_some(),
            "size" if phase.objects.from.is_none() => {
                let text = "the phase reads existing objects, whose sizes are given; sweep another field";
                return Err(problem(phase, "sweep", text.into()));
            }
            "working_set" if writes || !phase.operations.contains_key("get") => {
                let text =
                    "working_set is about objects to read; sweep it in phases that get them and do not write";
                return Err(problem(phase, "sweep", text.into()));
            }
            "working_set" if is_measured && !is_uniform => {
                let text = "the size of a cache follows from uniform reads; remove objects.popularity";
                return Err(problem(phase, "objects.popularity", text.into()));
            }
            "working_set" => out.objects.working_set.replace(value.written.clone()).is_some(),
            "part_size" => out.objects.part_size.replace(value.written.clone()).is_some(),
            "parts_in_flight" => {
                let before = std::mem::replace(&mut out.objects.parts_in_flight, number());
                before.is_some()
            }
            "concurrency" => {
                let before = std::mem::replace(&mut out.concurrency, number().map(ConcurrencySpec::Fixed));
                before.is_some()
            }
            "rate" => out.rate.replace(RateSpec::Fixed(value.written.clone())).is_some(),
            _ => false,
        };
        if twice {
            let path = if ["concurrency", "rate"].contains(&value.field) { value.field } else { "objects" };
            let text = format!("the sweep sets {}; do not set it elsewhere too", value.field);
            return Err(problem(phase, path, text));
        }
    }
    Ok(out)
}

fn named(name: &str, point: &[Value]) -> String {
    let labels: Vec<&str> = point.iter().map(|value| value.label.as_str()).collect();
    [&[name][..], &labels].concat().join("-")
}

/// Returns the name of the phase whose objects a phase reads: that at the same point, if that phase has a sweep.
fn source(phase: &PhaseSpec, point: &[Value], phases: &[PhaseSpec]) -> Result<Option<String>, Problem> {
    let Some(from) = &phase.objects.from else { return Ok(None) };
    let swept = |values: &[Value]| values.iter().any(|value| value.field == "size");
    let Some(sweep) = phases.iter().find(|p| p.name == *from).and_then(|p| p.sweep.as_ref()) else {
        return match swept(point) {
            true => Err(problem(
                phase,
                "sweep",
                format!(
                    "the phase reads the objects of '{from}', which has no sweep; add the sizes to its sweep too"
                ),
            )),
            false => Ok(Some(from.clone())),
        };
    };
    let own: BTreeMap<&str, &Value> = point.iter().map(|value| (value.field, value)).collect();
    let values = fields(sweep).map_err(|text| problem(phase, "sweep", text))?;
    let same = values.iter().map(|values| {
        let value = own.get(values.first()?.field)?;
        values.iter().find(|other| other.text == value.text).cloned()
    });
    let same: Option<Vec<Value>> = same.collect();
    let same = same.ok_or_else(|| {
        let text =
            format!("the phase reads the objects of '{from}', which has a sweep; give both the same values");
        problem(phase, "sweep", text)
    })?;
    Ok(Some(named(from, &same)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_the_command_line_are_parsed_or_refused() {
        let mut sweep = SweepSpec::default();
        parse_field("part-size=8MiB, 64MiB", &mut sweep).unwrap();
        parse_field("parts_in_flight=1,8", &mut sweep).unwrap();
        assert_eq!(sweep.part_size.as_deref(), Some(&["8MiB".to_string(), "64MiB".to_string()][..]));
        assert_eq!(sweep.parts_in_flight.as_deref(), Some(&[1, 8][..]));
        for (text, expected) in [
            ("parts_in_flight=2", "given twice"),
            ("concurrency=1,two", "'two' is not a number"),
            ("colour=red", "cannot be swept"),
            ("size", "write FIELD=VALUE"),
        ] {
            let message = parse_field(text, &mut sweep).unwrap_err();
            assert!(message.contains(expected), "{text}: {message}");
        }
    }
}
