#!/usr/bin/env python3
"""Measures sessions, uploads, synchronisation and YCSB on local servers, as medians and ratios to other tools.

    python3 benches/stores.py [express] [upload] [speed] [ycsb] [--quick]

`speed` needs rclone and the AWS CLI, the second half of `upload` needs versitygw. The bench reports and skips the parts
for which a tool is missing. With PERFORMANCE=write, it writes the tables of complete parts into docs/performance.md.
"""
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import performance
from experiments import ENVIRONMENT, PLIMSOLL, Server

ENV = dict(ENVIRONMENT, AWS_REGION="us-east-1")
QUICK = "--quick" in sys.argv
FIGURES = ["figure", "value", "limit"]
rows, skipped = [], []


def spaced(size):
    """Returns a size with a space before its unit."""
    return re.sub(r"(?<=\d)(?=[KMG])", " ", size)


def skip(reason):
    """Reports that a part of the bench cannot run."""
    print(f"{reason}; skipped")
    skipped.append(reason)


def plimsoll(*arguments, code=0):
    """Runs a command and returns its result; exits if the exit code is not `code`."""
    out = tempfile.mkdtemp()
    try:
        run = subprocess.run([PLIMSOLL, *arguments, "--json", "--out", out], env=ENV, capture_output=True, text=True)
        if run.returncode != code:
            sys.exit(f"plimsoll {' '.join(arguments)}: exit {run.returncode}\n{run.stderr}")
        return json.loads(run.stdout)
    finally:
        shutil.rmtree(out)


def express():
    """Compares p99 with sessions of 5 s and with sessions that do not expire, in alternating pairs."""
    pairs, seconds = (2, 10) if QUICK else (5, 60)
    ratios, errors, renewals = [], 0, []
    with Server("", "--session-life", "5s") as short, Server("") as long:
        def one(server):
            store = f"s3://bench--use1-az4--x-s3?endpoint={server.url}"
            result = plimsoll("run", "get", "--store", store, "--create-bucket", "--rate", "1000/s", "--duration", f"{seconds}s",
                              "--in-flight", "64")
            window = next(w for w in result["windows"] if w["role"] == "measure")
            return window["response_ms"]["p99"], sum(window["errors"].values()), result["background_requests"][0]["calls"]
        for pair in range(pairs):
            figures = {name: one(server) for name, server in [("short", short), ("long", long)][::1 if pair % 2 else -1]}
            ratios.append(figures["short"][0] / figures["long"][0])
            errors += figures["short"][1]
            renewals.append(figures["short"][2])
    print(f"express: {pairs} pairs of {seconds} s at 1,000/s: {errors} errors, CreateSession calls {renewals}, "
          f"p99 with 5 s sessions / p99 with long sessions: median {statistics.median(ratios):.2f} "
          f"[{min(ratios):.2f}..{max(ratios):.2f}]")
    rows.append(["errors", errors, 0])
    rows.append(["CreateSession calls per run", f"{min(renewals)} .. {max(renewals)}", "-"])
    rows.append(["ratio of response p99: median [range]",
                 f"{statistics.median(ratios):.2f} [{min(ratios):.2f} .. {max(ratios):.2f}]", 1.2])
    return FIGURES


def upload():
    """Uploads 5 GiB in parts to two servers and checks content and memory; then uploads while requests fail."""
    size, part, flight = ("1GiB" if QUICK else "5GiB"), 16, 8

    def one(store, name):
        result = plimsoll("run", "put", "--store", store, "--create-bucket", "--size", size, "--objects", "1", "--part-size", f"{part}MiB",
                          "--parts-in-flight", str(flight), "--concurrency", "1", "--operations", "1", "--warmup", "0", "--verify", "readback",
                          "--timeout", "10m")
        window = result["windows"][0]
        rss = result["client"]["peak_rss_bytes"] / 2**20
        print(f"upload: {size} to {name}: {window['bytes']} bytes read back and verified, peak memory {rss:.0f} MiB "
              f"(limit 48 + {flight} x {part} = {48 + flight * part} MiB), {window['service_ms']['mean'] / 1e3:.1f} s")
        rows.append([f"peak memory, {spaced(size)} to {name}", f"{rss:.0f} MiB", f"{48 + flight * part} MiB"])

    with Server("") as server:
        one(f"s3://bench?endpoint={server.url}", "plimsoll serve")
    versitygw = shutil.which("versitygw") or os.path.expanduser("~/go/bin/versitygw")
    if os.path.exists(versitygw):
        data = tempfile.mkdtemp()
        gateway = subprocess.Popen([versitygw, "--port", "127.0.0.1:17071", "posix", data], stdout=subprocess.DEVNULL,
                                   env=ENV | {"ROOT_ACCESS_KEY": "bench", "ROOT_SECRET_KEY": "bench-secret"})
        try:
            time.sleep(2)
            one("s3://bench?endpoint=http://127.0.0.1:17071", "versitygw")
        finally:
            gateway.terminate()
            gateway.wait()
            shutil.rmtree(data)
    else:
        skip("upload: versitygw is not installed")
    with Server("error=0.02,seed=3") as server:
        uploads = 5 if QUICK else 40
        result = plimsoll("run", "put", "--store", f"s3://bench?endpoint={server.url}", "--create-bucket", "--size", "256MiB", "--objects", "4",
                          "--part-size", "5MiB", "--parts-in-flight", "8", "--concurrency", "2", "--operations", str(uploads), "--warmup", "0",
                          "--retries", "5", "--checksum", "auto")
        window = result["windows"][0]
        left = subprocess.run([sys.executable, "-c", LIST_UPLOADS, server.url], env=ENV, capture_output=True, text=True).stdout.strip()
        print(f"upload: 2% of requests fail: {uploads} uploads, {sum(window['errors'].values())} failed, {window['retries']} of "
              f"{window['attempts']} requests retried, unfinished uploads left: {left or 'unknown (boto3 is not installed)'}")
        if not left:
            skip("upload: the count of unfinished uploads needs boto3")
        rows.append([f"failed uploads of {uploads}, if 2% of requests fail", sum(window["errors"].values()), 0])
        rows.append(["retried requests", f"{window['retries']:,} of {window['attempts']:,}", "-"])
        rows.append(["unfinished uploads left", left, 0])
    return FIGURES


LIST_UPLOADS = """
import sys, boto3
s3 = boto3.client("s3", endpoint_url=sys.argv[1])
while True:
    try:
        print(len(s3.list_multipart_uploads(Bucket="bench").get("Uploads", [])))
        break
    except Exception:
        pass
"""


def speed():
    """Synchronises the same files with Plimsoll, the AWS CLI and rclone, in turns; compares wall time and CPU time."""
    tools = {"aws": {"up": "aws s3 sync {source} {target} --only-show-errors", "down": "aws s3 sync {source} {target} --only-show-errors"},
             "rclone": {"up": "rclone sync {source} bench:{target_path}", "down": "rclone sync bench:{source_path} {target}"}}
    found = [name for name in tools if shutil.which(name)]
    for missing in set(tools) - set(found):
        skip(f"speed: {missing} is not installed")
    loops = "2" if QUICK else "5"
    with Server("") as server:
        ENV.update(RCLONE_CONFIG_BENCH_TYPE="s3", RCLONE_CONFIG_BENCH_PROVIDER="Other", RCLONE_CONFIG_BENCH_ENV_AUTH="true",
                   RCLONE_CONFIG_BENCH_ENDPOINT=server.url, RCLONE_CONFIG_BENCH_REGION="us-east-1")
        for files, size, data in [("1", "256MiB" if QUICK else "2GiB", "one large file"), ("1000", "100KiB", "small files")]:
            for direction in ("up", "down"):
                for name in found:
                    compare(server, name, tools[name][direction], files, size, loops, f"{data}, {direction}")
    return ["transfer", "tool", "wall time, tool / Plimsoll", "CPU time, Plimsoll / tool"]


def compare(server, name, client, files, size, loops, case):
    """Compares one tool with Plimsoll, in turns."""
    if int(files) > 1 and case.endswith("down"):
        # ext4 does not reuse inodes that were freed less than half a minute ago, and its search for others is slow.
        # Wait until the inodes of the previous run are old enough.
        time.sleep(40)
    result = plimsoll("run", "sync", "--store", f"s3://bench?endpoint={server.url}", "--create-bucket", "--files", files, "--size", size,
                      "--loops", loops, "--direction", case.split()[-1], "--client", client)
    gib = result["sync"][0]["bytes"] / 2**30
    figures = {}
    for one in result["sync"]:
        figures.setdefault(one["client"].split()[0], []).append((one["wall_s"], one["cpu_s"] / gib))
    medians = {tool: [statistics.median(column) for column in zip(*figures[tool])] for tool in ("plimsoll", name)}
    (wall, cpu), (tool_wall, tool_cpu) = medians["plimsoll"], medians[name]
    print(f"speed: {case}: {name} {tool_wall:.2f} s, {tool_cpu:.2f} CPU s/GiB; "
          f"plimsoll {wall:.2f} s, {cpu:.2f} CPU s/GiB; "
          f"wall time of {name} / plimsoll {tool_wall / wall:.2f}, CPU time of plimsoll / {name} {cpu / tool_cpu:.3f} "
          "(limit 0.333)")
    transfer = f"{files} {'file' if files == '1' else 'files'} of {spaced(size)}, {case.split()[-1]}"
    rows.append([transfer, name, f"{tool_wall / wall:.2f}", f"{cpu / tool_cpu:.2f}"])


def ycsb():
    """Measures the client CPU time per operation on records of 1 KB."""
    runs = []
    with Server("") as server:
        store = f"s3://bench?endpoint={server.url}"
        common = ["-P", "workloada", "-p", "recordcount=10000", "--threads", "16", "--store", store]
        plimsoll("ycsb", "load", *common, "--create-bucket")
        for _ in range(2 if QUICK else 5):
            result = plimsoll("ycsb", "run", *common, "-p", f"operationcount={50_000 if QUICK else 300_000}")
            runs.append(result["client"]["cpu_us_per_operation"])
    print(f"ycsb: workload A, records of 1 KB: {statistics.median(runs):.1f} us of client CPU time per operation "
          f"[{min(runs):.1f}..{max(runs):.1f}] (limit 20 us)")
    rows.append(["client CPU time per operation: median [range]",
                 f"{statistics.median(runs):.1f} us [{min(runs):.1f} .. {max(runs):.1f}]", "20 us"])
    return FIGURES


if __name__ == "__main__":
    parts = {"express": express, "upload": upload, "speed": speed, "ycsb": ycsb}
    chosen = [name for name in sys.argv[1:] if not name.startswith("--")] or list(parts)
    for name in chosen:
        if name not in parts:
            sys.exit(f"unknown bench {name}: choose from {', '.join(parts)}")
        rows.clear()
        skipped.clear()
        header = parts[name]()
        if not QUICK and not skipped:
            performance.write(name, performance.table(header, rows))
