//! Reads rows for many threads: the keys that are wanted while others are read share the next statement.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use super::connection::{Link, failed};
use super::rows;
use crate::{CatalogError, Row};

/// Maximum number of keys in a statement. Bodies of at most [`super::schema::SMALL`] bytes come with their rows.
const MAX_KEYS: usize = 64;
/// Maximum number of statements that are executed at the same time.
const MAX_STATEMENTS: usize = 4;

/// A key that is wanted, and who wants it.
struct Wanted {
    key: Vec<u8>,
    answer: oneshot::Sender<Result<Option<Row>, CatalogError>>,
}

/// Handle of the reader.
pub struct Reader {
    wanted: mpsc::UnboundedSender<Wanted>,
}

impl Reader {
    /// Starts to read over a link, in its runtime.
    pub fn start(link: Link, runtime: &Handle) -> Reader {
        let (wanted, receiver) = mpsc::unbounded_channel();
        runtime.spawn(serve(Arc::new(link), receiver));
        Reader { wanted }
    }

    /// Returns the row of a key, with its value if that is small.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn read(&self, key: Vec<u8>) -> Result<Option<Row>, CatalogError> {
        let (answer, answered) = oneshot::channel();
        let ended = || CatalogError::Ended;
        self.wanted.send(Wanted { key, answer }).map_err(|_| ended())?;
        answered.await.map_err(|_| ended())?
    }
}

async fn serve(link: Arc<Link>, mut wanted: mpsc::UnboundedReceiver<Wanted>) {
    let mut statements = FuturesUnordered::new();
    loop {
        tokio::select! {
            // Answers first, because their requests wait longer than new ones.
            biased;
            Some(()) = statements.next(), if !statements.is_empty() => {}
            first = wanted.recv(), if statements.len() < MAX_STATEMENTS => {
                // The catalog was dropped, and nobody waits for the statements that are left.
                let Some(first) = first else { return };
                let mut group = vec![first];
                while group.len() < MAX_KEYS && let Ok(next) = wanted.try_recv() {
                    group.push(next);
                }
                statements.push(read(Arc::clone(&link), group));
            }
        }
    }
}

/// Reads rows and answers those who want them.
async fn read(link: Arc<Link>, group: Vec<Wanted>) {
    // Requests that have ended want nothing.
    let group: Vec<Wanted> = group.into_iter().filter(|wanted| !wanted.answer.is_closed()).collect();
    let keys: Vec<&[u8]> = group.iter().map(|wanted| &wanted.key[..]).collect();
    let found = find(&link, &keys).await;
    for Wanted { key, answer } in group {
        let row = found.as_ref().map(|found| found.get(&key).cloned()).map_err(Clone::clone);
        // Nobody waits for the answer of a request that has ended.
        let _ = answer.send(row);
    }
}

/// Reads rows. If the connection breaks, they are read once again over a new one.
async fn find(link: &Link, keys: &[&[u8]]) -> Result<HashMap<Vec<u8>, Row>, CatalogError> {
    let session = link.connect().await?;
    let found = match link.answer_in_runtime(&session, rows::get_many(&session, keys)).await? {
        Err(error) if error.is_closed() || session.client.is_closed() => {
            let session = link.connect().await?;
            link.answer_in_runtime(&session, rows::get_many(&session, keys)).await?
        }
        found => found,
    };
    found.map_err(|error| failed(&error))
}
