//! What a run costs: estimated before it, watched while it goes on, itemised after it.

mod estimate;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use clap::Args;

use super::cost::asked::read_prices;
use super::exit::Exit;
use super::stores::{Opened, url_of};
use crate::clock::now_ns;
use crate::cost::money::Usd;
use crate::cost::of_store::Spent;
use crate::driver::Control;
use crate::machine::Machine;
use crate::provider::calls::Call;
use crate::schedule::Phase;
use crate::store::Store;
use crate::store::counted::{Charge, Counted, Counts, Limit};
use crate::summary::result::CostFigures;
pub use estimate::Planned;
use estimate::{Priced, largest, near, provider_of};

/// What a run may cost, and how that is known.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Cost")]
pub struct MoneyArguments {
    /// Refuse a run that is estimated to cost more, and end one before it does: 5, 0.50
    #[arg(long, value_name = "USD", allow_hyphen_values = true)]
    max_cost: Option<String>,
    /// A price book of your own, whose prices come before the built-in ones; may be repeated
    #[arg(long, value_name = "FILE")]
    prices: Vec<PathBuf>,
    /// This machine is in the store's region: what it reads does not leave for the internet
    #[arg(long)]
    in_region: bool,
}

/// A store whose provider has prices, and what passes to it.
struct Metered {
    priced: Priced,
    counts: Arc<Counts>,
    /// Requests on the store's own account, counted by it.
    source: Arc<dyn Store>,
}

/// The cost of a run.
pub struct Budget {
    metered: Vec<Metered>,
    began_ns: u64,
    bound: Option<Bound>,
    leaves: bool,
    machine: Option<String>,
    /// Whether the bound has ended the run, and who is told so.
    ended: Arc<Ended>,
}

/// What a run may cost on this host: its share, where there are several.
#[derive(Clone, Copy)]
struct Bound {
    asked: Usd,
    hosts: u64,
}

impl Bound {
    fn parse(text: &str, hosts: u64) -> Result<Bound, Exit> {
        let asked = Usd::parse(text.trim().trim_start_matches('$'));
        Ok(Bound { asked: asked.map_err(|e| Exit::input(format!("--max-cost {e}")))?, hosts: hosts.max(1) })
    }

    fn most(self) -> Usd {
        Usd::from_pico(self.asked.pico() / i128::from(self.hosts))
    }
}

impl std::fmt::Display for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.hosts {
            1 => write!(f, "--max-cost ${}", self.asked),
            hosts => {
                write!(f, "--max-cost ${} ({} on each of {hosts} hosts)", self.asked, self.most().shown())
            }
        }
    }
}

/// Requests of each kind that clean-up makes at most beside one for each thousand objects.
const CLEAN_UP_REQUESTS: u64 = 8;

/// How the bound ends a run.
#[derive(Default)]
struct Ended {
    reached: AtomicBool,
    control: OnceLock<Arc<Control>>,
}

impl Ended {
    /// Ends the run, once.
    fn end(&self) {
        if !self.reached.swap(true, Ordering::Relaxed)
            && let Some(control) = self.control.get()
        {
            control.stop();
        }
    }
}

impl MoneyArguments {
    /// Whether there is a bound.
    pub fn is_bounded(&self) -> bool {
        self.max_cost.is_some()
    }
}

impl Budget {
    /// The budget of one host of a run: wraps each store whose provider has prices, so that its requests are counted.
    ///
    /// # Errors
    /// 2 when a price file is wrong, --max-cost is none, or nothing is known of the prices that it needs.
    pub fn of(
        arguments: &MoneyArguments,
        planned: Planned<'_>,
        opened: &mut [Opened],
        machine: &Machine,
    ) -> Result<Budget, Exit> {
        let prices = read_prices(&arguments.prices)?;
        let bound =
            arguments.max_cost.as_deref().map(|text| Bound::parse(text, planned.hosts)).transpose()?;
        let mut metered = Vec::new();
        let ended = Arc::new(Ended::default());
        let mut counted = Vec::new();
        for opened in opened.iter_mut() {
            let provider = opened.store.describe().provider;
            match Priced::of(&prices, &opened.written, &provider, opened.url.as_ref(), planned) {
                Some(priced) => {
                    if let Some(call) = priced.unpriced(planned.phases).filter(|_| bound.is_some()) {
                        return Err(Exit::input(format!(
                            "--max-cost: no price is known for {} at {}; add it with --prices FILE, or leave --max-cost out",
                            call.name(),
                            priced.tariff.offer
                        )));
                    }
                    let source = Arc::clone(&opened.store);
                    let (store, counts) = Counted::new(Arc::clone(&source));
                    metered.push(Metered { priced, counts, source });
                    counted.push((opened, store));
                }
                None if bound.is_some() => {
                    return Err(Exit::input(format!(
                        "--max-cost: nothing is known of what {} costs; add its prices with --prices FILE, or leave --max-cost out",
                        opened.written
                    )));
                }
                None => {}
            }
        }
        let priced = metered.iter().map(|m| &m.priced);
        let leaves = !(arguments.in_region || near(priced, machine));
        let budget = Budget {
            metered,
            began_ns: now_ns(),
            bound,
            leaves,
            machine: machine.instance_type.clone(),
            ended,
        };
        budget.refuse()?;
        let limit = bound.map(|bound| budget.limit(bound, planned.phases)).transpose()?;
        for ((opened, store), metered) in counted.into_iter().zip(&budget.metered) {
            opened.store = match &limit {
                Some(limit) => Arc::new(store.limited(metered.priced.charge(leaves), Arc::clone(limit))),
                None => Arc::new(store),
            };
        }
        Ok(budget)
    }

    /// The bound, with room for what may be in flight when it is reached.
    fn limit(&self, bound: Bound, phases: &[Phase]) -> Result<Arc<Limit>, Exit> {
        let charges: Vec<Charge> = self.metered.iter().map(|m| m.priced.charge(self.leaves)).collect();
        let large = largest(phases);
        let dearest =
            charges.iter().flat_map(|charge| large.iter().map(|(call, bytes)| charge(*call, *bytes))).max();
        let ended = Arc::clone(&self.ended);
        // What clean-up asks beside the pages that the objects fill: some listings and deletions that find little.
        let after: u64 = charges
            .iter()
            .map(|charge| CLEAN_UP_REQUESTS * (charge(Call::ListObjects, 0) + charge(Call::DeleteObjects, 0)))
            .sum();
        let most_pico = (bound.most().pico().clamp(0, i128::from(u64::MAX)) as u64).saturating_sub(after);
        let limit = Limit::new(most_pico, dearest.unwrap_or(0), Box::new(move || ended.end()));
        if limit.margin() >= most_pico {
            let reserve = Usd::from_pico(i128::from(limit.margin().saturating_add(after)));
            return Err(Exit::input(format!(
                "{bound}: a few requests of this run and its clean-up cost {} already; ask for smaller ones, or allow more",
                reserve.shown()
            )));
        }
        Ok(Arc::new(limit))
    }

    /// From now on the bound can end the run.
    pub fn arm(&self, control: &Arc<Control>) {
        let _ = self.ended.control.set(Arc::clone(control));
        if self.ended.reached.load(Ordering::Relaxed) {
            control.stop();
        }
    }

    /// The estimate of a store.
    fn estimated(&self, metered: &Metered) -> Usd {
        metered.priced.estimated(self.leaves, self.machine.as_deref())
    }

    /// Refuses a run whose known part costs too much already.
    fn refuse(&self) -> Result<(), Exit> {
        let known: Usd = self.metered.iter().map(|m| self.estimated(m)).sum();
        match self.bound {
            Some(bound) if known > bound.most() => Err(Exit::input(format!(
                "{bound}: the run is estimated to cost {}; do less, or allow more",
                known.shown()
            ))),
            _ => Ok(()),
        }
    }

    /// What is known beforehand, a line for each store.
    pub fn announce(&self) -> Vec<String> {
        let told = |m: &Metered| m.priced.announce(self.leaves, self.machine.as_deref());
        self.metered.iter().flat_map(told).collect()
    }

    fn spent(&self, metered: &Metered) -> Spent {
        let mut calls = metered.counts.calls();
        let sessions = metered.source.side_calls();
        calls.add(Call::CreateSession, sessions.iter().filter(|c| c.what == "CreateSession").count() as u64);
        Spent {
            calls,
            refused: metered.counts.refused(),
            uploaded: metered.counts.uploaded(),
            downloaded: metered.counts.downloaded(),
            seconds: (now_ns() - self.began_ns).div_ceil(1_000_000_000),
            leaves: self.leaves,
            machine: self.machine.clone(),
        }
    }

    /// What the run has cost so far, by store.
    pub fn figures(&self) -> Vec<CostFigures> {
        let figures = |m: &Metered| {
            let Priced { store, tariff, emulated, note, .. } = &m.priced;
            let mut figures = self.spent(m).figures(store, tariff, *emulated, Some(self.estimated(m)));
            figures.notes.extend(note.iter().cloned());
            figures
        };
        self.metered.iter().map(figures).collect()
    }

    /// Why the run was ended, where its cost was the reason.
    pub fn ended(&self) -> Option<Exit> {
        let bound = self.bound.filter(|_| self.ended.reached.load(Ordering::Relaxed))?;
        Some(Exit::check(format!(
            "{bound}: the run was ended before it cost more; results are kept and marked partial"
        )))
    }
}

/// What a run is known to cost, before anything is opened: a line for each store whose provider has prices.
///
/// # Errors
/// 2 when a price file or a store's URL is wrong.
pub fn preview(
    arguments: &MoneyArguments,
    stores: &[String],
    planned: Planned<'_>,
) -> Result<Vec<String>, Exit> {
    let prices = read_prices(&arguments.prices)?;
    let machine = Machine::read();
    let mut priced = Vec::new();
    for written in stores {
        let url = url_of(written)?;
        let Some(provider) = provider_of(&url) else { continue };
        priced.extend(Priced::of(&prices, written, provider, Some(&url), planned));
    }
    let leaves = !(arguments.in_region || near(priced.iter(), &machine));
    Ok(priced.iter().flat_map(|p| p.announce(leaves, machine.instance_type.as_deref())).collect())
}
