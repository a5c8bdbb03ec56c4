#!/usr/bin/env python3
"""Throughput of moves between versitygw tiers: small bodies from the catalog into segments, and large blobs in comparison
with `rclone copy`.

    PATH=$PATH:~/go/bin benches/moves.py small --records 1000000
    PATH=$PATH:~/go/bin benches/moves.py large --blobs 160
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

from packing import Backend, ENV, cpu_s, figures, measure, start, stop
from servers import ACCESS, GATEWAY, SECRET, free_port


STARTED = []


def gateway(base, hot, cold, rules):
    path, port, metrics = f"{base}/gateway.toml", free_port(), free_port()
    with open(path, "w") as f:
        f.write(f'[catalog]\nurl = "dir:{base}/catalog"\n[tier.hot]\n'
                f'url = "s3://backend/tier?endpoint=http://127.0.0.1:{hot.port}&payload=unsigned"\n[tier.cold]\n'
                f'url = "s3://backend/tier?endpoint=http://127.0.0.1:{cold.port}&payload=unsigned"\n[retain]\ndeleted = "0s"\n[write]\ntier = "hot"\n'
                f'inline = "64 KiB"\n{rules}')
    process = start([GATEWAY, "run", path, "--listen", f"127.0.0.1:{port}", "--metrics-listen", f"127.0.0.1:{metrics}",
                     "--move-every", "100ms"], port)
    STARTED.append(process)
    return process, port, metrics


def objects_in(metrics, location):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{metrics}/metrics") as answer:
            text = answer.read().decode()
    except urllib.error.URLError:
        return 0
    found = re.findall(rf'^plimsoll_gateway_objects\{{.*location="{location}"\}} (\d+)', text, re.M)
    return sum(map(int, found))


def wait_for(metrics, count):
    while objects_in(metrics, "cold") < count:
        time.sleep(0.2)


def small(base, hot, cold, options):
    process, port, metrics = gateway(base, hot, cold, "")
    store = ["--store", f"s3://small?endpoint=http://127.0.0.1:{port}"]
    ycsb = ["-p", f"recordcount={options.records}", "-p", "fieldcount=8", "-p", "fieldlength=512"]
    print("load", figures(measure(["ycsb", "load", *store, *ycsb, "--threads", "64", "--create-bucket", "--out", f"{base}/load"])), flush=True)
    stop(process)
    cold.requests()
    begin = time.time()
    process, port, metrics = gateway(base, hot, cold, '[pack]\ntier = "cold"\nmin_age = "0s"\nmax_wait = "0s"\n')
    wait_for(metrics, options.records)
    print("packed", json.dumps({"seconds": round(time.time() - begin, 1), "gateway_cpu_s": round(cpu_s(process), 1),
                                "requests": cold.requests()}))


def large(base, hot, cold, options):
    process, port, metrics = gateway(base, hot, cold, "")
    import boto3
    s3 = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}", aws_access_key_id=ACCESS,
                      aws_secret_access_key=SECRET, region_name="us-east-1")
    s3.create_bucket(Bucket="large")
    body = os.urandom(64 << 20)
    for number in range(options.blobs):
        s3.put_object(Bucket="large", Key=f"{number:04}", Body=number.to_bytes(8, "big") + body[8:])
    stop(process)
    config = f"{base}/rclone.conf"
    with open(config, "w") as f:
        for name, backend in (("hot", hot), ("cold", cold)):
            f.write(f"[{name}]\ntype = s3\nprovider = Other\naccess_key_id = {ACCESS}\nsecret_access_key = {SECRET}\n"
                    f"endpoint = http://127.0.0.1:{backend.port}\n")
    for round in range(options.rounds):
        begin, before = time.time(), os.times()
        there = ("hot", "cold") if round % 2 == 0 else ("cold", "hot")
        subprocess.run(["rclone", "--config", config, "copy", f"{there[0]}:backend/tier", f"{there[1]}:backend/rclone{round}"], check=True)
        after = os.times()
        print("rclone copy", json.dumps({"seconds": round_to(time.time() - begin),
              "cpu_s": round_to(after.children_user + after.children_system - before.children_user - before.children_system)}), flush=True)
        subprocess.run(["rclone", "--config", config, "purge", f"{there[1]}:backend/rclone{round}"], check=True)
        rules = f'[[move]]\nfrom = "{there[0]}"\nto = "{there[1]}"\nwhen = "age >= 0s"\nkeep_source = "0s"\n'
        begin = time.time()
        process, port, metrics = gateway(base, hot, cold, rules)
        while objects_in(metrics, there[1]) < options.blobs:
            time.sleep(0.1)
        print("moves", json.dumps({"seconds": round_to(time.time() - begin), "cpu_s": round_to(cpu_s(process))}), flush=True)
        if round + 1 < options.rounds:
            time.sleep(3)
            stop(process)


def round_to(seconds):
    return round(seconds, 1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["small", "large"])
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--blobs", type=int, default=160)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    base = tempfile.mkdtemp(dir=os.environ.get("DATA", "/var/tmp"))
    backends = [Backend(f"{base}/hot"), Backend(f"{base}/cold")]
    try:
        {"small": small, "large": large}[options.kind](base, *backends, options)
    finally:
        for one in [*STARTED, *(backend.process for backend in backends)]:
            stop(one)
        shutil.rmtree(base, ignore_errors=True)


if __name__ == "__main__":
    main()
