//! Comparison of the clients of `plimsoll run clients`: rates, times, CPU time and requests, of each operation.

use plimsoll_base::median::median;
use plimsoll_base::units::{format_bytes, format_count};
use plimsoll_document::Table;
use plimsoll_judge::summary::result::ClientRound;
use plimsoll_judge::summary::student::t_quantile;

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

/// Share of the time of a round above which pauses of the machine disturb it.
const DISTURBED_SHARE: f64 = 0.05;

/// Returns the mean of the ratios of all rounds and its 95% interval; `None` if there is only one round.
fn interval(ratios: &[f64]) -> Option<(f64, f64, f64)> {
    let n = ratios.len() as f64;
    if ratios.len() < 2 {
        return None;
    }
    let mean = ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / n;
    let variance = ratios.iter().map(|ratio| (ratio.ln() - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let reach = t_quantile(n - 1.0) * (variance / n).sqrt();
    Some((mean.exp(), (mean - reach).exp(), (mean + reach).exp()))
}

/// Returns a sentence for each operation: the client with the highest rate, and how much faster than the next one it
/// is, with the interval over the rounds.
pub fn winners(rounds: &[ClientRound]) -> Vec<String> {
    let sentence = |operation: &str| {
        let mut groups = groups(rounds, operation);
        groups.sort_by(|a, b| b.per_s().total_cmp(&a.per_s()));
        let [first, second, ..] = groups.as_slice() else { return None };
        let [a, b] = [first, second].map(|group| format_count(group.per_s().round() as u64));
        let names = [first.client, second.client];
        let count = first.rounds.len();
        let said = match interval(&first.ratios(second)) {
            None => format!(
                "{operation}: in the only round, {} had {a} operations/s, and {} {b}",
                names[0], names[1]
            ),
            Some((ratio, low, high)) if low > 1.0 => format!(
                "{operation}: {} is the fastest with {a} operations/s, {ratio:.2}x as many as {} ({b}; 95% over \
                 {count} rounds: {low:.2}-{high:.2})",
                names[0], names[1]
            ),
            Some((_, low, high)) => format!(
                "{operation}: {} and {} are the fastest with {a} and {b} operations/s; no difference shown in {count} \
                 rounds (95%: {low:.2}x-{high:.2}x)",
                names[0], names[1]
            ),
        };
        Some(said + &disturbed(first, second))
    };
    operations(rounds).into_iter().filter_map(sentence).collect()
}

/// Returns the remark that the machine paused during rounds of two clients; empty if it did not.
fn disturbed(first: &Group<'_>, second: &Group<'_>) -> String {
    let both = || first.rounds.iter().chain(&second.rounds);
    let paused = both().filter(|round| round.paused_share > DISTURBED_SHARE).count();
    if paused == 0 {
        return String::new();
    }
    let most = both().map(|round| round.paused_share).fold(0.0, f64::max);
    format!(
        "; the machine paused during {paused} of these {} rounds (up to {:.0}% of the time): repeat on a quiet one",
        both().count(),
        100.0 * most
    )
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
    fn the_answer_names_the_fastest_only_if_the_rounds_show_it() {
        let turns = |walls: &[f64]| -> Vec<ClientRound> {
            let turn = |(i, wall): (usize, &f64)| [round("a", i as u32, 1.0), round("b", i as u32, *wall)];
            walls.iter().enumerate().flat_map(turn).collect()
        };
        let mut clear = turns(&[2.0, 2.1, 2.2]);
        let said = "get: a is the fastest with 1,000 operations/s, 2.10x as many as b (476; 95% over 3 \
            rounds: 1.86-2.36)";
        assert_eq!(winners(&clear), [said]);
        let mixed = winners(&turns(&[2.0, 0.9, 1.5]));
        assert!(mixed[0].contains("no difference shown in 3 rounds (95%: 0."), "{mixed:?}");
        assert!(winners(&clear[..1]).is_empty());
        // Regression test: pauses of the machine changed the ratio by half, without a remark.
        clear[3].paused_share = 0.2;
        let remark =
            "; the machine paused during 1 of these 6 rounds (up to 20% of the time): repeat on a quiet one";
        assert_eq!(winners(&clear), [format!("{said}{remark}")]);
    }

    #[test]
    fn rates_are_medians_and_ratios_are_those_of_the_same_round() {
        let rounds = [round("a", 0, 1.0), round("b", 0, 2.0), round("a", 1, 2.0), round("b", 1, 4.0)];
        let table = &tables(&rounds)[0];
        assert_eq!(
            table.head,
            "get: 1,000 objects of 1 KiB, 8 in flight; medians of 2 rounds, in turns; CPU time and \
                requests per operation"
        );
        assert_eq!(table.rows[1][2..], ["375", "0.50", "-", "-", "100", "1.001"]);
    }
}
