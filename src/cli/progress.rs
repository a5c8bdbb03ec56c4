//! The live line on a terminal: which phase, how far, how fast, how long still. Nothing at all where there is no terminal.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::clock::{SECOND, now_ns};
use crate::recorder::collector::WindowState;
use crate::schedule::Phase;
use crate::units::{format_count, format_ms, format_throughput};

/// The live line of one store's run.
pub struct Progress {
    bar: Option<ProgressBar>,
    phases: Vec<(String, Option<u64>)>,
}

impl Progress {
    /// A line on standard error, when that is a terminal and `quiet` is not set.
    pub fn new(store: &str, phases: &[Phase], quiet: bool) -> Progress {
        let bar = (std::io::stderr().is_terminal() && !quiet).then(|| {
            let total: u64 = phases.iter().filter_map(|p| p.limit.duration_ns).sum();
            let bar = ProgressBar::with_draw_target(Some(total / 1_000_000), ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{prefix} [{bar:24}] {msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
            bar.set_prefix(store.chars().take(32).collect::<String>());
            bar.set_message("starting");
            bar.enable_steady_tick(Duration::from_millis(250));
            bar
        });
        let phases = phases.iter().map(|p| (p.name.clone(), p.limit.duration_ns)).collect();
        Progress { bar, phases }
    }

    /// Shows the sums as they stand.
    pub fn show(&self, windows: &[WindowState]) {
        let Some(bar) = &self.bar else { return };
        let Some(current) = windows.iter().rposition(|w| w.edges.is_some()) else { return };
        let (name, _) = &self.phases[current];
        let started = windows[current].edges.map_or(0, |e| e.start_ns);
        let now = now_ns();
        let before: u64 = self.phases[..current].iter().filter_map(|(_, d)| *d).sum();
        let here = self.phases[current].1.map_or(0, |d| now.saturating_sub(started).min(d));
        let total: u64 = self.phases.iter().filter_map(|(_, d)| *d).sum();
        let left = total.saturating_sub(before + here) / SECOND;
        let tallies = windows[current].tallies.values();
        let (mut done, mut bytes, mut failed) = (0, 0.0, 0);
        let mut service = crate::recorder::histogram::Latencies::default();
        for tally in tallies {
            done += tally.succeeded;
            bytes += tally.bytes;
            failed += tally.failures();
            service.merge(&tally.service);
        }
        let seconds = (now.saturating_sub(started) as f64 / SECOND as f64).max(0.001);
        let quantile = |q| service.quantile_ns(q).map_or("-".into(), |ns| format_ms(ns as f64 / 1e6));
        let errors = if failed > 0 { format!(", {} FAILED", format_count(failed)) } else { String::new() };
        bar.set_position((before + here) / 1_000_000);
        bar.set_message(format!(
            "{name}: {:.0}/s, {}, p50 {} p99 {} ms{errors}, {left} s left",
            done as f64 / seconds,
            format_throughput(bytes / seconds),
            quantile(0.5),
            quantile(0.99),
        ));
    }

    /// Says what is going on outside of phases.
    pub fn say(&self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(text.to_string());
        }
    }

    /// Takes the line away.
    pub fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
