//! `plimsoll report --publish`: writes a static site of many runs, for a web server or GitHub Pages.

use std::fs;
use std::path::{Path, PathBuf};

use super::exit::Exit;
use super::out::say;
use super::page::{PageOptions, page_of};
use super::runs::DIRECTORY;
use plimsoll_audit::history::entry::{RunEntry, entries};
use plimsoll_judge::run_dir::directory::LATENCIES;
use plimsoll_judge::run_dir::run::read;
use plimsoll_judge::run_dir::write::write_whole;
use plimsoll_report::site::{page_of_run, pages};

/// Returns the run directories to publish, or those of `plimsoll-runs` if none are given.
fn chosen(runs: &[PathBuf]) -> Result<Vec<RunEntry>, Exit> {
    if runs.is_empty() {
        return entries(Path::new(DIRECTORY))
            .map_err(|e| Exit::input(format!("{DIRECTORY}: {e}; name the runs to publish")));
    }
    let missing = |path: &PathBuf| Exit::input(format!("{}: not a run directory", path.display()));
    let mut found: Vec<RunEntry> = runs
        .iter()
        .map(|path| RunEntry::read(path).ok_or_else(|| missing(path)))
        .collect::<Result<_, _>>()?;
    found.sort_by(|a, b| (&a.started_at, &a.id).cmp(&(&b.started_at, &b.id)));
    Ok(found)
}

/// Writes the site. Pages of runs that exist already are kept, so that a site can grow.
///
/// # Errors
/// Exit code 2 if a run cannot be read or a page cannot be written.
pub fn publish(directory: &Path, runs: &[PathBuf]) -> Result<(), Exit> {
    let refused = |e: std::io::Error| {
        Exit::input(format!("--publish {}: {e}; choose another directory", directory.display()))
    };
    let runs = chosen(runs)?;
    fs::create_dir_all(directory.join("runs")).map_err(refused)?;
    for run in &runs {
        let page = directory.join(page_of_run(run));
        if !page.exists() {
            let run = read(&run.path, &LATENCIES).map_err(Exit::input)?;
            write_whole(&page, &page_of(&run, &PageOptions::default())?).map_err(refused)?;
        }
    }
    let site = pages(&runs).map_err(|e| Exit::defect(format!("the template of a page failed: {e:#}")))?;
    for (name, text) in &site {
        write_whole(&directory.join(name), text).map_err(refused)?;
    }
    say(&format!("{}\n", directory.join("index.html").display()))
}
