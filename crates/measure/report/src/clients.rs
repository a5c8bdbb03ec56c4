//! Comparison of the clients of `plimsoll run clients`: rates, times, CPU time and requests, of each operation.

use plimsoll_base::median::median;
use plimsoll_base::units::{format_bytes, format_count};
use plimsoll_document::Table;
use plimsoll_judge::summary::result::ClientRound;

/// Rounds of one client with one operation.
struct Group<'a> {
    client: &'a str,
    rounds: Vec<&'a ClientRound>,
}

impl Group<'_> {
    fn per_s(&self) -> f64 {
        median(self.rounds.iter().map(|round| round.operations_per_s())).unwrap_or(0.0)
    }

    /// Returns the ratios of the rate to that of another client in the same round.
    fn ratios(&self, base: &Group<'_>) -> Vec<f64> {
        let of = |round: &&ClientRound| {
            let same = base.rounds.iter().find(|other| other.round == round.round)?;
            Some(round.operations_per_s() / same.operations_per_s())
        };
        self.rounds.iter().filter_map(of).collect()
    }
}

fn groups<'a>(rounds: &'a [ClientRound], operation: &str) -> Vec<Group<'a>> {
    let mut out: Vec<Group<'a>> = Vec::new();
    for round in rounds.iter().filter(|round| round.operation == operation) {
        match out.iter_mut().find(|group| group.client == round.client) {
            Some(group) => group.rounds.push(round),
            None => out.push(Group { client: &round.client, rounds: vec![round] }),
        }
    }
    out
}

fn operations(rounds: &[ClientRound]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for round in rounds {
        if !names.contains(&round.operation.as_str()) {
            names.push(&round.operation);
        }
    }
    names
}

/// Returns a sentence for each operation: the client with the highest rate, and the next one, with the lowest and
/// highest ratio of both over the rounds.
pub fn winners(rounds: &[ClientRound]) -> Vec<String> {
    let sentence = |operation: &str| {
        let mut groups = groups(rounds, operation);
        groups.sort_by(|a, b| b.per_s().total_cmp(&a.per_s()));
        let [first, second, ..] = groups.as_slice() else { return None };
        let ratios = first.ratios(second);
        let (low, high) = (
            ratios.iter().copied().fold(f64::INFINITY, f64::min),
            ratios.iter().copied().fold(0.0, f64::max),
        );
        let [a, b] = [first, second].map(|group| format_count(group.per_s().round() as u64));
        if first.rounds.len() == 1 {
            let names = [first.client, second.client];
            return Some(format!(
                "{operation}: in the only round, {} had {a} operations/s, and {} {b}",
                names[0], names[1]
            ));
        }
        Some(match low > 1.0 {
            true => format!(
                "{operation}: {} is the fastest with {a} operations/s, {low:.2} to {high:.2} times as many as {} ({b})",
                first.client, second.client
            ),
            false => format!(
                "{operation}: {} and {} are the fastest with {a} and {b} operations/s; neither was ahead in every round",
                first.client, second.client
            ),
        })
    };
    operations(rounds).into_iter().filter_map(sentence).collect()
}

fn cell(value: Option<f64>, digits: usize) -> String {
    value.map_or("-".into(), |value| format!("{value:.digits$}"))
}

/// Returns a table of the clients for each operation. Ratios are those to the first client.
pub fn tables(rounds: &[ClientRound]) -> Vec<Table> {
    operations(rounds).into_iter().map(|operation| table(rounds, operation)).collect()
}

fn table(rounds: &[ClientRound], operation: &str) -> Table {
    let groups = groups(rounds, operation);
    let base = groups[0].client;
    let first = groups[0].rounds[0];
    let head = format!(
        "{operation}: {} objects of {}, {} in flight; medians of {} {}, in turns; CPU time and requests per operation",
        format_count(first.operations),
        format_bytes(first.bytes / first.operations.max(1)),
        format_count(first.concurrency),
        groups[0].rounds.len(),
        if groups[0].rounds.len() == 1 { "round" } else { "rounds" },
    );
    let ratio = format!("of {base}#");
    let columns =
        ["client", "version", "per s#", ratio.as_str(), "p50 ms#", "p99 ms#", "CPU us#", "requests#"];
    let mut table = Table::new(head, &columns);
    for group in &groups {
        let ratios = group.ratios(&groups[0]);
        let of =
            |value: fn(&ClientRound) -> Option<f64>| median(group.rounds.iter().filter_map(|r| value(r)));
        table.row([
            group.client.to_string(),
            group.rounds[0].version.clone(),
            format_count(group.per_s().round() as u64),
            cell(median(ratios), 2),
            cell(of(|round| round.p50_ms), 2),
            cell(of(|round| round.p99_ms), 2),
            cell(of(|round| Some(round.cpu_s * 1e6 / round.operations.max(1) as f64)), 0),
            cell(of(|round| round.requests_per_operation()), 3),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(client: &str, round: u32, wall_s: f64) -> ClientRound {
        ClientRound {
            client: client.into(),
            operation: "get".into(),
            round,
            operations: 1000,
            bytes: 1000 * 1024,
            concurrency: 8,
            wall_s,
            cpu_s: 0.1,
            requests: [("GetObject".to_string(), 1000), ("ListObjectsV2".to_string(), 1)].into(),
            ..ClientRound::default()
        }
    }

    #[test]
    fn the_answer_names_the_fastest_only_if_it_was_ahead_in_every_round() {
        let clear = [round("a", 0, 1.0), round("b", 0, 2.0), round("a", 1, 1.0), round("b", 1, 3.0)];
        assert_eq!(
            winners(&clear),
            ["get: a is the fastest with 1,000 operations/s, 2.00 to 3.00 times as many as b (417)"]
        );
        let mixed = [round("a", 0, 1.0), round("b", 0, 2.0), round("a", 1, 1.0), round("b", 1, 0.9)];
        assert!(winners(&mixed)[0].contains("neither was ahead in every round"), "{:?}", winners(&mixed));
        assert!(winners(&clear[..1]).is_empty());
    }

    #[test]
    fn rates_are_medians_and_ratios_are_those_of_the_same_round() {
        let rounds = [round("a", 0, 1.0), round("b", 0, 2.0), round("a", 1, 2.0), round("b", 1, 4.0)];
        let table = &tables(&rounds)[0];
        assert_eq!(
            table.head,
            "get: 1,000 objects of 1 KiB, 8 in flight; medians of 2 rounds, in turns; CPU time and requests per operation"
        );
        assert_eq!(table.rows[1][2..], ["375", "0.50", "-", "-", "100", "1.001"]);
    }
}
