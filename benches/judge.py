#!/usr/bin/env python3
"""Tests comparisons, capacities and reports against known results.

`same` compares runs of one store, which should not differ. `capacity` searches for the capacity of servers with known
limits, also with a disturbed client. `limits` does so for the servers of `limits.py`, some of which change. `scale` times the reports of long runs. `merge` times the merge of 100 shards.

    make bench-judge                # all of them: about an hour on a quiet machine
    judge.py same|capacity|limits|scale|merge  # one of them; --quick makes a shorter version

With PERFORMANCE=write, the full version writes its tables into docs/performance.md and docs/calibration.md.
"""

import argparse
import json
import os
import random
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import performance

ROOT = Path(__file__).resolve().parent.parent
BINARY = Path(os.environ.get("PLIMSOLL", ROOT / "target/dist/plimsoll"))
KEYS = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench-secret", "AWS_EC2_METADATA_DISABLED": "true"}
ENVIRONMENT = {**os.environ, **KEYS}
rows = []


def show(figure, value, limit=None):
    """Prints a figure with its limit, and keeps the row."""
    print(f"{figure}: {value}" + (f" (limit: {limit})" if limit else ""), flush=True)
    rows.append([figure, value, limit or "-"])


class Server:
    """`plimsoll serve` on a free port, with injected faults."""

    def __init__(self, inject):
        command = [BINARY, "serve", "--listen", "127.0.0.1:0", "--inject", inject, "--until-stdin-closes"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
        address = self.process.stdout.readline().split()[-1]
        self.store = f"s3://bench/?endpoint={address}&region=us-east-1"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()


def plimsoll(*arguments, ok=(0,)):
    """Runs a command and returns its standard output; exits if the exit code is not in `ok`."""
    done = subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True, env=ENVIRONMENT)
    if done.returncode not in ok:
        sys.exit(f"{arguments}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def same(quick):
    """Compares ten pairs of runs on one server and counts the comparisons that find a difference."""
    pairs, duration = (3, "15s") if quick else (10, "20s")
    called = []
    with Server("latency=lognormal(3ms;0.4)") as server, tempfile.TemporaryDirectory() as out:
        run = lambda name: json.loads(plimsoll("run", "get", "--store", server.store, "--create-bucket", "--duration",
                                               duration, "--out", f"{out}/{name}", "--json"))["run"]["id"]
        for pair in range(pairs):
            paths = [f"{out}/{pair}{side}/" + run(f"{pair}{side}") for side in "ab"]
            row = json.loads(plimsoll("compare", *paths, "--json"))["comparisons"][0]["rows"][0]
            called.append(row["verdict"] in ("faster", "slower"))
            print(f"  pair {pair + 1}: x {row['change']:.4f} [{row['change_low']:.4f}..{row['change_high']:.4f}] {row['verdict']}", flush=True)
    show("pairs of runs of one store that differ (A/A)", f"{sum(called)} of {pairs}", "2 of 10")


def search(kind, inject, size, limit, by, disturb=None):
    """Searches for the capacity of a server with a known limit; `disturb` is called with the process until it ends."""
    with Server(inject.format(limit)) as server, tempfile.TemporaryDirectory() as out:
        began = time.perf_counter()
        command = [BINARY, "run", "capacity", "--store", server.store, "--create-bucket", "--by", by, "--size", size,
                   "--out", out, "--json"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT)
        ended = threading.Event()
        if disturb:
            threading.Thread(target=disturb, args=(process, ended), daemon=True).start()
        output, problem = process.communicate()
        ended.set()
        if process.returncode:
            sys.exit(f"capacity by {by}: {problem.decode()}")
        found, took = json.loads(output)["capacity"], time.perf_counter() - began
    value = found["per_s"]
    error = f"{100 * (value / limit - 1):+.2f}%" if value else f"client-limited: {found['client_limit']}"
    name = f"capacity by {by}, {size}, server {kind} above {limit}/s" + (f", client disturbed: {disturb.__name__}" if disturb else "")
    show(name, f"{error}, {took:.0f} s", "5% or client-limited, 300 s" if disturb else "5%, 300 s")


# Servers of `limits.py`, the arguments of the search, and the capacity that they have in the end.
LIMITS = [("queue", [], 200), ("reject", [], 200), ("workers", [], 400), ("collapse", [], 775), ("credit", [], 150),
          ("autoscale", [], 600), ("connection", [], 700), ("latency", [], 500), ("fade", [], 300),
          ("queue", ["--by", "rate"], 200), ("collapse", ["--by", "rate"], 775), ("credit", ["--by", "rate"], 150),
          ("fade", ["--by", "rate"], 300), ("workers", ["--slo", "get.p99 < 100ms"], 400),
          ("latency", ["--slo", "get.p99 < 50ms"], 500)]


def limits(quick):
    """Searches for the capacity of servers with known limits, some of which change, and shows the first lines."""
    within = "60s" if quick else "150s"
    for kind, arguments, truth in LIMITS:
        with tempfile.TemporaryDirectory() as out:
            server = subprocess.Popen([sys.executable, ROOT / "benches/limits.py", kind], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, text=True)
            store = f"s3://bench/?endpoint={server.stdout.readline().strip()}&region=us-east-1"
            began = time.perf_counter()
            command = [BINARY, "run", "capacity", "--store", store, "--out", out, "--within", within, "--no-report", *arguments]
            done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT)
            took = time.perf_counter() - began
            server.stdin.close()
            server.wait()
            answer = done.stdout.partition("\n")[0] or done.stderr
            found = json.loads(next(Path(out).glob("*/result.json")).read_text())["capacity"]
        value = found["per_s"] or found["highest_met_per_s"]
        error = f"{100 * (value / truth - 1):+.1f}%" if value else "no value"
        changed = found.get("change")
        also = f", changed from {changed['before_per_s']:.0f}/s to {changed['after_per_s']:.0f}/s" if changed else ""
        print(f"  {answer}", flush=True)
        show(f"server {kind}, {' '.join(arguments) or 'by concurrency'}", f"{error}{also}, {took:.0f} s", "5%")


def stopped(process, ended):
    """Stops a process for 300 ms about every two seconds."""
    pauses = random.Random(42)
    while not ended.wait(pauses.uniform(1, 3)):
        process.send_signal(signal.SIGSTOP)
        ended.wait(0.3)
        process.send_signal(signal.SIGCONT)


def competition(process, ended):
    """Occupies both cores for two of every four seconds, beside the process."""
    while not ended.wait(2):
        burners = [subprocess.Popen(["timeout", "2", "sh", "-c", "while :; do :; done"]) for _ in range(2)]
        [burner.wait() for burner in burners]


def capacity(quick):
    """Searches for the capacity of servers with known limits, by rate and by concurrency, and compares both."""
    servers = [("queues", "latency=2ms,capacity={}/s"), ("refuses", "latency=2ms,rate={}/s")]
    cases = [(kind, inject, size, limit, by) for size, limit in (("1KiB", 437), ("1MiB", 83))
             for kind, inject in servers for by in ("rate", "concurrency")]
    for case in cases[:2] if quick else cases:
        search(*case)
    for case in cases[:2]:
        for disturb in (stopped, competition):
            search(*case, disturb)


def timed(*arguments):
    """Runs a command; returns its wall time in seconds and its peak resident memory in MB."""
    # Otherwise the disk still writes the runs that were just generated.
    os.sync()
    began = time.perf_counter()
    process = subprocess.Popen([BINARY, *map(str, arguments)], stdout=subprocess.DEVNULL, env=ENVIRONMENT)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{arguments}: wait status {status}")
    return time.perf_counter() - began, usage.ru_maxrss * 1024 / 1e6


def scale(quick):
    """Times reports of long runs, from run directories that crates/measure/plimsoll/benches/scale.rs generates."""
    with tempfile.TemporaryDirectory() as out:
        generator = ["cargo", "bench", "--quiet", "--bench", "scale", "--"]
        runs, stores, seconds = (3, 2, 600) if quick else (10, 5, 3600)
        subprocess.run([*generator, f"{out}/many", str(runs), str(stores), str(seconds), "1000"], check=True, cwd=ROOT)
        subprocess.run([*generator, f"{out}/hour", "1", "1", "3600", "1000"], check=True, cwd=ROOT)
        subprocess.run([*generator, f"{out}/large", "2", "1", "5000", "2000" if quick else "20000"], check=True, cwd=ROOT)
        many = sorted(Path(f"{out}/many").iterdir())
        took = [timed("report", *many, "--output", f"{out}/many.html") for _ in range(3)]
        size = Path(f"{out}/many.html").stat().st_size / 1e6
        subject = f"report of {runs} runs x {stores} stores x {seconds:,} s"
        show(f"{subject}: time", f"{statistics.median(t for t, _ in took):.2f} s", "5 s")
        show(f"{subject}: peak memory", f"{max(m for _, m in took):.0f} MB", "500 MB")
        show(f"{subject}: size of the page", f"{size:.1f} MB")
        timed("report", f"{out}/hour/run-00", "--output", f"{out}/hour.html")
        size = Path(f"{out}/hour.html").stat().st_size / 1e6
        show("report of 1 run x 1 store x 3,600 s: size of the page", f"{size:.2f} MB", "3 MB")
        if not quick:
            subprocess.run([*generator, f"{out}/day", "1", "1", "86400", "1000"], check=True, cwd=ROOT)
            took = [timed("report", f"{out}/day/run-00", "--output", f"{out}/day.html") for _ in range(3)]
            show("report of 1 run x 1 store x 86,400 s: time", f"{statistics.median(t for t, _ in took):.2f} s", "2 s")
            show("report of 1 run x 1 store x 86,400 s: peak memory", f"{max(m for _, m in took):.0f} MB")
        large = sorted(Path(f"{out}/large").iterdir())
        for command, arguments in (("show", large[:1]), ("compare", large)):
            took = [timed(command, *arguments) for _ in range(3)]
            subject = f"`plimsoll {command}` of {'two runs' if len(arguments) > 1 else 'a run'} of 10^8 operations"
            show(f"{subject}: time", f"{statistics.median(t for t, _ in took):.2f} s", "2 s")
            show(f"{subject}: peak memory", f"{max(m for _, m in took):.0f} MB")


def merge(quick):
    """Times the merge of 100 shards of an hour."""
    with tempfile.TemporaryDirectory() as out:
        shards, seconds = (10, 600) if quick else (100, 3600)
        generator = ["cargo", "bench", "--quiet", "--bench", "scale", "--"]
        arguments = [f"{out}/shards", str(shards), "1", str(seconds), "500", "shards"]
        subprocess.run([*generator, *arguments], check=True, cwd=ROOT)
        runs = sorted(Path(f"{out}/shards").iterdir())
        size = sum(file.stat().st_size for run in runs for file in run.iterdir()) / 1e6
        took = [timed("merge", *runs, "--out", f"{out}/merged-{attempt}") for attempt in range(3)]
        subject = f"`plimsoll merge` of {shards} shards of {seconds:,} s ({size:.0f} MB)"
        show(f"{subject}: time", f"{statistics.median(t for t, _ in took):.2f} s", "10 s")
        show(f"{subject}: peak memory", f"{max(m for _, m in took):.0f} MB", "300 MB")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bench", nargs="*", choices=[[], "same", "capacity", "limits", "scale", "merge"], default=[])
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name in arguments.bench or ["scale", "merge", "capacity", "limits", "same"]:
        rows.clear()
        {"same": same, "capacity": capacity, "limits": limits, "scale": scale, "merge": merge}[name](arguments.quick)
        if not arguments.quick:
            performance.write(name, performance.table(["figure", "value", "limit"], rows))


if __name__ == "__main__":
    main()
