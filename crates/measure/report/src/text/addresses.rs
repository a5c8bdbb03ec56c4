//! Operations by the address to which they were sent, as a table.

use super::percentile::cell;
use plimsoll_base::units::format_count;
use plimsoll_document::Table;
use plimsoll_judge::summary::merge::overall;
use plimsoll_judge::summary::result::{AddressFigures, RunResult, Window};
use plimsoll_workload::schedule::Role;

fn row(window: &Window, figures: &AddressFigures) -> [String; 9] {
    let all: u64 = window.addresses.iter().map(AddressFigures::operations).sum();
    let cell = |name| cell(&figures.service_ms, name);
    [
        window.place(),
        figures.address.clone(),
        format!("{:.1}%", 100.0 * figures.operations() as f64 / all.max(1) as f64),
        format_count(figures.service_ms.n),
        format_count(figures.failed),
        format_count(figures.failed_attempts.max(figures.failed)),
        cell("p50"),
        cell("p99"),
        cell("max"),
    ]
}

/// Returns the operations of one store by address; `None` if each measured phase used one address.
pub fn table(result: &RunResult, store: &str) -> Option<Table> {
    let own =
        |w: &&Window| w.store == store && w.role == Role::Measure && w.step.is_none() && w.sweep.is_none();
    let merged = overall(&result.windows.iter().filter(own).cloned().collect::<Vec<_>>());
    let columns = [
        "operation",
        "address",
        "share#",
        "successful#",
        "failed#",
        "failed attempts#",
        "p50 ms#",
        "p99 ms#",
        "max ms#",
    ];
    let mut table = Table::new("operations by address of the store (service time)", &columns);
    for window in &merged {
        window.addresses.iter().for_each(|figures| table.row(row(window, figures)));
    }
    (!table.rows.is_empty()).then_some(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_judge::summary::result::Percentiles;

    #[test]
    fn each_address_has_a_row_with_its_share() {
        let of = |address: &str, n, failed| AddressFigures {
            address: address.into(),
            failed,
            failed_attempts: 0,
            service_ms: Percentiles { n, p50: Some(1.5), ..Percentiles::default() },
        };
        let window = Window {
            store: "s3://b".into(),
            phase: "get".into(),
            operation: plimsoll_workload::OperationKind::Get,
            role: Role::Measure,
            addresses: vec![of("10.0.0.1:9000", 750, 0), of("10.0.0.2:9000", 240, 10)],
            ..Window::default()
        };
        let result = RunResult { windows: vec![window], ..RunResult::default() };
        let table = table(&result, "s3://b").unwrap();
        assert_eq!(table.rows[0][..5], ["get", "10.0.0.1:9000", "75.0%", "750", "0"]);
        assert_eq!(table.rows[1][..5], ["get", "10.0.0.2:9000", "25.0%", "240", "10"]);
        assert!(super::table(&RunResult::default(), "s3://b").is_none());
    }
}
