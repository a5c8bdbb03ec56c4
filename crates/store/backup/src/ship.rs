//! Ships the log: each step makes the bytes since the step before a piece.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use plimsoll_base::net::encode::hex;
use plimsoll_s3::sign::sha256;

use super::bodies::{self, Directories};
use super::error::BackupError;
use super::header::{Header, Known, RunHeader, Tail, compress, from_ranges, to_ranges};
use super::history::{History, encode_index, read_header};
use super::place::{self, Chain, Place};
use super::plan::time_of;
use plimsoll_bodies::location::{BlobHead, Location, ObjectName, State};
use plimsoll_bodies::name::new_name;
use plimsoll_catalog::ambient::now_ms;
use plimsoll_catalog::embedded::Engine;
use plimsoll_catalog::embedded::follow::Run;
use plimsoll_catalog::embedded::segment::HEADER;
use plimsoll_catalog::embedded::segment_list::{ListedSegment, Position};
use plimsoll_catalog::guard::{self, Guard};
use plimsoll_catalog::unless_in_doubt;
use plimsoll_objects::keys;

/// Usual bytes of the log in a piece.
const PIECE_BYTES: u64 = 16 << 20;
/// Number of pieces after which their headers become an index.
const INDEX_PIECES: usize = 1024;
/// Number of attempts to end the epoch before.
const ATTEMPTS: usize = 100;

/// The writer of a backup that a start has begun, until somebody takes it.
pub type BegunShipper = Arc<Mutex<Option<Shipper>>>;

/// The writer of a backup in its epoch.
pub struct Shipper {
    place: Place,
    engine: Arc<Engine>,
    writer: String,
    directories: Directories,
    /// Bodies that the backup has.
    bodies: BTreeSet<String>,
    epoch: u64,
    number: u64,
    /// Digest of the header before.
    previous: String,
    /// Position up to which the log is shipped.
    position: Position,
    /// Time of the last group that is shipped, in Unix milliseconds; 0 if it has none.
    until_ms: u64,
    /// True if the next piece begins with the start of the log.
    is_first: bool,
    /// True if the place has another log, or a part of this one that is missing here.
    pub is_other: bool,
    /// Position from which on every state can be restored.
    complete_from: Position,
    /// True if the state at the position can be restored.
    pub has_state: bool,
    /// Segments of the process before, until everything that it left is shipped.
    before: Option<Before>,
    /// Segments of the last header that names them; `None` if the next one must.
    live: Option<Vec<u32>>,
    /// True if the last piece had no answer, so that it may exist.
    is_unanswered: bool,
    unindexed: Vec<Known>,
    /// Bytes of the log in a piece. A single group may be longer.
    pub piece_bytes: u64,
    /// Bodies that were copied.
    pub copied_bodies: u64,
    /// Bytes of these bodies.
    pub copied_bytes: u64,
}

/// Segments that were in use at the end of the last piece of the process before.
struct Before {
    live: Vec<u32>,
    /// End of the log at the start of this process.
    until: Position,
}

/// Result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Bytes of the log that were shipped.
    pub bytes: u64,
    /// True if the backup has everything that was durable when the step began.
    pub is_up_to_date: bool,
}

/// Describes the runs of a piece. `since_ms` is the time of the last group before.
struct Contents {
    runs: Vec<RunHeader>,
    end: Position,
    least_ms: u64,
    until_ms: u64,
    bodies: Vec<Location>,
}

impl Shipper {
    /// Begins an epoch: ends the one before, and continues behind its last piece, or from the start of the log if the
    /// log is another one. `catalog` is the id of the catalog.
    ///
    /// # Errors
    /// If the place fails, or has the backup of another catalog.
    pub async fn begin(
        place: Place,
        engine: Arc<Engine>,
        catalog: &str,
        directories: Directories,
    ) -> Result<Shipper, BackupError> {
        // First, because the place of another catalog must not get a fence.
        place.claim(catalog).await?;
        let writer = hex(&new_name());
        let mut attempts = 0;
        let (history, fence) = loop {
            // Again at each attempt: the process before may have created the piece in the place of the fence.
            let history = History::load(&place).await?;
            let fence = Known::new(fence(history.pieces.last(), &writer));
            let epoch = fence.header.epoch;
            let name = fence.header.name();
            // The piece with the next number can be created once. Behind the fence, the process before cannot continue,
            // so `history` is complete.
            if place.create(&name, fence.encode(&[])).await? || is_own(&place, &fence).await? {
                if place.numbers(Chain::Log, epoch, Some(fence.header.number)).await?.is_empty() {
                    break (history, fence);
                }
                // The writer has gone on, and the place of the fence was that of a deleted piece.
                place.delete(&name).await?;
            }
            attempts += 1;
            if attempts == ATTEMPTS {
                return Err(BackupError::Fenced(epoch));
            }
        };
        let bodies = if directories.0.is_empty() { BTreeMap::new() } else { bodies::stored(&place).await? };
        let mut shipper = Shipper {
            place,
            engine,
            writer,
            directories,
            bodies: bodies.into_keys().collect(),
            epoch: 1,
            number: 0,
            previous: String::new(),
            position: Position::default(),
            until_ms: 0,
            is_first: true,
            is_other: false,
            complete_from: Position::default(),
            has_state: false,
            before: None,
            live: None,
            is_unanswered: false,
            unindexed: history.unindexed(),
            piece_bytes: PIECE_BYTES,
            copied_bodies: 0,
            copied_bytes: 0,
        };
        // Before anybody followed the log, compaction may have removed segments that its earlier states need.
        shipper.complete_from = shipper.engine.synced_end();
        shipper.follow(&history, fence);
        shipper.engine.follow(shipper.position.group);
        Ok(shipper)
    }

    /// Continues behind a fence.
    fn follow(&mut self, history: &History, fence: Known) {
        let header = &fence.header;
        (self.epoch, self.number) = (header.fence.unwrap_or(header.epoch + 1), header.number + 1);
        self.previous = fence.digest();
        // By digest: a log that was restored may have other bytes up to this position.
        if header.tail.is_in(&self.engine) {
            (self.is_first, self.position, self.until_ms) = (false, header.tail.position, header.until_ms);
            self.has_state = header.is_complete;
            if self.has_state {
                self.engine.set_restorable(self.position.group);
            }
            // Compaction may have removed a segment whose copies are not shipped. Until they are, states need the list
            // of the last piece (decision 0049).
            let live = history.pieces.len().checked_sub(1).and_then(|last| history.live(last));
            if let Some(live) = live.filter(|_| header.is_complete && self.has_all_groups()) {
                self.before = Some(Before { live, until: self.complete_from });
                self.complete_from = self.position;
            }
        } else {
            // With a journal, a start does not go on with such a log (`ship` in journal/start.rs). Without one, the log
            // is shipped from its start.
            self.is_other = !header.tail.sha256.is_empty();
        }
        self.unindexed.push(fence);
    }

    /// Returns true if no group behind the position is gone.
    fn has_all_groups(&self) -> bool {
        let mut next = None;
        let listed = self.engine.listed().into_iter().filter(|listed| listed.id >= self.position.segment);
        listed.into_iter().all(|listed| {
            let follows = next.is_none_or(|next| next == listed.first_group);
            next = listed.end.map(|end| end.group);
            follows
        })
    }

    /// Returns the segments that a state in the next piece needs, besides those that the piece begins.
    fn live(&self) -> Vec<u32> {
        // A segment without groups may be only on this disk, where a start has failed.
        let has_groups = |listed: &ListedSegment| listed.end.is_none_or(|end| end.bytes > HEADER);
        let listed = self.engine.listed().into_iter().filter(has_groups);
        let listed: BTreeSet<u32> = listed.map(|listed| listed.id).collect();
        let Some(before) = self.before.as_ref().filter(|before| self.position.group < before.until.group)
        else {
            return listed.into_iter().collect();
        };
        // The copies of a segment that is gone may be behind the position.
        let begun = listed.into_iter().filter(|id| before.live.last().is_none_or(|last| id > last));
        before.live.iter().copied().chain(begun).collect()
    }

    /// Begins again with the start of the log, in the same epoch.
    pub fn start_over(&mut self) {
        (self.is_first, self.position, self.until_ms, self.live) = (true, Position::default(), 0, None);
        (self.complete_from, self.before, self.has_state) = (self.engine.synced_end(), None, false);
        // From now on, all segments stay: the second copy needs each of them.
        self.engine.follow(0);
    }

    /// Returns the position up to which the log is shipped.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Returns the time of the last group that is shipped, in Unix milliseconds; 0 if it has none.
    pub fn until_ms(&self) -> u64 {
        self.until_ms
    }

    /// Ships the next part of the log.
    ///
    /// # Errors
    /// If the place or the disk fails; the next step tries again. [`BackupError::Fenced`] if another process continues
    /// the backup, and [`BackupError::Gap`] if the log has lost what is not shipped.
    pub async fn step(&mut self) -> Result<Step, BackupError> {
        // Before the end: a segment that is gone by then has its copies before the position.
        let mut live = self.live();
        let end = self.engine.synced_end();
        // A full disk has let a segment go before its copies were shipped. States up to now may need it.
        if self.engine.released() > self.complete_from.group {
            self.complete_from = end;
        }
        if end.group == self.position.group && !self.is_first {
            return Ok(Step { bytes: 0, is_up_to_date: true });
        }
        // A header says for all groups of its piece whether their states are complete, so no piece crosses this
        // position.
        let until = if self.is_complete() { end } else { self.complete_from };
        let mut runs = self.engine.read_log(self.position, until, self.piece_bytes)?;
        // A segment without groups may get none. Its header is shipped with its first group.
        while runs.len() > 1 && runs.last().is_some_and(|run| run.end() <= HEADER) {
            runs.pop();
        }
        self.check_gap(&runs)?;
        let contents = self.contents(&runs);
        // Later segments begin in later pieces.
        live.retain(|id| *id <= contents.end.segment);
        // Before the piece: a restored row without its body would be a lost object.
        self.copy_bodies(&contents.bodies).await?;
        let payload = compress(&runs)?;
        let header = self.header(&runs, &contents, &payload, &live)?;
        let known = Known::new(header);
        // Never replaced: if another process has ended the epoch, its fence is in this place.
        self.is_unanswered = true;
        let created = self.place.create(&known.header.name(), known.encode(&payload)).await?;
        let known = if created { known } else { self.earlier_attempt(known).await? };
        self.is_unanswered = false;
        // From here on, the piece that exists counts: one of an earlier attempt may end before this one.
        let header = &known.header;
        self.previous = known.digest();
        (self.number, self.position, self.until_ms) =
            (self.number + 1, header.tail.position, header.until_ms);
        (self.is_first, self.has_state) = (false, header.is_complete);
        if let Some(live) = header.live.as_deref().and_then(from_ranges) {
            self.live = Some(live);
        }
        let bytes = header.log_bytes();
        // Not behind incomplete pieces: `Sender::prune` deletes the entries of the journal before this group.
        if self.has_state {
            self.engine.set_restorable(self.position.group);
        }
        self.unindexed.push(known);
        // Last: from now on, segments may go whose copies are in this piece.
        self.engine.follow(self.position.group);
        Ok(Step { bytes, is_up_to_date: self.position.group >= end.group })
    }

    /// Looks whether another process has continued the backup, which a process that has nothing to ship would not
    /// notice.
    ///
    /// # Errors
    /// [`BackupError::Fenced`] if it has, or the error of the place.
    pub async fn look(&self) -> Result<Step, BackupError> {
        match read_header(&self.place, &place::piece(self.epoch, self.number)).await? {
            // A step that had no answer has created this piece; the next one finds it.
            Some(found) if found.header.writer == self.writer => Ok(Step { bytes: 0, is_up_to_date: true }),
            Some(_) => Err(BackupError::Fenced(self.epoch + 1)),
            None => Ok(Step { bytes: 0, is_up_to_date: true }),
        }
    }

    /// Returns the piece that exists in place of the one that was to be created: an earlier attempt of this process may
    /// have succeeded without an answer.
    async fn earlier_attempt(&self, wanted: Known) -> Result<Known, BackupError> {
        let found = read_header(&self.place, &wanted.header.name()).await?;
        let is_own = |found: &Known| {
            let header = &found.header;
            header.writer == self.writer && header.previous == self.previous && header.fence.is_none()
        };
        match found.filter(is_own) {
            Some(found) => Ok(found),
            None if guard::is_made(Guard::Fence) => Err(BackupError::Fenced(self.epoch + 1)),
            None => Ok(wanted),
        }
    }

    /// Returns true if every state from the position on can be restored.
    fn is_complete(&self) -> bool {
        self.position.group >= self.complete_from.group
    }

    /// Checks that the runs continue the log. Between the parts of a log that is shipped from its start, compaction may
    /// have removed segments.
    fn check_gap(&self, runs: &[Run]) -> Result<(), BackupError> {
        let first = runs.first().ok_or(BackupError::Gap)?;
        let is_next =
            first.segment.id == self.position.segment || first.segment.first_group == self.position.group;
        let follows =
            |pair: &[Run]| pair[0].segment.end.is_some_and(|end| end.group == pair[1].segment.first_group);
        let is_whole = is_next && runs.windows(2).all(follows);
        // A state behind a gap would lack the writes in it, so complete pieces have none.
        if is_whole || self.is_first || !self.is_complete() { Ok(()) } else { Err(BackupError::Gap) }
    }

    fn contents(&self, runs: &[Run]) -> Contents {
        let (mut time, mut least_ms) = (self.until_ms, 0);
        let mut found =
            Contents { runs: Vec::new(), end: self.position, least_ms: 0, until_ms: 0, bodies: Vec::new() };
        for run in runs {
            let mut next_group = run.segment.first_group.max(found.end.group);
            for group in run.groups(&self.engine) {
                next_group = group.group.number + 1;
                time = time_of(&group).unwrap_or(time);
                // Not simply that of the first group: the clock may have been set back within the piece.
                least_ms = if least_ms == 0 { time } else { time.min(least_ms) };
                found.bodies.extend(self.directories.of_group(&group));
            }
            // A damaged group hides those behind it.
            if let Some(end) = run.segment.end.filter(|end| end.bytes == run.end()) {
                next_group = end.group;
            }
            let (segment, offset) = (run.segment.id, run.end());
            found.end = Position { segment, offset, group: next_group };
            found.runs.push(RunHeader {
                segment,
                first_group: run.segment.first_group,
                offset: run.offset,
                bytes: run.bytes.len() as u64,
                next_group,
            });
        }
        (found.least_ms, found.until_ms) = (least_ms, time);
        found
    }

    fn header(
        &self,
        runs: &[Run],
        contents: &Contents,
        payload: &[u8],
        live: &[u32],
    ) -> Result<Header, BackupError> {
        let tail = Tail::of(&self.engine, contents.end).ok_or(BackupError::Gap)?;
        assert!(!runs.is_empty(), "a piece without bytes would end an epoch");
        Ok(Header {
            epoch: self.epoch,
            number: self.number,
            previous: self.previous.clone(),
            writer: self.writer.clone(),
            written_ms: now_ms(),
            fence: None,
            is_first: self.is_first,
            is_complete: self.is_complete(),
            since_ms: self.until_ms,
            least_ms: contents.least_ms,
            until_ms: contents.until_ms,
            live: (self.live.as_deref() != Some(live)).then(|| to_ranges(live)),
            runs: contents.runs.clone(),
            tail,
            bytes: payload.len() as u64,
            sha256: hex(&sha256(payload)),
            entry: None,
        })
    }

    /// Copies bodies in directories before the piece whose groups make them part of an object.
    async fn copy_bodies(&mut self, places: &[Location]) -> Result<(), BackupError> {
        for location in places {
            let Some((name, path)) = self.directories.names(location) else { continue };
            // A file that is gone belonged to a blob that was deleted since.
            if self.bodies.contains(&name) {
                continue;
            }
            if let Some(bytes) = bodies::copy_in(&self.place, &name, &path).await? {
                (self.copied_bodies, self.copied_bytes) = (self.copied_bodies + 1, self.copied_bytes + bytes);
                // Only after the copy, so that the next step repeats a failed one.
                self.bodies.insert(name);
            } else if self.is_in_use(location)? {
                // The step fails: a backup that went on would promise states without this body.
                let text = format!("{}: the file is missing", path.display());
                return Err(BackupError::File(std::io::Error::new(std::io::ErrorKind::NotFound, text)));
            }
        }
        Ok(())
    }

    /// Returns true if the catalog has a blob at a location that the gateway has chosen.
    fn is_in_use(&self, location: &Location) -> Result<bool, BackupError> {
        // The place of an adopted object does not name the row of its blob.
        let ObjectName::Own(name) = &location.name else { return Ok(false) };
        // A row in doubt does not prove that the file is needed, and must not stop the backup.
        let row = unless_in_doubt(self.engine.get(&keys::blob(name)))?;
        let head = row.and_then(|row| BlobHead::decode(&row.head));
        Ok(head.is_some_and(|head| head.state == State::Complete && head.locations.contains(location)))
    }

    /// Makes the headers since the last index an index if there are enough of them, or if `is_due`.
    ///
    /// # Errors
    /// If the place fails.
    pub async fn write_index(&mut self, is_due: bool) -> Result<(), BackupError> {
        let Some(last) = self.unindexed.last() else { return Ok(()) };
        // A piece without an answer may exist, and it may not name the segments. The next step finds out.
        if self.unindexed.len() < INDEX_PIECES && !is_due || self.is_unanswered {
            return Ok(());
        }
        // The first header of the next index says which segments are in use, because earlier ones may be deleted. The
        // index may also exist if its answer gets lost.
        self.live = None;
        let name = place::index(last.header.epoch, last.header.number);
        // Before the headers are forgotten: `History::load` reads only pieces behind the last one in an index.
        self.place.put(&name, encode_index(&self.unindexed)?).await?;
        self.unindexed.clear();
        Ok(())
    }

    /// Returns the names of the bodies in directories that blobs of the catalog have.
    pub fn directories(&self) -> &Directories {
        &self.directories
    }
}

/// Returns the piece that ends the epoch of the last piece; the first piece of an empty place.
pub fn fence(last: Option<&Known>, writer: &str) -> Header {
    let header = last.map(|known| known.header.clone()).unwrap_or_default();
    let epoch = header.fence.unwrap_or(header.epoch);
    Header {
        epoch,
        number: last.map_or(0, |known| known.header.number + 1),
        previous: last.map_or_else(String::new, Known::digest),
        writer: writer.into(),
        written_ms: now_ms(),
        fence: Some(epoch + 1),
        is_complete: header.is_complete,
        since_ms: header.until_ms,
        until_ms: header.until_ms,
        tail: header.tail.clone(),
        sha256: hex(&sha256(&[])),
        ..Header::default()
    }
}

/// Returns true if an object that exists is the piece that was to be created: the answer of an earlier attempt was
/// lost.
pub async fn is_own(place: &Place, known: &Known) -> Result<bool, BackupError> {
    let found = read_header(place, &known.header.name()).await?;
    Ok(found.is_some_and(|found| found.text == known.text))
}
