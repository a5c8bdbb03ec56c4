#!/usr/bin/env python3
"""Kills two gateways, their two backends and their database with SIGKILL at random moments, while clients write, read and
delete, and every object moves between the tiers without pause.

    python3 benches/placing_kills.py [KILLS] [SEED]

Each client owns its keys. A read must return the content of the last acknowledged write, or that of a later one without
an answer. At the end, every key is read, every byte is verified, and the tiers are swept. Needs boto3, versitygw and
PostgreSQL; GATEWAY names the binary.
"""
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from gateway_kills import body
from servers import free_port

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "clients"))
from postgres import Postgres  # noqa: E402

GATEWAY = os.path.abspath(os.environ.get("GATEWAY", "target/release/plimsoll-gateway"))
CLIENTS, KEYS = 6, 25
ENV = dict(os.environ, AWS_ACCESS_KEY_ID="k", AWS_SECRET_ACCESS_KEY="secret-of-bench", AWS_REGION="us-east-1",
           PLIMSOLL_ACCESS_KEY="k", PLIMSOLL_SECRET_KEY="secret-of-bench")


class Process:
    """A process with a fixed port that is started again after a kill."""

    def __init__(self, arguments, port, env=None):
        self.arguments, self.port, self.env = arguments, port, env or ENV
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.arguments, env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kill(self):
        self.process.kill()
        self.process.wait()


def gateway(path):
    port = free_port()
    return Process([GATEWAY, "run", path, "--listen", f"127.0.0.1:{port}", "--move-every", "100ms"], port)


def versitygw(directory):
    port = free_port()
    os.makedirs(os.path.join(directory, "tier"))
    return Process([shutil.which("versitygw") or os.path.expanduser("~/go/bin/versitygw"), "--port",
                    f"127.0.0.1:{port}", "--access", "k", "--secret", "secret-of-bench", "--quiet", "--keep-alive", "posix", directory], port)


def connect(port):
    config = Config(retries={"max_attempts": 1}, connect_timeout=2, read_timeout=30, s3={"addressing_style": "path"})
    return boto3.session.Session().client("s3", endpoint_url=f"http://127.0.0.1:{port}", config=config,
                                          aws_access_key_id="k", aws_secret_access_key="secret-of-bench", region_name="us-east-1")


class Client(threading.Thread):
    def __init__(self, index, seed, ports):
        super().__init__()
        self.random = random.Random(seed * 1000 + index)
        self.index, self.number, self.ports = index, 0, ports
        self.known = {}       # key -> set of allowed (number, size), or None for a missing object
        self.acknowledged, self.reads, self.failed = 0, 0, 0
        self.wrong, self.stopped = [], False

    def run(self):
        gateways = [connect(port) for port in self.ports]
        while not self.stopped:
            s3, key = self.random.choice(gateways), f"c{self.index}/{self.random.randrange(KEYS)}"
            try:
                if self.random.random() < 0.5:
                    self.write(s3, key)
                else:
                    self.check(s3, key)
            except (BotoCoreError, ClientError, OSError):
                self.failed += 1
                time.sleep(0.02)

    def write(self, s3, key):
        self.number += 1
        size = self.random.choice([0, 100, 1000, 3000, 60_000, 300_000, 2_500_000])
        after = None if self.random.random() < 0.25 else (self.number, size)
        self.known[key] = self.known.get(key, {None}) | {after}
        if after is None:
            s3.delete_object(Bucket="kills", Key=key)
        else:
            s3.put_object(Bucket="kills", Key=key, Body=body(key, *after))
        self.known[key] = {after}
        self.acknowledged += 1

    def check(self, s3, key):
        allowed = self.known.get(key, {None})
        try:
            data = s3.get_object(Bucket="kills", Key=key)["Body"].read()
        except ClientError as error:
            code = error.response["Error"]["Code"]
            if code != "NoSuchKey":
                if "damaged" in str(error):
                    self.wrong.append(f"{key}: {error}")
                raise
            data = None
        self.reads += 1
        if not any((None if one is None else body(key, *one)) == data for one in allowed):
            found = "nothing" if data is None else f"{len(data)} bytes"
            self.wrong.append(f"{key}: {found}, allowed {allowed}")


def settings(base, database, backends):
    path = os.path.join(base, "gateway.toml")
    tiers = "".join(f'[tier.{name}]\nurl = "s3://tier?endpoint=http://127.0.0.1:{backend.port}"\n'
                    for name, backend in backends.items())
    moves = "".join(f'[[move]]\nfrom = "{a}"\nto = "{b}"\nwhen = "age >= 0s"\nkeep_source = "2s"\n'
                    for a, b in (("hot", "cold"), ("cold", "hot")))
    with open(path, "w") as file:
        file.write(f'[catalog]\nurl = "{database.url}"\n{tiers}[retain]\ndeleted = "0s"\n[write]\ntier = "hot"\ninline = "4 KiB"\n[pack]\ntier = "hot"\n'
                   f'max_body = "64 KiB"\nfile_size = "1 MiB"\nmin_age = "0s"\nmax_wait = "0s"\n{moves}')
    return path


def command(*arguments):
    result = subprocess.run([GATEWAY, *arguments, "--json"], capture_output=True, text=True, env=ENV)
    assert result.returncode in (0, 1), result.stderr
    return json.loads(result.stdout), result.stderr


def patient(operation, what):
    end = time.time() + 60
    while True:
        try:
            return operation()
        except (BotoCoreError, ClientError, OSError) as error:
            assert time.time() < end, f"{what}: {error}"
            time.sleep(0.1)


def main():
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    chance, base = random.Random(seed), tempfile.mkdtemp(prefix="plimsoll-kills-")
    with Postgres() as database:
        backends = {name: versitygw(os.path.join(base, name)) for name in ("hot", "cold")}
        path = settings(base, database, backends)
        gateways = [gateway(path), gateway(path)]
        s3 = connect(gateways[0].port)
        patient(lambda: s3.create_bucket(Bucket="kills"), "the gateway does not start")
        clients = [Client(index, seed, [gateway.port for gateway in gateways]) for index in range(CLIENTS)]
        for client in clients:
            client.start()
        victims = [*gateways, *backends.values(), database]
        for number in range(kills):
            time.sleep(chance.uniform(0.2, 1.5))
            victim = chance.choice(victims)
            victim.kill()
            time.sleep(chance.uniform(0, 0.5))
            victim.start()
            wrong = [text for client in clients for text in client.wrong]
            if wrong:
                break
            if number % 50 == 49:
                moved = sum(client.acknowledged for client in clients)
                print(f"{number + 1} kills, {moved} acknowledged writes", flush=True)
        for client in clients:
            client.stopped = True
        for client in clients:
            client.join()
        for client in clients:
            for key in client.known:
                patient(lambda: client.check(s3, key), key)
        # Sessions of killed gateways end after 15 seconds.
        time.sleep(25)
        scrubbed, errors = command("scrub", path)
        first, _ = command("sweep", path, "--older-than", "0s", "--max-share", "100", "--delete")
        second, _ = command("sweep", path, "--older-than", "0s", "--max-share", "100")
        wrong = [text for client in clients for text in client.wrong]
        status, _ = command("status", path)
        print(json.dumps({
            "kills": number + 1, "acknowledged": sum(client.acknowledged for client in clients),
            "reads": sum(client.reads for client in clients), "failed": sum(client.failed for client in clients),
            "violations": wrong, "damaged": scrubbed["objects_damaged"] + scrubbed["damage"],
            "epochs": status["epoch"], "orphans before the sweep": {k: v["orphans"] for k, v in first.items()},
            "orphans after the sweep": {k: v["orphans"] for k, v in second.items()},
        }, indent=2))
        for process in [*gateways, *backends.values()]:
            process.kill()
    shutil.rmtree(base, ignore_errors=True)
    sys.exit(1 if wrong or scrubbed["objects_damaged"] or any(v["orphans"] for v in second.values()) else 0)


if __name__ == "__main__":
    main()
