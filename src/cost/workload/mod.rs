//! A month of work as people write it, on the command line or in a file, and the usage that it comes to.

pub mod spec;

pub use spec::{Workload, parse};

use super::egress::Egress;
use super::usage::{MONTH_HOURS, Usage};
use crate::provider::calls::Call;
use crate::units::{format_count, format_size, format_volume, parse_count, parse_size, parse_volume};

/// Size of an object where none is said, in bytes.
pub const USUAL_OBJECT: u64 = 1 << 20;
/// Most bytes that are believed of a month.
const MOST_BYTES: u64 = 1 << 62;
/// Most parts of an object (S3, R2, Google).
const MOST_PARTS: u64 = 10_000;
/// Most bytes of one request (S3, R2, Google).
const LARGEST_PUT: u64 = 5 << 30;
/// What is taken for granted where nobody says how long objects live: a bill that rests on it is for a part of the work.
pub const NOTHING_STAYS: &str = "what is written is deleted at once and nothing of it stays stored (--storage, or --keep for so many days)";
/// Days of a month.
pub const MONTH_DAYS: f64 = MONTH_HOURS as f64 / 24.0;

/// What cannot be made of a workload.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{field}: {message}")]
pub struct WorkloadError {
    /// The field, as in a file: `object_size`.
    pub field: &'static str,
    /// What is wrong, and the fix.
    pub message: String,
}

/// A usage, and what had to be taken for granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// The usage.
    pub usage: Usage,
    /// What was not said, in words.
    pub assumptions: Vec<String>,
}

fn wrong(field: &'static str, message: impl ToString) -> WorkloadError {
    WorkloadError { field, message: message.to_string() }
}

fn volume(field: &'static str, text: Option<&String>) -> Result<Option<u64>, WorkloadError> {
    text.map(|text| parse_volume(text).map_err(|e| wrong(field, e))).transpose()
}

/// Counts that belong to a kind of request.
fn counts(workload: &Workload) -> [(&'static str, Call, Option<&String>); 6] {
    [
        ("put", Call::PutObject, workload.put.as_ref()),
        ("get", Call::GetObject, workload.get.as_ref()),
        ("head", Call::HeadObject, workload.head.as_ref()),
        ("list", Call::ListObjects, workload.list.as_ref()),
        ("delete", Call::DeleteObject, workload.delete.as_ref()),
        ("copy", Call::CopyObject, workload.copy.as_ref()),
    ]
}

fn object_size(field: &'static str, text: &str) -> Result<u64, WorkloadError> {
    let bytes = parse_size(text).map_err(|e| wrong(field, e))?;
    match (bytes, text.trim().ends_with(|c: char| c.is_ascii_digit())) {
        (0, _) => Err(wrong(field, "it must be more than 0")),
        (_, true) => {
            Err(wrong(field, format!("'{text}' has no unit; write {text}B, {text}KiB or {text}MiB")))
        }
        _ => Ok(bytes),
    }
}

/// Days as `7d`.
fn days(field: &'static str, text: &str) -> Result<u64, WorkloadError> {
    let number = text.trim().strip_suffix(['d', 'D']).unwrap_or_default().trim().parse().ok();
    number.filter(|days| (1..=36_500).contains(days)).ok_or_else(|| {
        wrong(field, format!("'{text}' is no number of days; write whole days with their unit, such as 7d"))
    })
}

/// A machine and its seconds, from `c7g.4xlarge=730h`.
fn instance(text: &str) -> Result<(String, u64), WorkloadError> {
    let fail = || wrong("instance", format!("'{text}' is not TYPE=HOURS; write it as c7g.4xlarge=730h"));
    let (name, hours) = text.split_once('=').ok_or_else(fail)?;
    let hours = hours.trim().strip_suffix('h').ok_or_else(fail)?;
    let pico = super::money::decimal(hours).ok_or_else(fail)?;
    let seconds = pico * 3600 / 1_000_000_000_000;
    u64::try_from(seconds)
        .ok()
        .filter(|s| *s < 1 << 40)
        .map(|s| (name.trim().to_string(), s))
        .ok_or_else(fail)
}

impl Workload {
    /// The usage that it comes to.
    ///
    /// # Errors
    /// [`WorkloadError`], with the field that is wrong.
    pub fn resolve(&self) -> Result<Resolved, WorkloadError> {
        let mut assumptions = Vec::new();
        let mut usage = Usage { without_allowances: self.without_allowances, ..Usage::default() };
        let count = |field, text: Option<&String>| {
            text.map_or(Ok(0), |text| parse_count(text).map_err(|e| wrong(field, e)))
        };
        let (puts, gets) = (count("put", self.put.as_ref())?, count("get", self.get.as_ref())?);
        usage.object_bytes = match &self.object_size {
            Some(text) => object_size("object_size", text)?,
            None if puts > 0 || gets > 0 || self.delete.is_some() => {
                assumptions.push("objects have 1 MiB (--object-size)".into());
                USUAL_OBJECT
            }
            None => 0,
        };
        let part = self.part_size.as_deref().map(|text| object_size("part_size", text)).transpose()?;
        let parts = part.filter(|p| *p < usage.object_bytes).map_or(1, |p| usage.object_bytes.div_ceil(p));
        if puts > 0 && parts > MOST_PARTS {
            let message = format!(
                "{} parts of an object are more than the {} that stores take; write larger ones",
                format_count(parts),
                format_count(MOST_PARTS)
            );
            return Err(wrong("part_size", message));
        }
        if puts > 0 && part.is_none() && usage.object_bytes > LARGEST_PUT {
            assumptions.push(
                "objects above 5 GiB are put in one request each, which stores do not take (--part-size)"
                    .into(),
            );
        }
        usage.write(puts, usage.object_bytes, part);
        for (field, call, text) in counts(self).into_iter().skip(1) {
            usage.calls.add(call, count(field, text)?);
        }
        self.bytes(&mut usage, gets, &mut assumptions)?;
        usage.keep_days = self.keep.as_deref().map(|text| days("keep", text)).transpose()?;
        if usage.keep_days.is_some() && puts > 0 && self.delete.is_none() {
            usage.calls.set(Call::DeleteObject, puts);
            assumptions.push("as many objects are deleted as are written (--delete)".into());
        }
        usage.stored = self.stored(&usage, &mut assumptions)?;
        if usage.stored == 0 && usage.uploaded > 0 {
            usage.keep_days = Some(0);
        }
        // What `keep` says is deleted follows from what is stored.
        let deletes = usage.calls.get(Call::DeleteObject);
        usage.deleted = match usage.keep_days {
            None => deletes.saturating_mul(usage.object_bytes).min(MOST_BYTES),
            Some(_) => 0,
        };
        usage.stored_peak = match volume("storage_peak", self.storage_peak.as_ref())? {
            Some(peak) if peak < usage.stored => {
                return Err(wrong(
                    "storage_peak",
                    "the days' highest cannot be below the mean that --storage says",
                ));
            }
            peak => peak.unwrap_or(usage.stored),
        };
        usage.cross_zone = volume("cross_zone", self.cross_zone.as_ref())?.unwrap_or(0);
        usage.cross_region = volume("cross_region", self.cross_region.as_ref())?.unwrap_or(0);
        usage.instances = self.instance.iter().map(|text| instance(text)).collect::<Result<_, _>>()?;
        if usage.is_nothing() {
            return Err(wrong(
                "storage",
                "the workload comes to nothing; say what is stored, written, read or asked for",
            ));
        }
        Ok(Resolved { usage, assumptions })
    }

    /// Bytes stored: as said, or what is written and kept for so many days.
    fn stored(&self, usage: &Usage, assumptions: &mut Vec<String>) -> Result<u64, WorkloadError> {
        if let Some(stored) = volume("storage", self.storage.as_ref())? {
            return Ok(stored);
        }
        if self.storage_peak.is_some() {
            return Err(wrong("storage_peak", "it goes with --storage, the mean"));
        }
        match usage.keep_days {
            Some(days) if usage.uploaded > 0 => {
                let stored = (usage.uploaded as f64 * days as f64 / MONTH_DAYS).round();
                let stored = if stored <= MOST_BYTES as f64 {
                    stored as u64
                } else {
                    return Err(wrong("keep", "what is kept so long is more than 4 EiB"));
                };
                assumptions.push(format!(
                    "{} are stored: what is written in {days} days (--storage)",
                    format_volume(stored)
                ));
                Ok(stored)
            }
            Some(_) => Err(wrong(
                "keep",
                "it says how long objects live; say how much is stored or written with --storage or --put",
            )),
            None if usage.uploaded > 0 => {
                assumptions.push(NOTHING_STAYS.into());
                Ok(0)
            }
            None => Ok(0),
        }
    }

    /// Bytes written, read and gone.
    fn bytes(
        &self,
        usage: &mut Usage,
        gets: u64,
        assumptions: &mut Vec<String>,
    ) -> Result<(), WorkloadError> {
        let beyond = |field| wrong(field, "times --object-size that is more than 4 EiB; check both");
        if let Some(written) = volume("written", self.written.as_ref())? {
            usage.uploaded = written;
        }
        let of_gets = gets.checked_mul(usage.object_bytes).filter(|b| *b <= MOST_BYTES);
        let of_gets = of_gets.ok_or_else(|| beyond("get"))?;
        if usage.uploaded > MOST_BYTES {
            return Err(beyond("put"));
        }
        let read = volume("read", self.read.as_ref())?;
        let share = self.egress.as_deref().and_then(|text| text.trim().strip_suffix('%'));
        let stated = match (&self.egress, share) {
            (None, _) => 0,
            (Some(text), Some(share)) => {
                let percent = super::money::decimal(share.trim()).filter(|p| *p <= 100_000_000_000_000);
                let percent = percent.ok_or_else(|| {
                    wrong(
                        "egress",
                        format!("'{text}' is no share; write 0% to 100%, or an amount such as 10TB"),
                    )
                })?;
                if read.unwrap_or(of_gets) == 0 {
                    return Err(wrong(
                        "egress",
                        format!(
                            "'{text}' is a share of what is read; add --get or --read, or write an amount"
                        ),
                    ));
                }
                let whole = u128::from(read.unwrap_or(of_gets));
                (whole * (percent / 1_000_000) / 100_000_000) as u64
            }
            (text, None) => volume("egress", text.as_ref())?.unwrap_or(0),
        };
        usage.downloaded = match read {
            Some(read) if read < stated => {
                return Err(wrong("egress", "more leaves than is read; raise --read, or leave it out"));
            }
            Some(read) => read,
            None => of_gets.max(stated),
        };
        // Without a word on it, what leaves depends on the provider: see `Egress::at`.
        usage.egress = if self.egress.is_some() { Egress::Stated(stated) } else { Egress::UNSTATED };
        if read.is_none() && stated > of_gets {
            let asked = match gets {
                0 => String::new(),
                gets => format!(
                    "; {} requests of {} are {}",
                    format_count(gets),
                    format_size(usage.object_bytes),
                    format_volume(of_gets)
                ),
            };
            assumptions
                .push(format!("{} are read, as much as leaves{asked} (--read)", format_volume(stated)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Resolved, WorkloadError> {
        parse(text).unwrap().resolve()
    }

    #[test]
    fn a_workload_comes_to_its_requests_and_bytes() {
        let usage =
            of("put='1k'\nobject_size='20MiB'\npart_size='8MiB'\nget='2k'\negress='50%'").unwrap().usage;
        let of = |call| usage.calls.get(call);
        assert_eq!(
            (of(Call::PutObject), of(Call::UploadPart), of(Call::CompleteMultipartUpload)),
            (0, 3000, 1000)
        );
        assert_eq!(
            (usage.uploaded, usage.downloaded, usage.egress),
            (20_000 << 20, 40_000 << 20, Egress::Stated(20_000 << 20))
        );
    }

    #[test]
    fn what_is_not_said_is_told() {
        let resolved = of("get='12M'\negress='10PB'").unwrap();
        assert_eq!(resolved.usage.downloaded, 10_000_000_000_000_000);
        assert_eq!(resolved.assumptions.len(), 2, "{:?}", resolved.assumptions);
    }

    #[test]
    fn what_is_kept_is_stored() {
        let usage = of("put='730'\nobject_size='1GB'\nkeep='5d'").unwrap().usage;
        // 730 GB a month of 730 hours are a GB an hour.
        assert_eq!((usage.stored, usage.keep_days), (120_000_000_000, Some(5)));
    }

    /// Bytes that a run moved were billed although the objects were said to have another size.
    #[test]
    fn what_is_said_anew_leaves_no_stale_bytes() {
        let run = parse("put='10'\nget='20'\nobject_size='1KiB'\nwritten='10KiB'\nread='20KiB'").unwrap();
        let flags = parse("object_size='1MiB'").unwrap();
        let usage = flags.over(run.clone()).resolve().unwrap().usage;
        assert_eq!((usage.uploaded, usage.downloaded), (10 << 20, 20 << 20));
        let usage = parse("get='5'").unwrap().over(run).resolve().unwrap().usage;
        assert_eq!((usage.uploaded, usage.downloaded), (10 << 10, 5 << 10));
    }

    #[test]
    fn what_cannot_be_names_its_field() {
        for (text, field) in [
            ("storage='-1 TB'", "storage"),
            ("storage='100'", "storage"),
            ("put='many'", "put"),
            ("object_size='100'", "object_size"),
            ("object_size='0B'", "object_size"),
            ("put='1000T'\nobject_size='5TB'", "put"),
            ("egress='120%'\nget='1'", "egress"),
            ("egress='2TB'\nread='1TB'", "egress"),
            ("storage='2TB'\nstorage_peak='1TB'", "storage_peak"),
            ("keep='7'", "keep"),
            ("keep='7d'", "keep"),
            ("storage_peak='7 TB'", "storage_peak"),
            ("storage='0 B'", "storage"),
            ("storage='1 TB'\negress='30%'", "egress"),
            ("put='1'\nobject_size='100GB'\npart_size='5MiB'", "part_size"),
            ("instance=['c7g.4xlarge']", "instance"),
        ] {
            assert_eq!(of(text).unwrap_err().field, field, "{text}");
        }
        assert_eq!(parse("storage='1TB'\nputs='1'").unwrap_err().0, 2);
        assert_eq!(parse("storage='1TB'\nput=1.5").unwrap_err().0, 2);
        assert_eq!(
            parse("put=50000000\ninstance='c7g.4xlarge=1h'").unwrap().put.as_deref(),
            Some("50000000")
        );
    }
}
