use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::stream::CHUNK;
use super::*;

/// Keys of these tests only, written by `age-keygen` 1.1.1.
const FIRST: &str = "AGE-SECRET-KEY-1U2HZQSXFTW87ZP8RXP29C0AQXWH4QM3NZAJTTS7UH6K0ZGW8TAASEZ6LJW";
const SECOND: &str = "AGE-SECRET-KEY-1RRH6NHAH9CNHRFEQDQUVDU7M53TQU78DWP2SMJNQZ4C9W5DY9R4SS5XNX5";
/// `a known text`, encrypted by `age` 1.1.1 for the first key.
const FOR_FIRST: &str = "YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IFgyNTUxOSBMUUFsbFJGcGNpeCtWcU1kd1NkU2RqbUUwaFRqcGtFUDZpb0liYk45M1RnClVqRkplM09HMlIwT3krUG5Gb05GOTFkQ1Y0cDVtQkREOFBsZ0RCTWV3WkkKLS0tIEpML3pJdlhLaEVEblBNMWJiT0kySVZSeFI4UHAybVRoR2FpSG5pd21XMkkKItVMawkNYfspN4wbTxICDmoksjh3r8nFcRTw2HECKNwgKYWm9LhPoA+h1ZE=";
/// The same for the second and the first key.
const FOR_BOTH: &str = "YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IFgyNTUxOSBrOCsvalhpUUtVK09FY2U2MXBsRmx0eENtRjRRdkkxeTBGd2FEVzZibFNJCkxXVFkyTlJvbHJudlFJY0hEcE41cHh3RnIwSzVucTI5cVNFa0Nwc3ZDTHMKLT4gWDI1NTE5IEpzMmJZaWtXUnA2Z3NKbzMrWWpNVHhXQjdrVU9ubElZVTVZcEw3UFBqbE0KLzBzY1U1aGQ5cFV2YjN1WkpNcHdJdW9zRXNrSEliUU05Z2pnYW9kMFpmOAotLS0gNTNpSUZrd3kyY1o0UForcTROWE1qVmd1bnVqNlNtY3RFVk93T2tLTjBybwpNDjqvLhRUAeazl1zgaUkWMIoSEHIzwhpOM+bIUeSWUNOaFpVJ0B8Q0kaTmA==";

fn keys(text: &str) -> Keys {
    Keys::parse(text).unwrap()
}

#[test]
fn files_of_the_reference_implementation_are_decrypted() {
    let [one, both] = [FOR_FIRST, FOR_BOTH].map(|text| STANDARD.decode(text).unwrap());
    for (text, file) in [(FIRST, &one), (FIRST, &both), (SECOND, &both)] {
        assert_eq!(open(&keys(text), file).unwrap(), "a known text");
    }
    assert_eq!(open(&keys(SECOND), &one), Err(AgeError::OtherKey));
    assert_eq!(open(&keys(&format!("{SECOND}\n{FIRST}")), &one).unwrap(), "a known text");
}

#[test]
fn every_length_around_a_chunk_survives_a_round_trip() {
    let keys = keys(FIRST);
    for length in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 2 * CHUNK + 1, 5 * CHUNK + 7] {
        let plain: Vec<u8> = (0..length).map(|index| index as u8 ^ (index >> 8) as u8).collect();
        let sealed = seal(&keys, &plain).unwrap();
        assert_eq!(open(&keys, &sealed).unwrap(), plain, "{length} bytes");
        let start = open_start(&keys, &sealed[..sealed.len() - 1], false).unwrap();
        assert!(plain.starts_with(&start) && plain.len() - start.len() <= CHUNK, "{length} bytes");
        let mut sealer = Sealer::new(&keys).unwrap();
        let mut parts = sealer.begin();
        plain.chunks(10_000).for_each(|part| sealer.add(part, &mut parts).unwrap());
        sealer.end(&mut parts).unwrap();
        let (mut opener, mut found) = (Opener::default(), Vec::new());
        parts.chunks(777).for_each(|part| opener.add(&keys, part, &mut found).unwrap());
        opener.end(&mut found).unwrap();
        assert_eq!(found, plain, "{length} bytes in parts");
    }
}

#[test]
fn every_changed_byte_and_every_cut_is_detected() {
    let keys = keys(FIRST);
    let sealed = seal(&keys, b"a secret").unwrap();
    for index in 0..sealed.len() {
        for bit in [1, 16, 128] {
            let mut changed = sealed.to_vec();
            changed[index] ^= bit;
            assert!(open(&keys, &changed).is_err(), "byte {index}");
        }
        assert!(open(&keys, &sealed[..index]).is_err(), "{index} bytes");
    }
    assert!(open(&keys, &[&sealed[..], b"x"].concat()).is_err(), "more bytes");
    let long = seal(&keys, &[7; 3 * CHUNK]).unwrap();
    let start = long.len() - 3 * (CHUNK + 16);
    for chunks in 0..3 {
        let cut = &long[..start + chunks * (CHUNK + 16)];
        assert_eq!(open(&keys, cut), Err(AgeError::Changed), "{chunks} chunks");
    }
    let swapped =
        [&long[..start], &long[start + CHUNK + 16..start + 2 * (CHUNK + 16)], &long[start..]].concat();
    assert_eq!(open(&keys, &swapped), Err(AgeError::Changed));
}

#[test]
fn what_is_not_encrypted_is_refused() {
    for bytes in [&b"PLBK"[..], b"{}", b"age-encryption.org/v2\n", b"age-"] {
        assert!(open(&keys(FIRST), bytes).is_err(), "{bytes:?}");
    }
    assert_eq!(open(&keys(FIRST), b"PLBK"), Err(AgeError::NotEncrypted));
    let endless = [b"age-encryption.org/v1\n".to_vec(), vec![b'-'; 1 << 20]].concat();
    assert_eq!(open(&keys(FIRST), &endless), Err(AgeError::Changed));
}

#[test]
fn files_of_keys_are_those_of_age_keygen_and_problems_name_no_key() {
    let text = format!("# created: 2026-11-26\n# public key: age1...\n\n{FIRST}\n{SECOND}\n");
    assert_eq!(keys(&text).identities().len(), 2);
    let changed = FIRST.replace("U2HZ", "U3HZ");
    let wrong = [
        ("", "no key"),
        ("# only a comment", "no key"),
        (&changed, "line 1: not a key"),
        ("age1gzp5tfrvf4pqh6lyhjs6j40xt33sgxuqnpa0auczu7y66cavhqksmuczpk", "a public key"),
        ("age-encryption.org/v1\n-> scrypt x 18", "encrypted itself"),
    ];
    for (text, problem) in wrong {
        let error = Keys::parse(text).unwrap_err();
        assert!(error.contains(problem) && !error.contains("HZQSX"), "{text}: {error}");
    }
    assert_eq!(format!("{:?}", keys(FIRST)), "Keys(1)");
}
