//! The full-screen live view of a run (`--live`): [`model`] has the state of the run, [`draw`] draws it, and [`Screen`]
//! owns the terminal. Only changed cells are sent to the terminal.

pub mod draw;
pub mod keys;
pub mod model;

use std::io::{self, BufWriter, Stderr};
use std::panic;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen};

use self::keys::KeyInput;
use model::Model;
use plimsoll_engine::driver::Control;
use plimsoll_judge::summary::result::{CapacityStep, CostFigures, Window};
use plimsoll_recorder::collector::{SecondRow, WindowState};
use plimsoll_session::observer::{RunObserver, RunStart};
use plimsoll_workload::schedule::plan::PhaseRun;

/// Functions of the caller that the view needs.
#[derive(Debug, Clone, Copy)]
pub struct Hooks {
    /// Prints a line while the view is closed.
    pub print: fn(&str),
    /// Called when a run starts: handles the signals that stop it.
    pub started: fn(Arc<Control>),
}

/// An observer that shows a run on the whole terminal.
pub struct Screen {
    state: Arc<Mutex<State>>,
    hooks: Hooks,
}

struct State {
    terminal: Option<Terminal<CrosstermBackend<BufWriter<Stderr>>>>,
    /// Single-key mode of the terminal while the view is open.
    keys: Option<KeyInput>,
    has_ended: bool,
    model: Model,
    /// True once the whole screen has been drawn again after the request to stop, whose message may have damaged it.
    stop_drawn: bool,
    control: Option<Arc<Control>>,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    /// Draws the changed cells. A terminal that has gone away is closed, and the run continues without the view.
    fn draw(&mut self) {
        let stopped = self.control.as_ref().is_some_and(|control| control.stopped_at().is_some());
        self.model.stopping = stopped;
        let Some(terminal) = &mut self.terminal else { return };
        if stopped && !self.stop_drawn {
            self.stop_drawn = true;
            let _ = terminal.clear();
        }
        if terminal.draw(|frame| draw::draw(frame, &self.model)).is_err() {
            self.close();
        }
    }

    /// Leaves the full screen, and restores the settings of the terminal.
    fn close(&mut self) {
        if let Some(mut terminal) = self.terminal.take() {
            let _ = execute!(terminal.backend_mut(), LeaveAlternateScreen);
            if terminal.show_cursor().is_err() {
                // The destructor would print a message, and panic because the terminal is closed.
                std::mem::forget(terminal);
            }
        }
        self.keys = None;
    }
}

fn open() -> io::Result<Terminal<CrosstermBackend<BufWriter<Stderr>>>> {
    let mut out = BufWriter::with_capacity(1 << 16, io::stderr());
    execute!(out, EnterAlternateScreen)?;
    Terminal::new(CrosstermBackend::new(out))
}

impl Screen {
    /// Returns a view that opens when the run starts. `limit` is the cost limit of the run in words, if there is one.
    pub fn new(limit: Option<String>, hooks: Hooks) -> Screen {
        let model = Model::new(limit);
        let state =
            State { terminal: None, keys: None, has_ended: false, model, stop_drawn: false, control: None };
        Screen { state: Arc::new(Mutex::new(state)), hooks }
    }

    fn opened(&self, control: &Arc<Control>) {
        let mut state = self.state();
        state.control = Some(Arc::clone(control));
        if state.terminal.is_some() || state.has_ended {
            return;
        }
        match open() {
            Ok(terminal) => state.terminal = Some(terminal),
            Err(e) => return (self.hooks.print)(&format!("--live: {e}; the run continues without the view")),
        }
        let view = Arc::downgrade(&self.state);
        state.keys = KeyInput::listen(Arc::clone(control), move || redraw(&view));
        // A panic must not leave the terminal without echo.
        let settings = state.keys.as_ref().map(|keys| keys.before().clone());
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let _ = execute!(io::stderr(), LeaveAlternateScreen);
            settings.iter().for_each(keys::restore);
            before(info);
        }));
        state.draw();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Closes the view and prints the notes that it received.
    fn close(&self) {
        let mut state = self.state();
        state.has_ended = true;
        state.close();
        std::mem::take(&mut state.model.notes).iter().for_each(|note| (self.hooks.print)(note));
    }

    /// Keeps a note while the view is open, or prints it.
    fn keep(&self, text: &str) {
        let mut state = self.state();
        match state.terminal {
            Some(_) => state.model.note(text),
            None => (self.hooks.print)(text),
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.close();
    }
}

/// Draws the view of a run that was asked to stop.
fn redraw(view: &Weak<Mutex<State>>) {
    if let Some(state) = view.upgrade() {
        lock(&state).draw();
    }
}

impl RunObserver for Screen {
    fn note(&self, line: &str) {
        self.keep(line);
    }

    fn announce(&self, line: &str) {
        self.keep(line);
    }

    fn capacity_step(&self, step: &CapacityStep) {
        self.state().model.capacity_step(step);
    }

    fn cost(&self, figures: &[CostFigures]) {
        self.state().model.cost(figures);
    }

    fn started(&self, run: &RunStart<'_>) {
        self.state().model.started(run.stores, run.phase_runs);
        (self.hooks.started)(Arc::clone(run.control));
        self.opened(run.control);
    }

    fn second(&self, row: &SecondRow<'_>) {
        self.state().model.second(row);
    }

    fn progress(&self, states: &[WindowState], phase_runs: &[PhaseRun]) {
        let mut state = self.state();
        state.model.progress(states, phase_runs);
        state.draw();
    }

    fn failure(&self, class: &str, message: &str) {
        self.state().model.failure(class, message);
    }

    fn windows(&self, windows: &[Window]) {
        self.state().model.windows(windows);
    }

    fn activity(&self, text: &str) {
        let mut state = self.state();
        state.model.activity(text);
        state.draw();
    }

    fn ended(&self) {
        self.close();
    }
}
