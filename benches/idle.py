#!/usr/bin/env python3
"""Latency of an authenticated client beside idle connections and half-sent heads, and how long those stay.

    python3 benches/idle.py [--idle 17000] [--heads 1000] [--rounds 3]

Starts `plimsoll serve` on the loopback interface, measures `plimsoll run get` without and with the other connections, in
turn, and compares the medians of p99. Then it waits for the timeouts of the server and counts the connections left.
PLIMSOLL names the binary; the default is target/release/plimsoll. Exits 1 if p99 is more than twice as high or a
connection outlives its timeout.
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

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "clients"))
from support import PLIMSOLL, Server, environment  # noqa: E402

# The server's timeouts in this bench; the connections are opened and measured well within the first.
IDLE_S, HEAD_S = 60, 60


class Quiet(asyncio.Protocol):
    """A connection that sends `head` and then nothing, and notes when it is closed."""

    def __init__(self, head, closed):
        self.head, self.closed = head, closed

    def connection_made(self, transport):
        if self.head:
            transport.write(self.head)

    def connection_lost(self, _):
        self.closed.append(time.monotonic())


async def open_all(host, port, count, head, closed):
    """Opens `count` connections, from several loopback addresses so that ports suffice."""
    loop = asyncio.get_running_loop()
    made = []
    for start in range(0, count, 200):
        source = f"127.0.0.{2 + start // 10_000}"
        batch = (loop.create_connection(lambda: Quiet(head, closed), host, port, local_addr=(source, 0))
                 for _ in range(start, min(start + 200, count)))
        made += [transport for transport, _ in await asyncio.gather(*batch)]
    return made


def figures(url, seconds):
    """p99 in milliseconds and operations per second of a closed loop of GETs."""
    done = subprocess.run([PLIMSOLL, "run", "get", "--store", f"s3://idle?endpoint={url}", "--size", "1KiB", "--objects", "100",
                           "--concurrency", "4", "--duration", f"{seconds}s", "--warmup", "1s", "--json"],
                          env=environment(), capture_output=True, text=True, timeout=seconds + 60)
    if done.returncode != 0:
        sys.exit(f"plimsoll run get: {done.stderr}")
    window = next(w for w in json.loads(done.stdout)["windows"] if w["role"] == "measure")
    return window["service_ms"]["p99"], window["achieved_per_s"], window["errors"]


def rss_mib(pid):
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:")) // 1024


async def bench(arguments):
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    wanted = arguments.idle + arguments.heads
    if files < wanted + 200:
        sys.exit(f"this process may open {files} files, {wanted + 200} are needed; raise `ulimit -Hn`")
    with Server("--max-connections", str(arguments.max_connections), "--idle-timeout", f"{IDLE_S}s",
                "--head-timeout", f"{HEAD_S}s") as server:
        host, port = server.url.rsplit("/", 1)[1].split(":")
        measure = lambda: asyncio.to_thread(figures, server.url, arguments.seconds)  # noqa: E731
        subprocess.run([PLIMSOLL, "bucket", "create", f"s3://idle?endpoint={server.url}"], env=environment(), check=True,
                       capture_output=True)
        alone, beside = [], []
        for turn in range(arguments.rounds):
            alone.append(await measure())
            closed = []
            opened = time.monotonic()
            idle = await open_all(host, int(port), arguments.idle, b"", closed)
            heads = await open_all(host, int(port), arguments.heads, b"GET /idle/k HTTP/1.1\r\nhost: ", closed)
            print(f"round {turn + 1}: {len(idle)} idle and {len(heads)} half-sent heads opened in "
                  f"{time.monotonic() - opened:.1f} s, server {rss_mib(server.process.pid)} MiB, {len(closed)} closed", flush=True)
            beside.append(await measure())
            if turn + 1 < arguments.rounds:
                for transport in idle + heads:
                    transport.abort()
                await asyncio.sleep(1)
        last = time.monotonic()
        while len(closed) < wanted and time.monotonic() - last < max(IDLE_S, HEAD_S) + 10:
            await asyncio.sleep(0.5)
        left = wanted - len(closed)
        longest = max(closed, default=0) - opened
    p99 = [statistics.median(f[0] for f in side) for side in (alone, beside)]
    rate = [statistics.median(f[1] for f in side) for side in (alone, beside)]
    print(f"p99 {p99[0]:.3f} ms alone, {p99[1]:.3f} ms beside them: {p99[1] / p99[0]:.2f}x")
    print(f"{rate[0]:.0f} GET/s alone, {rate[1]:.0f} GET/s beside them; errors {[f[2] for f in alone + beside if f[2]]}")
    print(f"{left} of {wanted} connections left; the last closed {longest:.1f} s after the first was opened")
    return 0 if p99[1] <= 2 * p99[0] and left == 0 else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--idle", type=int, default=17_000)
    parser.add_argument("--heads", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--max-connections", type=int, default=16_384)
    sys.exit(asyncio.run(bench(parser.parse_args())))


if __name__ == "__main__":
    main()
