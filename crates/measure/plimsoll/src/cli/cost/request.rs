//! The request of a cost command: a workload from flags, a file or a run, and the prices of a date.

use std::path::{Path, PathBuf};

use clap::Args;
use jiff::civil::Date;

use super::from_run::FromRun;
use crate::cli::exit::Exit;
use plimsoll_base::clock::wall_now;
use plimsoll_cost::book::{Prices, read_prices};
use plimsoll_cost::breakeven::Vary;
use plimsoll_cost::money::decimal;
use plimsoll_cost::request::CostRequest;
use plimsoll_cost::workload::{Workload, WorkloadError, check, not_used, parse};

/// Flags for the workload and its prices.
#[derive(Debug, Clone, Args)]
pub struct WorkloadArguments {
    /// File with the workload: storage = "10 PB", get = "12M", ...; flags override its values
    #[arg(long = "workload", value_name = "FILE")]
    file: Option<PathBuf>,
    /// Workload in the form of flags
    #[command(flatten)]
    pub flags: Workload,
    /// Price books and their date
    #[command(flatten)]
    pub prices: PriceArguments,
}

/// Flags that select the price books and their date.
#[derive(Debug, Clone, Args)]
pub struct PriceArguments {
    /// Use the prices of this date, such as 2024-06-01 [default: today]
    #[arg(long, value_name = "DATE")]
    as_of: Option<String>,
    /// Price book that overrides the built-in price books; may be repeated
    #[arg(long, value_name = "FILE")]
    prices: Vec<PathBuf>,
    /// Lower all prices of an offer by a percentage: aws-s3=15%; may be repeated
    #[arg(long, value_name = "NAME=PERCENT")]
    discount: Vec<String>,
}

impl PriceArguments {
    /// Reads the built-in prices and those of `--prices`, and lowers them by `--discount`.
    ///
    /// # Errors
    /// Exit code 2 if a file cannot be read or is invalid, or a discount is not one.
    pub fn read(&self) -> Result<Prices, Exit> {
        let mut prices = read_prices(&self.prices).map_err(Exit::input)?;
        for text in &self.discount {
            let wrong =
                || Exit::input(format!("--discount: '{text}' is not NAME=PERCENT, such as aws-s3=15%"));
            let (name, percent) = text.split_once('=').ok_or_else(wrong)?;
            let percent = percent.trim().strip_suffix('%').and_then(|percent| decimal(percent.trim()));
            let percent = percent.filter(|percent| *percent <= 100_000_000_000_000).ok_or_else(wrong)?;
            prices.discount(name.trim(), percent).map_err(|e| Exit::input(format!("--discount: {e}")))?;
        }
        Ok(prices)
    }

    /// Returns the discounts as assumptions.
    pub fn discounts(&self) -> impl Iterator<Item = String> {
        self.discount.iter().filter_map(|text| {
            let (name, percent) = text.split_once('=')?;
            Some(format!(
                "the prices of {} are {} below the list prices (--discount)",
                name.trim(),
                percent.trim()
            ))
        })
    }

    /// Returns the date of the prices.
    ///
    /// # Errors
    /// Exit code 2 if `--as-of` is not a date, or a later one than today although no added price begins later.
    pub fn date(&self, prices: &Prices) -> Result<Date, Exit> {
        let today = today();
        let Some(text) = &self.as_of else {
            return Ok(today);
        };
        let wrong = |what: &str| Exit::input(format!("--as-of '{text}' is {what}"));
        let date = text.parse().map_err(|_| wrong("not a date, such as 2024-06-01"))?;
        if date > today && prices.last_change().is_none_or(|last| last <= today) {
            return Err(wrong("after today; nobody knows the prices of that day (add yours with --prices)"));
        }
        Ok(date)
    }

    /// Returns true if a date or a price book is given.
    pub fn is_given(&self) -> bool {
        self.is_dated() || !self.prices.is_empty() || !self.discount.is_empty()
    }

    /// Returns true if a date is given.
    pub fn is_dated(&self) -> bool {
        self.as_of.is_some()
    }
}

impl WorkloadArguments {
    /// Returns the workload of flags and file together, and the text of the file; `None` if there is no file.
    ///
    /// # Errors
    /// Exit code 2 if the file cannot be read or is invalid.
    pub fn given(&self) -> Result<(Workload, Option<String>), Exit> {
        Ok(match self.file.as_deref().map(read_workload).transpose()? {
            Some((workload, text)) => (self.flags.clone().over(workload), Some(text)),
            None => (self.flags.clone(), None),
        })
    }

    /// Returns the flags without a workload file.
    pub fn without_file(&self) -> WorkloadArguments {
        WorkloadArguments { file: None, ..self.clone() }
    }

    /// Returns true if a flag sets the value that varies.
    pub fn says(&self, vary: Vary) -> bool {
        vary.clear(&self.flags) != self.flags
    }

    /// Returns an error with exit code 2 that names the source of a problem with the workload: its flag, or
    /// its line in the file.
    pub fn located(&self, error: &WorkloadError, text: Option<&str>) -> Exit {
        let flag = format!("--{}", error.field.replace('_', "-"));
        let of_flags = self.flags.resolve().err().or_else(|| check(&self.flags).err());
        let by_flag = of_flags.is_some_and(|e| e == *error);
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

/// Returns today's date in UTC.
fn today() -> Date {
    wall_now().to_zoned(jiff::tz::TimeZone::UTC).date()
}

/// Reads a workload file. Returns the workload and the text of the file.
///
/// # Errors
/// Exit code 2 if the file cannot be read or is invalid. The message names the invalid line.
fn read_workload(path: &Path) -> Result<(Workload, String), Exit> {
    let text = std::fs::read_to_string(path)
        .map_err(|e| Exit::input(format!("--workload {}: {e}", path.display())))?;
    let workload = parse(&text)
        .map_err(|(line, message)| Exit::input(format!("{}:{line}: {message}", path.display())))?;
    Ok((workload, text))
}

impl WorkloadArguments {
    /// Reads the request from the flags.
    ///
    /// # Errors
    /// Exit code 2 for invalid input. The message names the flag or line.
    pub fn request(&self, from_run: &FromRun) -> Result<CostRequest, Exit> {
        self.request_with(from_run, Workload::clone)
    }

    /// Reads the request from the flags, and applies `change` to the workload before resolving it.
    ///
    /// # Errors
    /// As [`WorkloadArguments::request`].
    pub fn request_with(
        &self,
        from_run: &FromRun,
        change: impl Fn(&Workload) -> Workload,
    ) -> Result<CostRequest, Exit> {
        let (workload, text) = self.given()?;
        let given = workload.clone();
        let (run, mut assumptions) = from_run.workload()?;
        if workload.storage.is_some() {
            // A specified value replaces the assumption about the run.
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
                "the workload is empty; specify the usage of a month, such as --storage 10TB --egress 2TB \
                 --put 1M --get 50M, or use --workload FILE or --from-run RUN",
            ));
        }
        let wrong = |e: WorkloadError| self.located(&e, text.as_deref());
        let resolved = workload.resolve().map_err(wrong)?;
        check(&given).map_err(wrong)?;
        let mut not_used = not_used(&workload, &resolved.usage);
        assumptions.extend(resolved.assumptions);
        let prices = self.prices.read()?;
        let date = self.prices.date(&prices)?;
        not_used.extend(prices.not_valid(date));
        assumptions.extend(self.prices.discounts());
        if date > today() {
            assumptions.push(format!("prices do not change between today and {date} (--as-of)"));
        }
        Ok(CostRequest { workload, usage: resolved.usage, assumptions, not_used, prices, date })
    }
}
