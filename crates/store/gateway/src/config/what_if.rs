//! Settings that people vary in plans: the ages and sizes in the rules of moves, and the sizes of pack files. Each has
//! a few values in their order, for a slider.

use plimsoll_base::units::{format_size, parse_size};

use crate::config::{Config, MAX_INLINE};
use plimsoll_maintenance::mover::condition::{parse_time_ms, show_time_ms, words};

/// Milliseconds of an hour.
const HOUR_MS: u64 = 3_600_000;
/// Ages in hours.
const AGES_H: [u64; 13] = [0, 1, 6, 12, 24, 48, 72, 168, 336, 720, 2160, 4320, 8760];

/// A setting with its possible values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// Name, such as `move.1.age` or `pack.file_size`.
    pub name: String,
    /// Text for people.
    pub label: String,
    /// Values as settings have them, in their order.
    pub stops: Vec<String>,
    /// Position of the value in the settings.
    pub at: usize,
}

/// Returns values with the current one among them, and its position.
fn with_current(
    values: impl Iterator<Item = u64>,
    current: u64,
    show: fn(u64) -> String,
) -> (Vec<String>, usize) {
    let mut all: Vec<u64> = values.chain([current]).collect();
    all.sort_unstable();
    all.dedup();
    let at = all.iter().position(|value| *value == current).unwrap_or(0);
    (all.into_iter().map(show).collect(), at)
}

fn of_age(name: String, label: String, current_ms: u64) -> Variable {
    let (stops, at) = with_current(AGES_H.map(|hours| hours * HOUR_MS).into_iter(), current_ms, show_time_ms);
    Variable { name, label, stops, at }
}

/// Returns a setting with sizes of `4^n` KiB between two bounds.
fn of_size(name: String, label: String, current: u64, [least, most]: [u64; 2]) -> Variable {
    let sizes = (0..20).map(|power| 1024u64 << (2 * power)).filter(|size| (least..=most).contains(size));
    let (stops, at) = with_current(sizes, current, format_size);
    Variable { name, label, stops, at }
}

/// Returns the number that a text stands for.
type Parse = fn(&str) -> Option<u64>;

/// A value in a condition: the positions of its words.
struct Place {
    from: usize,
    to: usize,
    value: u64,
}

/// Returns the only comparison of a property in a condition; `None` if there are none or several.
fn only(words: &[String], property: &str, parse: Parse) -> Option<Place> {
    let mut places = words.iter().enumerate().filter(|(_, word)| *word == property);
    let (at, _) = places.next()?;
    if places.next().is_some() {
        return None;
    }
    let from = at + 2;
    let first = words.get(from)?;
    let two = words.get(from + 1).and_then(|unit| parse(&format!("{first} {unit}")));
    match two {
        Some(value) => Some(Place { from, to: from + 2, value }),
        None => Some(Place { from, to: from + 1, value: parse(first)? }),
    }
}

fn age(text: &str) -> Option<u64> {
    parse_time_ms(text).ok()
}

fn size(text: &str) -> Option<u64> {
    parse_size(text).ok()
}

/// The properties of conditions that have sliders.
const PROPERTIES: [(&str, Parse); 2] = [("age", age), ("size", size)];

/// Returns the settings that can be varied.
pub fn variables(config: &Config) -> Vec<Variable> {
    /// Bounds of sizes in conditions in bytes.
    const SIZES: [u64; 2] = [1 << 10, 1 << 30];
    /// Bounds of sizes of pack files in bytes.
    const PACK_FILES: [u64; 2] = [1 << 20, 1 << 30];
    let mut all = Vec::new();
    for (index, rule) in config.moves.iter().enumerate() {
        let Ok(words) = words(&rule.text) else { continue };
        for (property, parse) in PROPERTIES {
            let Some(place) = only(&words, property, parse) else { continue };
            let name = format!("move.{}.{property}", index + 1);
            let label = format!("Rule {}, {} to {}: {property}", index + 1, rule.from, rule.to);
            all.push(match property {
                "age" => of_age(name, label, place.value),
                _ => of_size(name, label, place.value, SIZES),
            });
        }
    }
    if let Some(pack) = &config.pack {
        let sizes = [
            ("pack.max_body", "Pack files: largest body", pack.max_body, [1 << 10, MAX_INLINE]),
            ("pack.file_size", "Pack files: size of a file", pack.file_size, PACK_FILES),
        ];
        all.extend(
            sizes.map(|(name, label, current, bounds)| of_size(name.into(), label.into(), current, bounds)),
        );
        all.push(of_age("pack.min_age".into(), "Pack files: minimum age of a body".into(), pack.min_age_ms));
    }
    all
}

/// Returns the changes of settings, as `--what-if` has them, for the values that differ from the settings. `value`
/// returns the chosen value of a variable by its name, or its position among the values; an empty text changes nothing.
pub fn changes<'a>(config: &Config, value: impl Fn(&str) -> &'a str) -> Vec<String> {
    let chosen: Vec<(String, String)> = variables(config)
        .into_iter()
        .filter_map(|variable| {
            let parse = if variable.name.ends_with("age") { age } else { size };
            let text = value(&variable.name);
            let value = match text.parse::<usize>() {
                Ok(position) => variable.stops.get(position)?.clone(),
                Err(_) => text.to_string(),
            };
            (parse(&value)? != parse(&variable.stops[variable.at])?).then_some((variable.name, value))
        })
        .collect();
    let mut all = Vec::new();
    for (index, rule) in config.moves.iter().enumerate() {
        let Ok(mut words) = words(&rule.text) else { continue };
        let before = words.clone();
        for (property, parse) in PROPERTIES {
            let name = format!("move.{}.{property}", index + 1);
            let value = chosen.iter().find(|(other, _)| *other == name).map(|(_, value)| value.clone());
            if let (Some(value), Some(place)) = (value, only(&words, property, parse)) {
                words.splice(place.from..place.to, [value]);
            }
        }
        if words != before {
            all.push(format!("move.{}.when={}", index + 1, joined(&words)));
        }
    }
    let of_packs = chosen.iter().filter(|(name, _)| name.starts_with("pack."));
    all.extend(of_packs.map(|(name, value)| format!("{name}={value}")));
    all
}

/// Returns the text of a condition with these words.
fn joined(words: &[String]) -> String {
    let word = |word: &String| match word.strip_prefix('"') {
        Some(text) if text.contains('"') => format!("'{text}'"),
        Some(text) => format!("\"{text}\""),
        None => word.clone(),
    };
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_maintenance::mover::condition::Condition;
    use plimsoll_testing::directory::TempDir;

    const SETTINGS: &str = "catalog.url = 'dir:/nowhere'\n[tier.hot]\nurl = 'file:///a'\n[tier.cold]\nurl = 'file:///b'\n\
        [write]\ntier = 'hot'\n[[move]]\nfrom = 'hot'\nto = 'cold'\n\
        when = 'age > 7 d and (size >= 100 KiB or suffix = \".m\\'p4\") and not prefix = \"tmp/\"'\n\
        [[move]]\nfrom = 'cold'\nto = 'hot'\nwhen = 'reads_per_day > 3'\n[pack]\ntier = 'hot'\n";

    fn config() -> Config {
        let directory = TempDir::new("what-if");
        let path = directory.path().join("gateway.toml");
        std::fs::write(&path, SETTINGS.replace("\\'", "")).unwrap();
        Config::load(&path).unwrap()
    }

    #[test]
    fn a_slider_has_the_value_of_the_settings() {
        let found = variables(&config());
        let names: Vec<&str> = found.iter().map(|variable| variable.name.as_str()).collect();
        assert_eq!(names, ["move.1.age", "move.1.size", "pack.max_body", "pack.file_size", "pack.min_age"]);
        let current: Vec<&str> = found.iter().map(|variable| variable.stops[variable.at].as_str()).collect();
        assert_eq!(current, ["7d", "100 KiB", "1 MiB", "64 MiB", "1m"]);
        // All values are valid.
        for variable in &found {
            assert!(variable.stops.len() > 4, "{variable:?}");
            let parse = if variable.name.ends_with("age") { age } else { size };
            assert!(variable.stops.iter().all(|stop| parse(stop).is_some()), "{variable:?}");
        }
    }

    #[test]
    fn changed_rules_keep_their_other_conditions() {
        let config = config();
        assert_eq!(changes(&config, |_| ""), Vec::<String>::new());
        let found = changes(&config, |name| match name {
            "move.1.age" => "0s",
            // The position of a value, from a browser without its script; no such position; the value of the settings.
            "pack.file_size" => "0",
            "pack.max_body" => "99",
            "move.1.size" => "100KiB",
            "pack.min_age" => "1d\" or age > 0s",
            _ => "",
        });
        let expected = "age > 0s and ( size >= 100 KiB or suffix = \".mp4\" ) and not prefix = \"tmp/\"";
        assert_eq!(found, [format!("move.1.when={expected}"), "pack.file_size=1 MiB".into()]);
        assert!(Condition::parse(expected).is_ok());
        assert!(Condition::parse(&joined(&words("prefix = 'a\"b'").unwrap())).is_ok());
    }
}
