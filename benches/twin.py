#!/usr/bin/env python3
"""Compares twins with the servers that they imitate: six servers with injected behaviour, MinIO and versitygw. Each is
measured at three loads; `serve --like` imitates the run, and is measured in the same way. Prints the ratio of the twin
to the original for p50, p99, operations per second and the share of failures.

    python3 benches/twin.py --duration 20s

PLIMSOLL names the binary; MinIO and versitygw are left out if they are not on the path. Needs a quiet machine.
"""
import argparse
import json
import os
import shutil
import subprocess
import tempfile
import time

from servers import ACCESS, PLIMSOLL, SECRET, Server, free_port

INJECTED = {
    "lognormal": "latency=lognormal(2ms;0.5)",
    "errors": "latency=lognormal(2ms;0.3),error=0.05",
    "rate": "latency=lognormal(4ms;0.3),rate=1000/s",
    "capacity": "latency=1ms,capacity=2000/s",
    "connections": "latency=lognormal(4ms;0.3),connections=16",
    "slow": "latency=lognormal(2ms;0.3),slow=8ms@12s+4s",
}
LOADS = "1,8,32"
ENVIRONMENT = dict(os.environ, AWS_ACCESS_KEY_ID=ACCESS, AWS_SECRET_ACCESS_KEY=SECRET, PLIMSOLL_ACCESS_KEY=ACCESS,
                   PLIMSOLL_SECRET_KEY=SECRET, AWS_REGION="us-east-1")


def plimsoll(*arguments, **more):
    return subprocess.run([PLIMSOLL, *arguments], env=ENVIRONMENT, capture_output=True, text=True, **more)


class Serve:
    """`plimsoll serve` with arguments."""

    def __init__(self, *arguments):
        self.port = free_port()
        self.process = subprocess.Popen([PLIMSOLL, "serve", "--listen", f"127.0.0.1:{self.port}", *arguments],
                                        env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.process.stdout.readline()

    def stop(self):
        self.process.terminate()
        self.process.wait(30)


def measure(server, out, duration):
    """Returns the directory of a run, and the figures by number of operations in flight."""
    store = f"s3://bench?endpoint=http://127.0.0.1:{server.port}"
    done = plimsoll("run", "get", "--store", store, "--create-bucket", "--size", "1KiB", "--duration", duration, "--sweep",
                    f"concurrency={LOADS}", "--out", out, "--json", "--quiet")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    run = os.path.join(out, max(os.listdir(out)))
    windows = [w for w in result["windows"] if w["role"] == "measure"]
    return run, {w["concurrency"]: w for w in windows}


def figures(window):
    failed = sum(window["errors"].values()) / window["operations"]
    return {"p50": window["service_ms"]["p50"], "p99": window["service_ms"]["p99"], "ops/s": window["achieved_per_s"],
            "failed": failed}


def compare(name, server, duration):
    with tempfile.TemporaryDirectory() as out:
        run, original = measure(server, os.path.join(out, "original"), duration)
        server.stop()
        twin = Serve("--like", run)
        _, imitated = measure(twin, os.path.join(out, "twin"), duration)
        twin.stop()
    for load, window in sorted(original.items()):
        a, b = figures(window), figures(imitated[load])
        cells = []
        for figure in a:
            ratio = f"{b[figure] / a[figure]:.3f}" if a[figure] and b[figure] is not None else "-"
            cells.append(f"{figure} {a[figure] or 0:.4g} -> {b[figure] or 0:.4g} ({ratio})")
        print(f"{name:10} {load:3} in flight: " + ", ".join(cells), flush=True)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("names", nargs="*", default=[*INJECTED, "minio", "versitygw"])
    arguments.add_argument("--duration", default="20s")
    given = arguments.parse_args()
    for name in given.names:
        if name in INJECTED:
            compare(name, Serve("--inject", INJECTED[name]), given.duration)
        elif shutil.which(name):
            with tempfile.TemporaryDirectory() as data:
                compare(name, Server(name, data), given.duration)
        else:
            print(f"{name}: not on the path")
        time.sleep(1)


if __name__ == "__main__":
    main()
