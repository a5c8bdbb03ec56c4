//! What is asked: a workload from flags, a file or a run, and prices of a date.

use std::path::{Path, PathBuf};

use clap::Args;
use jiff::civil::Date;

use super::from_run::FromRun;
use crate::cli::exit::Exit;
use crate::clock::wall_now;
use crate::cost::bills::NotPriced;
use crate::cost::book::{Prices, read_prices};
use crate::cost::breakeven::Vary;
use crate::cost::egress::assumption;
use crate::cost::tariff::Tariff;
use crate::cost::usage::Usage;
use crate::cost::workload::{Workload, WorkloadError, parse};
use crate::provider::calls::Call;
use crate::units::{format_count, format_size, format_volume};

/// The workload and the date of its prices.
#[derive(Debug, Clone, Args)]
pub struct WorkloadArguments {
    /// A file with the workload: storage = "10 PB", get = "12M", ...; flags come before it
    #[arg(long = "workload", value_name = "FILE")]
    file: Option<PathBuf>,
    /// The workload as flags
    #[command(flatten)]
    pub flags: Workload,
    /// Which prices
    #[command(flatten)]
    pub prices: PriceArguments,
}

/// Which prices.
#[derive(Debug, Clone, Args)]
pub struct PriceArguments {
    /// Prices of this day, such as 2024-06-01 [default: today]
    #[arg(long, value_name = "DATE")]
    as_of: Option<String>,
    /// A price book of your own, whose prices come before the built-in ones; may be repeated
    #[arg(long, value_name = "FILE")]
    prices: Vec<PathBuf>,
}

impl PriceArguments {
    /// The prices, those of one's own included.
    ///
    /// # Errors
    /// 2 when a file cannot be read or is wrong somewhere.
    pub fn read(&self) -> Result<Prices, Exit> {
        read_prices(&self.prices).map_err(Exit::input)
    }

    /// The day.
    ///
    /// # Errors
    /// 2 when it is none.
    pub fn date(&self) -> Result<Date, Exit> {
        let Some(text) = &self.as_of else {
            return Ok(today());
        };
        text.parse().map_err(|_| Exit::input(format!("--as-of '{text}' is no date; write it as 2024-06-01")))
    }

    /// Whether anything was chosen.
    pub fn is_given(&self) -> bool {
        self.is_dated() || !self.prices.is_empty()
    }

    /// Whether a day was chosen.
    pub fn is_dated(&self) -> bool {
        self.as_of.is_some()
    }
}

impl WorkloadArguments {
    /// The workload of flags and file together, and the file's text.
    ///
    /// # Errors
    /// 2 when the file cannot be read or is wrong somewhere.
    pub fn given(&self) -> Result<(Workload, Option<String>), Exit> {
        Ok(match self.file.as_deref().map(read_workload).transpose()? {
            Some((workload, text)) => (self.flags.clone().over(workload), Some(text)),
            None => (self.flags.clone(), None),
        })
    }

    /// Whether a flag says what is to vary.
    pub fn says(&self, vary: Vary) -> bool {
        vary.clear(&self.flags) != self.flags
    }

    /// A problem with the workload, where it was said: a flag, or a line of the file's text.
    pub fn located(&self, error: &WorkloadError, text: Option<&str>) -> Exit {
        let flag = format!("--{}", error.field.replace('_', "-"));
        let by_flag = self.flags.resolve().err().is_some_and(|e| e == *error);
        let of_field = |line: &str| {
            line.trim_start().strip_prefix(error.field).is_some_and(|rest| rest.trim_start().starts_with('='))
        };
        let line = text.and_then(|text| text.lines().position(of_field).map(|n| n + 1));
        match (line, &self.file) {
            (Some(line), Some(path)) if !by_flag => {
                Exit::input(format!("{}:{line}: {}: {}", path.display(), error.field, error.message))
            }
            _ => Exit::input(format!("{flag}: {}", error.message)),
        }
    }
}

/// Today, where it is not night yet at Greenwich.
fn today() -> Date {
    wall_now().to_zoned(jiff::tz::TimeZone::UTC).date()
}

/// A workload from a file.
///
/// # Errors
/// 2 with the line that is wrong.
fn read_workload(path: &Path) -> Result<(Workload, String), Exit> {
    let text = std::fs::read_to_string(path)
        .map_err(|e| Exit::input(format!("--workload {}: {e}", path.display())))?;
    let workload = parse(&text)
        .map_err(|(line, message)| Exit::input(format!("{}:{line}: {message}", path.display())))?;
    Ok((workload, text))
}

/// What is asked.
pub struct CostRequest {
    /// The workload as written, flags, file and run together.
    pub workload: Workload,
    /// The usage of a month.
    pub usage: Usage,
    /// What was taken for granted.
    pub assumptions: Vec<String>,
    /// The prices.
    pub prices: Prices,
    /// Their day.
    pub date: Date,
}

impl CostRequest {
    /// Reads what is asked.
    ///
    /// # Errors
    /// 2 for whatever is wrong, naming the flag or the line.
    pub fn read(arguments: &WorkloadArguments, from_run: &FromRun) -> Result<CostRequest, Exit> {
        CostRequest::read_with(arguments, from_run, Workload::clone)
    }

    /// Reads what is asked and changes it before it is looked at.
    ///
    /// # Errors
    /// As [`CostRequest::read`].
    pub fn read_with(
        arguments: &WorkloadArguments,
        from_run: &FromRun,
        change: impl Fn(&Workload) -> Workload,
    ) -> Result<CostRequest, Exit> {
        let (workload, text) = arguments.given()?;
        let (run, mut assumptions) = from_run.workload()?;
        if workload.storage.is_some() {
            // What is said replaces what was taken for granted of the run.
            assumptions.retain(|a| !a.ends_with("(--storage)"));
        }
        let mut run = run;
        if workload.keep.is_some() {
            run.storage = None;
            assumptions.retain(|a| !a.ends_with("(--storage)"));
        }
        if workload.egress.is_some() {
            assumptions.retain(|a| !a.ends_with("(--egress)"));
        }
        let workload = change(&workload.over(run));
        if workload == (Workload { without_allowances: workload.without_allowances, ..Workload::default() }) {
            return Err(Exit::input(
                "nothing is asked for; say what a month brings, such as --storage 10TB --egress 2TB --put 1M --get 50M, \
                 or name --workload FILE or --from-run RUN",
            ));
        }
        let resolved = workload.resolve().map_err(|e| arguments.located(&e, text.as_deref()))?;
        assumptions.extend(resolved.assumptions);
        let (prices, date) = (arguments.prices.read()?, arguments.prices.date()?);
        if date > today() {
            assumptions.push(format!("prices stay until {date} as they are known today (--as-of)"));
        }
        Ok(CostRequest { workload, usage: resolved.usage, assumptions, prices, date })
    }

    /// The tariffs of these providers, or of all of them; of all, those without a price on that day are told apart.
    ///
    /// # Errors
    /// 2 when a named provider, its region or its price on that day is not known.
    pub fn tariffs(&self, flag: &str, names: &[String]) -> Result<(Vec<Tariff>, Vec<NotPriced>), Exit> {
        if names.is_empty() {
            let (mut tariffs, mut missing) = (Vec::new(), Vec::new());
            for name in self.prices.stores() {
                match self.prices.tariff(name, None, self.date) {
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

    /// The tariff of one provider, `NAME` or `NAME@REGION`, that a flag names.
    ///
    /// # Errors
    /// 2 when it is not known.
    pub fn tariff(&self, flag: &str, name: &str) -> Result<Tariff, Exit> {
        let (offer, region) = name.split_once('@').map_or((name, None), |(o, r)| (o, Some(r)));
        let tariff = self.prices.tariff(offer.trim(), region, self.date);
        let tariff = tariff.map_err(|e| Exit::input(format!("{flag}: {e}")))?;
        if !self.prices.stores().contains(&offer.trim()) {
            let known = self.prices.stores().join(", ");
            return Err(Exit::input(format!("{flag}: {offer} stores no objects; choose among {known}")));
        }
        Ok(tariff)
    }

    /// The assumption about reads on which bills by these tariffs rest, listed among the others.
    pub fn assume_egress<'a>(&mut self, tariffs: impl IntoIterator<Item = &'a Tariff>) -> Option<String> {
        let found = assumption(&self.usage, tariffs);
        self.assumptions.extend(found.clone());
        found
    }

    /// Lists the regions that are assumed for providers that were named without one, or for all where none was named.
    pub fn assume_regions(&mut self, names: &[String]) {
        let all = self.prices.stores();
        let named: Vec<&str> =
            if names.is_empty() { all } else { names.iter().map(String::as_str).collect() };
        let assumed = named.into_iter().filter_map(|name| {
            let region = self.prices.assumed_region(name)?;
            Some(format!("{name} has the prices of {region} (--provider {name}@REGION)"))
        });
        self.assumptions.extend(assumed.collect::<Vec<_>>());
    }

    /// What was taken for granted, as notes.
    pub fn notes(&self) -> Vec<String> {
        self.assumptions.iter().map(|a| format!("assumed: {a}")).collect()
    }

    /// The workload in words.
    pub fn what(&self) -> Vec<String> {
        vec![format!("A month of {}, at prices of {}", in_words(&self.usage), self.date)]
    }
}

/// A usage in words.
pub fn in_words(usage: &Usage) -> String {
    let mut out: Vec<String> = Vec::new();
    for (bytes, what) in [
        (usage.stored, "stored"),
        (usage.uploaded, "written"),
        (usage.downloaded, "read"),
        (usage.egress.stated(), "out"),
        (usage.cross_zone, "to another zone"),
        (usage.cross_region, "to another region"),
    ] {
        if bytes > 0 {
            out.push(format!("{} {what}", format_volume(bytes)));
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
        exact if exact < 1_000_000 || exact.is_multiple_of(1 << 10) => {
            out.push(format!("objects of {}", format_size(exact)));
        }
        large => out.push(format!("objects of {}", format_volume(large))),
    }
    out.extend(usage.instances.iter().map(|(name, s)| format!("{:.0} h of {name}", *s as f64 / 3600.0)));
    out.join(", ")
}
