//! Clients that read, write, delete and list shared keys, and report every answer.
//!
//! Several clients share each key. They move on to a new key at the same times, so that histories stay short and a key
//! with an unanswered write is soon left behind. In every second turn, each client has a key of its own, and reads
//! after each write: the loss of a write that is soon overwritten shows nowhere else. Each client has one connection
//! and one request in flight.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::history::{Action, Answer, RecordedRequest, Value};
use plimsoll_base::clock::{Timer, now_ns};
use plimsoll_base::rng::{Stream, mix};
use plimsoll_engine::driver::Control;
use plimsoll_engine::store::ownership::KeySpace;
use plimsoll_engine::store::{Body, Connection, Failure, Observer, Reply, Request, Store};
use plimsoll_recorder::ErrorClass;
use plimsoll_recorder::Timings;

/// Value of content that no client wrote.
pub const FOREIGN: Value = Value::MAX;

/// Settings of the clients.
#[derive(Debug, Clone)]
pub struct ClientSettings {
    /// Number of keys in use at the same time.
    pub keys: u32,
    /// Number of clients that share each key, at most [`MAX_CLIENTS`].
    pub clients: u32,
    /// Time for which a key is used, in nanoseconds.
    pub per_key_ns: u64,
    /// Size of each object in bytes, at least [`MIN_SIZE`].
    pub size: usize,
    /// Seed of the random actions.
    pub seed: u64,
    /// Start and end on the monotonic clock, in nanoseconds.
    pub window_ns: (u64, u64),
    /// Deadline of each request in nanoseconds.
    pub timeout_ns: u64,
    /// True if the store accepts writes with conditions.
    pub conditions: bool,
}

/// Maximum number of clients that share a key. The check of a history takes time exponential in this number.
pub const MAX_CLIENTS: u32 = 8;
/// Minimum size of an object in bytes: 16 hexadecimal digits identify a value.
pub const MIN_SIZE: usize = 16;

/// A key in use: one of [`ClientSettings::keys`], and the number of times that its clients have moved on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct KeyTurn {
    /// Number of the key, from 0.
    pub key: u32,
    /// Number of the turn, from 0.
    pub turn: u64,
    /// Only client that uses the object; `None` if all clients of the key share it.
    pub owner: Option<u32>,
}

impl KeyTurn {
    /// Returns the object key of this turn.
    pub fn object_key(self, space: &KeySpace) -> String {
        let owner = self.owner.map_or(String::new(), |member| format!("-{member}"));
        format!("{}consistency/{:03}-{:06}{owner}", space.root(), self.key, self.turn)
    }
}

/// A message from a client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// An operation on the key of a turn, and the entity tag in its answer. A listing that contains the key has the
    /// answer [`Answer::Present`] and its entity tag.
    Operation(KeyTurn, RecordedRequest, Option<String>),
    /// A request that failed without any effect or observation.
    Failed {
        /// Class of the failure.
        class: String,
        /// Message for the user.
        message: String,
    },
    /// A write or delete without a known answer, and the reason.
    Unanswered(String),
    /// A client of a key has left all turns before this one.
    Reached {
        /// Number of the key.
        key: u32,
        /// Number of the client among those of the key.
        member: u32,
        /// Turn that the client is in; `u64::MAX` if it has finished.
        turn: u64,
    },
}

/// Returns the content that stands for a value: its hexadecimal digits, repeated.
fn content_of(value: Value, size: usize) -> Bytes {
    let digits = format!("{value:016x}");
    digits.bytes().cycle().take(size).collect::<Vec<u8>>().into()
}

/// Returns the value that content stands for; [`FOREIGN`] if it is not the content of one value in full.
fn value_of(content: &[u8], size: usize) -> Value {
    let digits = content.get(..MIN_SIZE).and_then(|digits| std::str::from_utf8(digits).ok());
    let value = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()).and_then(Value::new);
    value.filter(|value| content_of(*value, size) == content).unwrap_or(FOREIGN)
}

/// Observer that adds a condition to a request and keeps the content of its response.
#[derive(Default)]
struct Exchange {
    headers: Vec<(&'static str, String)>,
    content: Vec<u8>,
    most: usize,
}

impl Observer for Exchange {
    fn headers(&self) -> &[(&'static str, String)] {
        &self.headers
    }

    fn wants_etag(&self) -> bool {
        true
    }

    fn piece(&mut self, data: &[u8]) -> Result<(), u64> {
        // One byte more than expected is enough to know that the content is wrong.
        let room = (self.most + 1).saturating_sub(self.content.len());
        self.content.extend_from_slice(&data[..data.len().min(room)]);
        Ok(())
    }
}

/// One of the clients of a key.
pub struct KeyClient {
    /// Plan of all clients.
    pub plan: Arc<ClientSettings>,
    /// Store under test.
    pub store: Arc<dyn Store>,
    /// Keys that the clients may write and delete.
    pub space: KeySpace,
    /// Number of the key.
    pub key: u32,
    /// Number of the client among those of the key.
    pub member: u32,
    /// Receiver of the answers.
    pub events: Sender<Event>,
    /// Control that ends the run early.
    pub control: Arc<Control>,
}

/// Reason why the outcome of a write is unknown although the store answered.
const SENT_TWICE: &str = "sent again after its connection broke";

/// State of a client in one turn.
struct Turn {
    id: KeyTurn,
    object_key: String,
    /// Value and entity tag that the client saw last; `None` if it saw none or deleted the object.
    known: Option<(Value, String)>,
}

/// Answer to a request, before the entity tag of a listing is compared with those of writes and reads.
enum Response {
    Answer(Answer, Option<String>),
    /// The request had no effect, and its failure says nothing about the object.
    NoEffect(Failure),
}

impl KeyClient {
    /// Number of the client among all clients of the run.
    fn number(&self) -> u32 {
        self.key * self.plan.clients + self.member
    }

    /// Sends requests until the end of the window, or until the run is stopped.
    ///
    /// # Errors
    /// If no timer can be created.
    pub async fn run(self) -> std::io::Result<()> {
        let (start_ns, end_ns) = self.plan.window_ns;
        let mut connection = self.store.connection(self.number() as usize);
        let (mut pause, mut deadline) = (Timer::new()?, Timer::new()?);
        let draws = Stream::new(mix(self.plan.seed ^ u64::from(self.number())), "consistency");
        let mut turn: Option<Turn> = None;
        let mut count = 0;
        pause.until(start_ns).await?;
        while now_ns() < end_ns && self.control.stopped_at().is_none() {
            let number = (now_ns() - start_ns) / self.plan.per_key_ns;
            let current = match turn.take().filter(|turn| turn.id.turn == number) {
                Some(turn) => turn,
                None => self.enter(number),
            };
            count += 1;
            let current = self.step(connection.as_mut(), &mut deadline, current, count, draws).await?;
            if current.is_none() {
                // The turn has a write without an answer, or the store refuses requests. Wait for the next turn.
                let next = start_ns + (number + 1) * self.plan.per_key_ns;
                self.pause(&mut pause, next.min(end_ns)).await?;
            }
            turn = current;
        }
        let _ = self.events.send(Event::Reached { key: self.key, member: self.member, turn: u64::MAX });
        Ok(())
    }

    /// Waits until a time on the monotonic clock, or until the run is stopped, which is checked every 100 ms.
    async fn pause(&self, timer: &mut Timer, until_ns: u64) -> std::io::Result<()> {
        while now_ns() < until_ns && self.control.stopped_at().is_none() {
            timer.until(until_ns.min(now_ns() + 100_000_000)).await?;
        }
        Ok(())
    }

    fn enter(&self, number: u64) -> Turn {
        let _ = self.events.send(Event::Reached { key: self.key, member: self.member, turn: number });
        let owner = (number % 2 == 1).then_some(self.member);
        let id = KeyTurn { key: self.key, turn: number, owner };
        Turn { id, object_key: id.object_key(&self.space), known: None }
    }

    /// Sends one request and reports its answer. Returns the turn; `None` if the client must leave it.
    async fn step(
        &self,
        connection: &mut dyn Connection,
        deadline: &mut Timer,
        mut turn: Turn,
        count: u64,
        draws: Stream,
    ) -> std::io::Result<Option<Turn>> {
        let value = Value::new(u64::from(self.number() + 1) << 40 | count).expect("the number is positive");
        let draw = draws.below(count, 100);
        let action = match turn.id.owner {
            Some(_) => self.choose_alone(count, draw, value, turn.known.as_ref()),
            None => self.choose(draw, value, turn.known.as_ref()),
        };
        let start_ns = now_ns();
        let mut exchange = self.exchange(action, &turn);
        let response = {
            let sending = self.send(connection, action, &turn.object_key, &mut exchange);
            tokio::select! {
                biased;
                response = sending => response,
                waited = deadline.until(start_ns + self.plan.timeout_ns) => {
                    waited?;
                    let timings = Timings { start_ns, end_ns: now_ns(), ..Timings::default() };
                    Err(Failure::new(ErrorClass::Timeout, "no answer before the deadline", timings))
                }
            }
        };
        let end_ns = now_ns();
        let reason =
            response.as_ref().map_or_else(|failure| failure.class.to_string(), |_| SENT_TWICE.into());
        let (answer, etag) =
            match interpret(action, response, &exchange.content, self.plan.size, &turn.object_key) {
                Response::Answer(answer, etag) => (answer, etag),
                Response::NoEffect(failure) => {
                    let refused = matches!(failure.class, ErrorClass::Connect | ErrorClass::Tls);
                    let _ = self
                        .events
                        .send(Event::Failed { class: failure.class.to_string(), message: failure.message });
                    return Ok((!refused).then_some(turn));
                }
            };
        turn.known = match (action, answer) {
            (_, Answer::Done) => action.written().zip(etag.clone()),
            (Action::Get, Answer::Saw(seen)) => seen.zip(etag.clone()).filter(|(value, _)| *value != FOREIGN),
            _ => turn.known,
        };
        let end_ns = if answer == Answer::Unknown {
            let _ = self.events.send(Event::Unanswered(reason));
            u64::MAX
        } else {
            end_ns
        };
        let operation = RecordedRequest { client: self.member, action, answer, start_ns, end_ns };
        let _ = self.events.send(Event::Operation(turn.id, operation, etag));
        Ok((answer != Answer::Unknown).then_some(turn))
    }

    /// Chooses an action by a number below 100. Half of the actions are reads and listings, and most writes overwrite
    /// an existing object.
    fn choose(&self, draw: u64, value: Value, known: Option<&(Value, String)>) -> Action {
        match (draw, known) {
            (0..=19, _) => Action::Put(value),
            (20..=29, _) => Action::Delete,
            (30..=39, _) if self.plan.conditions => Action::PutIfAbsent(value),
            (40..=54, Some((seen, _))) if self.plan.conditions => Action::PutIfUnchanged(*seen, value),
            (55..=61, _) => Action::List,
            _ => Action::Get,
        }
    }

    /// Chooses an action of the only client of an object: a read after each write, and few other requests.
    fn choose_alone(&self, count: u64, draw: u64, value: Value, known: Option<&(Value, String)>) -> Action {
        match (count % 2, draw, known) {
            (0, 0..=9, _) => Action::Delete,
            (0, 10..=24, Some((seen, _))) if self.plan.conditions => Action::PutIfUnchanged(*seen, value),
            (0, ..) => Action::Put(value),
            (_, 0..=9, _) => Action::List,
            _ => Action::Get,
        }
    }

    fn exchange(&self, action: Action, turn: &Turn) -> Exchange {
        let headers = match (action, &turn.known) {
            (Action::PutIfAbsent(_), _) => vec![("if-none-match", "*".to_string())],
            (Action::PutIfUnchanged(..), Some((_, etag))) => vec![("if-match", etag.clone())],
            _ => Vec::new(),
        };
        Exchange { headers, content: Vec::new(), most: self.plan.size }
    }

    async fn send(
        &self,
        connection: &mut dyn Connection,
        action: Action,
        key: &str,
        exchange: &mut Exchange,
    ) -> Result<Reply, Failure> {
        let request = match action {
            Action::Get => Request::Get { key, range: None },
            Action::List => Request::List { prefix: key, start_after: "", token: "", max_keys: 10 },
            Action::Delete => {
                Request::Delete { key: self.space.own(key).expect("the key is in the key space of the run") }
            }
            Action::Put(value) | Action::PutIfAbsent(value) | Action::PutIfUnchanged(_, value) => {
                Request::Put { key, body: Body::Whole(content_of(value, self.plan.size)) }
            }
        };
        connection.execute(request, exchange).await
    }
}

/// Returns what a response says about the object.
///
/// A write that was sent twice, because its connection broke, may take effect twice, and its condition may be false
/// because of its own first attempt. Like a server error, it has an unknown answer.
fn interpret(
    action: Action,
    response: Result<Reply, Failure>,
    content: &[u8],
    size: usize,
    key: &str,
) -> Response {
    let changes = !matches!(action, Action::Get | Action::List);
    let timings = response.as_ref().map_or_else(|failure| failure.timings, |reply| reply.timings);
    if changes && timings.reconnects > 0 {
        return Response::Answer(Answer::Unknown, None);
    }
    match response {
        Ok(reply) => match action {
            Action::Get => Response::Answer(Answer::Saw(Some(value_of(content, size))), reply.etag),
            Action::List => {
                let listed = reply.listing.unwrap_or_default().objects.into_iter().find(|o| o.key == key);
                match listed {
                    Some(object) => Response::Answer(Answer::Present, Some(object.etag)),
                    None => Response::Answer(Answer::Saw(None), None),
                }
            }
            _ => Response::Answer(Answer::Done, reply.etag),
        },
        Err(failure) => match (failure.status(), &failure.class) {
            (Some(404), _) if action == Action::Get && !failure.is_missing_container() => {
                Response::Answer(Answer::Saw(None), None)
            }
            (Some(412), _) if action.is_conditional() => Response::Answer(Answer::Refused, None),
            (Some(404), _)
                if matches!(action, Action::PutIfUnchanged(..)) && !failure.is_missing_container() =>
            {
                Response::Answer(Answer::Refused, None)
            }
            // Some servers fail like this when a concurrent request removes a file, after or before the write.
            (Some(404), _) if changes && !failure.is_missing_container() => {
                Response::Answer(Answer::Unknown, None)
            }
            // 409 reports a conflict with a concurrent request, and 501 a missing feature; neither has an effect.
            (Some(400..=499 | 501), _) => Response::NoEffect(failure),
            (_, ErrorClass::Connect | ErrorClass::Tls | ErrorClass::Withheld | ErrorClass::File) => {
                Response::NoEffect(failure)
            }
            _ if changes => Response::Answer(Answer::Unknown, None),
            _ => Response::NoEffect(failure),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_content_of_one_write_has_a_value() {
        let (one, two) = (Value::new(1).unwrap(), Value::new(0xabc).unwrap());
        for size in [16, 17, 100] {
            assert_eq!(value_of(&content_of(two, size), size), two);
            assert_eq!(value_of(&content_of(two, size)[..size - 1], size), FOREIGN);
        }
        let torn = [&content_of(one, 32)[..16], &content_of(two, 32)[16..]].concat();
        assert_eq!(value_of(&torn, 32), FOREIGN);
        assert_eq!(value_of(b"not hexadecimal!", 16), FOREIGN);
    }

    #[test]
    fn only_errors_without_an_effect_are_ignored() {
        let write = Action::PutIfAbsent(Value::MIN);
        let answer = |action, class: ErrorClass, reconnects| {
            let timings = Timings { reconnects, ..Timings::default() };
            match interpret(action, Err(Failure::new(class, "", timings)), b"", 16, "k") {
                Response::Answer(answer, _) => Some(answer),
                Response::NoEffect(_) => None,
            }
        };
        let status = |text: &str| ErrorClass::Response(text.into());
        assert_eq!(answer(write, status("412 PreconditionFailed"), 0), Some(Answer::Refused));
        assert_eq!(answer(write, status("412 PreconditionFailed"), 1), Some(Answer::Unknown));
        assert_eq!(answer(write, status("409 ConditionalRequestConflict"), 0), None);
        assert_eq!(answer(write, status("404 NoSuchKey"), 0), Some(Answer::Unknown));
        assert_eq!(answer(write, status("503 SlowDown"), 0), Some(Answer::Unknown));
        assert_eq!(answer(write, ErrorClass::Timeout, 0), Some(Answer::Unknown));
        assert_eq!(answer(write, ErrorClass::Connect, 0), None);
        assert_eq!(answer(Action::Get, ErrorClass::Timeout, 0), None);
        assert_eq!(answer(Action::Get, status("404 NoSuchKey"), 0), Some(Answer::Saw(None)));
        assert_eq!(answer(Action::Get, status("404 NoSuchBucket"), 0), None);
    }
}
