//! Redaction of secrets: registered ones wherever they occur, and the values of names that sound secret.

use std::borrow::Cow;
use std::sync::{PoisonError, RwLock};

use crate::net::encode::encode_query;

/// Replacement for a secret.
const REDACTED: &str = "[redacted]";

/// Minimum length of a secret that is redacted, in characters. Shorter values would match parts of ordinary words.
/// Credentials are longer: AWS secret keys have 40 characters, and MinIO requires 8.
const MIN_SECRET: usize = 6;

static SECRETS: RwLock<Vec<String>> = RwLock::new(Vec::new());

/// Registers a secret. From then on it is redacted in all output, including its URL, JSON and HTML encodings.
pub fn register_secret(value: &str) {
    // Never redact the program's own name, which is part of every key that it writes.
    if value.chars().count() < MIN_SECRET || value == "plimsoll" {
        return;
    }
    let mut secrets = SECRETS.write().unwrap_or_else(PoisonError::into_inner);
    for form in [value.to_string(), encode_query(value), json_escaped(value), html_escaped(value)] {
        if !secrets.contains(&form) {
            secrets.push(form);
            // Longer secrets come first, so that a secret that contains another one is replaced as a whole.
            secrets.sort_by_key(|s| std::cmp::Reverse(s.len()));
        }
    }
}

fn json_escaped(value: &str) -> String {
    let quoted = serde_json::to_string(value).unwrap_or_default();
    quoted.trim_matches('"').to_string()
}

/// Escapes a value like the templates of the HTML report.
fn html_escaped(value: &str) -> String {
    let entities =
        [('&', "&amp;"), ('<', "&lt;"), ('>', "&gt;"), ('"', "&quot;"), ('\'', "&#x27;"), ('/', "&#x2f;")];
    value.chars().fold(String::new(), |out, c| match entities.iter().find(|(known, _)| *known == c) {
        Some((_, entity)) => out + entity,
        None => out + &c.to_string(),
    })
}

/// Returns true if the value of a variable or parameter with this name is a secret, such as `AWS_SECRET_ACCESS_KEY`,
/// `S3.SecretKey`, `X-Amz-Signature` or `password`.
pub fn is_secret_name(name: &str) -> bool {
    let plain: String =
        name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    let indicators = [
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
    indicators.iter().any(|word| plain.contains(word))
        || matches!(plain.as_str(), "sig" | "pass" | "pwd" | "auth" | "authorization" | "awsaccesskeyid" | "googleaccessid")
        // An environment variable. A lower-case `key=` in the URL of a table is an attribute name, not a secret.
        || (name.len() >= 3 && name.ends_with("KEY") && !name.contains(|c: char| c.is_ascii_lowercase()))
}

/// Returns true if the value of a secret-looking name is not a secret: the name of an environment variable, or a
/// continuation token.
fn is_not_secret(name: &str) -> bool {
    name.ends_with("_env") || name.ends_with("continuation-token")
}

/// Returns the byte ranges of secret values in `NAME=value`, `--NAME value` and `scheme://user:password@host`, in
/// ascending order.
fn secret_spans(text: &str) -> Vec<std::ops::Range<usize>> {
    let mut spans: Vec<std::ops::Range<usize>> = Vec::new();
    let name_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    for (at, _) in text.match_indices('=') {
        let start = text[..at]
            .rfind(|c| !name_char(c))
            .map_or(0, |i| i + text[i..].chars().next().map_or(1, char::len_utf8));
        let name = &text[start..at];
        if !is_secret_name(name) || is_not_secret(name) {
            continue;
        }
        let value = &text[at + 1..];
        // A property on its own, as in `-p NAME=VALUE`, may contain any character.
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
    // Options such as `--secret-key VALUE`.
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

/// Registers the secrets in the arguments of a command line, including those that the command ignores.
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

/// Redacts the values of secret names, and the user and password of URLs, in an argument or a URL.
pub fn redact_assignments(text: &str) -> Cow<'_, str> {
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

/// Returns true if a secret is too distinctive to occur in a document by chance: it has at least 12 characters, and
/// not only lower-case letters.
fn is_strong(secret: &str) -> bool {
    secret.chars().count() >= 12 && secret.contains(|c: char| !c.is_ascii_lowercase())
}

/// Redacts registered secrets in a document, except weak ones such as `minioadmin`, which might be ordinary words of
/// the document. Weak secrets reach a document only through arguments and URLs, which are redacted before.
pub fn redacted_document(text: &str) -> Cow<'_, str> {
    replaced(text, is_strong)
}

/// Redacts all registered secrets in a message.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{message, outgoing};

    #[test]
    fn secrets_are_redacted_in_every_encoding() {
        register_secret("wJalr/XUtn+FEMI=K7");
        for text in
            ["x wJalr/XUtn+FEMI=K7 y", "?sig=wJalr%2FXUtn%2BFEMI%3DK7&z", "{\"a\": \"wJalr/XUtn+FEMI=K7\"}"]
        {
            assert!(outgoing(text).contains(REDACTED) && !outgoing(text).contains("wJalr"), "{text}");
        }
        assert!(!outgoing("wJalr&#x2f;XUtn+FEMI=K7").contains("FEMI"), "HTML encoding");
        register_secret("measure");
        assert_eq!(
            outgoing("\"role\": \"measure\""),
            "\"role\": \"measure\"",
            "a weak secret stays in a document"
        );
        assert_eq!(message("denied: measure"), format!("denied: {REDACTED}"));
        register_secret("abc");
        assert_eq!(outgoing("abcdef"), "abcdef", "short values are not redacted");
    }

    #[test]
    fn values_of_secret_names_are_redacted() {
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
            assert_eq!(redact_assignments(text), expected);
        }
    }
}
