//! Encoding of records as go-ycsb writes them: a msgpack map from `field0`, `field1` and so on to bytes
//! (msgpack specification: fixmap and map 16, fixstr and str 8, bin 8 to bin 32).

use std::ops::Range;

use bytes::{BufMut, Bytes, BytesMut};

use super::dataset::Encoding;
use super::payload::Cut;

/// Encodes the given fields of a record. Field `i` contains the bytes of `cut` from `i * length` on.
pub fn encode(encoding: Encoding, cut: &Cut, fields: Range<u64>) -> Bytes {
    let length = u64::from(encoding.length);
    let mut out =
        BytesMut::with_capacity((fields.end - fields.start) as usize * (encoding.length as usize + 16) + 3);
    match fields.end - fields.start {
        n @ 0..16 => out.put_u8(0x80 | n as u8),
        n => {
            out.put_u8(0xde);
            out.put_u16(n as u16);
        }
    }
    for field in fields {
        let name = format!("field{field}");
        if name.len() < 32 {
            out.put_u8(0xa0 | name.len() as u8);
        } else {
            out.put_slice(&[0xd9, name.len() as u8]);
        }
        out.put_slice(name.as_bytes());
        match encoding.length {
            n @ 0..256 => out.put_slice(&[0xc4, n as u8]),
            n @ 256..65_536 => {
                out.put_u8(0xc5);
                out.put_u16(n as u16);
            }
            n => {
                out.put_u8(0xc6);
                out.put_u32(n);
            }
        }
        let (mut at, end) = (field * length, (field + 1) * length);
        while let Some(piece) = cut.piece(at, end) {
            at += piece.len() as u64;
            out.put_slice(&piece);
        }
    }
    out.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::Block;

    #[test]
    fn a_record_is_encoded_as_a_map_of_its_fields() {
        let cut = Block::new(1).cut(1, 2, 3, 200);
        let encoding = Encoding { fields: 2, length: 100, writes_all: false };
        let whole = encode(encoding, &cut, 0..2);
        assert_eq!(&whole[..10], b"\x82\xa6field0\xc4\x64");
        assert_eq!(whole.len(), 1 + 2 * (7 + 2 + 100));
        assert_eq!(cut.compare(0, &whole[10..110]), Ok(()));
        let one = encode(encoding, &cut, 1..2);
        assert_eq!(&one[..8], b"\x81\xa6field1");
        assert_eq!(cut.compare(100, &one[10..]), Ok(()));
    }
}
