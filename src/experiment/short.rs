//! The experiments behind `plimsoll run get|put|mixed|head|list|delete`: a file of two or three phases, written for you.

use std::collections::BTreeMap;

use crate::units::parse_duration;

use super::spec::{ConcurrencySpec, ExperimentSpec, ObjectsSpec, PhaseSpec, RateSpec, SizeSpec};

/// The short forms.
pub const FORMS: [&str; 6] = ["get", "put", "mixed", "head", "list", "delete"];

/// What the options of a short form say.
#[derive(Debug, Clone, Default)]
pub struct Short {
    /// One of [`FORMS`].
    pub form: String,
    /// `--size`.
    pub size: String,
    /// `--objects`.
    pub objects: u64,
    /// `--concurrency`.
    pub concurrency: Option<u64>,
    /// `--rate`.
    pub rate: Option<String>,
    /// `--arrival`.
    pub arrival: Option<String>,
    /// `--in-flight`.
    pub in_flight: Option<u64>,
    /// `--duration`.
    pub duration: Option<String>,
    /// `--operations`.
    pub operations: Option<u64>,
    /// `--warmup`.
    pub warmup: Option<String>,
    /// `--verify`.
    pub verify: Option<String>,
    /// `--timeout`.
    pub timeout: Option<String>,
    /// `--retries`.
    pub retries: Option<u32>,
    /// `--keys`.
    pub keys: Option<String>,
    /// Whether the stores hold objects already and take no others.
    pub read_only: bool,
    /// `--part-size`.
    pub part_size: Option<String>,
    /// `--parts-in-flight`.
    pub parts_in_flight: Option<u64>,
    /// `--checksum`.
    pub checksum: Option<String>,
    /// `--file`.
    pub file: Option<String>,
    /// `--cooldown`.
    pub cooldown: Option<String>,
    /// `--seed`.
    pub seed: u64,
}

impl Short {
    /// The mix of the form; `mixed` is warp's.
    fn mix(&self) -> BTreeMap<String, u32> {
        let pairs: &[(&str, u32)] = match self.form.as_str() {
            "mixed" => &[("get", 45), ("head", 30), ("put", 15), ("delete", 10)],
            "put" => &[("put", 1)],
            "head" => &[("head", 1)],
            "list" => &[("list", 1)],
            "delete" => &[("delete", 1)],
            _ => &[("get", 1)],
        };
        pairs.iter().map(|(name, weight)| ((*name).to_string(), *weight)).collect()
    }

    /// What is written, and how.
    fn written_objects(&self) -> ObjectsSpec {
        ObjectsSpec {
            size: self.file.is_none().then(|| SizeSpec::Fixed(self.size.clone())),
            part_size: self.part_size.clone(),
            parts_in_flight: self.parts_in_flight,
            checksum: self.checksum.clone(),
            file: self.file.clone(),
            ..ObjectsSpec::default()
        }
    }

    /// Writes the experiment.
    pub fn to_written(&self) -> ExperimentSpec {
        let reads = !matches!(self.form.as_str(), "put" | "delete");
        let there = self.keys.is_some() || self.read_only;
        let mut phases = Vec::new();
        if reads && !there {
            phases.push(PhaseSpec {
                name: "objects".into(),
                role: Some("prepare".into()),
                operations: BTreeMap::from([("put".to_string(), 1)]),
                objects: ObjectsSpec { from: None, count: Some(self.objects), ..self.written_objects() },
                concurrency: self.concurrency.map(ConcurrencySpec::Fixed),
                timeout: self.timeout.clone(),
                ..PhaseSpec::default()
            });
        }
        // What only reads takes its objects as they were prepared.
        let writes = matches!(self.form.as_str(), "put" | "delete" | "mixed");
        let measure = PhaseSpec {
            name: self.form.clone(),
            operations: self.mix(),
            objects: ObjectsSpec {
                from: (reads && !there).then(|| "objects".into()),
                keys: self.keys.clone(),
                dataset: (reads && self.read_only && self.keys.is_none()).then(String::new),
                count: writes.then_some(self.objects),
                ..if writes { self.written_objects() } else { ObjectsSpec::default() }
            },
            concurrency: self.concurrency.map(ConcurrencySpec::Fixed),
            rate: self.rate.clone().map(RateSpec::Fixed),
            arrival: self.arrival.clone(),
            in_flight: self.in_flight,
            duration: self.duration.clone(),
            stop_after: self.operations,
            timeout: self.timeout.clone(),
            retries: self.retries,
            verify: self.verify.clone(),
            cooldown: self.cooldown.clone(),
            ..PhaseSpec::default()
        };
        // Deletes use their objects up, so writing those is all the warm-up there is.
        let no_warmup = self.warmup.as_deref().is_none_or(|w| parse_duration(w) == Ok(0));
        if self.form != "delete" && !no_warmup {
            phases.push(PhaseSpec {
                name: "warmup".into(),
                role: Some("warmup".into()),
                duration: self.warmup.clone(),
                stop_after: None,
                ..measure.clone()
            });
        }
        phases.push(measure);
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
    use crate::experiment::resolve::{parse, resolve};
    use crate::experiment::to_toml::to_toml;

    /// `--warmup 0ms` was refused as a phase of no length.
    #[test]
    fn a_warm_up_of_nothing_is_none_in_any_unit() {
        for (warmup, phases) in [("0", 2), ("0s", 2), ("0ms", 2), ("0.0s", 2), ("1ms", 3)] {
            let short = Short {
                form: "get".into(),
                size: "1KiB".into(),
                objects: 10,
                warmup: Some(warmup.into()),
                ..Short::default()
            };
            assert_eq!(resolve(short.to_written()).unwrap().phases.len(), phases, "{warmup}");
        }
    }

    #[test]
    fn every_form_resolves_and_repeats() {
        for form in FORMS {
            let short = Short {
                form: form.into(),
                size: "1KiB".into(),
                objects: 1000,
                warmup: Some("2s".into()),
                duration: Some("30s".into()),
                ..Short::default()
            };
            let experiment = resolve(short.to_written()).unwrap_or_else(|e| panic!("{form}: {e:?}"));
            assert_eq!(experiment.phases.last().unwrap().name, form);
            assert_eq!(parse("again", &to_toml(&experiment), &[]).unwrap(), experiment, "{form}");
        }
    }
}
