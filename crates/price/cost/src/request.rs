//! A priced workload: its usage of one month, the price books, and the date of the prices.

use jiff::civil::Date;

use super::bills::NotPriced;
use super::book::{Place, Prices};
use super::egress_assumption::assumption;
use super::functions::Functions;
use super::tariff::Tariff;
use super::usage::Usage;
use super::workload::Workload;
use plimsoll_base::provider::calls::Call;
use plimsoll_base::units::{format_count, format_size, format_volume};

/// Error of a request that names an unknown provider, region or date; the message names the flag.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RequestError(String);

/// Returns the reason for which an archive class is compared only if it is named.
fn not_readable(tariff: &Tariff) -> NotPriced {
    let hours = tariff.rules.restore_hours;
    let reason = format!(
        "{}: objects can be read only after a restore, which takes up to {hours} hours; name it to compare it",
        tariff.offer
    );
    NotPriced { provider: tariff.offer.clone(), reason }
}

/// A workload, and the prices of a date.
pub struct CostRequest {
    /// The workload as written, merged from flags, file and run.
    pub workload: Workload,
    /// Usage of one month.
    pub usage: Usage,
    /// Assumptions about values that are not specified.
    pub assumptions: Vec<String>,
    /// Given values that do not enter the bill, with the reason.
    pub not_used: Vec<String>,
    /// Built-in prices and those of the user.
    pub prices: Prices,
    /// Date of the prices.
    pub date: Date,
}

impl CostRequest {
    /// Returns the tariffs of the named providers in a part of the world, and the providers without prices there. If
    /// `names` is empty, returns those of all providers.
    ///
    /// # Errors
    /// Returns [`RequestError`] if a named provider or its prices on the date are unknown.
    pub fn tariffs_in(
        &self,
        flag: &str,
        names: &[String],
        place: Place,
    ) -> Result<(Vec<Tariff>, Vec<NotPriced>), RequestError> {
        let all: Vec<String> = self.prices.stores().into_iter().map(str::to_string).collect();
        let (mut there, mut missing) = (Vec::new(), Vec::new());
        for name in if names.is_empty() { &all } else { names } {
            if let Some((offer, _)) = name.split_once('@') {
                let place = place.name();
                let problem = format!(
                    "{flag} {name}: it names a region, and so does --region {place}; use {offer} or omit --region"
                );
                return Err(RequestError(problem));
            }
            match self.prices.region_in(name, place) {
                Some(region) => there.push(format!("{name}@{region}")),
                // An unknown name is an error below.
                None if self.prices.offer(name).is_none() => there.push(name.clone()),
                None => {
                    let regions =
                        self.prices.offer(name).map(|offer| offer.regions.join(", ")).unwrap_or_default();
                    let reason = format!("{name} has no prices in {}, only in {regions}", place.name());
                    missing.push(NotPriced { provider: name.clone(), reason });
                }
            }
        }
        let mut tariffs = Vec::new();
        for name in &there {
            match self.tariff(flag, name) {
                Ok(tariff) if tariff.rules.restore_hours > 0 && names.is_empty() => {
                    missing.push(not_readable(&tariff));
                }
                Ok(tariff) => tariffs.push(tariff),
                Err(e) if names.is_empty() => {
                    let (provider, reason) = (name.clone(), e.to_string().replace(&format!("{flag}: "), ""));
                    missing.push(NotPriced { provider, reason });
                }
                Err(e) => return Err(e),
            }
        }
        Ok((tariffs, missing))
    }

    /// Returns the tariffs of the named providers, without duplicates. If `names` is empty, returns those of
    /// all providers, and separately the providers without prices on the date.
    ///
    /// # Errors
    /// Returns [`RequestError`] if a named provider, its region or its prices on the date are unknown.
    pub fn tariffs(
        &self,
        flag: &str,
        names: &[String],
    ) -> Result<(Vec<Tariff>, Vec<NotPriced>), RequestError> {
        if names.is_empty() {
            let (mut tariffs, mut missing) = (Vec::new(), Vec::new());
            for name in self.prices.stores() {
                match self.prices.tariff(name, None, self.date) {
                    Ok(tariff) if tariff.rules.restore_hours > 0 => missing.push(not_readable(&tariff)),
                    Ok(tariff) => tariffs.push(tariff),
                    Err(e) => missing.push(NotPriced { provider: name.into(), reason: e.to_string() }),
                }
            }
            return Ok((tariffs, missing));
        }
        let mut tariffs: Vec<Tariff> = Vec::new();
        for name in names {
            let tariff = self.tariff(flag, name)?;
            if !tariffs.contains(&tariff) {
                tariffs.push(tariff);
            }
        }
        Ok((tariffs, Vec::new()))
    }

    /// Returns the tariff of one provider, `NAME` or `NAME@REGION`. `flag` is the flag to name in errors.
    ///
    /// # Errors
    /// Returns [`RequestError`] if the provider, its region or its prices on the date are unknown.
    pub fn tariff(&self, flag: &str, name: &str) -> Result<Tariff, RequestError> {
        let (offer, region) = name.split_once('@').map_or((name, None), |(o, r)| (o, Some(r)));
        let tariff = self.prices.tariff(offer.trim(), region, self.date);
        let tariff = tariff.map_err(|e| RequestError(format!("{flag}: {e}")))?;
        if !self.prices.stores().contains(&offer.trim()) {
            let known = self.prices.stores().join(", ");
            return Err(RequestError(format!("{flag}: {offer} is not an object store; use one of {known}")));
        }
        Ok(tariff)
    }

    /// Adds the assumption about egress on which bills at these tariffs rest, and the values that none of them uses.
    /// Returns the assumption; `None` if there is none.
    pub fn assume<'a>(&mut self, tariffs: impl IntoIterator<Item = &'a Tariff> + Clone) -> Option<String> {
        if self.workload.unread.is_some() {
            let smallest = tariffs.clone().into_iter().map(|tariff| tariff.rules.monitored_object);
            let smallest = smallest.filter(|bytes| *bytes > 0).min();
            let reason = match smallest {
                None => Some("no price depends on the last read".to_string()),
                Some(bytes) if (1..bytes).contains(&self.usage.object_bytes) => {
                    Some(format!("objects below {} stay at the first price", format_size(bytes)))
                }
                Some(_) => None,
            };
            self.not_used.extend(reason.map(|reason| format!("--unread, because {reason}")));
        }
        let found = assumption(&self.usage, tariffs);
        self.assumptions.extend(found.clone());
        found
    }

    /// Adds the regions that are assumed for providers named without one, or for all providers if none is
    /// named.
    pub fn assume_regions(&mut self, names: &[String]) {
        if names.is_empty() {
            let each =
                "each provider is priced in the first of its regions (--region, --provider NAME@REGION)";
            self.assumptions.push(each.into());
            return;
        }
        let assumed = names.iter().filter_map(|name| {
            let region = self.prices.assumed_region(name)?;
            Some(format!("{name} is priced as in {region} (--provider {name}@REGION)"))
        });
        self.assumptions.extend(assumed.collect::<Vec<_>>());
    }

    /// Returns the given values that do not enter the bill, as warnings of a document.
    pub fn warnings(&self) -> Vec<String> {
        self.not_used.iter().map(|value| format!("not used: {value}")).collect()
    }

    /// Returns the assumptions as notes of a document.
    pub fn notes(&self) -> Vec<String> {
        self.assumptions.iter().map(|a| format!("assumed: {a}")).collect()
    }

    /// Describes the usage and the date of the prices in words.
    pub fn what(&self) -> Vec<String> {
        vec![format!("Monthly usage: {}; prices of {}", in_words(&self.usage), self.date)]
    }
}

/// Describes a usage in words: `10 TB stored, 50,000,000 GetObject`.
pub fn in_words(usage: &Usage) -> String {
    let mut out: Vec<String> = Vec::new();
    for (bytes, label) in [
        (usage.stored, "stored"),
        (usage.uploaded, "written"),
        (usage.downloaded, "read"),
        (usage.egress.stated(), "of egress"),
        (usage.cross_zone, "to another zone"),
        (usage.cross_region, "to another region"),
    ] {
        if bytes > 0 {
            out.push(format!("{} {label}", format_volume(bytes)));
        }
    }
    for call in Call::ALL {
        let count = usage.calls.get(call);
        if count > 0 {
            out.push(format!("{} {}", format_count(count), call.name()));
        }
    }
    match usage.object_bytes {
        0 => {}
        exact if exact.is_multiple_of(1 << 10) || (exact < 1_000_000 && !exact.is_multiple_of(1000)) => {
            out.push(format!("objects of {}", format_size(exact)));
        }
        large => out.push(format!("objects of {}", format_volume(large))),
    }
    if usage.functions.invocations > 0 {
        let Functions { invocations, cpu_us, run_ms, memory_mib } = usage.functions;
        let (count, cpu_ms) = (format_count(invocations), cpu_us as f64 / 1000.0);
        out.push(format!("{count} invocations of {run_ms} ms, {cpu_ms} ms of CPU and {memory_mib} MiB"));
    }
    out.extend(usage.instances.iter().map(|(name, s)| format!("{:.0} h of {name}", *s as f64 / 3600.0)));
    out.join(", ")
}
