//! Parsers for numbers in requests. They accept digits only; `str::parse` also accepts a sign, which no field of the S3
//! protocol has.

/// Parses an unsigned decimal number. Returns `None` if the text is empty, contains a character that is not a digit, or
/// exceeds 64 bits.
pub fn decimal(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

/// Parses an unsigned hexadecimal number without a `0x` prefix. Returns `None` if the text is empty, contains a
/// character that is not a hexadecimal digit, or exceeds 64 bits.
pub fn hexadecimal(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|c| c.is_ascii_hexdigit());
    if digits { u64::from_str_radix(text, 16).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_blanks_and_prefixes_are_rejected() {
        assert_eq!(
            (decimal("0"), decimal("0010"), decimal("18446744073709551615")),
            (Some(0), Some(10), Some(u64::MAX))
        );
        assert_eq!((hexadecimal("0"), hexadecimal("fF")), (Some(0), Some(255)));
        for wrong in ["", "+1", "-1", " 1", "1 ", "a\u{e9}", "99999999999999999999"] {
            assert_eq!(decimal(wrong), None, "{wrong:?}");
        }
        for wrong in ["", "+a", "-a", " a", "0x1", "fffffffffffffffff"] {
            assert_eq!(hexadecimal(wrong), None, "{wrong:?}");
        }
    }
}
