//! Names of columns, and the mark of Unicode before them.

/// Returns a text without the byte order mark of UTF-8, which some programs write at the start of a file.
pub(crate) fn without_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text)
}

/// Returns a name in the form in which names are compared: lower-case letters and digits, without a unit in parentheses
/// at the end. Exports spell the same column `lineItem/UsageType`, `line_item_usage_type` or `LineItemUsageType`.
pub fn plain(name: &str) -> String {
    let unit = name.trim_end().strip_suffix(')').and_then(|name| name.rsplit_once('('));
    let name = unit.map_or(name, |(name, _)| name);
    name.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect()
}
