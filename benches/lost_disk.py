#!/usr/bin/env python3
"""Kills `plimsoll-gateway` under load, removes its disk, restores the backup, and compares.

    python3 benches/lost_disk.py [TIMES] [SEED]

`[backup]` has `every = "1s"`. Everything that was acknowledged before the time that `restore` reports must be there, with
its bytes. Prints the longest time between that state and the end of the process, and the writes that were lost. Needs
boto3; GATEWAY names the binary.
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

GATEWAY = os.environ.get("GATEWAY", "target/release/plimsoll-gateway")
CLIENTS = 4
KEYS = {"PLIMSOLL_ACCESS_KEY": "k", "PLIMSOLL_SECRET_KEY": "secretsecret"}


def settings(directory):
    path = os.path.join(directory, "gateway.toml")
    with open(path, "w") as file:
        file.write(f"""
catalog.url = "dir:{directory}/disk/catalog"
[tier.hot]
url = "file://{directory}/disk/hot"
[write]
tier = "hot"
inline = "16 KiB"
[backup]
to = "file://{directory}/backup"
every = "1s"
""")
    return path


class Gateway:
    def __init__(self, file):
        self.process = subprocess.Popen([GATEWAY, "run", file, "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True, env={**os.environ, **KEYS})
        self.url = self.process.stdout.readline().split()[-1]

    def client(self):
        config = Config(retries={"max_attempts": 1}, connect_timeout=2, read_timeout=20, s3={"addressing_style": "path"})
        return boto3.session.Session().client("s3", endpoint_url=self.url, config=config, region_name="us-east-1",
                                              aws_access_key_id="k", aws_secret_access_key="secretsecret")


def write(gateway, index, seed, acknowledged, stop):
    s3, pick = gateway.client(), random.Random(seed * 100 + index)
    for number in range(1_000_000):
        if stop.is_set():
            return
        key, body = f"{index}-{number}", pick.randbytes(pick.choice([100, 1000, 10_000, 50_000]))
        try:
            s3.put_object(Bucket="lost", Key=key, Body=body)
        except (ClientError, BotoCoreError):
            return
        acknowledged.append((time.time(), key, body))


def once(seed):
    directory = tempfile.mkdtemp(prefix="lost-disk")
    try:
        file = settings(directory)
        gateway = Gateway(file)
        gateway.client().create_bucket(Bucket="lost")
        acknowledged, stop = [], threading.Event()
        writers = [threading.Thread(target=write, args=(gateway, index, seed, acknowledged, stop)) for index in range(CLIENTS)]
        [writer.start() for writer in writers]
        time.sleep(1.5 + random.Random(seed).random() * 2)
        gateway.process.kill()
        killed = time.time()
        gateway.process.wait()
        stop.set()
        [writer.join() for writer in writers]
        shutil.rmtree(os.path.join(directory, "disk"))
        done = subprocess.run([GATEWAY, "restore", file, "--json"], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        found = json.loads(done.stdout)
        gateway = Gateway(file)
        s3, lost, kept = gateway.client(), 0, 0
        for seconds, key, body in acknowledged:
            try:
                same = s3.get_object(Bucket="lost", Key=key)["Body"].read() == body
            except ClientError as error:
                assert error.response["Error"]["Code"] == "NoSuchKey", error
                same = None
            assert same is not False, f"seed {seed}: {key} has other bytes"
            assert same or seconds * 1000 > found["at_ms"], f"seed {seed}: {key} is lost, and was acknowledged before"
            kept, lost = kept + bool(same), lost + (same is None)
        gateway.process.kill()
        gateway.process.wait()
        return kept, lost, killed - found["at_ms"] / 1000
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def main():
    times, seed = (int(text) for text in (sys.argv[1:] + ["200", "1"][len(sys.argv) - 1:])[:2])
    results = [once(seed * 10_000 + index) for index in range(times)]
    kept, lost, ages = (list(column) for column in zip(*results))
    ages.sort()
    print(f"{times} lost disks: {sum(kept)} writes kept, {sum(lost)} lost; the newest state was "
          f"{ages[len(ages) // 2]:.2f} s (median) and at most {ages[-1]:.2f} s before the end")


if __name__ == "__main__":
    main()
