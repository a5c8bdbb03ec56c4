#!/usr/bin/env python3
"""Measures an authenticated client while many idle connections and incomplete request heads are open.

    python3 benches/idle.py [--idle 17000] [--heads 1000] [--passes 3]

The bench starts `plimsoll serve` on the loopback interface, measures `plimsoll run get` without and with the other
connections, in turns, and compares the medians of p99. Then it waits for the server's timeouts and counts the
connections that are still open. PLIMSOLL is the path of the binary; the default is target/dist/plimsoll. The exit
code is 1 if p99 more than doubles, or if a connection outlives its timeout. With PERFORMANCE=write, the bench writes
its table into docs/performance.md.
"""
import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import time

import performance

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "clients"))
from support import PLIMSOLL, Server, environment  # noqa: E402

# Timeouts of the server in this bench, in seconds. They are long enough to open and measure all connections.
IDLE_S, HEAD_S = 60, 60


class Quiet(asyncio.Protocol):
    """A connection that sends `head` and then nothing, and records the time at which it is closed."""

    def __init__(self, head, closed):
        self.head, self.closed = head, closed

    def connection_made(self, transport):
        if self.head:
            transport.write(self.head)

    def connection_lost(self, _):
        self.closed.append(time.monotonic())


async def open_all(host, port, count, head, closed):
    """Opens `count` connections from several loopback addresses, because one address has too few ports."""
    loop = asyncio.get_running_loop()
    made = []
    for start in range(0, count, 200):
        source = f"127.0.0.{2 + start // 10_000}"
        batch = (loop.create_connection(lambda: Quiet(head, closed), host, port, local_addr=(source, 0))
                 for _ in range(start, min(start + 200, count)))
        made += [transport for transport, _ in await asyncio.gather(*batch)]
    return made


def figures(url, seconds):
    """Runs a closed loop of GETs; returns p99 in milliseconds, operations per second, and errors by class."""
    done = subprocess.run([PLIMSOLL, "run", "get", "--store", f"s3://idle?endpoint={url}", "--size", "1KiB", "--objects", "100",
                           "--concurrency", "4", "--duration", f"{seconds}s", "--warmup", "1s", "--json"],
                          env=environment(), capture_output=True, text=True, timeout=seconds + 60)
    if done.returncode != 0:
        sys.exit(f"plimsoll run get: {done.stderr}")
    window = next(w for w in json.loads(done.stdout)["windows"] if w["role"] == "measure")
    return window["service_ms"]["p99"], window["achieved_per_s"], window["errors"]


def rss_mib(pid):
    """Returns the resident memory of a process in MiB."""
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:")) // 1024


async def bench(arguments):
    """Runs the bench; returns the exit code."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    needed = arguments.idle + arguments.heads
    if files < needed + 200:
        sys.exit(f"the limit on open files is {files}, but {needed + 200} are needed; raise it with `ulimit -Hn`")
    with Server("--max-connections", str(arguments.max_connections), "--idle-timeout", f"{IDLE_S}s",
                "--head-timeout", f"{HEAD_S}s") as server:
        host, port = server.url.rsplit("/", 1)[1].split(":")
        measure = lambda: asyncio.to_thread(figures, server.url, arguments.seconds)  # noqa: E731
        subprocess.run([PLIMSOLL, "bucket", "create", f"s3://idle?endpoint={server.url}"], env=environment(), check=True,
                       capture_output=True)
        alone, loaded, memory = [], [], []
        for turn in range(arguments.passes):
            alone.append(await measure())
            before = rss_mib(server.process.pid)
            closed = []
            opened = time.monotonic()
            idle = await open_all(host, int(port), arguments.idle, b"", closed)
            heads = await open_all(host, int(port), arguments.heads, b"GET /idle/k HTTP/1.1\r\nhost: ", closed)
            memory.append((before, rss_mib(server.process.pid)))
            print(f"pass {turn + 1}: {len(idle)} idle connections and {len(heads)} incomplete heads opened in "
                  f"{time.monotonic() - opened:.1f} s; server memory {before} MiB before, {memory[-1][1]} MiB "
                  f"after; {len(closed)} closed", flush=True)
            loaded.append(await measure())
            if turn + 1 < arguments.passes:
                for transport in idle + heads:
                    transport.abort()
                await asyncio.sleep(1)
        last = time.monotonic()
        while len(closed) < needed and time.monotonic() - last < max(IDLE_S, HEAD_S) + 10:
            await asyncio.sleep(0.5)
        left = needed - len(closed)
        longest = max(closed, default=0) - opened
    p99 = [statistics.median(f[0] for f in side) for side in (alone, loaded)]
    rate = [statistics.median(f[1] for f in side) for side in (alone, loaded)]
    print(f"p99: {p99[0]:.3f} ms alone, {p99[1]:.3f} ms with the other connections ({p99[1] / p99[0]:.2f}x)")
    print(f"rate: {rate[0]:.0f} GET/s alone, {rate[1]:.0f} GET/s with the other connections; "
          f"errors: {[f[2] for f in alone + loaded if f[2]]}")
    print(f"{left} of {needed} connections are still open; "
          f"the last was closed {longest:.1f} s after the first was opened")
    performance.write("idle", performance.table(["figure", "alone", "with the other connections", "limit"], [
        ["p99 of GET", f"{p99[0]:.3f} ms", f"{p99[1]:.3f} ms ({p99[1] / p99[0]:.2f}x)", "2x"],
        ["GET per second", f"{rate[0]:,.0f}", f"{rate[1]:,.0f}", "-"],
        ["server memory, first pass", f"{memory[0][0]} MiB", f"{memory[0][1]} MiB", "-"],
        ["connections that outlive their timeout", "-", f"{left} of {needed:,}", 0],
    ]))
    return 0 if p99[1] <= 2 * p99[0] and left == 0 else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--idle", type=int, default=17_000)
    parser.add_argument("--heads", type=int, default=1_000)
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--max-connections", type=int, default=16_384)
    sys.exit(asyncio.run(bench(parser.parse_args())))


if __name__ == "__main__":
    main()
