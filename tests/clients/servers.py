#!/usr/bin/env python3
"""Runs every short form and every built-in experiment against versitygw, MinIO, moto and `plimsoll serve`. No operation
may fail, and every result.json must match its schema.

    make test-servers        # installs the servers, then runs this

versitygw and MinIO are installed with `go install`, moto from PyPI.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

import jsonschema

from support import ACCESS, PLIMSOLL, SECRET, environment, free_port

FORMS = ["get", "put", "mixed", "head", "list", "delete"]

# The built-in experiments, each reduced to a size that suits a test.
EXPERIMENTS = {
    "quickstart": [f"phase.{p}.duration=1s" for p in
                   ["warmup-1k", "put-1k", "get-1k", "mixed-1k", "get-1k-open", "mixed-1k-open", "warmup-1m", "put-1m", "get-1m",
                    "mixed-1m", "get-1m-open"]] + ["phase.get-1k-open.rate=100/s", "phase.mixed-1k-open.rate=100/s",
                                                   "phase.get-1m-open.rate=20/s", "phase.objects-1m.objects.count=20"],
    "throughput": ["phase.objects.objects.count=50", "phase.warmup-put.duration=500ms", "phase.put.duration=2s",
                   "phase.warmup-get.duration=500ms", "phase.get.duration=2s"],
    "prefixes": [f"phase.{p}-objects.objects.count=100" for p in ["one", "sequential", "random"]] +
                [f"phase.{p}.duration=1s" for p in ["warmup", "one", "sequential", "random"]],
    "micro": ["phase.download.stop_after=2000"],
    "ramp": ["phase.load.objects.size=64MiB", "phase.load.objects.part_size=8MiB", "phase.warmup.objects.range=1MiB",
             "phase.warmup.duration=1s", "phase.ramp.objects.range=1MiB",
             "phase.ramp.concurrency={ from = 2, step = 4, to = 10, every = '1s' }"],
    "upload": [f"phase.upload-{n}g.objects.size={2 * n + 9}MiB" for n in (1, 5, 10)] +
              [f"phase.upload-{n}g.{setting}" for n in (1, 5, 10) for setting in ("stop_after=2", "think_time=10ms", "objects.part_size=5MiB")],
    "upload-sweep": ["phase.upload.objects.size=12MiB", "phase.upload.stop_after=1",
                     "phase.upload.sweep={ part_size = ['1 MiB', '5 MiB', '8 MiB'], parts_in_flight = [1, 4] }"],
    "checkpoint": ["phase.save.objects.size={ list = ['12 MiB', '17 MiB'] }", "phase.save.objects.count=4", "phase.save.stop_after=4",
                   "phase.save.objects.parts_in_flight=2", "phase.restore.concurrency=4", "phase.restore.stop_after=10"],
    "shards": ["phase.shards.objects.count=4", "phase.shards.objects.size=8MiB", "phase.whole.duration=1s", "phase.samples.duration=1s"],
    "model-load": ["phase.files.objects.size={ list = ['20 MiB', '9 MiB'] }", "phase.files.objects.part_size=8MiB",
                   "phase.files.objects.count=2", "phase.load.stop_after=5"],
    "kv-cache": ["phase.blocks.objects.size=1MiB", "phase.cache.objects.size=1MiB", "phase.cache.duration=1s"],
    "nix-cache": ["phase.descriptions.objects.count=50", "phase.archives.objects.count=20", "phase.query.duration=1s",
                  "phase.substitute.duration=1s"],
    "backup": ["phase.backup.objects.size=2MiB", "phase.backup.stop_after=10", "phase.backup.objects.count=10",
               "phase.check.stop_after=10", "phase.restore.duration=1s"],
    "log-ingest": ["phase.fluent-bit.objects.size=11000000 B"] + [f"phase.{p}.duration=1s" for p in ("loki", "fluent-bit", "firehose")],
    "ycsb": ["phase.load.objects.count=300", "phase.load.stop_after=300", "phase.run.stop_after=500"],
}
SCHEMA = os.path.join(os.path.dirname(PLIMSOLL), "..", "..", "schema", "result.schema.json")


def wait_for(port, process):
    while process.poll() is None:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5)
            return
        except urllib.error.HTTPError as answer:
            # A server that is still starting returns 503.
            if answer.code != 503:
                return
        except OSError:
            continue
    sys.exit(f"the server ended with {process.returncode}")


def find(name):
    path = shutil.which(name) or os.path.expanduser(f"~/go/bin/{name}")
    if not os.path.exists(path):
        sys.exit(f"{name} is not installed; see `make test-servers`")
    return path


def commands(folder, port):
    listen = f"127.0.0.1:{port}"
    return {
        "versitygw": ([find("versitygw"), "--port", listen, "--keep-alive", "posix", folder],
                      {"ROOT_ACCESS_KEY": ACCESS, "ROOT_SECRET_KEY": SECRET}),
        "minio": ([find("minio"), "server", "--address", listen, folder],
                  {"MINIO_ROOT_USER": ACCESS, "MINIO_ROOT_PASSWORD": SECRET, "MINIO_UPDATE": "off"}),
        "plimsoll": ([PLIMSOLL, "serve", "--listen", listen], {"PLIMSOLL_ACCESS_KEY": ACCESS, "PLIMSOLL_SECRET_KEY": SECRET}),
        "moto": ([find("moto_server"), "-H", "127.0.0.1", "-p", str(port)], {}),
    }


def run(name, arguments, port, out, buckets=("plimsoll-test",)):
    """Runs an experiment, prints one line, and returns the number of problems."""
    stores = [s for b in buckets for s in ("--store", f"s3://{b}?endpoint=http://127.0.0.1:{port}")]
    done = subprocess.run([PLIMSOLL, "run", *arguments, *stores, "--create-bucket", "--json", "--out", out], env=environment(),
                          capture_output=True, text=True, timeout=600)
    experiment = arguments[0]
    if done.returncode != 0:
        print(f"{name:10} {experiment:10} exit {done.returncode}: {done.stderr.strip()}", flush=True)
        return 1
    result = json.loads(done.stdout)
    with open(SCHEMA) as schema:
        invalid = [e.message for e in jsonschema.Draft202012Validator(json.load(schema)).iter_errors(result)]
    errors = {k: v for w in result["windows"] for k, v in w["errors"].items()}
    count = sum(w["operations"] for w in result["windows"])
    note = " ".join(a for a in arguments[1:] if a in ("--rate", "--concurrency"))
    knees = "".join(f", {r['steps']} steps ({r['ended']})" for r in result.get("ramps", []))
    print(f"{name:10} {experiment:10} {note:13} {count:7} operations, errors: {errors or 'none'}{knees}"
          f"{', INVALID ' + invalid[0] if invalid else ''}", flush=True)
    return bool(errors) + bool(invalid)


def experiments(name, port, out):
    failed = 0
    for experiment, sets in EXPERIMENTS.items():
        failed += run(name, [experiment, *(a for s in sets for a in ("--set", s))], port, out)
    sets = [a for s in EXPERIMENTS["throughput"] for a in ("--set", s)]
    failed += run(name, ["throughput", *sets, "--set", "block=1s", "--set", "rewarm=200ms"], port, out,
                  ("plimsoll-test", "plimsoll-test-2"))
    return failed


def check(name):
    failed = 0
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as out:
        port = free_port()
        command, variables = commands(folder, port)[name]
        server = subprocess.Popen(command, env=dict(environment(), **variables), stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL)
        try:
            wait_for(port, server)
            for form in FORMS:
                for load in (["--concurrency", "8"], ["--rate", "50/s", "--arrival", "poisson"]):
                    small = ["--objects", "40", "--operations", "120", "--warmup", "1s"]
                    failed += run(name, [form, *small, *load], port, out)
            if name != "moto":
                failed += experiments(name, port, out)
        finally:
            server.terminate()
            server.wait()
    return failed


if __name__ == "__main__":
    chosen = sys.argv[1:] or ["plimsoll", "versitygw", "minio", "moto"]
    sys.exit(1 if sum(check(name) for name in chosen) else 0)
