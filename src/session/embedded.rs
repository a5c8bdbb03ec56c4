//! The embedded server: `plimsoll serve` as a child process, for `embedded:` stores.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock};

use super::error::RunError;
use crate::rng::entropy;
use crate::s3::credentials::{CredentialSource, Credentials};
use crate::store::Store;
use crate::store::s3::S3Store;
use crate::store::url::{StoreUrl, parse};

/// Bucket that runs on the embedded server use.
pub const EMBEDDED_BUCKET: &str = "plimsoll";

static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Sets the `plimsoll` program that `embedded:` stores start. Only the first call counts.
pub fn set_program(program: PathBuf) {
    let _ = PROGRAM.set(program);
}

/// `plimsoll serve` as a process of its own. It ends with this value, or with this process, whichever comes first: it
/// watches its standard input, which closes in either case.
pub struct EmbeddedServer {
    child: Child,
    /// `http://127.0.0.1:PORT`.
    pub url: String,
    credentials: Credentials,
}

/// A word that nobody can guess, for credentials that live as long as one process.
fn random_word() -> String {
    (0..3).map(|_| format!("{:016x}", entropy())).collect()
}

impl EmbeddedServer {
    /// Starts the server with further arguments.
    ///
    /// # Errors
    /// When the process cannot be started.
    pub fn start(arguments: &[&str]) -> Result<EmbeddedServer, RunError> {
        use std::os::unix::process::CommandExt;
        let program = PROGRAM.get().ok_or_else(|| {
            RunError::input("embedded: needs the plimsoll program; call session::embedded::set_program first")
        })?;
        let credentials = Credentials::new(&random_word(), &random_word(), None);
        let child = Command::new(program)
            .args(["serve", "--listen", "127.0.0.1:0", "--until-stdin-closes"])
            .args(arguments)
            .env("PLIMSOLL_ACCESS_KEY", &credentials.access_key)
            .env("PLIMSOLL_SECRET_KEY", credentials.secret_key())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // A Ctrl-C on the terminal is for the run, which still needs the server to clean up.
            .process_group(0)
            .spawn();
        let mut child =
            child.map_err(|e| RunError::store(format!("the embedded server could not be started: {e}")))?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            let _ = BufReader::new(stdout).read_line(&mut line);
        }
        match line.trim().strip_prefix("listening on ") {
            Some(url) => Ok(EmbeddedServer { url: url.to_string(), child, credentials }),
            None => {
                let _ = child.kill();
                Err(RunError::store("the embedded server did not come up; try `plimsoll serve` to see why"))
            }
        }
    }

    /// A store on the server's bucket.
    ///
    /// # Errors
    /// Never, unless the loopback address has gone.
    pub fn store(&self, redacted_url: &str) -> Result<Arc<dyn Store>, RunError> {
        let text = format!("s3://{EMBEDDED_BUCKET}?endpoint={}&provider=embedded", self.url);
        let Ok(StoreUrl::S3(url)) = parse(&text, &|_| None) else {
            return Err(RunError::store("the embedded server's URL"));
        };
        let source = CredentialSource::fixed(self.credentials.clone());
        let store = S3Store::open(*url, redacted_url, Some(source), None).map_err(RunError::store)?;
        Ok(Arc::new(store))
    }

    /// Ends the server in good order and waits for it, so that its log is complete.
    pub fn stop(mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

impl Drop for EmbeddedServer {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
