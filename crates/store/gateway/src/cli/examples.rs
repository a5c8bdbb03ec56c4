//! Examples in the help of each command.

/// Command and its examples, one per line.
const EXAMPLES: &[(&str, &[&str])] = &[
    (
        "run",
        &[
            "plimsoll-gateway run --data /var/lib/plimsoll",
            "plimsoll-gateway run gateway.toml",
            "plimsoll-gateway run gateway.toml --follow s3://backup/gateway",
        ],
    ),
    ("status", &["plimsoll-gateway status --data /var/lib/plimsoll"]),
    ("scrub", &["plimsoll-gateway scrub --data /var/lib/plimsoll"]),
    (
        "plan",
        &[
            "plimsoll-gateway plan gateway.toml",
            "plimsoll-gateway plan gateway.toml --what-if pack.file_size=128MiB --format html --output plan.html",
        ],
    ),
    ("adopt", &["plimsoll-gateway adopt gateway.toml --tier cold --bucket photos --dry-run"]),
    ("release", &["plimsoll-gateway release gateway.toml --bucket photos --tier cold --dry-run"]),
    ("rollback", &["plimsoll-gateway rollback gateway.toml --bucket photos --dry-run"]),
    (
        "undelete",
        &[
            "plimsoll-gateway undelete --data /var/lib/plimsoll --bucket photos --prefix 2026/ --at 2h --dry-run",
        ],
    ),
    (
        "backup",
        &[
            "plimsoll-gateway backup --data /var/lib/plimsoll --to /backup/plimsoll",
            "plimsoll-gateway backup gateway.toml --done 10m",
        ],
    ),
    (
        "restore",
        &[
            "plimsoll-gateway restore gateway.toml --at 2026-01-02T03:04:05Z",
            "plimsoll-gateway restore --from /backup/plimsoll --data /var/lib/plimsoll",
            "plimsoll-gateway restore gateway.toml --bucket photos --at 2h --dry-run",
        ],
    ),
    ("catalog", &["plimsoll-gateway catalog migrate gateway.toml --to gateway-with-database.toml"]),
    ("promote", &["plimsoll-gateway promote gateway.toml"]),
    (
        "verify-backup",
        &[
            "plimsoll-gateway verify-backup gateway.toml",
            "plimsoll-gateway verify-backup --from /backup/plimsoll",
        ],
    ),
    ("where", &["plimsoll-gateway where gateway.toml --object photos/2026/a.jpg"]),
    ("recover", &["plimsoll-gateway recover gateway.toml --from-tiers --dry-run"]),
    ("reconcile", &["plimsoll-gateway reconcile gateway.toml"]),
    (
        "unshipped",
        &["plimsoll-gateway unshipped gateway.toml --from /var/lib/plimsoll/catalog/replaced-1790000000000"],
    ),
    ("replace-tier", &["plimsoll-gateway replace-tier gateway.toml --tier cold"]),
    ("sweep", &["plimsoll-gateway sweep gateway.toml"]),
    ("rebuild-index", &["plimsoll-gateway rebuild-index --data /var/lib/plimsoll"]),
];

/// Adds the examples to the help of a command line.
pub fn add(command: clap::Command) -> clap::Command {
    EXAMPLES.iter().fold(command, |command, (name, lines)| {
        let text: String = lines.iter().map(|line| format!("\n  {line}")).collect();
        command.mut_subcommand(*name, |sub| sub.after_help(format!("Examples:{text}")))
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Arguments;

    #[test]
    fn every_command_has_examples_and_every_example_is_valid() {
        let command = add(Arguments::command());
        for sub in command.get_subcommands() {
            assert!(sub.get_after_help().is_some(), "{} has no examples", sub.get_name());
        }
        for (name, lines) in EXAMPLES {
            for line in *lines {
                assert!(line.starts_with(&format!("plimsoll-gateway {name}")), "{line}");
                let parsed = add(Arguments::command()).try_get_matches_from(line.split(' '));
                assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
            }
        }
    }
}
