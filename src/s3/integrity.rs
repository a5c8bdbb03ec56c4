//! What the tag and the checksum of a multipart object must be, from those of its parts (S3 user guide, "Checking object integrity").

use crc_fast::{CrcAlgorithm, checksum_combine};

use super::checksum::{Algorithm, base64, md5};
use crate::net::encode::hex;

/// The entity tag, without quotes, of an object whose parts have these MD5s: MD5 of them all, and their number.
pub fn multipart_etag(parts: &[[u8; 16]]) -> String {
    format!("{}-{}", hex(&md5(&parts.concat())), parts.len())
}

/// The checksum composed of the checksums of the parts: base64, with the number of parts behind it.
pub fn composite(algorithm: Algorithm, parts: &[Vec<u8>]) -> String {
    format!("{}-{}", algorithm.of(&parts.concat()), parts.len())
}

/// The checksum of the whole object, base64, from value and length of each part; `None` for algorithms that cannot be combined.
pub fn full_object(algorithm: Algorithm, parts: &[(Vec<u8>, u64)]) -> Option<String> {
    let kind = match algorithm {
        Algorithm::Crc32 => CrcAlgorithm::Crc32IsoHdlc,
        Algorithm::Crc32c => CrcAlgorithm::Crc32Iscsi,
        Algorithm::Crc64Nvme => CrcAlgorithm::Crc64Nvme,
        Algorithm::Sha1 | Algorithm::Sha256 => return None,
    };
    let number = |bytes: &[u8]| bytes.iter().fold(0u64, |n, b| n << 8 | u64::from(*b));
    let mut rest = parts.iter();
    let first = rest.next().map_or(0, |(value, _)| number(value));
    let crc = rest.fold(first, |crc, (value, len)| checksum_combine(kind, crc, number(value), *len));
    Some(base64(&crc.to_be_bytes()[8 - algorithm.size()..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::s3::checksum::from_base64;

    fn bytes(text: &str) -> [u8; 16] {
        let byte = |i: usize| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap();
        std::array::from_fn(byte)
    }

    #[test]
    fn the_tag_of_two_known_parts() {
        let parts = [bytes("bce6bf66aeb76c7040fdd5f4eccb78e6"), bytes("8165449fc15bbf43d3b674595cbcc406")];
        assert_eq!(multipart_etag(&parts), "f77dc0eecdebcd774a2a22cb393ad2ff-2");
    }

    #[test]
    fn combined_checksums_are_those_of_the_whole() {
        let data: Vec<u8> = (0..100_000u32).map(|i| (i * 7 % 251) as u8).collect();
        for algorithm in [Algorithm::Crc32, Algorithm::Crc32c, Algorithm::Crc64Nvme] {
            let part = |piece: &[u8]| (from_base64(&algorithm.of(piece)).unwrap(), piece.len() as u64);
            let parts: Vec<_> = data.chunks(33_333).map(part).collect();
            assert_eq!(full_object(algorithm, &parts), Some(algorithm.of(&data)), "{algorithm:?}");
        }
        assert_eq!(full_object(Algorithm::Sha256, &[]), None);
    }
}
