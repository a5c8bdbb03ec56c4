//! Text that leaves the program: control characters are escaped, secrets are redacted by value.
//!
//! Servers, files and arguments decide what messages and tables contain. Everything that is printed or written to a file as text passes
//! through [`outgoing`]; failures of stores pass through [`one_line`] when they are made.

use std::borrow::Cow;
use std::fmt::Write;
use std::sync::{PoisonError, RwLock};

use crate::net::encode::encode_query;

/// Stands for a secret.
const REDACTED: &str = "[redacted]";

/// Shorter values are not looked for, because they would be found inside of words. Credentials are longer: those of AWS have 40
/// characters, MinIO asks for 8.
const SHORTEST: usize = 6;

static SECRETS: RwLock<Vec<String>> = RwLock::new(Vec::new());

/// Remembers a secret; no text that leaves the program contains it from then on.
pub fn register_secret(value: &str) {
    // The program's own name is in every key that it writes.
    if value.chars().count() < SHORTEST || value == "plimsoll" {
        return;
    }
    let mut secrets = SECRETS.write().unwrap_or_else(PoisonError::into_inner);
    for form in [value.to_string(), encode_query(value), json_escaped(value), html_escaped(value)] {
        if !secrets.contains(&form) {
            secrets.push(form);
            // A secret that contains another one is replaced as a whole.
            secrets.sort_by_key(|s| std::cmp::Reverse(s.len()));
        }
    }
}

fn json_escaped(value: &str) -> String {
    let quoted = serde_json::to_string(value).unwrap_or_default();
    quoted.trim_matches('"').to_string()
}

/// As the report's templates escape it.
fn html_escaped(value: &str) -> String {
    let entities =
        [('&', "&amp;"), ('<', "&lt;"), ('>', "&gt;"), ('"', "&quot;"), ('\'', "&#x27;"), ('/', "&#x2f;")];
    value.chars().fold(String::new(), |out, c| match entities.iter().find(|(known, _)| *known == c) {
        Some((_, entity)) => out + entity,
        None => out + &c.to_string(),
    })
}

/// Returns true if a value under this name is a secret: `AWS_SECRET_ACCESS_KEY`, `S3.SecretKey`, `X-Amz-Signature`, `password`.
pub fn is_secret_name(name: &str) -> bool {
    let plain: String =
        name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    let telling = [
        "secret",
        "password",
        "passwd",
        "token",
        "credential",
        "signature",
        "apikey",
        "accesskey",
        "privatekey",
    ];
    telling.iter().any(|word| plain.contains(word))
        || matches!(plain.as_str(), "sig" | "pass" | "pwd" | "auth" | "authorization" | "awsaccesskeyid" | "googleaccessid")
        // A variable of the environment; `key=` of a table's URL names an attribute.
        || (name.len() >= 3 && name.ends_with("KEY") && !name.contains(|c: char| c.is_ascii_lowercase()))
}

/// Names whose values look secret but are none: arguments that name variables or files.
fn names_a_place(name: &str) -> bool {
    name.ends_with("_env") || name.ends_with("continuation-token")
}

/// The spans of secret values in `NAME=value` and `scheme://user:password@host`, in order.
fn secret_spans(text: &str) -> Vec<std::ops::Range<usize>> {
    let mut spans: Vec<std::ops::Range<usize>> = Vec::new();
    let name_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    for (at, _) in text.match_indices('=') {
        let start = text[..at]
            .rfind(|c| !name_char(c))
            .map_or(0, |i| i + text[i..].chars().next().map_or(1, char::len_utf8));
        let name = &text[start..at];
        if !is_secret_name(name) || names_a_place(name) {
            continue;
        }
        let value = &text[at + 1..];
        // A whole property, as `-p NAME=VALUE` gives it, may hold any character.
        if start == 0 && !value.contains(char::is_whitespace) && !value.contains('&') {
            spans.push(at + 1..text.len());
            continue;
        }
        let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''));
        let (skip, end) = match quote {
            Some(quote) => (1, value[1..].find(quote).map_or(value.len(), |i| i + 1)),
            None => (
                0,
                value
                    .find(|c: char| c.is_whitespace() || matches!(c, '&' | '"' | '\'' | ';'))
                    .unwrap_or(value.len()),
            ),
        };
        if end > skip {
            spans.push(at + 1 + skip..at + 1 + end);
        }
    }
    // `--secret-key VALUE`
    for (at, _) in text.match_indices("--") {
        let rest = &text[at + 2..];
        let end = rest.find(|c| !name_char(c)).unwrap_or(rest.len());
        let value = rest[end..].trim_start_matches(' ');
        if rest[end..].starts_with(' ') && is_secret_name(&rest[..end]) && !value.starts_with('-') {
            let begin = text.len() - value.len();
            let length = value.find(char::is_whitespace).unwrap_or(value.len());
            spans.push(begin..begin + length);
        }
    }
    for (at, _) in text.match_indices("://") {
        let rest = &text[at + 3..];
        let end = rest
            .find(|c: char| c.is_whitespace() || matches!(c, '/' | '?' | '&' | '"' | '\''))
            .unwrap_or(rest.len());
        if let Some(user) = rest[..end].rfind('@').filter(|user| *user > 0) {
            spans.push(at + 3..at + 3 + user);
        }
    }
    spans.sort_by_key(|span| span.start);
    spans
}

/// Remembers the secrets among the words of a command line, however the command treats them.
pub fn register_secrets_in(arguments: impl Iterator<Item = String>) {
    for argument in
        arguments.flat_map(|text| [crate::net::encode::decode(&text, false), Some(text)]).flatten()
    {
        for span in secret_spans(&argument) {
            let value = &argument[span];
            register_secret(value);
            if let Some((_, password)) = value.split_once(':') {
                register_secret(password);
            }
            if let Some(decoded) = crate::net::encode::decode(value, false) {
                register_secret(&decoded);
            }
        }
    }
}

/// An argument or a URL as it may be shown: values under secret names, and user and password of URLs, are left out.
pub fn without_assigned_secrets(text: &str) -> Cow<'_, str> {
    let spans = secret_spans(text);
    if spans.is_empty() {
        return Cow::Borrowed(text);
    }
    let (mut out, mut at) = (String::with_capacity(text.len()), 0);
    for span in spans.into_iter().filter(|span| !span.is_empty()) {
        if span.start < at {
            continue;
        }
        out.push_str(&text[at..span.start]);
        out.push_str(REDACTED);
        at = span.end;
    }
    out.push_str(&text[at..]);
    Cow::Owned(out)
}

/// Returns true if a secret cannot be a word of the program's own, such as a field of a result: long, and of letters and other characters.
fn is_strong(secret: &str) -> bool {
    secret.chars().count() >= 12 && secret.contains(|c: char| !c.is_ascii_lowercase())
}

/// Documents without any secret that was registered. Weak secrets, such as `minioadmin`, stay: they might be words of the document
/// itself. They reach documents only through arguments and URLs, from which their values are left out before.
pub fn redacted_document(text: &str) -> Cow<'_, str> {
    replaced(text, is_strong)
}

/// Messages without any secret that was registered.
pub fn redacted(text: &str) -> Cow<'_, str> {
    replaced(text, |_| true)
}

fn replaced(text: &str, applies: impl Fn(&str) -> bool) -> Cow<'_, str> {
    let secrets = SECRETS.read().unwrap_or_else(PoisonError::into_inner);
    let mut out = Cow::Borrowed(text);
    for secret in secrets.iter().filter(|secret| applies(secret)) {
        if out.contains(secret.as_str()) {
            out = Cow::Owned(out.replace(secret.as_str(), REDACTED));
        }
    }
    out
}

/// Returns true if a character changes what a terminal does or how the text around it is read: C0 and C1 controls, directional
/// formatting, line separators.
fn is_control(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escaped(text: &str, keep: impl Fn(char) -> bool) -> Cow<'_, str> {
    let escape = |c: char| is_control(c) && !keep(c);
    if !text.contains(escape) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\n' if escape(c) => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' if escape(c) => out.push_str("\\t"),
            // As JSON writes it, so that escaped JSON means the same.
            c if escape(c) => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Documents for people and files: no control characters but line ends and tabs, no strong secret.
pub fn outgoing(text: &str) -> Cow<'_, str> {
    printable(redacted_document(text))
}

/// Messages: as [`outgoing`], without any secret.
pub fn message(text: &str) -> Cow<'_, str> {
    printable(redacted(text))
}

fn printable(text: Cow<'_, str>) -> Cow<'_, str> {
    match text {
        Cow::Borrowed(text) => escaped(text, |c| matches!(c, '\n' | '\t')),
        Cow::Owned(text) => Cow::Owned(escaped(&text, |c| matches!(c, '\n' | '\t')).into_owned()),
    }
}

/// A message as one line: line ends and other control characters escaped.
pub fn single_line(text: &str) -> Cow<'_, str> {
    escaped(text, |_| false)
}

/// Longest text of a message that a peer sent, in characters.
const LONGEST: usize = 500;

/// A peer's text as a part of one line: control characters escaped, at most 500 characters.
pub fn one_line(text: &str) -> Cow<'_, str> {
    // Before anything is cut off, or a part of a secret would remain.
    if let Cow::Owned(text) = redacted(text) {
        return Cow::Owned(one_line(&text).into_owned());
    }
    let cut = text.char_indices().nth(LONGEST).map_or(text, |(at, _)| &text[..at]);
    match escaped(cut, |_| false) {
        Cow::Borrowed(all) if all.len() == text.len() => Cow::Borrowed(text),
        short if cut.len() < text.len() => Cow::Owned(format!("{short}...")),
        all => Cow::Owned(all.into_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(outgoing("a\u{1b}[2Jb\u{9b}c\u{202e}d\n\te"), "a\\u001b[2Jb\\u009bc\\u202ed\n\te");
        assert_eq!(one_line("a\nb\r\tc\0"), "a\\nb\\r\\tc\\u0000");
        assert_eq!(outgoing("日本 🦀 ü"), "日本 🦀 ü");
        let long = one_line(&"x".repeat(10_000)).into_owned();
        assert!(long.len() == LONGEST + 3 && long.ends_with("..."));
    }

    #[test]
    fn secrets_are_redacted_by_value_however_they_are_written() {
        register_secret("wJalr/XUtn+FEMI=K7");
        for text in
            ["x wJalr/XUtn+FEMI=K7 y", "?sig=wJalr%2FXUtn%2BFEMI%3DK7&z", "{\"a\": \"wJalr/XUtn+FEMI=K7\"}"]
        {
            assert!(outgoing(text).contains(REDACTED) && !outgoing(text).contains("wJalr"), "{text}");
        }
        assert!(!outgoing("wJalr&#x2f;XUtn+FEMI=K7").contains("FEMI"), "in a page");
        register_secret("measure");
        assert_eq!(
            outgoing("\"role\": \"measure\""),
            "\"role\": \"measure\"",
            "a weak secret may be a word of a document"
        );
        assert_eq!(message("denied: measure"), format!("denied: {REDACTED}"));
        register_secret("abc");
        assert_eq!(outgoing("abcdef"), "abcdef", "short values are not looked for");
    }

    #[test]
    fn values_under_secret_names_are_left_out() {
        for (text, expected) in [
            ("AWS_SECRET_ACCESS_KEY=x aws s3 sync a b", "AWS_SECRET_ACCESS_KEY=[redacted] aws s3 sync a b"),
            ("S3.SecretKey=hush", "S3.SecretKey=[redacted]"),
            ("s3.secretKey=a;b", "s3.secretKey=[redacted]"),
            ("s5cmd --secret-key FOO cp a b", "s5cmd --secret-key [redacted] cp a b"),
            ("KEY='two words' tool", "KEY='[redacted]' tool"),
            (
                "s3://b?endpoint=http://k:SECRET@h:1&region=x",
                "s3://b?endpoint=http://[redacted]@h:1&region=x",
            ),
            (
                "stores=[\"https://h/k?X-Amz-Signature=ab&x=1\"]",
                "stores=[\"https://h/k?X-Amz-Signature=[redacted]&x=1\"]",
            ),
            ("dynamodb://t?key=pk&region=x", "dynamodb://t?key=pk&region=x"),
            ("secret_key_env=NAME", "secret_key_env=NAME"),
            ("phase.get.duration=5m", "phase.get.duration=5m"),
            ("ü=1 täst", "ü=1 täst"),
        ] {
            assert_eq!(without_assigned_secrets(text), expected);
        }
    }
}
