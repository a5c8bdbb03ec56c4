#!/usr/bin/env python3
"""Measures writes of 1 KiB with `durability = "tier"`, beside single writes to the place itself.

    python3 benches/journal.py [SECONDS] [LATENCY...]

The place is `plimsoll serve` with an injected latency, on the same machine as the gateway and the client. Prints the p50 of the place, and p50, writes per second and requests of the place per 100 writes with 64 and 512 clients.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request

PLIMSOLL = os.path.abspath(os.environ.get("PLIMSOLL", "target/release/plimsoll"))
GATEWAY = os.path.abspath(os.environ.get("GATEWAY", "target/release/plimsoll-gateway"))
KEYS = {"PLIMSOLL_ACCESS_KEY": "k", "PLIMSOLL_SECRET_KEY": "secretsecret", "AWS_ACCESS_KEY_ID": "k",
        "AWS_SECRET_ACCESS_KEY": "secretsecret"}


def start(*command):
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                               env={**os.environ, **KEYS})
    lines = [process.stdout.readline()]
    while not lines[-1].startswith("listening"):
        assert lines[-1], command
        lines.append(process.stdout.readline())
    return process, lines[-1].split()[-1], [line.split()[-1] for line in lines[:-1]]


def load(url, bucket, clients, seconds, size="1KiB"):
    done = subprocess.run(
        [PLIMSOLL, "run", "put", "--store", f"s3://{bucket}?endpoint={url}", "--create-bucket", "--size", size,
         "--duration", f"{seconds}s", "--concurrency", str(clients), "--json"],
        capture_output=True, text=True, cwd=tempfile.gettempdir(), env={**os.environ, **KEYS})
    assert done.returncode == 0, done.stdout + done.stderr
    [window] = [w for w in json.loads(done.stdout)["windows"] if w["role"] == "measure"]
    return window


def puts(metrics):
    text = urllib.request.urlopen(metrics).read().decode()
    return sum(float(line.split()[-1]) for line in text.splitlines()
               if line.startswith("plimsoll_gateway_tier_requests_total") and '"(backup)"' in line and "PutObject" in line)


def main():
    seconds, latencies = int((sys.argv[1:] or ["10"])[0]), sys.argv[2:] or ["5ms", "30ms"]
    for latency in latencies:
        store, place, _ = start(PLIMSOLL, "serve", "--listen", "127.0.0.1:0", "--inject", f"latency={latency}")
        alone = load(place, "place", 1, seconds, "128KiB")
        load(place, "hot", 1, 1)
        print(f"latency {latency}: place alone {describe(alone)}", flush=True)
        for clients in [64, 512]:
            directory = tempfile.mkdtemp(prefix="journal")
            settings = os.path.join(directory, "gateway.toml")
            with open(settings, "w") as file:
                file.write(f'catalog.url = "dir:{directory}/catalog"\n[tier.hot]\nurl = "s3://hot/{clients}?endpoint={place}"\n'
                           f'[write]\ntier = "hot"\ninline = "20 KiB"\n[backup]\ndurability = "tier"\n'
                           f'to = "s3://place/{clients}?endpoint={place}"\n')
            gateway, url, [metrics] = start(GATEWAY, "run", settings, "--listen", "127.0.0.1:0", "--metrics-listen",
                                            "127.0.0.1:0")
            before = puts(metrics)
            window = load(url, "bucket", clients, seconds)
            sent = puts(metrics) - before
            print(f"  {clients} clients: {describe(window)}, {100 * sent / window['operations']:.2f} requests per 100 "
                  "writes", flush=True)
            gateway.terminate()
            gateway.wait()
            shutil.rmtree(directory)
        store.kill()
        store.wait()


def describe(window):
    return f"p50 {window['service_ms']['p50']:.2f} ms, {window['achieved_per_s']:.0f} writes/s"


if __name__ == "__main__":
    main()
