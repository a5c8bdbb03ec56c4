//! Money in whole picodollars (10^-12 dollars), so that the price of a single byte is not rounded to zero.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Neg, Sub};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use plimsoll_base::units::grouped;

/// Number of decimal places.
const PLACES: usize = 12;
/// Picodollars per dollar.
const DOLLAR: i128 = 1_000_000_000_000;
/// Picodollars per cent.
const CENT: i128 = DOLLAR / 100;

/// An amount of US dollars, exact to 10^-12.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Usd(i128);

/// Error for a text that is not a dollar amount.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("'{0}' is not a dollar amount; use a decimal number such as 0.023, with at most 12 decimal places")]
pub struct AmountError(pub String);

impl Usd {
    /// Zero US dollars.
    pub const ZERO: Usd = Usd(0);

    /// Creates an amount from a number of picodollars.
    pub fn from_pico(pico: i128) -> Usd {
        Usd(pico)
    }

    /// Returns the number of picodollars.
    pub fn pico(self) -> i128 {
        self.0
    }

    /// Returns the number of dollars, for charts and ratios. Do not add such values: they are not exact.
    pub fn dollars(self) -> f64 {
        self.0 as f64 / DOLLAR as f64
    }

    /// Parses a non-negative decimal, such as `0.00113`.
    ///
    /// # Errors
    /// [`AmountError`] for any other text.
    pub fn parse(text: &str) -> Result<Usd, AmountError> {
        decimal(text).map(|pico| Usd(pico as i128)).ok_or_else(|| AmountError(text.to_string()))
    }

    /// Formats the amount for people, rounded to the cent: `$2,900,006.00`.
    pub fn cents(self) -> String {
        let cents = (self.0.abs() + CENT / 2) / CENT;
        let whole = grouped(&(cents / 100).to_string());
        let sign = if self.0 < 0 && cents > 0 { "-" } else { "" };
        format!("{sign}${whole}.{:02}", cents % 100)
    }

    /// Formats the amount for people: to the cent, or with three significant digits if it is below ten cents:
    /// `$0.0000123`.
    pub fn rounded(self) -> String {
        if self.0 == 0 || self.0.abs() >= 10 * CENT {
            return self.cents();
        }
        // Round to three significant digits.
        let mut places = 2;
        let mut unit = CENT;
        while self.0.abs() < 100 * unit && unit > 1 {
            (places, unit) = (places + 1, unit / 10);
        }
        let rounded = (self.0.abs() + unit / 2) / unit;
        let text = format!("{rounded:0>width$}", width = places + 1);
        let (whole, fraction) = text.split_at(text.len() - places);
        format!("{}${whole}.{fraction}", if self.0 < 0 { "-" } else { "" })
    }
}

/// Parses a non-negative decimal into units of 10^-12; `None` if the text is not such a decimal.
pub fn decimal(text: &str) -> Option<u128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |s: &str| s.chars().all(|c| c.is_ascii_digit());
    if whole.is_empty() || whole.len() > 18 || fraction.len() > PLACES || !digits(whole) || !digits(fraction)
    {
        return None;
    }
    format!("{whole}{fraction:0<PLACES$}").parse().ok()
}

/// Formats a number in units of 10^-12 as a decimal with at least `least` decimal places and without further
/// trailing zeros.
pub fn decimal_text(pico: i128, least: usize) -> String {
    let (whole, fraction) = (pico.unsigned_abs() / DOLLAR as u128, pico.unsigned_abs() % DOLLAR as u128);
    let fraction = format!("{fraction:0PLACES$}");
    let fraction = fraction.trim_end_matches('0');
    let sign = if pico < 0 { "-" } else { "" };
    if fraction.is_empty() && least == 0 {
        return format!("{sign}{whole}");
    }
    format!("{sign}{whole}.{fraction:0<least$}")
}

/// Formats the amount as a plain decimal: `2900006.00`, `0.00113`.
impl fmt::Display for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&decimal_text(self.0, 2))
    }
}

impl Add for Usd {
    type Output = Usd;
    fn add(self, other: Usd) -> Usd {
        Usd(self.0 + other.0)
    }
}

impl AddAssign for Usd {
    fn add_assign(&mut self, other: Usd) {
        self.0 += other.0;
    }
}

impl Sub for Usd {
    type Output = Usd;
    fn sub(self, other: Usd) -> Usd {
        Usd(self.0 - other.0)
    }
}

impl Neg for Usd {
    type Output = Usd;
    fn neg(self) -> Usd {
        Usd(-self.0)
    }
}

impl Mul<i64> for Usd {
    type Output = Usd;
    fn mul(self, times: i64) -> Usd {
        Usd(self.0 * i128::from(times))
    }
}

impl Sum for Usd {
    fn sum<I: Iterator<Item = Usd>>(amounts: I) -> Usd {
        amounts.fold(Usd::ZERO, Add::add)
    }
}

impl Serialize for Usd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Usd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Usd, D::Error> {
        let text = String::deserialize(deserializer)?;
        let (sign, magnitude) = text.strip_prefix('-').map_or((1, text.as_str()), |rest| (-1, rest));
        Usd::parse(magnitude).map(|usd| usd * sign).map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Usd {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Usd".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": "US dollars as a decimal, such as \"0.023\".",
            "pattern": "^-?[0-9]{1,27}(\\.[0-9]{1,12})?$"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_and_written_exactly() {
        for (text, written, cents) in [
            ("0.00113", "0.00113", "$0.00"),
            ("2900006", "2900006.00", "$2,900,006.00"),
            ("0.000000000001", "0.000000000001", "$0.00"),
            ("999999.995", "999999.995", "$1,000,000.00"),
            ("0.0045", "0.0045", "$0.00"),
            ("0.005", "0.005", "$0.01"),
        ] {
            let usd = Usd::parse(text).unwrap();
            assert_eq!((usd.to_string().as_str(), usd.cents().as_str()), (written, cents));
        }
        for bad in ["", "-1", "1e3", "0.0000000000001", ".5", "1.2.3", "ten", "1 000"] {
            assert!(Usd::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn small_amounts_are_not_shown_as_zero() {
        let shown = |text: &str| Usd::parse(text).unwrap().rounded();
        assert_eq!(shown("0.00001234567"), "$0.0000123");
        assert_eq!(shown("0"), "$0.00");
        assert_eq!(shown("0.0567891"), "$0.0568");
        assert_eq!(shown("12.3456"), "$12.35");
        assert_eq!((-Usd::parse("0.0011").unwrap()).rounded(), "-$0.00110");
        assert_eq!(shown("0.000000000001"), "$0.000000000001");
    }

    #[test]
    fn a_negative_amount_that_rounds_to_zero_has_no_sign() {
        assert_eq!((-Usd::parse("0.001").unwrap()).cents(), "$0.00");
        assert_eq!((-Usd::parse("0.011").unwrap()).cents(), "-$0.01");
    }
}
