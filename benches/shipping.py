#!/usr/bin/env python3
"""Compares writes of 1 KiB with and without `[backup]`, in turns on the same machine.

    python3 benches/shipping.py [TURNS] [SECONDS]

The place of the backup is in memory, as PLACE says: it stands for another disk. Prints the CPU time of the gateway per write, the share of the threads of the backup, and the p99 of an open loop.
"""
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

PLIMSOLL = os.path.abspath(os.environ.get("PLIMSOLL", "target/release/plimsoll"))
GATEWAY = os.path.abspath(os.environ.get("GATEWAY", "target/release/plimsoll-gateway"))
KEYS = {"PLIMSOLL_ACCESS_KEY": "k", "PLIMSOLL_SECRET_KEY": "secretsecret", "AWS_ACCESS_KEY_ID": "k",
        "AWS_SECRET_ACCESS_KEY": "secretsecret"}
RATE = os.environ.get("RATE", "1500/s")
TICKS = os.sysconf("SC_CLK_TCK")


def cpu(process):
    """Returns the CPU seconds of a process by the name of the thread."""
    found = {}
    for thread in os.listdir(f"/proc/{process.pid}/task"):
        try:
            with open(f"/proc/{process.pid}/task/{thread}/stat") as file:
                text = file.read()
        except FileNotFoundError:
            continue
        name, fields = re.search(r"\((.*)\)", text)[1], text.rsplit(")", 1)[1].split()
        found[name] = found.get(name, 0) + (int(fields[11]) + int(fields[12])) / TICKS
    return found


def measure(backup, load, seconds):
    directory = tempfile.mkdtemp(prefix="shipping")
    place = tempfile.mkdtemp(prefix="shipping", dir=os.environ.get("PLACE", "/dev/shm"))
    process = None
    try:
        settings = os.path.join(directory, "gateway.toml")
        with open(settings, "w") as file:
            file.write(f'catalog.url = "dir:{directory}/catalog"\n[tier.hot]\nurl = "file://{directory}/hot"\n'
                       f'[write]\ntier = "hot"\n')
            if backup:
                file.write(f'[backup]\nto = "file://{place}"\nevery = "1s"\n')
        process = subprocess.Popen([GATEWAY, "run", settings, "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, text=True, env={**os.environ, **KEYS})
        url = process.stdout.readline().split()[-1]
        before = cpu(process)
        done = subprocess.run(
            [PLIMSOLL, "run", "put", "--store", f"s3://ship?endpoint={url}", "--create-bucket", "--size", "1KiB",
             "--duration", f"{seconds}s", *load, "--json"],
            capture_output=True, text=True, cwd=directory, env={**os.environ, **KEYS})
        assert done.returncode == 0, done.stdout + done.stderr
        after = cpu(process)
        [window] = [w for w in json.loads(done.stdout)["windows"] if w["role"] == "measure"]
        used = {name: after[name] - before.get(name, 0) for name in after}
        return window, used
    finally:
        if process:
            process.kill()
            process.wait()
        shutil.rmtree(directory, ignore_errors=True)
        shutil.rmtree(place, ignore_errors=True)


def main():
    turns, seconds = (int(text) for text in (sys.argv[1:] + ["5", "8"][len(sys.argv) - 1:])[:2])
    found = {False: [], True: []}
    for _ in range(turns):
        for backup in (False, True):
            window, used = measure(backup, ["--concurrency", "64"], seconds)
            total = sum(used.values())
            own = sum(value for name, value in used.items() if name.startswith("backup"))
            latency = measure(backup, ["--rate", RATE], seconds)[0]
            clocked = latency.get("response_ms") or latency["service_ms"]
            found[backup].append((window["achieved_per_s"], 1e6 * total / window["operations"], own / (total - own), clocked["p99"]))
            print(("with   " if backup else "without"), *(f"{value:.3f}" for value in found[backup][-1]), flush=True)
    columns = {backup: [statistics.median(column) for column in zip(*rows)] for backup, rows in found.items()}
    (rate, per_put, _, p99), (shipped, shipped_per_put, share, shipped_p99) = columns[False], columns[True]
    print(f"writes/s {rate:.0f} -> {shipped:.0f} ({shipped / rate:.3f}); CPU per write {per_put:.2f} -> {shipped_per_put:.2f} us "
          f"({shipped_per_put / per_put:.3f}); threads of the backup {100 * share:.1f}% of the others; "
          f"p99 at {RATE} {p99:.3f} -> {shipped_p99:.3f} ms ({shipped_p99 / p99:.3f})")


if __name__ == "__main__":
    main()
