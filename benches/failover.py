#!/usr/bin/env python3
"""Loses the machine of the gateway that leads under load, and measures until a standby serves.

    python3 benches/failover.py [TIMES] [DURABILITY] [LEASE]

Each time, a new standby copies the catalog, four clients write, overwrite and delete, the gateway that leads is killed, and its directory is deleted. Prints the time between the end of the lease and the first write that the standby accepts, and what was lost. The lease ends at the latest LEASE after the kill, so the time is an upper bound. With `tier`, nothing may be lost; with `local`, what was acknowledged in the last second may be. Needs boto3; PLIMSOLL and GATEWAY name the binaries.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
os.environ.setdefault("PLIMSOLL", os.path.join(ROOT, "target/release/plimsoll"))
os.environ.setdefault("GATEWAY", os.path.join(ROOT, "target/release/plimsoll-gateway"))
sys.path.insert(0, os.path.join(ROOT, "tests", "clients"))
from support import GATEWAY, Server
from test_backup import client
from test_journal import Writers, body, gateway, lose, object_store, settings
from test_standby import place, serves
from test_tiers import wait


def seconds(text):
    return float(re.fullmatch(r"([\d.]+)s", text)[1])


def main():
    arguments = sys.argv[1:] + ["20", "tier", "2s"][len(sys.argv) - 1:]
    times, durability, lease = int(arguments[0]), arguments[1], arguments[2]
    directory = pathlib.Path(tempfile.mkdtemp(prefix="failover"))
    expected, took, lost = {}, [], 0
    with object_store() as store:
        server = gateway(settings(directory / "0", store, durability=durability, lease=lease))
        client(server).create_bucket(Bucket="bucket")
        for turn in range(times):
            file = settings(directory / str(turn + 1), store, durability=durability, lease=lease)
            standby = Server("--follow", place(store), command=(GATEWAY, "run", file))
            client(server).put_object(Bucket="bucket", Key="marker", Body=str(turn).encode())
            words = [GATEWAY, "where", file, "--object", "bucket/marker"]
            wait(lambda: subprocess.run(words, capture_output=True).returncode == 0, "the standby has the catalog")
            writers = Writers(server.url, turn, expected)
            began = time.time()
            wait(lambda: time.time() - began > 3, "the clients write")
            lose(server)
            killed = time.time()
            wait(lambda: serves(standby), "the standby serves")
            took.append(time.time() - killed - seconds(lease))
            writers.join()
            shutil.rmtree(directory / str(turn))
            s3 = client(standby)
            for key, bodies in expected.items():
                found = body(s3, key)
                if found not in bodies:
                    lost += 1
                expected[key] = [found]
            server = standby
            print(f"turn {turn + 1}: {took[-1]:.2f} s after the lease; {lost} of {len(expected)} keys differ so far", flush=True)
        server.process.terminate()
        server.process.wait()
    shutil.rmtree(directory)
    took.sort()
    print(f"{times} machines lost with durability {durability}: the standby served {took[len(took) // 2]:.2f} s (median) and at most "
          f"{took[-1]:.2f} s after the end of the lease; {lost} keys had another state than the last acknowledged one")


if __name__ == "__main__":
    main()
