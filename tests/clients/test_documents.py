"""Executes the command lines of the documents and of the help, or names the account or machine that one needs.

Each line runs in a directory with the files and runs that the documents assume, against a local server. A line that
starts a measurement only prints its plan (`--dry-run`) if the command has one, or measures for a second.
"""
import contextlib
import glob
import os
import re
import shlex
import shutil
import subprocess
import sys

import boto3
import pyarrow
import pyarrow.parquet
import pytest

from support import ACCESS, GATEWAY, PLIMSOLL, ROOT, SECRET, Server, environment

# Beginnings of lines that are not executed, and why.
NEEDS = {
    "plimsoll fleet run": "nodes: test_fleet.py",
    "plimsoll fleet manifest --nodes 8 --image registry.example.com/plimsoll:0.1.0 --secret aws-keys |": "a cluster",
    "plimsoll edge": "a relay: edge/",
    "plimsoll run canary": "a canary does not end: test_canary.py",
    "plimsoll run durability": "mounts, and a server: test_durability.py",
    "plimsoll calibrate": "minutes: make bench",
    "plimsoll serve": "a server does not end: every other test",
    "plimsoll gateway run": "a server does not end: test_gateway.py",
    "plimsoll-gateway run": "a server does not end: test_gateway.py",
    "plimsoll-gateway backup --data DIR": "a store: test_backup_once.py",
    "plimsoll-gateway restore": "a backup: test_backup.py",
    "plimsoll-gateway unshipped": "a former leader: test_standby.py",
    "plimsoll-gateway verify-backup": "a backup: test_backup.py",
    "plimsoll-gateway promote": "a standby: test_standby.py",
    "plimsoll-gateway catalog migrate": "a database: test_migrate.py",
    "plimsoll run quickstart": "half a minute: test_report.py",
    "plimsoll meter --prepare": "restic, and the password of a repository: test_meter.py",
    "plimsoll meter --record": "restic, and the password of a repository: test_meter.py",
    "plimsoll verify RUN --public-key": "a signed run: crates/measure/plimsoll/tests/it/verify.rs",
    "plimsoll import": "a log of warp: crates/measure/plimsoll/tests/it/import.rs",
    "plimsoll bucket": "AWS: it creates buckets with random names, and directory buckets",
}
# Placeholders and example names, and what stands for them.
STORES = ["one", "two", "r2", "A", "B", "S", "STORE", "NAME", "express", "s3", "old", "new"]
RUNS = {"OLD": 1, "NEW": 2, "BASE": 1, "A1": 1, "A2": 1, "A3": 1, "B1": 2, "B2": 2, "B3": 2, "RUN": 1, "RUN...": 1}
BUCKETS = ["bucket", "my-bucket", "standard"]
# Parts of lines that need an account, and the account.
ACCOUNTS = {"gs://": "Google Cloud", "https://cdn": "a web server", "--x-s3": "S3 Express One Zone",
            "--shard": "several hosts", "merge": "the shards of several hosts: test_fleet.py"}
# Commands that measure although they have no plan, and the values that make them short.
MEASURES = ("run clients", "run consistency", "run contention", "run sync", "ycsb")
SHORT = {"--duration": "1s", "--writers": "1,2", "--files": "2", "--loops": "1", "--target": "100000",
         "--objects": "4"}


def blocks(path):
    """Returns the lines of the code blocks of a document, with their numbers; continued lines are joined."""
    found, inside, begun = [], False, ""
    with open(path) as text:
        for number, line in enumerate(text, 1):
            if line.lstrip().startswith("```"):
                inside = not inside
            elif inside:
                line = begun + line.strip()
                begun = line[:-1] if line.endswith("\\") else ""
                if not begun:
                    found.append((number, line))
    return found


def documents(everything=False):
    """Returns the names of the documents; without everything, those that describe the present.

    The pages of the results are left out: their commands have placeholders, and `make results` executes them."""
    names = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    past = ("docs/decisions/", "CHANGELOG", "results/")
    return [name for name in names.split() if everything or not name.startswith(past)]


def commands_of(line):
    """Returns the commands of a line that start Plimsoll."""
    line = re.sub(r"\s#\s.*| {2,}#.*", "", line.removeprefix("$ "))
    line = re.sub(r"(?<!\S)(target/release/|/usr/local/bin/)(?=plimsoll)", "", line.replace("ExecStart=", ""))
    parts = re.split(r"\s*&&\s*", line)
    return [part for part in parts if re.match(r"plimsoll(-gateway)? ", part)]


def help_examples(name):
    """Returns the examples in the help of the commands of a program. A test in Rust proves that every command has one."""
    source = {"plimsoll": "measure/plimsoll", "plimsoll-gateway": "store/gateway"}[name]
    with open(os.path.join(ROOT, "crates", source, "src", "cli", "examples.rs")) as text:
        return re.findall(rf'"({name} [^"]+)"', text.read().partition("EXAMPLES:")[2].partition("];\n")[0])


def all_commands():
    found = {}
    for document in documents():
        # test_operations.py executes these pages.
        if document.startswith("docs/operations/"):
            continue
        for number, line in blocks(os.path.join(ROOT, document)):
            for command in commands_of(line):
                found.setdefault(command, f"{document}:{number}")
    for binary, name in ((PLIMSOLL, "plimsoll"), (GATEWAY, "plimsoll-gateway")):
        if os.path.exists(binary):
            for command in help_examples(name):
                found.setdefault(command, f"the help of {name}")
    return found


EXPERIMENT = """name = "example"
[[phase]]
name = "put"
operations = { put = 1 }
objects = { count = 4, size = "1KiB" }
concurrency = 1
duration = "1s"
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A directory with everything that the documents assume, a server, and two runs."""
    path = tmp_path_factory.mktemp("documents")
    with Server() as server:
        s3 = boto3.client("s3", endpoint_url=server.url, region_name="us-east-1", aws_access_key_id=ACCESS,
                          aws_secret_access_key=SECRET)
        for bucket in BUCKETS:
            s3.create_bucket(Bucket=bucket)

        def write(name, text):
            (path / name).write_text(text)

        write("plimsoll.toml", "".join(f'[store.{name}]\nurl = "{store(server, "bucket/" + name)}"\n'
                                       for name in STORES))
        for name in ("experiment.toml", "my-experiment.toml", "FILE"):
            write(name, EXPERIMENT)
        write("slo.txt", "get.p99 < 10s\n# a comment\nerrors < 0.1%\n")
        write("month.toml", 'storage = "10TB"\nget = "50M"\nobject_size = "64KiB"\n')
        table = "time,operation,key,size,bytes,status\n" + "".join(
            f"2026-11-21T12:00:{n:02}Z,GET,k{n % 3},1024,1024,200\n" for n in range(40))
        write("access.log", table)
        write("bill.csv", "lineItem/UsageStartDate,lineItem/UsageType,lineItem/UsageAmount,lineItem/UnblendedCost,"
              "lineItem/ProductCode,pricing/unit\n2026-10-01,TimedStorage-ByteHrs,1000,23,AmazonS3,GB-Mo\n")
        subprocess.run(["gzip", "bill.csv"], cwd=path, check=True)
        (path / "inventory").mkdir()
        write("inventory/1.csv", '"bucket","a/b","1000000","2026-01-01T00:00:00.000Z","STANDARD"\n')
        write("requests.csv", table.replace("key", "path", 1).replace("bytes", "sent", 1))
        subprocess.run(["gzip", "-k", "access.log"], cwd=path, check=True)
        sales = pyarrow.table({"day": [1, 2, 3], "price": [1.5, 2.5, 3.5]})
        (path / "tables").mkdir()
        for name in ("sales.parquet", "tables/1.parquet"):
            pyarrow.parquet.write_table(sales, path / name)
        (path / "access-logs").mkdir()
        write("access-logs/1.csv", table)
        write("gateway.toml", f"""[catalog]
url = "dir:{path}/data/catalog"
[tier.hot]
url = "file://{path}/hot"
offer = "aws-s3"
[tier.cold]
url = "file://{path}/cold"
offer = "cloudflare-r2"
[write]
tier = "hot"
[pack]
tier = "cold"
[[move]]
from = "hot"
to = "cold"
when = "age > 7d"
""")
        with Server(str(path / "gateway.toml"), command=(GATEWAY, "run")) as gateway:
            s3 = boto3.client("s3", endpoint_url=gateway.url, region_name="us-east-1", aws_access_key_id=ACCESS,
                              aws_secret_access_key=SECRET)
            s3.create_bucket(Bucket="photos")
            s3.put_object(Bucket="photos", Key="2026/a.jpg", Body=b"")
        for names in (["one", "two"], ["old"], ["new"]):
            stores = [word for name in names for word in ("--store", name)]
            done = run(path, ["plimsoll", "run", "get", *stores, "--objects", "4", "--duration", "2s", "--warmup", "0s"])
            assert done.returncode == 0, done.stderr
        yield path, server, sorted(os.listdir(path / "plimsoll-runs"))


def store(server, place):
    """Returns the URL of a bucket on the server, with the prices of S3."""
    return f"s3://{place}?endpoint={server.url}&provider=aws-s3&style=path"


def run(path, words):
    binary = {"plimsoll": PLIMSOLL, "plimsoll-gateway": GATEWAY}[words[0]]
    env = {**environment(), "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"}
    return subprocess.run([binary, *words[1:]], cwd=path, env=env, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=120)


def local(word, server, runs):
    """Returns a word of a command line with what stands for its stores, runs and directories."""
    name = word.removeprefix("plimsoll-runs/")
    if name in RUNS:
        return f"plimsoll-runs/{runs[RUNS[name]]}"
    if url := re.match(r"s3://([a-z0-9-]+)", word):
        return store(server, url[1] if url[1] in BUCKETS else "bucket")
    return re.sub(r"^((record|operation)count)=.*", r"\1=100", word.replace("/var/lib/plimsoll", "data").replace("/backup/", "copy-"))


@contextlib.contextmanager
def without_catalog(path):
    """Takes the catalog away for a time, for a command that builds a new one."""
    catalog = path / "data" / "catalog"
    catalog.rename(path / "catalog.kept")
    try:
        yield
    finally:
        shutil.rmtree(catalog, ignore_errors=True)
        (path / "catalog.kept").rename(catalog)


COMMANDS = all_commands()


def reason(command):
    """Returns what a command needs; empty if it is executed."""
    needs = [why for start, why in NEEDS.items() if command.startswith(start)]
    return next(iter(needs + [why for part, why in ACCOUNTS.items() if part in command]), "")


def test_the_documents_have_commands_and_every_exception_is_needed():
    assert len(COMMANDS) > 120, "the code blocks were not found"
    executed = [command for command in COMMANDS if not reason(command)]
    assert len(executed) > 85, f"only {len(executed)} commands are executed"
    for start in [*NEEDS, *ACCOUNTS]:
        assert any(start in command for command in COMMANDS), f"no document has {start}"


@pytest.mark.parametrize("command", [command for command in COMMANDS if not reason(command)])
def test_a_command_of_the_documents_works(place, command):
    path, server, runs = place
    words = shlex.split(command)
    # The command that the meter runs has its endpoint in its environment.
    own = words.index("--") if words[1] == "meter" else len(words)
    words = [local(word, server, runs) for word in words[:own]] + words[own:]
    if command in ("plimsoll compare RUN", "plimsoll compare latest"):
        words[2] = f"plimsoll-runs/{runs[0]}"
    output = words[words.index(">") + 1] if ">" in words else None
    words = words[:words.index(">")] if output else words
    name = " ".join(words[1:])
    if name.startswith(MEASURES):
        words = [SHORT.get(before, word) for before, word in zip([""] + words, words)]
        if name.startswith(("run consistency", "run contention")) and "--duration" not in words:
            words += ["--duration", "1s"]
        if name.startswith("run clients"):
            words += ["--rounds", "1", "--python", sys.executable]
            words += [] if "--objects" in words else ["--objects", "4"]
        # The runs of the documents stay the latest ones.
        words += [] if name.startswith("ycsb clean") else ["--out", "other"]
    elif "--for" in words:
        words += ["--rounds", "5"]
    elif name.startswith(("run", "replay")) and "--dry-run" not in words and words[0] == "plimsoll":
        words.append("--dry-run")
    with without_catalog(path) if name.startswith("recover") else contextlib.nullcontext():
        done = run(path, words)
    if output:
        (path / output).write_text(done.stdout)
    # A comparison of two short runs may be inconclusive, and an audit of them is.
    allowed = (0, 1) if name.startswith(("compare", "check", "published", "audit")) else (0,)
    assert done.returncode in allowed, f"{COMMANDS[command]}: {command}\n{done.stderr}{done.stdout}"


def anchors(path):
    """Returns the names of the headings of a document, as they appear in links."""
    with open(path) as text:
        headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text.read(), flags=re.S), re.M)
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower() for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading).strip().replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("document", documents(everything=True))
def test_the_links_of_a_document_exist(document):
    with open(os.path.join(ROOT, document)) as text:
        links = re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", text.read(), flags=re.S))
    for link in links:
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = os.path.normpath(os.path.join(ROOT, os.path.dirname(document), name)) if name else os.path.join(ROOT, document)
        assert os.path.exists(target), f"{document}: {link}"
        assert not anchor or not target.endswith(".md") or anchor in anchors(target), f"{document}: {link}"


@pytest.mark.parametrize("document", documents())
def test_the_paths_that_a_document_names_exist(document):
    """Names of files of this repository in code: `crates/x/src/y.rs`, `benches/z.py`, `docs/a.md`."""
    with open(os.path.join(ROOT, document)) as text:
        names = re.findall(r"`((?:crates|benches|docs|tests|infra|edge|python|examples|schema)/[\w./-]+)`", text.read())
    for name in names:
        # The next test reads ARCHITECTURE.md, which omits a part of each path.
        assert document == "ARCHITECTURE.md" or os.path.exists(os.path.join(ROOT, name)), f"{document}: {name}"


@pytest.mark.parametrize("document", ["ARCHITECTURE.md", "docs/store.md", "docs/operation.md"])
def test_the_paths_of_crates_exist(document):
    """These documents omit `crates/`, the folder of a crate and `src/`."""
    with open(os.path.join(ROOT, document)) as text:
        names = re.findall(r"`([a-z0-9_-]+/[\w./-]*)`", text.read())
    crates = {path.split("/")[-1]: path for path in glob.glob(os.path.join(ROOT, "crates/*/*"))}
    assert len([name for name in names if name.split("/")[0] in crates]) > 50

    def exists(name):
        crate, _, rest = name.replace("NAME", "*").partition("/")
        if crate in crates:
            return any(glob.glob(os.path.join(crates[crate], inner, rest)) for inner in ("src", "."))
        # Other documents also name files of stores.
        return document != "ARCHITECTURE.md" or glob.glob(os.path.join(ROOT, name.replace("NAME", "*")))

    missing = [name for name in names if not exists(name)]
    assert not missing


def flags(binary, command=()):
    """Returns the defaults of the flags of a program and its commands, as the help shows them."""
    text = subprocess.run([binary, *command, "--help"], capture_output=True, text=True).stdout
    # A flag begins a paragraph, and its default ends it.
    found = {}
    for part in re.split(r"\n(?= +(?:-\w, )?--)", text):
        name, default = re.match(r" +(?:-\w, )?(--[\w-]+)", part), re.search(r"\[default:\s+(.+?)\]", part, re.DOTALL)
        if name and default:
            found.setdefault(name[1], set()).add(" ".join(default[1].split()))
    if not command:
        for name in re.findall(r"^  ([a-z][a-z-]+) ", text.partition("ommands:\n")[2] or text, re.MULTILINE):
            for flag, defaults in flags(binary, (name,)).items():
                found.setdefault(flag, set()).update(defaults)
    return found


def same(text):
    """Returns a value without the differences between prose and flags: `24 hours` and `24h`, `10%` and `10`."""
    text = re.sub(r"[\s`\"%]", "", text)
    return re.sub(r"(second|minute|hour|day)s?$", lambda unit: unit[1][0], text)


def claims_about_flags():
    """Returns the defaults of flags that the documents state: `--flag` (VALUE), and the rows of tables."""
    found = []
    for document in documents():
        with open(os.path.join(ROOT, document)) as file:
            text = file.read()
        stated = re.findall(r"`(--[\w-]+)`\s\((\d[^)]*)\)", text)
        for table in re.findall(r"\| flag \| default \|.*\n\|[- |]+\n((?:\|.*\n)+)", text):
            stated += re.findall(r"^\| `(--[\w-]+)` \| ([^|]+?) \|", table, re.MULTILINE)
        found += [(document, flag, default) for flag, default in stated]
    return found


def test_the_documents_state_the_defaults_of_flags_as_they_are():
    actual = {}
    for binary in (PLIMSOLL, GATEWAY):
        for flag, defaults in flags(binary).items():
            actual.setdefault(flag, set()).update(map(same, defaults))
    claims = claims_about_flags()
    assert len(claims) >= 9, claims
    for document, flag, default in claims:
        # The half of the memory is a number in the help of no machine.
        if default != "half of the memory":
            assert same(default) in actual.get(flag, ()), f"{document}: {flag} {default}, actually {actual.get(flag)}"
