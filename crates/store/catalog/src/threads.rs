//! The threads of the gateway.

use std::thread::{Builder, JoinHandle};

use tokio::runtime::{self, Runtime};

/// Threads of a runtime for reads and writes of files. Tokio would start one for each file that is deleted or moved at
/// the same time, and each keeps the memory of its stack while there is work: 300 of them held 100 MB.
const FILE_THREADS: usize = 64;

/// Creates the runtime of a thread of background work.
///
/// # Errors
/// If the system refuses it.
pub fn runtime() -> std::io::Result<Runtime> {
    runtime::Builder::new_current_thread().max_blocking_threads(FILE_THREADS).enable_all().build()
}

/// Ends the process if it is dropped during a panic.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

/// Starts a thread. A panic in it ends the process: the requests that wait for the thread would wait forever, and after
/// a violated assertion the state in memory must reach neither clients nor the disk. A restart reads the state from the
/// log.
///
/// # Errors
/// If the thread cannot be started.
pub fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<JoinHandle<T>> {
    Builder::new().name(name.into()).spawn(move || {
        // With a name, because `_` would drop the guard before the work begins.
        let _guard = AbortOnPanic;
        work()
    })
}

#[cfg(test)]
mod tests {
    /// Executes itself in a child process, which the panic ends.
    #[test]
    fn a_panic_in_a_thread_ends_the_process() {
        const CHILD: &str = "PLIMSOLL_TEST_PANICS";
        if std::env::var_os(CHILD).is_some() {
            let thread = super::spawn("commit", || panic!("a violated assertion")).unwrap();
            let _ = thread.join();
            std::process::exit(0);
        }
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        let output = command.args(["threads::tests", "--nocapture"]).env(CHILD, "1").output().unwrap();
        assert_eq!(output.status.code(), None, "a signal ends the process");
        assert!(String::from_utf8_lossy(&output.stderr).contains("a violated assertion"));
    }
}
