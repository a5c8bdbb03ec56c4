//! Decimal numbers of bills: exact to 12 decimal places.

/// One, in units of 10^-12.
pub const ONE: i128 = 1_000_000_000_000;

/// Maximum number of digits of a number and of its exponent's shift, beyond which it is not one of a bill.
const MAX_DIGITS: usize = 60;

/// Parses a decimal number, which may have a sign, an exponent, and commas between groups of three digits. Digits
/// beyond 12 decimal places are rounded, half away from zero. `None` if it is not a number, or too large.
pub fn parse(text: &str) -> Option<i128> {
    let text = text.trim();
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let whole = ungrouped(whole)?;
    let is_number = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit());
    if whole.len() + fraction.len() > MAX_DIGITS || !is_number(&whole) || !is_number(fraction) {
        return None;
    }
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let digits: i128 = format!("{whole}{fraction}")
        .trim_start_matches('0')
        .parse()
        .or_else(|_| {
            let all_zero = whole.bytes().chain(fraction.bytes()).all(|digit| digit == b'0');
            if all_zero { Ok(0) } else { Err(()) }
        })
        .ok()?;
    let shift = exponent.checked_add(12)?.checked_sub(i64::try_from(fraction.len()).ok()?)?;
    let value = match u32::try_from(shift) {
        Ok(_) if digits == 0 => 0,
        Ok(up) => digits.checked_mul(10i128.checked_pow(up)?)?,
        Err(_) if shift > 0 => return (digits == 0).then_some(0),
        Err(_) => match u32::try_from(shift.unsigned_abs()).ok().and_then(|down| 10i128.checked_pow(down)) {
            Some(down) => (digits + down / 2) / down,
            None => 0,
        },
    };
    Some(if negative { -value } else { value })
}

/// Removes commas between groups of three digits; `None` if they are elsewhere.
fn ungrouped(whole: &str) -> Option<String> {
    let mut groups = whole.split(',');
    let first = groups.next()?;
    let mut out = first.to_string();
    let grouped = whole.contains(',');
    if grouped && (first.is_empty() || first.len() > 3) {
        return None;
    }
    for group in groups {
        if group.len() != 3 {
            return None;
        }
        out.push_str(group);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_bills_are_exact() {
        for (text, value) in [
            ("4226.8048462018", 4_226_804_846_201_800),
            ("0", 0),
            ("0.000000", 0),
            ("-0.5", -ONE / 2),
            ("1,234,567.25", 1_234_567_250_000_000_000),
            ("2.053598493049989E17", 205_359_849_304_998_900 * ONE),
            ("1e-7", 100_000),
            ("0.0000000000005", 1),
            ("0.00000000000049", 0),
            ("1E-400", 0),
            ("1e-2147483648", 0),
            ("0e9999999999", 0),
            (" 18 ", 18 * ONE),
            ("000000000000000000000000000000000000001.0", ONE),
        ] {
            assert_eq!(parse(text), Some(value), "{text}");
        }
        for text in [
            "",
            "-",
            ".",
            "1,23",
            "12,34,567",
            "1e",
            "x",
            "1e99",
            "1.2.3",
            "NaN",
            "1,2345",
            "--1",
            "1e2147483647",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
