//! Comparison of `plimsoll run sync` loops: wall-clock time of whole loops, rates, CPU time, and speed-up over the
//! baseline.

use plimsoll_base::median::median;
use plimsoll_base::units::{format_bytes, format_count, format_throughput, short_names};
use plimsoll_document::Table;
use plimsoll_judge::summary::result::SyncLoop;

/// Groups loops by direction, client and store, in order of first appearance.
fn groups(loops: &[SyncLoop]) -> Vec<Vec<&SyncLoop>> {
    let mut groups: Vec<Vec<&SyncLoop>> = Vec::new();
    for one in loops {
        let same = |g: &&mut Vec<&SyncLoop>| {
            (&g[0].direction, &g[0].client, &g[0].store) == (&one.direction, &one.client, &one.store)
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    groups
}

/// Returns a sentence for each direction with several contenders: the fastest one and the one after it, by the median
/// time of a loop.
pub fn winners(loops: &[SyncLoop]) -> Vec<String> {
    let groups = groups(loops);
    let stores: Vec<&str> = groups.iter().map(|g| g[0].store.as_str()).collect();
    let several = stores.iter().any(|store| *store != stores[0]);
    let names = short_names(&stores);
    let mut directions: Vec<_> = groups.iter().map(|g| &g[0].direction).collect();
    directions.dedup();
    let mut out = Vec::new();
    for direction in directions {
        let of = groups.iter().zip(&names).filter(|(g, _)| g[0].direction == *direction);
        let mut times: Vec<(f64, String)> = of
            .map(|(g, store)| {
                let place = if several { format!(" with {store}") } else { String::new() };
                (median(g.iter().map(|l| l.wall_s)).unwrap_or(0.0), format!("{}{place}", g[0].client))
            })
            .collect();
        times.sort_by(|a, b| a.0.total_cmp(&b.0));
        if let [(first_s, first), (second_s, second), ..] = times.as_slice() {
            let factor = second_s / first_s.max(1e-9);
            out.push(format!(
                "{first} is the fastest in {direction}: {first_s:.2} s per loop, {factor:.2}x as fast as {second} \
                 ({second_s:.2} s)"
            ));
        }
    }
    out
}

/// Returns the table of all loops; `None` if there are none. The first contender of each direction is the baseline.
pub fn table(loops: &[SyncLoop]) -> Option<Table> {
    let first = loops.first()?;
    let head = format!(
        "{} files of {} per loop, starting with an empty target; times are wall-clock times of a whole loop",
        format_count(first.objects),
        format_bytes(first.bytes / first.objects.max(1)),
    );
    let columns = [
        "direction",
        "client",
        "store",
        "loops#",
        "median s#",
        "fastest#",
        "slowest#",
        "files/s#",
        "throughput#",
        "CPU s/GiB#",
        "speed-up#",
    ];
    let mut table = Table::new(head, &columns);
    let groups = groups(loops);
    let wall_s = |group: &[&SyncLoop]| median(group.iter().map(|l| l.wall_s)).unwrap_or(0.0);
    let mut stores: Vec<&str> = Vec::new();
    groups.iter().map(|g| g[0].store.as_str()).for_each(|store| {
        if !stores.contains(&store) {
            stores.push(store);
        }
    });
    let names = short_names(&stores);
    for group in &groups {
        let first = group[0];
        let store = stores.iter().zip(&names).find(|(s, _)| **s == first.store).map(|(_, name)| name.clone());
        let wall = wall_s(group);
        let baseline = groups.iter().find(|g| g[0].direction == first.direction).map_or(wall, |g| wall_s(g));
        let gib = first.bytes as f64 / f64::from(1u32 << 30);
        let times = || group.iter().map(|l| l.wall_s);
        let cpu = || format!("{:.2}", median(group.iter().map(|l| l.cpu_s)).unwrap_or(0.0) / gib);
        table.row([
            first.direction.clone(),
            first.client.clone(),
            store.unwrap_or_default(),
            group.len().to_string(),
            format!("{wall:.2}"),
            format!("{:.2}", times().fold(f64::INFINITY, f64::min)),
            format!("{:.2}", times().fold(0.0, f64::max)),
            format_count((first.objects as f64 / wall) as u64),
            format_throughput(first.bytes as f64 / wall),
            if gib > 0.0 { cpu() } else { "-".into() },
            format!("{:.2}", baseline / wall),
        ]);
    }
    Some(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_ups_are_relative_to_the_baseline_of_the_direction() {
        let one = |direction: &str, client: &str, wall_s: f64| SyncLoop {
            store: "s3://b?endpoint=http://h:1".into(),
            direction: direction.into(),
            client: client.into(),
            repeat: 0,
            wall_s,
            cpu_s: 1.0,
            objects: 2000,
            bytes: 2000 << 20,
            objects_per_s: 0.0,
            bytes_per_s: 0.0,
        };
        let loops = [
            one("up", "ours", 1.0),
            one("up", "theirs", 8.0),
            one("up", "ours", 2.0),
            one("up", "ours", 9.0),
            one("down", "theirs", 3.0),
        ];
        let table = table(&loops).unwrap();
        assert!(table.head.starts_with("2,000 files of 1 MiB"), "{}", table.head);
        let cells = |at: usize| table.rows[at].join("|");
        assert!(cells(0).starts_with("up|ours|s3://b|3|2.00|1.00|9.00|1,000|"), "{}", cells(0));
        assert!(cells(0).ends_with("|0.51|1.00") && cells(1).ends_with("|0.25"), "{} {}", cells(0), cells(1));
        assert!(cells(2).ends_with("|1.00"), "the only client of a direction is its own baseline");
        assert_eq!(super::table(&[]), None);
    }
}
