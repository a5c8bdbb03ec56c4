//! Hexadecimal encoding, and percent-encoding as SigV4 defines it: every byte except `A-Z a-z 0-9 - . _ ~` becomes
//! `%XX` in upper case.

const HEX: &[u8; 16] = b"0123456789ABCDEF";

const fn unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// True for each byte that stays as it is.
const UNRESERVED: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = unreserved(byte as u8);
        byte += 1;
    }
    table
};

/// Appends the percent-encoded `bytes` to `out`. `/` stays if `keep_slash` is true (paths), else it becomes `%2F`
/// (queries).
pub fn encode_into(out: &mut String, bytes: &[u8], keep_slash: bool) {
    let mut rest = bytes;
    loop {
        let stays = |byte: &u8| UNRESERVED[usize::from(*byte)] || (keep_slash && *byte == b'/');
        let length = rest.iter().position(|byte| !stays(byte)).unwrap_or(rest.len());
        let (plain, more) = rest.split_at(length);
        out.push_str(std::str::from_utf8(plain).unwrap_or_default());
        let Some((byte, more)) = more.split_first() else { return };
        out.push('%');
        out.push(HEX[(byte >> 4) as usize] as char);
        out.push(HEX[(byte & 15) as usize] as char);
        rest = more;
    }
}

/// Percent-encodes a path or key, except its slashes.
pub fn encode_path(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    encode_into(&mut out, text.as_bytes(), true);
    out
}

/// Percent-encodes a query name or value, including its slashes.
pub fn encode_query(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    encode_into(&mut out, text.as_bytes(), false);
    out
}

/// Decodes `%XX`. If `plus_is_space` is true, also decodes `+` to a space, as in form encoding.
/// Returns `None` if an escape is malformed or the result is not UTF-8.
pub fn decode(text: &str, plus_is_space: bool) -> Option<String> {
    let escaped = text.contains('%') || (plus_is_space && text.contains('+'));
    if !escaped {
        return Some(text.to_string());
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        match bytes[i] {
            b'%' => {
                let hex = bytes.get(i + 1..i + 3).filter(|hex| hex.iter().all(u8::is_ascii_hexdigit))?;
                out.push(u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()?);
                i += 2;
            }
            b'+' if plus_is_space => out.push(b' '),
            byte => out.push(byte),
        }
        i += 1;
    }
    String::from_utf8(out).ok()
}

/// Splits a raw query string into decoded name and value pairs, in order. Returns `None` if an escape is malformed or a
/// decoded name or value is not UTF-8.
pub fn parse_query(query: &str) -> Option<Vec<(String, String)>> {
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decode(name, false)?, decode(value, false)?))
        })
        .collect()
}

/// Encodes `bytes` in lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2);
    hex_into(&mut out, bytes);
    out
}

/// Appends `bytes` to `out` in lower-case hexadecimal.
pub fn hex_into(out: &mut String, bytes: &[u8]) {
    /// The two digits of each byte.
    static DIGITS: [[u8; 2]; 256] = {
        let (digits, mut table, mut byte) = (b"0123456789abcdef", [[0; 2]; 256], 0);
        while byte < 256 {
            table[byte] = [digits[byte >> 4], digits[byte & 15]];
            byte += 1;
        }
        table
    };
    for part in bytes.chunks(32) {
        let mut text = [0; 64];
        for (two, byte) in text.as_chunks_mut::<2>().0.iter_mut().zip(part) {
            *two = DIGITS[usize::from(*byte)];
        }
        out.push_str(std::str::from_utf8(&text[..part.len() * 2]).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodes_as_the_sigv4_test_suite_does() {
        assert_eq!(encode_path("a b/ü~+=&"), "a%20b/%C3%BC~%2B%3D%26");
        assert_eq!(encode_query("a/b c*"), "a%2Fb%20c%2A");
    }

    #[test]
    fn decoding_undoes_encoding() {
        for text in ["", "plain", "a/b c+d%25", "日本/🦀", "\u{1}\u{7f}", "100%"] {
            assert_eq!(decode(&encode_path(text), false).as_deref(), Some(text));
            assert_eq!(decode(&encode_query(text), true).as_deref(), Some(text));
        }
        assert_eq!(decode("a%2", false), None);
        assert_eq!(decode("a%zz", false), None);
        assert_eq!(decode("a%+f", false), None, "a sign is not a hexadecimal digit");
        assert_eq!(decode("a+b", false).as_deref(), Some("a+b"));
        assert_eq!(
            parse_query("a=1&b&c=%20"),
            Some(vec![("a".into(), "1".into()), ("b".into(), String::new()), ("c".into(), " ".into())])
        );
    }
}
