//! Binary encoding of numbers and byte strings in keys and values.

/// Appends an unsigned number in base 128, least significant digit first.
pub fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a byte string with its length.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reader of encoded numbers and byte strings. Every function returns `None` at the end of the input.
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// Returns the next `len` bytes.
    pub fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        // The length may come from damaged bytes. Without the check, a damaged row would end the process.
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    /// Returns the next byte.
    pub fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    /// Returns the next number.
    pub fn number(&mut self) -> Option<u64> {
        let mut number = 0u64;
        // Ten digits hold 64 bits. Damaged bytes may continue without an end.
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    /// Returns the next byte string.
    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.number()?;
        self.take(usize::try_from(len).ok()?)
    }

    /// Returns the next byte string as text; `None` if it is not UTF-8.
    pub fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    /// Returns the next bytes as an array.
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_strings_survive_a_round_trip() {
        let mut out = Vec::new();
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            put_number(&mut out, number);
        }
        put_bytes(&mut out, b"text");
        let mut reader = Reader(&out);
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            assert_eq!(reader.number(), Some(number));
        }
        assert_eq!((reader.text(), reader.byte()), (Some("text"), None));
        assert_eq!(Reader(&[0x80]).number(), None);
        assert_eq!(Reader(&[5, 1]).bytes(), None);
    }
}
