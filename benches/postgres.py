#!/usr/bin/env python3
"""Measures gateways with a catalog in PostgreSQL that is 2 ms away: PUT and GET of 1 KiB with one, two and three gateways.

    python3 benches/postgres.py [SECONDS] [CLIENTS] [DELAY_MS]

A relay in this process delays each direction of the connections of the database by a half of DELAY_MS. Database, relay, gateways and clients share the machine, so the figures also say how much CPU each of them used.
"""
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "tests", "clients"))
from postgres import Postgres
from journal import GATEWAY, KEYS, PLIMSOLL, start


class Relay:
    """A relay to the socket of a database that delays all bytes."""

    def __init__(self, path, delay):
        self.path, self.delay, self.port = path, delay, None
        ready = threading.Event()
        threading.Thread(target=lambda: asyncio.run(self.serve(ready)), daemon=True).start()
        ready.wait()

    async def serve(self, ready):
        server = await asyncio.start_server(self.relay, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        await server.serve_forever()

    async def relay(self, reader, writer):
        other_reader, other_writer = await asyncio.open_unix_connection(self.path)
        await asyncio.gather(self.copy(reader, other_writer), self.copy(other_reader, writer))

    async def copy(self, reader, writer):
        loop = asyncio.get_running_loop()
        while data := await reader.read(1 << 16):
            loop.call_later(self.delay, writer.write, data)
        loop.call_later(self.delay, writer.close)


def cpu(pids):
    """Returns the CPU seconds of processes and their children so far."""
    total = 0
    for pid in pids:
        try:
            fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        total += sum(int(field) for field in fields[11:15])
    return total / os.sysconf("SC_CLK_TCK")


def backends(database):
    found = subprocess.run(["pgrep", "-P", str(database.process.pid)], capture_output=True, text=True).stdout
    return [database.process.pid, *map(int, found.split())]


def load(kind, urls, clients, seconds):
    """Runs the same load on all gateways at the same time. Returns operations per second, and the p50 of the first one."""
    runs = []
    for url in urls:
        command = [PLIMSOLL, "run", kind, "--store", f"s3://bucket?endpoint={url}", "--size", "1KiB", "--json",
                   "--duration", f"{seconds}s", "--concurrency", str(clients), "--create-bucket"]
        if kind == "get":
            command += ["--objects", "2000"]
        runs.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                     cwd=tempfile.gettempdir(), env={**os.environ, **KEYS}))
    windows = []
    for run in runs:
        out, error = run.communicate()
        assert run.returncode == 0, out + error
        windows += [window for window in json.loads(out)["windows"] if window["role"] == "measure"]
    return sum(window["achieved_per_s"] for window in windows), windows[0]["service_ms"]["p50"]


def main():
    arguments = [float(one) for one in sys.argv[1:]] + [10, 64, 2][len(sys.argv) - 1:]
    seconds, clients, delay = int(arguments[0]), int(arguments[1]), arguments[2]
    for count in [1, 2, 3]:
        directory = tempfile.mkdtemp(prefix="postgres-bench")
        with Postgres() as database:
            path = os.path.join(database.directory, ".s.PGSQL.5432")
            port = Relay(path, delay / 2000).port
            settings = os.path.join(directory, "gateway.toml")
            with open(settings, "w") as file:
                file.write(f'[catalog]\nurl = "postgres://plimsoll@127.0.0.1:{port}/postgres?sslmode=disable"\n'
                           f'[tier.hot]\nurl = "file://{directory}/hot"\n[write]\ntier = "hot"\n')
            os.mkdir(os.path.join(directory, "hot"))
            gateways = [start(GATEWAY, "run", settings, "--listen", "127.0.0.1:0") for _ in range(count)]
            urls = [url for _, url, _ in gateways]
            subprocess.run([PLIMSOLL, "run", "put", "--store", f"s3://bucket?endpoint={urls[0]}", "--create-bucket",
                            "--duration", "1s", "--size", "1KiB", "--json"], check=True, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, cwd=tempfile.gettempdir(), env={**os.environ, **KEYS})
            for kind in ["put", "get"]:
                pids = {"gateways": [process.pid for process, *_ in gateways], "database": backends(database)}
                pids["relay"] = [os.getpid()]
                before, began = {name: cpu(of) for name, of in pids.items()}, time.monotonic()
                rate, p50 = load(kind, urls, clients, seconds)
                took = time.monotonic() - began
                used = ", ".join(f"{name} {(cpu(of) - before[name]) / took:.2f} cores" for name, of in pids.items())
                print(f"{count} gateways, {kind} of 1 KiB, {clients} clients each: {rate:.0f}/s, p50 {p50:.1f} ms; {used}",
                      flush=True)
            for process, *_ in gateways:
                process.terminate()
                process.wait()
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
