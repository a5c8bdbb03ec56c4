//! Latencies by the size of the objects, as a table.

use super::percentile::cell;
use plimsoll_base::units::format_count;
use plimsoll_document::Table;
use plimsoll_judge::summary::merge::overall;
use plimsoll_judge::summary::result::{RunResult, SizeClassFigures, Window};
use plimsoll_workload::schedule::Role;

fn row(window: &Window, class: &SizeClassFigures) -> [String; 7] {
    let cell = |name| cell(&class.service_ms, name);
    let count = format_count(class.service_ms.n);
    [window.place(), class.range().to_string(), count, cell("p50"), cell("p90"), cell("p99"), cell("max")]
}

/// Returns the latencies of one store by size; `None` if no measured phase has objects of several classes.
pub fn table(result: &RunResult, store: &str) -> Option<Table> {
    let own =
        |w: &&Window| w.store == store && w.role == Role::Measure && w.step.is_none() && w.sweep.is_none();
    let merged = overall(&result.windows.iter().filter(own).cloned().collect::<Vec<_>>());
    let columns = ["operation", "size", "successful#", "p50 ms#", "p90 ms#", "p99 ms#", "max ms#"];
    let mut table = Table::new("service time by size of the object", &columns);
    for window in merged.iter().filter(|window| window.size_classes.len() > 1) {
        window.size_classes.iter().for_each(|class| table.row(row(window, class)));
    }
    (!table.rows.is_empty()).then_some(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_judge::summary::result::Percentiles;

    #[test]
    fn each_class_has_a_row_unless_there_is_only_one() {
        let class = |from_bytes, to_bytes, n| SizeClassFigures {
            from_bytes,
            to_bytes,
            service_ms: Percentiles { n, p50: Some(1.5), ..Percentiles::default() },
        };
        let window = |size_classes| Window {
            store: "s3://b".into(),
            phase: "get".into(),
            operation: plimsoll_workload::OperationKind::Get,
            role: Role::Measure,
            size_classes,
            ..Window::default()
        };
        let classes = vec![class(0, Some(1024), 3), class(1024, Some(4096), 2000), class(65_536, None, 1)];
        let result = |size_classes| RunResult { windows: vec![window(size_classes)], ..RunResult::default() };
        let table = table(&result(classes.clone()), "s3://b").unwrap();
        let shown: Vec<_> = table.rows.iter().map(|row| (row[1].as_str(), row[2].as_str())).collect();
        assert_eq!(shown, [("below 1 KiB", "3"), ("1 KiB to 4 KiB", "2,000"), ("from 64 KiB", "1")]);
        assert_eq!(table.rows[1][3..], ["1.50", "-", "-", "-"]);
        assert!(super::table(&result(classes[..1].to_vec()), "s3://b").is_none());
    }
}
