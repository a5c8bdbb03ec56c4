//! The version of the programs: number, commit, date and target.
//!
//! `make dist` sets PLIMSOLL_COMMIT and PLIMSOLL_COMMIT_DATE. Other builds do not know their commit, so that a new
//! commit does not compile everything again.

use std::sync::LazyLock;

/// Version of all programs (Semantic Versioning 2.0.0).
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Commit of the sources in hexadecimal digits; `None` if the program was not built by `make dist`.
pub const COMMIT: Option<&str> = option_env!("PLIMSOLL_COMMIT");
/// Date of the commit, such as `2026-11-25`; `None` if the program was not built by `make dist`.
pub const DATE: Option<&str> = option_env!("PLIMSOLL_COMMIT_DATE");

/// Name of the C library.
const C_LIBRARY: &str = if cfg!(target_env = "musl") {
    "musl"
} else if cfg!(target_env = "gnu") {
    "gnu"
} else {
    "other"
};

/// Returns the target, such as `x86_64-linux-musl`: processor, operating system and C library.
pub fn target() -> String {
    format!("{}-{}-{C_LIBRARY}", std::env::consts::ARCH, std::env::consts::OS)
}

/// Returns what `--version` prints after the name of the program.
pub fn line() -> &'static str {
    static LINE: LazyLock<String> = LazyLock::new(|| match (COMMIT, DATE) {
        (Some(commit), Some(date)) => {
            format!("{VERSION} ({} {date}, {})", commit.get(..10).unwrap_or(commit), target())
        }
        _ => format!("{VERSION} (built from source, {})", target()),
    });
    &LINE
}

/// Returns what `--version --json` prints; `None` if these are not the arguments of the program. Commit and date are
/// null if the program was not built by `make dist`.
pub fn json(arguments: impl Iterator<Item = String>) -> Option<String> {
    let mut arguments: Vec<String> = arguments.collect();
    arguments.sort();
    let is_asked = matches!(arguments.as_slice(), [a, b] if a == "--json" && b == "--version")
        || matches!(arguments.as_slice(), [a, b] if a == "--json" && b == "-V");
    let value = serde_json::json!({ "version": VERSION, "commit": COMMIT, "date": DATE, "target": target() });
    is_asked.then(|| format!("{value}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_is_printed_as_json_only_if_asked() {
        let asked = |words: &[&str]| json(words.iter().map(ToString::to_string));
        for words in [["--version", "--json"], ["--json", "--version"], ["-V", "--json"]] {
            let value: serde_json::Value = serde_json::from_str(&asked(&words).unwrap()).unwrap();
            assert_eq!(value["version"], VERSION);
            assert!(value["target"].as_str().unwrap().contains("linux"));
        }
        for words in [&["--version"][..], &["run", "--json"], &["--version", "--json", "get"]] {
            assert_eq!(asked(words), None, "{words:?}");
        }
        assert!(line().starts_with(VERSION) && line().contains(&target()));
    }
}
