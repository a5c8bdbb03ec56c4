//! The run-length encodings of integers, versions 1 and 2 (ORC specification, "Run Length Encoding").

use super::Problem;
use super::stream::Stream;

/// Integers of a stream.
pub struct Integers {
    from: Stream,
    is_second: bool,
    is_signed: bool,
    run: Vec<i64>,
    position: usize,
}

/// Decodes a signed number of the zigzag encoding.
fn zigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Returns the number of bits that a code of five bits stands for.
fn width(code: u8) -> u32 {
    match code {
        0..=23 => u32::from(code) + 1,
        24 => 26,
        25 => 28,
        26 => 30,
        27 => 32,
        28 => 40,
        29 => 48,
        30 => 56,
        _ => 64,
    }
}

/// Returns the least number of bits that has a code and is not below `bits`.
fn fitting(bits: u32) -> u32 {
    (0..32).map(width).find(|width| *width >= bits).unwrap_or(64)
}

impl Integers {
    /// Creates the reader of a stream, in the second version of the encoding if `is_second` is true.
    pub fn new(from: Stream, is_second: bool, is_signed: bool) -> Integers {
        Integers { from, is_second, is_signed, run: Vec::new(), position: 0 }
    }

    /// Returns the next integer.
    pub fn next(&mut self) -> Result<i64, Problem> {
        if self.position >= self.run.len() {
            self.run.clear();
            self.position = 0;
            if self.is_second { self.second()? } else { self.first()? }
        }
        self.position += 1;
        self.run.get(self.position - 1).copied().ok_or_else(|| "a run is empty".into())
    }

    fn plain(&self, value: u64) -> i64 {
        if self.is_signed { zigzag(value) } else { value as i64 }
    }

    fn first(&mut self) -> Result<(), Problem> {
        let control = self.from.byte()?;
        if control < 128 {
            let delta = i64::from(self.from.byte()? as i8);
            let value = self.from.varint()?;
            let base = self.plain(value);
            let run = (0..i64::from(control) + 3).map(|n| base.wrapping_add(n.wrapping_mul(delta)));
            self.run.extend(run);
            return Ok(());
        }
        for _ in 0..256 - usize::from(control) {
            let value = self.from.varint()?;
            self.run.push(self.plain(value));
        }
        Ok(())
    }

    fn second(&mut self) -> Result<(), Problem> {
        let head = self.from.byte()?;
        if head >> 6 == 0 {
            let value = self.big_endian(usize::from(head >> 3 & 7) + 1)?;
            let value = self.plain(value);
            self.run.resize(usize::from(head & 7) + 3, value);
            return Ok(());
        }
        let length = (usize::from(head & 1) << 8 | usize::from(self.from.byte()?)) + 1;
        let code = head >> 1 & 31;
        match head >> 6 {
            1 => {
                let values = self.packed(width(code), length)?;
                let plain: Vec<i64> = values.into_iter().map(|value| self.plain(value)).collect();
                self.run.extend(plain);
                Ok(())
            }
            2 => self.patched(width(code), length),
            _ => self.deltas(code, length),
        }
    }

    fn big_endian(&mut self, bytes: usize) -> Result<u64, Problem> {
        let mut value = 0;
        for _ in 0..bytes {
            value = value << 8 | u64::from(self.from.byte()?);
        }
        Ok(value)
    }

    /// Reads `count` numbers of `bits` bits each, which end at a byte.
    fn packed(&mut self, bits: u32, count: usize) -> Result<Vec<u64>, Problem> {
        let (mut out, mut byte, mut left) = (Vec::with_capacity(count), 0u8, 0u32);
        for _ in 0..count {
            let (mut value, mut wanted) = (0u64, bits);
            while wanted > 0 {
                if left == 0 {
                    (byte, left) = (self.from.byte()?, 8);
                }
                let taken = wanted.min(left);
                let part = u64::from(byte) >> (left - taken) & ((1 << taken) - 1);
                value = value << taken | part;
                (wanted, left) = (wanted - taken, left - taken);
            }
            out.push(value);
        }
        Ok(out)
    }

    fn patched(&mut self, bits: u32, length: usize) -> Result<(), Problem> {
        let (third, fourth) = (self.from.byte()?, self.from.byte()?);
        let base_bytes = usize::from(third >> 5) + 1;
        let (patch_bits, gap_bits) = (width(third & 31), u32::from(fourth >> 5) + 1);
        let base = self.big_endian(base_bytes)?;
        // The first bit of the base is its sign.
        let sign = 1u64 << (base_bytes * 8 - 1);
        let base = if base & sign == 0 { base as i64 } else { ((base & (sign - 1)) as i64).wrapping_neg() };
        let mut values = self.packed(bits, length)?;
        let entry = fitting(patch_bits + gap_bits);
        let mut at = 0;
        for patch in self.packed(entry, usize::from(fourth & 31))? {
            let gap = if patch_bits >= 64 { 0 } else { patch >> patch_bits };
            at += usize::try_from(gap).map_err(|e| e.to_string())?;
            let patch = if patch_bits >= 64 { patch } else { patch & ((1 << patch_bits) - 1) };
            let value = values.get_mut(at).ok_or("a patch lies beyond its run")?;
            *value |= patch.checked_shl(bits).unwrap_or(0);
        }
        self.run.extend(values.into_iter().map(|value| base.wrapping_add(value as i64)));
        Ok(())
    }

    fn deltas(&mut self, code: u8, length: usize) -> Result<(), Problem> {
        let value = self.from.varint()?;
        let base = self.plain(value);
        let first = zigzag(self.from.varint()?);
        self.run.push(base);
        if length == 1 {
            return Ok(());
        }
        let mut last = base.wrapping_add(first);
        self.run.push(last);
        let rest = length - 2;
        let steps = match code {
            0 => vec![first.unsigned_abs(); rest],
            code => self.packed(width(code), rest)?,
        };
        for step in steps {
            let step = step as i64;
            last = if first < 0 { last.wrapping_sub(step) } else { last.wrapping_add(step) };
            self.run.push(last);
        }
        Ok(())
    }
}
