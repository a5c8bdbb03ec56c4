#!/usr/bin/env python3
"""Kills commands at random times and verifies that `plimsoll clean` removes what they leave and nothing else.

    make bench-kills        # 50 kills, about three minutes; needs boto3 (make test installs it into .venv)
"""

import hashlib
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

import boto3
from botocore.config import Config

ROOT = pathlib.Path(__file__).resolve().parent.parent
PLIMSOLL = str(ROOT / "target/dist/plimsoll")
KEYS = {"AWS_ACCESS_KEY_ID": "kills", "AWS_SECRET_ACCESS_KEY": "kills-secret"}
FOREIGN = 200


def commands(url, out, files):
    """Returns the commands to kill, by name. Each of them would run for minutes."""
    common = ["--store", url, "--out", out]
    long = ["--duration", "10m", "--warmup", "0s"]
    return {
        "run put": ["run", "put", *long, *common],
        "run mixed": ["run", "mixed", "--objects", "5000", *long, *common],
        "run parts": ["run", "put", "--size", "12MiB", "--part-size", "5MiB", "--objects", "20", *long, *common],
        "sync": ["run", "sync", "--files", "3000", "--size", "4KiB", "--loops", "1000", "--dir", files, *common],
        "ycsb load": ["ycsb", "load", "-P", "workloada", "-p", "recordcount=1000000", *common],
        "ycsb run": ["ycsb", "run", "-P", "workloadd", "-p", "recordcount=1000", "-p", "operationcount=100000000", *common],
        "upload-sweep": ["run", "upload-sweep", *common],
    }


def contents(client):
    """Returns the digest of every object by key, and the number of unfinished uploads."""
    found = {}
    for page in client.get_paginator("list_objects_v2").paginate(Bucket="kills"):
        for entry in page.get("Contents", []):
            body = client.get_object(Bucket="kills", Key=entry["Key"])["Body"].read()
            found[entry["Key"]] = hashlib.sha256(body).hexdigest()
    uploads = client.list_multipart_uploads(Bucket="kills").get("Uploads", [])
    return found, len(uploads)


def below(directory):
    """Returns the digest of every file below a directory by path; `None` for directories."""
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
        for path in sorted(directory.rglob("*"))
    }


def main():
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    draw = random.Random(13)
    work = pathlib.Path(tempfile.mkdtemp(prefix="plimsoll-kills-"))
    environment = {**os.environ, **KEYS, "AWS_EC2_METADATA_DISABLED": "true"}
    serve = {**environment, "PLIMSOLL_ACCESS_KEY": KEYS["AWS_ACCESS_KEY_ID"], "PLIMSOLL_SECRET_KEY": KEYS["AWS_SECRET_ACCESS_KEY"]}
    server = subprocess.Popen(
        [PLIMSOLL, "serve", "--listen", "127.0.0.1:0", "--until-stdin-closes"],
        env=serve, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )
    endpoint = re.search(r"http://\S+", server.stdout.readline()).group()
    client = boto3.client(
        "s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="kills", aws_secret_access_key="kills-secret",
        config=Config(s3={"addressing_style": "path"}),
    )
    client.create_bucket(Bucket="kills")
    prefixes = ["", "team/", "team/plimsoll/", "plimsoll/", "team/plimsoll/records-usertable/", "team/files/"]
    for n in range(FOREIGN):
        client.put_object(Bucket="kills", Key=f"{prefixes[n % len(prefixes)]}foreign-{n}.txt", Body=f"mine {n}".encode())
    files = work / "files"
    for n in range(FOREIGN):
        path = files / ["", "files", "source", "plimsoll-runs"][n % 4] / f"foreign-{n}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"mine {n}")
    objects_before, files_before = contents(client)[0], below(files)
    out = work / "runs"
    url = f"s3://kills/team?endpoint={endpoint}"
    lines = commands(url, str(out), str(files))
    problems, by_name = [], {name: 0 for name in lines}
    for n in range(kills):
        name = list(lines)[n % len(lines)]
        shutil.rmtree(out, ignore_errors=True)
        process = subprocess.Popen([PLIMSOLL, *lines[name]], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        after = draw.uniform(0.02, 3.0)
        try:
            process.wait(after)
            problems.append(f"{name}: exited with {process.returncode} before it was killed")
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        by_name[name] += 1
        for run in sorted(out.iterdir()) if out.exists() else []:
            if not (run / "environment.json").exists():
                continue
            cleaned = subprocess.run([PLIMSOLL, "clean", str(run)], env=environment, capture_output=True, text=True)
            if cleaned.returncode:
                problems.append(f"{name}, killed after {after:.2f} s: plimsoll clean failed: {cleaned.stderr.strip()}")
        objects, uploads = contents(client)
        if objects != objects_before or uploads:
            extra = sorted(set(objects) - set(objects_before))[:3]
            problems.append(f"{name}, killed after {after:.2f} s: {len(objects)} objects instead of {len(objects_before)}, "
                            f"{uploads} unfinished uploads; first extra keys: {extra}")
        if below(files) != files_before:
            changed = sorted(set(below(files)) ^ set(files_before))[:3]
            problems.append(f"{name}, killed after {after:.2f} s: files were changed, added or removed: {changed}")
        print(f"{n + 1:3} {name:13} killed after {after:.2f} s", flush=True)
    unchanged = sum(contents(client)[0].get(key) == digest for key, digest in objects_before.items())
    unchanged_files = sum(below(files).get(name) == digest for name, digest in files_before.items() if digest)
    server.stdin.close()
    server.wait()
    shutil.rmtree(work)
    print(f"{kills} kills {by_name}: {unchanged} of {FOREIGN} foreign objects and {unchanged_files} of {FOREIGN} foreign files "
          "are unchanged")
    print("\n".join(problems) or "no objects, uploads or files were left behind")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
