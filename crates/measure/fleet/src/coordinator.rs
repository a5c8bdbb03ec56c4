//! Starts the nodes, tells them when to start and to clean up, and collects their results.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use super::budget::Pool;
use super::clocks::{Clocks, Offset};
use super::collect::Collection;
use super::consistency::on_our_clock;
use super::launcher::Launcher;
use super::live::Live;
use super::message::{Command, FromNode, Job, Report, read_line};
use super::preflight::{NodeFacts, findings};
use super::ramps::Ramps;
use plimsoll_base::clock::{MILLISECOND, SECOND, now_ns, sleep_until, wall_now};
use plimsoll_base::text::one_line;
use plimsoll_consistency::clients::Event as ConsistencyEvent;
use plimsoll_engine::driver::Control;

/// Error of a fleet that could not start or whose results could not be received.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// A child process could not be started.
    #[error("{command}: {reason}; is it installed?")]
    Start {
        /// Program of the child process.
        command: String,
        /// Error of the system.
        reason: io::Error,
    },
    /// Nodes did not start, or ended before the measurement.
    #[error("{0}")]
    Nodes(String),
    /// A file of a node could not be written.
    #[error("--out {path}: {reason}; choose another directory")]
    Out {
        /// Directory of the results.
        path: PathBuf,
        /// Error of the system.
        reason: io::Error,
    },
    /// A thread or a pipe could not be created.
    #[error("the fleet could not be started: {0}")]
    System(#[from] io::Error),
}

/// Receiver of the progress of a fleet.
pub trait FleetObserver {
    /// Receives a line that the user should read.
    fn note(&self, line: &str);

    /// Receives the rates and latencies of the nodes, about once a second during the measurement.
    fn progress(&self, live: &Live);

    /// Receives answers to the clients of a check of consistency, with times in Unix nanoseconds of this host's clock.
    fn events(&self, events: Vec<ConsistencyEvent>) {
        drop(events);
    }
}

/// Exit code and message of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// Exit code; `None` if the node died or its connection broke.
    pub code: Option<i32>,
    /// Error message; empty if there is none.
    pub message: String,
}

/// Results of a fleet.
pub struct Collected {
    /// Run directories by node.
    pub runs: BTreeMap<u64, PathBuf>,
    /// End of each node.
    pub ends: BTreeMap<u64, End>,
    /// Facts about each node.
    pub facts: BTreeMap<u64, NodeFacts>,
    /// Rates and latencies of the nodes.
    pub live: Live,
    /// Time from the first process start to the common start, in nanoseconds; `None` if there was none.
    pub launch_ns: Option<u64>,
}

/// Number of pings that determine the clock offsets, and the time between two.
const PINGS: (u64, u64) = (8, 20 * MILLISECOND);
/// Time from the message about the start to the start itself, in addition to the slowest round trip.
const LEAD_NS: i64 = 500_000_000;

/// Time within which nodes stop after an error, in nanoseconds.
const STOP_NS: u64 = 20 * SECOND;

/// Line of a carrier, or its end.
enum Event {
    Message(FromNode),
    /// A line of a carrier that is not a message, such as an error of ssh.
    Text(usize, String),
    /// The output of a carrier has ended.
    Closed(usize),
}

/// Progress of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Launched,
    Ready,
    Prepared,
    Measured,
    Ended,
}

/// A child process with the nodes whose messages it carries.
struct Running {
    child: Child,
    nodes: Vec<u64>,
    /// Last line that was not a message.
    last_text: String,
}

/// A fleet in progress.
struct Fleet<'a> {
    names: &'a [String],
    carriers: Vec<Running>,
    events: Receiver<Event>,
    stages: BTreeMap<u64, Stage>,
    facts: BTreeMap<u64, NodeFacts>,
    ends: BTreeMap<u64, End>,
    clocks: Clocks,
    pings: u64,
    collection: Collection,
    out: &'a Path,
    live: Live,
    ramps: Ramps,
    budget: Pool,
    noted: BTreeSet<String>,
    observer: &'a dyn FleetObserver,
    control: &'a Control,
    stopping: bool,
}

fn unix_ns() -> i64 {
    wall_now().as_nanosecond() as i64
}

/// Starts the reader threads of a child process.
fn read(carrier: usize, child: &mut Child, events: &Sender<Event>) -> io::Result<()> {
    let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else { return Ok(()) };
    let spawn = |stream: Box<dyn Read + Send>, last: bool| {
        let events = events.clone();
        let forward = move || {
            let mut stream = BufReader::new(stream);
            while let Ok(Some(line)) = read_line(&mut stream) {
                let event = match serde_json::from_str(&line) {
                    Ok(message) => Event::Message(message),
                    Err(_) if line.trim().is_empty() => continue,
                    Err(_) => Event::Text(carrier, one_line(&line).into_owned()),
                };
                if events.send(event).is_err() {
                    break;
                }
            }
            if last {
                let _ = events.send(Event::Closed(carrier));
            }
        };
        thread::Builder::new().name(format!("fleet-{carrier}")).spawn(forward).map(|_| ())
    };
    spawn(Box::new(stderr), false)?;
    spawn(Box::new(stdout), true)
}

impl Fleet<'_> {
    /// Sends a command to all nodes. A broken pipe is noticed by the reader.
    fn broadcast(&mut self, command: &Command) {
        let Ok(mut line) = serde_json::to_string(command) else { return };
        line.push('\n');
        for carrier in &mut self.carriers {
            if let Some(stdin) = carrier.child.stdin.as_mut() {
                let _ = stdin.write_all(line.as_bytes()).and_then(|()| stdin.flush());
            }
        }
    }

    fn name(&self, node: u64) -> String {
        let name = self.names.get(node as usize).map_or("", String::as_str);
        format!("node {} ({name})", node + 1)
    }

    /// Processes events until `done` or the deadline on the monotonic clock. Returns false at the deadline.
    fn until(&mut self, deadline_ns: u64, done: impl Fn(&Fleet<'_>) -> bool) -> Result<bool, FleetError> {
        let mut shown_ns = now_ns();
        loop {
            if done(self) {
                return Ok(true);
            }
            if now_ns() >= deadline_ns {
                return Ok(false);
            }
            if self.control.stopped_at().is_some() && !std::mem::replace(&mut self.stopping, true) {
                self.broadcast(&Command::Stop);
            }
            if now_ns() >= shown_ns + SECOND {
                shown_ns = now_ns();
                self.observer.progress(&self.live);
            }
            match self.events.recv_timeout(Duration::from_millis(20)) {
                Ok(event) => self.on(event)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(done(self)),
            }
        }
    }

    fn on(&mut self, event: Event) -> Result<(), FleetError> {
        match event {
            Event::Message(FromNode { node, report }) if self.stages.contains_key(&node) => {
                return self.on_report(node, report);
            }
            Event::Message(_) => {}
            Event::Text(carrier, text) => {
                self.once(text.clone());
                self.carriers[carrier].last_text = text;
            }
            Event::Closed(carrier) => {
                for node in self.carriers[carrier].nodes.clone() {
                    let text = &self.carriers[carrier].last_text;
                    let cause = if text.is_empty() { "its output ended" } else { text.as_str() }.to_string();
                    self.lose(node, cause);
                }
            }
        }
        Ok(())
    }

    /// Records that a node died, unless it had ended.
    fn lose(&mut self, node: u64, cause: String) {
        if self.stages[&node] == Stage::Ended {
            return;
        }
        if self.stages[&node] >= Stage::Prepared && !self.stopping {
            let of = self.names.len();
            self.observer.note(&format!(
                "{} is lost: {cause}; 1/{of} of the load is missing from now on",
                self.name(node)
            ));
        }
        self.stages.insert(node, Stage::Ended);
        self.ends.insert(node, End { code: None, message: cause });
    }

    /// Passes a line on to the user once, because all nodes tend to have the same notes.
    fn once(&mut self, line: String) {
        if self.noted.insert(line.clone()) {
            self.observer.note(&line);
        }
    }

    fn advance(&mut self, node: u64, stage: Stage) {
        let current = self.stages.entry(node).or_insert(stage);
        *current = (*current).max(stage);
    }

    fn on_report(&mut self, node: u64, report: Report) -> Result<(), FleetError> {
        let out = |reason: io::Error| FleetError::Out { path: self.out.to_path_buf(), reason };
        match report {
            Report::Hello(hello) => {
                self.facts.entry(node).or_default().hello = *hello;
                self.advance(node, Stage::Ready);
            }
            Report::Pong(number, node_ns) => self.clocks.answered(node, number, node_ns, unix_ns()),
            Report::Reached(stores) => self.facts.entry(node).or_default().reached = stores,
            Report::Prepared => self.advance(node, Stage::Prepared),
            Report::Note(line) => self.once(line),
            Report::Second(second) => self.live.add(node, &second, now_ns()),
            Report::Lost(cause) => self.lose(node, one_line(&cause).into_owned()),
            Report::Events(events) => {
                let offset = self.facts.get(&node).and_then(|facts| facts.offset);
                let offset = offset.unwrap_or(Offset { offset_ns: 0, error_ns: 0 });
                self.observer.events(events.into_iter().map(|event| on_our_clock(event, offset)).collect());
            }
            Report::Step(step) => {
                let measuring = |stage: &Stage| (Stage::Prepared..=Stage::Measured).contains(stage);
                let alive = self.stages.iter().filter(|(_, s)| measuring(s)).map(|(node, _)| *node).collect();
                if let Some(end) = self.ramps.report(node, &step, &alive) {
                    self.broadcast(&Command::EndRamp { ramp: step.ramp, end });
                }
            }
            Report::NeedsBudget => self.budget.ask(node).iter().for_each(|command| self.broadcast(command)),
            Report::Budget(pico_usd) => {
                self.budget.returned(pico_usd).iter().for_each(|command| self.broadcast(command));
            }
            Report::Measured => self.advance(node, Stage::Measured),
            Report::File { name, data } => self.collection.append(node, &name, &data).map_err(out)?,
            Report::Ended { run, code, message } => {
                self.collection.end(node, &run).map_err(out)?;
                self.advance(node, Stage::Ended);
                self.ends.insert(node, End { code: Some(code), message });
            }
        }
        Ok(())
    }

    fn all_at_least(&self, stage: Stage) -> bool {
        self.stages.values().all(|s| *s >= stage)
    }

    /// Measures the clock offsets of all nodes.
    fn measure_clocks(&mut self) -> Result<BTreeMap<u64, Offset>, FleetError> {
        for _ in 0..PINGS.0 {
            self.pings += 1;
            self.clocks.sent(self.pings, unix_ns());
            self.broadcast(&Command::Ping(self.pings));
            let (pings, next_ns) = (self.pings, now_ns() + PINGS.1);
            self.until(next_ns, |fleet| {
                fleet.stages.iter().all(|(n, s)| *s == Stage::Ended || fleet.clocks.answers(*n) >= pings)
            })?;
        }
        Ok(self.clocks.offsets())
    }

    /// Describes the nodes that have ended before the measurement; `None` if there are none.
    fn failures(&self) -> Option<String> {
        let (node, end) = self.ends.iter().next()?;
        let others = match self.ends.len() - 1 {
            0 => String::new(),
            n => format!(" ({n} other nodes failed too)"),
        };
        Some(format!("{} failed before the measurement: {}{others}", self.name(*node), end.message))
    }

    /// Waits for all nodes and starts them together.
    fn start(&mut self, launch_timeout_ns: u64) -> Result<(), FleetError> {
        let deadline = now_ns() + launch_timeout_ns;
        if !self.until(deadline, |fleet| fleet.all_at_least(Stage::Ready))? {
            let late: Vec<String> =
                self.stages.iter().filter(|(_, s)| **s < Stage::Ready).map(|(n, _)| self.name(*n)).collect();
            return Err(FleetError::Nodes(format!(
                "{} did not start within {} s; check the engine, or use a longer --launch-timeout",
                late.join(", "),
                launch_timeout_ns / SECOND
            )));
        }
        self.until(u64::MAX, |fleet| {
            fleet.all_at_least(Stage::Prepared) || !fleet.ends.is_empty() || fleet.stopping
        })?;
        if let Some(text) = self.failures() {
            return Err(FleetError::Nodes(text));
        }
        // Prepared nodes are idle, so their answers are fast.
        let offsets = self.measure_clocks()?;
        for (node, offset) in &offsets {
            self.facts.entry(*node).or_default().offset = Some(*offset);
        }
        findings(&self.facts).iter().for_each(|line| self.observer.note(line));
        let slowest = offsets.values().map(|offset| 2 * offset.error_ns).max().unwrap_or(0);
        let offsets_ns = offsets.iter().map(|(node, offset)| (*node, offset.offset_ns)).collect();
        let at_unix_ns = unix_ns() + LEAD_NS + slowest;
        self.broadcast(&Command::Start { at_unix_ns, offsets_ns });
        Ok(())
    }

    /// Waits until the measurement has ended on all nodes, lets them clean up, and receives their results, until a
    /// deadline on the monotonic clock.
    fn finish(&mut self, deadline_ns: u64) -> Result<(), FleetError> {
        self.until(deadline_ns, |fleet| fleet.all_at_least(Stage::Measured))?;
        let lost = self.ends.values().any(|end| end.code.is_none());
        let alive = self.stages.iter().find(|(_, stage)| **stage < Stage::Ended).map(|(node, _)| *node);
        self.broadcast(&Command::CleanUp { for_all: alive.filter(|_| lost) });
        self.until(deadline_ns, |fleet| fleet.all_at_least(Stage::Ended))?;
        Ok(())
    }

    /// Ends all child processes: closes their input, and kills those that have not ended after ten seconds.
    fn end(&mut self) {
        for carrier in &mut self.carriers {
            drop(carrier.child.stdin.take());
        }
        let deadline = now_ns() + 10 * SECOND;
        for carrier in &mut self.carriers {
            while now_ns() < deadline && matches!(carrier.child.try_wait(), Ok(None)) {
                sleep_until(now_ns() + 10 * MILLISECOND);
            }
            let _ = carrier.child.kill();
            let _ = carrier.child.wait();
        }
        self.collection.discard_incomplete(self.names.len() as u64);
    }
}

/// Starts the child processes of a launcher.
fn launch(launcher: &dyn Launcher, events: &Sender<Event>) -> Result<Vec<Running>, FleetError> {
    let mut running = Vec::new();
    for (index, mut carrier) in launcher.carriers().into_iter().enumerate() {
        let command = carrier.command.get_program().to_string_lossy().into_owned();
        carrier.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C reaches only the coordinator, which then stops the nodes in order.
        std::os::unix::process::CommandExt::process_group(&mut carrier.command, 0);
        let mut child = carrier.command.spawn().map_err(|reason| FleetError::Start { command, reason })?;
        read(index, &mut child, events)?;
        running.push(Running { child, nodes: carrier.nodes, last_text: String::new() });
    }
    Ok(running)
}

/// Runs a job on the nodes of a launcher, and writes their run directories below `out`. Nodes that do not start within
/// `launch_timeout_ns` are an error; nodes that die later are part of the result.
///
/// # Errors
/// A [`FleetError`] if nothing was measured, or results could not be written.
pub fn run(
    launcher: &dyn Launcher,
    job: &Job,
    out: &Path,
    launch_timeout_ns: u64,
    observer: &dyn FleetObserver,
    control: &Control,
) -> Result<Collected, FleetError> {
    let began_ns = now_ns();
    let collection =
        Collection::create(out).map_err(|reason| FleetError::Out { path: out.to_path_buf(), reason })?;
    let (sender, events) = channel();
    let carriers = launch(launcher, &sender)?;
    drop(sender);
    let names = launcher.nodes();
    let mut fleet = Fleet {
        names,
        carriers,
        events,
        stages: (0..names.len() as u64).map(|node| (node, Stage::Launched)).collect(),
        facts: BTreeMap::new(),
        ends: BTreeMap::new(),
        clocks: Clocks::default(),
        pings: 0,
        collection,
        out,
        live: Live::default(),
        ramps: Ramps::default(),
        budget: Pool::default(),
        noted: BTreeSet::new(),
        observer,
        control,
        stopping: false,
    };
    fleet.broadcast(&Command::Job(Box::new(job.clone())));
    let started = fleet.start(launch_timeout_ns);
    let launch_ns = started.is_ok().then(|| now_ns() - began_ns + LEAD_NS as u64);
    let finished = match started {
        Ok(()) => fleet.finish(u64::MAX),
        Err(error) => {
            // Let the other nodes clean up. Those that have not started are killed.
            fleet.stopping = true;
            fleet.broadcast(&Command::Stop);
            let waiting = |fleet: &Fleet<'_>| {
                fleet.stages.values().all(|s| !(Stage::Ready..Stage::Measured).contains(s))
            };
            let _ = fleet.until(now_ns() + STOP_NS, waiting);
            fleet.stages.values_mut().filter(|s| **s < Stage::Ready).for_each(|s| *s = Stage::Ended);
            let _ = fleet.finish(now_ns() + STOP_NS);
            Err(error)
        }
    };
    fleet.end();
    finished?;
    let Fleet { collection, ends, facts, live, .. } = fleet;
    Ok(Collected { runs: collection.complete().clone(), ends, facts, live, launch_ns })
}
