//! The wire format of Azure Blob Storage: signatures with the account's key, and the documents of its REST API.

pub mod message;
pub mod sign;

use crate::checksum::{Algorithm, BodyChecksum, base64, from_base64};

/// Version of the REST API that requests name (`x-ms-version`): the first one with the cold tier.
pub const API_VERSION: &str = "2021-12-02";

/// Returns the CRC64 of a body, in base64. It is S3's CRC-64/NVME with its bytes in the opposite order (REST API
/// reference, `x-ms-content-crc64`).
pub fn crc64(pieces: impl Iterator<Item = impl AsRef<[u8]>>) -> String {
    swapped(&BodyChecksum::Declared(Algorithm::Crc64Nvme).of(pieces))
}

/// Reverses the bytes of a sum in base64; empty if it is invalid.
pub fn swapped(sum: &str) -> String {
    let mut bytes = from_base64(sum).unwrap_or_default();
    bytes.reverse();
    base64(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crc64_has_the_order_of_bytes_of_azure() {
        // CRC-64/NVME of "123456789" is ae8b14860a799888 (catalogue of parametrised CRC algorithms).
        assert_eq!(crc64([b"123456789"].into_iter()), base64(&0xae8b_1486_0a79_9888_u64.to_le_bytes()));
    }
}
