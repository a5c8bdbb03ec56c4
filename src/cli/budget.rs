//! What a run costs: estimated before it, watched while it goes on, itemised after it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use clap::Args;

use super::cost::asked::read_prices;
use super::exit::Exit;
use super::stores::Opened;
use crate::clock::{now_ns, wall_now};
use crate::cost::book::Prices;
use crate::cost::money::Usd;
use crate::cost::of_store::Spent;
use crate::cost::tariff::{Measure, Tariff};
use crate::driver::Control;
use crate::experiment::Experiment;
use crate::experiment::estimate::of_phase;
use crate::machine::Machine;
use crate::provider::calls::Call;
use crate::provider::of_host;
use crate::schedule::Role;
use crate::store::counted::{Charge, Counted, Counts, Limit};
use crate::store::url::StoreUrl;
use crate::summary::result::CostFigures;
use crate::workload::OperationKind;

/// What a run may cost, and how that is known.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Cost")]
pub struct MoneyArguments {
    /// Refuse a run that is estimated to cost more, and end one before it does: 5, 0.50
    #[arg(long, value_name = "USD")]
    max_cost: Option<String>,
    /// A price book of your own, whose prices come before the built-in ones; may be repeated
    #[arg(long, value_name = "FILE")]
    prices: Vec<PathBuf>,
    /// This machine is in the store's region: what it reads does not leave for the internet
    #[arg(long)]
    in_region: bool,
}

impl MoneyArguments {
    /// The first option that was given, by its flag.
    pub fn given(&self) -> Option<&'static str> {
        let given = [
            ("--max-cost", self.max_cost.is_some()),
            ("--prices", !self.prices.is_empty()),
            ("--in-region", self.in_region),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag)
    }
}

/// A store whose provider has prices.
struct Metered {
    store: String,
    tariff: Tariff,
    emulated: bool,
    counts: Arc<Counts>,
    /// Requests on the store's own account, counted by it.
    source: Arc<dyn crate::store::Store>,
    estimate: Estimate,
    notes: Vec<String>,
}

/// What is known beforehand.
#[derive(Default)]
struct Estimate {
    spent: Spent,
    /// Phases that do as much as the store lets them.
    open: Vec<String>,
}

/// The cost of a run.
pub struct Budget {
    metered: Vec<Metered>,
    began_ns: u64,
    most: Option<Usd>,
    leaves: bool,
    machine: Option<String>,
    /// Whether the bound has ended the run, and who is told so.
    ended: Arc<Ended>,
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

/// The region that a store is in, and the storage class that it writes.
fn place(opened: &Opened) -> (Option<&str>, Option<&str>) {
    match &opened.url {
        Some(StoreUrl::S3(s3)) => (Some(s3.endpoint.region.as_str()), s3.storage_class.as_deref()),
        Some(StoreUrl::Gcs(gcs)) => (None, gcs.storage_class.as_deref()),
        Some(StoreUrl::DynamoDb(table)) => (Some(table.endpoint.region.as_str()), None),
        _ => (None, None),
    }
}

/// Whether a store is not where its provider is.
fn is_emulated(opened: &Opened, provider: &str) -> bool {
    let host = match &opened.url {
        Some(StoreUrl::S3(s3)) => &s3.endpoint.host,
        Some(StoreUrl::Gcs(gcs)) => &gcs.endpoint.host,
        Some(StoreUrl::DynamoDb(table)) => &table.endpoint.host,
        _ => return true,
    };
    let dynamo = provider == "aws-dynamodb" && host.ends_with(".amazonaws.com");
    !dynamo && of_host(host).is_none_or(|profile| profile.name != provider)
}

impl Budget {
    /// The budget of a run: wraps each store whose provider has prices, so that its requests are counted.
    ///
    /// # Errors
    /// 2 when a price file is wrong, --max-cost is none, or nothing is known of the prices that it needs.
    pub fn of(
        arguments: &MoneyArguments,
        experiment: &Experiment,
        opened: &mut [Opened],
        machine: &Machine,
    ) -> Result<Budget, Exit> {
        let prices = read_prices(&arguments.prices)?;
        let most = arguments.max_cost.as_deref().map(|text| Usd::parse(text.trim().trim_start_matches('$')));
        let most = most.transpose().map_err(|e| Exit::input(format!("--max-cost {e}")))?;
        let amazon = machine.vendor.as_deref() == Some("Amazon EC2");
        let google = machine.vendor.as_deref() == Some("Google");
        let mut metered = Vec::new();
        let ended = Arc::new(Ended::default());
        let mut counted = Vec::new();
        for opened in opened.iter_mut() {
            match meter(&prices, opened, experiment) {
                Some((found, store)) => {
                    metered.push(found);
                    counted.push((opened, store));
                }
                None if most.is_some() => {
                    return Err(Exit::input(format!(
                        "--max-cost: nothing is known of what {} costs; add its prices with --prices FILE, or leave --max-cost out",
                        opened.written
                    )));
                }
                None => {}
            }
        }
        // A machine of the same cloud is taken to be in the same region.
        let near = |m: &Metered| match m.tariff.network.as_deref() {
            Some("aws-network") => amazon,
            Some("google-network") => google,
            _ => false,
        };
        let leaves = !(arguments.in_region || (!metered.is_empty() && metered.iter().all(near)));
        let budget = Budget {
            metered,
            began_ns: now_ns(),
            most,
            leaves,
            machine: machine.instance_type.clone(),
            ended,
        };
        budget.refuse()?;
        let limit = most.map(|most| budget.limit(most, experiment)).transpose()?;
        for ((opened, store), metered) in counted.into_iter().zip(&budget.metered) {
            opened.store = match &limit {
                Some(limit) => Arc::new(store.limited(charge(&metered.tariff, leaves), Arc::clone(limit))),
                None => Arc::new(store),
            };
        }
        Ok(budget)
    }

    /// The bound, with room for what may be in flight when it is reached.
    fn limit(&self, most: Usd, experiment: &Experiment) -> Result<Arc<Limit>, Exit> {
        let dearest = self.metered.iter().flat_map(|m| {
            let charge = charge(&m.tariff, self.leaves);
            largest(experiment).map(move |(call, bytes)| charge(call, bytes))
        });
        let lanes = |p: &crate::schedule::Phase| {
            p.ramp.map_or(p.load.lanes(), |r| if p.load.is_open() { p.load.lanes() } else { r.to as usize })
        };
        let in_flight = experiment.phases.iter().map(lanes).max().unwrap_or(1) as u64;
        let ended = Arc::clone(&self.ended);
        // What clean-up asks beside the pages that the objects fill: some listings and deletions that find little.
        let after: u64 = self
            .metered
            .iter()
            .map(|m| {
                let charge = charge(&m.tariff, self.leaves);
                CLEAN_UP_REQUESTS * (charge(Call::ListObjects, 0) + charge(Call::DeleteObjects, 0))
            })
            .sum();
        let most_pico = (most.pico().clamp(0, i128::from(u64::MAX)) as u64).saturating_sub(after);
        let dearest = dearest.max().unwrap_or(0);
        let limit = Limit::new(most_pico, in_flight, dearest, Box::new(move || ended.end()));
        if limit.margin() >= most_pico {
            return Err(Exit::input(format!(
                "--max-cost ${most}: {in_flight} operations in flight may cost {} before they can be ended; lower --concurrency or --in-flight, or allow more",
                Usd::from_pico(i128::from(limit.margin())).shown()
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

    /// The estimate of a store, with where its bytes go.
    fn estimated(&self, metered: &Metered) -> Usd {
        let spent =
            Spent { leaves: self.leaves, machine: self.machine.clone(), ..metered.estimate.spent.clone() };
        spent.total(&metered.tariff).0
    }

    /// Refuses a run whose known part costs too much already.
    fn refuse(&self) -> Result<(), Exit> {
        let known: Usd = self.metered.iter().map(|m| self.estimated(m)).sum();
        match self.most {
            Some(most) if known > most => Err(Exit::input(format!(
                "--max-cost ${most}: the run is estimated to cost {}; do less, or allow more",
                known.shown()
            ))),
            _ => Ok(()),
        }
    }

    /// What is known beforehand, a line for each store.
    pub fn announce(&self) -> Vec<String> {
        let mut out = Vec::new();
        for m in &self.metered {
            let as_if = if m.emulated { "if it were " } else { "" };
            let known = self.estimated(m).shown();
            let open = if m.estimate.open.is_empty() {
                String::new()
            } else {
                format!(
                    ", and more in {}, which does what the store lets it: {}",
                    m.estimate.open.join(", "),
                    rates(&m.tariff, self.leaves)
                )
            };
            out.push(format!("estimated cost of {}, {as_if}{}: {known}{open}", m.store, m.tariff.offer));
            out.extend(m.notes.iter().map(|note| format!("{}: {note}", m.store)));
        }
        out
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
            let mut figures = self.spent(m).figures(&m.store, &m.tariff, m.emulated, Some(self.estimated(m)));
            figures.notes.extend(m.notes.iter().cloned());
            figures
        };
        self.metered.iter().map(figures).collect()
    }

    /// Why the run was ended, where its cost was the reason.
    pub fn ended(&self) -> Option<Exit> {
        let most = self.most.filter(|_| self.ended.reached.load(Ordering::Relaxed))?;
        Some(Exit::check(format!(
            "--max-cost ${most}: the run was ended before it cost more; results are kept and marked partial"
        )))
    }
}

/// The largest requests of an experiment, as far as their sizes are known.
fn largest(experiment: &Experiment) -> impl Iterator<Item = (Call, u64)> {
    let of = |p: &crate::schedule::Phase| {
        let w = &p.workload;
        let (part, whole) = (w.written.upload.part_size, w.written.size.largest());
        let written = if part > 0 { part.min(whole) } else { whole };
        let read = w.read.as_ref().filter(|d| d.existing.is_none()).map_or(0, |d| d.size.largest());
        let read = if w.range > 0 {
            w.range.max(if w.mix.share(OperationKind::Get) > 0 { read } else { 0 })
        } else {
            read
        };
        let writes = [OperationKind::Put, OperationKind::Update, OperationKind::ReadModifyWrite];
        let wrote = writes.into_iter().any(|kind| w.mix.share(kind) > 0);
        let reads = w.mix.shares().iter().any(|(kind, _)| kind.reads());
        [(Call::PutObject, if wrote { written } else { 0 }), (Call::GetObject, if reads { read } else { 0 })]
    };
    experiment.phases.iter().flat_map(of).collect::<Vec<_>>().into_iter()
}

/// What single requests cost: their class, their bytes, a page of the listing that finds what they wrote, and what is paid for an object
/// however soon it is deleted (an hour at least).
fn charge(tariff: &Tariff, leaves: bool) -> Charge {
    let table: Vec<[f64; 2]> = Call::ALL
        .into_iter()
        .map(|call| {
            let cost = |bytes: u64| {
                let mut spent = Spent { seconds: 3600, leaves, ..Spent::default() };
                spent.calls.add(call, 1_000_000);
                match call {
                    Call::PutObject | Call::UploadPart => {
                        spent.uploaded = bytes;
                        spent.calls.add(Call::ListObjects, 1_000);
                    }
                    _ => spent.downloaded = bytes,
                }
                spent.total(tariff).0.pico() as f64
            };
            // Of a byte, which may be paid for as more, and of so many that what a request has free does not count.
            let large = tariff.rules.largest_object.min(1 << 30);
            let (small, all) = (cost(1_000_000), cost(1_000_000 * large));
            [small / 1e6, (all - small).max(0.0) / 1e6 / large as f64]
        })
        .collect();
    Arc::new(move |call, bytes| {
        let [request, byte] = table[call.index()];
        (request + byte * bytes as f64).ceil() as u64
    })
}

/// What a million requests and a TB cost at a store.
fn rates(tariff: &Tariff, leaves: bool) -> String {
    let million = |call: Call, bytes: u64| {
        let mut spent = Spent { downloaded: bytes, leaves, ..Spent::default() };
        spent.calls.add(call, 1_000_000);
        spent.total(tariff).0
    };
    let tb = million(Call::GetObject, 1_000_000_000_000) - million(Call::GetObject, 0);
    let gets = million(Call::GetObject, 0).shown();
    format!(
        "{gets} a million GET, {} a million PUT, {} a TB read",
        million(Call::PutObject, 0).shown(),
        tb.shown()
    )
}

/// The meter of a store, where its provider has prices.
fn meter(prices: &Prices, opened: &Opened, experiment: &Experiment) -> Option<(Metered, Counted)> {
    let provider = opened.store.describe().provider;
    let (region, class) = place(opened);
    let class = class.filter(|class| *class != "STANDARD" && *class != "EXPRESS_ONEZONE");
    let offer = prices.offer_of(&provider, class)?.to_string();
    let today = wall_now().to_zoned(jiff::tz::TimeZone::UTC).date();
    let mut notes = Vec::new();
    let tariff = prices.tariff(&offer, region, today).or_else(|_| {
        let tariff = prices.tariff(&offer, None, today);
        if let (Ok(tariff), Some(region)) = (&tariff, region.filter(|r| *r != "auto")) {
            notes.push(format!("prices of {}; those of {region} are not known", tariff.region));
        }
        tariff
    });
    let tariff = tariff.ok()?;
    let emulated = is_emulated(opened, &provider);
    let source = Arc::clone(&opened.store);
    let (counted, counts) = Counted::new(Arc::clone(&opened.store));
    let estimate = estimate(experiment, &tariff);
    let store = opened.written.clone();
    Some((Metered { store, tariff, emulated, counts, source, estimate, notes }, counted))
}

/// What the phases of an experiment do at one store, as far as a plan can know it.
fn estimate(experiment: &Experiment, tariff: &Tariff) -> Estimate {
    let mut out = Estimate::default();
    let (mut objects, mut ns) = (0u64, 0u64);
    for phase in &experiment.phases {
        let known = of_phase(phase, experiment.repeats);
        ns += known.duration_ns.unwrap_or(0);
        let Some(operations) = known.operations else {
            out.open.push(phase.name.clone());
            continue;
        };
        let mix = &phase.workload.mix;
        let of =
            |kind| (operations as f64 * f64::from(mix.share(kind)) / f64::from(mix.total())).round() as u64;
        let writes = of(OperationKind::Put) + of(OperationKind::Update) + of(OperationKind::ReadModifyWrite);
        let upload = &phase.workload.written.upload;
        let mean = known.bytes_written.unwrap_or(0).checked_div(writes).unwrap_or(0);
        let calls = &mut out.spent.calls;
        if upload.part_size > 0 && mean > upload.part_size {
            calls.add(Call::CreateMultipartUpload, writes);
            calls.add(Call::UploadPart, writes * mean.div_ceil(upload.part_size));
            calls.add(Call::CompleteMultipartUpload, writes);
        } else {
            calls.add(Call::PutObject, writes);
        }
        let reads = of(OperationKind::Get) + of(OperationKind::GetRange) + of(OperationKind::ReadModifyWrite);
        calls.add(Call::GetObject, reads);
        calls.add(Call::HeadObject, of(OperationKind::Head));
        calls.add(Call::ListObjects, of(OperationKind::List) + of(OperationKind::Scan));
        calls.add(Call::DeleteObject, of(OperationKind::Delete));
        objects += if phase.role == Role::Prepare { writes } else { 0 };
        out.spent.uploaded += known.bytes_written.unwrap_or(0);
        match known.bytes_read {
            Some(bytes) => out.spent.downloaded += bytes,
            None if reads > 0 => out.open.push(phase.name.clone()),
            None => {}
        }
    }
    // Looking whether the store may be used, and clean-up page by page.
    let pages = objects.div_ceil(1000) + 1;
    let priced = |call: Call| {
        tariff.meters.iter().any(|m| match m.measure {
            Measure::Requests { calls, .. } => std::iter::once(call)
                .collect::<crate::provider::calls::CallSet>()
                .first_missing_in(calls)
                .is_none(),
            _ => false,
        })
    };
    out.spent.calls.add(Call::ListObjects, if priced(Call::ListObjects) { pages + 1 } else { 0 });
    out.spent.calls.add(Call::DeleteObjects, if priced(Call::DeleteObjects) { pages } else { 0 });
    out.spent.seconds = ns.div_ceil(1_000_000_000);
    out
}
