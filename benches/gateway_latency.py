#!/usr/bin/env python3
"""Latency and CPU time that a gateway adds to a GET of 64 KiB: the backend directly, the gateway over it, and
`rclone serve s3` over it, in turn, with one request in flight. The gateway has no cache.

    PATH=$PATH:~/go/bin benches/gateway_latency.py --rounds 7
"""
import argparse
import json
import os
import shutil
import statistics
import tempfile

from packing import Backend, ENV, cpu_s, measure, start, stop
from servers import ACCESS, GATEWAY, SECRET, free_port


def gateway(base, backend):
    path, port = f"{base}/gateway.toml", free_port()
    with open(path, "w") as f:
        f.write(f'[catalog]\nurl = "dir:{base}/catalog"\n[tier.hot]\n'
                f'url = "s3://backend/tier?endpoint=http://127.0.0.1:{backend.port}"\n'
                '[write]\ntier = "hot"\ninline = "4 KiB"\n[cache]\nmemory = "0 B"\n')
    return start([GATEWAY, "run", path, "--listen", f"127.0.0.1:{port}", *os.environ.get("MORE", "").split()], port), port


def rclone(base, backend):
    path, port = f"{base}/rclone.conf", free_port()
    with open(path, "w") as f:
        f.write(f"[backend]\ntype = s3\nprovider = Other\naccess_key_id = {ACCESS}\nsecret_access_key = {SECRET}\n"
                f"endpoint = http://127.0.0.1:{backend.port}\n")
    return start(["rclone", "--config", path, "serve", "s3", "backend:", "--addr", f"127.0.0.1:{port}",
                  "--auth-key", f"{ACCESS},{SECRET}", "--vfs-cache-mode", "off"], port), port


def load(base, name, bucket, port, objects, operations):
    """Reads objects. Returns the window of the measurement."""
    path = f"{base}/{name}.toml"
    with open(path, "w") as f:
        f.write('name = "latency"\n')
        for role, stop_after in (("warmup", 200), ("measure", operations)):
            f.write(f'[[phase]]\nname = "{role}"\nrole = "{role}"\noperations = {{ get = 1 }}\n'
                    f'objects = {{ dataset = "s3://{bucket}/", count = {objects} }}\nconcurrency = 1\nstop_after = {stop_after}\n')
    return measure(["run", path, "--store", f"s3://{bucket}?endpoint=http://127.0.0.1:{port}", "--out", f"{base}/out"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--objects", type=int, default=500)
    parser.add_argument("--operations", type=int, default=3000)
    options = parser.parse_args()
    base = tempfile.mkdtemp(dir=os.environ.get("DATA", "/var/tmp"))
    backend = Backend(base)
    targets = {"gateway": gateway(base, backend), "rclone": rclone(base, backend)}
    targets["backend"] = backend.process, backend.port
    buckets = {"backend": "direct", "gateway": "through", "rclone": "direct"}
    import boto3
    try:
        for name in ("backend", "gateway"):
            s3 = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{targets[name][1]}", aws_access_key_id=ACCESS,
                              aws_secret_access_key=SECRET, region_name="us-east-1")
            s3.create_bucket(Bucket=buckets[name])
            for number in range(options.objects):
                s3.put_object(Bucket=buckets[name], Key=f"{number:04}", Body=os.urandom(65536))
        found = {name: [] for name in buckets}
        for _ in range(options.rounds):
            for name, bucket in buckets.items():
                process, port = targets[name]
                before = cpu_s(process)
                window = load(base, name, bucket, port, options.objects, options.operations)
                count = options.operations + 200
                found[name].append((window["service_ms"]["p50"], window["service_ms"]["p99"],
                                    1e6 * (cpu_s(process) - before) / count, sum(window["errors"].values())))
        for name, rounds in found.items():
            p50, p99, cpu, errors = (statistics.median(r[i] for r in rounds) for i in range(4))
            print(name, json.dumps({"p50_ms": round(p50, 3), "p99_ms": round(p99, 3), "cpu_us_per_read": round(cpu), "errors": errors}))
        added = [[g[i] - b[i] for g, b in zip(found["gateway"], found["backend"])] for i in (0, 1)]
        print(f"added: p50 {statistics.median(added[0]):.3f} ms, p99 {statistics.median(added[1]):.3f} ms; CPU of the gateway / rclone: "
              f"{statistics.median(g[2] / r[2] for g, r in zip(found['gateway'], found['rclone'])):.2f}")
    finally:
        for process, _ in targets.values():
            stop(process)
        shutil.rmtree(base, ignore_errors=True)


if __name__ == "__main__":
    main()
