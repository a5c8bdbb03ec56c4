//! Experiments behind `plimsoll run get|put|mixed|head|list|delete|copy`: generated files of one to three phases.

use std::collections::BTreeMap;

use plimsoll_base::units::parse_duration;

use super::spec::{
    ArrivalSpec, ConcurrencySpec, ExperimentSpec, ObjectsSpec, PhaseSpec, PopularitySpec, RateSpec, SizeSpec,
    SweepSpec,
};

/// Names of the short forms.
pub const FORMS: [&str; 7] = ["get", "put", "mixed", "head", "list", "delete", "copy"];

/// Size of the objects, if nothing else determines it.
pub const DEFAULT_SIZE: &str = "1KiB";

/// Returns the description of a short form.
pub fn describe(form: &str) -> &'static str {
    match form {
        "put" => "Uploads; --size, --concurrency or --rate, and other options set the load",
        "mixed" => "45% GET, 30% HEAD, 15% PUT and 10% DELETE",
        "head" => "Requests for metadata",
        "list" => "Listings",
        "delete" => "Deletions",
        "copy" => "Copies within the store",
        _ => "Downloads; --size, --concurrency or --rate, and other options set the load",
    }
}

/// Options of a short form. `None` selects the default, unless the field says otherwise.
#[derive(Debug, Clone, Default)]
pub struct Short {
    /// Name of the form: one of [`FORMS`].
    pub form: String,
    /// Size of the objects (`--size`); `None` for [`DEFAULT_SIZE`], a file or swept sizes.
    pub size: Option<String>,
    /// Number of objects (`--objects`).
    pub objects: u64,
    /// Operations in flight of a closed loop (`--concurrency`).
    pub concurrency: Option<u64>,
    /// Rate of an open loop (`--rate`); `None` for a closed loop.
    pub rate: Option<String>,
    /// Distribution of the intended start times of an open loop (`--arrival`).
    pub arrival: Option<String>,
    /// Maximum number of operations in flight of an open loop (`--in-flight`).
    pub in_flight: Option<u64>,
    /// Length of the measured phase (`--duration`).
    pub duration: Option<String>,
    /// Number of operations after which the measured phase ends (`--operations`).
    pub operations: Option<u64>,
    /// Length of the warm-up (`--warmup`); `None` or zero for no warm-up.
    pub warmup: Option<String>,
    /// Verification of content (`--verify`).
    pub verify: Option<String>,
    /// Deadline of an operation (`--timeout`).
    pub timeout: Option<String>,
    /// Maximum number of retries of a request (`--retries`).
    pub retries: Option<u32>,
    /// File with the keys to read (`--keys`); `None` if the form does not read named keys.
    pub keys: Option<String>,
    /// True if the stores contain objects and accept no new ones, so that the form has no prepare phase.
    pub read_only: bool,
    /// Part size of multipart uploads (`--part-size`).
    pub part_size: Option<String>,
    /// Number of parts of one object in flight (`--parts-in-flight`).
    pub parts_in_flight: Option<u64>,
    /// Checksum sent with uploads (`--checksum`).
    pub checksum: Option<String>,
    /// File that is the content of every object (`--file`); `None` for generated content.
    pub file: Option<String>,
    /// Share of the bytes that compression can remove (`--compressible`).
    pub compressible: Option<f64>,
    /// Number of objects with the same content (`--dedup`).
    pub dedup: Option<f64>,
    /// Pause after each operation of a closed loop (`--think-time`).
    pub think_time: Option<String>,
    /// State of the store's caches that the measured phase declares (`--cache`); `None` if it declares none.
    pub cache: Option<String>,
    /// Time after the writes of `put` at which each object is read once (`--read-after`); `None` for no reads.
    pub read_after: Option<String>,
    /// Order of these reads (`--read-order`).
    pub read_order: Option<String>,
    /// Swept fields and their values (`--sweep`); `None` without a sweep.
    pub sweep: Option<SweepSpec>,
    /// Seed for all random choices (`--seed`).
    pub seed: u64,
}

/// Number of objects with which the connections of a run with cold caches are warmed up.
const OTHERS: u64 = 64;

/// Returns a warm-up without a limit that does the same as a measured phase.
fn warmup(measure: &PhaseSpec) -> PhaseSpec {
    PhaseSpec {
        name: "warmup".into(),
        role: Some("warmup".into()),
        cache: None,
        duration: None,
        stop_after: None,
        ..measure.clone()
    }
}

impl Short {
    /// Returns the operation weights of the form; `mixed` uses those of warp.
    fn mix(&self) -> BTreeMap<String, u32> {
        let pairs: &[(&str, u32)] = match self.form.as_str() {
            "mixed" => &[("get", 45), ("head", 30), ("put", 15), ("delete", 10)],
            "put" => &[("put", 1)],
            "head" => &[("head", 1)],
            "list" => &[("list", 1)],
            "delete" => &[("delete", 1)],
            "copy" => &[("copy", 1)],
            _ => &[("get", 1)],
        };
        pairs.iter().map(|(name, weight)| ((*name).to_string(), *weight)).collect()
    }

    /// Returns the swept sizes; `None` if sizes are not swept.
    fn swept_sizes(&self) -> Option<Vec<String>> {
        self.sweep.as_ref()?.size.clone()
    }

    /// Returns the settings of the objects to write.
    fn written_objects(&self) -> ObjectsSpec {
        let others = self.file.is_some() || self.swept_sizes().is_some();
        let size = self.size.clone().or_else(|| (!others).then(|| DEFAULT_SIZE.to_string()));
        ObjectsSpec {
            size: size.map(SizeSpec::Fixed),
            part_size: self.part_size.clone(),
            parts_in_flight: self.parts_in_flight,
            checksum: self.checksum.clone(),
            file: self.file.clone(),
            compressible: self.compressible,
            dedup: self.dedup,
            ..ObjectsSpec::default()
        }
    }

    /// Returns the declared state of the store's caches. A sweep of working sets needs warm caches.
    fn declared_cache(&self) -> Option<String> {
        let swept = self.sweep.as_ref().is_some_and(|sweep| sweep.working_set.is_some());
        self.cache.clone().or_else(|| swept.then(|| "warm".to_string()))
    }

    /// Returns the warm-up that reads every object of a phase once.
    fn one_pass(measure: &PhaseSpec) -> PhaseSpec {
        let popularity = Some(PopularitySpec::Name("sequential".into()));
        PhaseSpec {
            operations: BTreeMap::from([("get".to_string(), 1)]),
            objects: ObjectsSpec { popularity, ..measure.objects.clone() },
            rate: None,
            arrival: None,
            in_flight: None,
            think_time: None,
            ..warmup(measure)
        }
    }

    /// Returns the phases that write other objects and read them, so that the connections are warm and the objects of
    /// the measured phase are not.
    fn warmup_of_others(&self, measure: &PhaseSpec) -> [PhaseSpec; 2] {
        let objects = ObjectsSpec { from: None, count: Some(OTHERS), ..self.written_objects() };
        let write = PhaseSpec {
            name: "others".into(),
            role: Some("prepare".into()),
            operations: BTreeMap::from([("put".to_string(), 1)]),
            objects,
            timeout: self.timeout.clone(),
            ..PhaseSpec::default()
        };
        let objects = ObjectsSpec { from: Some("others".into()), ..ObjectsSpec::default() };
        let read = PhaseSpec { objects, duration: self.warmup.clone(), ..warmup(measure) };
        [write, read]
    }

    /// Returns the phase that reads what `measure` wrote; `None` without `--read-after`.
    fn reading(&self, measure: &PhaseSpec) -> Option<PhaseSpec> {
        let read_after = Some(self.read_after.clone()?);
        let objects = ObjectsSpec {
            from: Some(measure.name.clone()),
            popularity: self.read_order.clone().map(PopularitySpec::Name),
            ..ObjectsSpec::default()
        };
        let operations = BTreeMap::from([("get".to_string(), 1)]);
        Some(PhaseSpec {
            name: "read".into(),
            operations,
            objects,
            read_after,
            stop_after: None,
            ..measure.clone()
        })
    }

    /// Builds the experiment.
    pub fn to_spec(&self) -> ExperimentSpec {
        let reads = !matches!(self.form.as_str(), "put" | "delete");
        let existing = self.keys.is_some() || self.read_only;
        let mut phases = Vec::new();
        if reads && !existing {
            phases.push(PhaseSpec {
                name: "objects".into(),
                role: Some("prepare".into()),
                operations: BTreeMap::from([("put".to_string(), 1)]),
                objects: ObjectsSpec { from: None, count: Some(self.objects), ..self.written_objects() },
                concurrency: self.concurrency.map(ConcurrencySpec::Fixed),
                timeout: self.timeout.clone(),
                sweep: self
                    .swept_sizes()
                    .map(|sizes| SweepSpec { size: Some(sizes), ..SweepSpec::default() }),
                ..PhaseSpec::default()
            });
        }
        // Forms that only read use the objects as the prepare phase wrote them.
        let writes = matches!(self.form.as_str(), "put" | "delete" | "mixed");
        let measure = PhaseSpec {
            name: self.form.clone(),
            operations: self.mix(),
            objects: ObjectsSpec {
                from: (reads && !existing).then(|| "objects".into()),
                keys: self.keys.clone(),
                dataset: (reads && self.read_only && self.keys.is_none()).then(String::new),
                count: writes.then_some(self.objects),
                ..if writes { self.written_objects() } else { ObjectsSpec::default() }
            },
            concurrency: self.concurrency.map(ConcurrencySpec::Fixed),
            rate: self.rate.clone().map(RateSpec::Fixed),
            arrival: self.arrival.clone().map(ArrivalSpec::Name),
            in_flight: self.in_flight,
            duration: self.duration.clone(),
            // Objects that are read afterwards are written once.
            stop_after: self.operations.or(self.read_after.as_ref().map(|_| self.objects)),
            timeout: self.timeout.clone(),
            retries: self.retries,
            verify: self.verify.clone(),
            think_time: self.think_time.clone(),
            cache: self.declared_cache(),
            sweep: self.sweep.clone(),
            ..PhaseSpec::default()
        };
        // The delete form has no warm-up phase, because a warm-up would delete the objects.
        let no_warmup = self.warmup.as_deref().is_none_or(|w| parse_duration(w) == Ok(0));
        match measure.cache.as_deref() {
            _ if self.form == "delete" => {}
            Some("warm") => phases.push(Self::one_pass(&measure)),
            _ if no_warmup => {}
            Some("cold") => phases.extend(self.warmup_of_others(&measure)),
            _ => phases.push(PhaseSpec { duration: self.warmup.clone(), ..warmup(&measure) }),
        }
        let reading = self.reading(&measure);
        phases.push(measure);
        phases.extend(reading);
        ExperimentSpec {
            name: self.form.clone(),
            description: format!("short form: plimsoll run {}", self.form),
            seed: self.seed,
            stores: Vec::new(),
            store: Default::default(),
            phase: phases,
            ..ExperimentSpec::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve::{parse, resolve};
    use crate::to_toml::to_toml;

    /// Regression test: `--warmup 0ms` was rejected as a phase without length.
    #[test]
    fn a_warm_up_of_zero_length_is_omitted_in_any_unit() {
        for (warmup, phases) in [("0", 2), ("0s", 2), ("0ms", 2), ("0.0s", 2), ("1ms", 3)] {
            let short = Short {
                form: "get".into(),
                size: Some("1KiB".into()),
                objects: 10,
                warmup: Some(warmup.into()),
                ..Short::default()
            };
            assert_eq!(resolve(short.to_spec()).unwrap().phases.len(), phases, "{warmup}");
        }
    }

    #[test]
    fn every_form_resolves_and_survives_a_round_trip() {
        for form in FORMS {
            let short = Short {
                form: form.into(),
                size: Some("1KiB".into()),
                objects: 1000,
                warmup: Some("2s".into()),
                duration: Some("30s".into()),
                ..Short::default()
            };
            let experiment = resolve(short.to_spec()).unwrap_or_else(|e| panic!("{form}: {e:?}"));
            assert_eq!(experiment.phases.last().unwrap().name, form);
            assert_eq!(parse("again", &to_toml(&experiment), &[]).unwrap(), experiment, "{form}");
        }
    }
}
