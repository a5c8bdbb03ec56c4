//! Chooses the pairs of stores to compare, and names both sides.

use crate::cli::exit::Exit;
use plimsoll_base::units::short_names;
use plimsoll_judge::run_dir::run::Run;
use plimsoll_judge::summary::series::Series;
use plimsoll_report::comparison::Subject;
use plimsoll_workload::schedule::Role;

/// A store of a run.
pub struct Side<'a> {
    /// The run that measured the store.
    pub run: &'a Run,
    /// The store as the user wrote it.
    pub store: String,
    /// Name and settings of the side in reports.
    pub subject: Subject,
}

impl<'a> Side<'a> {
    fn new(run: &'a Run, store: &str) -> Side<'a> {
        let (id, name) = (run.result.run.id.clone(), String::new());
        Side { run, store: store.into(), subject: Subject { run: id, store: store.into(), name } }
    }

    /// Returns the measured series of the store.
    pub fn series(&self) -> impl Iterator<Item = &Series> {
        self.run.all_series().filter(|s| s.role == Role::Measure && s.store == self.store)
    }

    /// Returns possible names of the side, the shortest first. `alone` is true if its run measured no other
    /// store.
    fn names(&self, short: &str, alone: bool) -> [String; 6] {
        let labels = self.run.result.run.labels_text();
        let (id, path) = (&self.subject.run, &self.run.path);
        let directory = path.file_name().map_or_else(|| id.clone(), |n| n.to_string_lossy().into_owned());
        // If the run measured only one store, its own name is enough.
        let within = |run: &str| if alone { run.to_string() } else { format!("{short} in {run}") };
        let whole = path.display().to_string();
        [
            short.to_string(),
            if labels.is_empty() { short.to_string() } else { within(&labels) },
            within(id),
            within(&directory),
            within(&whole),
            format!("{} in {whole}", self.store),
        ]
    }
}

/// Gives both sides the shortest names that differ.
fn name<'a>(mut base: Side<'a>, mut other: Side<'a>, alone: bool) -> (Side<'a>, Side<'a>) {
    let short = short_names(&[&base.store, &other.store]);
    let (a, b) = (base.names(&short[0], alone), other.names(&short[1], alone));
    let distinct = a.into_iter().zip(b).find(|(a, b)| a != b);
    // The names are all equal only if a run is compared with itself.
    (base.subject.name, other.subject.name) =
        distinct.unwrap_or_else(|| (format!("{} (first)", short[0]), format!("{} (second)", short[1])));
    (base, other)
}

/// Returns the pairs to compare: with one run, the first store of the experiment and each other store; with
/// several runs, the first run and each other run.
///
/// # Errors
/// Exit code 2 if there is nothing to compare.
pub fn pairs<'a>(runs: &[&'a Run]) -> Result<Vec<(Side<'a>, Side<'a>)>, Exit> {
    let all: Vec<Vec<&str>> = runs.iter().map(|run| run.measured()).collect();
    if let Some(empty) = all.iter().position(Vec::is_empty) {
        return Err(Exit::input(format!(
            "{}: the run measured nothing; use another run",
            runs[empty].path.display()
        )));
    }
    if let [one] = all.as_slice() {
        let names = short_names(one);
        let side = |i: usize| {
            let mut side = Side::new(runs[0], one[i]);
            side.subject.name.clone_from(&names[i]);
            side
        };
        if one.len() < 2 {
            return Err(Exit::input(format!(
                "{}: the run measured only one store; add a second run, or measure two stores in one run",
                runs[0].path.display()
            )));
        }
        return Ok((1..one.len()).map(|i| (side(0), side(i))).collect());
    }
    let mut out = Vec::new();
    for (run, own) in runs.iter().zip(&all).skip(1) {
        if let ([a], [b]) = (all[0].as_slice(), own.as_slice()) {
            out.push(name(Side::new(runs[0], a), Side::new(run, b), true));
            continue;
        }
        for store in own.iter().filter(|s| all[0].contains(s)) {
            out.push(name(Side::new(runs[0], store), Side::new(run, store), false));
        }
    }
    if out.is_empty() {
        return Err(Exit::input(
            "the runs have no store in common; compare runs of one store each, or of the same stores",
        ));
    }
    Ok(out)
}
