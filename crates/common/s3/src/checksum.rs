//! Checksums that S3 requests can declare: Content-MD5 and the five `x-amz-checksum-*` algorithms.

use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use crc_fast::CrcAlgorithm;
use md5::{Digest as _, Md5};

/// A checksum algorithm of the S3 API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// CRC-32 (ISO-HDLC), sent big-endian.
    Crc32,
    /// CRC-32C (iSCSI), sent big-endian.
    Crc32c,
    /// CRC-64/NVME, sent big-endian.
    Crc64Nvme,
    /// SHA-1 (FIPS 180-4).
    Sha1,
    /// SHA-256 (FIPS 180-4).
    Sha256,
}

impl Algorithm {
    /// All algorithms, in the order of declaration.
    pub const ALL: [Algorithm; 5] =
        [Algorithm::Crc32, Algorithm::Crc32c, Algorithm::Crc64Nvme, Algorithm::Sha1, Algorithm::Sha256];

    /// Returns the name of the header or trailer that carries the checksum.
    pub fn header(self) -> &'static str {
        match self {
            Algorithm::Crc32 => "x-amz-checksum-crc32",
            Algorithm::Crc32c => "x-amz-checksum-crc32c",
            Algorithm::Crc64Nvme => "x-amz-checksum-crc64nvme",
            Algorithm::Sha1 => "x-amz-checksum-sha1",
            Algorithm::Sha256 => "x-amz-checksum-sha256",
        }
    }

    /// Returns the name used in XML and in `x-amz-checksum-algorithm`.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Crc32 => "CRC32",
            Algorithm::Crc32c => "CRC32C",
            Algorithm::Crc64Nvme => "CRC64NVME",
            Algorithm::Sha1 => "SHA1",
            Algorithm::Sha256 => "SHA256",
        }
    }

    /// Returns the algorithm with this name, ignoring case.
    pub fn from_name(name: &str) -> Option<Algorithm> {
        Algorithm::ALL.into_iter().find(|a| a.name().eq_ignore_ascii_case(name))
    }

    /// Returns the algorithm whose header has this name, ignoring case.
    pub fn from_header(header: &str) -> Option<Algorithm> {
        Algorithm::ALL.into_iter().find(|a| a.header().eq_ignore_ascii_case(header))
    }

    /// Returns the length of a checksum in bytes.
    pub fn size(self) -> usize {
        match self {
            Algorithm::Crc32 | Algorithm::Crc32c => 4,
            Algorithm::Crc64Nvme => 8,
            Algorithm::Sha1 => 20,
            Algorithm::Sha256 => 32,
        }
    }

    /// Returns true for a CRC, which can cover a whole multipart object.
    pub fn is_crc(self) -> bool {
        self.size() <= 8
    }

    /// Computes the checksum of `data`, in base64 as on the wire.
    pub fn of(self, data: &[u8]) -> String {
        let mut hasher = Hasher::new(self);
        hasher.update(data);
        hasher.finish()
    }
}

/// An incremental checksum computation.
pub enum Hasher {
    /// A CRC, and its length in bytes.
    Crc(Box<crc_fast::Digest>, usize),
    /// SHA-1 or SHA-256.
    Sha(digest::Context),
    /// An MD5 of RFC 1321.
    Md5(Md5),
}

impl Hasher {
    /// Starts a checksum over no bytes.
    pub fn new(algorithm: Algorithm) -> Hasher {
        let crc = |a| Hasher::Crc(Box::new(crc_fast::Digest::new(a)), algorithm.size());
        match algorithm {
            Algorithm::Crc32 => crc(CrcAlgorithm::Crc32IsoHdlc),
            Algorithm::Crc32c => crc(CrcAlgorithm::Crc32Iscsi),
            Algorithm::Crc64Nvme => crc(CrcAlgorithm::Crc64Nvme),
            Algorithm::Sha1 => Hasher::Sha(digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY)),
            Algorithm::Sha256 => Hasher::Sha(digest::Context::new(&digest::SHA256)),
        }
    }

    /// Adds `data` to the checksum.
    pub fn update(&mut self, data: &[u8]) {
        match self {
            Hasher::Crc(digest, _) => digest.update(data),
            Hasher::Sha(context) => context.update(data),
            Hasher::Md5(md5) => md5.update(data),
        }
    }

    /// Returns the checksum, in base64 as on the wire.
    pub fn finish(self) -> String {
        match self {
            Hasher::Crc(digest, len) => STANDARD.encode(&digest.finalize().to_be_bytes()[8 - len..]),
            Hasher::Sha(context) => STANDARD.encode(context.finish()),
            Hasher::Md5(md5) => base64(&md5.finalize()),
        }
    }
}

/// A checksum that an upload can declare for its body: Content-MD5 or one of the `x-amz-checksum-*` headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BodyChecksum {
    /// The `Content-MD5` header (RFC 1864).
    Md5,
    /// An `x-amz-checksum-*` header.
    Declared(Algorithm),
}

impl BodyChecksum {
    /// Returns the checksum with this name, as written in provider profiles and store URLs.
    pub fn from_name(name: &str) -> Option<BodyChecksum> {
        let all = Algorithm::ALL.into_iter().map(BodyChecksum::Declared);
        std::iter::once(BodyChecksum::Md5).chain(all).find(|c| c.name() == name)
    }

    /// Returns the name used in provider profiles and store URLs, such as `md5` or `crc32c`.
    pub fn name(self) -> &'static str {
        match self {
            BodyChecksum::Md5 => "md5",
            BodyChecksum::Declared(Algorithm::Crc32) => "crc32",
            BodyChecksum::Declared(Algorithm::Crc32c) => "crc32c",
            BodyChecksum::Declared(Algorithm::Crc64Nvme) => "crc64nvme",
            BodyChecksum::Declared(Algorithm::Sha1) => "sha1",
            BodyChecksum::Declared(Algorithm::Sha256) => "sha256",
        }
    }

    /// Returns the name of the header that carries the checksum, in lower case.
    pub fn header(self) -> &'static str {
        match self {
            BodyChecksum::Md5 => "content-md5",
            BodyChecksum::Declared(algorithm) => algorithm.header(),
        }
    }

    /// Computes the checksum of the concatenated pieces, in base64 as on the wire.
    pub fn of(self, pieces: impl Iterator<Item = impl AsRef<[u8]>>) -> String {
        let mut hasher = self.hasher();
        pieces.for_each(|piece| hasher.update(piece.as_ref()));
        hasher.finish()
    }

    /// Starts a checksum over no bytes.
    pub fn hasher(self) -> Hasher {
        match self {
            BodyChecksum::Md5 => Hasher::Md5(Md5::new()),
            BodyChecksum::Declared(algorithm) => Hasher::new(algorithm),
        }
    }
}

/// Computes the MD5 (RFC 1321) of `data`, which entity tags and Content-MD5 contain.
pub fn md5(data: &[u8]) -> [u8; 16] {
    Md5::digest(data).into()
}

/// Encodes `data` in standard base64 with padding, as in Content-MD5.
pub fn base64(data: &[u8]) -> String {
    STANDARD.encode(data)
}

/// Decodes standard base64; returns `None` if `text` is not valid base64.
pub fn from_base64(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_match_published_check_values() {
        // "123456789": check values of the CRC RevEng catalogue; SHA values from FIPS 180-4 tools.
        let expect = [
            (Algorithm::Crc32, "y/Q5Jg=="),
            (Algorithm::Crc32c, "4waSgw=="),
            (Algorithm::Crc64Nvme, "rosUhgp5mIg="),
            (Algorithm::Sha1, "98O8HYCOBHMq32eZZczDTKeuNEE="),
            (Algorithm::Sha256, "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU="),
        ];
        for (algorithm, value) in expect {
            let bytes = from_base64(&algorithm.of(b"123456789")).unwrap();
            assert_eq!(bytes.len(), algorithm.size());
            assert_eq!(algorithm.of(b"123456789"), value, "{algorithm:?}");
            assert_eq!(Algorithm::from_header(algorithm.header()), Some(algorithm));
            assert_eq!(Algorithm::from_name(algorithm.name()), Some(algorithm));
        }
        assert_eq!(plimsoll_base::net::encode::hex(&md5(b"")), "d41d8cd98f00b204e9800998ecf8427e");
    }
}
