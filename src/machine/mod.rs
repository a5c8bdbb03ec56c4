//! The machine that measures: what it may use, what it used, and what could have disturbed it. Linux tells through `/proc`
//! and `/sys`; where it does not, a fact is absent, never guessed.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::clock::{now_ns, process_cpu_ns};

/// Facts that do not change while a run lasts.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq)]
pub struct Machine {
    /// Host name.
    pub hostname: String,
    /// Kernel and release.
    pub kernel: String,
    /// CPU model.
    pub cpu: String,
    /// Cores of the machine.
    pub cores: usize,
    /// Cores that this process may use, by affinity and quota.
    pub usable_cores: f64,
    /// CPU quota of the control group in cores, when there is one.
    pub cgroup_quota_cores: Option<f64>,
    /// Frequency governor of the first core, when it is told.
    pub governor: Option<String>,
    /// Instance type, when the firmware names one (EC2).
    pub instance_type: Option<String>,
    /// Who made the machine or hypervisor, when the firmware tells.
    pub vendor: Option<String>,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Network interfaces with their speed in bits per second, where it is known.
    pub links: Vec<Link>,
}

/// One network interface.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct Link {
    /// Name.
    pub name: String,
    /// Speed in bits per second, when it is known.
    pub bits_per_s: Option<u64>,
}

/// CPU time of all processes that this one has started and waited for, in seconds (`/proc/self/stat`, fields 16 and 17, in ticks).
pub fn children_cpu_s() -> f64 {
    let text = read("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |field: usize| fields.get(field).and_then(|t| t.parse::<f64>().ok()).unwrap_or(0.0);
    // What follows the name in brackets begins with field 3.
    (ticks(13) + ticks(14)) / rustix::param::clock_ticks_per_second() as f64
}

fn read(path: impl AsRef<Path>) -> Option<String> {
    let text = fs::read_to_string(path).ok()?.trim().to_string();
    (!text.is_empty()).then_some(text)
}

/// The quota of this process's control group, in cores (cgroup v2 `cpu.max`, v1 `cpu.cfs_quota_us`).
fn cgroup_quota() -> Option<f64> {
    let group = read("/proc/self/cgroup")
        .and_then(|t| Some(t.lines().find_map(|l| l.strip_prefix("0::"))?.to_string()));
    let v2 = group
        .and_then(|g| read(format!("/sys/fs/cgroup{g}/cpu.max")))
        .or_else(|| read("/sys/fs/cgroup/cpu.max"));
    if let Some(text) = v2 {
        let (quota, period) = text.split_once(' ')?;
        return Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?);
    }
    let quota: f64 = read("/sys/fs/cgroup/cpu/cpu.cfs_quota_us")?.parse().ok()?;
    let period: f64 = read("/sys/fs/cgroup/cpu/cpu.cfs_period_us")?.parse().ok()?;
    (quota > 0.0).then_some(quota / period)
}

/// Cores that this process may use at most.
pub fn usable_cores() -> f64 {
    let affinity = rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count() as usize);
    cgroup_quota().map_or(affinity as f64, |quota| quota.min(affinity as f64))
}

/// Bytes of memory of the machine (`/proc/meminfo`).
fn memory_bytes() -> u64 {
    let memory = read("/proc/meminfo").unwrap_or_default();
    let kib = memory.lines().find_map(|l| l.strip_prefix("MemTotal:"));
    kib.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// The memory limit of this process's control group in bytes (cgroup v2 `memory.max`, v1 `memory.limit_in_bytes`).
fn cgroup_memory() -> Option<u64> {
    let group = read("/proc/self/cgroup")
        .and_then(|t| Some(t.lines().find_map(|l| l.strip_prefix("0::"))?.to_string()));
    let limit = group
        .and_then(|g| read(format!("/sys/fs/cgroup{g}/memory.max")))
        .or_else(|| read("/sys/fs/cgroup/memory.max"))
        .or_else(|| read("/sys/fs/cgroup/memory/memory.limit_in_bytes"))?;
    limit.parse().ok()
}

/// Bytes of memory that this process may use at most; `None` if the machine does not report its memory.
pub fn usable_memory_bytes() -> Option<u64> {
    let machine = Some(memory_bytes()).filter(|bytes| *bytes > 0);
    machine.into_iter().chain(cgroup_memory()).min()
}

impl Machine {
    /// Reads the facts.
    pub fn read() -> Machine {
        let info = read("/proc/cpuinfo").unwrap_or_default();
        let cpu = info.lines().find(|l| l.starts_with("model name")).and_then(|l| l.split_once(": "));
        let vendor = read("/sys/class/dmi/id/sys_vendor");
        let instance_type = match vendor.as_deref() {
            // On EC2 Nitro the firmware's product name is the instance type.
            Some("Amazon EC2") => read("/sys/class/dmi/id/product_name"),
            _ => None,
        };
        Machine {
            hostname: read("/proc/sys/kernel/hostname").unwrap_or_default(),
            kernel: format!("Linux {}", read("/proc/sys/kernel/osrelease").unwrap_or_default()),
            cpu: cpu.map_or("unknown", |(_, model)| model).to_string(),
            cores: info.lines().filter(|l| l.starts_with("processor")).count().max(1),
            usable_cores: usable_cores(),
            cgroup_quota_cores: cgroup_quota(),
            governor: read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            instance_type,
            vendor,
            memory_bytes: memory_bytes(),
            links: links(),
        }
    }
}

fn links() -> Vec<Link> {
    let Ok(entries) = fs::read_dir("/sys/class/net") else { return Vec::new() };
    let mut out: Vec<Link> = entries
        .flatten()
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            let megabits: Option<i64> = read(entry.path().join("speed")).and_then(|s| s.parse().ok());
            Link { name, bits_per_s: megabits.filter(|m| *m > 0).map(|m| m as u64 * 1_000_000) }
        })
        .collect();
    out.sort_by(|a, b| a.name.cmp(&b.name));
    out
}

/// Largest resident set of this process so far, in bytes.
pub fn peak_rss_bytes() -> u64 {
    let status = read("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Counters at one instant; two of them tell what was used in between.
#[derive(Debug, Clone, Default)]
pub struct Sample {
    at_ns: u64,
    process_cpu_ns: u64,
    stolen: u64,
    total: u64,
    links: Vec<(String, u64, u64)>,
}

/// What was used between two samples.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Used {
    /// CPU time of this process, in nanoseconds.
    pub process_cpu_ns: u64,
    /// Share of CPU time that the hypervisor gave to others.
    pub steal: Option<f64>,
    /// Busiest link of known speed: name and share of its speed.
    pub link: Option<(String, f64)>,
}

impl Sample {
    /// Reads the counters.
    pub fn take() -> Sample {
        let mut sample = Sample { at_ns: now_ns(), process_cpu_ns: process_cpu_ns(), ..Sample::default() };
        let stat = read("/proc/stat").unwrap_or_default();
        let ticks: Vec<u64> = stat
            .lines()
            .next()
            .map(|l| l.split_whitespace().skip(1).filter_map(|n| n.parse().ok()).collect())
            .unwrap_or_default();
        sample.total = ticks.iter().take(8).sum();
        sample.stolen = ticks.get(7).copied().unwrap_or(0);
        for link in links() {
            let Some(speed) = link.bits_per_s else { continue };
            let counter = |name: &str| -> u64 {
                let path = format!("/sys/class/net/{}/statistics/{name}", link.name);
                read(path).and_then(|n| n.parse().ok()).unwrap_or(0)
            };
            let busier = counter("rx_bytes").max(counter("tx_bytes"));
            sample.links.push((link.name, busier, speed));
        }
        sample
    }

    /// What was used since `self`.
    pub fn until(&self, later: &Sample) -> Used {
        let seconds = later.at_ns.saturating_sub(self.at_ns) as f64 / 1e9;
        let share = |(name, bytes, speed): &(String, u64, u64)| {
            let before = self.links.iter().find(|(n, ..)| n == name)?.1;
            let used = bytes.saturating_sub(before) as f64 * 8.0 / seconds / *speed as f64;
            Some((name.clone(), used))
        };
        let busiest = later.links.iter().filter_map(share).max_by(|a, b| a.1.total_cmp(&b.1));
        let ticks = later.total.saturating_sub(self.total);
        Used {
            process_cpu_ns: later.process_cpu_ns.saturating_sub(self.process_cpu_ns),
            steal: (ticks > 0).then(|| later.stolen.saturating_sub(self.stolen) as f64 / ticks as f64),
            link: busiest.filter(|_| seconds > 0.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_plausible() {
        let machine = Machine::read();
        assert!(machine.cores >= 1 && machine.usable_cores > 0.0 && machine.memory_bytes > 1 << 20);
        assert!(peak_rss_bytes() > 1 << 20);
    }

    #[test]
    fn usage_is_the_difference_of_two_samples() {
        let sample = |at_ns, cpu, bytes| Sample {
            at_ns,
            process_cpu_ns: cpu,
            stolen: at_ns / 100,
            total: at_ns / 10,
            links: vec![("eth0".into(), bytes, 1_000_000_000)],
        };
        let used = sample(0, 5, 0).until(&sample(1_000_000_000, 105, 62_500_000));
        assert_eq!(used.process_cpu_ns, 100);
        assert_eq!(used.steal, Some(0.1));
        assert_eq!(used.link, Some(("eth0".into(), 0.5)));
    }
}
