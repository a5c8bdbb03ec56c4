//! Alerts of a store: what an operator must look at now, under the names of `docs/monitoring/alerts.yml`. Rates of
//! errors are missing, because they need the past, which a monitoring system has.

use serde::Serialize;

use plimsoll_base::units::format_volume;

use crate::certificate::SOON_S;
use crate::overview::Overview;
use plimsoll_catalog::following::FollowState;
use plimsoll_maintenance::mover::condition::show_time_ms;

/// A fact that an operator must look at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Alert {
    /// Name of the rule.
    pub name: &'static str,
    /// Description with the next step.
    pub text: String,
}

/// Difference between the clock of this machine and its witnesses, in seconds.
const CLOCK_S: f64 = 5.0;
/// Time for which discarded bytes wait for their deletion, in seconds.
const OVERDUE_S: u64 = 3600;
/// Age of an unfinished move, and of the last visit of all objects, in seconds.
const OLD_S: u64 = 86_400;
/// Time since the last verification of all objects, in seconds.
const UNVERIFIED_S: u64 = 7_776_000;
/// Time since the backup had everything, in seconds.
const BEHIND_S: f64 = 300.0;
/// Free bytes of a disk.
const FREE_BYTES: f64 = 5e9;

/// Returns the alerts of a standby.
fn standby(following: &FollowState) -> Vec<Alert> {
    if following.lag_seconds <= BEHIND_S {
        return Vec::new();
    }
    let reason = following.problem.as_ref().map_or(String::new(), |problem| format!(": {problem}"));
    let lag = show_time_ms(following.lag_seconds as u64 * 1000);
    vec![Alert { name: "GatewayStandbyBehind", text: format!("this standby is behind by {lag}{reason}") }]
}

/// Returns the alerts of a store at a Unix time in milliseconds.
pub fn alerts(found: &Overview, now_ms: u64) -> Vec<Alert> {
    let mut all = Vec::new();
    let mut add = |name: &'static str, text: String| all.push(Alert { name, text });
    let seconds = |s: u64| show_time_ms(s * 1000);
    if let Some(following) = &found.following {
        // Everything else is the work of the gateway that leads.
        return standby(following);
    }
    add_process(found, &mut add);
    if !found.owns_tiers {
        let text = "a tier belongs to another catalog, or has seen a later state of this one: nothing is moved or \
            deleted until `plimsoll-gateway reconcile` has run";
        add("GatewayCatalogOlder", text.into());
    }
    let ahead_s = found.clock_ahead_seconds;
    if found.has_wrong_clock || ahead_s.abs() > CLOCK_S {
        let text =
            format!("the clock of this machine is in doubt ({ahead_s:+.1} s): nothing is moved or deleted");
        add("GatewayClockWrong", text);
    }
    if found.leader.is_none() {
        add("GatewayWithoutLeader", "no gateway moves and deletes objects".into());
    }
    add_tiers(found, &mut add);
    if let Some(log) = &found.log {
        if let Some(bytes) = log.free_bytes.filter(|bytes| (*bytes as f64) < FREE_BYTES) {
            add("GatewayDiskFilling", format!("the disk of the catalog has {} left", format_volume(bytes)));
        }
        if !log.damage.is_empty() {
            let text = "the log is damaged; `plimsoll-gateway scrub` lists the affected objects";
            add("GatewayObjectsDamaged", text.into());
        }
    }
    add_verification(found, now_ms, &mut add);
    if found.deletions_stopped {
        let kept = show_time_ms(found.retain_ms);
        let text =
            format!("the last backup is older than {kept}: nothing is deleted until there is a newer one");
        add("GatewayBackupOld", text);
    }
    if let Some(backup) = &found.backup {
        if backup.lag_seconds > BEHIND_S {
            let reason = backup.problem.as_ref().map_or(String::new(), |problem| format!(": {problem}"));
            let text = format!("the backup is behind by {}{reason}", seconds(backup.lag_seconds as u64));
            add("GatewayBackupBehind", text);
        }
        if let Some(damage) = &backup.damage {
            add("GatewayBackupDamaged", format!("not every state can be restored from the backup: {damage}"));
        }
    }
    let overdue_s = found.queues.deletion_overdue_ms / 1000;
    if overdue_s > OVERDUE_S && !found.deletions_stopped {
        add("GatewayDeletionsOverdue", format!("bytes wait for their deletion since {}", seconds(overdue_s)));
    }
    let oldest_s = found.queues.oldest_move_ms / 1000;
    if oldest_s > OLD_S {
        add("GatewayMoveStuck", format!("a move has not finished for {}", seconds(oldest_s)));
    }
    if let Some(age_s) = found.counts.as_ref().map(|counts| counts.age_seconds as u64).filter(|s| *s > OLD_S)
    {
        add("GatewaySurveyOld", format!("all objects were last visited {} ago", seconds(age_s)));
    }
    all
}

/// Adds what is wrong with this process.
fn add_process(found: &Overview, add: &mut dyn FnMut(&'static str, String)) {
    if let Some(problem) = &found.problem {
        add("GatewayWritesStopped", format!("writes fail: {problem}"));
    }
    if let Some(left_s) = found.certificate_left_s.filter(|left_s| *left_s < SOON_S) {
        let text = match u64::try_from(left_s) {
            Ok(left_s) => format!("the certificate expires in {}", show_time_ms(left_s * 1000)),
            Err(_) => "the certificate has expired, and clients refuse it".into(),
        };
        add("GatewayCertificateExpiring", text);
    }
    for stalled in &found.stalled {
        add("GatewayLoopStalled", stalled.text());
    }
}

fn add_tiers(found: &Overview, add: &mut dyn FnMut(&'static str, String)) {
    for (name, tier) in &found.tiers {
        if !tier.answers {
            add("GatewayTierSilent", format!("tier {name} does not answer"));
        }
        if let Some(bytes) = tier.free_bytes.filter(|bytes| (*bytes as f64) < FREE_BYTES) {
            add("GatewayTierFilling", format!("the disk of tier {name} has {} left", format_volume(bytes)));
        }
    }
}

fn add_verification(found: &Overview, now_ms: u64, add: &mut dyn FnMut(&'static str, String)) {
    let (last, current) = (found.scrub.last.as_ref(), found.scrub.current.as_ref());
    let counts = last.map(|last| last.counts).into_iter().chain(current.map(|current| current.counts));
    let damaged = counts.map(|counts| counts.damaged).max().unwrap_or(0);
    if damaged > 0 {
        let text = format!("{damaged} objects are damaged; `plimsoll-gateway scrub` lists them");
        add("GatewayObjectsDamaged", text);
    }
    let since_ms = last.map(|last| last.ended_ms).or(current.map(|current| current.began_ms));
    let age_s = since_ms.map_or(0, |at_ms| now_ms.saturating_sub(at_ms) / 1000);
    if age_s > UNVERIFIED_S {
        let age = show_time_ms(age_s * 1000);
        let text = match last {
            Some(_) => format!("all objects were last verified {age} ago"),
            None => format!("the first verification of all objects has begun {age} ago and has not ended"),
        };
        add("GatewayScrubOld", text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overview::{Counts, LogState, TierState};
    use plimsoll_backup::running::BackupState;
    use plimsoll_catalog::liveness::LoopState;
    use plimsoll_maintenance::scrub::progress;

    /// A store in which everything is wrong.
    fn broken() -> Overview {
        let tier = TierState { free_bytes: Some(1), ..TierState::default() };
        let damage = vec!["a file".to_string()];
        let counts = progress::Counts { damaged: 2, ..progress::Counts::default() };
        let mut found = Overview {
            owns_tiers: false,
            has_wrong_clock: true,
            problem: Some("the disk failed".into()),
            certificate_left_s: Some(-1),
            stalled: vec![LoopState { name: "moves", waits_for: "a tier", late_s: 61, is_stalled: true }],
            deletions_stopped: true,
            counts: Some(Counts { age_seconds: 1e6, ..Counts::default() }),
            log: Some(LogState { segments: 1, bytes: 1, live_bytes: 1, damage, free_bytes: Some(1) }),
            backup: Some(BackupState {
                lag_seconds: BEHIND_S + 1.0,
                damage: Some("a piece is missing".into()),
                ..BackupState::default()
            }),
            ..Overview::default()
        };
        found.tiers.insert("hot".into(), tier);
        found.queues.oldest_move_ms = 100_000_000;
        found.scrub.last = Some(progress::Finished { began_ms: 0, ended_ms: 1, counts });
        found
    }

    #[test]
    fn a_healthy_store_has_no_alerts() {
        let mut found = Overview { owns_tiers: true, leader: Some(1), ..Overview::default() };
        found.tiers.insert("hot".into(), TierState { answers: true, ..TierState::default() });
        assert_eq!(alerts(&found, 1), []);
    }

    #[test]
    fn the_rules_of_prometheus_have_the_same_names_and_limits() {
        let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/monitoring/alerts.yml");
        let rules = std::fs::read_to_string(rules).unwrap();
        let mut found = alerts(&broken(), 100 * 86_400_000);
        let mut overdue = broken();
        (overdue.deletions_stopped, overdue.queues.deletion_overdue_ms) = (false, 3_601_000);
        found.extend(alerts(&overdue, 1));
        let following = FollowState { lag_seconds: BEHIND_S + 1.0, ..FollowState::default() };
        found.extend(alerts(&Overview { following: Some(following), ..Overview::default() }, 1));
        for alert in &found {
            assert!(rules.contains(&format!("alert: {}\n", alert.name)), "{}", alert.name);
        }
        let mut names: Vec<&str> = found.iter().map(|alert| alert.name).collect();
        names.sort_unstable();
        names.dedup();
        // Missing: a gateway that does not run cannot report it, and two rates of errors.
        assert_eq!(names.len() + 3, rules.matches("- alert:").count(), "{names:?}");
        let limit = |name: &str| {
            let rule = rules.split("- alert: ").find(|rule| rule.starts_with(name)).unwrap();
            let line = rule.lines().find(|line| line.contains("expr:")).unwrap();
            line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()
        };
        assert_eq!(limit("GatewayCertificateExpiring"), SOON_S as f64);
        assert_eq!(limit("GatewayClockWrong"), CLOCK_S);
        assert_eq!(limit("GatewayDeletionsOverdue"), OVERDUE_S as f64);
        assert_eq!([limit("GatewayMoveStuck"), limit("GatewaySurveyOld")], [OLD_S as f64; 2]);
        assert_eq!(limit("GatewayScrubOld"), UNVERIFIED_S as f64);
        assert_eq!([limit("GatewayBackupBehind"), limit("GatewayStandbyBehind")], [BEHIND_S; 2]);
        assert_eq!([limit("GatewayDiskFilling"), limit("GatewayTierFilling")], [FREE_BYTES; 2]);
    }
}
