//! Clients that work until the power fails, and note every acknowledgement.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use futures_util::future::join_all;

use super::content::{ContentId, bytes_of};
use super::history::{Action, Event, NumberedOperation};
use super::pause::pause;
use super::plan::{ClientPlan, Features};
use super::signed::{SignedClient, blocking};
use super::versions::{Versions, has_versions};
use plimsoll_base::clock::now_ns;
use plimsoll_base::net::client_limits;
use plimsoll_engine::store::ownership::KeySpace;
use plimsoll_engine::store::{Body, Connection, Ignore, PartTag, Request, Store};

/// Consecutive operations without an acknowledgement after which a client gives up.
const GIVE_UP: u32 = 3;

/// A store under check.
#[derive(Clone)]
pub struct CheckedStore {
    /// Store that is checked.
    pub store: Arc<dyn Store>,
    /// Client for tags and copies.
    pub signed: SignedClient,
    /// Key space of the check.
    pub space: KeySpace,
    /// Prefix of its keys in the key space; empty, or ending in `/`.
    pub folder: String,
    /// True if the store has tags.
    pub tags: bool,
    /// Bucket with versions; `None` if the store has none.
    pub versions: Option<Versions>,
    /// Seed of the contents.
    pub seed: u64,
}

impl CheckedStore {
    /// Returns the complete key.
    pub fn key(&self, key: &str) -> String {
        format!("{}{}{key}", self.space.root(), self.folder)
    }

    /// Executes an operation. Returns true if the store acknowledged it before the deadline of requests.
    pub async fn execute(&self, connection: &mut dyn Connection, operation: &NumberedOperation) -> bool {
        tokio::select! {
            biased;
            done = self.request(connection, operation) => done,
            // A machine without power does not even close its connections.
            () = pause(client_limits::timeout()) => false,
        }
    }

    async fn request(&self, connection: &mut dyn Connection, operation: &NumberedOperation) -> bool {
        let key = self.key(&operation.key);
        let content = |size| bytes_of(self.seed, ContentId { operation: operation.id, size });
        if let Some(versions) = self.versions.clone().filter(|_| has_versions(&operation.key)) {
            return match &operation.action {
                Action::Put(size) | Action::Version(size) => {
                    let content = content(*size);
                    acknowledges(move || versions.put(&key, content)).await
                }
                Action::Delete | Action::DeleteVersion => acknowledges(move || versions.delete(&key)).await,
                Action::Multipart(_) | Action::Copy(..) | Action::Tag => false,
            };
        }
        match &operation.action {
            Action::Put(size) => {
                let body = Body::Whole(content(*size));
                connection.execute(Request::Put { key: &key, body }, &mut Ignore).await.is_ok()
            }
            Action::Multipart(parts) => {
                let whole = content(parts.iter().sum());
                multipart(connection, &key, &whole, parts).await.is_some()
            }
            Action::Copy(from, _) => {
                let (signed, from) = (self.signed.clone(), self.key(from));
                acknowledges(move || signed.copy(&from, &key)).await
            }
            Action::Delete => match self.space.own(&key) {
                Some(key) => connection.execute(Request::Delete { key }, &mut Ignore).await.is_ok(),
                None => false,
            },
            // Without a bucket for them, there are no versions.
            Action::Version(_) | Action::DeleteVersion => false,
            Action::Tag => {
                let (signed, value) = (self.signed.clone(), operation.id);
                acknowledges(move || signed.set_tag(&key, value)).await
            }
        }
    }
}

/// Sends a request while the other clients continue. Returns true if the store acknowledged it.
async fn acknowledges(request: impl FnOnce() -> Result<bool, String> + Send + 'static) -> bool {
    blocking(request).await == Ok(true)
}

async fn multipart(
    connection: &mut dyn Connection,
    key: &str,
    whole: &bytes::Bytes,
    sizes: &[u64],
) -> Option<()> {
    let created = connection.execute(Request::CreateMultipart { key }, &mut Ignore).await.ok()?;
    let (upload_id, mut parts, mut from) = (created.upload_id?, Vec::new(), 0);
    for (number, size) in (1..).zip(sizes) {
        let to = from + *size as usize;
        let body = Body::Whole(whole.slice(from..to));
        let request = Request::UploadPart { key, upload_id: &upload_id, number, body };
        let reply = connection.execute(request, &mut Ignore).await.ok()?;
        parts.push(PartTag { etag: reply.etag?, checksum: reply.checksum });
        from = to;
    }
    let request = Request::CompleteMultipart { key, upload_id: &upload_id, parts: &parts };
    connection.execute(request, &mut Ignore).await.ok().map(drop)
}

/// Decides when the power fails.
pub trait Power {
    /// Receives the number of acknowledgements so far, before the clients go on.
    fn acknowledged(&self, count: u64);

    /// Returns true if the power has failed, so that later acknowledgements do not count.
    fn is_off(&self) -> bool;
}

/// Power that does not fail.
pub struct Always;

impl Power for Always {
    fn acknowledged(&self, _: u64) {}

    fn is_off(&self) -> bool {
        false
    }
}

/// Lets clients work until the power fails, all of them give up, or `most` operations are acknowledged. Returns the
/// events in the order of their answers.
pub async fn work(
    target: &CheckedStore,
    seed: u64,
    clients: u64,
    most: u64,
    power: &dyn Power,
) -> Vec<Event> {
    let (events, count) = (RefCell::new(Vec::new()), Cell::new(0));
    let client = async |number: u64| {
        let mut connection = target.store.connection(number as usize);
        let mut plan = ClientPlan::new(
            seed,
            number,
            Features { tags: target.tags, versions: target.versions.is_some() },
        );
        let mut failures = 0;
        while !power.is_off() && failures < GIVE_UP && count.get() < most {
            let operation = plan.draw();
            let done = target.execute(connection.as_mut(), &operation).await;
            let is_acknowledged = done && !power.is_off();
            plan.answered(&operation, is_acknowledged);
            let acknowledged_ns = is_acknowledged.then(now_ns);
            events.borrow_mut().push(Event { operation, acknowledged_ns });
            failures = if is_acknowledged { 0 } else { failures + 1 };
            if is_acknowledged {
                count.set(count.get() + 1);
                power.acknowledged(count.get());
            }
        }
    };
    join_all((0..clients).map(client)).await;
    events.into_inner()
}

/// Executes these operations one after the other, until the power fails.
pub async fn replay(
    target: &CheckedStore,
    operations: &[NumberedOperation],
    power: &dyn Power,
) -> Vec<Event> {
    let mut connection = target.store.connection(0);
    let (mut events, mut count) = (Vec::new(), 0);
    for operation in operations {
        if power.is_off() {
            break;
        }
        let done = target.execute(connection.as_mut(), operation).await;
        let acknowledged_ns = (done && !power.is_off()).then(now_ns);
        events.push(Event { operation: operation.clone(), acknowledged_ns });
        if acknowledged_ns.is_some() {
            count += 1;
            power.acknowledged(count);
        }
    }
    events
}
