//! `environment.json`: the versions, the machine and the stores of a run. It never contains a secret.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::MAX_TEXT;
use super::sums;
use super::write::write_whole;
use plimsoll_base::files::read_text;
use plimsoll_base::machine::Machine;

/// Conditions of a run that the experiment does not describe and that are needed to repeat it.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq)]
pub struct Environment {
    /// Version of Plimsoll.
    pub version: String,
    /// Commit of the sources in hexadecimal digits. `None` if `make dist` did not build the program, or if an earlier
    /// version made the run.
    #[serde(default)]
    pub commit: Option<String>,
    /// SHA-256 of the program file that made the run, in hexadecimal digits. `None` if a debug build or an earlier
    /// version made it.
    #[serde(default)]
    pub program_sha256: Option<String>,
    /// Id of the run.
    #[serde(default)]
    pub run: String,
    /// Keys that the run may have created below its roots.
    #[serde(default)]
    pub owns: Ownership,
    /// Directory of local files that the run created and `plimsoll clean` removes; `None` if there is none.
    #[serde(default)]
    pub files: Option<PathBuf>,
    /// Command line of the run.
    pub command: Vec<String>,
    /// Location of the client, from `--vantage`; may be empty.
    pub vantage: String,
    /// Process id of the run.
    pub pid: u32,
    /// Machine that ran the client.
    pub machine: Machine,
    /// Number of worker threads.
    pub workers: usize,
    /// Start of second 0 of the interval log by the client's clock, in Unix seconds.
    #[serde(default)]
    pub origin_unix_s: f64,
    /// Number of the shard (from 0) and number of shards. `None` if the run is not a shard.
    #[serde(default)]
    pub shard: Option<(u64, u64)>,
    /// Stores in the order of the experiment.
    pub stores: Vec<StoreFacts>,
}

impl Environment {
    /// Returns the memory of the client's machine in bytes if it also has all stores; `None` if one is elsewhere, or
    /// the memory is not known.
    pub fn memory_of_local_stores(&self) -> Option<u64> {
        let is_loopback = |address: &String| {
            let host = address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host);
            host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
        };
        let here = self.stores.iter().flat_map(|store| &store.addresses).all(is_loopback);
        let memory = self.machine.memory_bytes;
        (here && !self.stores.is_empty() && memory > 0).then_some(memory)
    }
}

/// Keys below its roots that a run may have created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ownership {
    /// Keys of the datasets of its experiment.
    #[default]
    Datasets,
    /// Keys of the checks of a store: those of `plimsoll probe` and of `plimsoll run consistency`.
    #[serde(alias = "everything")]
    Checks,
}

/// Facts about a store at the start of the run.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq)]
pub struct StoreFacts {
    /// URL as the user wrote it, without credentials.
    pub url: String,
    /// Provider of the store.
    pub provider: String,
    /// Endpoint in the form `scheme://host:port`.
    pub endpoint: String,
    /// Region of the store; `None` if unknown.
    #[serde(default)]
    pub region: Option<String>,
    /// Storage class of written objects; `None` for the default class.
    #[serde(default)]
    pub storage_class: Option<String>,
    /// IP addresses in use.
    pub addresses: Vec<String>,
    /// Authentication of the requests in words, such as `none`, `signed payload` or `unsigned payload`.
    pub signing: String,
    /// Prefix of all keys that the run creates.
    pub root: String,
    /// Duration of a TCP handshake before the run, in milliseconds: about one round trip.
    pub rtt_ms: Option<f64>,
    /// Duration of a TLS handshake before the run, in milliseconds; `None` without TLS.
    pub tls_ms: Option<f64>,
    /// Store's clock minus the client's clock, in whole seconds, from the Date header.
    pub clock_offset_s: Option<i64>,
    /// True if the run wrote to the store and has not cleaned up yet.
    pub uncleaned: bool,
}

/// Writes `environment.json` into a run directory, and its new checksum if the run has finished.
///
/// # Errors
/// Fails if the file cannot be written, for example because the disk is full.
pub fn write_environment(path: &Path, environment: &Environment) -> io::Result<()> {
    let text = serde_json::to_string_pretty(environment).map_err(io::Error::other)?;
    write_whole(&path.join("environment.json"), &(text + "\n"))?;
    sums::renew(path, "environment.json")
}

/// Reads `environment.json` of a run directory.
///
/// # Errors
/// Fails if the file does not exist or is invalid.
pub fn read_environment(path: &Path) -> io::Result<Environment> {
    let text = read_text(&path.join("environment.json"), MAX_TEXT)?;
    serde_json::from_str(&text).map_err(io::Error::other)
}
