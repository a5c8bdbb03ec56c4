//! Findings about the nodes before the run: differences that would make the measurement unfair or wrong.

use std::collections::{BTreeMap, BTreeSet};

use super::clocks::Offset;
use super::message::{Hello, Reached};
use plimsoll_base::median::median;

/// Facts about one node before the run.
#[derive(Debug, Clone, Default)]
pub struct NodeFacts {
    /// Properties of the node.
    pub hello: Hello,
    /// Stores as the node sees them.
    pub reached: Vec<Reached>,
    /// Offset of the node's clock; `None` if it did not answer.
    pub offset: Option<Offset>,
}

/// Clock offset in nanoseconds above which a node is reported. The start is corrected for it; time stamps in the run
/// directories of the nodes are not.
const MAX_CLOCK_OFFSET_NS: i64 = 50_000_000;
/// Error of a clock offset in nanoseconds above which the common start is not exact.
const MAX_CLOCK_ERROR_NS: i64 = 10_000_000;
/// Ratio of a node's round-trip time to the median above which it is reported.
const MAX_RTT: f64 = 2.0;
/// Number of open files below which a node is reported.
const MIN_OPEN_FILES: u64 = 4_096;

fn numbers(nodes: &[u64]) -> String {
    nodes.iter().map(|node| (node + 1).to_string()).collect::<Vec<_>>().join(", ")
}

/// Returns the nodes for which `test` is true.
fn which(nodes: &BTreeMap<u64, NodeFacts>, test: impl Fn(&NodeFacts) -> bool) -> Vec<u64> {
    nodes.iter().filter(|(_, facts)| test(facts)).map(|(node, _)| *node).collect()
}

/// Returns a line for each finding; nodes are numbered from 1.
pub fn findings(nodes: &BTreeMap<u64, NodeFacts>) -> Vec<String> {
    let mut out = Vec::new();
    let mut add = |nodes: Vec<u64>, text: &str| {
        if !nodes.is_empty() {
            out.push(format!("node {}: {text}", numbers(&nodes)));
        }
    };
    let offset = |f: &NodeFacts| f.offset.map_or(0, |offset| offset.offset_ns.abs());
    add(
        which(nodes, |f| offset(f) > MAX_CLOCK_OFFSET_NS),
        "the clock differs by more than 50 ms; the start is corrected, but the times of its files are not",
    );
    add(
        which(nodes, |f| f.offset.is_none_or(|offset| offset.error_ns > MAX_CLOCK_ERROR_NS)),
        "the clock offset is known to more than 10 ms only, so the start is not exact",
    );
    let cores: BTreeSet<u64> = nodes.values().map(|f| f.hello.machine.usable_cores as u64).collect();
    if let (Some(least), Some(most)) = (cores.first(), cores.last())
        && least != most
    {
        let fewest = which(nodes, |f| f.hello.machine.usable_cores as u64 == *least);
        add(
            fewest,
            &format!("{least} cores, other nodes have up to {most}; all get the same share of the load"),
        );
    }
    let speed = |f: &NodeFacts| f.hello.machine.links.iter().filter_map(|link| link.bits_per_s).max();
    let speeds: BTreeSet<u64> = nodes.values().filter_map(speed).collect();
    if let (Some(least), Some(most)) = (speeds.first(), speeds.last())
        && least != most
    {
        add(which(nodes, |f| speed(f) == Some(*least)), "a slower network link than other nodes");
    }
    add(
        which(nodes, |f| f.hello.open_files.is_some_and(|files| files < MIN_OPEN_FILES)),
        &format!("fewer than {MIN_OPEN_FILES} open files allowed; raise the limit (ulimit -n)"),
    );
    let rtt = |f: &NodeFacts| f.reached.iter().filter_map(|store| store.rtt_ms).reduce(f64::max);
    if let Some(typical) = median(nodes.values().filter_map(rtt)) {
        let far = which(nodes, |f| rtt(f).is_some_and(|ms| ms > MAX_RTT * typical && ms > typical + 0.5));
        add(far, &format!("the round trip to the store takes more than twice the median of {typical:.2} ms"));
    }
    let addresses: BTreeSet<&String> =
        nodes.values().flat_map(|f| &f.reached).flat_map(|store| &store.addresses).collect();
    if addresses.len() > 1 {
        out.push(format!("the nodes use {} addresses of the stores", addresses.len()));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_base::machine::Machine;

    fn node(cores: f64, rtt_ms: f64, offset_ns: i64, error_ns: i64) -> NodeFacts {
        NodeFacts {
            hello: Hello {
                machine: Machine { usable_cores: cores, ..Machine::default() },
                ..Hello::default()
            },
            reached: vec![Reached { rtt_ms: Some(rtt_ms), ..Reached::default() }],
            offset: Some(Offset { offset_ns, error_ns }),
        }
    }

    #[test]
    fn equal_nodes_have_no_findings_and_different_ones_are_named() {
        let equal = || (0..8).map(|n| (n, node(4.0, 1.0, 1_000, 1_000))).collect::<BTreeMap<_, _>>();
        assert_eq!(findings(&equal()), Vec::<String>::new());
        let mut nodes = equal();
        nodes.insert(2, node(2.0, 5.0, 90_000_000, 20_000_000));
        nodes.get_mut(&4).unwrap().hello.open_files = Some(1_024);
        let found = findings(&nodes);
        assert_eq!(found.len(), 5, "{found:#?}");
        assert!(found.iter().filter(|line| line.starts_with("node 3:")).count() == 4, "{found:#?}");
        assert!(found.iter().any(|line| line.starts_with("node 5: fewer")), "{found:#?}");
    }
}
