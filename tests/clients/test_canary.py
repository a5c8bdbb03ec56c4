"""`plimsoll run canary`: an outage of the store, a restart, and metrics that a real Prometheus understands."""

import json
import re
import signal
import subprocess
import urllib.request

from support import PLIMSOLL, Server, environment, free_port
from test_tiers import client


def start(store, directory, *flags, every="20ms"):
    return subprocess.Popen([PLIMSOLL, "run", "canary", "--store", store, "--every", every, "--timeout", "1s",
                             "--dir", str(directory), *flags], env=environment(), stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def read_until(canary, text):
    for line in canary.stderr:
        if text in line:
            return line
    raise AssertionError(f"the canary ended without '{text}'")


def failed(metrics):
    """Returns the number of failed operations."""
    text = urllib.request.urlopen(metrics).read().decode()
    return sum(int(n) for n in re.findall(r"^plimsoll_failed_operations_total\{.*\} (\d+)$", text, re.M))


def stop(canary):
    canary.send_signal(signal.SIGINT)
    out, errors = canary.communicate()
    assert canary.returncode == 0, errors
    return out


def history(directory):
    done = subprocess.run([PLIMSOLL, "run", "canary", "--show", "--json", "--dir", str(directory)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_an_outage_is_told_measured_and_survived(tmp_path):
    address = f"127.0.0.1:{free_port()}"
    # The store is absent when the canary starts.
    canary = start(f"s3://canary?endpoint=http://{address}", tmp_path, "--metrics-listen", "127.0.0.1:0")
    metrics = re.search(r"http://\S+", read_until(canary, "metrics on")).group()
    read_until(canary, "put failed: connect")
    for _ in range(2):
        with Server(listen=address) as server:
            client(server).create_bucket(Bucket="canary")
            read_until(canary, "all operations succeed again")
        read_until(canary, "failed: ")
        # One failed operation is no outage.
        before = failed(metrics)
        while failed(metrics) < before + 2:
            pass
    with Server(listen=address) as server:
        client(server).create_bucket(Bucket="canary")
        read_until(canary, "all operations succeed again")
        text = urllib.request.urlopen(metrics).read().decode()
        store = f's3://canary?endpoint=http://{address}'
        assert f'plimsoll_failed_operations_total{{store="{store}",phase="canary",role="measure",operation="put",' in text
        assert re.search(r'plimsoll_operations_total\{[^}]*phase="canary"[^}]*operation="put"\} [1-9]', text)
        assert "operations failed; today: " in stop(canary)
        assert client(server).list_objects_v2(Bucket="canary")["KeyCount"] == 0, "its object is deleted"
    day = history(tmp_path)[-1]
    assert day["outage_count"] >= 1 and all(outage["operations"] >= 2 for outage in day["outages"]), day
    assert day["outages"][0]["first"].startswith("connect: ")


def test_a_day_is_continued_after_a_restart_and_a_limited_canary_is_a_check(tmp_path):
    with Server() as server:
        client(server).create_bucket(Bucket="canary")
        store = f"s3://canary?endpoint={server.url}"
        for operations in (30, 60):
            canary = start(store, tmp_path / "days", "--operations", "30", every="1ms")
            out, errors = canary.communicate()
            assert canary.returncode == 0 and out.startswith("0 of 30 operations failed"), errors
            assert sum(one["operations"] for day in history(tmp_path / "days") for one in day["operations"].values()) == operations
        shown = subprocess.run([PLIMSOLL, "run", "canary", "--show", "--dir", str(tmp_path / "days")], capture_output=True, text=True)
        assert "get p99 ms" in shown.stdout and store in shown.stdout, shown.stdout
        first = start(store, tmp_path / "busy")
        read_until(first, "one operation every")
        second = start(store, tmp_path / "busy")
        assert second.wait() == 2 and "another canary uses this directory" in second.stderr.read()
        stop(first)
    gone = start(store, tmp_path / "gone", "--operations", "3", "--quiet", every="1ms")
    _, errors = gone.communicate()
    assert gone.returncode == 1 and errors.count("\n") == 1 and "3 of 3 operations failed" in errors, errors
