//! Names of columns.

/// Returns a name in the form in which names are compared: lower-case letters and digits, without a unit in parentheses
/// at the end. Exports spell the same column `lineItem/UsageType`, `line_item_usage_type` or `LineItemUsageType`.
pub fn plain(name: &str) -> String {
    let unit = name.trim_end().strip_suffix(')').and_then(|name| name.rsplit_once('('));
    let name = unit.map_or(name, |(name, _)| name);
    name.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect()
}
