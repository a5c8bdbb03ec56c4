//! Parsers and formatters for sizes, counts, durations, rates and throughputs. Formatted quantities always have a unit,
//! except counts.

use crate::clock::SECOND;

/// Failure to parse a quantity. The message lists the accepted forms.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum UnitError {
    /// The text is not a size.
    #[error("'{0}' is not a size; use a number with a unit, such as 1KiB, 4 MiB, 10 MB or 512B")]
    Size(String),
    /// The text is not an amount of data.
    #[error(
        "'{0}' is not an amount of data; use at most 4 EiB with a unit, such as 10PB (decimal) or 10 TiB \
         (binary)"
    )]
    Volume(String),
    /// The text is not a count.
    #[error("'{0}' is not a count; use a whole number, such as 12000000, 12M or 1.5k, at most 1000T")]
    Count(String),
    /// The text is not a duration.
    #[error("'{0}' is not a duration; use a number with a unit, such as 30s, 250ms, 5m or 1h")]
    Duration(String),
    /// The duration is too long.
    #[error("'{0}' is too long; a duration has at most 27777h")]
    TooLong(String),
    /// The text is not a rate.
    #[error(
        "'{0}' is not a rate; use operations per unit of time, such as 500/s, 30/m or 0.5/s, above 0 and at \
         most 10000000/s"
    )]
    Rate(String),
    /// The text is not a throughput.
    #[error("'{0}' is not a throughput; use bits or bytes per second, such as 5 Gbit/s, 100 MB/s or 1 GiB/s")]
    Throughput(String),
}

fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let number: f64 = text[..end].replace('_', "").parse().ok()?;
    (number.is_finite() && number >= 0.0).then(|| (number, text[end..].trim()))
}

/// Splits a quantity into the digits of its number, the number of digits after the point, and its unit.
fn split_exact(text: &str) -> Option<(u128, u32, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(text.len());
    let number = text[..end].replace('_', "");
    let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
    let fraction = fraction.trim_end_matches('0');
    if whole.is_empty() || fraction.contains('.') || whole.len() + fraction.len() > 24 {
        return None;
    }
    Some((format!("{whole}{fraction}").parse().ok()?, fraction.len() as u32, text[end..].trim()))
}

/// Returns `digits x 10^-places x factor`, or `None` if that is not a whole number.
fn whole(digits: u128, places: u32, factor: u128) -> Option<u128> {
    let (product, scale) = (digits.checked_mul(factor)?, 10u128.pow(places));
    product.is_multiple_of(scale).then(|| product / scale)
}

/// Returns `digits x 10^-places x factor`, rounded half up, or `None` if a number other than 0 rounds to 0.
fn rounded(digits: u128, places: u32, factor: u128) -> Option<u128> {
    let (product, scale) = (digits.checked_mul(factor)?, 10u128.pow(places));
    let bytes = product.checked_add(scale / 2)? / scale;
    (bytes > 0 || digits == 0).then_some(bytes)
}

/// Maximum size, in bytes.
const MAX_BYTES: u128 = 1 << 62;

/// Returns the number of bytes in a unit of size, or `None` for an unknown unit. `k`, `m`, `g` and `t` are binary
/// units.
fn bytes_of(unit: &str) -> Option<u128> {
    Some(match unit.to_ascii_lowercase().as_str() {
        "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "pib" => 1 << 50,
        "eib" => 1 << 60,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        "pb" => 1_000_000_000_000_000,
        "eb" => 1_000_000_000_000_000_000,
        _ => return None,
    })
}

/// Parses a size in bytes: `4096`, `1KiB`, `1.3 TiB` (binary), `10 MB` (decimal). A fraction of a unit is computed
/// exactly and rounded to whole bytes. A number of bytes must be whole.
///
/// # Errors
/// [`UnitError::Size`] if the text is not a size, or the size exceeds 2^62 bytes.
pub fn parse_size(text: &str) -> Result<u64, UnitError> {
    let read = || {
        let (digits, places, unit) = split_exact(text)?;
        let factor = if unit.is_empty() { 1 } else { bytes_of(unit)? };
        let bytes = if factor == 1 { whole(digits, places, 1) } else { rounded(digits, places, factor) };
        bytes.filter(|bytes| *bytes <= MAX_BYTES)
    };
    read().map(|bytes| bytes as u64).ok_or_else(|| UnitError::Size(text.to_string()))
}

/// Parses an amount of data: a size with a unit that ends in `B`, such as `10 PB` or `1.5 TiB`.
///
/// # Errors
/// [`UnitError::Volume`] if the text is not such a size, or the size exceeds 2^62 bytes.
pub fn parse_volume(text: &str) -> Result<u64, UnitError> {
    let unit = split_exact(text).map_or("", |(_, _, unit)| unit);
    let fail = || UnitError::Volume(text.to_string());
    if !unit.ends_with(['b', 'B']) {
        return Err(fail());
    }
    parse_size(text).map_err(|_| fail())
}

/// Parses a whole number with an optional decimal suffix, such as `12000000`, `1.5k`, `12M` or `2G`. The suffix is
/// `k` or `K` (10^3), `M` (10^6), `G` or `B` (10^9), or `T` (10^12).
///
/// # Errors
/// [`UnitError::Count`] if the text is not a count, or the count exceeds [`MAX_COUNT`].
pub fn parse_count(text: &str) -> Result<u64, UnitError> {
    let read = || {
        let (digits, places, unit) = split_exact(text)?;
        let factor = match unit {
            "" => 1,
            "k" | "K" => 1_000,
            "M" => 1_000_000,
            "G" | "B" => 1_000_000_000,
            "T" => 1_000_000_000_000,
            _ => return None,
        };
        whole(digits, places, factor).filter(|count| *count <= u128::from(MAX_COUNT))
    };
    read().map(|count| count as u64).ok_or_else(|| UnitError::Count(text.to_string()))
}

/// Maximum count: more requests than any store serves in a month.
pub const MAX_COUNT: u64 = 1_000_000_000_000_000;

/// Parses a duration, such as `250us`, `10ms`, `30s`, `5m` or `1h`, and returns nanoseconds.
///
/// # Errors
/// [`UnitError::Duration`] if the text is not a duration, or has no unit (except `0`); [`UnitError::TooLong`] if it
/// exceeds 10^17 ns.
pub fn parse_duration(text: &str) -> Result<u64, UnitError> {
    let fail = || UnitError::Duration(text.to_string());
    let (number, unit) = split(text).ok_or_else(fail)?;
    let factor = match unit {
        "" if number == 0.0 => 1.0,
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" | "min" => 60e9,
        "h" => 3_600e9,
        _ => return Err(fail()),
    };
    let ns = (number * factor).round();
    if ns > 1e17 {
        return Err(UnitError::TooLong(text.to_string()));
    }
    Ok(ns as u64)
}

/// Parses a rate, such as `500/s`, `30/m` or `0.5/s`, and returns operations per second.
///
/// # Errors
/// [`UnitError::Rate`] if the text is not a rate, or the rate is zero or exceeds 10^7 per second.
pub fn parse_rate(text: &str) -> Result<f64, UnitError> {
    let fail = || UnitError::Rate(text.to_string());
    let (number, unit) = split(text).ok_or_else(fail)?;
    let per_s = match unit.trim_start_matches('/').trim() {
        "s" | "sec" => number,
        "m" | "min" => number / 60.0,
        "h" => number / 3_600.0,
        _ => return Err(fail()),
    };
    if !unit.starts_with('/') || per_s <= 0.0 || per_s > 1e7 {
        return Err(fail());
    }
    Ok(per_s)
}

/// Parses a throughput, such as `5 Gbit/s`, `100 MB/s` (decimal) or `1 GiB/s` (binary), and returns bytes per second.
///
/// # Errors
/// [`UnitError::Throughput`] if the text is not a throughput.
pub fn parse_throughput(text: &str) -> Result<f64, UnitError> {
    let fail = || UnitError::Throughput(text.to_string());
    let (number, unit) = split(text).ok_or_else(fail)?;
    let factor = match unit.strip_suffix("/s").ok_or_else(fail)?.trim() {
        "bit" => 0.125,
        "kbit" => 125.0,
        "Mbit" => 125e3,
        "Gbit" => 125e6,
        "Tbit" => 125e9,
        "" => return Err(fail()),
        other => parse_size(&format!("1 {other}")).map_err(|_| fail())? as f64,
    };
    Ok(number * factor)
}

/// Formats a size exactly, in the largest binary unit that divides it.
pub fn format_size(bytes: u64) -> String {
    for (unit, shift) in [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)] {
        if bytes != 0 && bytes.is_multiple_of(1 << shift) {
            return format!("{} {unit}", bytes >> shift);
        }
    }
    format!("{bytes} B")
}

/// Formats a number of bytes for display: exactly if it is below 10 KiB or a whole number of binary
/// units, else with one decimal.
pub fn format_bytes(n: u64) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match units
        .iter()
        .find(|(_, shift)| n >= 10 << *shift || (n >= 1 << *shift && n.is_multiple_of(1 << *shift)))
    {
        Some((unit, shift)) if n.is_multiple_of(1 << *shift) => format!("{} {unit}", n >> shift),
        Some((unit, shift)) => format!("{:.1} {unit}", n as f64 / (1u64 << shift) as f64),
        None => format_size(n),
    }
}

/// Formats an amount of data for display, in decimal units with up to three decimals. Amounts below 1 MB, and multiples
/// of 512 MiB from 1 GiB that are not multiples of 1 GB, are in binary units.
pub fn format_volume(bytes: u64) -> String {
    let binary = bytes >= 1 << 30 && bytes.is_multiple_of(1 << 29);
    if bytes < 1_000_000 || binary && !bytes.is_multiple_of(1_000_000_000) {
        return format_bytes(bytes);
    }
    let units = [("PB", 15), ("TB", 12), ("GB", 9), ("MB", 6)];
    let (unit, power) = units.into_iter().find(|(_, power)| bytes >= 10u64.pow(*power)).unwrap_or(("MB", 6));
    let digits = if bytes / 10u64.pow(power) >= 100 { 1 } else { 3 };
    let (step, one) = (10u128.pow(digits), 10u128.pow(power));
    let rounded = (u128::from(bytes) * step + one / 2) / one;
    let (whole, rest) = (rounded / step, rounded % step);
    if whole == 1000 && power < 15 {
        return format_volume(10u64.pow(power + 3));
    }
    let fraction = format!("{rest:0width$}", width = digits as usize);
    match fraction.trim_end_matches('0') {
        "" => format!("{whole} {unit}"),
        fraction => format!("{whole}.{fraction} {unit}"),
    }
}

/// Formats a duration in nanoseconds for people: `30s`, `1h`, `667ms`, `19.9s`. It has three digits at least, and the
/// exact value if that is a whole number of a unit.
pub fn show_duration(ns: u64) -> String {
    let is_whole = ns.is_multiple_of(SECOND) || (ns < SECOND && ns.is_multiple_of(SECOND / 1000));
    match ns as f64 / SECOND as f64 {
        _ if is_whole => format_duration(ns),
        seconds if seconds < 0.001 => format!("{:.3}ms", seconds * 1e3),
        seconds if seconds < 0.9995 => format!("{:.0}ms", seconds * 1e3),
        seconds if seconds < 99.95 => format!("{seconds:.1}s"),
        seconds => format_duration(seconds.round() as u64 * SECOND),
    }
}

/// Formats a duration exactly, in the largest unit that divides it.
pub fn format_duration(ns: u64) -> String {
    for (unit, size) in
        [("h", 3_600 * SECOND), ("m", 60 * SECOND), ("s", SECOND), ("ms", 1_000_000), ("us", 1_000)]
    {
        if ns != 0 && ns.is_multiple_of(size) {
            return format!("{}{unit}", ns / size);
        }
    }
    if ns == 0 { "0s".into() } else { format!("{ns}ns") }
}

/// Formats a rate exactly, as `N/s`.
pub fn format_rate(per_s: f64) -> String {
    format!("{per_s}/s")
}

/// Formats operations per second for display: without decimals from 99.5, with one from 9.95, with two below.
pub fn format_per_s(per_s: f64) -> String {
    let decimals = if per_s >= 99.5 {
        0
    } else if per_s >= 9.95 {
        1
    } else {
        2
    };
    format!("{per_s:.decimals$}")
}

/// Formats a throughput for display, in MB/s below 1 GB/s and in GB/s above (decimal units).
pub fn format_throughput(bytes_per_s: f64) -> String {
    if bytes_per_s >= 1e9 {
        format!("{:.2} GB/s", bytes_per_s / 1e9)
    } else if bytes_per_s >= 1e8 {
        format!("{:.0} MB/s", bytes_per_s / 1e6)
    } else {
        format!("{:.2} MB/s", bytes_per_s / 1e6)
    }
}

/// Formats milliseconds with three significant digits, which is the resolution of the histograms.
pub fn format_ms(ms: f64) -> String {
    let decimals = if ms >= 100.0 {
        0
    } else if ms >= 10.0 {
        1
    } else if ms >= 1.0 {
        2
    } else {
        3
    };
    format!("{ms:.decimals$}")
}

/// Returns short names of stores for display: URLs without parameters if these are distinct; the hosts of the endpoints
/// if only these differ; else URLs with the hosts if these are distinct, else the full URLs.
pub fn short_names(stores: &[&str]) -> Vec<String> {
    let short = |store: &&str| store.split('?').next().unwrap_or(store).trim_end_matches('/').to_string();
    let host = |store: &&str| {
        let host = store.split_once("endpoint=").map_or("", |(_, rest)| rest.split('&').next().unwrap_or(""));
        host.split_once("://").map_or(host, |(_, host)| host).trim_end_matches('/').to_string()
    };
    let with_host = |store: &&str| match host(store) {
        none if none.is_empty() => short(store),
        host => format!("{} at {host}", short(store)),
    };
    let one_bucket = stores.iter().all(|store| short(store) == short(&stores[0]) && !host(store).is_empty());
    let hosts = if one_bucket { stores.iter().map(host).collect() } else { Vec::new() };
    let distinct =
        |names: &Vec<String>| names.iter().collect::<std::collections::HashSet<_>>().len() == stores.len();
    let names = [stores.iter().map(short).collect(), hosts, stores.iter().map(with_host).collect::<Vec<_>>()];
    names.into_iter().find(distinct).unwrap_or_else(|| stores.iter().map(|s| (*s).to_string()).collect())
}

/// Inserts thousands separators into digits: `2,900,006`.
pub fn grouped(digits: &str) -> String {
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a count with thousands separators: `1,234,567`.
pub fn format_count(n: u64) -> String {
    grouped(&n.to_string())
}

/// Formats a count with its noun, in the plural if the count is not 1: `1 run`, `1,234 runs`.
pub fn counted(n: u64, noun: &str) -> String {
    format!("{} {noun}{}", format_count(n), if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_units_are_binary_or_decimal() {
        assert_eq!(parse_size("1KiB"), Ok(1024));
        assert_eq!(parse_size(" 9 GiB "), Ok(9 << 30));
        assert_eq!(parse_size("10 MB"), Ok(10_000_000));
        assert_eq!(parse_size("1.5MiB"), Ok(1_572_864));
        assert_eq!(parse_size("0"), Ok(0));
        for bad in ["", "KiB", "1 XB", "-1", "1.5B", "nan", "99999999 TiB", "1.2.3MB", "5 EiB"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }

    /// Regression test: `1.3TiB` was rejected because it is not a whole number of bytes.
    #[test]
    fn fractions_of_binary_units_are_rounded_to_whole_bytes() {
        // 1.3 x 2^40 = 1,429,365,116,108.8 and 0.1 x 2^50 = 112,589,990,684,262.4. 3.9 x 2^60, whose fraction is .4,
        // exceeds the precision of a double.
        assert_eq!(parse_volume("1.3TiB"), Ok(1_429_365_116_109));
        assert_eq!(parse_volume("0.1 PiB"), Ok(112_589_990_684_262));
        assert_eq!(parse_volume("3.9EiB"), Ok(4_496_393_867_966_703_206));
        assert_eq!(parse_size("0.3 KiB"), Ok(307));
        assert_eq!(parse_size("0.00048828125KiB"), Ok(1), "half a byte is rounded up");
        for bad in ["0.0001KiB", "0.5B", "1.3", "1.3.1TiB"] {
            assert!(parse_volume(bad).is_err(), "{bad}");
        }
    }

    /// Regression test: sizes were parsed as floating-point numbers, which are exact only up to 9 PB.
    #[test]
    fn volumes_and_counts_are_exact() {
        assert_eq!(parse_volume("10PB"), Ok(10_000_000_000_000_000));
        assert_eq!(parse_volume("1.5 PiB"), Ok(3 << 49));
        assert_eq!(parse_volume("0.1 GB"), Ok(100_000_000));
        assert_eq!(parse_count("12M"), Ok(12_000_000));
        assert_eq!(parse_count("1_000.5k"), Ok(1_000_500));
        for bad in ["100", "10T", "10 P", "-1 GB", "", "GB", "100 EB"] {
            assert!(parse_volume(bad).is_err(), "{bad}");
        }
        for bad in ["", "1.5", "-3", "12 MB", "1e9", "2000T"] {
            assert!(parse_count(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn volumes_are_formatted_in_round_units() {
        let reformat = |text: &str| format_volume(parse_volume(text).unwrap());
        assert_eq!(
            [reformat("10PB"), reformat("1.5TB"), reformat("50 TiB"), reformat("1 KiB")],
            ["10 PB", "1.5 TB", "50 TiB", "1 KiB"]
        );
        assert_eq!(reformat("12582912000000B"), "12.583 TB");
        // Amounts of 100 units or more have one decimal, rounded.
        assert_eq!(
            [reformat("118.39TB"), reformat("999.999GB"), reformat("123.456GB")],
            ["118.4 TB", "1 TB", "123.5 GB"]
        );
    }

    /// Regression test: two stores with the same bucket name had the same short name.
    /// Regression test: plans and progress showed lengths such as 666666667ns.
    #[test]
    fn people_see_no_nanoseconds() {
        let shown = [0, 30 * SECOND, 666_666_667, 19_931_342_399, 250_000_000, 125_400_000_000, 1_500]
            .map(show_duration);
        assert_eq!(shown, ["0s", "30s", "667ms", "19.9s", "250ms", "125s", "0.002ms"]);
    }

    #[test]
    fn short_names_of_stores_are_distinct() {
        assert_eq!(short_names(&["s3://a?x=1", "s3://b?x=2"]), ["s3://a", "s3://b"]);
        assert_eq!(short_names(&["s3://a?x=1", "s3://a?x=2"]), ["s3://a?x=1", "s3://a?x=2"]);
        let on = |bucket: &str, host: &str| format!("s3://{bucket}?endpoint=http://{host}&region=r");
        assert_eq!(short_names(&[&on("a", "one"), &on("a", "two")]), ["one", "two"]);
        assert_eq!(short_names(&["s3://a", &on("a", "two")]), ["s3://a", "s3://a at two"]);
    }

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(parse_duration("250ms"), Ok(250_000_000));
        assert_eq!(parse_duration("1.5s"), Ok(1_500_000_000));
        assert_eq!(parse_duration("5m"), Ok(300 * SECOND));
        assert_eq!(parse_duration("0"), Ok(0));
        for bad in ["30", "s", "-1s", "1 day"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn rates_are_per_second() {
        assert_eq!(parse_rate("500/s"), Ok(500.0));
        assert_eq!(parse_rate("30/m"), Ok(0.5));
        for bad in ["500", "0/s", "/s", "5/d", "5s"] {
            assert!(parse_rate(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn formatted_quantities_parse_back() {
        for bytes in [0, 1, 1000, 1024, 1536, 5 << 20, 3 << 40] {
            assert_eq!(parse_size(&format_size(bytes)), Ok(bytes));
        }
        for ns in [0, 7, 1_000, 1_500_000, SECOND, 90 * SECOND, 7_200 * SECOND] {
            assert_eq!(parse_duration(&format_duration(ns)), Ok(ns));
        }
        assert_eq!(parse_rate(&format_rate(0.25)), Ok(0.25));
        assert_eq!(format_count(1_234_567), "1,234,567");
    }
}
