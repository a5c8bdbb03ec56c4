//! Changes that would lower a bill of Amazon S3, and changes that would raise it: other storage classes for the stored
//! objects. Costs assume that nothing more is read than today; the break-even share of reads is given with them.

use jiff::civil::Date;
use serde::Serialize;

use super::covered::MonthNow;
use super::explained::{Books, Explained};
use super::inventory::{Inventory, Objects, SMALL};
use super::meaning::{OfferMeter, Topic};
use plimsoll_cost::charge::in_tiers;
use plimsoll_cost::money::Usd;
use plimsoll_cost::tariff::{Measure, Meter};

/// Storage class of S3 from which or to which objects can move without a restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// The class Standard.
    Standard,
    /// The class Standard-IA.
    StandardIa,
    /// The class Glacier Instant Retrieval.
    GlacierInstant,
    /// The class Intelligent-Tiering.
    IntelligentTiering,
}

impl Class {
    /// Returns the name for people.
    pub fn name(self) -> &'static str {
        match self {
            Class::Standard => "Standard",
            Class::StandardIa => "Standard-IA",
            Class::GlacierInstant => "Glacier Instant Retrieval",
            Class::IntelligentTiering => "Intelligent-Tiering",
        }
    }

    /// Returns the name in the API.
    fn api_name(self) -> &'static str {
        match self {
            Class::Standard => "STANDARD",
            Class::StandardIa => "STANDARD_IA",
            Class::GlacierInstant => "GLACIER_IR",
            Class::IntelligentTiering => "INTELLIGENT_TIERING",
        }
    }

    /// Returns the offer; `None` for Intelligent-Tiering, whose price depends on the reads.
    fn offer(self) -> Option<&'static str> {
        match self {
            Class::Standard => Some("aws-s3"),
            Class::StandardIa => Some("aws-s3-standard-ia"),
            Class::GlacierInstant => Some("aws-s3-glacier-instant"),
            Class::IntelligentTiering => None,
        }
    }

    /// Returns the operation of a lifecycle rule that moves objects to the class.
    fn transition(self) -> Option<&'static str> {
        match self {
            Class::Standard => None,
            Class::StandardIa => Some("S3-SIATransition"),
            Class::GlacierInstant => Some("S3-GIRTransition"),
            Class::IntelligentTiering => Some("S3-INTTransition"),
        }
    }
}

/// Data in one class and region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Storage class of the data.
    pub class: Class,
    /// Region of the data.
    pub region: String,
    /// Bytes, averaged over a month.
    pub bytes: u128,
    /// Objects by size; `None` without an inventory.
    pub objects: Option<Objects>,
    /// Bytes retrieved in a month, if the class charges them.
    pub retrieved: u128,
}

/// A change of the storage class, and its cost.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClassChange {
    /// Class of the data now.
    pub from: Class,
    /// Class after the change.
    pub to: Class,
    /// Region of the data.
    pub region: String,
    /// Objects that move: `all`, or those below or from 128 KiB.
    pub which: &'static str,
    /// Bytes that move.
    pub bytes: u64,
    /// Number of objects that move; null without an inventory.
    pub objects: Option<u64>,
    /// Storage, and monitoring if there is one, in a month now.
    pub now_usd: Usd,
    /// The same in the first month after the change.
    pub first_month_usd: Usd,
    /// The same from the fourth month on, if nothing is read.
    pub later_usd: Usd,
    /// Requests of the lifecycle rule, once; null if the number of objects is unknown.
    pub once_usd: Option<Usd>,
    /// Retrievals of today's reads that cost less after the change, in a month; negative if they cost more.
    pub retrievals_usd: Usd,
    /// Share of the data that may be read in a month before reads cost more than the change saves; null if reads are
    /// free after the change, or nothing is saved.
    pub break_even_reads: Option<f64>,
    /// Months until the change has paid for itself; null if it never does, or the number of objects is unknown.
    pub payback_months: Option<f64>,
}

impl ClassChange {
    /// Returns what is saved in a month from the fourth on, if nothing is read; negative if it costs more.
    pub fn saved(&self) -> Usd {
        self.now_usd + self.retrievals_usd - self.later_usd
    }
}

/// Prices of one region on one date.
struct Region<'a> {
    books: &'a Books<'a>,
    name: &'a str,
    date: Date,
}

impl Region<'_> {
    fn line(&self, item: &str) -> Option<Meter> {
        self.books.prices.line("aws-s3-lines", self.name, item, self.date).ok().flatten()
    }

    fn of_offer(&self, offer: &str, measure: Measure) -> Option<Meter> {
        let tariff = self.books.prices.tariff(offer, Some(self.name), self.date).ok()?;
        tariff.meter(measure).cloned()
    }

    /// Returns the cost of storing objects for a month. In Intelligent-Tiering, it depends on the number of the month,
    /// counted from 1 after the objects entered the class.
    fn storage(&self, class: Class, bytes: u128, objects: Option<&Objects>, month: u32) -> Option<Usd> {
        let small = objects.map_or((0, 0), |o| (u128::from(o.small_objects), u128::from(o.small_bytes)));
        if let Some(offer) = class.offer() {
            let padding = match class {
                Class::Standard => 0,
                _ => (small.0 * u128::from(SMALL)).saturating_sub(small.1),
            };
            return in_tiers(&self.of_offer(offer, Measure::Storage)?, bytes + padding, 1, 0);
        }
        let tier = match month {
            0 | 1 => "TimedStorage-INT-FA-ByteHrs",
            2 | 3 => "TimedStorage-INT-IA-ByteHrs",
            _ => "TimedStorage-INT-AIA-ByteHrs",
        };
        // Objects below 128 KiB are not monitored and stay in the tier for frequent access.
        let large = in_tiers(&self.line(tier)?, bytes - small.1.min(bytes), 1, 0)?;
        let rest = in_tiers(&self.line("TimedStorage-INT-FA-ByteHrs")?, small.1.min(bytes), 1, 0)?;
        let monitored = objects.map_or(0, |o| u128::from(o.objects - o.small_objects));
        let monitoring = in_tiers(&self.line("Monitoring-Automation-INT")?, monitored, 1, 0)?;
        Some(large + rest + monitoring)
    }

    /// Returns the price of reading one byte, in units of 10^-12 dollars.
    fn retrieval(&self, class: Class) -> f64 {
        let meter = class.offer().and_then(|offer| self.of_offer(offer, Measure::Retrieval));
        meter
            .and_then(|meter| in_tiers(&meter, 1 << 30, 1, 0))
            .map_or(0.0, |usd| usd.pico() as f64 / (1u64 << 30) as f64)
    }

    /// Returns a change of the class of some objects.
    fn change(
        &self,
        held: &Held,
        to: Class,
        which: &'static str,
        bytes: u128,
        objects: Option<Objects>,
    ) -> Option<ClassChange> {
        let now = self.storage(held.class, bytes, objects.as_ref(), 4)?;
        let [first, second, third, later] =
            [1, 2, 3, 4].map(|month| self.storage(to, bytes, objects.as_ref(), month));
        let (first, second, third, later) = (first?, second?, third?, later?);
        let transition = self.line(&format!("Requests-Tier4 {}", to.transition()?))?;
        let once = objects.and_then(|objects| in_tiers(&transition, objects.objects.into(), 1, 0));
        // What is read stays readable: its share of the retrievals follows from its share of the bytes.
        let read = held.retrieved.checked_mul(bytes)?.checked_div(held.bytes).unwrap_or(0);
        let dearer = self.retrieval(to) - self.retrieval(held.class);
        let retrievals = Usd::from_pico((-dearer * read as f64).round() as i128);
        let saved = now + retrievals - later;
        let unread = (now - later).pico() as f64;
        let break_even = match to {
            _ if unread <= 0.0 => None,
            // What is read is billed for frequent access again.
            Class::IntelligentTiering if first > later => {
                Some((unread / (first - later).pico() as f64).min(1.0))
            }
            _ if dearer > 0.0 => Some(unread / (dearer * bytes as f64)),
            _ => None,
        };
        let months = once.and_then(|once| {
            let early: Usd = [first, second, third].into_iter().map(|cost| cost - now - retrievals).sum();
            let spent = once + early;
            match saved.pico() > 0 {
                true => Some(3.0 + spent.pico() as f64 / saved.pico() as f64),
                false => None,
            }
        });
        // The change may have paid for itself before the fourth month.
        let payback = months.map(|months| {
            let mut left = once.unwrap_or(Usd::ZERO).pico() as f64;
            for (month, cost) in [first, second, third].into_iter().enumerate() {
                let gain = (now + retrievals - cost).pico() as f64;
                if gain > 0.0 && left <= gain {
                    return month as f64 + (left / gain).max(0.0);
                }
                left -= gain;
            }
            months
        });
        Some(ClassChange {
            from: held.class,
            to,
            region: held.region.clone(),
            which,
            bytes: u64::try_from(bytes).ok()?,
            objects: objects.map(|objects| objects.objects),
            now_usd: now,
            first_month_usd: first,
            later_usd: later,
            once_usd: once,
            retrievals_usd: retrievals,
            break_even_reads: break_even,
            payback_months: payback,
        })
    }
}

/// Returns the objects from 128 KiB, and those below.
fn by_size(objects: &Objects) -> (Objects, Objects) {
    let small = Objects {
        objects: objects.small_objects,
        bytes: objects.small_bytes,
        small_objects: objects.small_objects,
        small_bytes: objects.small_bytes,
    };
    let large = Objects {
        objects: objects.objects - objects.small_objects,
        bytes: objects.bytes - objects.small_bytes,
        ..Objects::default()
    };
    (large, small)
}

/// Returns the data of a month of a bill by class and region. Inventories have no regions, so objects are known only
/// for classes in a single region.
pub fn held(found: &Explained, now: MonthNow, inventory: Option<&Inventory>) -> Vec<Held> {
    let mut out: Vec<Held> = Vec::new();
    for class in [Class::Standard, Class::StandardIa, Class::GlacierInstant] {
        let Some(offer) = class.offer() else { continue };
        let of = |meter: OfferMeter, topic: Topic| {
            found.of_month(now).filter(move |line| line.at == Some((offer, meter)) && line.topic == topic)
        };
        for line in of(OfferMeter::Storage, Topic::Storage).filter(|line| !line.usage.ends_with("SmObjects"))
        {
            let Some(bytes) = line.bytes_in(now) else { continue };
            match out.iter_mut().find(|held| held.class == class && held.region == line.region) {
                Some(held) => held.bytes += bytes,
                None => out.push(Held {
                    class,
                    region: line.region.clone(),
                    bytes,
                    objects: None,
                    retrieved: of(OfferMeter::Retrieval, Topic::Retrieval)
                        .filter(|read| read.region == line.region)
                        .filter_map(|read| read.bytes_in(now))
                        .sum(),
                }),
            }
        }
        let objects = inventory.and_then(|inventory| inventory.classes().get(class.api_name()).copied());
        let mut of_class: Vec<&mut Held> = out.iter_mut().filter(|held| held.class == class).collect();
        if let ([only], Some(objects)) = (of_class.as_mut_slice(), objects) {
            // The inventory may be of one of several buckets: reads are shared by bytes.
            let billed = only.bytes.max(objects.bytes.into()).max(1);
            only.retrieved = only.retrieved.saturating_mul(objects.bytes.into()) / billed;
            only.bytes = objects.bytes.into();
            only.objects = Some(objects);
        }
    }
    out
}

/// Returns the changes of the storage class of a bill's data, by the amount saved, the largest first.
pub fn changes(held: &[Held], books: &Books<'_>, date: Date) -> Vec<ClassChange> {
    let mut out = Vec::new();
    for held in held.iter().filter(|held| held.bytes > 0) {
        let region = Region { books, name: &held.region, date };
        for to in [Class::StandardIa, Class::GlacierInstant, Class::IntelligentTiering] {
            if to == held.class {
                continue;
            }
            match &held.objects {
                None => out.extend(region.change(held, to, "all", held.bytes, None)),
                Some(objects) => {
                    let (large, small) = by_size(objects);
                    if large.objects > 0 {
                        out.extend(region.change(held, to, "from 128 KiB", large.bytes.into(), Some(large)));
                    }
                    if small.objects > 0 {
                        out.extend(region.change(held, to, "below 128 KiB", small.bytes.into(), Some(small)));
                    }
                }
            }
        }
    }
    out.sort_by_key(|change| std::cmp::Reverse(change.saved()));
    out
}
