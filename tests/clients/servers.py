#!/usr/bin/env python3
"""Every short form against real servers: versitygw, MinIO and moto. No operation may fail.

    make test-servers        # installs the servers, then runs this

versitygw and MinIO come by `go install`, moto from PyPI.
"""
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

from support import ACCESS, PLIMSOLL, SECRET, environment

FORMS = ["get", "put", "mixed", "head", "list", "delete"]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(port, process):
    while process.poll() is None:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5)
            return
        except urllib.error.HTTPError:
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
        "moto": ([find("moto_server"), "-H", "127.0.0.1", "-p", str(port)], {}),
    }


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
                    done = subprocess.run(
                        [PLIMSOLL, "run", form, "--store", f"s3://plimsoll-test?endpoint=http://127.0.0.1:{port}",
                         "--create-bucket", "--objects", "40", "--operations", "120", "--warmup", "1s", *load,
                         "--json", "--out", out], env=environment(), capture_output=True, text=True, timeout=300)
                    if done.returncode != 0:
                        print(f"{name:10} {form:7} exit {done.returncode}: {done.stderr.strip()}")
                        failed += 1
                        continue
                    windows = json.loads(done.stdout)["windows"]
                    errors = {k: v for w in windows for k, v in w["errors"].items()}
                    count = sum(w["operations"] for w in windows)
                    print(f"{name:10} {form:7} {load[0]:13} {count:6} operations, errors: {errors or 'none'}", flush=True)
                    failed += bool(errors)
        finally:
            server.terminate()
            server.wait()
    return failed


if __name__ == "__main__":
    chosen = sys.argv[1:] or ["versitygw", "minio", "moto"]
    sys.exit(1 if sum(check(name) for name in chosen) else 0)
