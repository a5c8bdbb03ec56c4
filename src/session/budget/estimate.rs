//! Prices of a run's stores, and what the run is known to cost beforehand.

use std::sync::Arc;

use crate::clock::wall_now;
use crate::cost::book::{BookError, Prices, StoreTariff};
use crate::cost::money::Usd;
use crate::cost::of_store::Spent;
use crate::cost::tariff::Tariff;
use crate::experiment::Experiment;
use crate::experiment::estimate::of_phase;
use crate::machine::Machine;
use crate::provider::calls::{Call, Calls};
use crate::provider::is_home;
use crate::schedule::{Phase, Role, Verify};
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
    /// Whether the prices are those of another region.
    pub elsewhere: bool,
    /// Whether what is read leaves for the internet.
    pub leaves: bool,
    /// The machine that works, where it is charged with this store.
    pub machine: Option<String>,
    /// Bytes that the store counts beside an object's content.
    names: u64,
}

/// For how long at least what a request writes is charged with it.
const CHARGED_S: u64 = 3600;

/// The provider of a store, as far as its URL says.
pub fn provider_of(url: &StoreUrl) -> Option<&str> {
    match url {
        StoreUrl::S3(s3) => Some(&s3.profile.name),
        StoreUrl::Gcs(gcs) => Some(&gcs.profile.name),
        StoreUrl::DynamoDb(_) => Some("aws-dynamodb"),
        _ => None,
    }
}

/// Key, names of attributes and a size beside the content: what an item of DynamoDB consists of ("Item sizes and formats"). Keys have
/// about 64 bytes.
fn names(url: Option<&StoreUrl>) -> u64 {
    match url {
        Some(StoreUrl::DynamoDb(table)) => {
            table.key.len() as u64 + 64 + "content".len() as u64 + "size".len() as u64 + 4
        }
        _ => 0,
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

/// Says of each store whether what is read there leaves for the internet, which it does unless the machine is of the same cloud and
/// then taken to be in its region; the machine itself is charged once.
pub fn locate<'a>(all: impl Iterator<Item = &'a mut Priced>, in_region: bool, machine: &Machine) {
    let vendor = machine.vendor.as_deref();
    let mut free = machine.instance_type.clone();
    for priced in all {
        let home = match priced.tariff.network.as_deref().filter(|_| !priced.emulated) {
            Some("aws-network") => vendor == Some("Amazon EC2"),
            Some("google-network") => vendor == Some("Google"),
            _ => false,
        };
        priced.leaves = !(in_region || home);
        let sold = |name: &mut String| priced.tariff.instances.iter().any(|i| i.item == *name);
        priced.machine = free.take_if(sold);
    }
}

impl Priced {
    /// The store of that provider, where there are prices for it.
    pub fn of(
        prices: &Prices,
        written: &str,
        provider: &str,
        url: Option<&StoreUrl>,
        planned: Planned<'_>,
    ) -> Result<Option<Priced>, BookError> {
        let (region, class) = url.map(StoreUrl::place).unwrap_or_default();
        let today = wall_now().to_zoned(jiff::tz::TimeZone::UTC).date();
        let found = prices.of_store(provider, region, class, today)?;
        let Some(StoreTariff { tariff, note, elsewhere }) = found else { return Ok(None) };
        let estimate = estimate(planned, &tariff);
        let emulated = is_emulated(url, provider);
        let (store, leaves, machine) = (written.into(), true, None);
        let names = names(url);
        Ok(Some(Priced { store, tariff, emulated, estimate, note, elsewhere, leaves, machine, names }))
    }

    /// What the known part of a run costs.
    pub fn estimated(&self) -> Usd {
        self.told(self.estimate.spent.clone()).total(&self.tariff)
    }

    /// What is done, with what is known of where.
    pub fn told(&self, spent: Spent) -> Spent {
        Spent { leaves: self.leaves, machine: self.machine.clone(), names: self.names, ..spent }
    }

    /// What time costs of a run that has lasted so long: the machine, and what is stored beyond the hour that each write is charged with.
    pub fn timed(&self, uploaded: u64, seconds: u64) -> Usd {
        let stored = |seconds| Spent { uploaded, seconds, ..Spent::default() }.total(&self.tariff);
        let machine =
            Spent { seconds, machine: self.machine.clone(), ..Spent::default() }.total(&self.tariff);
        machine + stored(seconds.max(CHARGED_S)) - stored(CHARGED_S)
    }

    /// What is known beforehand, in words.
    pub fn announce(&self) -> Vec<String> {
        let as_if = if self.emulated { "if it were " } else { "" };
        let known = self.estimated().shown();
        let open = match self.estimate.open.as_slice() {
            [] => String::new(),
            open => format!(
                ", and more in {}, which does what the store lets it: {}",
                open.join(", "),
                rates(&self.tariff, self.leaves)
            ),
        };
        let line = format!("estimated cost of {}, {as_if}{}: {known}{open}", self.store, self.tariff.offer);
        let note = self.note.iter().map(|note| format!("{}: {note}", self.store));
        std::iter::once(line).chain(note).collect()
    }

    /// The first thing that the operations of those phases take and that has no price.
    pub fn unpriced(&self, phases: &[Phase]) -> Option<String> {
        let mut one = Spent { seconds: 1, leaves: self.leaves, ..Spent::default() };
        for phase in phases {
            let workload = &phase.workload;
            let (upload, written) = (&workload.written.upload, workload.written.size.largest());
            let in_parts = upload.part_size > 0 && written > upload.part_size;
            let readback = phase.verify == Verify::Readback;
            workload
                .mix
                .shares()
                .iter()
                .flat_map(|(kind, _)| requests_of(*kind, in_parts, readback))
                .for_each(|call| {
                    one.calls.set(call, 1);
                    one.uploaded |= u64::from(matches!(call, Call::PutObject | Call::UploadPart));
                    one.downloaded |= u64::from(call == Call::GetObject);
                });
        }
        one.unpriced(&self.tariff)
    }

    /// What single requests cost.
    pub fn charge(&self) -> Charge {
        charge(&self.tariff, self.leaves, self.names)
    }
}

/// The requests that an operation takes.
fn requests_of(kind: OperationKind, in_parts: bool, readback: bool) -> Vec<Call> {
    let mut calls = match kind {
        OperationKind::Put | OperationKind::Update if in_parts => {
            vec![Call::CreateMultipartUpload, Call::UploadPart, Call::CompleteMultipartUpload]
        }
        OperationKind::Put | OperationKind::Update => vec![Call::PutObject],
        OperationKind::Get | OperationKind::GetRange => vec![Call::GetObject],
        OperationKind::Head => vec![Call::HeadObject],
        OperationKind::List => vec![Call::ListObjects],
        OperationKind::Delete => vec![Call::DeleteObject],
        OperationKind::Scan => vec![Call::ListObjects, Call::GetObject],
        OperationKind::ReadModifyWrite => vec![Call::GetObject, Call::PutObject],
    };
    if readback && matches!(kind, OperationKind::Put | OperationKind::Update) {
        calls.push(Call::GetObject);
    }
    calls
}

/// The largest object that phases write or read, as far as sizes are known, and the largest request that moves bytes.
pub fn largest(phases: &[Phase]) -> (u64, Vec<(Call, u64)>) {
    let of = |p: &Phase| {
        let w = &p.workload;
        let any = |kinds: &[OperationKind]| kinds.iter().any(|kind| w.mix.share(*kind) > 0);
        let writes = any(&[OperationKind::Put, OperationKind::Update, OperationKind::ReadModifyWrite]);
        let written = if writes { w.written.size.largest() } else { 0 };
        let part = w.written.upload.part_size;
        let put = if part > 0 { part.min(written) } else { written };
        let known = w.read.as_ref().filter(|d| d.existing.is_none()).map_or(0, |d| d.size.largest());
        let whole = any(&[OperationKind::Get, OperationKind::Scan, OperationKind::ReadModifyWrite]);
        let readback = if p.verify == Verify::Readback { written } else { 0 };
        let got = readback.max(if whole { known } else { w.range });
        (written.max(known), [(Call::PutObject, put), (Call::GetObject, got)])
    };
    let all: Vec<_> = phases.iter().map(of).collect();
    let object = all.iter().map(|(object, _)| *object).max().unwrap_or(0);
    (object, all.into_iter().flat_map(|(_, requests)| requests).collect())
}

/// What single requests cost: their class, their bytes, a page of the listing that finds what they wrote, and what is paid for an object
/// however soon it is deleted (an hour at least), its deletion included.
fn charge(tariff: &Tariff, leaves: bool, names: u64) -> Charge {
    let tariff = tariff.clone();
    let listed =
        Spent { calls: Calls::of(Call::ListObjects, 1), ..Spent::default() }.total(&tariff).pico() / 1000;
    Arc::new(move |call, bytes| {
        let mut spent =
            Spent { calls: Calls::of(call, 1), seconds: CHARGED_S, leaves, names, ..Spent::default() };
        spent.object_bytes = Some(bytes);
        let mut more = 0;
        match call {
            Call::PutObject | Call::UploadPart => spent.uploaded = bytes,
            Call::GetObject => spent.downloaded = bytes,
            _ => {}
        }
        if matches!(call, Call::PutObject | Call::CompleteMultipartUpload) {
            spent.calls.add(Call::DeleteObject, 1);
            more = listed;
        }
        (spent.total(&tariff).pico() + more).clamp(0, i128::from(u64::MAX / 4)) as u64
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
        let back = if phase.verify == Verify::Readback { writes } else { 0 };
        let reads =
            of(OperationKind::Get) + of(OperationKind::GetRange) + of(OperationKind::ReadModifyWrite) + back;
        calls.add(Call::GetObject, reads);
        calls.add(Call::HeadObject, of(OperationKind::Head));
        calls.add(Call::ListObjects, of(OperationKind::List) + of(OperationKind::Scan));
        calls.add(Call::DeleteObject, of(OperationKind::Delete));
        objects += if phase.role == Role::Prepare { writes } else { 0 };
        out.spent.uploaded += known.bytes_written.map_or(0, share);
        match known.bytes_read.map(share) {
            Some(bytes) => out.spent.downloaded += bytes,
            None => out.open.push(phase.name.clone()),
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
