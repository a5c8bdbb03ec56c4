#!/usr/bin/env python3
"""Packing in a gateway whose only tier is versitygw: loads small objects, waits until they are in segments, and reads them
with a zipfian distribution and in the order of their keys. Prints latencies, and the requests that versitygw has logged.

    python3 benches/packing.py --records 1000000
"""
import argparse
import collections
import datetime
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

from servers import ACCESS, GATEWAY, PLIMSOLL, SECRET, TICK, free_port

ENV = dict(os.environ, AWS_ACCESS_KEY_ID=ACCESS, AWS_SECRET_ACCESS_KEY=SECRET, AWS_REGION="us-east-1",
           PLIMSOLL_ACCESS_KEY=ACCESS, PLIMSOLL_SECRET_KEY=SECRET)


def start(arguments, port):
    process = subprocess.Popen(arguments, env=ENV, stdout=subprocess.DEVNULL)
    import socket
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port), 0.1).close()
            return process
        except OSError:
            time.sleep(0.05)
        if process.poll() is not None:
            break
    raise SystemExit(f"{arguments[0]} does not start")


def stop(process):
    process.send_signal(signal.SIGTERM)
    process.wait(60)


def cpu_s(process):
    with open(f"/proc/{process.pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


class Backend:
    """versitygw with a log of its requests."""

    def __init__(self, base):
        self.data, self.log, self.port = f"{base}/backend", f"{base}/requests.log", free_port()
        os.makedirs(f"{self.data}/backend")
        self.process = self.start()
        self.seen = 0

    def start(self):
        return start(["versitygw", "--port", f"127.0.0.1:{self.port}", "--access", ACCESS, "--secret", SECRET,
                      "--quiet", "--keep-alive", "--access-log", self.log, "posix", self.data], self.port)

    def requests(self):
        """Returns the requests since the last call, by operation."""
        time.sleep(0.5)
        with open(self.log) as f:
            lines = f.readlines()
        new, self.seen = lines[self.seen:], len(lines)
        return dict(collections.Counter(
            match[1] for match in (re.search(r" s3_(\w+) ", line) for line in new) if match))


    def gets_of_the_last(self, seconds):
        """Returns the number of reads logged in the last seconds of the log."""
        with open(self.log) as f:
            times = [datetime.datetime.strptime(match[1], "%d/%B/%Y:%H:%M:%S").timestamp() for match in
                     (re.search(r"\[(\S+) \+0000\].* s3_GetObject ", line) for line in f) if match]
        start = max(times, default=0) - seconds
        return sum(1 for at in times if at > start)


def settings(base, backend, options):
    path = f"{base}/gateway.toml"
    with open(path, "w") as f:
        f.write(f"""
[catalog]
url = "dir:{base}/catalog"
[tier.hot]
url = "s3://backend/tier?endpoint=http://127.0.0.1:{backend.port}"
[retain]
deleted = "0s"
[write]
tier = "hot"
inline = "64 KiB"
[pack]
tier = "hot"
file_size = "{options.segment}"
min_age = "{options.after}"
max_wait = "10s"
[cache]
memory = "{options.cache}"
""")
    return path


def measure(arguments):
    done = subprocess.run([PLIMSOLL, *arguments, "--json"], env=ENV, capture_output=True, text=True)
    if not done.stdout.strip():
        raise SystemExit(done.stderr)
    windows = [w for w in json.loads(done.stdout)["windows"] if w["operations"] and w["phase"] != "objects"]
    return windows[-1]


def figures(window):
    latency = {p + "_ms": round(window["service_ms"][p], 3) for p in ("p50", "p90", "p99")}
    return {"operations": window["operations"], "per_s": round(window["achieved_per_s"]), **latency,
            "errors": sum(window["errors"].values())}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--reads", type=int, default=1_000_000)
    parser.add_argument("--segment", default="64 MiB")
    parser.add_argument("--cache", default="100 MiB")
    parser.add_argument("--after", default="60s")
    parser.add_argument("--threads", type=int, default=64)
    parser.add_argument("--readers", type=int, default=4)
    options = parser.parse_args()
    base = tempfile.mkdtemp(dir=os.environ.get("DATA", "/var/tmp"))
    backend = Backend(base)
    file, port = settings(base, backend, options), free_port()
    run = [GATEWAY, "run", file, "--listen", f"127.0.0.1:{port}", "--move-every", "1s"]
    gateway = start(run, port)
    store = ["--store", f"s3://packed?endpoint=http://127.0.0.1:{port}"]
    ycsb = ["-p", f"recordcount={options.records}", "-p", "fieldcount=8", "-p", "fieldlength=128"]
    try:
        loaded = measure(["ycsb", "load", *store, *ycsb, "--threads", str(options.threads), "--create-bucket",
                          "--out", f"{base}/load"])
        print("load", json.dumps(figures(loaded) | {"cpu_s": round(cpu_s(gateway), 1)}), flush=True)
        begin = last = time.time()
        size = 0
        # Bodies are packed after a minute at the latest, so a longer pause means that all of them are.
        while time.time() - last < 75:
            time.sleep(1)
            if os.path.getsize(backend.log) != size:
                size, last = os.path.getsize(backend.log), time.time()
        print("packed", json.dumps(backend.requests() | {"wait_s": round(last - begin),
                                                         "cpu_s": round(cpu_s(gateway), 1)}), flush=True)
        stop(gateway)
        gateway = start(run, port)
        for popularity in ("zipfian", "sequential"):
            path = f"{base}/{popularity}.toml"
            with open(path, "w") as f:
                f.write('name = "packing"\n')
                for role in ("warmup", "measure"):
                    f.write(f"""[[phase]]
name = "{role}"
role = "{role}"
operations = {{ get = 1 }}
objects = {{ dataset = "s3://packed/", count = {options.records}, popularity = "{popularity}" }}
concurrency = {options.readers}
stop_after = {options.reads}
""")
            used = cpu_s(gateway), cpu_s(backend.process)
            read = measure(["run", path, *store, "--out", f"{base}/{popularity}"])
            gets = backend.gets_of_the_last(read["window_s"])
            print(popularity, json.dumps(figures(read) | {
                "backend_gets_per_read": round(gets / read["operations"], 4),
                "gateway_cpu_s": round(cpu_s(gateway) - used[0], 1),
                "backend_cpu_s": round(cpu_s(backend.process) - used[1], 1)}), flush=True)
    finally:
        stop(gateway)
        stop(backend.process)
        shutil.rmtree(base, ignore_errors=True)


if __name__ == "__main__":
    main()
