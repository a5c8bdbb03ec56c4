//! The full-screen live view of a run (`--live`): [`model`] has the state of the run, [`draw`] draws it, and [`Screen`]
//! owns the terminal. Only changed cells are sent to the terminal.

pub mod draw;
pub mod model;

use std::io::{self, BufWriter, Stderr};
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use rustix::process::{Signal, getpid, kill_process};

use crate::session::observer::{RunObserver, RunStart};
use model::Model;
use plimsoll_engine::driver::Control;
use plimsoll_judge::summary::result::{CapacityStep, CostFigures, Window};
use plimsoll_recorder::collector::{SecondRow, WindowState};
use plimsoll_workload::schedule::plan::PhaseRun;

/// Maximum time until a key, a new size of the terminal or the end of the run is noticed.
const POLL: Duration = Duration::from_millis(100);

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
    shared: Arc<Shared>,
    /// Thread that reads keys; `None` while the view is closed.
    keys: Mutex<Option<JoinHandle<()>>>,
    hooks: Hooks,
}

struct Shared {
    state: Mutex<State>,
    ended: AtomicBool,
}

struct State {
    terminal: Option<Terminal<CrosstermBackend<BufWriter<Stderr>>>>,
    model: Model,
    /// True once the whole screen has been drawn again after the request to stop, whose message may have damaged it.
    stop_drawn: bool,
    control: Option<Arc<Control>>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
            let _ = terminal.show_cursor();
            let _ = execute!(terminal.backend_mut(), LeaveAlternateScreen);
            let _ = disable_raw_mode();
        }
    }
}

fn open() -> io::Result<Terminal<CrosstermBackend<BufWriter<Stderr>>>> {
    let mut out = BufWriter::with_capacity(1 << 16, io::stderr());
    enable_raw_mode()?;
    let entered = execute!(out, EnterAlternateScreen);
    let opened = entered.and_then(|()| Terminal::new(CrosstermBackend::new(out)));
    if opened.is_err() {
        let _ = disable_raw_mode();
    }
    opened
}

impl Screen {
    /// Returns a view that opens when the run starts. `limit` is the cost limit of the run in words, if there is one.
    pub fn new(limit: Option<String>, hooks: Hooks) -> Screen {
        let model = Model::new(limit);
        let state = State { terminal: None, model, stop_drawn: false, control: None };
        let shared = Shared { state: Mutex::new(state), ended: AtomicBool::new(false) };
        Screen { shared: Arc::new(shared), keys: Mutex::new(None), hooks }
    }

    fn opened(&self, control: &Arc<Control>) {
        let mut state = self.shared.state();
        state.control = Some(Arc::clone(control));
        if state.terminal.is_some() || self.shared.ended.load(Ordering::Relaxed) {
            return;
        }
        match open() {
            Ok(terminal) => state.terminal = Some(terminal),
            Err(e) => return (self.hooks.print)(&format!("--live: {e}; the run continues without the view")),
        }
        // A panic must not leave the terminal without echo.
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let _ = execute!(io::stderr(), LeaveAlternateScreen);
            let _ = disable_raw_mode();
            before(info);
        }));
        state.draw();
        let (shared, control) = (Arc::clone(&self.shared), Arc::clone(control));
        let read = move || read_keys(&shared, &control);
        let thread = std::thread::Builder::new().name("keys".into()).spawn(read).ok();
        *self.keys.lock().unwrap_or_else(PoisonError::into_inner) = thread;
    }

    /// Closes the view and prints the notes that it received.
    fn close(&self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.keys.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = thread.join();
        }
        let mut state = self.shared.state();
        state.close();
        std::mem::take(&mut state.model.notes).iter().for_each(|note| (self.hooks.print)(note));
    }

    /// Keeps a note while the view is open, or prints it.
    fn keep(&self, text: &str) {
        let mut state = self.shared.state();
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

/// Reads keys until the run ends: `q` stops the run, Ctrl-C sends the signal that it normally sends.
fn read_keys(shared: &Shared, control: &Control) {
    while !shared.ended.load(Ordering::Relaxed) {
        match event::poll(POLL).and_then(|ready| if ready { event::read().map(Some) } else { Ok(None) }) {
            Ok(Some(Event::Key(key))) if key.kind == KeyEventKind::Press => match key.code {
                KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                    let _ = kill_process(getpid(), Signal::INT);
                }
                KeyCode::Char('q') => {
                    control.stop();
                    shared.state().draw();
                }
                _ => {}
            },
            Ok(Some(Event::Resize(..))) => shared.state().draw(),
            Ok(_) => {}
            Err(_) => return,
        }
    }
}

impl RunObserver for Screen {
    fn note(&self, line: &str) {
        self.keep(line);
    }

    fn estimate(&self, line: &str) {
        self.keep(line);
    }

    fn capacity_step(&self, step: &CapacityStep) {
        self.shared.state().model.capacity_step(step);
    }

    fn cost(&self, figures: &[CostFigures]) {
        self.shared.state().model.cost(figures);
    }

    fn started(&self, run: &RunStart<'_>) {
        self.shared.state().model.started(run.stores, run.phase_runs);
        (self.hooks.started)(Arc::clone(run.control));
        self.opened(run.control);
    }

    fn second(&self, row: &SecondRow<'_>) {
        self.shared.state().model.second(row);
    }

    fn progress(&self, states: &[WindowState], phase_runs: &[PhaseRun]) {
        let mut state = self.shared.state();
        state.model.progress(states, phase_runs);
        state.draw();
    }

    fn failure(&self, class: &str, message: &str) {
        self.shared.state().model.failure(class, message);
    }

    fn windows(&self, windows: &[Window]) {
        self.shared.state().model.windows(windows);
    }

    fn activity(&self, text: &str) {
        let mut state = self.shared.state();
        state.model.activity(text);
        state.draw();
    }

    fn ended(&self) {
        self.close();
    }
}
