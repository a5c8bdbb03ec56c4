#!/usr/bin/env python3
"""Runs experiments on servers with known behaviour: drift, a ramp, the boundary between phases, and a large plan.

    make bench-experiments      # about five minutes on a quiet machine

Each line of output is a figure and its limit. The exit code is 1 if a figure is outside its limit. With
PERFORMANCE=write, the bench writes its tables into docs/performance.md and docs/calibration.md.
"""
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import performance

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PLIMSOLL = os.environ.get("PLIMSOLL", os.path.join(ROOT, "target", "dist", "plimsoll"))
ENVIRONMENT = dict({k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "PLIMSOLL_"))},
                   PLIMSOLL_ACCESS_KEY="bench", PLIMSOLL_SECRET_KEY="bench-secret", AWS_ACCESS_KEY_ID="bench",
                   AWS_SECRET_ACCESS_KEY="bench-secret", AWS_EC2_METADATA_DISABLED="true")
rows, missed = [], []


class Server:
    """`plimsoll serve` on a free port, with injected faults."""

    def __init__(self, inject, *more):
        arguments = [*(["--inject", inject] if inject else []), *more]
        self.process = subprocess.Popen([PLIMSOLL, "serve", "--listen", "127.0.0.1:0", *arguments], env=ENVIRONMENT,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.url = self.process.stdout.readline().split()[-1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def store(self, bucket="bench-bucket"):
        return f"s3://{bucket}?endpoint={self.url}"


def plimsoll(*arguments):
    """Runs a command and returns its standard output; exits if it fails."""
    done = subprocess.run([PLIMSOLL, *arguments], env=ENVIRONMENT, capture_output=True, text=True, timeout=900)
    if done.returncode != 0:
        sys.exit(f"plimsoll {' '.join(arguments)}: exit {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def show(figure, value, bar, good):
    """Prints a figure with its limit, and keeps the row."""
    print(f"{figure:58} {value:>22}   {bar:22} {'ok' if good else 'MISSED'}", flush=True)
    rows.append([figure, value, bar])
    if not good:
        missed.append(figure)


def experiment(folder, text):
    """Writes an experiment file and returns its path."""
    path = os.path.join(folder, "experiment.toml")
    with open(path, "w") as file:
        file.write(text)
    return path


OBJECTS = '[[phase]]\nname = "objects"\nrole = "prepare"\noperations = { put = 1 }\nobjects = { count = 100, size = "%s" }\n'


def drift(folder):
    """Measures two buckets of one server that slows down by a factor of two during the run.

    In interleaved order, the buckets must look equal although the server drifts.
    """
    text = ('name = "drift"\nblock = "3s"\nrewarm = "500ms"\n' + OBJECTS % "1 KiB" +
            '[[phase]]\nname = "get"\noperations = { get = 1 }\nobjects = { from = "objects" }\nconcurrency = 8\nduration = "24s"\n')
    path = experiment(folder, text)
    for order, length in (("interleaved", 57), ("sequential", 49)):
        rates = []
        means = []
        with Server(f"latency=10ms,drift=2x/{length}s") as server:
            stores = [server.store("bench-one"), server.store("bench-two")]
            arguments = [a for s in stores for a in ("--store", s)]
            result = json.loads(plimsoll("run", path, *arguments, "--create-bucket", "--set", f"order={order}", "--json",
                                         "--out", folder))
        for store in stores:
            windows = [w for w in result["windows"] if w["store"] == store and w["role"] == "measure"]
            length_s = sum(w["window_s"] for w in windows)
            rates.append(sum(w["achieved_per_s"] * w["window_s"] for w in windows) / length_s)
            n = sum(w["service_ms"]["n"] for w in windows)
            means.append(sum(w["service_ms"]["mean"] * w["service_ms"]["n"] for w in windows) / n)
        ratio, latency = rates[1] / rates[0], means[1] / means[0]
        if order == "interleaved":
            good = abs(ratio - 1) <= 0.03 and abs(latency - 1) <= 0.03
            show("drift 2x, interleaved: ratios of rates and mean latencies", f"{ratio:.3f}, {latency:.3f}", "within 3% of 1", good)
        else:
            good = abs(ratio - 1) > 0.03
            show("drift 2x, sequential, for contrast", f"{ratio:.3f}, {latency:.3f}", "not within 3% of 1", good)


def ramp(folder):
    """Measures servers with a known capacity and latency, and therefore a known plateau and knee."""
    for capacity, latency_ms, start, step in ((1000, 40, 8, 16), (400, 50, 4, 12), (2000, 10, 4, 6)):
        with Server(f"latency={latency_ms}ms,capacity={capacity}/s") as server:
            load = f"phase.ramp.concurrency={{ from = {start}, step = {step}, every = '4s', stop = 'plateau' }}"
            sets = ["phase.load.objects.size=100MiB", "phase.load.objects.part_size=8MiB", "phase.warmup.objects.range=64KiB",
                    "phase.ramp.objects.range=64KiB", "phase.warmup.duration=2s", load]
            arguments = [a for s in sets for a in ("--set", s)]
            result = json.loads(plimsoll("run", "ramp", "--store", server.store(), "--create-bucket", *arguments, "--json",
                                         "--out", folder))
        found = result["ramps"][0]
        plateau, knee = found["plateau_per_s"] / capacity, found["knee_in_flight"] / (capacity * latency_ms / 1e3)
        show(f"ramp, {capacity}/s at {latency_ms} ms: plateau, knee / true value", f"{plateau:.3f}, {knee:.3f}", "within 5% of 1",
             abs(plateau - 1) <= 0.05 and abs(knee - 1) <= 0.05)


def phases(folder):
    """Verifies that the offered rate does not drop between warm-up and measurement."""
    text = ('name = "edge"\n' + OBJECTS % "1 KiB" + "".join(
        f'[[phase]]\nname = "{name}"\nrole = "{role}"\noperations = {{ get = 1 }}\nobjects = {{ from = "objects" }}\n'
        f'rate = "1000/s"\nduration = "4s"\n' for name, role in (("warm", "warmup"), ("get", "measure"), ("again", "measure"))))
    with Server("latency=5ms") as server:
        plimsoll("run", experiment(folder, text), "--store", server.store(), "--create-bucket", "--record", "operations", "--json",
                 "--out", os.path.join(folder, "edge"))
    run = os.path.join(folder, "edge", os.listdir(os.path.join(folder, "edge"))[0])
    plimsoll("export", "--format", "csv", run)
    seconds = {}
    with open(os.path.join(run, "intervals.csv")) as file:
        for row in csv.DictReader(file):
            if row["role"] != "prepare":
                second = int(row["second"])
                seconds[second] = seconds.get(second, 0) + int(row["begun"])
    whole = [seconds[s] for s in sorted(seconds)][1:-1]
    print("  operations begun per second, from the warm-up to the last phase: " + " ".join(str(n) for n in whole))
    lowest = min(whole) / 1000
    show("phases at 1,000/s: lowest begun per second / offered", f"{lowest:.3f}", ">= 0.99", lowest >= 0.99 and len(whole) >= 10)


def plan(folder):
    """Plans two phases of ten million operations each, with random sizes, and measures time and memory."""
    text = ('name = "large"\n[[phase]]\nname = "objects"\nrole = "prepare"\noperations = { put = 1 }\n'
            'objects = { count = 10_000_000, size = { lognormal = { median = "16 KiB", sigma = 1.0 } } }\n'
            '[[phase]]\nname = "get"\noperations = { get = 9, put = 1 }\nobjects = { from = "objects", popularity = "zipfian" }\n'
            'rate = "10000/s"\nduration = "1000s"\n')
    path = experiment(folder, text)
    times = []
    for _ in range(5):
        began = time.monotonic()
        plimsoll("run", path, "--dry-run")
        times.append(time.monotonic() - began)
    with subprocess.Popen([PLIMSOLL, "run", path, "--dry-run"], env=ENVIRONMENT, stdout=subprocess.DEVNULL) as process:
        _, _, used = os.wait4(process.pid, 0)
    took, peak = statistics.median(times), used.ru_maxrss / 1024
    show("plan of 2 x 10^7 operations: seconds", f"{took:.2f}", "< 1 s", took < 1)
    show("plan of 2 x 10^7 operations: peak memory", f"{peak:.1f} MiB", "< 48 MB", peak * 1.048576 < 48)


def main():
    chosen = sys.argv[1:] or ["plan", "phases", "ramp", "drift"]
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen:
            rows.clear()
            {"drift": drift, "ramp": ramp, "phases": phases, "plan": plan}[name](folder)
            performance.write(name, performance.table(["figure", "value", "limit"], rows))
    if missed:
        sys.exit("outside the limit: " + ", ".join(missed))


if __name__ == "__main__":
    main()
