//! The live view of a run as a page for browsers (`--live-listen`): it renders the [`Model`] of the full-screen view
//! when somebody looks.

mod page;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plimsoll_base::clock::now_ns;
use plimsoll_base::pages::{Page, PageRequest, StatusCode, serve};
use plimsoll_base::text::outgoing;
use plimsoll_document::live;

use crate::screen::model::Model;
use plimsoll_engine::driver::Control;
use plimsoll_judge::run_dir::environment::StoreFacts;
use plimsoll_judge::summary::result::{CapacityStep, CostFigures, Window};
use plimsoll_recorder::collector::{SecondRow, WindowState};
use plimsoll_session::observer::{RunObserver, RunStart};
use plimsoll_workload::schedule::plan::PhaseRun;

/// State of a run that the page shows.
#[derive(Default)]
struct State {
    model: Model,
    /// Handle that stops the run; `None` before it starts.
    control: Option<Arc<Control>>,
    has_ended: bool,
}

/// The page of this process. It shows one run after the other.
pub struct RunPage {
    state: Arc<Mutex<State>>,
    /// Address of the page.
    pub address: SocketAddr,
}

impl RunPage {
    /// Serves the page on an address until the process ends.
    ///
    /// # Errors
    /// If the address cannot be used.
    pub fn start(address: &str) -> io::Result<RunPage> {
        let state = Arc::new(Mutex::new(State::default()));
        let shown = Arc::clone(&state);
        let address = serve(address, "live-page", None, Arc::new(move |request| answer(request, &shown)))?;
        Ok(RunPage { state, address })
    }

    /// Returns an observer that shows a run on the page, and passes everything to another observer. `limit` is the cost
    /// limit of the run in words, if there is one.
    pub fn observer(&self, limit: Option<String>, other: Arc<dyn RunObserver>) -> PageObserver {
        *lock(&self.state) = State { model: Model::new(limit), ..State::default() };
        PageObserver { state: Arc::clone(&self.state), other }
    }
}

/// An observer that shows a run on the page.
pub struct PageObserver {
    state: Arc<Mutex<State>>,
    other: Arc<dyn RunObserver>,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn answer(request: &PageRequest, state: &Mutex<State>) -> Page {
    if let Some(refusal) = request.refusal("GET, HEAD") {
        return refusal;
    }
    match request.path.as_str() {
        "/" => {
            // The collector waits for this lock, so the page is rendered after it.
            let page = {
                let mut state = lock(state);
                state.model.stopping =
                    state.control.as_ref().is_some_and(|control| control.stopped_at().is_some());
                page::of(&state.model, state.has_ended, now_ns())
            };
            match page.html() {
                Ok(text) => Page::html(StatusCode::OK, outgoing(&text)),
                Err(error) => Page::text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
            }
        }
        live::STYLE_PATH => Page::new(StatusCode::OK, "text/css; charset=utf-8", live::style()),
        live::SCRIPT_PATH => Page::new(StatusCode::OK, "text/javascript; charset=utf-8", live::script()),
        _ => Page::text(StatusCode::NOT_FOUND, "not found; the live view is at /\n"),
    }
}

impl PageObserver {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl RunObserver for PageObserver {
    fn note(&self, line: &str) {
        self.state().model.note(line);
        self.other.note(line);
    }

    fn announce(&self, line: &str) {
        self.state().model.note(line);
        self.other.announce(line);
    }

    fn capacity_step(&self, step: &CapacityStep) {
        self.state().model.capacity_step(step);
        self.other.capacity_step(step);
    }

    fn cost(&self, figures: &[CostFigures]) {
        self.state().model.cost(figures);
        self.other.cost(figures);
    }

    fn reached(&self, stores: &[StoreFacts]) {
        self.other.reached(stores);
    }

    fn started(&self, run: &RunStart<'_>) {
        {
            let mut state = self.state();
            state.model.started(run.stores, run.phase_runs);
            state.control = Some(Arc::clone(run.control));
        }
        self.other.started(run);
    }

    fn second(&self, row: &SecondRow<'_>) {
        self.state().model.second(row);
        self.other.second(row);
    }

    fn progress(&self, states: &[WindowState], phase_runs: &[PhaseRun]) {
        self.state().model.progress(states, phase_runs);
        self.other.progress(states, phase_runs);
    }

    fn failure(&self, class: &str, message: &str) {
        self.state().model.failure(class, message);
        self.other.failure(class, message);
    }

    fn windows(&self, windows: &[Window]) {
        self.state().model.windows(windows);
        self.other.windows(windows);
    }

    fn activity(&self, text: &str) {
        self.state().model.activity(text);
        self.other.activity(text);
    }

    fn ended(&self) {
        self.state().has_ended = true;
        self.other.ended();
    }
}
