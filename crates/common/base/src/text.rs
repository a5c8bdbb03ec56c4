//! Sanitizing of output: control characters are escaped, and registered secrets are redacted.
//!
//! Messages and tables contain text from servers, files and arguments, which cannot be trusted. All text that is
//! printed or written to a file passes through [`outgoing`]; store errors pass through [`one_line`] when they are
//! created.

use std::borrow::Cow;
use std::fmt::Write;

use crate::redaction::{redacted, redacted_document};

/// Returns true if a character controls the terminal or changes how the surrounding text is displayed: C0 and C1
/// controls, directional formatting, line separators.
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
            // The JSON escape, so that escaped JSON keeps its meaning.
            c if escape(c) => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Sanitizes a document: redacts strong secrets, and escapes control characters other than line feeds and tabs.
pub fn outgoing(text: &str) -> Cow<'_, str> {
    printable(redacted_document(text))
}

/// Sanitizes a message like [`outgoing`], but redacts weak secrets too.
pub fn message(text: &str) -> Cow<'_, str> {
    printable(redacted(text))
}

/// Escapes control characters other than line feeds and tabs, and redacts nothing: for text that a client has sent, and
/// in which a redaction would tell it whether it has guessed a secret.
pub fn visible(text: &str) -> Cow<'_, str> {
    escaped(text, |c| matches!(c, '\n' | '\t'))
}

fn printable(text: Cow<'_, str>) -> Cow<'_, str> {
    match text {
        Cow::Borrowed(text) => escaped(text, |c| matches!(c, '\n' | '\t')),
        Cow::Owned(text) => Cow::Owned(escaped(&text, |c| matches!(c, '\n' | '\t')).into_owned()),
    }
}

/// Escapes line feeds and all other control characters, so that a message stays on one line.
pub fn single_line(text: &str) -> Cow<'_, str> {
    escaped(text, |_| false)
}

/// Maximum length of text from a peer, in characters.
const MAX_PEER_TEXT: usize = 500;

/// Sanitizes text from a peer for use within one line: redacts secrets, escapes control characters and truncates it
/// to 500 characters.
pub fn one_line(text: &str) -> Cow<'_, str> {
    // Redact before truncating; otherwise a part of a secret could remain.
    if let Cow::Owned(text) = redacted(text) {
        return Cow::Owned(one_line(&text).into_owned());
    }
    let cut = text.char_indices().nth(MAX_PEER_TEXT).map_or(text, |(at, _)| &text[..at]);
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
        assert!(long.len() == MAX_PEER_TEXT + 3 && long.ends_with("..."));
    }
}
