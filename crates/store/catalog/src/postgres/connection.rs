//! Connections to the database that are opened again when they break.

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use plimsoll_base::clock::{SECOND, now_ns, sleep_until};
use plimsoll_base::net::tls::client_config;
use plimsoll_base::redaction::register_secret;
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::error::{Error, SqlState};
use tokio_postgres::{Client, Config, NoTls, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::schema;
use crate::CatalogError;
use crate::blocking::{block_on, block_on_for};
use crate::liveness;

/// Time for which a database has to accept a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// Time for which a database has to answer: longer than its own timeouts, which give better errors. A database that
/// hangs, or a network that drops packets, must not stop a thread for ever.
const ANSWER: Duration = Duration::from_secs(45);

/// Database and the account of the gateway in it.
#[derive(Clone, PartialEq, Eq)]
pub struct Database {
    config: Config,
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Database")
    }
}

impl Database {
    /// Reads a URL of the form `postgres://USER@HOST:PORT/NAME?sslmode=require`. Messages never contain
    /// the password of the URL.
    ///
    /// # Errors
    /// Describes what is wrong, without the URL.
    pub fn parse(url: &str, password: Option<&str>) -> Result<Database, String> {
        let mut config = Config::from_str(url).map_err(|error| {
            let cause =
                std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
            format!("{error}{cause}; write postgres://USER@HOST:PORT/DATABASE")
        })?;
        if config.get_hosts().is_empty() {
            return Err("the URL has no host; write postgres://USER@HOST:PORT/DATABASE".into());
        }
        if let Some(password) = password {
            config.password(password);
        }
        if let Some(password) = config.get_password() {
            // The log redacts what is registered, also in errors of the driver.
            register_secret(&String::from_utf8_lossy(password));
        }
        config
            .application_name("plimsoll-gateway")
            // For each address of the name. `CONNECT` limits all of them together.
            .connect_timeout(Duration::from_secs(5))
            // A machine that is gone closes no connection. The kernel does so before `ANSWER` is over.
            .tcp_user_timeout(Duration::from_secs(15))
            .keepalives_idle(Duration::from_secs(15));
        Ok(Database { config })
    }

    /// Returns true if the connection is encrypted: unless the URL has `sslmode=disable`, or all hosts are local and
    /// the URL does not require it.
    fn uses_tls(&self) -> bool {
        let is_local = |host: &Host| match host {
            Host::Tcp(name) => matches!(name.as_str(), "localhost" | "127.0.0.1" | "::1"),
            Host::Unix(_) => true,
        };
        match self.config.get_ssl_mode() {
            SslMode::Disable => false,
            // The default of URLs. Nobody has asked for a password that crosses a network unencrypted.
            SslMode::Prefer => !self.config.get_hosts().iter().all(is_local),
            _ => true,
        }
    }

    /// Opens a connection, which then works in the background of the runtime.
    async fn connect(&self) -> Result<Client, String> {
        let opened = tokio::time::timeout(CONNECT, self.connect_without_limit()).await;
        opened.unwrap_or_else(|_| Err(format!("no connection in {} s", CONNECT.as_secs())))
    }

    async fn connect_without_limit(&self) -> Result<Client, String> {
        let mut config = self.config.clone();
        if !self.uses_tls() {
            config.ssl_mode(SslMode::Disable);
            let (client, connection) = config.connect(NoTls).await.map_err(|error| describe(&error))?;
            tokio::spawn(connection);
            return Ok(client);
        }
        // With `prefer`, a server or an attacker that refuses TLS would get an unencrypted connection.
        config.ssl_mode(SslMode::Require);
        let mut tls = (*client_config(None).map_err(|error| error.to_string())?).clone();
        // HTTP is not spoken here.
        tls.alpn_protocols.clear();
        let connected = config.connect(MakeRustlsConnect::new(tls)).await;
        let (client, connection) = connected.map_err(|error| describe(&error))?;
        // The error of a connection is not lost: each request over it then fails.
        tokio::spawn(connection);
        Ok(client)
    }
}

/// Returns the message of an error with its cause.
pub fn describe(error: &Error) -> String {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    format!("{error}{cause}")
}

/// Converts an error of the database.
pub fn failed(error: &Error) -> CatalogError {
    match error.code() {
        Some(&SqlState::DISK_FULL) => CatalogError::DiskFull,
        Some(&SqlState::UNDEFINED_TABLE) => {
            CatalogError::Unavailable("the database has no catalog any more; was it moved?".into())
        }
        // Other errors may end by themselves, so clients get status 503 and try again.
        _ => CatalogError::Unavailable(describe(error)),
    }
}

/// Returns the error of a database that does not answer.
fn silent() -> CatalogError {
    CatalogError::Unavailable(format!("no answer in {} s", ANSWER.as_secs()))
}

/// An open connection with its prepared statements.
pub struct Session {
    /// Connection to the database.
    pub client: Client,
    /// Statement that reads rows by their keys.
    pub get: Statement,
    /// Statement that reads the properties and the body of a row, if the row has not changed since its head was read.
    pub value: Statement,
    /// Statement that reads rows from a key on.
    pub page: Statement,
    /// Statement that writes several rows.
    pub put: Statement,
    /// Statement that writes rows that do not exist.
    pub insert: Statement,
    /// Statement that removes several rows.
    pub delete: Statement,
    /// Statement that locks and checks rows that are written.
    pub check_written: Statement,
    /// Statement that checks rows that are only written under the lock of the catalog.
    pub check_stable: Statement,
    /// Statement that locks and checks rows that are read.
    pub check_read: Statement,
    /// Statement that checks that rows do not exist.
    pub check_absent: Statement,
}

impl Session {
    async fn open(database: &Database) -> Result<Session, String> {
        let client = database.connect().await?;
        let prepared = async {
            // Not left to the account: with `synchronous_commit = off`, a crash would lose acknowledged writes.
            client.batch_execute(schema::SETTINGS).await?;
            Ok::<_, Error>(Session {
                get: client.prepare(schema::GET).await?,
                value: client.prepare(schema::VALUE).await?,
                page: client.prepare(schema::PAGE).await?,
                put: client.prepare(schema::PUT).await?,
                insert: client.prepare(schema::INSERT).await?,
                delete: client.prepare(schema::DELETE).await?,
                check_written: client.prepare(schema::CHECK_WRITTEN).await?,
                check_stable: client.prepare(schema::CHECK_STABLE).await?,
                check_read: client.prepare(schema::CHECK_READ).await?,
                check_absent: client.prepare(schema::CHECK_ABSENT).await?,
                client,
            })
        };
        let prepared = tokio::time::timeout(ANSWER, prepared).await;
        prepared.map_err(|_| silent().to_string())?.map_err(|error| describe(&error))
    }
}

/// A connection that is opened when it is needed.
pub struct Link {
    database: Database,
    runtime: Handle,
    session: Mutex<Option<Arc<Session>>>,
    /// Time of the last failure of any link to connect in nanoseconds; 0 after a success.
    failed_ns: Arc<AtomicU64>,
}

impl Link {
    /// Creates a link whose connection works in a runtime. Threads of this runtime must not use the link.
    pub fn new(database: Database, runtime: Handle) -> Link {
        Link { database, runtime, session: Mutex::default(), failed_ns: Arc::default() }
    }

    /// Creates another link to the same database.
    pub fn another(&self) -> Link {
        // Shared: after a failure of one link, the requests of the others fail soon as well.
        let failed_ns = Arc::clone(&self.failed_ns);
        Link { failed_ns, ..Link::new(self.database.clone(), self.runtime.clone()) }
    }

    /// Executes statements over a plain connection, which is closed afterwards.
    ///
    /// # Errors
    /// If the database does not answer, or a statement fails.
    pub fn once<T: Send + 'static>(
        &self,
        statements: impl AsyncFnOnce(&Client) -> Result<T, Error>,
    ) -> Result<T, CatalogError> {
        liveness::at_most("the answer of the database", CONNECT + ANSWER);
        // Also limited: else a database that hangs would hold a start, and `settled`, for ever.
        let answered = block_on_for(ANSWER, statements(&self.plain()?));
        answered.ok_or_else(silent)?.map_err(|error| failed(&error))
    }

    /// Asks a question over a new connection when no older one, which holds a session lock, can still do anything.
    /// `None` if the lock cannot be taken for some time, or the database does not answer.
    pub fn settled(&self, try_lock: &str, question: &str) -> Option<bool> {
        /// Number of attempts, one each second.
        const ATTEMPTS: usize = 30;
        for _ in 0..ATTEMPTS {
            let asked = self.once(async |client| {
                // While the lock is held, the older connection may still commit, and the answer would be worth nothing.
                let is_alone: bool = client.query_one(try_lock, &[]).await?.try_get(0)?;
                if is_alone { client.query_one(question, &[]).await?.try_get(0).map(Some) } else { Ok(None) }
            });
            if let Ok(Some(answer)) = asked {
                return Some(answer);
            }
            sleep_until(now_ns() + SECOND);
        }
        None
    }

    /// Opens a plain connection, without the settings of the others.
    ///
    /// # Errors
    /// If the database does not answer.
    pub fn plain(&self) -> Result<Client, CatalogError> {
        let database = self.database.clone();
        // In the runtime of the link, which serves the connection: this thread may have none.
        let connected = block_on(self.runtime.spawn(async move { database.connect().await }));
        let client = connected.map_err(|e| CatalogError::Unavailable(e.to_string()))?;
        client.map_err(CatalogError::Unavailable)
    }

    /// Returns the open connection, or opens one. Threads of the runtime of the connections must not call this.
    ///
    /// # Errors
    /// If the database does not answer.
    pub fn session(&self) -> Result<Arc<Session>, CatalogError> {
        // Another thread may be opening the connection.
        liveness::at_most("a connection to the database", 2 * (CONNECT + ANSWER));
        block_on(self.connect())
    }

    /// Returns the open connection, or opens one.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn connect(&self) -> Result<Arc<Session>, CatalogError> {
        /// Time after a failure in which no connection is tried, so that requests fail soon.
        const PAUSE_NS: u64 = 200_000_000;
        // Held until the connection is open: the other threads wait for it, and open none of their own.
        let mut current = self.session.lock().await;
        if let Some(session) = current.as_ref().filter(|session| !session.client.is_closed()) {
            return Ok(Arc::clone(session));
        }
        *current = None;
        let failed_ns = self.failed_ns.load(Ordering::Acquire);
        if failed_ns > 0 && now_ns().saturating_sub(failed_ns) < PAUSE_NS {
            return Err(CatalogError::Unavailable("the last attempt to connect has failed".into()));
        }
        let database = self.database.clone();
        // As in `plain`, because the connection needs a runtime.
        let opened = self.runtime.spawn(async move { Session::open(&database).await }).await;
        let opened = opened.map_err(|e| e.to_string()).and_then(|opened| opened);
        self.failed_ns.store(if opened.is_ok() { 0 } else { now_ns() }, Ordering::Release);
        let session = Arc::new(opened.map_err(CatalogError::Unavailable)?);
        *current = Some(Arc::clone(&session));
        Ok(session)
    }

    /// Executes statements that only read. If the connection breaks, they are executed once again over a new one.
    ///
    /// # Errors
    /// If the database does not answer, or a statement fails.
    pub fn read<T>(&self, statements: impl AsyncFn(&Session) -> Result<T, Error>) -> Result<T, CatalogError> {
        let session = self.session()?;
        // No second attempt without an answer in time: the next one would wait as long.
        let result = match self.answer(&session, statements(&session))? {
            Err(error) if error.is_closed() || session.client.is_closed() => {
                let session = self.session()?;
                self.answer(&session, statements(&session))?
            }
            result => result,
        };
        liveness::at("its next step");
        result.map_err(|error| failed(&error))
    }

    /// Waits for the answer of the database over a connection. Without one in time, the connection is used no more: its
    /// transaction, if it has one, ends with it.
    ///
    /// # Errors
    /// If the database does not answer.
    pub fn answer<T>(
        &self,
        session: &Arc<Session>,
        statements: impl Future<Output = T>,
    ) -> Result<T, CatalogError> {
        // A slow database is not a stalled thread.
        liveness::at_most("the answer of the database", ANSWER);
        let answered = block_on_for(ANSWER, statements);
        if answered.is_none() {
            block_on(self.forget(session));
        }
        answered.ok_or_else(silent)
    }

    /// Does the same as [`Link::answer`] in the runtime of the connections.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn answer_in_runtime<T>(
        &self,
        session: &Arc<Session>,
        statements: impl Future<Output = T>,
    ) -> Result<T, CatalogError> {
        match tokio::time::timeout(ANSWER, statements).await {
            Ok(answered) => Ok(answered),
            Err(_) => {
                self.forget(session).await;
                Err(silent())
            }
        }
    }

    /// Lets the next use open another connection.
    async fn forget(&self, session: &Arc<Session>) {
        let mut current = self.session.lock().await;
        // Another thread may have opened the next connection already, which is intact.
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, session)) {
            *current = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_connections_are_encrypted_unless_the_url_says_otherwise() {
        let uses_tls = |url: &str| Database::parse(url, None).unwrap().uses_tls();
        assert!(!uses_tls("postgres://u@localhost/db") && !uses_tls("postgres://u@%2Fvar%2Frun/db"));
        assert!(
            uses_tls("postgres://u@db.example/db") && uses_tls("postgres://u@localhost/db?sslmode=require")
        );
        assert!(!uses_tls("postgres://u@db.example/db?sslmode=disable"));
    }

    #[test]
    fn a_wrong_url_is_refused_without_its_password() {
        let error = Database::parse("postgres://u:hunter22@db/x?sslmode=never", None).unwrap_err();
        assert!(!error.contains("hunter22") && error.contains("sslmode"), "{error}");
        assert!(Database::parse("postgres:///x", None).unwrap_err().contains("no host"));
    }
}
