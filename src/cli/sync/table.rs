//! What the loops came to, as a table: median wall time, rates, CPU, and how much faster than the baseline.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use crate::report::terminal::table::lines;
use crate::summary::result::SyncLoop;
use crate::units::{format_bytes, format_count, format_throughput};

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

/// The table; the first contestant of each direction is the baseline.
pub fn render(loops: &[SyncLoop], files: u64, bytes: u64) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header([
        "direction",
        "client",
        "store",
        "loops",
        "median s",
        "fastest",
        "slowest",
        "files/s",
        "throughput",
        "CPU s/GiB",
        "speed-up",
    ]);
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
    for group in &groups {
        let first = group[0];
        let wall = median(group.iter().map(|l| l.wall_s));
        let baseline = groups
            .iter()
            .find(|g| g[0].direction == first.direction)
            .map_or(wall, |g| median(g.iter().map(|l| l.wall_s)));
        let gib = first.bytes as f64 / f64::from(1u32 << 30);
        let times = || group.iter().map(|l| l.wall_s);
        table.add_row([
            first.direction.clone(),
            first.client.clone(),
            first.store.clone(),
            group.len().to_string(),
            format!("{wall:.2}"),
            format!("{:.2}", times().fold(f64::INFINITY, f64::min)),
            format!("{:.2}", times().fold(0.0, f64::max)),
            format_count((first.objects as f64 / wall) as u64),
            format_throughput(first.bytes as f64 / wall),
            if gib > 0.0 {
                format!("{:.2}", median(group.iter().map(|l| l.cpu_s)) / gib)
            } else {
                "-".into()
            },
            format!("{:.2}", baseline / wall),
        ]);
    }
    for column in table.column_iter_mut().skip(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!(
        "{} files of {} per loop, the target empty at its beginning; wall time of a whole loop\n\n{}",
        format_count(files),
        format_bytes(bytes),
        lines(&table)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_baseline_is_the_first_contestant_of_its_direction() {
        let one = |client: &str, direction: &str, wall_s: f64| SyncLoop {
            client: client.into(),
            direction: direction.into(),
            wall_s,
            objects: 100,
            bytes: 1 << 30,
            cpu_s: 1.5,
            ..SyncLoop::default()
        };
        let loops = [one("a", "up", 4.0), one("b", "up", 8.0), one("a", "up", 6.0), one("a", "down", 1.0)];
        let text = render(&loops, 100, 1 << 20);
        let row = |client: &str, direction: &str| {
            let fit = |l: &&str| l.trim_start().starts_with(direction) && l.contains(&format!(" {client} "));
            text.lines().find(fit).unwrap().to_string()
        };
        assert!(row("a", "up").ends_with("1.50      1.00"), "{text}");
        assert!(row("b", "up").ends_with("0.62"), "median of 4 and 6 is 5\n{text}");
        assert!(row("a", "down").ends_with("1.00"));
    }
}
