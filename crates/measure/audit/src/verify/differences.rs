//! Comparison of two results, field by field.

use serde_json::Value;

use plimsoll_judge::summary::result::RunResult;

/// Longest value that is shown, in characters; the others are histograms.
const SHOWN: usize = 60;

/// Returns each field whose value differs between a stated and a computed result, with both values.
pub fn between(stated: &RunResult, computed: &RunResult) -> Vec<String> {
    let mut out = Vec::new();
    let tree = |result: &RunResult| serde_json::to_value(result).unwrap_or_default();
    compare("", &tree(stated), &tree(computed), &mut out);
    out
}

fn compare(path: &str, stated: &Value, computed: &Value, out: &mut Vec<String>) {
    match (stated, computed) {
        (Value::Object(a), Value::Object(b)) => {
            for name in a.keys().chain(b.keys().filter(|name| !a.contains_key(*name))) {
                let (one, other) = (a.get(name).unwrap_or(&Value::Null), b.get(name).unwrap_or(&Value::Null));
                let inner = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                compare(&inner, one, other, out);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (number, (one, other)) in a.iter().zip(b).enumerate() {
                compare(&format!("{path}[{number}]"), one, other, out);
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            out.push(format!("result.json has {} entries in {path}, and the log gives {}", a.len(), b.len()));
        }
        _ if stated == computed || is_rounding(stated, computed) => {}
        _ => out.push(difference(path, &stated.to_string(), &computed.to_string())),
    }
}

/// Returns true for two floating-point numbers that differ only by the order in which their parts were added.
fn is_rounding(stated: &Value, computed: &Value) -> bool {
    const RELATIVE: f64 = 1e-12;
    match (stated, computed) {
        (Value::Number(a), Value::Number(b)) if a.is_f64() && b.is_f64() => {
            let (a, b) = (a.as_f64().unwrap_or(f64::NAN), b.as_f64().unwrap_or(f64::NAN));
            (a - b).abs() <= RELATIVE * a.abs().max(b.abs())
        }
        _ => false,
    }
}

fn difference(path: &str, stated: &str, computed: &str) -> String {
    if stated.len() > SHOWN || computed.len() > SHOWN {
        return format!("{path} in result.json differs from the log");
    }
    format!("{path} is {stated} in result.json, and {computed} if it is computed again")
}

/// Returns the number of values in a tree.
pub fn count(value: &Value) -> usize {
    match value {
        Value::Object(fields) => fields.values().map(count).sum(),
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Null => 0,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_judge::summary::result::Window;

    #[test]
    fn a_difference_names_its_field_and_both_values() {
        let window = |operations, p99| {
            let mut window = Window { operations, ..Window::default() };
            window.service_ms.p99 = p99;
            window
        };
        let of = |windows| RunResult { windows, ..RunResult::default() };
        let stated = of(vec![window(7, Some(1.5)), window(8, None)]);
        assert_eq!(between(&stated, &stated.clone()), [""; 0]);
        // The sums of a log are added in another order than those of a run.
        let rounded = of(vec![window(7, Some(1.5000000000000002)), window(8, None)]);
        assert_eq!(between(&stated, &rounded), [""; 0]);
        let computed = of(vec![window(7, Some(1.500000001)), window(9, Some(2.0))]);
        assert_eq!(
            between(&stated, &computed),
            [
                "windows[0].service_ms.p99 is 1.5 in result.json, and 1.500000001 if it is computed again",
                "windows[1].operations is 8 in result.json, and 9 if it is computed again",
                "windows[1].service_ms.p99 is null in result.json, and 2.0 if it is computed again",
            ]
        );
        assert_eq!(
            between(&stated, &of(Vec::new())),
            ["result.json has 2 entries in windows, and the log gives 0"]
        );
    }
}
