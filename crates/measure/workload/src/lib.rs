//! Operations of a run and their intended times, as pure functions of the seed and the number of an operation. It
//! reads no files.
//!
//! [`Workload::sequence`] maps operation number `i` of a phase to an [`Operation`]: its kind, object, size and content.
//! [`schedule`] has the intended times and the plan of phases. `experiment` has the files that describe both, and
//! `engine` executes the operations. Uses `base`.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

pub mod cdf;
pub mod dataset;
pub mod mix;
pub mod naming;
pub mod operation_kind;
pub mod payload;
pub mod popularity;
pub mod ranges_in_order;
pub mod records;
pub mod reduction;
pub mod scan;
mod scatter;
pub mod schedule;
pub mod size;
pub mod size_classes;
pub mod trace;
pub mod ycsb;

pub use dataset::Dataset;
pub use operation_kind::OperationKind;

use mix::{Mix, MixCursor};
use plimsoll_base::rng::Stream;
use popularity::{Picker, Popularity};
use ranges_in_order::RangesInOrder;
use trace::{Recording, Trace};

/// Dataset of a workload that an operation addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Objects to read, which exist before the phase.
    Read,
    /// Objects that the phase writes.
    Written,
    /// Objects to delete, which are written before the phase.
    Spare,
}

/// One operation with its object and version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// Kind of the operation.
    pub kind: OperationKind,
    /// Dataset that the operation addresses.
    pub target: Target,
    /// Number of the object in the dataset.
    pub index: u64,
    /// Version of the content that a put writes or a get expects.
    pub version: u64,
    /// Offset of the first byte of a range read.
    pub range_start: u64,
    /// Number of objects that a scan reads, or of bytes that a range read requests; 0 for other operations.
    pub length: u64,
}

/// The workload of one phase.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// Seed of the experiment.
    pub seed: u64,
    /// Name of the phase, from which the random streams are derived.
    pub phase: String,
    /// Operations and their shares.
    pub mix: Mix,
    /// Objects that reads address; `None` if the phase does not read.
    pub read: Option<Dataset>,
    /// Objects that puts write, repeatedly and in order.
    pub written: Dataset,
    /// Objects that the first deletes address; later deletes address objects that the phase has put. `None` if the
    /// phase does not delete.
    pub spare: Option<Dataset>,
    /// Objects that copies write: object `i` is the copy of object `i` of `read`. `None` if the phase does not copy.
    pub copies: Option<Dataset>,
    /// Repeat whose writes the reads expect, if each repeat writes the objects again; `None` if they are written once.
    pub written_in: Option<u32>,
    /// Length of a range read, in bytes; 0 if there are none.
    pub range: u64,
    /// Distribution of reads over the objects.
    pub popularity: Popularity,
    /// Settings of puts that add new objects; `None` if puts write the same objects repeatedly.
    pub inserts: Option<Inserts>,
    /// Number of objects that a scan reads.
    pub scan: ScanLength,
    /// Directory in which each object that is read becomes a file; `None` if the content is not kept.
    pub sink: Option<PathBuf>,
    /// Recorded requests that the phase repeats; `None` if the operations are drawn.
    pub recording: Option<Recording>,
}

/// Settings of puts that add new objects to the dataset that the phase reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inserts {
    /// Number of the first object to add.
    pub from: u64,
    /// Number of further puts that must start before an added object is read; its own put has finished by then.
    pub margin: u64,
}

/// Number of objects that a scan reads: a random number from `min` to `max`.
#[derive(Debug, Clone, PartialEq)]
pub struct ScanLength {
    /// Minimum number of objects.
    pub min: u64,
    /// Maximum number of objects.
    pub max: u64,
    /// Exponent of a zipfian distribution that favours short scans; `None` if all lengths are equally likely.
    pub theta: Option<f64>,
}

impl Default for ScanLength {
    fn default() -> ScanLength {
        ScanLength { min: 1, max: 100, theta: None }
    }
}

impl Workload {
    /// Returns the version of the objects that reads expect.
    pub fn read_version(&self) -> u64 {
        self.written_in.map_or(0, u64::from)
    }

    /// Returns the dataset of a target.
    pub fn dataset(&self, target: Target) -> &Dataset {
        match target {
            Target::Read => self.read.as_ref().unwrap_or(&self.written),
            Target::Written => &self.written,
            Target::Spare => self.spare.as_ref().unwrap_or(&self.written),
        }
    }

    /// Returns true if all operations are deletes, so that the workload runs out of objects.
    pub fn only_deletes(&self) -> bool {
        self.mix.share(OperationKind::Delete) == self.mix.total()
    }

    /// Returns the number of the first read of each kind with [`Popularity::Shares`], whose shares are exact if every
    /// number occurs once: first all reads of one kind, then those of the next one. Otherwise, all are 0.
    fn first_turns(&self) -> [u64; OperationKind::ALL.len()] {
        let mut first = [0; OperationKind::ALL.len()];
        let Popularity::Shares { operations, .. } = &self.popularity else { return first };
        let share = |kind: OperationKind| u64::from(self.mix.share(kind));
        let kinds = || OperationKind::ALL.into_iter().filter(|kind| kind.reads() && share(*kind) > 0);
        let total: u64 = kinds().map(share).sum();
        let mut before = 0;
        for kind in kinds() {
            first[kind.index()] = operations * before / total;
            before += share(kind);
        }
        first
    }

    /// Returns the kinds of the operations of the phase, addressed by number, unless they are recorded.
    pub fn kinds(&self) -> MixCursor {
        MixCursor::new(self.mix.clone(), Stream::new(self.seed, &format!("mix/{}", self.phase)))
    }

    /// Returns the operations of the phase, addressed by number. Every worker has its own sequence, and all sequences
    /// contain the same operations.
    pub fn sequence(&self) -> Sequence {
        Sequence {
            cursor: self.kinds(),
            picker: {
                let count = self.read.as_ref().map_or(1, |d| d.count);
                Picker::new(self.popularity.clone(), count, self.seed, &self.phase)
            },
            ranges: Stream::new(self.seed, &format!("ranges/{}", self.phase)),
            in_order: self
                .read
                .as_ref()
                .filter(|_| self.popularity == Popularity::Ranges)
                .map(|read| RangesInOrder::new(read, self.read_version(), self.range.max(1))),
            version: self.read_version(),
            read: self.read.clone(),
            written_count: self.written.count.max(1),
            spare_count: self.spare.as_ref().map_or(0, |s| s.count),
            puts_per_delete: {
                let deletes = self.mix.share(OperationKind::Delete).max(1);
                (u64::from(self.mix.share(OperationKind::Put)), u64::from(deletes))
            },
            range: self.range,
            inserts: self.inserts,
            first_turns: self.first_turns(),
            trace: self.recording.as_ref().filter(|r| r.repeats).map(|r| Arc::clone(&r.trace)),
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

/// The operations of a phase, addressed by number.
pub struct Sequence {
    cursor: MixCursor,
    picker: Picker,
    ranges: Stream,
    /// Ranges of [`Popularity::Ranges`].
    in_order: Option<RangesInOrder>,
    /// Version of the objects that reads expect.
    version: u64,
    read: Option<Dataset>,
    written_count: u64,
    spare_count: u64,
    puts_per_delete: (u64, u64),
    range: u64,
    inserts: Option<Inserts>,
    /// Number of the first read of each kind, by the index of the kind.
    first_turns: [u64; OperationKind::ALL.len()],
    trace: Option<Arc<Trace>>,
    /// Minimum length of a scan, number of possible lengths, and the picker that chooses one.
    lengths: (u64, u64, Picker),
}

impl Sequence {
    /// Returns operation number `i`.
    pub fn at(&mut self, i: u64) -> Operation {
        if let Some(trace) = &self.trace {
            return trace.operation(i, self.ranges);
        }
        let (kind, ordinal) = self.cursor.at(i);
        let mut operation = Operation {
            kind,
            target: Target::Read,
            index: 0,
            version: self.version,
            range_start: 0,
            length: 0,
        };
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
                // This put was issued `spare_count` deletes ago, so it has finished by now.
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
                operation.index = self.picker.pick(i, ordinal + self.first_turns[kind.index()], added);
            }
        }
        match (kind, &self.read) {
            (OperationKind::GetRange, Some(read)) => self.set_range(&mut operation, read, i, ordinal),
            // Each write has another content, so that the entity tag of no earlier write matches.
            (OperationKind::CompareAndSwap, _) => operation.version = i + 1,
            (OperationKind::Scan, _) => {
                let (min, span, lengths) = &self.lengths;
                // Popularity favours the highest number, which becomes the shortest length.
                operation.length = min + span - 1 - lengths.pick(i, ordinal, 0);
            }
            _ => {}
        }
        operation
    }

    /// Chooses the range of range read `ordinal`, which is operation `i`.
    fn set_range(&self, operation: &mut Operation, read: &Dataset, i: u64, ordinal: u64) {
        if let Some(in_order) = &self.in_order {
            (operation.index, operation.range_start) = in_order.at(ordinal);
            let size = read.size_of(operation.index, self.version);
            operation.length = self.range.min(size - operation.range_start);
            return;
        }
        // The size of an existing object is unknown here.
        let size =
            if read.existing.is_some() { u64::MAX } else { read.size_of(operation.index, self.version) };
        operation.length = self.range.min(size);
        let starts = read.size_of(operation.index, self.version).saturating_sub(operation.length) + 1;
        operation.range_start = self.ranges.below(i, starts);
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
            copies: None,
            range: 0,
            popularity: Popularity::Uniform,
            inserts: None,
            scan: ScanLength::default(),
            sink: None,
            recording: None,
            written_in: None,
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

    /// Returns the operations with these numbers as text, with all fields, the key and the size.
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
            (workload.popularity, workload.range) = (popularity.clone(), 100);
            let configure = |d: &mut Dataset| (d.size, d.naming) = (size.clone(), naming.clone());
            workload.read.iter_mut().chain(&mut workload.spare).for_each(configure);
            configure(&mut workload.written);
            let whole = bytes_of(&workload, 0..3_000);
            for workers in [2, 3, 16] {
                let mut merged: Vec<_> = (0..workers)
                    .flat_map(|w| bytes_of(&workload.clone(), (w..3_000).step_by(workers as usize)))
                    .collect();
                merged.sort();
                assert!(merged == whole, "{popularity:?} on {workers} workers");
            }
            workload.seed += 1;
            assert!(
                bytes_of(&workload, 0..3_000) != whole,
                "{popularity:?}: another seed gives another sequence"
            );
        }
    }

    #[test]
    fn every_delete_addresses_an_object_that_was_put_before() {
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
                        "operation {i} deletes {}, which does not exist",
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
    fn shares_are_exact_in_any_mix() {
        let mut workload = mixed();
        // Of 100 objects, 40 are read once, 59 five times and one 665 times, by gets and heads together.
        let points = vec![(0.0, 0.0), (0.665, 0.01), (0.96, 0.6), (1.0, 1.0)];
        let shares = cdf::Cdf::new(points).unwrap();
        workload.popularity = Popularity::Shares { operations: 1_000, shares, ordered: false };
        workload.read = Some(Dataset::new("objects", 42, 100, Size::Fixed(1)));
        workload.mix =
            Mix::new(&[(OperationKind::Get, 6), (OperationKind::Head, 2), (OperationKind::Put, 2)]).unwrap();
        let mut sequence = workload.sequence();
        let mut reads = [0; 100];
        for operation in (0..1_250).map(|i| sequence.at(i)).filter(|operation| operation.kind.reads()) {
            reads[operation.index as usize] += 1;
        }
        reads.sort_unstable();
        assert_eq!(
            (reads[..40].to_vec(), reads[40..99].to_vec(), reads[99]),
            (vec![1; 40], vec![5; 59], 665)
        );
    }

    #[test]
    fn reads_of_a_range_stay_inside_objects_of_several_sizes() {
        let mut workload = mixed();
        let size = Size::Weighted(vec![(10, 1), (1_000, 1)]);
        workload.read = Some(Dataset::new("objects", 42, 64, size));
        workload.mix = Mix::new(&[(OperationKind::GetRange, 1)]).unwrap();
        workload.range = 100;
        let read = workload.read.clone().unwrap();
        let mut sequence = workload.sequence();
        let mut lengths = std::collections::BTreeSet::new();
        for operation in (0..1_000).map(|i| sequence.at(i)) {
            let size = read.size_of(operation.index, 0);
            assert!(operation.range_start + operation.length <= size);
            assert_eq!(operation.length, size.min(100));
            lengths.insert(operation.length);
        }
        assert_eq!(lengths.into_iter().collect::<Vec<_>>(), [10, 100]);
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
