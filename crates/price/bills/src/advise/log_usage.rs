//! Usage of a month from the requests of a log.

use super::projection::MONTH_S;
use plimsoll_base::provider::calls::Call;
use plimsoll_cost::bill::{is_billed, total};
use plimsoll_cost::egress::Egress;
use plimsoll_cost::money::Usd;
use plimsoll_cost::tariff::Tariff;
use plimsoll_cost::usage::Usage;
use plimsoll_experiment::logs::usage::{LogUsage, Requests};

/// Requests of a log, extrapolated to a month.
#[derive(Debug, Clone)]
pub struct MonthOfLog<'a> {
    /// Usage as the logs show it.
    pub log: &'a LogUsage,
    /// Factor from the log to a month; 1 if the log is billed as it is.
    pub factor: f64,
    /// Bytes stored, averaged over the month.
    pub stored: u64,
    /// Mean size of an object in bytes; `None` for the mean size in the log.
    pub object_bytes: Option<u64>,
    /// Share of the reads that leave the provider; `None` if the workload does not state it.
    pub egress: Option<f64>,
    /// True if the allowances of the month are used up.
    pub without_allowances: bool,
}

/// Returns the factor from the time that a log covers to a month; `None` if the log covers less than ten seconds,
/// from which a month does not follow.
pub fn factor(log: &LogUsage) -> Option<f64> {
    let seconds = log.last_ns.saturating_sub(log.first_ns) as f64 / 1e9;
    (seconds >= 10.0).then(|| MONTH_S / seconds)
}

/// Returns the cost of a usage at the list prices of the first tier, without allowances, minimums and storage; `None`
/// if it cannot be computed. The sum of several usages does not depend on their order.
pub fn at_list_prices(usage: Usage, tariff: &Tariff) -> Option<Usd> {
    let mut plain = tariff.clone();
    (plain.rules.round_up, plain.rules.minimum_billed, plain.rules.egress_within_stored) = (false, 0, false);
    plain.meters.iter_mut().for_each(|meter| meter.tiers.truncate(1));
    plain.meters.iter_mut().flat_map(|meter| &mut meter.tiers).for_each(|tier| tier.up_to = u64::MAX);
    total(&plain, &Usage { without_allowances: true, deleted: 0, ..usage }).ok()
}

impl MonthOfLog<'_> {
    /// Returns the mean size of an object in bytes; 0 if it is unknown.
    pub fn mean_object(&self) -> u64 {
        self.object_bytes.unwrap_or(self.log.all.object_bytes.checked_div(self.log.all.objects).unwrap_or(0))
    }

    /// Returns the usage of a month at a provider: the requests that it bills, and their bytes. `stored` is the data
    /// stored by them.
    pub fn usage(&self, requests: &Requests, tariff: &Tariff, stored: u64) -> Usage {
        let of = |n: u64| (n as f64 * self.factor).round() as u64;
        let mut usage = Usage {
            stored,
            stored_peak: stored,
            object_bytes: self.mean_object(),
            uploaded: of(requests.uploaded),
            downloaded: of(requests.downloaded),
            copied: of(requests.copied),
            egress: match self.egress {
                Some(share) => {
                    Egress::Stated((requests.downloaded as f64 * share * self.factor).round() as u64)
                }
                None => Egress::UNSTATED,
            },
            without_allowances: self.without_allowances,
            ..Usage::default()
        };
        for call in Call::ALL {
            let billed: u64 = requests
                .calls
                .iter()
                .filter(|((kind, status), _)| *kind == call && (*status == 0 || is_billed(tariff, *status)))
                .map(|(_, count)| count)
                .sum();
            usage.calls.set(call, of(billed));
        }
        // A deletion that failed has deleted nothing.
        let done =
            requests.calls.iter().filter(|((call, status), _)| *call == Call::DeleteObject && *status < 400);
        usage.deleted = of(done.map(|(_, count)| count).sum()).saturating_mul(usage.object_bytes);
        usage
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_cost::book::Prices;

    fn tariff(name: &str) -> Tariff {
        Prices::built_in().unwrap().tariff(name, None, "2026-11-21".parse().unwrap()).unwrap()
    }

    #[test]
    fn a_provider_bills_the_answers_that_it_charges() {
        let mut log = LogUsage { first_ns: 0, last_ns: 3_600_000_000_000, ..LogUsage::default() };
        log.all.calls =
            [((Call::GetObject, 200), 1000), ((Call::GetObject, 404), 500), ((Call::GetObject, 503), 9)]
                .into();
        (log.all.downloaded, log.all.objects, log.all.object_bytes) = (1 << 30, 1000, 1 << 30);
        let month = MonthOfLog {
            log: &log,
            factor: factor(&log).unwrap(),
            stored: 0,
            object_bytes: None,
            egress: Some(1.0),
            without_allowances: true,
        };
        assert_eq!((month.factor, month.mean_object()), (730.0, (1 << 30) / 1000));
        let usage = |name: &str| month.usage(&log.all, &tariff(name), 0);
        // S3 charges a 404, Google does not; neither charges a 503.
        assert_eq!(usage("aws-s3").calls.get(Call::GetObject), 1500 * 730);
        assert_eq!(usage("google-cloud-storage").calls.get(Call::GetObject), 1000 * 730);
        // 1,095,000 reads at 0.0004 / 1000, and 730 GiB of egress at 0.09.
        let bill = total(&tariff("aws-s3"), &usage("aws-s3")).unwrap();
        assert_eq!(bill.to_string(), "66.138");
        log.last_ns = 9_900_000_000;
        assert_eq!(factor(&log), None);
    }
}
