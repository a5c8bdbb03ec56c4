//! Prices of the stores of a run, and the estimate of its cost before it starts.

use std::sync::Arc;

use plimsoll_base::clock::wall_now;
use plimsoll_base::machine::Machine;
use plimsoll_base::provider::calls::{Call, Calls};
use plimsoll_base::provider::is_own_host;
use plimsoll_cost::book::{BookError, Prices, StoreTariff};
use plimsoll_cost::money::Usd;
use plimsoll_cost::of_store::StoreUsage;
use plimsoll_cost::tariff::Tariff;
use plimsoll_engine::store::cost_limit::Charge;
use plimsoll_experiment::Experiment;
use plimsoll_experiment::estimate::of_phase;
use plimsoll_s3::url::StoreUrl;
use plimsoll_workload::OperationKind;
use plimsoll_workload::schedule::{Phase, Role, Verify};

/// Work that a run plans to do at each of its stores.
#[derive(Clone, Copy)]
pub struct Planned<'a> {
    /// Phases of the run.
    pub phases: &'a [Phase],
    /// Number of repeats of all phases other than `prepare`.
    pub repeats: u32,
    /// Number of hosts that share the operations.
    pub hosts: u64,
    /// Requests that each host sends in addition to the operations.
    pub besides: Calls,
}

impl<'a> Planned<'a> {
    /// Returns the plan of an experiment whose operations `hosts` hosts share.
    pub fn of(experiment: &'a Experiment, hosts: u64) -> Planned<'a> {
        Planned { phases: &experiment.phases, repeats: experiment.repeats, hosts, besides: Calls::default() }
    }
}

/// Estimate of the work of one host at one store.
#[derive(Default)]
pub struct Estimate {
    /// Work that can be estimated before the run.
    pub spent: StoreUsage,
    /// Names of the phases whose work depends on the speed or the content of the store.
    pub store_limited: Vec<String>,
}

/// A store with known prices.
pub struct Priced {
    /// URL or name of the store, as the user wrote it.
    pub store: String,
    /// Tariff of the store on the current date.
    pub tariff: Tariff,
    /// True if the endpoint does not belong to the provider, so that the costs are hypothetical.
    pub emulated: bool,
    /// Estimate of the work at this store.
    pub estimate: Estimate,
    /// Caveat about the prices, such as an assumed region; `None` if there is none.
    pub note: Option<String>,
    /// True if the prices are those of another region.
    pub elsewhere: bool,
    /// True if the bytes read are internet egress.
    pub leaves: bool,
    /// Type of the client machine; `None` if this store does not include its cost.
    pub machine: Option<String>,
    /// Bytes per object that the store counts in addition to the content.
    names: u64,
}

/// Minimum storage time that the charge of each write includes, in seconds.
const CHARGED_S: u64 = 3600;

/// Returns the provider of a store, or `None` if its URL does not determine one.
pub fn provider_of(url: &StoreUrl) -> Option<&str> {
    match url {
        StoreUrl::S3(s3) => Some(&s3.profile.name),
        StoreUrl::Gcs(gcs) => Some(&gcs.profile.name),
        StoreUrl::Azure(azure) => Some(&azure.profile.name),
        StoreUrl::DynamoDb(_) => Some("aws-dynamodb"),
        _ => None,
    }
}

/// Returns the size of a DynamoDB item without its content, in bytes: the key, the attribute names and the size
/// attribute ("Item sizes and formats" in its documentation). Assumes keys of 64 bytes. Returns 0 for other stores.
fn names(url: Option<&StoreUrl>) -> u64 {
    match url {
        Some(StoreUrl::DynamoDb(table)) => {
            table.key.len() as u64 + 64 + "content".len() as u64 + "size".len() as u64 + 4
        }
        _ => 0,
    }
}

/// Returns true if the endpoint of a store does not belong to the provider.
fn is_emulated(url: Option<&StoreUrl>, provider: &str) -> bool {
    let host = match url {
        Some(StoreUrl::S3(s3)) => &s3.endpoint.host,
        Some(StoreUrl::Gcs(gcs)) => &gcs.endpoint.host,
        Some(StoreUrl::Azure(azure)) => &azure.endpoint.host,
        Some(StoreUrl::DynamoDb(table)) => &table.endpoint.host,
        _ => return true,
    };
    !is_own_host(provider, host)
}

/// Determines for each store whether reads are internet egress, and adds the client machine to the first store whose
/// tariff has a price for it. Reads are egress unless `in_region` is true or the machine runs in the provider's
/// cloud; such a machine is assumed to be in the store's region.
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
    /// Returns the store with its prices and its estimate; `None` if the prices of the provider are unknown.
    ///
    /// # Errors
    /// [`BookError`] if an item has no price on the current date.
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

    /// Returns the cost of the work that can be estimated before the run.
    pub fn estimated(&self) -> Usd {
        self.located(self.estimate.spent.clone()).total(&self.tariff)
    }

    /// Returns `spent` with the location of this store: egress, client machine and item overhead.
    pub fn located(&self, spent: StoreUsage) -> StoreUsage {
        StoreUsage { leaves: self.leaves, machine: self.machine.clone(), names: self.names, ..spent }
    }

    /// Returns the time-based cost of a run that has stored `bytes` bytes in `seconds` seconds: the machine, and
    /// storage beyond the hour that the charge of each write includes.
    pub fn timed(&self, bytes: u64, seconds: u64) -> Usd {
        let stored =
            |seconds| StoreUsage { uploaded: bytes, seconds, ..StoreUsage::default() }.total(&self.tariff);
        let machine = StoreUsage { seconds, machine: self.machine.clone(), ..StoreUsage::default() }
            .total(&self.tariff);
        machine + stored(seconds.max(CHARGED_S)) - stored(CHARGED_S)
    }

    /// Returns lines for the user: the estimated cost, and the caveat about the prices if there is one.
    pub fn announce(&self) -> Vec<String> {
        let priced_as = if self.emulated { "priced as " } else { "" };
        let known = self.estimated().rounded();
        let more = match self.estimate.store_limited.as_slice() {
            [] => String::new(),
            phases => format!(
                ", plus the cost of {}, which depends on the store: {}",
                phases.join(", "),
                rates(&self.tariff, self.leaves)
            ),
        };
        let line =
            format!("estimated cost of {} ({priced_as}{}): {known}{more}", self.store, self.tariff.offer);
        let note = self.note.iter().map(|note| format!("{}: {note}", self.store));
        std::iter::once(line).chain(note).collect()
    }

    /// Returns the name of the first item that the phases need and that has no price; `None` if all have prices.
    pub fn unpriced(&self, phases: &[Phase]) -> Option<String> {
        let mut one = StoreUsage { seconds: 1, leaves: self.leaves, ..StoreUsage::default() };
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

    /// Returns the function that computes the maximum cost of a request.
    pub fn charge(&self) -> Charge {
        charge(&self.tariff, self.leaves, self.names)
    }
}

/// Returns the kinds of requests that an operation sends.
fn requests_of(kind: OperationKind, in_parts: bool, readback: bool) -> Vec<Call> {
    let mut calls = match kind {
        OperationKind::Put | OperationKind::Update if in_parts => {
            vec![Call::CreateMultipartUpload, Call::UploadPart, Call::CompleteMultipartUpload]
        }
        OperationKind::Put | OperationKind::Update => vec![Call::PutObject],
        OperationKind::Get | OperationKind::GetRange => vec![Call::GetObject],
        OperationKind::Head => vec![Call::HeadObject],
        OperationKind::Copy => vec![Call::CopyObject],
        OperationKind::List => vec![Call::ListObjects],
        OperationKind::Delete => vec![Call::DeleteObject],
        OperationKind::Scan => vec![Call::ListObjects, Call::GetObject],
        OperationKind::ReadModifyWrite | OperationKind::CompareAndSwap => {
            vec![Call::GetObject, Call::PutObject]
        }
    };
    if readback && matches!(kind, OperationKind::Put | OperationKind::Update | OperationKind::Copy) {
        calls.push(Call::GetObject);
    }
    calls
}

/// Returns the size of the largest object that the phases write or read, as far as sizes are known, and the largest
/// put and get of each phase. Sizes are in bytes.
pub fn largest(phases: &[Phase]) -> (u64, Vec<(Call, u64)>) {
    let of = |p: &Phase| {
        let w = &p.workload;
        let any = |kinds: &[OperationKind]| kinds.iter().any(|kind| w.mix.share(*kind) > 0);
        use OperationKind::{CompareAndSwap, Copy, Get, Put, ReadModifyWrite, Scan, Update};
        let writes = any(&[Put, Update, ReadModifyWrite, CompareAndSwap]);
        let written = if writes { w.written.size.largest() } else { 0 };
        let part = w.written.upload.part_size;
        let put = if part > 0 { part.min(written) } else { written };
        let known = w.read.as_ref().filter(|d| d.existing.is_none()).map_or(0, |d| d.size.largest());
        let whole = any(&[Get, Scan, ReadModifyWrite, CompareAndSwap]);
        let copied = if any(&[Copy]) { known } else { 0 };
        let readback = if p.verify == Verify::Readback { written.max(copied) } else { 0 };
        let got = readback.max(if whole { known } else { w.range });
        (written.max(known), [(Call::PutObject, put), (Call::CopyObject, copied), (Call::GetObject, got)])
    };
    let all: Vec<_> = phases.iter().map(of).collect();
    let object = all.iter().map(|(object, _)| *object).max().unwrap_or(0);
    (object, all.into_iter().flat_map(|(_, requests)| requests).collect())
}

/// Returns the function that computes the maximum cost of a request, in picodollars. For a write, the cost includes the
/// minimum storage time of the provider (at least an hour), the deletion, and a thousandth of a listing page, because
/// clean-up lists the object.
fn charge(tariff: &Tariff, leaves: bool, names: u64) -> Charge {
    let tariff = tariff.clone();
    let listed =
        StoreUsage { calls: Calls::of(Call::ListObjects, 1), ..StoreUsage::default() }.total(&tariff).pico()
            / 1000;
    Arc::new(move |call, bytes| {
        let mut spent = StoreUsage {
            calls: Calls::of(call, 1),
            seconds: CHARGED_S,
            leaves,
            names,
            ..StoreUsage::default()
        };
        spent.object_bytes = Some(bytes);
        let mut more = 0;
        match call {
            Call::PutObject | Call::UploadPart => spent.uploaded = bytes,
            Call::GetObject => spent.downloaded = bytes,
            _ => {}
        }
        if matches!(call, Call::PutObject | Call::CopyObject | Call::CompleteMultipartUpload) {
            spent.calls.add(Call::DeleteObject, 1);
            more = listed;
        }
        (spent.total(&tariff).pico() + more).clamp(0, i128::from(u64::MAX / 4)) as u64
    })
}

/// Describes the prices of a million GETs, a million PUTs and a TB read.
fn rates(tariff: &Tariff, leaves: bool) -> String {
    let million = |call: Call, bytes: u64| {
        let mut spent = StoreUsage { downloaded: bytes, leaves, ..StoreUsage::default() };
        spent.calls.add(call, 1_000_000);
        spent.total(tariff)
    };
    let tb = million(Call::GetObject, 1_000_000_000_000) - million(Call::GetObject, 0);
    let gets = million(Call::GetObject, 0).rounded();
    format!(
        "{gets} per million GET, {} per million PUT, {} per TB read",
        million(Call::PutObject, 0).rounded(),
        tb.rounded()
    )
}

/// Returns the number of objects that a phase creates, and the clean-up deletes, if the phase sends this number of puts
/// and of copies.
fn created(phase: &Phase, puts: u64, copies: u64) -> u64 {
    let workload = &phase.workload;
    if workload.written.at.is_some() {
        // Records stay for later runs.
        return 0;
    }
    // Puts without inserts write the same objects repeatedly.
    let is_new = phase.role == Role::Prepare || workload.inserts.is_some();
    let written = if is_new { puts } else { puts.min(workload.written.count) };
    written + workload.copies.as_ref().map_or(0, |dataset| copies.min(dataset.count))
}

/// Estimates the work of one host at one store.
fn estimate(Planned { phases, repeats, hosts, besides }: Planned<'_>, tariff: &Tariff) -> Estimate {
    let mut out = Estimate::default();
    out.spent.calls = besides;
    let (mut objects, mut ns) = (0u64, 0u64);
    for phase in phases {
        let known = of_phase(phase, repeats);
        ns += known.duration_ns.unwrap_or(0);
        let share = |n: u64| n.div_ceil(hosts.max(1));
        let Some(operations) = known.operations.map(share) else {
            out.store_limited.push(phase.name.clone());
            continue;
        };
        let mix = &phase.workload.mix;
        let of =
            |kind| (operations as f64 * f64::from(mix.share(kind)) / f64::from(mix.total())).round() as u64;
        // A compare-and-swap needs at least one read and one write; conflicts add more.
        let pairs = of(OperationKind::ReadModifyWrite) + of(OperationKind::CompareAndSwap);
        let writes = of(OperationKind::Put) + of(OperationKind::Update) + pairs;
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
        let copies = of(OperationKind::Copy);
        calls.add(Call::CopyObject, copies);
        let read_back = if phase.verify == Verify::Readback { writes + copies } else { 0 };
        let reads = of(OperationKind::Get) + of(OperationKind::GetRange) + pairs + read_back;
        calls.add(Call::GetObject, reads);
        calls.add(Call::HeadObject, of(OperationKind::Head));
        calls.add(Call::ListObjects, of(OperationKind::List) + of(OperationKind::Scan));
        calls.add(Call::DeleteObject, of(OperationKind::Delete));
        objects += created(phase, of(OperationKind::Put), copies);
        out.spent.uploaded += known.bytes_written.map_or(0, share);
        match known.bytes_read.map(share) {
            Some(bytes) => out.spent.downloaded += bytes,
            None => out.store_limited.push(phase.name.clone()),
        }
    }
    // The preflight lists once; clean-up lists and deletes page by page. Where a page costs nothing, its objects may be
    // billed one by one.
    let pages = objects.div_ceil(1000) + 1;
    let many = StoreUsage { calls: Calls::of(Call::DeleteObjects, 1_000_000), ..StoreUsage::default() };
    let one_by_one = if many.total(tariff) > Usd::ZERO { 0 } else { objects };
    let clean_up =
        [(Call::ListObjects, pages + 1), (Call::DeleteObjects, pages), (Call::DeleteObject, one_by_one)];
    for (call, count) in clean_up.into_iter().filter(|(call, _)| tariff.priced.contains(*call)) {
        out.spent.calls.add(call, count);
    }
    // The duration of a phase that is limited by operations is unknown, so assume at least 1 s in total.
    out.spent.seconds = ns.div_ceil(1_000_000_000).max(1);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_experiment::resolve::parse;

    fn deletes(provider: &str, experiment: &str) -> (u64, u64) {
        let experiment = parse("", experiment, &[]).unwrap();
        let planned = Planned::of(&experiment, 1);
        let priced = Priced::of(&Prices::built_in().unwrap(), "", provider, None, planned).unwrap().unwrap();
        let calls = &priced.estimate.spent.calls;
        (calls.get(Call::DeleteObject), calls.get(Call::DeleteObjects))
    }

    /// Regression test: the estimate left out the deletes of the clean-up, so that `--max-cost` let a run start that
    /// cost nearly twice as much.
    #[test]
    fn the_clean_up_deletes_object_by_object_where_there_is_no_other_request() {
        let head = "name = 'e'\nseed = 1\n[[phase]]\nname = 'objects'\nrole = 'prepare'\n\
                    operations = { put = 1 }\nobjects = { count = 800, size = '1 KiB' }\n";
        assert_eq!(deletes("aws-dynamodb", head).0, 800);
        assert_eq!(deletes("backblaze-b2", head).1, 2);
        let puts = head.to_string()
            + "[[phase]]\nname = 'puts'\noperations = { put = 1 }\nobjects = { count = 50, size = '1 KiB' }\n\
               stop_after = 700\n";
        assert_eq!(deletes("aws-dynamodb", &puts).0, 850, "700 puts of 50 objects");
    }
}
