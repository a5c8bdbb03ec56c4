//! Start and end of a server process: its listener, and the signals that end it.

use std::io::{self, Read};
use std::net::TcpListener;
use std::sync::Arc;

use tokio::sync::watch;

/// Binds a listener with an accept queue of 1,024 connections, as tokio does. That of `std` holds 128, which a burst of
/// connections overflows.
///
/// # Errors
/// If the address is invalid or in use.
pub fn listen_on(address: &str) -> io::Result<TcpListener> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async { tokio::net::TcpListener::bind(address).await?.into_std() })
}

/// Starts threads that report SIGINT, SIGTERM and, if `until_stdin_closes` is true, the end of standard input to
/// `stop`.
pub fn watch_for_end(stop: watch::Sender<bool>, until_stdin_closes: bool) {
    let stop = Arc::new(stop);
    if until_stdin_closes {
        let stop = Arc::clone(&stop);
        std::thread::spawn(move || {
            let mut buffer = [0; 64];
            let mut stdin = io::stdin();
            while stdin.read(&mut buffer).is_ok_and(|n| n > 0) {}
            let _ = stop.send(true);
        });
    }
    let (registered, is_registered) = std::sync::mpsc::channel();
    std::thread::spawn(move || -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            use tokio::signal::unix::{SignalKind, signal};
            let (mut interrupt, mut terminate) =
                (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
            let _ = registered.send(());
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            let _ = stop.send(true);
            Ok(())
        })
    });
    // A signal that arrives after this function has returned ends the server gracefully.
    let _ = is_registered.recv();
}

/// Starts a thread that calls `reload` at every SIGHUP.
pub fn on_hangup(reload: impl Fn() + Send + 'static) {
    let (registered, is_registered) = std::sync::mpsc::channel();
    std::thread::spawn(move || -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            use tokio::signal::unix::{SignalKind, signal};
            let mut hangup = signal(SignalKind::hangup())?;
            let _ = registered.send(());
            while hangup.recv().await.is_some() {
                reload();
            }
            Ok(())
        })
    });
    // A signal that arrives after this function has returned reloads.
    let _ = is_registered.recv();
}
