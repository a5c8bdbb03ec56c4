//! Messages between the coordinator and its nodes: one JSON object per line.

use std::collections::BTreeMap;
use std::io::{self, BufRead};

use serde::{Deserialize, Serialize};

use super::consistency::ConsistencyJob;
use plimsoll_base::machine::Machine;
use plimsoll_consistency::clients::Event;
use plimsoll_workload::schedule::plan::{EndedRamp, RampId, RampStep};

/// Work of a fleet, which is the same for all nodes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Version of Plimsoll that the coordinator runs. Nodes with another version refuse the job.
    pub version: String,
    /// Check of consistency to execute instead of the experiment.
    #[serde(default)]
    pub consistency: Option<ConsistencyJob>,
    /// Resolved experiment as TOML; empty for a check of consistency.
    pub experiment: String,
    /// Number of nodes.
    pub of: u64,
    /// Time at which the fleet was started, in Unix nanoseconds; part of the run id.
    pub created_unix_ns: i64,
    /// True to keep the objects in the store.
    pub keep: bool,
    /// True to create a missing bucket.
    pub create_bucket: bool,
    /// True to log every operation.
    pub record_operations: bool,
    /// Number of worker threads of each node; `None` derives it.
    pub workers: Option<usize>,
    /// Location of the nodes, for the record.
    pub vantage: String,
    /// Path of a file of certificate authorities on the nodes.
    pub ca_bundle: Option<std::path::PathBuf>,
    /// Deadline of requests outside operations, in nanoseconds; `None` for the default.
    pub timeout_ns: Option<u64>,
    /// Maximum cost of all nodes together, in US dollars.
    pub max_cost: Option<String>,
    /// Texts of price books that override the built-in ones.
    pub prices: Vec<String>,
    /// True if the nodes are in the region of the store.
    pub in_region: bool,
    /// Command line of the coordinator, without secrets.
    pub command: Vec<String>,
    /// AWS credentials to use; `None` if each node has its own. The message is the only place where they occur.
    pub credentials: Option<ForwardedCredentials>,
}

/// Credentials that a coordinator sends to its nodes.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct ForwardedCredentials {
    /// Access key ID.
    pub access_key: String,
    /// Secret access key.
    pub secret_key: String,
    /// Session token; `None` for long-term credentials.
    pub token: Option<String>,
}

impl std::fmt::Debug for ForwardedCredentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ForwardedCredentials(redacted)")
    }
}

/// A message of the coordinator to all nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// The work. Sent first.
    Job(Box<Job>),
    /// Request for the node's clock, with a number.
    Ping(u64),
    /// Start of the measurement.
    Start {
        /// Start on the coordinator's clock, in Unix nanoseconds.
        at_unix_ns: i64,
        /// Each node's clock minus the coordinator's, in nanoseconds.
        offsets_ns: BTreeMap<u64, i64>,
    },
    /// All nodes have ended their measurement, so that objects may be deleted. The named node also deletes those of
    /// nodes that were lost.
    CleanUp {
        /// Node that deletes the objects of lost nodes; `None` if none was lost.
        for_all: Option<u64>,
    },
    /// End of a ramp, because all nodes together have reached its plateau.
    EndRamp {
        /// Ramp that ends.
        ramp: RampId,
        /// Steps that count, and the reason.
        end: EndedRamp,
    },
    /// Request to return half of the unspent cost limit, for a node that needs it.
    ReturnBudget {
        /// Node that asked, which returns nothing.
        except: u64,
    },
    /// Money that other nodes have returned.
    GrantBudget {
        /// Node that receives it.
        node: u64,
        /// Amount in picodollars.
        pico_usd: u64,
    },
    /// End of the run; results so far are kept.
    Stop,
}

/// Properties of a node before the run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// Version of Plimsoll on the node.
    pub version: String,
    /// Machine of the node.
    pub machine: Machine,
    /// Process id of the node's process.
    pub pid: u32,
    /// Maximum number of open files.
    pub open_files: Option<u64>,
}

/// Facts about a store as a node sees it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Reached {
    /// URL of the store, without credentials.
    pub store: String,
    /// Addresses that the endpoint resolves to.
    pub addresses: Vec<String>,
    /// Round-trip time in milliseconds; `None` if unknown.
    pub rtt_ms: Option<f64>,
    /// The store's clock minus the node's clock, in seconds; `None` if unknown.
    pub clock_offset_s: Option<i64>,
}

/// Counts of one second of one phase and operation on a node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// Name of the phase.
    pub phase: String,
    /// Kind of operation.
    pub operation: String,
    /// Successful operations that ended in this second.
    pub completed: u64,
    /// Operations that failed in this second.
    pub failed: u64,
    /// Object bytes delivered.
    pub bytes: f64,
    /// Service times of the successful operations: a compressed HdrHistogram V2 in base64.
    pub service: String,
}

/// Content of a message of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// The node is ready for the job. Sent first.
    Hello(Box<Hello>),
    /// Answer to [`Command::Ping`]: its number, and the node's clock in Unix nanoseconds.
    Pong(u64, i64),
    /// The stores answered.
    Reached(Vec<Reached>),
    /// The node has prepared its objects and waits for [`Command::Start`].
    Prepared,
    /// A line for the user.
    Note(String),
    /// Counts of one second.
    Second(Second),
    /// Answers to the clients of a check of consistency, with times in Unix nanoseconds of the node's clock.
    Events(Vec<Event>),
    /// A step of a ramp has ended.
    Step(RampStep),
    /// The node has spent most of its share of the cost limit.
    NeedsBudget,
    /// Picodollars of the node's share of the cost limit that others may spend.
    Budget(u64),
    /// The measurement has ended; the node waits for [`Command::CleanUp`].
    Measured,
    /// A part of a file of the run directory, in base64.
    File {
        /// Name of the file, without directories.
        name: String,
        /// Next bytes of the file, in base64.
        data: String,
    },
    /// The node died; sent by a carrier of several nodes. The text names the cause.
    Lost(String),
    /// The node has ended, and all files have been sent. Sent last.
    Ended {
        /// Name of the run directory; empty if there is none.
        run: String,
        /// Exit code that `plimsoll run` would have.
        code: i32,
        /// Error message; empty if there is none.
        message: String,
    },
}

/// A message of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FromNode {
    /// Number of the node, from 0.
    pub node: u64,
    /// Content of the message.
    pub report: Report,
}

/// Maximum length of a message in bytes, far above that of any experiment.
pub const MAX_LINE: u64 = 16 << 20;

/// Reads the next line without its end; `None` at the end of the stream.
///
/// # Errors
/// If the stream fails or the line is longer than [`MAX_LINE`].
pub fn read_line(stream: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    let read = io::Read::take(&mut *stream, MAX_LINE).read_until(b'\n', &mut line)?;
    if read == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if read as u64 == MAX_LINE {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a message is too long"));
    }
    Ok(Some(String::from_utf8_lossy(&line).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_a_round_trip_as_one_line() {
        let report = Report::Ended { run: "r".into(), code: 0, message: "two\nlines".into() };
        let line = serde_json::to_string(&FromNode { node: 3, report: report.clone() }).unwrap();
        assert!(!line.contains('\n'));
        assert_eq!(serde_json::from_str::<FromNode>(&line).unwrap(), FromNode { node: 3, report });
        let command = Command::Start { at_unix_ns: 5, offsets_ns: BTreeMap::from([(2, -7)]) };
        let line = serde_json::to_string(&command).unwrap();
        assert_eq!(serde_json::from_str::<Command>(&line).unwrap(), command);
    }

    #[test]
    fn forwarded_credentials_are_not_part_of_debug_output() {
        let credentials =
            ForwardedCredentials { access_key: "AKIA".into(), secret_key: "hidden".into(), token: None };
        let job = Job { credentials: Some(credentials), ..Job::default() };
        assert!(!format!("{job:?}").contains("hidden"));
    }

    #[test]
    fn lines_are_read_without_their_ends_and_endless_lines_are_refused() {
        let mut stream = io::Cursor::new(b"one\ntwo".to_vec());
        assert_eq!(read_line(&mut stream).unwrap().as_deref(), Some("one"));
        assert_eq!(read_line(&mut stream).unwrap().as_deref(), Some("two"));
        assert_eq!(read_line(&mut stream).unwrap(), None);
        let mut endless = io::BufReader::new(io::repeat(b'x'));
        assert!(read_line(&mut endless).is_err());
    }
}
