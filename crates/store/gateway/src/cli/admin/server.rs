//! Executes the commands of administrators in the gateway.

use std::io::{self, BufReader, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::geteuid;
use tokio::net::UnixListener;
use tokio::sync::watch;

use super::{Answer, Request, SOCKET, SocketPlace, receive, send};
use crate::cli::Exit;
use crate::cli::command;
use crate::cli::out::Output;
use crate::cli::target::Target;
use plimsoll_catalog::log::warn;
use plimsoll_catalog::threads;

/// Maximum number of commands at a time.
const MOST: usize = 8;
/// Time in which a client must send its request.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time in which a client must read a piece of the output.
const READ_PATIENCE: Duration = Duration::from_secs(60);

/// Output of a command to a client.
struct Connection(Mutex<UnixStream>);

impl Connection {
    fn send(&self, answer: &Answer) -> io::Result<()> {
        send(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner), answer)
    }
}

impl Output for Connection {
    fn say(&self, text: &str) -> Result<(), Exit> {
        let sent = pieces(text).try_for_each(|piece| self.send(&Answer::Output(piece.into())));
        sent.map_err(|error| Exit::store(format!("the connection of the administrator: {error}")))
    }
}

/// Returns the pieces of a text, each in a message; an empty text is one piece.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    /// Longest piece in bytes. Its message is at most six times as long.
    const PIECE: usize = 64 * 1024;
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest.take()?;
        let end = text.floor_char_boundary(PIECE);
        let (piece, left) = text.split_at(end);
        rest = Some(left).filter(|left| !left.is_empty());
        Some(piece)
    })
}

/// Thread that listens for administrators.
pub struct Server {
    stop: watch::Sender<bool>,
    thread: std::thread::JoinHandle<()>,
    socket: PathBuf,
}

impl Server {
    /// Starts to listen in the directory of the catalog, which this process uses alone.
    ///
    /// # Errors
    /// If the socket cannot be created.
    pub fn start(catalog: &Path, target: Arc<Target>) -> io::Result<Server> {
        let place = SocketPlace::of(catalog)?;
        let socket = catalog.join(SOCKET);
        match std::fs::remove_file(&socket) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = runtime.block_on(async { UnixListener::bind(&place.path) })?;
        std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o600))?;
        let (stop, mut stopped) = watch::channel(false);
        let thread = threads::spawn("admin", move || {
            runtime.block_on(async {
                tokio::select! {
                    () = listen(&listener, &target) => {}
                    _ = stopped.wait_for(|stop| *stop) => {}
                }
            });
        })?;
        Ok(Server { stop, thread, socket })
    }

    /// Ends the thread and removes the socket. Commands that are being executed end with the process.
    pub fn stop(self) {
        let _ = self.stop.send(true);
        let _ = self.thread.join();
        let _ = std::fs::remove_file(self.socket);
    }
}

/// Accepts connections, and executes the command of each on its own thread.
async fn listen(listener: &UnixListener, target: &Arc<Target>) {
    let running = Arc::new(AtomicUsize::new(0));
    loop {
        let accepted = listener.accept().await;
        let Ok((stream, _)) = accepted else {
            plimsoll_catalog::ambient::pause(100).await;
            continue;
        };
        // The file is for its owner only; this also holds if somebody has changed its permissions.
        let own = geteuid().as_raw();
        let Some(user) =
            stream.peer_cred().ok().map(|peer| peer.uid()).filter(|user| [0, own].contains(user))
        else {
            continue;
        };
        let Ok(stream) = stream.into_std() else { continue };
        let Some(running) = Running::begin(&running) else {
            let message = format!("the gateway executes {MOST} commands already; repeat this one later");
            let _ = send(&mut { stream }, &Answer::Exit(3, Some(message)));
            continue;
        };
        let target = Arc::clone(target);
        // A panic ends only the command: transactions are executed by another thread.
        let started = std::thread::Builder::new().name("command".into()).spawn(move || {
            let _running = running;
            if let Err(error) = serve(stream, &target, user) {
                warn(&format!("an administrator's connection failed: {error}"));
            }
        });
        if let Err(error) = started {
            warn(&format!("an administrator's command was not executed: {error}"));
        }
    }
}

/// A command that is being executed.
struct Running(Arc<AtomicUsize>);

impl Running {
    /// Counts a command; `None` if there are too many.
    fn begin(count: &Arc<AtomicUsize>) -> Option<Running> {
        let one = Running(Arc::clone(count));
        (count.fetch_add(1, Ordering::Relaxed) < MOST).then_some(one)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Executes the command of a connection.
fn serve(mut stream: UnixStream, target: &Target, user: u32) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(READ_PATIENCE))?;
    let Some(request) = receive::<Request>(&mut BufReader::new(stream.try_clone()?))? else { return Ok(()) };
    let own = env!("CARGO_PKG_VERSION");
    if request.version != own {
        let version = request.version;
        let message =
            format!("the running gateway is version {own}; use its command line, not version {version}");
        return send(&mut stream, &Answer::Exit(2, Some(message)));
    }
    let connection = Connection(Mutex::new(stream));
    let Request { directory, arguments, .. } = &request;
    let result = command::audited(arguments, directory, &format!("user {user}"), target, &connection);
    let answer = match result {
        Ok(()) => Answer::Exit(0, None),
        Err(Exit { code, message }) => Answer::Exit(code, Some(message)),
    };
    let sent = connection.send(&answer);
    // Only the command that has prepared it: another one may end before its result is sent.
    if let Some(restart) = &target.restart
        && arguments.iter().any(|word| word == "migrate")
    {
        restart.begin();
    }
    // The result of a promotion: the process may start itself again now.
    if let Some(following) = target.store.catalog.following()
        && arguments.iter().any(|word| word == "promote")
    {
        following.has_told();
    }
    sent
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: a result of more than 1 MiB was one message, which the client does not read.
    #[test]
    fn a_long_text_is_sent_in_pieces() {
        let text = "é".repeat(1 << 20);
        let sent: Vec<&str> = pieces(&text).collect();
        assert!(sent.len() > 30 && sent.iter().all(|piece| piece.len() <= 64 * 1024));
        assert_eq!(sent.concat(), text);
        assert_eq!(pieces("").collect::<Vec<_>>(), [""]);
    }
}
