//! Commands for a shell.

/// Quotes a word for a shell if necessary.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// Returns the command line of a run, whose first word is the path of the program.
pub fn command_line(words: &[String]) -> String {
    let mut command: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    if let Some(program) = command.first_mut() {
        *program = "plimsoll".into();
    }
    command.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_can_be_pasted_into_a_shell() {
        let words =
            ["/usr/bin/plimsoll", "run", "get", "--slo", "get.p99 < 5ms", "it's", ""].map(String::from);
        assert_eq!(command_line(&words), "plimsoll run get --slo 'get.p99 < 5ms' 'it'\\''s' ''");
    }
}
