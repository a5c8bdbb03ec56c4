//! Document that compares a trace with the experiment that was fitted to it.

use serde_json::{Value, json};

use plimsoll_document::{Document, Table};
use plimsoll_experiment::fit::{Comparison, Fit, FittedNumber};

/// Smallest probability of a difference at which a property of the experiment counts as equal to that of the trace.
pub const LEVEL: f64 = 0.01;
/// Quantiles that the tables show.
const QUANTILES: [(&str, f64); 6] =
    [("min#", 0.0), ("p10#", 0.1), ("p50#", 0.5), ("p90#", 0.9), ("p99#", 0.99), ("max#", 1.0)];

/// Returns a quantile of ascending values, of rank `ceil(q n)`.
fn quantile(values: &[f64], q: f64) -> f64 {
    let rank = (q * values.len() as f64).ceil() as usize;
    values.get(rank.max(1) - 1).copied().unwrap_or(f64::NAN)
}

/// Formats a number with four significant digits.
fn short(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".into() } else { "-".into() };
    }
    let digits = (3 - value.abs().log10().floor() as i32).clamp(0, 9) as usize;
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}

fn is_equal(comparison: &Comparison) -> bool {
    comparison.test.is_none_or(|test| test.p >= LEVEL)
}

/// Smallest number of requests whose experiment is judged. With fewer, even two distributions that differ by half have
/// a probability above [`LEVEL`].
const MIN_REQUESTS: usize = 25;

/// Returns the names as a list in a sentence.
fn list(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_string(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

fn answer(fit: &Fit) -> String {
    let gaps = fit.comparisons.iter().find(|c| c.unit == "seconds").map_or(0, |c| c.trace.len());
    if gaps + 1 < MIN_REQUESTS {
        return format!(
            "The logs have fewer than {MIN_REQUESTS} requests, too few to find a difference between them and the experiment."
        );
    }
    let differ: Vec<&str> = fit.comparisons.iter().filter(|c| !is_equal(c)).map(|c| c.name).collect();
    let missed: Vec<&str> = differ.into_iter().chain(fit.missed.iter().map(String::as_str)).collect();
    match missed.as_slice() {
        [] => {
            let (known, few): (Vec<&Comparison>, Vec<&Comparison>) =
                fit.comparisons.iter().partition(|comparison| comparison.trace.len() >= MIN_REQUESTS);
            let few: Vec<&str> = few.into_iter().map(|comparison| comparison.name).collect();
            let names: Vec<&str> =
                known.into_iter().map(|c| c.name).chain(fit.compared.iter().copied()).collect();
            let besides = match few.as_slice() {
                [] => String::new(),
                few => format!(" Too few values to compare: {}.", list(few)),
            };
            format!(
                "No difference between the experiment and the trace was found in {}.{besides}",
                list(&names)
            )
        }
        names => format!("The experiment differs from the trace in {}.", list(names)),
    }
}

fn distributions(comparisons: &[Comparison]) -> Table {
    let mut columns = vec!["property", "of", "count#"];
    columns.extend(QUANTILES.map(|(name, _)| name));
    columns.extend(["largest difference#", "p#"]);
    let mut table = Table::new("Distributions", &columns);
    for comparison in comparisons {
        for (of, values) in [("trace", &comparison.trace), ("experiment", &comparison.model)] {
            let is_first = of == "trace";
            let name =
                if is_first { format!("{}, {}", comparison.name, comparison.unit) } else { String::new() };
            let test = comparison.test.filter(|_| !is_first);
            let cells = [name, of.to_string(), values.len().to_string()].into_iter();
            let cells = cells.chain(QUANTILES.map(|(_, q)| short(quantile(values, q))));
            let of_test = [test.map(|t| format!("{:.4}", t.distance)), test.map(|t| format!("{:.3}", t.p))];
            table.row(cells.chain(of_test.map(Option::unwrap_or_default)));
        }
    }
    table
}

fn numbers(figures: &[FittedNumber]) -> Table {
    let mut table = Table::new("Numbers", &["figure", "trace#", "experiment#"]);
    for figure in figures {
        table.row([figure.name.clone(), short(figure.trace), short(figure.model)]);
    }
    table
}

/// Returns the curves of a property for the chart: at most 200 quantiles of both.
fn curves(comparison: &Comparison) -> Value {
    let points = |values: &[f64]| {
        let step = (values.len() as f64 / 200.0).max(1.0);
        let ranks = (0..).map(|i| (f64::from(i) * step) as usize).take_while(|rank| *rank < values.len());
        let ranks = ranks.chain(values.len().checked_sub(1));
        ranks.map(|rank| json!([values[rank], (rank + 1) as f64 / values.len() as f64])).collect::<Vec<_>>()
    };
    let positive = comparison.trace.iter().chain(&comparison.model).all(|value| *value > 0.0);
    json!({
        "name": comparison.name,
        "unit": comparison.unit,
        "log": positive,
        "trace": points(&comparison.trace),
        "model": points(&comparison.model),
    })
}

/// Returns the document about a fit to logs with these names. `remarks` are those about the logs.
pub fn document(logs: &str, fit: &Fit, remarks: &[String]) -> Document {
    let mut notes: Vec<String> = remarks.iter().chain(&fit.notes).cloned().collect();
    notes.push(format!(
        "p is the probability of a larger difference if both had the same distribution (two-sample test of Kolmogorov and \
         Smirnov); below {LEVEL}, they differ"
    ));
    notes.push("operations do not depend on the time, the size or the operation before".into());
    let mut figures = Table::new("", &["figure", "trace#", "experiment#"]);
    for figure in &fit.figures {
        figures.row([figure.name.clone(), figure.trace.to_string(), figure.model.to_string()]);
    }
    for comparison in &fit.comparisons {
        for (name, q) in QUANTILES {
            let name = format!("{}, {}, {}", comparison.name, comparison.unit, name.trim_end_matches('#'));
            let both = [&comparison.trace, &comparison.model].map(|values| quantile(values, q).to_string());
            figures.row([name].into_iter().chain(both));
        }
    }
    Document {
        links: Vec::new(),
        title: "An experiment fitted to a trace".into(),
        what: vec![logs.to_string()],
        answer: answer(fit),
        premise: String::new(),
        warnings: Vec::new(),
        tables: vec![distributions(&fit.comparisons), numbers(&fit.figures)],
        notes,
        figures,
        charts: json!({ "curves": fit.comparisons.iter().map(curves).collect::<Vec<_>>() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_digits() {
        for (value, text) in
            [(0.0, "0"), (1234.56, "1235"), (0.001_234_56, "0.001235"), (12.0, "12"), (100.0, "100")]
        {
            assert_eq!(short(value), text);
        }
        assert_eq!(quantile(&[1.0, 2.0, 3.0, 4.0], 0.5), 2.0);
    }
}
