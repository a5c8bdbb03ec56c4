//! What the operations are: mix, objects, keys and payloads, each a pure function of the seed and an operation's number.
//!
//! [`Workload::sequence`] turns operation number `i` of a phase into an [`Operation`]; nothing here knows of time (that is
//! `schedule`) or of connections (that is `driver`).

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

pub mod dataset;
pub mod mix;
pub mod naming;
pub mod payload;
pub mod popularity;
pub mod size;
pub mod ycsb;

pub use dataset::Dataset;

use crate::rng::Stream;
use mix::{Mix, MixCursor};
use popularity::{Picker, Popularity};

/// The operations a workload is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OperationKind {
    /// Writes an object.
    Put,
    /// Reads a whole object.
    Get,
    /// Reads a range of an object.
    GetRange,
    /// Reads an object's metadata.
    Head,
    /// Lists one page (up to 1,000 keys) of the objects.
    List,
    /// Deletes an object.
    Delete,
    /// Writes an object anew that was there before.
    Update,
    /// Lists some keys from one on and reads their objects.
    Scan,
    /// Reads an object and writes it anew.
    ReadModifyWrite,
}

impl OperationKind {
    /// All kinds, in the order of their index.
    pub const ALL: [OperationKind; 9] = [
        OperationKind::Put,
        OperationKind::Get,
        OperationKind::GetRange,
        OperationKind::Head,
        OperationKind::List,
        OperationKind::Delete,
        OperationKind::Update,
        OperationKind::Scan,
        OperationKind::ReadModifyWrite,
    ];

    /// Name in files and tables.
    pub fn name(self) -> &'static str {
        match self {
            OperationKind::Put => "put",
            OperationKind::Get => "get",
            OperationKind::GetRange => "get_range",
            OperationKind::Head => "head",
            OperationKind::List => "list",
            OperationKind::Delete => "delete",
            OperationKind::Update => "update",
            OperationKind::Scan => "scan",
            OperationKind::ReadModifyWrite => "read_modify_write",
        }
    }

    /// The kind of that name.
    pub fn from_name(name: &str) -> Option<OperationKind> {
        OperationKind::ALL.into_iter().find(|k| k.name() == name)
    }

    /// Its place in [`OperationKind::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// Whether it works on objects that must be there before.
    pub fn reads(self) -> bool {
        !matches!(self, OperationKind::Put | OperationKind::Delete)
    }

    /// Whether it writes objects anew that were there before.
    pub fn rewrites(self) -> bool {
        matches!(self, OperationKind::Update | OperationKind::ReadModifyWrite)
    }
}

impl fmt::Display for OperationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Which of a workload's datasets an operation addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Objects written before the phase, to be read.
    Read,
    /// Objects that the phase itself writes.
    Written,
    /// Objects written before the phase, to be deleted.
    Spare,
}

/// One operation, resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// What to do.
    pub kind: OperationKind,
    /// To which dataset.
    pub target: Target,
    /// To which object of it.
    pub index: u64,
    /// Which version of its content a put writes or a get expects.
    pub version: u64,
    /// First byte of a range read.
    pub range_start: u64,
    /// Objects of a scan.
    pub length: u64,
}

/// The workload of one phase.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// Seed of the experiment.
    pub seed: u64,
    /// Name of the phase: streams are derived from it.
    pub phase: String,
    /// Shares of the operations.
    pub mix: Mix,
    /// Objects that reads address.
    pub read: Option<Dataset>,
    /// Objects that puts write, round and round.
    pub written: Dataset,
    /// Objects that the first deletes address; later ones address what was put.
    pub spare: Option<Dataset>,
    /// Bytes of a range read.
    pub range: u64,
    /// How often the objects that are read come up.
    pub popularity: Popularity,
    /// Where puts go on behind the objects that are there, instead of round and round.
    pub inserts: Option<Inserts>,
    /// How many objects a scan reads.
    pub scan: ScanLength,
    /// The directory that what is read is written to, one file per object.
    pub sink: Option<PathBuf>,
}

/// Puts that add objects to those that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inserts {
    /// Number of the first object added.
    pub from: u64,
    /// An object may be read once so many more have been begun: it is there by then.
    pub margin: u64,
}

/// How many objects a scan reads: between the two, ends included.
#[derive(Debug, Clone, PartialEq)]
pub struct ScanLength {
    /// Least.
    pub min: u64,
    /// Most.
    pub max: u64,
    /// Exponent, where short scans come up more often; `None` where all lengths are alike.
    pub theta: Option<f64>,
}

impl Default for ScanLength {
    fn default() -> ScanLength {
        ScanLength { min: 1, max: 100, theta: None }
    }
}

impl Workload {
    /// The dataset behind a target.
    pub fn dataset(&self, target: Target) -> &Dataset {
        match target {
            Target::Read => self.read.as_ref().unwrap_or(&self.written),
            Target::Written => &self.written,
            Target::Spare => self.spare.as_ref().unwrap_or(&self.written),
        }
    }

    /// Whether it deletes and does nothing else, so that it runs out of objects.
    pub fn only_deletes(&self) -> bool {
        self.mix.share(OperationKind::Delete) == self.mix.total()
    }

    /// The phase's operations by number. Every worker has a sequence of its own, and all give the same answers.
    pub fn sequence(&self) -> Sequence {
        Sequence {
            cursor: MixCursor::new(self.mix.clone(), Stream::new(self.seed, &format!("mix/{}", self.phase))),
            picker: {
                let count = self.read.as_ref().map_or(1, |d| d.count);
                Picker::new(self.popularity, count, self.seed, &self.phase)
            },
            ranges: Stream::new(self.seed, &format!("ranges/{}", self.phase)),
            read: self.read.clone(),
            written_count: self.written.count.max(1),
            spare_count: self.spare.as_ref().map_or(0, |s| s.count),
            puts_per_delete: {
                let deletes = self.mix.share(OperationKind::Delete).max(1);
                (u64::from(self.mix.share(OperationKind::Put)), u64::from(deletes))
            },
            range: self.range,
            inserts: self.inserts,
            lengths: {
                let Range { start, end } = self.scan.min..self.scan.max;
                let popularity = match self.scan.theta {
                    Some(theta) => Popularity::Latest { theta },
                    None => Popularity::Uniform,
                };
                let span = end.saturating_sub(start) + 1;
                (start, span, Picker::new(popularity, span, self.seed, &format!("scan/{}", self.phase)))
            },
        }
    }
}

/// Gives the operations of a phase by number.
pub struct Sequence {
    cursor: MixCursor,
    picker: Picker,
    ranges: Stream,
    read: Option<Dataset>,
    written_count: u64,
    spare_count: u64,
    puts_per_delete: (u64, u64),
    range: u64,
    inserts: Option<Inserts>,
    /// Least length of a scan, number of lengths, and which of them.
    lengths: (u64, u64, Picker),
}

impl Sequence {
    /// Operation number `i`.
    pub fn at(&mut self, i: u64) -> Operation {
        let (kind, ordinal) = self.cursor.at(i);
        let mut operation =
            Operation { kind, target: Target::Read, index: 0, version: 0, range_start: 0, length: 0 };
        match (kind, self.inserts) {
            (OperationKind::Put, Some(inserts)) => {
                (operation.target, operation.index) = (Target::Written, inserts.from + ordinal);
            }
            (OperationKind::Put, None) => {
                operation.target = Target::Written;
                (operation.index, operation.version) =
                    (ordinal % self.written_count, ordinal / self.written_count);
            }
            (OperationKind::Delete, _) if ordinal < self.spare_count => {
                (operation.target, operation.index) = (Target::Spare, ordinal);
            }
            (OperationKind::Delete, _) => {
                // The put that comes `spare_count` deletes ago has been answered long since.
                let (puts, deletes) = self.puts_per_delete;
                let put = (ordinal - self.spare_count) * puts / deletes;
                operation.target = Target::Written;
                (operation.index, operation.version) = (put % self.written_count, put / self.written_count);
            }
            (_, inserts) => {
                let added = match inserts {
                    Some(inserts) => self.cursor.before(i, OperationKind::Put).saturating_sub(inserts.margin),
                    None => 0,
                };
                operation.index = self.picker.pick(i, ordinal, added);
            }
        }
        match (kind, &self.read) {
            (OperationKind::GetRange, Some(read)) => {
                let starts = read.size_of(operation.index, 0).saturating_sub(self.range) + 1;
                operation.range_start = self.ranges.below(i, starts);
            }
            (OperationKind::Scan, _) => {
                let (min, span, lengths) = &self.lengths;
                // The shortest length has the first rank.
                operation.length = min + span - 1 - lengths.pick(i, ordinal, 0);
            }
            _ => {}
        }
        operation
    }
}

#[cfg(test)]
mod tests {
    use super::naming::Naming;
    use super::size::Size;
    use super::*;

    fn mixed() -> Workload {
        let dataset = |name: &str, count| Dataset::new(name, 42, count, Size::Fixed(1024));
        let shares = [
            (OperationKind::Get, 45),
            (OperationKind::Head, 30),
            (OperationKind::Put, 15),
            (OperationKind::Delete, 10),
        ];
        Workload {
            seed: 42,
            phase: "mixed".into(),
            mix: Mix::new(&shares).unwrap(),
            read: Some(dataset("objects", 1000)),
            written: dataset("mixed", 1000),
            spare: Some(dataset("mixed.spare", 32)),
            range: 0,
            popularity: Popularity::Uniform,
            inserts: None,
            scan: ScanLength::default(),
            sink: None,
        }
    }

    #[test]
    fn the_sequence_depends_on_the_number_alone() {
        let workload = mixed();
        let mut forward = workload.sequence();
        let straight: Vec<Operation> = (0..5_000).map(|i| forward.at(i)).collect();
        let mut strided = workload.sequence();
        for i in (0..5_000).step_by(7).chain((0..5_000).rev().step_by(13)) {
            assert_eq!(strided.at(i), straight[i as usize]);
        }
    }

    /// The operations of a phase, every field, as bytes.
    fn bytes_of(workload: &Workload, numbers: impl Iterator<Item = u64>) -> Vec<(u64, String)> {
        let mut sequence = workload.sequence();
        let mut key = String::new();
        let line = |i| {
            let op = sequence.at(i);
            let dataset = workload.dataset(op.target);
            dataset.key_into(&mut key, "root/", op.index);
            (i, format!("{op:?} {key} {}", dataset.size_of(op.index, op.version)))
        };
        numbers.map(line).collect()
    }

    #[test]
    fn the_same_seed_gives_the_same_sequence_byte_for_byte_on_any_number_of_workers() {
        for (popularity, size, naming) in [
            (Popularity::Uniform, Size::Fixed(1024), Naming::default()),
            (Popularity::Sequential, Size::Uniform(200, 5000), Naming::hex()),
            (
                Popularity::Zipfian { theta: 0.99 },
                Size::Weighted(vec![(200, 3), (9000, 1)]),
                Naming::prefixes(7),
            ),
            (
                Popularity::Latest { theta: 1.2 },
                Size::Lognormal { median: 4096, sigma: 1.0, min: 200, max: 1 << 20 },
                Naming::template("{hex}-{index}", 0).unwrap(),
            ),
            (Popularity::Hotspot { objects: 0.1, operations: 0.9 }, Size::Fixed(300), Naming::default()),
        ] {
            let mut workload = mixed();
            workload.mix = Mix::new(&[
                (OperationKind::Get, 5),
                (OperationKind::GetRange, 3),
                (OperationKind::Put, 3),
                (OperationKind::Delete, 1),
            ])
            .unwrap();
            (workload.popularity, workload.range) = (popularity, 100);
            let dress = |d: &mut Dataset| (d.size, d.naming) = (size.clone(), naming.clone());
            workload.read.iter_mut().chain(&mut workload.spare).for_each(dress);
            dress(&mut workload.written);
            let whole = bytes_of(&workload, 0..3_000);
            for workers in [2, 3, 16] {
                let mut merged: Vec<_> = (0..workers)
                    .flat_map(|w| bytes_of(&workload.clone(), (w..3_000).step_by(workers as usize)))
                    .collect();
                merged.sort();
                assert!(merged == whole, "{popularity:?} on {workers} workers");
            }
            workload.seed += 1;
            assert!(bytes_of(&workload, 0..3_000) != whole, "{popularity:?}: another seed, another sequence");
        }
    }

    #[test]
    fn every_delete_meets_an_object_that_was_put_before() {
        let workload = mixed();
        let mut sequence = workload.sequence();
        let mut present = std::collections::HashSet::new();
        let mut deletes = 0;
        for i in 0..200_000 {
            let op = sequence.at(i);
            match op.kind {
                OperationKind::Put => {
                    present.insert(op.index);
                }
                OperationKind::Delete if op.target == Target::Written => {
                    assert!(
                        present.remove(&op.index),
                        "operation {i} deletes {} which is not there",
                        op.index
                    );
                    deletes += 1;
                }
                _ => {}
            }
        }
        assert!(deletes > 19_000);
    }

    #[test]
    fn reads_stay_inside_their_objects() {
        let mut workload = mixed();
        workload.mix = Mix::new(&[(OperationKind::GetRange, 1)]).unwrap();
        workload.range = 100;
        let mut sequence = workload.sequence();
        let starts: Vec<u64> = (0..10_000).map(|i| sequence.at(i).range_start).collect();
        assert_eq!((starts.iter().min(), starts.iter().max()), (Some(&0), Some(&924)));
    }
}
