//! Expected entity tags and checksums of multipart objects, computed from those of their parts (S3 user guide,
//! "Checking object integrity").

use crc_fast::{CrcAlgorithm, checksum_combine};

use super::checksum::{Algorithm, base64, md5};
use plimsoll_base::net::encode::hex;

/// Returns the entity tag, without quotes, of a multipart object: the MD5 of the concatenated MD5s of its parts, `-`,
/// and the number of parts.
pub fn multipart_etag(parts: &[[u8; 16]]) -> String {
    format!("{}-{}", hex(&md5(&parts.concat())), parts.len())
}

/// Returns the composite checksum of a multipart object: the base64 checksum of the concatenated checksums of its
/// parts, `-`, and the number of parts.
pub fn composite(algorithm: Algorithm, parts: &[Vec<u8>]) -> String {
    format!("{}-{}", algorithm.of(&parts.concat()), parts.len())
}

/// Combines the checksum and length of each part into the base64 checksum of the whole object. Returns `None` for SHA-1
/// and SHA-256, which cannot be combined.
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
    use crate::checksum::from_base64;

    fn bytes(text: &str) -> [u8; 16] {
        let byte = |i: usize| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap();
        std::array::from_fn(byte)
    }

    #[test]
    fn multipart_etag_matches_a_known_object() {
        let parts = [bytes("bce6bf66aeb76c7040fdd5f4eccb78e6"), bytes("8165449fc15bbf43d3b674595cbcc406")];
        assert_eq!(multipart_etag(&parts), "f77dc0eecdebcd774a2a22cb393ad2ff-2");
    }

    #[test]
    fn combined_crcs_equal_the_crc_of_the_whole_object() {
        let data: Vec<u8> = (0..100_000u32).map(|i| (i * 7 % 251) as u8).collect();
        for algorithm in [Algorithm::Crc32, Algorithm::Crc32c, Algorithm::Crc64Nvme] {
            let part = |piece: &[u8]| (from_base64(&algorithm.of(piece)).unwrap(), piece.len() as u64);
            let parts: Vec<_> = data.chunks(33_333).map(part).collect();
            assert_eq!(full_object(algorithm, &parts), Some(algorithm.of(&data)), "{algorithm:?}");
        }
        assert_eq!(full_object(Algorithm::Sha256, &[]), None);
    }
}
