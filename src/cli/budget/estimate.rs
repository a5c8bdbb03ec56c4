//! Prices of a run's stores, and what the run is known to cost beforehand.

use std::sync::Arc;

use crate::clock::wall_now;
use crate::cost::book::Prices;
use crate::cost::money::Usd;
use crate::cost::of_store::Spent;
use crate::cost::tariff::Tariff;
use crate::experiment::Experiment;
use crate::experiment::estimate::of_phase;
use crate::machine::Machine;
use crate::provider::calls::{Call, Calls};
use crate::provider::is_home;
use crate::schedule::{Phase, Role};
use crate::store::counted::Charge;
use crate::store::url::StoreUrl;
use crate::workload::OperationKind;

/// What is going to be done at every store.
#[derive(Clone, Copy)]
pub struct Planned<'a> {
    /// Phases.
    pub phases: &'a [Phase],
    /// How often those that are not `prepare` are gone through.
    pub repeats: u32,
    /// How many hosts share them.
    pub hosts: u64,
    /// Requests that are made beside its operations, on each host.
    pub besides: Calls,
}

impl<'a> Planned<'a> {
    /// An experiment that so many hosts share.
    pub fn of(experiment: &'a Experiment, hosts: u64) -> Planned<'a> {
        Planned { phases: &experiment.phases, repeats: experiment.repeats, hosts, besides: Calls::default() }
    }
}

/// What is known beforehand.
#[derive(Default)]
pub struct Estimate {
    /// What is done.
    pub spent: Spent,
    /// Phases that do as much as the store lets them.
    pub open: Vec<String>,
}

/// A store whose provider has prices.
pub struct Priced {
    /// The store as written.
    pub store: String,
    /// Its prices of today.
    pub tariff: Tariff,
    /// Whether it is not where its provider is.
    pub emulated: bool,
    /// What is known beforehand.
    pub estimate: Estimate,
    /// What must be said of the prices.
    pub note: Option<String>,
}

/// Stands for a storage class where reads may bring what was there before, and cost half.
const EVENTUAL: &str = "eventually-consistent";

/// The provider of a store, as far as its URL says.
pub fn provider_of(url: &StoreUrl) -> Option<&str> {
    match url {
        StoreUrl::S3(s3) => Some(&s3.profile.name),
        StoreUrl::Gcs(gcs) => Some(&gcs.profile.name),
        StoreUrl::DynamoDb(_) => Some("aws-dynamodb"),
        _ => None,
    }
}

/// The region that a store is in, and the storage class that it writes.
fn place(url: Option<&StoreUrl>) -> (Option<&str>, Option<&str>) {
    match url {
        Some(StoreUrl::S3(s3)) => (Some(s3.endpoint.region.as_str()), s3.storage_class.as_deref()),
        Some(StoreUrl::Gcs(gcs)) => (None, gcs.storage_class.as_deref()),
        Some(StoreUrl::DynamoDb(table)) => {
            (Some(table.endpoint.region.as_str()), (!table.consistent).then_some(EVENTUAL))
        }
        _ => (None, None),
    }
}

/// Whether a store is not where its provider is.
fn is_emulated(url: Option<&StoreUrl>, provider: &str) -> bool {
    let host = match url {
        Some(StoreUrl::S3(s3)) => &s3.endpoint.host,
        Some(StoreUrl::Gcs(gcs)) => &gcs.endpoint.host,
        Some(StoreUrl::DynamoDb(table)) => &table.endpoint.host,
        _ => return true,
    };
    !is_home(provider, host)
}

/// Whether the machine is of the same cloud as all of the stores; it is then taken to be in their region.
pub fn near<'a>(priced: impl Iterator<Item = &'a Priced>, machine: &Machine) -> bool {
    let vendor = machine.vendor.as_deref();
    let home = |p: &Priced| match p.tariff.network.as_deref().filter(|_| !p.emulated) {
        Some("aws-network") => vendor == Some("Amazon EC2"),
        Some("google-network") => vendor == Some("Google"),
        _ => false,
    };
    let homes: Vec<bool> = priced.map(home).collect();
    !homes.is_empty() && homes.iter().all(|home| *home)
}

impl Priced {
    /// The store of that provider, where there are prices for it.
    pub fn of(
        prices: &Prices,
        written: &str,
        provider: &str,
        url: Option<&StoreUrl>,
        planned: Planned<'_>,
    ) -> Option<Priced> {
        let (region, class) = place(url);
        let today = wall_now().to_zoned(jiff::tz::TimeZone::UTC).date();
        let (tariff, note) = prices.of_store(provider, region, class, today).ok()??;
        let estimate = estimate(planned, &tariff);
        let emulated = is_emulated(url, provider);
        Some(Priced { store: written.into(), tariff, emulated, estimate, note })
    }

    /// What the known part of a run costs, when what is read leaves or does not.
    pub fn estimated(&self, leaves: bool, machine: Option<&str>) -> Usd {
        let machine = machine.map(str::to_string);
        Spent { leaves, machine, ..self.estimate.spent.clone() }.total(&self.tariff)
    }

    /// What is known beforehand, in words.
    pub fn announce(&self, leaves: bool, machine: Option<&str>) -> Vec<String> {
        let as_if = if self.emulated { "if it were " } else { "" };
        let known = self.estimated(leaves, machine).shown();
        let open = match self.estimate.open.as_slice() {
            [] => String::new(),
            open => format!(
                ", and more in {}, which does what the store lets it: {}",
                open.join(", "),
                rates(&self.tariff, leaves)
            ),
        };
        let line = format!("estimated cost of {}, {as_if}{}: {known}{open}", self.store, self.tariff.offer);
        let note = self.note.iter().map(|note| format!("{}: {note}", self.store));
        std::iter::once(line).chain(note).collect()
    }

    /// The first request that the operations of those phases take and that has no price.
    pub fn unpriced(&self, phases: &[Phase]) -> Option<Call> {
        let kinds = phases.iter().flat_map(|p| p.workload.mix.shares()).map(|(kind, _)| *kind);
        kinds.flat_map(requests_of).copied().find(|call| !self.tariff.priced.contains(*call))
    }

    /// What single requests cost.
    pub fn charge(&self, leaves: bool) -> Charge {
        charge(&self.tariff, leaves)
    }
}

/// The requests that an operation takes.
fn requests_of(kind: OperationKind) -> &'static [Call] {
    match kind {
        OperationKind::Put | OperationKind::Update => &[Call::PutObject],
        OperationKind::Get | OperationKind::GetRange => &[Call::GetObject],
        OperationKind::Head => &[Call::HeadObject],
        OperationKind::List => &[Call::ListObjects],
        OperationKind::Delete => &[Call::DeleteObject],
        OperationKind::Scan => &[Call::ListObjects, Call::GetObject],
        OperationKind::ReadModifyWrite => &[Call::GetObject, Call::PutObject],
    }
}

/// The largest requests of phases, as far as their sizes are known.
pub fn largest(phases: &[Phase]) -> Vec<(Call, u64)> {
    let of = |p: &Phase| {
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
    phases.iter().flat_map(of).collect()
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
                spent.total(tariff).pico() as f64
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
        spent.total(tariff)
    };
    let tb = million(Call::GetObject, 1_000_000_000_000) - million(Call::GetObject, 0);
    let gets = million(Call::GetObject, 0).shown();
    format!(
        "{gets} a million GET, {} a million PUT, {} a TB read",
        million(Call::PutObject, 0).shown(),
        tb.shown()
    )
}

/// What one host does at one store, as far as a plan can know it.
fn estimate(Planned { phases, repeats, hosts, besides }: Planned<'_>, tariff: &Tariff) -> Estimate {
    let mut out = Estimate::default();
    out.spent.calls = besides;
    let (mut objects, mut ns) = (0u64, 0u64);
    for phase in phases {
        let known = of_phase(phase, repeats);
        ns += known.duration_ns.unwrap_or(0);
        let share = |n: u64| n.div_ceil(hosts.max(1));
        let Some(operations) = known.operations.map(share) else {
            out.open.push(phase.name.clone());
            continue;
        };
        let mix = &phase.workload.mix;
        let of =
            |kind| (operations as f64 * f64::from(mix.share(kind)) / f64::from(mix.total())).round() as u64;
        let writes = of(OperationKind::Put) + of(OperationKind::Update) + of(OperationKind::ReadModifyWrite);
        let upload = &phase.workload.written.upload;
        let mean = known.bytes_written.map(share).unwrap_or(0).checked_div(writes).unwrap_or(0);
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
        out.spent.uploaded += known.bytes_written.map_or(0, share);
        match known.bytes_read.map(share) {
            Some(bytes) => out.spent.downloaded += bytes,
            None if reads > 0 => out.open.push(phase.name.clone()),
            None => {}
        }
    }
    // Looking whether the store may be used, and clean-up page by page.
    let pages = objects.div_ceil(1000) + 1;
    for (call, count) in [(Call::ListObjects, pages + 1), (Call::DeleteObjects, pages)] {
        if tariff.priced.contains(call) {
            out.spent.calls.add(call, count);
        }
    }
    // A run that only numbers of operations end lasts some time, too.
    out.spent.seconds = ns.div_ceil(1_000_000_000).max(1);
    out
}
