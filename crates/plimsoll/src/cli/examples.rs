//! Examples in the help of each command.

/// Command and its examples, one per line.
pub const EXAMPLES: &[(&str, &[&str])] = &[
    (
        "run",
        &[
            "plimsoll run quickstart",
            "plimsoll run get --store s3://bucket --size 64KiB --concurrency 32 --duration 1m",
            "plimsoll run mixed --store s3://bucket --rate 500/s --slo 'get.p99 < 25ms' --slo 'errors < 0.1%'",
            "plimsoll run get --store s3://one --store s3://two --until conclusive",
            "plimsoll run capacity --store s3://bucket --slo 'get.p99 < 25ms'",
            "plimsoll run get --store s3://bucket --sweep size=1KiB,1MiB --sweep concurrency=1,8,64",
            "plimsoll run experiment.toml --store NAME --max-cost 5",
        ],
    ),
    ("replay", &["plimsoll replay access.log --store s3://bucket --speed 2x"]),
    ("fit", &["plimsoll fit access.log --output fitted.toml"]),
    (
        "ycsb",
        &[
            "plimsoll ycsb load --store s3://bucket -P workloada -p recordcount=10000",
            "plimsoll ycsb run --store s3://bucket -P workloada --threads 16",
        ],
    ),
    ("sync", &["plimsoll sync --store s3://bucket --client plimsoll --client 'aws s3 sync'"]),
    ("show", &["plimsoll show latest --distribution"]),
    ("report", &["plimsoll report latest~1 latest --out comparison.html", "plimsoll report --publish site"]),
    (
        "compare",
        &[
            "plimsoll compare latest~1 latest",
            "plimsoll compare OLD NEW --fail-if 'get.p99 > +5%'",
            "plimsoll compare A1 A2 A3 -- B1 B2 B3",
        ],
    ),
    ("check", &["plimsoll check latest --slo 'get.p99 < 10ms' --slo 'errors < 0.1%'"]),
    (
        "history",
        &[
            "plimsoll history --label branch=main",
            "plimsoll history --figure get.p99 --format html --output trend.html",
        ],
    ),
    ("fleet", &["plimsoll fleet run experiment.toml --on ssh:hosts.txt --store s3://bucket"]),
    ("edge", &["plimsoll edge run get --worker https://plimsoll-edge.example.workers.dev"]),
    ("merge", &["plimsoll merge plimsoll-runs/SHARD-1 plimsoll-runs/SHARD-2 --out plimsoll-runs"]),
    ("export", &["plimsoll export plimsoll-runs/RUN --format parquet"]),
    ("import", &["plimsoll import warp warp-results.csv.zst"]),
    ("clean", &["plimsoll clean plimsoll-runs/RUN"]),
    ("probe", &["plimsoll probe s3://bucket"]),
    ("bucket", &["plimsoll bucket create s3://bucket", "plimsoll bucket delete s3://bucket"]),
    ("calibrate", &["plimsoll calibrate"]),
    (
        "serve",
        &["plimsoll serve --listen 127.0.0.1:9000", "plimsoll serve --inject 'latency=5ms,error=0.01'"],
    ),
    ("gateway", &["plimsoll gateway run --data DIR"]),
    (
        "cost",
        &[
            "plimsoll cost --storage 10TB --get 50M --object-size 256KiB",
            "plimsoll cost breakeven --storage 10TB --object-size 64KiB --between aws-s3,cloudflare-r2 --vary get",
        ],
    ),
    ("advise", &["plimsoll advise plimsoll-runs/RUN --storage 10TB --get 50M --object-size 64KiB"]),
    ("published", &["plimsoll published check"]),
    ("list", &["plimsoll list experiments", "plimsoll list providers --matrix"]),
];

/// Returns the end of the help of each command.
fn text(lines: &[&str]) -> String {
    let lines: String = lines.iter().map(|line| format!("\n  {line}")).collect();
    format!("Examples:{lines}")
}

/// Adds the examples to the help of a command line.
pub fn add(command: clap::Command) -> clap::Command {
    EXAMPLES.iter().fold(command, |command, (name, lines)| {
        command.mut_subcommand(*name, |sub| sub.after_help(text(lines)))
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    /// Splits a command line at spaces outside of single quotes.
    fn words(line: &str) -> Vec<String> {
        let mut words = vec![String::new()];
        let mut quoted = false;
        for character in line.chars() {
            match character {
                '\'' => quoted = !quoted,
                ' ' if !quoted => words.push(String::new()),
                other => words.last_mut().expect("there is a word").push(other),
            }
        }
        words
    }

    #[test]
    fn every_command_has_examples_and_every_example_is_valid() {
        let command = add(Cli::command());
        for sub in command.get_subcommands() {
            assert!(sub.get_after_help().is_some(), "{} has no examples", sub.get_name());
        }
        for line in EXAMPLES.iter().flat_map(|(_, lines)| *lines) {
            let parsed = add(Cli::command()).try_get_matches_from(words(line));
            assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
        }
    }
}
