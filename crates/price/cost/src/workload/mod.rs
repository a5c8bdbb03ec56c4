//! Workload of one month, from the command line or a file, and the usage that follows from it.

mod check;
mod functions;
pub mod spec;

pub use check::{check, not_used};
pub use spec::{Workload, parse};

use super::egress::Egress;
use super::period::{DAY_S, MONTH_HOURS};
use super::usage::{Unread, Usage};
use plimsoll_base::provider::calls::Call;
use plimsoll_base::units::{format_count, format_size, format_volume, parse_count, parse_size, parse_volume};

/// Default size of an object, in bytes.
pub const DEFAULT_OBJECT_SIZE: u64 = 1 << 20;
/// Maximum number of bytes in a month: 4 EiB.
const MAX_BYTES: u64 = 1 << 62;
/// Maximum number of parts of an object (S3, R2, Google).
const MAX_PARTS: u64 = 10_000;
/// Maximum size of a single PUT request, in bytes (S3, R2, Google).
const LARGEST_PUT: u64 = 5 << 30;
/// Assumption about written objects if the workload specifies neither storage nor retention. Such a bill
/// contains no storage.
pub const NO_RETENTION: &str =
    "written objects are deleted immediately, so none of them are stored (--storage or --keep)";
/// Number of days in a month.
pub const MONTH_DAYS: f64 = MONTH_HOURS as f64 / 24.0;

/// Error in a workload.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{field}: {message}")]
pub struct WorkloadError {
    /// Name of the field, as in a file: `object_size`.
    pub field: &'static str,
    /// Problem, and how to fix it.
    pub message: String,
}

/// Usage of a workload, and the assumptions on which it rests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// Usage of one month.
    pub usage: Usage,
    /// Assumptions about values that the workload does not specify.
    pub assumptions: Vec<String>,
}

fn wrong(field: &'static str, message: impl ToString) -> WorkloadError {
    WorkloadError { field, message: message.to_string() }
}

fn volume(field: &'static str, text: Option<&String>) -> Result<Option<u64>, WorkloadError> {
    text.map(|text| parse_volume(text).map_err(|e| wrong(field, e))).transpose()
}

/// Returns the counts of a workload: field, kind of request and value.
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

/// Parses the size of an object, which must have a unit.
///
/// # Errors
/// [`WorkloadError`] of the field.
pub fn object_size(field: &'static str, text: &str) -> Result<u64, WorkloadError> {
    let bytes = parse_size(text).map_err(|e| wrong(field, e))?;
    match (bytes, text.trim().ends_with(|c: char| c.is_ascii_digit())) {
        (0, _) => Err(wrong(field, "the size must be greater than 0")),
        (_, true) => {
            Err(wrong(field, format!("'{text}' has no unit; write {text}B, {text}KiB or {text}MiB")))
        }
        _ => Ok(bytes),
    }
}

/// Parses a retention, such as `7d` or `12h`, into seconds.
fn retention(field: &'static str, text: &str) -> Result<u64, WorkloadError> {
    let text = text.trim();
    let whole = |suffixes: [char; 2]| text.strip_suffix(suffixes)?.trim().parse::<u64>().ok();
    let seconds = match (whole(['d', 'D']), whole(['h', 'H'])) {
        (Some(days), _) => days.checked_mul(DAY_S),
        (None, Some(hours)) => hours.checked_mul(3600),
        (None, None) => None,
    };
    seconds.filter(|seconds| (3600..=36_500 * DAY_S).contains(seconds)).ok_or_else(|| {
        wrong(field, format!("'{text}' is not a retention; use whole days or hours, such as 7d or 12h"))
    })
}

/// Parses a machine type and its hours, such as `c7g.4xlarge=730h`, into the type and the seconds.
fn instance(text: &str) -> Result<(String, u64), WorkloadError> {
    let fail =
        || wrong("instance", format!("'{text}' is not in the form TYPE=HOURS, such as c7g.4xlarge=730h"));
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

/// Parses shares of unread data, such as `30d=70%,90d=50%`. Shares must not grow with the days.
fn unread(text: &str) -> Result<Unread, WorkloadError> {
    let fail = || wrong("unread", format!("'{text}' is not in the form DAYS=SHARE, such as 30d=70%,90d=50%"));
    let mut shares: Vec<(u64, u64)> = Vec::new();
    for pair in text.split(',') {
        let (days, share) = pair.split_once('=').ok_or_else(fail)?;
        let days = days.trim().strip_suffix(['d', 'D']).and_then(|days| days.parse::<u64>().ok());
        let days = days.filter(|days| (1..=36_500).contains(days)).ok_or_else(fail)?;
        let percent = share.trim().strip_suffix('%').and_then(|share| super::money::decimal(share.trim()));
        let percent = percent.filter(|percent| *percent <= 100_000_000_000_000).ok_or_else(fail)?;
        let share = (percent / 100_000) as u64;
        if shares.last().is_some_and(|(before, larger)| *before >= days || *larger < share) {
            return Err(wrong("unread", "the days must grow, and the shares must not"));
        }
        shares.push((days, share));
    }
    Ok(Unread::new(shares))
}

/// Formats a retention: `7 days` or `12 hours`.
fn in_days(seconds: u64) -> String {
    match (seconds / DAY_S, seconds / 3600) {
        (1, 24) => "1 day".into(),
        (days, _) if seconds.is_multiple_of(DAY_S) => format!("{days} days"),
        (_, 1) => "1 hour".into(),
        (_, hours) => format!("{hours} hours"),
    }
}

/// Checks the number of parts of an object. Returns the assumption about large objects without parts.
///
/// # Errors
/// [`WorkloadError`] if an object has more parts than stores accept.
pub fn parts(object: u64, part: Option<u64>) -> Result<Option<String>, WorkloadError> {
    let parts = part.filter(|p| *p < object).map_or(1, |p| object.div_ceil(p));
    if parts > MAX_PARTS {
        let message = format!(
            "an object has {} parts, but stores accept at most {}; use larger parts",
            format_count(parts),
            format_count(MAX_PARTS)
        );
        return Err(wrong("part_size", message));
    }
    let one = "each object above 5 GiB is written in one request, but stores do not accept such requests \
               (--part-size)";
    Ok((part.is_none() && object > LARGEST_PUT).then(|| one.to_string()))
}

impl Workload {
    /// Returns true if the bill depends on the size of objects even without reads and writes.
    fn has_objects(&self) -> bool {
        self.delete.is_some() || self.copy.is_some() || self.storage.is_some()
    }

    /// Computes the usage of the workload.
    ///
    /// # Errors
    /// [`WorkloadError`] with the invalid field.
    pub fn resolve(&self) -> Result<Resolved, WorkloadError> {
        let mut assumptions = Vec::new();
        let mut usage = Usage { without_allowances: self.without_allowances, ..Usage::default() };
        let count = |field, text: Option<&String>| {
            text.map_or(Ok(0), |text| parse_count(text).map_err(|e| wrong(field, e)))
        };
        let (puts, gets) = (count("put", self.put.as_ref())?, count("get", self.get.as_ref())?);
        usage.object_bytes = match &self.object_size {
            Some(text) => object_size("object_size", text)?,
            None if puts > 0 || gets > 0 || self.has_objects() => {
                assumptions.push("objects are 1 MiB (--object-size)".into());
                DEFAULT_OBJECT_SIZE
            }
            None => 0,
        };
        let part = self.part_size.as_deref().map(|text| object_size("part_size", text)).transpose()?;
        if puts > 0 {
            assumptions.extend(parts(usage.object_bytes, part)?);
        }
        usage.write(puts, usage.object_bytes, part);
        for (field, call, text) in counts(self).into_iter().skip(1) {
            usage.calls.add(call, count(field, text)?);
        }
        self.bytes(&mut usage, gets, &mut assumptions)?;
        usage.copied = usage.calls.get(Call::CopyObject).saturating_mul(usage.object_bytes).min(MAX_BYTES);
        usage.retention_s = self.keep.as_deref().map(|text| retention("keep", text)).transpose()?;
        if usage.retention_s.is_some() && puts > 0 && self.delete.is_none() {
            usage.calls.set(Call::DeleteObject, puts);
            assumptions.push("the workload deletes as many objects as it writes (--delete)".into());
        }
        usage.stored = self.stored(&usage, &mut assumptions)?;
        usage.arriving = Some(usage.uploaded)
            .filter(|bytes| *bytes > 0 && self.storage.is_none() && usage.retention_s.is_some());
        if usage.stored == 0 && usage.uploaded > 0 {
            usage.retention_s = Some(0);
        }
        // With `keep`, the bill derives the deleted data from the stored data.
        let deletes = usage.calls.get(Call::DeleteObject);
        usage.deleted = match usage.retention_s {
            None => deletes.saturating_mul(usage.object_bytes).min(MAX_BYTES),
            Some(_) => 0,
        };
        usage.stored_peak = match volume("storage_peak", self.storage_peak.as_ref())? {
            Some(peak) if peak < usage.stored => {
                return Err(wrong(
                    "storage_peak",
                    "the daily peak must not be less than the mean, --storage",
                ));
            }
            peak => peak.unwrap_or(usage.stored),
        };
        usage.unread = self.unread.as_deref().map(unread).transpose()?.unwrap_or_default();
        usage.cross_zone = volume("cross_zone", self.cross_zone.as_ref())?.unwrap_or(0);
        usage.cross_region = volume("cross_region", self.cross_region.as_ref())?.unwrap_or(0);
        usage.instances = self.instance.iter().map(|text| instance(text)).collect::<Result<_, _>>()?;
        usage.functions = functions::of(self, &mut assumptions)?;
        if usage.is_nothing() {
            return Err(wrong(
                "storage",
                "the workload is empty; specify data stored, objects written, objects read or other requests",
            ));
        }
        Ok(Resolved { usage, assumptions })
    }

    /// Returns the bytes stored: as specified, or derived from the bytes written and their retention.
    fn stored(&self, usage: &Usage, assumptions: &mut Vec<String>) -> Result<u64, WorkloadError> {
        if let Some(stored) = volume("storage", self.storage.as_ref())? {
            return Ok(stored);
        }
        if self.storage_peak.is_some() {
            return Err(wrong("storage_peak", "a daily peak requires a mean; add --storage"));
        }
        match usage.retention_s {
            Some(seconds) if usage.uploaded > 0 => {
                let stored = (usage.uploaded as f64 * seconds as f64 / (MONTH_HOURS * 3600) as f64).round();
                let stored = if stored <= MAX_BYTES as f64 {
                    stored as u64
                } else {
                    return Err(wrong("keep", "the data stored exceeds 4 EiB; reduce --keep"));
                };
                assumptions.push(format!(
                    "{} are stored in a month of {MONTH_HOURS} hours: the data written in {} (--storage)",
                    format_volume(stored),
                    in_days(seconds)
                ));
                Ok(stored)
            }
            Some(_) => Err(wrong("keep", "the retention requires an amount of data; add --storage or --put")),
            None if usage.uploaded > 0 => {
                assumptions.push(NO_RETENTION.into());
                Ok(0)
            }
            None => Ok(0),
        }
    }

    /// Sets the bytes written, the bytes read and the egress.
    fn bytes(
        &self,
        usage: &mut Usage,
        gets: u64,
        assumptions: &mut Vec<String>,
    ) -> Result<(), WorkloadError> {
        let beyond =
            |field| wrong(field, "multiplied by --object-size, this number exceeds 4 EiB; check both values");
        if let Some(written) = volume("written", self.written.as_ref())? {
            usage.uploaded = written;
        }
        let of_gets = gets.checked_mul(usage.object_bytes).filter(|b| *b <= MAX_BYTES);
        let of_gets = of_gets.ok_or_else(|| beyond("get"))?;
        if usage.uploaded > MAX_BYTES {
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
                        format!("'{text}' is not a percentage; use 0% to 100%, or an amount such as 10TB"),
                    )
                })?;
                if read.unwrap_or(of_gets) == 0 && percent > 0 {
                    return Err(wrong(
                        "egress",
                        format!(
                            "'{text}' is a share of the data read; add --get or --read, or use an amount"
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
                return Err(wrong("egress", "the egress exceeds the data read; increase or omit --read"));
            }
            Some(read) => read,
            None => of_gets.max(stated),
        };
        // If it is not specified, egress depends on the provider: see `Egress::at`.
        usage.egress = if self.egress.is_some() { Egress::Stated(stated) } else { Egress::UNSTATED };
        if read.is_none() && stated > of_gets {
            let reason = match gets {
                0 => String::new(),
                gets => format!(
                    ", because {} reads of {} are only {}",
                    format_count(gets),
                    format_size(usage.object_bytes),
                    format_volume(of_gets)
                ),
            };
            assumptions
                .push(format!("{} are read, as much as the egress{reason} (--read)", format_volume(stated)));
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
    fn a_workload_yields_requests_and_bytes() {
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
    fn unspecified_values_are_listed_as_assumptions() {
        let resolved = of("get='12M'\negress='10PB'").unwrap();
        assert_eq!(resolved.usage.downloaded, 10_000_000_000_000_000);
        assert_eq!(resolved.assumptions.len(), 2, "{:?}", resolved.assumptions);
    }

    #[test]
    fn written_data_is_stored_for_its_retention() {
        let usage = of("put='730'\nobject_size='1GB'\nkeep='5d'").unwrap().usage;
        // 730 GB in a month of 730 hours are 1 GB per hour.
        assert_eq!((usage.stored, usage.retention_s), (120_000_000_000, Some(5 * DAY_S)));
        // At a provider with a month of 720 hours, it is more.
        assert_eq!(usage.stored_in(720), 121_666_666_667);
        let usage = of("put='730'\nobject_size='1GB'\nkeep='12h'").unwrap().usage;
        assert_eq!((usage.stored, usage.retention_s), (12_000_000_000, Some(DAY_S / 2)));
    }

    /// Regression test: the bytes of a run were billed although a flag specified another object size.
    #[test]
    fn new_counts_and_sizes_replace_the_bytes_of_a_run() {
        let run = parse("put='10'\nget='20'\nobject_size='1KiB'\nwritten='10KiB'\nread='20KiB'").unwrap();
        let flags = parse("object_size='1MiB'").unwrap();
        let usage = flags.over(run.clone()).resolve().unwrap().usage;
        assert_eq!((usage.uploaded, usage.downloaded), (10 << 20, 20 << 20));
        let usage = parse("get='5'").unwrap().over(run).resolve().unwrap().usage;
        assert_eq!((usage.uploaded, usage.downloaded), (10 << 10, 5 << 10));
    }

    #[test]
    fn an_error_names_its_field() {
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
            ("put='1'\nkeep='30m'", "keep"),
            ("put='1'\nobject_size='100GB'\npart_size='5MiB'", "part_size"),
            ("instance=['c7g.4xlarge']", "instance"),
            ("storage='1 TB'\nunread='70%'", "unread"),
            ("storage='1 TB'\nunread='30d=50%,90d=70%'", "unread"),
            ("storage='1 TB'\nunread='30d=101%'", "unread"),
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
