//! Client libraries and tools as contenders: the same puts and gets by several clients, against the same store, in
//! turn.
//!
//! [`batch`] is the work of one turn and its figures. [`own`] executes it with Plimsoll's engine, [`library`] with
//! libraries of Python and with programs that read the same job, [`tool`] with command-line tools that transfer
//! directories. [`requests`] counts what each client sends.

pub mod batch;
pub mod library;
pub mod own;
pub mod requests;
pub mod tool;

use std::path::Path;
use std::sync::Arc;

use batch::{Address, OperationBatch, Timed};
use library::Library;
use tool::Tool;

use plimsoll_engine::driver::Control;
use plimsoll_engine::store::ownership::KeySpace;
use plimsoll_session::RunError;
use plimsoll_session::open::Opened;

/// A client that takes turns with others.
#[derive(Debug, Clone)]
pub enum OtherClient {
    /// The engine of Plimsoll.
    Plimsoll,
    /// A library of Python, or a program that reads a job.
    Library(Library),
    /// A command-line tool.
    Tool(Tool),
}

/// The store of a turn as each client addresses it, and the place of local files.
#[derive(Clone, Copy)]
pub struct Turn<'a> {
    /// Store for Plimsoll's own client.
    pub store: &'a Opened,
    /// Key space of the objects.
    pub space: &'a KeySpace,
    /// Address and credentials for the other clients.
    pub address: &'a Address,
    /// Directory for jobs and files.
    pub files: &'a Path,
    /// Handle that stops the run.
    pub control: &'a Arc<Control>,
    /// Start of second 0, in nanoseconds on the monotonic clock.
    pub origin_ns: u64,
}

impl OtherClient {
    /// Returns the name of the client.
    pub fn name(&self) -> &str {
        match self {
            OtherClient::Plimsoll => "plimsoll",
            OtherClient::Library(library) => &library.name,
            OtherClient::Tool(tool) => tool.name,
        }
    }

    /// Returns the version of the client; empty if it is unknown.
    pub fn version(&self) -> &str {
        match self {
            OtherClient::Plimsoll => env!("CARGO_PKG_VERSION"),
            OtherClient::Library(library) => &library.version,
            OtherClient::Tool(tool) => &tool.version,
        }
    }

    /// Executes a batch.
    ///
    /// # Errors
    /// [`RunError::Store`] if a request failed, [`RunError::Input`] if the client cannot be started.
    pub fn execute(&self, batch: &OperationBatch, turn: &Turn<'_>) -> Result<Timed, RunError> {
        match self {
            OtherClient::Plimsoll => own::execute(batch, turn),
            OtherClient::Library(library) => library.execute(batch, turn),
            OtherClient::Tool(tool) => tool.execute(batch, turn),
        }
    }
}
