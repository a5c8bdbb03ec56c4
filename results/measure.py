#!/usr/bin/env python3
"""Measures S3 servers on this machine, and writes the pages: `make results`, about two hours on two quiet cores.

    results/measure.py                                    everything
    results/measure.py --servers minio,rclone             two servers
    results/measure.py --steps durability,fitness         two steps of all servers

Each server runs on one core, with empty data on a real disk (DATA names the directory), and the client on the other.
The servers' programs must be on the path; those that are missing are left out, and keep the data that they have.
"""
import argparse
import concurrent.futures
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

import pages
from servers import CLIENT_CORE, CpuLog, DATA, PLIMSOLL, SERVER_CORE, Running, environment, names, version

HERE = pathlib.Path(__file__).resolve().parent
REPEATS = 3
# Servers whose power is cut at the same time.
PARALLEL_CUTS = 3
LATENCY = "run latency.toml --store {name}={store} --no-report --out runs"
CAPACITY = {kind: f"run capacity --store {{name}}={{store}} --operation {kind} --size 4KiB --slo '{kind}.p99 < 25ms' "
                  "--within 45s --no-report --out runs" for kind in ("get", "put")}
FITNESS = "probe {store} --for all --json"
DURABILITY = "run durability --server {name} --cuts 40 --json"
COMMANDS = [LATENCY, *CAPACITY.values(), FITNESS, DURABILITY]


def replace(made, kept):
    """Puts a directory or file into the place of an older one."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    if kept.is_dir():
        shutil.rmtree(kept)
    shutil.move(made, kept)


def measure(name, line, kept, with_cpu=False):
    """Makes a run on a fresh server, and keeps its directory, with `with_cpu` also the CPU time of the server."""
    with Running(name) as server:
        shutil.copy(HERE / "latency.toml", server.scratch)
        log = pathlib.Path(server.scratch, "cpu.csv")
        with CpuLog(server, log) if with_cpu else contextlib.nullcontext():
            server.run(line)
        replace(next(pathlib.Path(server.scratch, "runs").iterdir()), kept)
        if with_cpu:
            replace(log, kept.with_suffix(".cpu.csv"))


def file_system(path):
    """Returns the type of the file system of a directory."""
    mounts = [line.split() for line in pathlib.Path("/proc/mounts").read_text().splitlines()]
    above = [fields for fields in mounts if pathlib.Path(path).resolve().is_relative_to(fields[1])]
    return max(above, key=lambda fields: len(fields[1]))[2]


def latency(chosen):
    """Measures the servers in turns, so that slow changes of the machine affect all of them."""
    for number in range(1, REPEATS + 1):
        for name in chosen:
            print(f"{name}: latency, repeat {number}", flush=True)
            measure(name, LATENCY, HERE / name / f"latency-{number}", with_cpu=True)


def capacity(chosen):
    for name in chosen:
        for kind, line in CAPACITY.items():
            print(f"{name}: capacity, {kind}", flush=True)
            measure(name, line, HERE / name / f"capacity-{kind}")


def fitness(chosen):
    for name in chosen:
        print(f"{name}: fitness", flush=True)
        with Running(name) as server:
            made = pathlib.Path(server.scratch, "fitness.json")
            with open(made, "w") as output:
                server.run(FITNESS, output)
            # The address of the server changes with each run.
            text = made.read_text().replace(server.address, "127.0.0.1:9000")
            made.write_text(json.dumps(json.loads(text), indent=1) + "\n")
            replace(made, HERE / name / "fitness.json")


def cut_power(name):
    with tempfile.TemporaryDirectory() as scratch:
        line = ["plimsoll", *DURABILITY.replace("{name}", name).split()]
        cores = ["taskset", "-c", f"{SERVER_CORE},{CLIENT_CORE}"]
        done = subprocess.run([*cores, *line], env=environment(), cwd=scratch, capture_output=True, text=True)
        if done.returncode > 1:
            raise RuntimeError(f"{name}: {' '.join(line)}: exit code {done.returncode}: {done.stderr[-2000:]}")
        made = pathlib.Path(scratch, "durability.json")
        made.write_text(json.dumps(json.loads(done.stdout), indent=1) + "\n")
        replace(made, HERE / name / "durability.json")
        print(f"{name}: durability", flush=True)


def durability(chosen):
    """Cuts the power of several servers at the same time: most of the time, they wait for starts and deadlines."""
    with concurrent.futures.ThreadPoolExecutor(PARALLEL_CUTS) as pool:
        for _ in pool.map(cut_power, chosen):
            pass


STEPS = {"latency": latency, "capacity": capacity, "fitness": fitness, "durability": durability}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", default=",".join(names()), help="names of profiles, separated by commas")
    parser.add_argument("--steps", default=",".join(STEPS), help="steps, separated by commas")
    options = parser.parse_args()
    steps, wanted = options.steps.split(","), options.servers.split(",")
    if unknown := [one for one in steps if one not in STEPS] + [one for one in wanted if one not in names()]:
        parser.error(f"unknown: {', '.join(unknown)}; servers: {', '.join(names())}; steps: {', '.join(STEPS)}")
    os.sched_setaffinity(0, {CLIENT_CORE})
    # A closed terminal or a stopped job ends the servers, too.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit("stopped; finished parts are kept"))
    if subprocess.run([PLIMSOLL, "--version"], capture_output=True).returncode != 0:
        sys.exit(f"{PLIMSOLL} does not start; run make build gateway")
    versions = {name: version(name) for name in wanted}
    for name in wanted:
        if versions[name] is None:
            print(f"{name}: its program is missing", file=sys.stderr)
    chosen = [name for name in wanted if versions[name]]
    if not chosen:
        sys.exit("no server can be measured: put their programs on the path")
    for step in steps:
        STEPS[step](chosen)
    for name in chosen:
        commands = [f"plimsoll {line}".replace("{name}", name) for line in COMMANDS]
        about = {"version": versions[name], "file_system": file_system(DATA), "commands": commands}
        (HERE / name / "server.json").write_text(json.dumps(about, indent=1) + "\n")
    pages.write()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("stopped; finished parts are kept")
    except (RuntimeError, OSError) as error:
        sys.exit(str(error))
