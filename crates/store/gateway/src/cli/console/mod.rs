//! The console: one page for people, which the gateway serves at `--admin-listen`. Everybody who reaches the address
//! can read it; changes need the account of an administrator.

mod account;
mod answers;
mod overview_page;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use plimsoll_base::clock::now_ns;
use plimsoll_base::pages::{Handler, Page, PageRequest, StatusCode, serve};
use plimsoll_base::text;
use plimsoll_document::live::{self, LivePage, Section};
use plimsoll_server::ServerState;

use self::account::Attempts;
use self::answers::Verb;
use super::Exit;
use super::target::Target;

/// The console of a running gateway.
struct Console {
    /// Store that the gateway serves.
    target: Arc<Target>,
    /// Settings of the tiers; `None` for a data directory.
    file: Option<PathBuf>,
    /// The server, which has the accounts.
    shared: Arc<ServerState>,
    /// Taken while a plan is computed: one at a time, because each visits all objects.
    planning: Mutex<()>,
    /// Taken while a change is executed.
    changing: Mutex<()>,
    /// Start of the console on the monotonic clock.
    started_ns: u64,
    /// Failed attempts to use an account.
    attempts: Attempts,
}

/// Serves the console on an address until the process ends, with TLS if the server has it. Returns the bound address.
///
/// # Errors
/// If the address cannot be used.
pub fn start(
    address: &str,
    target: Arc<Target>,
    file: Option<PathBuf>,
    shared: &Arc<ServerState>,
) -> io::Result<SocketAddr> {
    let console = Console {
        target,
        file,
        shared: Arc::clone(shared),
        planning: Mutex::default(),
        changing: Mutex::default(),
        started_ns: now_ns(),
        attempts: Attempts::default(),
    };
    let of_server = Arc::clone(shared);
    let handler: Handler = Arc::new(move |request| console.answer(request));
    serve(address, "console", Some(Arc::new(move || of_server.tls())), handler)
}

impl Console {
    fn answer(&self, request: &PageRequest) -> Page {
        let verb = Verb::of(&request.path);
        let allowed = if verb.is_some() { "POST" } else { "GET, HEAD" };
        if let Some(refusal) = request.refusal(allowed) {
            return refusal;
        }
        if let Some(verb) = verb {
            return match self.administrator(request) {
                Ok(name) => {
                    let (status, section) = self.change(request, verb, &name);
                    html(status, &self.only(section))
                }
                Err(problem) => {
                    let section = Section { answer: problem, ..answers::of_changes() };
                    html(StatusCode::FORBIDDEN, &self.only(section))
                }
            };
        }
        match request.path.as_str() {
            "/" => match self.overview() {
                Ok(page) => html(StatusCode::OK, &page),
                Err(Exit { message, .. }) => html(StatusCode::SERVICE_UNAVAILABLE, &self.failed(message)),
            },
            "/where" => html(StatusCode::OK, &self.only(self.place_of_object(request))),
            "/plan" => html(StatusCode::OK, &self.only(self.plan(request))),
            live::STYLE_PATH => Page::new(StatusCode::OK, "text/css; charset=utf-8", live::style()),
            live::SCRIPT_PATH => Page::new(StatusCode::OK, "text/javascript; charset=utf-8", live::script()),
            _ => Page::text(StatusCode::NOT_FOUND, "not found; the console is at /\n"),
        }
    }

    /// Returns a page with one section, which the script puts into the console.
    fn only(&self, section: Section) -> LivePage {
        LivePage { state: section.head.clone(), sections: vec![section], ..self.empty() }
    }

    /// Returns a page without content.
    fn empty(&self) -> LivePage {
        LivePage {
            title: "Plimsoll gateway".into(),
            what: vec![self.target.name.clone()],
            program: "the gateway".into(),
            ..LivePage::default()
        }
    }

    /// Returns the page of a gateway whose state cannot be read.
    fn failed(&self, message: String) -> LivePage {
        LivePage {
            state: "The state of the gateway cannot be read.".into(),
            warnings: vec![text::message(&message).into_owned()],
            every_s: overview_page::EVERY_S,
            ..self.empty()
        }
    }
}

fn html(status: StatusCode, page: &LivePage) -> Page {
    match page.html() {
        Ok(text) => Page::html(status, text::visible(&text)),
        Err(error) => Page::text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}
