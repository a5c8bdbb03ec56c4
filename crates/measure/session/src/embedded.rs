//! The embedded server: `plimsoll serve` as a child process, for `embedded:` stores.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock};

use super::error::RunError;
use plimsoll_base::rng::entropy;
use plimsoll_engine::store::Store;
use plimsoll_engine::store::http::Route;
use plimsoll_engine::store::s3::S3Store;
use plimsoll_s3::credentials::{CredentialSource, Credentials};
use plimsoll_s3::url::{StoreUrl, parse};

/// Bucket that runs on the embedded server use.
pub const EMBEDDED_BUCKET: &str = "plimsoll";

static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Sets the `plimsoll` program that `embedded:` stores start. Only the first call has an effect.
pub fn set_program(program: PathBuf) {
    let _ = PROGRAM.set(program);
}

/// `plimsoll serve` as a child process. It ends when this value is dropped or this process ends, because its standard
/// input closes in both cases.
pub struct EmbeddedServer {
    child: Child,
    /// URL of the server, in the form `http://127.0.0.1:PORT`.
    pub url: String,
    credentials: Credentials,
}

/// Returns an unguessable word, for credentials that are valid for one server process only.
fn random_word() -> String {
    (0..3).map(|_| format!("{:016x}", entropy())).collect()
}

impl EmbeddedServer {
    /// Starts the server with additional arguments.
    ///
    /// # Errors
    /// [`RunError::Input`] if [`set_program`] was not called; [`RunError::Store`] if the server does not start.
    pub fn start(arguments: &[&str]) -> Result<EmbeddedServer, RunError> {
        EmbeddedServer::start_on("127.0.0.1:0", arguments)
    }

    /// Does the same as [`EmbeddedServer::start`] on another address.
    ///
    /// # Errors
    /// Returns the same errors as [`EmbeddedServer::start`].
    pub fn start_on(listen: &str, arguments: &[&str]) -> Result<EmbeddedServer, RunError> {
        use std::os::unix::process::CommandExt;
        let program = PROGRAM.get().ok_or_else(|| {
            RunError::input(
                "an embedded: store needs the plimsoll program; call session::embedded::set_program first",
            )
        })?;
        let credentials = Credentials::new(&random_word(), &random_word(), None);
        let child = Command::new(program)
            .args(["serve", "--listen", listen, "--until-stdin-closes"])
            .args(arguments)
            .env("PLIMSOLL_ACCESS_KEY", &credentials.access_key)
            .env("PLIMSOLL_SECRET_KEY", credentials.secret_key())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C on the terminal must reach only the run, which still needs the server for its clean-up.
            .process_group(0)
            .spawn();
        let mut child =
            child.map_err(|e| RunError::store(format!("the embedded server cannot be started: {e}")))?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            let _ = BufReader::new(stdout).read_line(&mut line);
        }
        match line.trim().strip_prefix("listening on ") {
            Some(url) => Ok(EmbeddedServer { url: url.to_string(), child, credentials }),
            None => {
                let _ = child.kill();
                Err(RunError::store(
                    "the embedded server did not start; run `plimsoll serve` to see the reason",
                ))
            }
        }
    }

    /// Returns a store on the server's bucket.
    ///
    /// # Errors
    /// [`RunError::Store`] if the loopback address cannot be used.
    pub fn store(&self, redacted_url: &str) -> Result<Arc<dyn Store>, RunError> {
        self.store_at(&self.url, redacted_url, Route::default())
    }

    /// Returns a store on the server's bucket whose requests go to `address` by `route`.
    ///
    /// # Errors
    /// [`RunError::Store`] if the address cannot be used.
    pub fn store_at(
        &self,
        address: &str,
        redacted_url: &str,
        route: Route<'_>,
    ) -> Result<Arc<dyn Store>, RunError> {
        let text = format!("s3://{EMBEDDED_BUCKET}?endpoint={address}&provider=embedded");
        let Ok(StoreUrl::S3(url)) = parse(&text, &|_| None) else {
            return Err(RunError::input(format!(
                "'{address}' is not the URL of a server, such as http://host:port"
            )));
        };
        let source = CredentialSource::fixed(self.credentials.clone());
        let store = S3Store::open(*url, redacted_url, Some(source), route).map_err(RunError::store)?;
        Ok(Arc::new(store))
    }

    /// Stops the server and waits until it has exited, so that its timing log is complete.
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
