#!/usr/bin/env python3
"""Starts gateways with wrong clocks, and lets clocks jump while a gateway leads: nothing may move, expire or be deleted
early, and clients of the other gateways must see no error.

Usage: python3 benches/wrong_clocks.py [--cases 100]. Needs PostgreSQL and faketime, and the debug build of the gateway.
Objects are written by the right clock. A rule moves them after 20 days, a lifecycle rule expires them after 30, and
deleted ones are kept for a day. Cases differ in the offset, in the catalog (a directory or PostgreSQL), and in the moment:
from the start, or while the gateway leads.
"""
import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "clients"))
from postgres import Postgres  # noqa: E402
from support import GATEWAY, Server  # noqa: E402
from test_postgres import FAKE_TIME  # noqa: E402
from test_tiers import BLOB, client, files, rule, settings, wait  # noqa: E402

DAY = 86400
OFFSETS = [-DAY, -3600, 60, 40 * DAY, 3650 * DAY]


def metric(server, name):
    text = urllib.request.urlopen(server.metrics).read().decode()
    found = re.search(rf"^plimsoll_gateway_{name}(?:{{.*}})? (\S+)$", text, re.M)
    return float(found[1]) if found else None


def start(path, clock=None):
    """Starts a gateway whose clock is that of a file, if one is given."""
    faked = [] if clock is None else ["env", f"LD_PRELOAD={FAKE_TIME[0]}", f"FAKETIME_TIMESTAMP_FILE={clock}",
                                      "FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1"]
    return Server(path, "--move-every", "50ms", "--metrics-listen", "127.0.0.1:0", command=(*faked, GATEWAY, "run"))


def is_wrong(server):
    text = urllib.request.urlopen(server.metrics.replace("/metrics", "/readyz")).read().decode()
    return "the clock is in doubt" in text


def case(directory, database, offset, steps):
    """Executes one case. Returns a problem, or None."""
    directory = Path(directory)
    path = settings(directory, moves=rule(when="age > 20d"), retain="1d")
    if database:
        text = Path(path).read_text()
        Path(path).write_text(text.replace(f"dir:{directory}/catalog", database.url))
        database.query("DROP TABLE IF EXISTS plimsoll_catalog")
    clock = directory / "clock"

    def set_clock(ahead):
        (directory / "clock.new").write_text(f"{ahead:+d}\n")
        (directory / "clock.new").rename(clock)

    set_clock(0 if steps else offset)
    errors = []
    with start(path) as right:
        s3 = client(right)
        s3.create_bucket(Bucket="bucket")
        for key in ("a", "b", "gone"):
            s3.put_object(Bucket="bucket", Key=key, Body=os.urandom(BLOB))
        s3.put_bucket_lifecycle_configuration(Bucket="bucket", LifecycleConfiguration={"Rules": [
            {"ID": "old", "Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 30}}]})
        s3.delete_object(Bucket="bucket", Key="gone")
        # The first record of the owner has the time of the last use.
        wait(lambda: '"position": 0' not in (directory / "hot" / "plimsoll-owner.json").read_text(), "no record")
        before = (files(directory, "hot"), files(directory, "cold"))

        def read():
            try:
                assert len(s3.get_object(Bucket="bucket", Key="a")["Body"].read()) == BLOB
                s3.put_object(Bucket="bucket", Key="other", Body=b"inline")
            except Exception as error:  # noqa: BLE001
                errors.append(str(error))

        if not database:
            right.process.terminate()
            right.process.wait()
            right = None
        wrong = start(path, clock)
        if steps:
            if database:
                # The wrong gateway leads when the other one ends.
                right.process.terminate()
                right.process.wait()
                right = None
            wait(lambda: metric(wrong, "leader") == 1, "the gateway does not lead")
            set_clock(offset)
        wait(lambda: is_wrong(wrong), "the clock is trusted")
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            if right:
                read()
            time.sleep(0.1)
        after = (files(directory, "hot"), files(directory, "cold"))
        wrong.process.terminate()
        wrong.process.wait()
    if after != before:
        return f"the tiers have changed: {before} {after}"
    with start(path) as last:
        kept = sorted(one["Key"] for one in client(last).list_objects_v2(Bucket="bucket")["Contents"])
    if not {"a", "b"} <= set(kept):
        return f"objects have expired: {kept}"
    return errors[0] if errors else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=100)
    cases = parser.parse_args().cases
    kinds = [(kind, offset, steps) for steps in (False, True) for offset in OFFSETS for kind in ("directory", "postgres")]
    failed = 0
    with Postgres() as database:
        for number in range(cases):
            kind, offset, steps = kinds[number % len(kinds)]
            # A directory that was used an hour ago says nothing about an hour or a minute at a start.
            if kind == "directory" and not steps and 0 < offset < DAY:
                offset = 40 * DAY + random.randrange(DAY)
            jitter = random.randrange(5) if offset > 0 else 0
            with tempfile.TemporaryDirectory() as directory:
                problem = case(directory, database if kind == "postgres" else None, offset + jitter, steps)
            failed += problem is not None
            print(f"{number + 1:3} {kind:9} {offset:+11} s {'while it leads' if steps else 'from the start'}: "
                  f"{problem or 'nothing was moved, expired or deleted'}", flush=True)
    print(f"{cases} cases, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
