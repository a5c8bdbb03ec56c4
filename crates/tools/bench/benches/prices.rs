//! Measures the time to compute the bills of a million workloads at every provider, and compares it with a decimal
//! library and with floating point.
//!
//!     make bench-prices
//!     make bench-prices | PERFORMANCE=write python3 benches/performance.py prices
//!
//! The second command also writes the table into docs/performance.md. The bills of the decimal library must agree to
//! the cent. Floating point shows the speed of inexact arithmetic.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "prints its results")]

use plimsoll_base::clock::now_ns;
use plimsoll_base::provider::calls::Call;
use plimsoll_base::rng::Stream;
use plimsoll_cost::bill::total;
use plimsoll_cost::book::Prices;
use plimsoll_cost::charge::charges;
use plimsoll_cost::egress::Egress;
use plimsoll_cost::money::Usd;
use plimsoll_cost::tariff::Tariff;
use plimsoll_cost::usage::Usage;
use rust_decimal::{Decimal, RoundingStrategy};

const WORKLOADS: u64 = 1_000_000;
const PASSES: usize = 5;

/// Returns a random workload. Amounts are distributed uniformly over their orders of magnitude.
fn workload(draws: Stream, number: u64) -> Usage {
    let spread = |which: u64, low: f64, high: f64| {
        let share = draws.below(number * 8 + which, 1 << 32) as f64 / (1u64 << 32) as f64;
        (low * (high / low).powf(share)) as u64
    };
    let (stored, object) = (spread(0, 1e9, 1e17), spread(1, 1e3, 4e5));
    let (puts, gets) = (spread(2, 1e3, 1e9), spread(3, 1e3, 1e10));
    let mut usage = Usage { stored, stored_peak: stored, object_bytes: object, ..Usage::default() };
    usage.write(puts, object, None);
    usage.calls.add(Call::GetObject, gets);
    usage.downloaded = gets * object;
    usage.egress = Egress::Stated(spread(4, 1e9, 1e17).min(stored).min(usage.downloaded));
    usage
}

/// Computes the total of a bill with a decimal library: the sum of quantity / unit x price over all charges.
fn decimal(tariff: &Tariff, usage: &Usage) -> Decimal {
    let mut sum = Decimal::ZERO;
    charges(tariff, usage, |charge| {
        let quantity =
            Decimal::from_i128_with_scale(charge.quantity as i128, 0) / Decimal::from(charge.meter.unit_base);
        let quantity = quantity / Decimal::from(charge.over as u64);
        sum += quantity * Decimal::from_i128_with_scale(charge.price.pico(), 12);
    })
    .unwrap();
    sum
}

/// Computes the total of a bill in floating point, in dollars.
fn floating(tariff: &Tariff, usage: &Usage) -> f64 {
    let mut sum = 0.0;
    charges(tariff, usage, |charge| {
        let quantity = charge.quantity as f64 / charge.over as f64 / charge.meter.unit_base as f64;
        sum += quantity * charge.price.dollars();
    })
    .unwrap();
    sum
}

/// Returns the time in seconds to compute all bills on all cores: the median of [`PASSES`] passes.
fn timed<T: Send>(tariffs: &[Tariff], usages: &[Usage], bill: impl Fn(&Tariff, &Usage) -> T + Sync) -> f64 {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut seconds: Vec<f64> = (0..PASSES)
        .map(|_| {
            let began = now_ns();
            let bill = &bill;
            std::thread::scope(|scope| {
                for part in usages.chunks(usages.len().div_ceil(threads)) {
                    scope.spawn(move || {
                        for usage in part {
                            for tariff in tariffs {
                                std::hint::black_box(bill(tariff, usage));
                            }
                        }
                    });
                }
            });
            (now_ns() - began) as f64 / 1e9
        })
        .collect();
    seconds.sort_by(f64::total_cmp);
    seconds[PASSES / 2]
}

fn main() {
    let prices = Prices::built_in().unwrap();
    let date = "2026-11-21".parse().unwrap();
    let tariffs: Vec<Tariff> =
        prices.stores().iter().map(|name| prices.tariff(name, None, date).unwrap()).collect();
    let draws = Stream::new(42, "prices");
    let usages: Vec<Usage> = (0..WORKLOADS).map(|n| workload(draws, n)).collect();
    let (mut compared, mut different) = (0u64, 0u64);
    let mut max_error = 0.0f64;
    for usage in usages.iter().step_by(100) {
        for tariff in &tariffs {
            let usd = total(tariff, usage).unwrap();
            // Plimsoll rounds halves away from zero, too.
            let reference =
                decimal(tariff, usage).round_dp_with_strategy(2, RoundingStrategy::MidpointAwayFromZero);
            compared += 1;
            different += u64::from(usd.cents().replace(['$', ','], "") != format!("{reference:.2}"));
            let dollars = usd.dollars().max(1e-9);
            max_error = max_error.max((floating(tariff, usage) - dollars).abs());
        }
    }
    let pico = timed(&tariffs, &usages, |t, u| total(t, u).unwrap_or(Usd::ZERO));
    let library = timed(&tariffs, &usages, decimal);
    let float = timed(&tariffs, &usages, floating);
    let bills = WORKLOADS as f64 * tariffs.len() as f64;
    println!("{WORKLOADS} workloads x {} providers on all cores, median of {PASSES} passes", tariffs.len());
    println!("| figure | value | limit |");
    println!("| --- | --- | --- |");
    println!(
        "| a million workloads at {} providers, in picodollars | {pico:.3} s, {:.0} ns per bill | 80 ns per bill |",
        tariffs.len(),
        pico / bills * 1e9
    );
    println!("| with a decimal library | {library:.3} s, {:.2} times as long | - |", library / pico);
    println!(
        "| in floating point | {float:.3} s, {:.2} times as long, maximum error ${max_error:.9} | - |",
        float / pico
    );
    println!(
        "| bills that differ from the decimal library by a cent or more | {different} of {compared} | 0 |"
    );
}
