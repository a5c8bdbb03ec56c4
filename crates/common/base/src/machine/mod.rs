//! The client machine: its properties, the resources that a run used, and disturbances such as CPU steal. Most
//! values come from `/proc` and `/sys`. A value that Linux does not report is absent, never guessed.

pub mod pauses;

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::clock::{now_ns, process_cpu_ns};

/// Properties of the machine that do not change during a run.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq)]
pub struct Machine {
    /// Host name of the machine.
    pub hostname: String,
    /// Name and release of the kernel.
    pub kernel: String,
    /// CPU model; `unknown` if Linux does not report it.
    pub cpu: String,
    /// Number of cores of the machine.
    pub cores: usize,
    /// Number of cores that affinity and quota allow this process to use.
    pub usable_cores: f64,
    /// CPU quota of the control group, in cores; `None` if there is none.
    pub cgroup_quota_cores: Option<f64>,
    /// Frequency governor of the first core; `None` if Linux does not report it.
    pub governor: Option<String>,
    /// EC2 instance type from the firmware; `None` on other machines.
    pub instance_type: Option<String>,
    /// Vendor of the machine or hypervisor from the firmware; `None` if it is not reported.
    pub vendor: Option<String>,
    /// Size of the memory, in bytes.
    pub memory_bytes: u64,
    /// Network interfaces and their speeds.
    pub links: Vec<Link>,
}

/// One network interface.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct Link {
    /// Name of the interface, such as `eth0`.
    pub name: String,
    /// Speed in bits per second; `None` if it is not known.
    pub bits_per_s: Option<u64>,
}

/// Returns the CPU time, in seconds, of all child processes that this process has waited for (`/proc/self/stat`,
/// fields 16 and 17, in ticks).
pub fn children_cpu_s() -> f64 {
    let text = read("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |field: usize| fields.get(field).and_then(|t| t.parse::<f64>().ok()).unwrap_or(0.0);
    // Field 3 is the first after the process name in brackets.
    (ticks(13) + ticks(14)) / rustix::param::clock_ticks_per_second() as f64
}

fn read(path: impl AsRef<Path>) -> Option<String> {
    let text = fs::read_to_string(path).ok()?.trim().to_string();
    (!text.is_empty()).then_some(text)
}

/// Returns the CPU quota of this process's control group, in cores (cgroup v2 `cpu.max`, v1 `cpu.cfs_quota_us`).
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

/// Returns the number of cores that affinity and quota allow this process to use.
pub fn usable_cores() -> f64 {
    let affinity = rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count() as usize);
    cgroup_quota().map_or(affinity as f64, |quota| quota.min(affinity as f64))
}

/// Returns the size of the memory of the machine in bytes (`/proc/meminfo`); 0 if it is not reported.
fn memory_bytes() -> u64 {
    let memory = read("/proc/meminfo").unwrap_or_default();
    let kib = memory.lines().find_map(|l| l.strip_prefix("MemTotal:"));
    kib.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Returns the memory limit of this process's control group in bytes (cgroup v2 `memory.max`, v1
/// `memory.limit_in_bytes`).
fn cgroup_memory() -> Option<u64> {
    let group = read("/proc/self/cgroup")
        .and_then(|t| Some(t.lines().find_map(|l| l.strip_prefix("0::"))?.to_string()));
    let limit = group
        .and_then(|g| read(format!("/sys/fs/cgroup{g}/memory.max")))
        .or_else(|| read("/sys/fs/cgroup/memory.max"))
        .or_else(|| read("/sys/fs/cgroup/memory/memory.limit_in_bytes"))?;
    limit.parse().ok()
}

/// Returns the number of bytes of memory that this process may use: the memory of the machine or the limit of the
/// control group, whichever is smaller. Returns `None` if neither is reported.
pub fn usable_memory_bytes() -> Option<u64> {
    let machine = Some(memory_bytes()).filter(|bytes| *bytes > 0);
    machine.into_iter().chain(cgroup_memory()).min()
}

impl Machine {
    /// Reads the properties of this machine.
    pub fn read() -> Machine {
        let info = read("/proc/cpuinfo").unwrap_or_default();
        let cpu = info.lines().find(|l| l.starts_with("model name")).and_then(|l| l.split_once(": "));
        let vendor = read("/sys/class/dmi/id/sys_vendor");
        let instance_type = match vendor.as_deref() {
            // On EC2 Nitro, the firmware reports the instance type as the product name.
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

/// Returns the number of files that this process may have open; `None` if it is unlimited.
pub fn open_files() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
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

/// Returns the peak resident set size of this process so far, in bytes.
pub fn peak_rss_bytes() -> u64 {
    let status = read("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Resource counters at one instant. [`Sample::until`] computes the usage between two samples.
#[derive(Debug, Clone, Default)]
pub struct Sample {
    at_ns: u64,
    process_cpu_ns: u64,
    stolen: u64,
    total: u64,
    links: Vec<(String, u64, u64)>,
}

/// Resources used between two samples.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Used {
    /// CPU time of this process, in nanoseconds.
    pub process_cpu_ns: u64,
    /// Share of CPU time that the hypervisor gave to other machines; `None` if Linux reports no CPU times.
    pub steal: Option<f64>,
    /// Name and utilisation (share of its speed) of the busiest interface; `None` if no speed is known.
    pub link: Option<(String, f64)>,
}

impl Sample {
    /// Reads the current counters.
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

    /// Returns the resources used between `self` and `later`.
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
    fn machine_properties_are_plausible() {
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
