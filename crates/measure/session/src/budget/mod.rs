//! The cost of a run: estimated before the run, limited during the run, and itemized after it.

mod estimate;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::error::RunError;
use crate::open::{Opened, url_of};
use crate::rendezvous::Rendezvous;
pub use estimate::Planned;
use estimate::{Priced, largest, locate, provider_of};
use plimsoll_base::clock::{SECOND, now_ns};
use plimsoll_base::machine::Machine;
use plimsoll_base::provider::calls::Call;
use plimsoll_cost::book::{may_price, read_prices};
use plimsoll_cost::money::Usd;
use plimsoll_cost::of_store::StoreUsage;
use plimsoll_engine::driver::Control;
use plimsoll_engine::store::Store;
use plimsoll_engine::store::cost_limit::{Charge, Limit};
use plimsoll_engine::store::counted::{Counted, RequestCounts};
use plimsoll_judge::summary::result::CostFigures;
use plimsoll_recorder::store_facts::BackgroundRequestKind;
use plimsoll_workload::schedule::Phase;
use plimsoll_workload::schedule::plan::PhaseRun;
use plimsoll_workload::trace::UNKNOWN_SIZE;
use plimsoll_workload::{Dataset, OperationKind};

/// The cost limit of a run, and the prices that it is checked with.
#[derive(Debug, Clone, Default)]
pub struct CostSettings {
    /// Maximum cost of the run on all hosts together, in US dollars; `None` for no limit.
    pub max_cost: Option<String>,
    /// Price books that take precedence over the built-in ones.
    pub prices: Vec<PathBuf>,
    /// True if this machine is in the store's region, so that reads are not internet egress.
    pub in_region: bool,
}

/// A store with known prices, and the counts of its requests.
struct Metered {
    priced: Priced,
    written: String,
    counts: Arc<RequestCounts>,
    /// The store without the counting wrapper; it counts its own background requests.
    source: Arc<dyn Store>,
}

/// Counts and limits the cost of a run.
pub struct Budget {
    metered: Vec<Metered>,
    began_ns: u64,
    bound: Option<Bound>,
    limit: Option<Arc<Limit>>,
    /// Stops the run when the limit is reached.
    ended: Arc<Ended>,
    /// Time of the last request for a part of other shards' limits, in nanoseconds on the monotonic clock.
    asked_ns: AtomicU64,
}

/// Cost limit of a run, in equal shares for its hosts.
#[derive(Clone, Copy)]
struct Bound {
    /// Limit for all hosts together.
    total: Usd,
    hosts: u64,
}

impl Bound {
    fn parse(text: &str, hosts: u64) -> Result<Bound, RunError> {
        let total = Usd::parse(text.trim().trim_start_matches('$'));
        Ok(Bound {
            total: total.map_err(|e| RunError::input(format!("--max-cost {e}")))?,
            hosts: hosts.max(1),
        })
    }

    /// Returns the limit for one host.
    fn most(self) -> Usd {
        Usd::from_pico(self.total.pico() / i128::from(self.hosts))
    }
}

impl std::fmt::Display for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.hosts {
            1 => write!(f, "--max-cost ${}", self.total),
            hosts => {
                write!(f, "--max-cost ${} ({} on each of {hosts} hosts)", self.total, self.most().rounded())
            }
        }
    }
}

/// Maximum number of requests of each kind that clean-up sends in addition to one per thousand objects.
const CLEAN_UP_REQUESTS: u64 = 8;
/// A shard of a fleet asks for more when less than this fraction of its limit remains.
const SHORT: u64 = 5;
/// Time between two such requests, in nanoseconds.
const ASK_EVERY_NS: u64 = 2 * SECOND;

/// Stops a run when its cost limit is reached.
#[derive(Default)]
struct Ended {
    reached: AtomicBool,
    control: OnceLock<Arc<Control>>,
}

impl Ended {
    /// Stops the run on the first call; later calls do nothing.
    fn end(&self) {
        if !self.reached.swap(true, Ordering::Relaxed)
            && let Some(control) = self.control.get()
        {
            control.stop();
        }
    }
}

impl CostSettings {
    /// Returns the cost limit of a run on `hosts` hosts; `None` if there is no limit.
    fn bound(&self, hosts: u64) -> Result<Option<Bound>, RunError> {
        self.max_cost.as_deref().map(|text| Bound::parse(text, hosts)).transpose()
    }
}

impl Budget {
    /// Returns the budget of one host of a run. [`Budget::wrap`] makes the stores obey it.
    ///
    /// # Errors
    /// [`RunError::Input`] if a price file or --max-cost is invalid, if a price that the limit needs is unknown, or if
    /// the run would exceed the limit.
    pub fn of(
        settings: &CostSettings,
        planned: Planned<'_>,
        opened: &[Opened],
        machine: &Machine,
    ) -> Result<Budget, RunError> {
        // Reading the books takes longer than a short run.
        let provided = |opened: &Opened| may_price(&opened.store.describe().provider);
        let prices = match !settings.prices.is_empty() || opened.iter().any(provided) {
            true => Some(read_prices(&settings.prices).map_err(RunError::input)?),
            false => None,
        };
        let bound = settings.bound(planned.hosts)?;
        let mut metered = Vec::new();
        for opened in opened {
            let provider = opened.store.describe().provider;
            let of_store =
                |prices| Priced::of(prices, &opened.written, &provider, opened.url.as_ref(), planned);
            match prices.as_ref().map(of_store).transpose().map_err(RunError::input)?.flatten() {
                Some(priced) => metered.push(Metered {
                    priced,
                    written: opened.written.clone(),
                    counts: Arc::default(),
                    source: Arc::clone(&opened.store),
                }),
                None if bound.is_some() => return Err(unknown_prices(&opened.written)),
                None => {}
            }
        }
        locate(metered.iter_mut().map(|m| &mut m.priced), settings.in_region, machine);
        let ended = Arc::new(Ended::default());
        let asked_ns = AtomicU64::new(0);
        let mut budget = Budget { metered, began_ns: now_ns(), bound, limit: None, ended, asked_ns };
        refuse(bound, planned.phases, budget.metered.iter().map(|m| &m.priced))?;
        budget.limit = bound.map(|bound| budget.limit(bound, planned.phases)).transpose()?;
        Ok(budget)
    }

    /// Wraps the stores whose providers have prices, so that the budget counts and limits their requests.
    pub fn wrap(&self, opened: &mut [Opened]) {
        for metered in &self.metered {
            let Some(opened) = opened.iter_mut().find(|o| o.written == metered.written) else { continue };
            let store = Counted::new(Arc::clone(&metered.source), Arc::clone(&metered.counts));
            opened.store = match &self.limit {
                Some(limit) => Arc::new(store.limited(metered.priced.charge(), Arc::clone(limit))),
                None => Arc::new(store),
            };
        }
    }

    /// Returns the limit on requests, which reserves the cost of clean-up.
    fn limit(&self, bound: Bound, phases: &[Phase]) -> Result<Arc<Limit>, RunError> {
        let charges: Vec<Charge> = self.metered.iter().map(|m| m.priced.charge()).collect();
        let (object, requests) = largest(phases);
        let dearest = charges
            .iter()
            .flat_map(|charge| requests.iter().map(|(call, bytes)| charge(*call, *bytes)))
            .max();
        // Clean-up also sends requests that are not part of any object's charge, such as listings without results.
        let after: u64 = charges
            .iter()
            .map(|charge| CLEAN_UP_REQUESTS * (charge(Call::ListObjects, 0) + charge(Call::DeleteObjects, 0)))
            .sum();
        let most = bound.most().pico().clamp(0, i128::from(u64::MAX)) as u64;
        let needed = dearest.unwrap_or(0).saturating_add(after);
        if needed >= most {
            return Err(RunError::input(format!(
                "{bound}: one request and the clean-up of this run can cost {}; \
                 use smaller objects or raise the limit",
                Usd::from_pico(i128::from(needed)).rounded()
            )));
        }
        let ended = Arc::clone(&self.ended);
        Ok(Arc::new(Limit::new(most - after, object, Box::new(move || ended.end()))))
    }

    /// Checks that the sizes of existing objects are known if a run with a cost limit reads whole objects.
    ///
    /// # Errors
    /// [`RunError::Input`] if a size is unknown.
    pub fn check(&self, phase_runs: &[PhaseRun]) -> Result<(), RunError> {
        let Some(bound) = self.bound else { return Ok(()) };
        let unknown = |phase_run: &&PhaseRun| {
            let workload = &phase_run.phase.workload;
            let whole = workload.mix.shares().iter().any(|(kind, _)| *kind != OperationKind::GetRange);
            let found = workload.read.as_ref().and_then(Dataset::found);
            whole && found.is_some_and(|found| (0..found.len()).any(|i| found.size(i) == UNKNOWN_SIZE))
        };
        match phase_runs.iter().find(unknown) {
            None => Ok(()),
            Some(phase_run) => Err(RunError::input(format!(
                "{bound}: the sizes of the objects that phase '{}' reads are unknown; \
                 write KEY<tab>BYTES into the file of --keys, or omit --max-cost",
                phase_run.phase.name
            ))),
        }
    }

    /// Updates the limit with the time-based cost so far.
    pub fn watch(&self) {
        if let Some(limit) = &self.limit {
            let timed = |m: &Metered| m.priced.timed(self.spent(m).stored(), self.seconds());
            let timed: Usd = self.metered.iter().map(timed).sum();
            limit.took(timed.pico().clamp(0, i128::from(u64::MAX / 4)) as u64);
        }
    }

    /// Exchanges unspent parts of the limit with the other shards of a fleet: asks for more when little is left, and
    /// gives half of the rest when another shard asks.
    pub fn share(&self, rendezvous: &dyn Rendezvous) {
        let Some(limit) = &self.limit else { return };
        let change = rendezvous.budget();
        limit.raise(change.granted);
        if change.asked {
            rendezvous.give_budget(limit.give_back(2));
        }
        let asked_ns = self.asked_ns.load(Ordering::Relaxed);
        if limit.remaining() < limit.most() / SHORT && now_ns() >= asked_ns + ASK_EVERY_NS {
            self.asked_ns.store(now_ns(), Ordering::Relaxed);
            rendezvous.needs_budget();
        }
    }

    /// Gives the unspent part of the limit to the other shards of a fleet, after the measurement.
    pub fn give_rest(&self, rendezvous: &dyn Rendezvous) {
        if let Some(limit) = &self.limit {
            rendezvous.give_budget(limit.give_back(1));
        }
    }

    /// Stops enforcing the limit, because clean-up must finish at any cost.
    pub fn lift(&self) {
        if let Some(limit) = &self.limit {
            limit.lift();
        }
    }

    fn seconds(&self) -> u64 {
        (now_ns() - self.began_ns).div_ceil(1_000_000_000)
    }

    /// Enables the limit to stop the run, and stops the run immediately if the limit has already been reached.
    pub fn arm(&self, control: &Arc<Control>) {
        let _ = self.ended.control.set(Arc::clone(control));
        if self.ended.reached.load(Ordering::Relaxed) {
            control.stop();
        }
    }

    /// Returns the estimated cost at each store, as lines for the user.
    pub fn announce(&self) -> Vec<String> {
        self.metered.iter().flat_map(|m| m.priced.announce()).collect()
    }

    fn spent(&self, metered: &Metered) -> StoreUsage {
        let mut calls = metered.counts.calls();
        let sessions = metered.source.background_requests();
        calls.add(
            Call::CreateSession,
            sessions.iter().filter(|c| c.kind == BackgroundRequestKind::CreateSession).count() as u64,
        );
        metered.priced.located(StoreUsage {
            calls,
            refused: metered.counts.refused(),
            uploaded: metered.counts.uploaded(),
            downloaded: metered.counts.downloaded(),
            seconds: self.seconds(),
            ..StoreUsage::default()
        })
    }

    /// Returns the cost of the run so far at each store.
    pub fn figures(&self) -> Vec<CostFigures> {
        let figures = |m: &Metered| {
            let Priced { store, tariff, emulated, note, .. } = &m.priced;
            let mut bill = self.spent(m).bill(tariff);
            bill.notes.extend(note.iter().cloned());
            let estimated_usd = Some(m.priced.estimated());
            CostFigures { store: store.clone(), emulated: *emulated, estimated_usd, bill }
        };
        self.metered.iter().map(figures).collect()
    }

    /// Returns the error of a run that its cost limit stopped; `None` if the limit was not reached.
    pub fn ended(&self) -> Option<RunError> {
        let bound = self.bound.filter(|_| self.ended.reached.load(Ordering::Relaxed))?;
        Some(RunError::check(format!(
            "{bound}: the run was stopped before it exceeded the limit; results are kept and marked partial"
        )))
    }
}

/// Returns the estimated cost at each store with known prices, as lines for the user. Opens no store.
///
/// # Errors
/// [`RunError::Input`] if a price file, --max-cost or the URL of a store is invalid, a price that the limit needs is
/// unknown, or the run would exceed the limit.
pub fn preview(
    settings: &CostSettings,
    stores: &[String],
    planned: Planned<'_>,
) -> Result<Vec<String>, RunError> {
    let (prices, bound) =
        (read_prices(&settings.prices).map_err(RunError::input)?, settings.bound(planned.hosts)?);
    let mut all = Vec::new();
    for written in stores {
        let url = url_of(written)?;
        let priced = match provider_of(&url) {
            Some(provider) => {
                Priced::of(&prices, written, provider, Some(&url), planned).map_err(RunError::input)?
            }
            None => None,
        };
        match priced {
            None if bound.is_some() => return Err(unknown_prices(written)),
            priced => all.extend(priced),
        }
    }
    locate(all.iter_mut(), settings.in_region, &Machine::read());
    refuse(bound, planned.phases, all.iter())?;
    Ok(all.iter().flat_map(Priced::announce).collect())
}

fn unknown_prices(store: &str) -> RunError {
    RunError::input(format!(
        "--max-cost: the prices of {store} are unknown; add them with --prices FILE, or omit --max-cost"
    ))
}

/// Refuses a run with a cost limit if it needs an item without a price, or if its estimate exceeds the limit.
fn refuse<'a>(
    bound: Option<Bound>,
    phases: &[Phase],
    all: impl Iterator<Item = &'a Priced>,
) -> Result<(), RunError> {
    let Some(bound) = bound else { return Ok(()) };
    let mut known = Usd::ZERO;
    for priced in all {
        if let Some(note) = priced.note.as_ref().filter(|_| priced.elsewhere) {
            return Err(RunError::input(format!(
                "--max-cost: {} would use {note}; add its prices with --prices FILE, or omit --max-cost",
                priced.store
            )));
        }
        if let Some(item) = priced.unpriced(phases) {
            return Err(RunError::input(format!(
                "--max-cost: no price is known for {item} at {}; add it with --prices FILE, or omit --max-cost",
                priced.tariff.offer
            )));
        }
        known += priced.estimated();
    }
    if known > bound.most() {
        let known = known.rounded();
        return Err(RunError::input(format!(
            "{bound}: the run is estimated to cost {known}; shorten the run or raise the limit"
        )));
    }
    Ok(())
}
