//! The first page: the state of the gateway, its buckets, tiers, moves and safety, and the forms.

use std::collections::BTreeMap;

use jiff::Timestamp;
use plimsoll_base::clock::{SECOND, now_ns};
use plimsoll_base::units::{format_volume, grouped};
use plimsoll_document::Table;
use plimsoll_document::live::{LivePage, Section, Tile};

use super::{Console, answers};
use crate::alerts::alerts;
use crate::cli::Exit;
use crate::cli::status::{backup_age, shipped, state, verified};
use crate::overview::{Overview, TierState, overview};
use plimsoll_bodies::pricing::Stock;
use plimsoll_catalog::ambient::{shared_now_ms, utc_text};
use plimsoll_maintenance::mover::condition::show_time_ms;
use plimsoll_objects::queues::MAX_MOVES;

/// Seconds between two updates of the page.
pub const EVERY_S: u64 = 5;

/// Time after the start in which there need not be a leader, in nanoseconds.
const LEADER_NS: u64 = 120 * SECOND;

fn count(number: u64) -> String {
    grouped(&number.to_string())
}

/// Returns an amount of dollars in a month; a dash if it is not known.
fn month(dollars: Option<f64>) -> String {
    match dollars {
        None => "–".into(),
        Some(dollars) if dollars > 0.0 && dollars < 0.01 => "below $0.01".into(),
        Some(dollars) => format!("${dollars:.2}"),
    }
}

impl Console {
    /// Returns the page.
    ///
    /// # Errors
    /// If the catalog cannot be read.
    pub fn overview(&self) -> Result<LivePage, Exit> {
        let found = overview(
            &self.target.store,
            &self.target.backup,
            &self.target.survey,
            &self.target.rules.tariffs,
        );
        let found = found.map_err(|error| self.target.fail(&error))?;
        let now_ms = shared_now_ms();
        let mut alerts = alerts(&found, now_ms);
        // A gateway leads only after it has renewed its session; the rule of Prometheus waits, too.
        if now_ns() < self.started_ns + LEADER_NS {
            alerts.retain(|alert| alert.name != "GatewayWithoutLeader");
        }
        let gateways = found.sessions.len().max(1);
        let own = match gateways {
            1 => "1 gateway".to_string(),
            some => format!("{some} gateways; this one is session {}", found.own_session),
        };
        let time = Timestamp::from_millisecond(now_ms.cast_signed()).unwrap_or_default();
        let forms = [Some(answers::of_objects()), self.plan_form(), Some(answers::of_changes())];
        let sections = [buckets(&found), tiers(&found), moves(&found), safety(&found, now_ms)];
        Ok(LivePage {
            what: vec![self.target.name.clone(), format!("{own}; {time:.0}")],
            state: sentence(&found, alerts.len()),
            warnings: alerts.into_iter().map(|alert| format!("{}: {}", alert.name, alert.text)).collect(),
            every_s: EVERY_S,
            tiles: tiles(&found, now_ms),
            sections: sections.into_iter().chain(forms.into_iter().flatten()).collect(),
            ..self.empty()
        })
    }
}

/// Returns the state in a sentence.
fn sentence(found: &Overview, alerts: usize) -> String {
    let text = state(found);
    let (first, rest) = text.split_at(text.chars().next().map_or(0, char::len_utf8));
    let end = match alerts {
        0 => ". There are no alerts.",
        1 => ". There is 1 alert:",
        _ => return format!("{}{rest}. There are {alerts} alerts:", first.to_uppercase()),
    };
    format!("{}{rest}{end}", first.to_uppercase())
}

fn tiles(found: &Overview, now_ms: u64) -> Vec<Tile> {
    let both = |tier: &TierState| Some(tier.dollars_per_month? + tier.kept_dollars_per_month.unwrap_or(0.0));
    let known: Vec<f64> = found.tiers.values().filter_map(both).collect();
    let known = (!known.is_empty()).then(|| known.iter().sum::<f64>());
    let unpriced = found.tiers.values().filter(|tier| tier.dollars_per_month.is_none()).count();
    let note = match unpriced {
        0 => "at list prices, with what is kept".to_string(),
        some => {
            format!("at list prices, with what is kept; {some} of {} tiers have no price", found.tiers.len())
        }
    };
    let mut tiles = match &found.counts {
        None => vec![Tile::new("Objects", "not counted", uncounted(found))],
        Some(counts) => vec![
            Tile::new("Objects and versions", count(counts.objects), format_volume(counts.bytes)),
            Tile::new("Storage in a month", month(known), note),
            Tile::new(
                "Waiting moves",
                count(counts.waiting_moves),
                format!(
                    "{}, and {} bodies to pack",
                    format_volume(counts.waiting_move_bytes),
                    counts.waiting_packs
                ),
            ),
            Tile::new(
                "Can be brought back",
                format_volume(counts.kept_bytes),
                format!("{} deleted or replaced objects", count(counts.kept_objects)),
            ),
        ],
    };
    let hours = |at_ms: u64| format!("{:.1} hours ago", now_ms.saturating_sub(at_ms) as f64 / 3_600_000.0);
    tiles.push(match &found.backup {
        None => Tile::new(
            "Last backup of the catalog",
            found.last_backup_ms.map_or("none recorded".into(), hours),
            "",
        ),
        Some(backup) => {
            let newest =
                backup.newest_ms.map_or("nothing yet".into(), |ms| format!("until {}", utc_text(ms)));
            let behind = match backup.lag_seconds {
                seconds if seconds > 0.0 => format!("behind by {seconds:.0} s"),
                _ => "complete".into(),
            };
            Tile::new("Backup of the catalog", behind, newest)
        }
    });
    tiles
}

/// Says why this gateway has counted no objects.
fn uncounted(found: &Overview) -> String {
    match found.leader {
        Some(leader) if leader != found.own_session => {
            format!("the gateway with session {leader} counts them; see its console")
        }
        _ => "a gateway that moves and deletes counts them when it has visited all".into(),
    }
}

/// Returns a table of all buckets, with a column for each place.
fn buckets(found: &Overview) -> Section {
    /// Maximum number of rows.
    const MOST: usize = 200;
    let places: Vec<String> =
        std::iter::once("catalog".to_string()).chain(found.tiers.keys().cloned()).collect();
    let names: Vec<String> = places.iter().map(|place| format!("in {place}#")).collect();
    let columns = ["bucket", "objects#", "size#"].into_iter().chain(names.iter().map(String::as_str));
    let mut table = Table::new("Buckets", &columns.collect::<Vec<_>>());
    let mut all: Vec<_> = found.buckets.iter().collect();
    if all.len() > MOST {
        let bytes =
            |(_, stocks): &(&String, &BTreeMap<String, Stock>)| stocks.values().map(|s| s.bytes).sum::<u64>();
        all.sort_by_key(|bucket| std::cmp::Reverse(bytes(bucket)));
    }
    for (name, stocks) in all.into_iter().take(MOST) {
        let all = stocks.values().fold(Stock::default(), |mut all, stock| {
            all.add(stock.blobs, stock.bytes);
            all
        });
        if found.counts.is_none() {
            table.row(std::iter::once(name.clone()).chain(vec!["–".to_string(); 2 + places.len()]));
            continue;
        }
        let in_place =
            |place: &String| stocks.get(place).map_or("–".into(), |stock| format_volume(stock.bytes));
        let row = [name.clone(), count(all.blobs), format_volume(all.bytes)].into_iter();
        table.row(row.chain(places.iter().map(in_place)));
    }
    let mut notes = match &found.counts {
        None => vec![format!("The objects are not counted: {}.", uncounted(found))],
        Some(counts) => vec![format!(
            "Objects and versions by the place from which they are read, counted {:.0} s ago.",
            counts.age_seconds
        )],
    };
    if found.buckets.len() > MOST {
        notes.push(format!("The largest {MOST} of {} buckets.", count(found.buckets.len() as u64)));
    }
    let answer = if found.buckets.is_empty() { "There are no buckets.".into() } else { String::new() };
    let tables = if found.buckets.is_empty() { Vec::new() } else { vec![table] };
    Section {
        id: "buckets".into(),
        head: "Buckets".into(),
        follows: true,
        answer,
        tables,
        notes,
        ..Section::default()
    }
}

fn tiers(found: &Overview) -> Section {
    let columns = [
        "tier",
        "state",
        "blobs#",
        "size#",
        "month#",
        "kept in addition#",
        "month of these#",
        "free on disk#",
    ];
    let mut table = Table::new("Tiers", &columns);
    for (name, tier) in &found.tiers {
        let state = if tier.answers { "answers" } else { "does not answer" };
        let counted = |text: String| if found.counts.is_some() { text } else { "–".into() };
        table.row([
            name.clone(),
            state.to_string(),
            counted(count(tier.blobs)),
            counted(format_volume(tier.bytes)),
            counted(month(tier.dollars_per_month)),
            counted(format_volume(tier.kept_bytes)),
            counted(month(tier.kept_dollars_per_month)),
            tier.free_bytes.map_or("–".into(), format_volume),
        ]);
    }
    let notes = vec![
        "Blobs and pack files, with the sources that moves keep; storage at list prices.".to_string(),
        format!(
            "Kept in addition: deleted and replaced objects, which can be brought back for {}.",
            show_time_ms(found.retain_ms)
        ),
    ];
    Section {
        id: "tiers".into(),
        head: "Tiers".into(),
        follows: true,
        tables: vec![table],
        notes,
        ..Section::default()
    }
}

/// Returns a table of names and facts.
fn facts(head: &str, rows: Vec<(&str, String)>) -> Table {
    let mut table = Table::new(head, &["what", "state"]);
    rows.into_iter().for_each(|(name, fact)| table.row([name.to_string(), fact]));
    table
}

fn moves(found: &Overview) -> Section {
    let leader = match found.leader {
        None => "no gateway moves and deletes".to_string(),
        Some(leader) if leader == found.own_session => "this gateway moves and deletes".into(),
        Some(leader) => format!("session {leader} moves and deletes"),
    };
    let time = |ms: u64, none: &str| if ms == 0 { none.to_string() } else { show_time_ms(ms / 1000 * 1000) };
    let queues = &found.queues;
    let mut rows = vec![("leader", format!("{leader}; leader number {}", found.epoch))];
    if let Some(counts) = &found.counts {
        let bytes = format_volume(counts.waiting_move_bytes);
        rows.push(("waiting", format!("{} moves of {bytes}", count(counts.waiting_moves))));
        rows.push(("to pack", format!("{} bodies", count(counts.waiting_packs))));
    }
    let more = if queues.moves == MAX_MOVES { " or more" } else { "" };
    let oldest = time(queues.oldest_move_ms, "0s");
    let begun = if queues.moves == 0 {
        "none".into()
    } else {
        format!("{}{more}, the oldest for {oldest}", queues.moves)
    };
    rows.push(("begun", begun));
    let overdue = time(queues.deletion_overdue_ms, "");
    let deletions = match (found.deletions_stopped, overdue.as_str()) {
        (true, _) => "stopped until there is a newer backup".to_string(),
        (false, "") => "none are due".into(),
        (false, overdue) => format!("due for {overdue}"),
    };
    rows.push(("deletions from tiers", deletions));
    Section {
        id: "moves".into(),
        head: "Moves and deletions".into(),
        follows: true,
        tables: vec![facts("Moves and deletions", rows)],
        ..Section::default()
    }
}

fn safety(found: &Overview, now_ms: u64) -> Section {
    let age = || backup_age(found.last_backup_ms, now_ms);
    let mut rows = vec![
        ("backup of the catalog", found.backup.as_ref().map_or_else(age, shipped)),
        ("verification", verified(&found.scrub)),
        ("clock", format!("{:+.1} s to its witnesses", found.clock_ahead_seconds)),
    ];
    if let Some(counts) = &found.counts {
        let (kept, bytes) = (count(counts.kept_objects), format_volume(counts.kept_bytes));
        rows.push(("can be brought back", format!("{kept} deleted or replaced objects with {bytes}")));
    }
    rows.push(("kept for", show_time_ms(found.retain_ms)));
    if let Some(log) = &found.log {
        let garbage = 100 * (log.bytes - log.live_bytes.min(log.bytes)) / log.bytes.max(1);
        let free = log
            .free_bytes
            .map_or(String::new(), |bytes| format!("; {} of the disk free", format_volume(bytes)));
        let (segments, bytes) = (log.segments, format_volume(log.bytes));
        rows.push(("log of the catalog", format!("{segments} segments, {bytes}, {garbage}% garbage{free}")));
        rows.push((
            "damage of the log",
            if log.damage.is_empty() { "none".into() } else { log.damage.join("; ") },
        ));
    }
    Section {
        id: "safety".into(),
        head: "Safety".into(),
        follows: true,
        tables: vec![facts("Safety", rows)],
        ..Section::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_sentence_is_true_alone() {
        let mut found = Overview { owns_tiers: true, leader: Some(0), ..Overview::default() };
        assert_eq!(sentence(&found, 0), "Running. There are no alerts.");
        assert_eq!(sentence(&found, 1), "Running. There is 1 alert:");
        found.problem = Some("the disk failed".into());
        assert_eq!(sentence(&found, 2), "Running, but writes fail: the disk failed. There are 2 alerts:");
    }

    #[test]
    fn a_page_has_the_largest_of_many_buckets() {
        let bucket =
            |n: u64| (format!("b{n}"), BTreeMap::from([("hot".to_string(), Stock { blobs: 1, bytes: n })]));
        let counts = Some(Default::default());
        let found = Overview { counts, buckets: (0..1000).map(bucket).collect(), ..Overview::default() };
        let section = buckets(&found);
        let rows = &section.tables[0].rows;
        assert_eq!((rows.len(), rows[0][0].as_str(), rows[199][0].as_str()), (200, "b999", "b800"));
        assert_eq!(section.notes.last().unwrap(), "The largest 200 of 1,000 buckets.");
    }

    #[test]
    fn what_is_not_counted_is_not_zero() {
        let buckets_of = BTreeMap::from([("photos".to_string(), BTreeMap::new())]);
        let tiers_of = BTreeMap::from([("hot".to_string(), TierState::default())]);
        let found = Overview { leader: Some(7), buckets: buckets_of, tiers: tiers_of, ..Overview::default() };
        assert_eq!(buckets(&found).tables[0].rows, [["photos", "–", "–", "–", "–"]]);
        assert!(tiers(&found).tables[0].rows[0][2..].iter().all(|cell| cell == "–"));
        let tile = &tiles(&found, 0)[0];
        assert_eq!(tile.value, "not counted");
        assert!(tile.note.contains("session 7"), "{}", tile.note);
    }

    #[test]
    fn costs_that_are_not_known_are_not_zero() {
        let tiers = BTreeMap::from([("hot".to_string(), TierState::default())]);
        let found = Overview { tiers, counts: Some(Default::default()), ..Overview::default() };
        let shown = tiles(&found, 0);
        assert_eq!(
            (shown[1].value.as_str(), shown[1].note.as_str()),
            ("–", "at list prices, with what is kept; 1 of 1 tiers have no price")
        );
    }
}
