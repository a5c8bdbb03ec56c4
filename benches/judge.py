#!/usr/bin/env python3
"""What is said of runs, held against what is known: two runs of one store are not different, the knee is where the server's capacity
ends, and reports of long runs are made quickly.

    make bench-judge                # about half an hour on a quiet machine
    judge.py same|knee|scale        # one of them; --quick for a glance
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BINARY = ROOT / "target/release/plimsoll"
KEYS = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench-secret", "AWS_EC2_METADATA_DISABLED": "true"}
ENVIRONMENT = {**os.environ, **KEYS}


class Server:
    """`plimsoll serve` on a free port, with faults."""

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
    done = subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True, env=ENVIRONMENT)
    if done.returncode not in ok:
        sys.exit(f"{arguments}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def same(quick):
    """Ten pairs of runs on one server: how often is a difference called?"""
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
    print(f"A/A: {sum(called)} of {pairs} real pairs called different (bar: 2 of 10)")


def knee(quick):
    """Servers that serve so many requests per second, one after another: where is the knee?"""
    capacities = [437] if quick else [437] * 5
    found = {}
    for capacity in capacities:
        with Server(f"latency=2ms,capacity={capacity}/s") as server, tempfile.TemporaryDirectory() as out:
            result = json.loads(plimsoll("run", "knee", "--store", server.store, "--create-bucket", "--slo",
                                         "get.p99 < 20ms", "--out", out, "--json"))["knee"]
            off = result["holds_per_s"] / capacity - 1
            found.setdefault(capacity, []).append(off)
            print(f"  capacity {capacity}/s: {result['holds_per_s']:.1f}/s holds, {result['breaks_per_s']:.1f}/s breaks, "
                  f"{100 * off:+.2f}%, {len(result['steps'])} steps", flush=True)
    for capacity, offs in found.items():
        print(f"knee of {capacity}/s: median {100 * statistics.median(offs):+.2f}% of {len(offs)} (bar: within 3%)")


def timed(*arguments):
    """Wall seconds, and the largest resident set of the command in MB."""
    began = time.perf_counter()
    process = subprocess.Popen([BINARY, *map(str, arguments)], stdout=subprocess.DEVNULL, env=ENVIRONMENT)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{arguments}: failed")
    return time.perf_counter() - began, usage.ru_maxrss / 1e3


def scale(quick):
    """Reports of long runs, made from directories that a generator wrote."""
    with tempfile.TemporaryDirectory() as out:
        generator = ["cargo", "bench", "--quiet", "--bench", "scale", "--"]
        runs, stores, seconds = (3, 2, 600) if quick else (10, 5, 3600)
        subprocess.run([*generator, f"{out}/many", str(runs), str(stores), str(seconds), "1000"], check=True, cwd=ROOT)
        subprocess.run([*generator, f"{out}/hour", "1", "1", "3600", "1000"], check=True, cwd=ROOT)
        subprocess.run([*generator, f"{out}/large", "2", "1", "5000", "2000" if quick else "20000"], check=True, cwd=ROOT)
        many = sorted(Path(f"{out}/many").iterdir())
        took = [timed("report", *many, "--out", f"{out}/many.html") for _ in range(3)]
        size = Path(f"{out}/many.html").stat().st_size / 1e6
        print(f"report of {runs} runs x {stores} stores x {seconds} s: {statistics.median(t for t, _ in took):.2f} s, "
              f"{max(m for _, m in took):.0f} MB, page {size:.1f} MB (bars: 5 s, 500 MB)")
        timed("report", f"{out}/hour/run-00", "--out", f"{out}/hour.html")
        print(f"report of one run of an hour: page {Path(f'{out}/hour.html').stat().st_size / 1e6:.2f} MB (bar: 3 MB)")
        large = sorted(Path(f"{out}/large").iterdir())
        for command, arguments in (("show", large[:1]), ("compare", large)):
            took = [timed(command, *arguments) for _ in range(3)]
            print(f"{command} of {'two runs' if len(arguments) > 1 else 'a run'} of 10^8 operations: "
                  f"{statistics.median(t for t, _ in took):.2f} s, {max(m for _, m in took):.0f} MB (bar: 2 s)")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", choices=[[], "same", "knee", "scale"], default=[])
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name in arguments.what or ["scale", "knee", "same"]:
        {"same": same, "knee": knee, "scale": scale}[name](arguments.quick)


if __name__ == "__main__":
    main()
