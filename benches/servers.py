#!/usr/bin/env python3
"""Compares servers of small objects: CPU time per operation of the server, operations per second and percentiles. Every
server gets the same load in turn from the same client, with its data on the same file system.

    python3 benches/servers.py put get --servers memory,gateway,versitygw,minio --rounds 3

The servers are found on the path; PLIMSOLL and GATEWAY name the binaries. DATA is the directory for the data.
What a finished PUT guarantees: gateway: synced to the disk, in groups. MinIO and versitygw: written to the page cache
of the operating system (MinIO syncs nothing with a single drive, versitygw nothing at all). memory: nothing.
"""
import argparse
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "clients"))
from support import free_port  # noqa: E402, F401

PLIMSOLL = os.environ.get("PLIMSOLL", "target/release/plimsoll")
GATEWAY = os.environ.get("GATEWAY", "target/release/plimsoll-gateway")
ACCESS, SECRET = "benchkey", "benchsecret1"
TICK = os.sysconf("SC_CLK_TCK")


def command(name, data, port):
    os.makedirs(data, exist_ok=True)
    if name.startswith("/"):
        return [name, "serve", "--listen", f"127.0.0.1:{port}"], {}
    return {
        "memory": ([PLIMSOLL, "serve", "--listen", f"127.0.0.1:{port}"], {}),
        "gateway": ([GATEWAY, "run", "--data", data, "--listen", f"127.0.0.1:{port}"], {}),
        "versitygw": (["versitygw", "--port", f"127.0.0.1:{port}", "--access", ACCESS, "--secret", SECRET,
                       "--quiet", "--keep-alive", "posix", data], {}),
        "minio": (["minio", "server", "--quiet", "--address", f"127.0.0.1:{port}", data],
                  {"MINIO_ROOT_USER": ACCESS, "MINIO_ROOT_PASSWORD": SECRET}),
    }[name]


class Server:
    def __init__(self, name, data):
        self.name, self.data, self.port = name, data, free_port()
        self.start()

    def start(self):
        arguments, more = command(self.name, self.data, self.port)
        env = dict(os.environ, AWS_ACCESS_KEY_ID=ACCESS, AWS_SECRET_ACCESS_KEY=SECRET,
                   PLIMSOLL_ACCESS_KEY=ACCESS, PLIMSOLL_SECRET_KEY=SECRET, **more)
        self.process = subprocess.Popen(arguments, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", self.port), 0.1).close()
                break
            except OSError:
                time.sleep(0.05)
        time.sleep(0.5)

    def cpu_s(self):
        with open(f"/proc/{self.process.pid}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def rss_mb(self):
        with open(f"/proc/{self.process.pid}/status") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("VmHWM")) / 1024

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()


def run(server, operation, options):
    """Runs one load. Returns CPU us per operation, operations per second and percentiles in ms."""
    out = tempfile.mkdtemp()
    env = dict(os.environ, AWS_ACCESS_KEY_ID=ACCESS, AWS_SECRET_ACCESS_KEY=SECRET, AWS_REGION="us-east-1")
    with tempfile.NamedTemporaryFile("w", suffix=".toml", delete=False) as f:
        prepare = '[[phase]]\nname = "objects"\nrole = "prepare"\noperations = { put = 1 }\n' \
                  f'objects = {{ count = {options.objects}, size = "{options.size}" }}\nconcurrency = {options.concurrency}\n'
        popularity = f', popularity = "{options.popularity}"' if options.popularity != "uniform" else ""
        objects = f'objects = {{ from = "objects"{popularity} }}'
        if operation == "put":
            prepare, objects = "", f'objects = {{ count = {options.objects}, size = "{options.size}" }}'
        f.write(f'name = "servers"\nseed = 1\n{prepare}[[phase]]\nname = "measured"\noperations = {{ {operation} = 1 }}\n'
                f'{objects}\nconcurrency = {options.concurrency}\nduration = "{options.duration}s"\n')
    arguments = [PLIMSOLL, "run", f.name, "--store", f"s3://bench-bucket?endpoint=http://127.0.0.1:{server.port}",
                 "--create-bucket", "--out", out, "--json", "--keep", "--workers", str(options.workers)]
    samples = []
    process = subprocess.Popen(arguments, env=env, stdout=open(os.path.join(out, "o.json"), "w"),
                               stderr=open(os.path.join(out, "e.txt"), "w"))
    while process.poll() is None:
        samples.append((time.time(), server.cpu_s()))
        time.sleep(0.05)
    text = open(os.path.join(out, "o.json")).read()
    if not text.strip():
        sys.exit(open(os.path.join(out, "e.txt")).read())
    result = json.loads(text)
    window = next(w for w in result["windows"] if w["phase"] == "measured")
    shutil.rmtree(out)
    os.unlink(f.name)
    return window, samples


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("operations", nargs="+")
    parser.add_argument("--servers", default="memory,gateway,versitygw,minio")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--objects", type=int, default=100_000)
    parser.add_argument("--size", default="1 KiB")
    parser.add_argument("--popularity", default="uniform")
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--duration", type=int, default=10)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    base = os.environ.get("DATA", "/var/tmp")
    for operation in options.operations:
        figures = {name: [] for name in options.servers.split(",")}
        for _ in range(options.rounds):
            for name in figures:
                data = tempfile.mkdtemp(dir=base)
                server = Server(name, data)
                window, samples = run(server, operation, options)
                rss = server.rss_mb()
                server.stop()
                shutil.rmtree(data)
                # The measured window is the last part of the run.
                end = len(samples) - 1
                while end > 0 and samples[end][1] == samples[end - 1][1]:
                    end -= 1
                seconds = window["window_s"]
                start = min(range(len(samples)), key=lambda i: abs(samples[i][0] - (samples[end][0] - seconds)))
                cpu = samples[end][1] - samples[start][1]
                figures[name].append((cpu, window, rss))
        for name, rounds in figures.items():
            print(operation, name, json.dumps(summary(rounds)), flush=True)


def summary(rounds):
    def median(values):
        return round(statistics.median(values), 3)
    cpu = [1e6 * cpu / window["operations"] for cpu, window, _ in rounds]
    figures = {"cpu_us": median(cpu), "per_s": median([w["achieved_per_s"] for _, w, _ in rounds])}
    for name in ["p50", "p90", "p99"]:
        values = [w["service_ms"][name] for _, w, _ in rounds]
        # A short window has too few operations for high percentiles.
        figures[name + "_ms"] = None if None in values else median(values)
    figures["rss_mb"] = median([rss for *_, rss in rounds])
    figures["rounds_cpu_us"] = [round(value, 2) for value in cpu]
    figures["errors"] = sum(sum(w["errors"].values()) for _, w, _ in rounds)
    return figures


if __name__ == "__main__":
    main()
