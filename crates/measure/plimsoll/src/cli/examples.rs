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
            "plimsoll run get --store s3://bucket --size 16KiB --sweep working_set=64MiB,128MiB,256MiB,512MiB,1GiB",
            "plimsoll run experiment.toml --store NAME --max-cost 5",
        ],
    ),
    (
        "run durability",
        &[
            "plimsoll run durability --server minio --cuts 100",
            "plimsoll run durability --server 'minio server {dir} --address {address}' --model posix",
        ],
    ),
    (
        "run canary",
        &[
            "plimsoll run canary --store s3://bucket --every 30s --metrics-listen 127.0.0.1:9464",
            "plimsoll run canary --show",
        ],
    ),
    (
        "run clients",
        &[
            "plimsoll run clients --store s3://bucket",
            "plimsoll run clients --store s3://bucket --clients boto3,s5cmd --size 8MiB --objects 100",
        ],
    ),
    ("run consistency", &["plimsoll run consistency --store s3://bucket --duration 1m --clients 4"]),
    ("run contention", &["plimsoll run contention --store s3://bucket"]),
    (
        "run parquet",
        &[
            "plimsoll run parquet sales.parquet --store s3://bucket --reader duckdb --columns day,price",
            "plimsoll run parquet tables --store s3://bucket --reader pyarrow --concurrency 8 --dry-run",
        ],
    ),
    (
        "run sync",
        &["plimsoll run sync --store s3://bucket --files 1000 --client 'aws s3 sync {source} {target}'"],
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
    ("ycsb load", &["plimsoll ycsb load --store s3://bucket -P workloada -p recordcount=10000"]),
    ("ycsb run", &["plimsoll ycsb run --store s3://bucket -P workloada --threads 16"]),
    ("ycsb clean", &["plimsoll ycsb clean --store s3://bucket -P workloada"]),
    ("show", &["plimsoll show latest --distribution"]),
    (
        "verify",
        &[
            "plimsoll verify latest",
            "plimsoll verify latest --json",
            "plimsoll verify RUN --public-key plimsoll.pub",
        ],
    ),
    (
        "audit",
        &[
            "plimsoll audit latest --inconclusive pass",
            "plimsoll audit express-vs-r2",
            "plimsoll audit --rules",
        ],
    ),
    (
        "report",
        &[
            "plimsoll report latest~1 latest --output comparison.html",
            "plimsoll report latest --appendix",
            "plimsoll report --publish site",
        ],
    ),
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
    ("fleet run", &["plimsoll fleet run experiment.toml --on slurm --store s3://bucket"]),
    (
        "fleet manifest",
        &["plimsoll fleet manifest --nodes 8 --name plimsoll --image registry.example.com/plimsoll:0.1.0"],
    ),
    ("edge run", &["plimsoll edge run get --relay https://plimsoll-edge.example.workers.dev --rate 50/s"]),
    (
        "edge calibrate",
        &["plimsoll edge calibrate --relay https://plimsoll-edge.example.workers.dev --listen 0.0.0.0:9000"],
    ),
    ("edge", &["plimsoll edge run get --relay https://plimsoll-edge.example.workers.dev"]),
    ("merge", &["plimsoll merge plimsoll-runs/SHARD-1 plimsoll-runs/SHARD-2 --out plimsoll-runs"]),
    ("export", &["plimsoll export plimsoll-runs/RUN --format parquet"]),
    ("import", &["plimsoll import warp warp-results.csv.zst"]),
    ("clean", &["plimsoll clean plimsoll-runs/RUN"]),
    ("probe", &["plimsoll probe s3://bucket", "plimsoll probe s3://bucket --for opentofu,restic"]),
    ("bucket", &["plimsoll bucket create s3://bucket", "plimsoll bucket delete s3://bucket"]),
    ("bucket create", &["plimsoll bucket create s3://bucket-{random}"]),
    ("bucket delete", &["plimsoll bucket delete s3://bucket --force"]),
    ("calibrate", &["plimsoll calibrate"]),
    (
        "serve",
        &[
            "plimsoll serve --listen 127.0.0.1:9000",
            "plimsoll serve --inject 'latency=5ms,error=0.01'",
            "plimsoll serve --like latest",
            "plimsoll serve --like s3-standard",
        ],
    ),
    ("gateway", &["plimsoll gateway run --data DIR"]),
    (
        "cost",
        &[
            "plimsoll cost --storage 10TB --get 50M --object-size 256KiB",
            "plimsoll cost breakeven --storage 10TB --object-size 64KiB --between aws-s3,cloudflare-r2 --vary get",
        ],
    ),
    (
        "cost breakeven",
        &[
            "plimsoll cost breakeven --storage 10TB --object-size 64KiB --between aws-s3,cloudflare-r2 --vary get",
        ],
    ),
    (
        "meter",
        &[
            "plimsoll meter -- aws s3 sync . s3://meter/files",
            "plimsoll meter --prepare 'restic init' --runs-per-month 30 -- restic backup .",
            "plimsoll meter --upstream s3://bucket --provider aws-s3,cloudflare-r2 -- aws s3 ls s3://bucket",
        ],
    ),
    (
        "cost explain",
        &[
            "plimsoll cost explain bill.csv.gz",
            "plimsoll cost explain bill.csv.gz --inventory inventory --prefix-depth 2",
        ],
    ),
    ("cost from-log", &["plimsoll cost from-log access.log --storage 10TB --prefix-depth 2"]),
    (
        "cost migrate",
        &[
            "plimsoll cost migrate --from aws-s3 --to cloudflare-r2 --storage 300TB --egress 40TB --get 600M --put 50M --object-size 200KB",
        ],
    ),
    (
        "cost tiering",
        &[
            "plimsoll cost tiering --hot aws-s3-express --cold cloudflare-r2 --hot-reads 80% --put 1M --object-size 1MiB --keep 30d",
        ],
    ),
    ("advise", &["plimsoll advise plimsoll-runs/RUN --storage 10TB --get 50M --object-size 64KiB"]),
    ("published", &["plimsoll published check"]),
    ("published check", &["plimsoll published check"]),
    ("published show", &["plimsoll published show r2-bench"]),
    ("list", &["plimsoll list experiments", "plimsoll list providers --matrix"]),
];

/// Returns the end of the help of each command.
fn text(lines: &[&str]) -> String {
    let lines: String = lines.iter().map(|line| format!("\n  {line}")).collect();
    format!("Examples:{lines}")
}

/// Adds examples to the help of the command at a path of names.
fn add_at(command: clap::Command, path: &[&str], lines: &[&str]) -> clap::Command {
    match path {
        [] => command.after_help(text(lines)),
        [name, rest @ ..] => command.mut_subcommand(*name, |sub| add_at(sub, rest, lines)),
    }
}

/// Adds the examples to the help of a command line.
pub fn add(command: clap::Command) -> clap::Command {
    EXAMPLES
        .iter()
        .fold(command, |command, (path, lines)| add_at(command, &path.split(' ').collect::<Vec<_>>(), lines))
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

    /// Asserts that a command and the commands below it have examples.
    fn assert_examples(command: &clap::Command, path: &str) {
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
            let path = format!("{path} {}", sub.get_name());
            assert!(sub.get_after_help().is_some(), "{path} has no examples");
            assert_examples(sub, &path);
        }
    }

    #[test]
    fn every_command_has_examples_and_every_example_is_valid() {
        assert_examples(&add(Cli::command()), "plimsoll");
        for (path, lines) in EXAMPLES {
            for line in *lines {
                assert!(line.starts_with(&format!("plimsoll {path}")), "{line} is not an example of {path}");
                let parsed = add(Cli::command()).try_get_matches_from(words(line));
                assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
            }
        }
    }
}
