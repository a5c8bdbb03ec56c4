#!/usr/bin/env python3
"""Kills `plimsoll-gateway` with SIGKILL at random moments while clients write, and checks every key after each restart.

    python3 benches/gateway_kills.py [KILLS] [SEED]

Each client owns its keys. After a restart, a key must have the content of its last acknowledged write or delete, or that
of the one request that was not answered. Bodies are inline, packed and blobs; every body contains its key and a number,
so wrong bytes are found. Needs boto3; GATEWAY names the binary.
"""
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

GATEWAY = os.environ.get("GATEWAY", "target/release/plimsoll-gateway")
CLIENTS, KEYS = 6, 25


def body(key, number, size):
    seed = hashlib.sha256(f"{key}/{number}".encode()).digest()
    return (seed * (size // 32 + 1))[:size]


class Client(threading.Thread):
    def __init__(self, index, seed):
        super().__init__()
        self.random = random.Random(seed * 1000 + index)
        self.index, self.number = index, 0
        self.known = {}       # key -> set of allowed (number, size), or None for a missing object
        self.acknowledged = 0

    def connect(self, port):
        config = Config(retries={"max_attempts": 1}, connect_timeout=2, read_timeout=20, s3={"addressing_style": "path"})
        self.s3 = boto3.session.Session().client("s3", endpoint_url=f"http://127.0.0.1:{port}", config=config,
                                                 aws_access_key_id="k", aws_secret_access_key="s", region_name="us-east-1")

    def run(self):
        while True:
            key = f"c{self.index}/{self.random.randrange(KEYS)}"
            self.number += 1
            before = self.known.get(key, {None})
            size = self.random.choice([0, 100, 1000, 3000, 60_000, 900_000, 2_500_000])
            delete = self.random.random() < 0.25
            after = None if delete else (self.number, size)
            self.known[key] = before | {after}
            try:
                if delete:
                    self.s3.delete_object(Bucket="kills", Key=key)
                else:
                    self.s3.put_object(Bucket="kills", Key=key, Body=body(key, self.number, size))
            except (BotoCoreError, ClientError, OSError):
                return
            self.known[key] = {after}
            self.acknowledged += 1

    def check(self):
        """Returns the violations, and adopts what the store contains."""
        wrong = []
        for key, allowed in self.known.items():
            try:
                data = self.s3.get_object(Bucket="kills", Key=key)["Body"].read()
            except ClientError as error:
                if error.response["Error"]["Code"] != "NoSuchKey":
                    wrong.append(f"{key}: {error}")
                    continue
                data = None
            found = [a for a in allowed if (None if a is None else body(key, *a)) == data]
            if not found:
                kind = "lost" if data is None else "back or damaged"
                wrong.append(f"{key}: {kind}: {None if data is None else len(data)} bytes, allowed {allowed}")
            else:
                self.known[key] = set(found[:1])
        return wrong


def start(data):
    env = dict(os.environ, PLIMSOLL_ACCESS_KEY="k", PLIMSOLL_SECRET_KEY="s")
    process = subprocess.Popen([GATEWAY, "run", "--data", data, "--listen", "127.0.0.1:0"], env=env,
                               stdout=subprocess.PIPE, text=True)
    begin = time.monotonic()
    port = process.stdout.readline().rsplit(":", 1)[1].strip()
    return process, port, time.monotonic() - begin


def main():
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    chance = random.Random(seed)
    data = tempfile.mkdtemp()
    clients = [Client(index, seed) for index in range(CLIENTS)]
    violations, slowest = [], 0
    for kill in range(kills + 1):
        process, port, seconds = start(data)
        slowest = max(slowest, seconds)
        fresh = []
        for client in clients:
            client.connect(port)
            if kill == 0 and client.index == 0:
                client.s3.create_bucket(Bucket="kills")
            violations += [f"kill {kill}: {text}" for text in client.check()]
            successor = Client(client.index, seed)
            successor.__dict__.update({k: v for k, v in client.__dict__.items()
                                       if k in ("random", "number", "known", "acknowledged", "s3")})
            fresh.append(successor)
        clients = fresh
        if violations or kill == kills:
            process.kill()
            process.wait()
            break
        for client in clients:
            client.start()
        time.sleep(chance.uniform(0.02, 0.6))
        process.send_signal(signal.SIGKILL)
        process.wait()
        for client in clients:
            client.join()
    scrub = subprocess.run([GATEWAY, "scrub", "--data", data], capture_output=True, text=True)
    shutil.rmtree(data)
    for text in violations[:20]:
        print(text)
    print(f"{kill} kills, {sum(c.acknowledged for c in clients)} acknowledged writes and deletes, "
          f"{len(violations)} violations, slowest start {seconds if not slowest else round(slowest, 2)} s; "
          f"scrub exit {scrub.returncode}: {(scrub.stdout + scrub.stderr).strip().splitlines()[-1]}")
    sys.exit(1 if violations or scrub.returncode else 0)


if __name__ == "__main__":
    main()
