//! Defaults that documents state, as pairs of TOML texts that must have the same meaning.

/// A default in a document.
pub struct DocumentedDefault {
    /// Line of the document that states it.
    pub line: String,
    /// The example with the default written out.
    pub with: String,
    /// The example without the line.
    pub without: String,
}

/// Returns the value that a comment calls the default. `the default` at its beginning or after a semicolon means the
/// value in the same line.
fn claimed<'a>(value: &'a str, comment: &'a str) -> Option<&'a str> {
    let own = |part: &str| part.trim().starts_with("the default");
    if comment.split(';').any(own) {
        return Some(value);
    }
    for before in [" (the default)", ", the default"] {
        if let Some(found) = comment.find(before) {
            let text = &comment[..found];
            let start = ["or ", "most ", ", "].iter().filter_map(|word| Some(text.rfind(word)? + word.len()));
            return Some(text[start.max().unwrap_or(0)..].trim());
        }
    }
    let (_, stated) = comment.split_once("default ").or_else(|| comment.split_once("default: "))?;
    Some(stated.trim())
}

/// Returns the text of a TOML value: as it stands if it is a number or a flag, else quoted.
#[must_use]
pub fn literal(value: &str) -> String {
    let is_plain = value.parse::<f64>().is_ok() || ["true", "false"].contains(&value);
    if is_plain || value.starts_with(['"', '[', '{']) { value.into() } else { format!("\"{value}\"") }
}

/// Returns the defaults that the comments of the TOML examples of a document state.
#[must_use]
pub fn claims(document: &str) -> Vec<DocumentedDefault> {
    let mut found = Vec::new();
    for block in document.split("```toml\n").skip(1) {
        let block = block.split("```").next().unwrap_or_default();
        let lines: Vec<&str> = block.lines().collect();
        for (number, line) in lines.iter().enumerate() {
            let Some((assignment, comment)) = line.split_once(" # ") else { continue };
            let Some((key, value)) = assignment.split_once(" = ") else { continue };
            let Some(default) = claimed(value.trim(), comment.trim()) else { continue };
            let example = |replacement: Option<String>| {
                let mut lines: Vec<String> = lines.iter().map(|line| (*line).to_string()).collect();
                lines[number] = replacement.unwrap_or_default();
                lines.join("\n")
            };
            found.push(DocumentedDefault {
                line: (*line).to_string(),
                with: example(Some(format!("{key} = {}", literal(default)))),
                without: example(None),
            });
        }
    }
    found
}

/// Returns the rows of the tables of a document that have a column with this heading, as the cells of each row.
#[must_use]
pub fn rows<'a>(document: &'a str, heading: &str) -> Vec<Vec<&'a str>> {
    let cells = |line: &'a str| -> Vec<&'a str> {
        line.trim_matches('|').split(" | ").map(|cell| cell.trim_matches(['|', ' '])).collect()
    };
    let mut found = Vec::new();
    let mut is_wanted = false;
    for line in document.lines() {
        match line.starts_with('|') {
            false => is_wanted = false,
            true if cells(line).contains(&heading) => is_wanted = true,
            true if is_wanted && !line.starts_with("| ---") => found.push(cells(line)),
            true => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_the_value_of_the_line_or_the_one_that_the_comment_names() {
        let found = |comment| claimed("\"own\"", comment);
        assert_eq!(found("the default, and the maximum"), Some("\"own\""));
        assert_eq!(found("age of a body; the default"), Some("\"own\""));
        assert_eq!(found("age of a body; default: 0s"), Some("0s"));
        assert_eq!(found("seed of all choices; default 42"), Some("42"));
        assert_eq!(found("larger bodies are blobs; at most 1 MiB, the default"), Some("1 MiB"));
        assert_eq!(found("or \"constant\", the default"), Some("\"constant\""));
        assert_eq!(found("prepare, warmup or measure (the default)"), Some("measure"));
        assert_eq!(found("a file"), None);
    }

    #[test]
    fn an_example_is_split_into_one_with_the_default_and_one_without() {
        let found = claims("text\n```toml\na = 1 # default 2\nb = 3\n```\n```\nc = 4 # the default\n```\n");
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].with.as_str(), found[0].without.as_str()), ("a = 2\nb = 3", "\nb = 3"));
    }

    #[test]
    fn the_rows_of_a_table_are_found_by_its_heading() {
        let document =
            "| a | default |\n| --- | --- |\n| `x` | 1 |\n| `y` | |\n\n| a | b |\n| --- | --- |\n| z | 2 |\n";
        assert_eq!(rows(document, "default"), [vec!["`x`", "1"], vec!["`y`", ""]]);
    }
}
