//! Words of the metered command for reports, without secrets.

use plimsoll_base::redaction::{is_secret_name, redacted};

/// Text in the place of a secret.
const REDACTED: &str = "[redacted]";

/// Options of the usual clients whose value is a secret, or contains one: user and password of curl, passwords.
const SECRET_OPTIONS: [&str; 4] = ["-u", "--user", "-p", "--proxy-user"];

/// Options with a header.
const HEADER_OPTIONS: [&str; 3] = ["-H", "--header", "--proxy-header"];

/// Meaning of the word after an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value {
    Plain,
    Secret,
    Header,
}

/// Returns the meaning of the value of an option.
fn value_of(option: &str) -> Value {
    let is_long = option.starts_with("--") || option.starts_with('-') && option.len() > 2;
    match option {
        _ if SECRET_OPTIONS.contains(&option) => Value::Secret,
        _ if HEADER_OPTIONS.contains(&option) => Value::Header,
        _ if is_long && is_secret_name(option.trim_start_matches('-')) => Value::Secret,
        _ => Value::Plain,
    }
}

/// Returns a value without its secrets.
fn shown(value: &str, meaning: Value) -> String {
    match (meaning, value.split_once(':')) {
        (Value::Plain, _) => redacted(value).into_owned(),
        (Value::Header, Some((name, _))) => format!("{name}: {REDACTED}"),
        (Value::Secret | Value::Header, _) => REDACTED.into(),
    }
}

/// Returns a word that is no value of the word before it. Options may have their value in the same word.
fn word_alone(word: &str) -> String {
    let short = ["-u", "-H"].into_iter().find(|option| word.len() > 2 && word.starts_with(option));
    if let Some(option) = short.filter(|_| word.is_char_boundary(2)) {
        return format!("{option}{}", shown(&word[2..], value_of(option)));
    }
    match word.split_once('=') {
        Some((name, value)) if name.starts_with('-') => format!("{name}={}", shown(value, value_of(name))),
        Some((name, _)) if is_secret_name(name) => format!("{name}={REDACTED}"),
        _ => redacted(word).into_owned(),
    }
}

/// Returns the words of a command without secrets: those that are registered, values of options with a secret, values
/// of headers, and variables with the name of a secret.
pub fn without_secrets(command: &[String]) -> Vec<String> {
    let mut before = Value::Plain;
    let mut out = Vec::new();
    for word in command {
        out.push(match before {
            Value::Plain => word_alone(word),
            meaning => shown(word, meaning),
        });
        let is_option = before == Value::Plain && word.starts_with('-') && !word.contains('=');
        before = if is_option { value_of(word) } else { Value::Plain };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regression_passwords_and_headers_of_a_command_were_in_its_report() {
        for (command, expected) in [
            ("curl -u A:B x", "curl -u [redacted] x"),
            ("curl -uA:B x", "curl -u[redacted] x"),
            ("curl --user A:B x", "curl --user [redacted] x"),
            ("curl --user=A:B x", "curl --user=[redacted] x"),
            ("curl -H Authorization:|x y", "curl -H Authorization: [redacted] y"),
            ("curl --header=X-Api-Key:hush y", "curl --header=X-Api-Key: [redacted] y"),
            ("mysql -p hush y", "mysql -p [redacted] y"),
            ("tool --password hush -v", "tool --password [redacted] -v"),
            ("tool --password=hush", "tool --password=[redacted]"),
            ("env RESTIC_PASSWORD=hush restic", "env RESTIC_PASSWORD=[redacted] restic"),
            ("aws s3 cp a b", "aws s3 cp a b"),
            ("rclone copy --transfers=4 a b", "rclone copy --transfers=4 a b"),
        ] {
            // A bar stands for a space within a word.
            let words: Vec<String> = command.split(' ').map(|word| word.replace('|', " ")).collect();
            assert_eq!(without_secrets(&words).join(" "), expected);
        }
    }
}
