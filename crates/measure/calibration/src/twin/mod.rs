//! The twin of a measured store for `plimsoll serve --like RUN`: its model, from the windows and the interval log of
//! runs.
//!
//! [`points`] sorts the windows by kind, size and load, [`failures`] translates failed operations and finds limits of
//! rates, [`course`] has the order of slow and fast stretches, and [`overhead`] measures what this host adds to every
//! answer. [`connections`] finds a limit of connections, [`findings`] reads violations of consistency, and [`profile`]
//! has stores with published times.

pub mod connections;
pub mod course;
pub mod failures;
pub mod findings;
pub mod overhead;
pub mod points;
pub mod profile;

use std::path::PathBuf;

use plimsoll_base::units::{format_count, format_size};
use plimsoll_emulator::inject::Spec;
use plimsoll_emulator::twin::model::{Model, RateLimit, SizePoint};
use plimsoll_judge::run_dir::run::{Run, RunDirError, read};
use plimsoll_judge::summary::result::{UploadFigures, Window};
use plimsoll_judge::summary::series::{LatencyKind, Series};
use plimsoll_server::request_kind::RequestKind;
use plimsoll_workload::schedule::Role;

/// The reason why no twin can be made.
#[derive(Debug, thiserror::Error)]
pub enum TwinError {
    /// A run cannot be read.
    #[error(transparent)]
    Run(#[from] RunDirError),
    /// The runs measured several stores.
    #[error("the runs measured several stores, {0}; choose one with --like-store")]
    Several(String),
    /// No run measured the store.
    #[error("no run measured {store}; they measured {measured}")]
    Unknown {
        /// Store as written.
        store: String,
        /// Stores that the runs measured.
        measured: String,
    },
    /// A file cannot be read.
    #[error("{path}: {source}")]
    Unreadable {
        /// Path of the file.
        path: String,
        /// Error of the system.
        source: std::io::Error,
    },
    /// A file does not have the findings of a consistency check.
    #[error("{0}: not the output of `plimsoll run consistency --json`; of a run, name the directory")]
    Findings(String),
    /// The violations of consistency are of a kind that a twin cannot have.
    #[error(
        "{path}: {keys} keys are not linearizable, but not by late reads or lost writes; a twin cannot imitate that"
    )]
    Inimitable {
        /// Path of the file.
        path: String,
        /// Number of keys without a valid order.
        keys: u64,
    },
    /// Several files have findings.
    #[error("several files with consistency findings; name one")]
    SeveralFindings,
    /// A profile is combined with other stores.
    #[error("{0} is a profile of a whole store; use it alone, or with a file of consistency findings")]
    Combined(String),
    /// No window has successful operations of a kind that a server can answer.
    #[error("the runs have no successful reads, writes, deletions or listings of {0}")]
    Empty(String),
}

/// Returns true if objects are uploaded in several parts.
fn has_parts(upload: &UploadFigures) -> bool {
    upload.object_bytes.is_none_or(|bytes| bytes > upload.part_bytes)
}

/// Returns the kind of the requests of an operation; `None` for operations of several requests.
fn kind_of(window: &Window) -> Option<RequestKind> {
    use plimsoll_workload::OperationKind as Op;
    match window.operation {
        // An upload in parts consists of several requests.
        Op::Put if window.upload.as_ref().is_some_and(has_parts) => None,
        Op::Get => Some(RequestKind::Get),
        Op::GetRange => Some(RequestKind::GetRange),
        Op::Head => Some(RequestKind::Head),
        Op::Put | Op::Update => Some(RequestKind::Put),
        Op::Copy => Some(RequestKind::Copy),
        Op::Delete => Some(RequestKind::Delete),
        Op::List => Some(RequestKind::List),
        _ => None,
    }
}

/// A model, and sentences about it.
pub struct Likeness {
    /// Figures that the twin imitates; `None` if it answers at its own times.
    pub model: Option<Model>,
    /// Limit of connections, and violations of consistency.
    pub faults: Spec,
    /// Store that was measured.
    pub store: String,
    /// Description of the model, a line for each kind of operation.
    pub lines: Vec<String>,
}

/// Returns the model of the store that runs measured, or of `store` if they measured several.
///
/// # Errors
/// See [`TwinError`].
pub fn of_runs(paths: &[PathBuf], store: Option<&str>) -> Result<Likeness, TwinError> {
    let mut runs: Vec<Run> = Vec::new();
    for path in paths {
        let run = read(path, &[LatencyKind::Service])?;
        // A run that is named twice counts once.
        if runs.iter().all(|known| known.result.run.id != run.result.run.id) {
            runs.push(run);
        }
    }
    let mut measured: Vec<&str> = runs.iter().flat_map(Run::measured).collect();
    measured.sort_unstable();
    measured.dedup();
    let chosen = match (store, measured.as_slice()) {
        (Some(store), all) if all.contains(&store) => store.to_string(),
        (Some(store), all) => {
            return Err(TwinError::Unknown { store: store.into(), measured: all.join(", ") });
        }
        (None, [one]) => (*one).to_string(),
        (None, []) => return Err(TwinError::Empty("any store".into())),
        (None, all) => return Err(TwinError::Several(all.join(", "))),
    };
    let all: Vec<&Window> =
        runs.iter().flat_map(|run| &run.result.windows).filter(|window| window.store == chosen).collect();
    let limits = failures::limits(&all);
    let series: Vec<&Series> =
        runs.iter().flat_map(|run| &run.series).filter(|series| series.store == chosen).collect();
    let connections = connections::limit(&all);
    let kinds = points::of_windows(&all, &series, &limits, connections.is_some());
    if kinds.is_empty() {
        return Err(TwinError::Empty(chosen));
    }
    let model = Model { kinds, limits };
    let mut lines = describe(&model);
    lines.extend(connections.map(|most| format!("at most {most} connections")));
    lines.extend(failures::doubts(&all, &model.limits));
    if all.iter().any(|window| window.role == Role::Measure && window.client_limited.is_some()) {
        lines.push("the client limited a part of the measurement, which the twin then imitates".into());
    }
    let faults = Spec { connections, ..Spec::default() };
    Ok(Likeness { lines, model: Some(model), faults, store: chosen })
}

/// Returns what a twin imitates: a profile or runs, and the findings of a consistency check. `find` returns the
/// directories of runs that a reference denotes.
///
/// # Errors
/// See [`TwinError`]; and those of `find`.
pub fn of_references<E: From<TwinError>>(
    references: &[PathBuf],
    store: Option<&str>,
    find: impl FnOnce(&[PathBuf]) -> Result<Vec<PathBuf>, E>,
) -> Result<Vec<Likeness>, E> {
    let is_findings = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "json");
    let (findings, stores): (Vec<PathBuf>, Vec<PathBuf>) = references.iter().cloned().partition(is_findings);
    let named = |path: &PathBuf| path.to_str().and_then(profile::of_name);
    let mut out = match stores.iter().find_map(|path| Some((path, named(path)?))) {
        Some((path, _)) if stores.len() > 1 => {
            return Err(TwinError::Combined(path.display().to_string()).into());
        }
        Some((_, likeness)) => vec![likeness],
        None if stores.is_empty() => Vec::new(),
        None => vec![of_runs(&find(&stores)?, store)?],
    };
    match findings.as_slice() {
        [] => {}
        [path] => out.push(findings::of_file(path)?),
        _ => return Err(TwinError::SeveralFindings.into()),
    }
    Ok(out)
}

/// Returns the kind with this name; `None` if there is none.
fn kind_named(text: &str) -> Option<RequestKind> {
    use RequestKind::{Copy, Delete, Get, GetRange, Head, List, Put};
    [Get, GetRange, Head, Put, Copy, Delete, List].into_iter().find(|kind| name(*kind) == text)
}

fn name(kind: RequestKind) -> &'static str {
    match kind {
        RequestKind::Get => "get",
        RequestKind::GetRange => "get_range",
        RequestKind::Head => "head",
        RequestKind::Put => "put",
        RequestKind::Copy => "copy",
        RequestKind::Delete => "delete",
        RequestKind::List => "list",
    }
}

/// Describes a limit of the rate.
fn describe_limit(limit: &RateLimit) -> String {
    let kinds: Vec<&str> = limit.kinds.iter().map(|kind| name(*kind)).collect();
    format!("{}: at most {} per second", kinds.join(", "), format_count(limit.per_s.round() as u64))
}

/// Describes the sizes, loads and failures of each kind of operation.
fn describe(model: &Model) -> Vec<String> {
    let of_size = |size: &SizePoint| {
        let loads: Vec<String> = size.loads.iter().map(|load| format!("{:.1}", load.in_flight)).collect();
        let bytes = if size.bytes > 0 { format!("{}, ", format_size(size.bytes)) } else { String::new() };
        format!("{bytes}{} in flight", loads.join(" / "))
    };
    let of_kind = |(kind, sizes): (&RequestKind, &Vec<SizePoint>)| {
        let sizes: Vec<String> = sizes.iter().map(of_size).collect();
        format!("{}: {}", name(*kind), sizes.join("; "))
    };
    model.kinds.iter().map(of_kind).chain(model.limits.iter().map(describe_limit)).collect()
}
