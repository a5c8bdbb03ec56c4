#!/usr/bin/env python3
"""YCSB on several servers, one after the other: load of records of 1 KB, a mix of 80% reads and 20% updates, then reads
with a uniform and a zipfian distribution. Prints CPU time per operation of the server, rates, percentiles, peak memory,
disk use, and the time until the server is ready after a clean stop and after SIGKILL under load.

    python3 benches/ycsb_servers.py --servers gateway,versitygw,minio --records 1000000 --out DIR

DIR then has the run directories; `plimsoll report DIR/mix-*` compares them.
"""
import argparse
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

import servers
from servers import ACCESS, PLIMSOLL, SECRET, Server


def store(server):
    return f"s3://{server.name}-ycsb?endpoint=http://127.0.0.1:{server.port}"


def ycsb(server, command, options, out, *more):
    """Runs `plimsoll ycsb`. Returns the figures of its window and the CPU us per operation of the server."""
    env = dict(os.environ, AWS_ACCESS_KEY_ID=ACCESS, AWS_SECRET_ACCESS_KEY=SECRET, AWS_REGION="us-east-1")
    arguments = [PLIMSOLL, "ycsb", command, "--store", store(server),
                 "-p", f"recordcount={options.records}", "-p", "fieldcount=10", "-p", "fieldlength=100",
                 "--threads", str(options.threads), "--out", out, "--json"]
    for value in more:
        arguments += ["-p", value]
    if command == "load":
        arguments.append("--create-bucket")
    before, start = server.cpu_s(), time.time()
    done = subprocess.run(arguments, env=env, capture_output=True, text=True)
    if not done.stdout.strip():
        raise SystemExit(done.stderr)
    windows = json.loads(done.stdout)["windows"]
    operations = sum(w["operations"] for w in windows)
    figures = {"cpu_us": round(1e6 * (server.cpu_s() - before) / max(1, operations), 1),
               "seconds": round(time.time() - start, 1), "operations": operations,
               "rss_mb": round(server.rss_mb())}
    for window in windows:
        if not window["operations"]:
            continue
        figures[window["operation"]] = {"per_s": round(window["achieved_per_s"])} | \
            {p + "_ms": round(window["service_ms"][p], 3) for p in ("p50", "p90", "p99")} | {"errors": window["errors"]}
    return figures


def ready_s(server):
    """Starts the server again. Returns the seconds until it is ready."""
    start = time.time()
    arguments, more = servers.command(server.name, server.data, server.port)
    env = dict(os.environ, AWS_ACCESS_KEY_ID=ACCESS, AWS_SECRET_ACCESS_KEY=SECRET, **more)
    server.process = subprocess.Popen(arguments, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while time.time() - start < 60:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{server.port}/", timeout=5)
        except urllib.error.HTTPError:
            # An answer in the S3 protocol: the request has no signature.
            return round(time.time() - start, 3)
        except OSError:
            time.sleep(0.01)
    return None


def settle(server):
    """Waits until the server has finished its work in the background, at most five minutes. Returns the seconds."""
    start, quiet = time.time(), 0
    while quiet < 3 and time.time() - start < 300:
        before = server.cpu_s()
        time.sleep(1)
        quiet = quiet + 1 if server.cpu_s() - before < 0.03 else 0
    return round(time.time() - start, 1)


def restarts(server, options, out):
    start = time.time()
    server.stop()
    figures = {"stop_s": round(time.time() - start, 2), "ready_after_stop_s": ready_s(server)}
    figures["rss_mb_after_start"] = round(server.rss_mb())
    env = dict(os.environ, AWS_ACCESS_KEY_ID=ACCESS, AWS_SECRET_ACCESS_KEY=SECRET, AWS_REGION="us-east-1")
    load = subprocess.Popen(
        [PLIMSOLL, "ycsb", "run", "--store", store(server), "-p",
         f"recordcount={options.records}", "-p", "fieldcount=10", "-p", "fieldlength=100", "-p", "operationcount=100000000",
         "-p", "readproportion=0.5", "-p", "updateproportion=0.5", "--threads", str(options.threads), "--out", out],
        env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(20)
    server.process.send_signal(signal.SIGKILL)
    server.process.wait()
    load.send_signal(signal.SIGINT)
    load.wait()
    figures["ready_after_kill_s"] = ready_s(server)
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", default="gateway,versitygw,minio")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--operations", type=int, default=1_000_000)
    parser.add_argument("--reads", type=int, default=300_000)
    parser.add_argument("--threads", type=int, default=64)
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    for name in options.servers.split(","):
        data = tempfile.mkdtemp(dir=os.environ.get("DATA", "/var/tmp"))
        server = Server(name, data)

        def step(label, command, *more):
            figures = ycsb(server, command, options, os.path.join(options.out, f"{label}-{name}"), *more)
            print(name, label, json.dumps(figures), flush=True)

        step("load", "load")
        mix = ["readproportion=0.8", "updateproportion=0.2", "requestdistribution=zipfian"]
        step("mix", "run", f"operationcount={options.operations}", *mix)
        print(name, "settled after", settle(server), "s", flush=True)
        for distribution in ("uniform", "zipfian"):
            step(distribution, "run", f"operationcount={options.reads}", "readproportion=1", "updateproportion=0",
                 f"requestdistribution={distribution}")
        disk = subprocess.run(["du", "-sm", data], capture_output=True, text=True).stdout.split()[0]
        print(name, "disk_mb", disk, flush=True)
        if name == "gateway":
            print(name, "restarts", json.dumps(restarts(server, options, os.path.join(options.out, "killed"))), flush=True)
        server.stop()
        shutil.rmtree(data)


if __name__ == "__main__":
    main()
