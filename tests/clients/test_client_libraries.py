"""`plimsoll run clients`: libraries and tools in turns, and the number of their requests."""

import csv
import json
import subprocess
import sys

import pytest
from support import PLIMSOLL, Server, environment
from test_tiers import client

OWN = """
import json, sys, urllib.request
job = json.load(open(sys.argv[1]))
json.dump({"wall_ns": 1000000, "cpu_ns": 1000, "latencies_ns": [1000] * (len(job["keys"]) + %d)}, open(sys.argv[2], "w"))
"""


def run(server, out, *flags):
    python = [] if "--python" in flags else ["--python", sys.executable]
    command = [PLIMSOLL, "run", "clients", "--store", f"s3://bench/some?endpoint={server.url}", "--create-bucket", *python,
               "--objects", "40", "--rounds", "2", "--concurrency", "4", "--out", str(out), *flags]
    return subprocess.run(command, env=environment(), capture_output=True, text=True)


@pytest.mark.parametrize("size", ["1KiB", "300KiB"])
def test_requests_per_operation_equal_those_of_the_servers_log(tmp_path, size):
    log = tmp_path / "log.csv"
    names = ["boto3", "awscrt", "obstore", "s5cmd"]
    with Server("--timings", str(log)) as server:
        done = run(server, tmp_path / "runs", "--clients", ",".join(names), "--size", size, "--json")
        assert done.returncode == 0, done.stderr
        assert client(server).list_objects_v2(Bucket="bench")["KeyCount"] == 0, "its objects are deleted"
    rounds = json.loads(done.stdout)["clients"]
    assert [r["client"] for r in rounds if (r["operation"], r["round"]) == ("put", 0)] == ["plimsoll", *names]
    # Every round of a client sends what the counted one sent: two measured rounds and the counted one.
    expected = {"put": 0, "get": 0}
    for one in (r for r in rounds if r["round"] == 0):
        requests, wanted = one["requests"], {"put": "PutObject", "get": "GetObject"}[one["operation"]]
        assert requests[wanted] >= 40, one
        expected[one["operation"]] += 3 * requests[wanted]
    with open(log) as file:
        methods = [row["method"] for row in csv.DictReader(file) if int(row["bytes"]) >= 1024]
    assert methods.count("PUT") == expected["put"], (methods.count("PUT"), expected)
    assert methods.count("GET") >= expected["get"], (methods.count("GET"), expected)
    for one in rounds:
        assert one["wall_s"] > 0 and one["operations"] == 40 and one["version"], one
        assert (one["p50_ms"] is None) == (one["client"] == "s5cmd"), one


def test_the_answer_and_the_tables_name_all_clients(tmp_path):
    (tmp_path / "own.py").write_text(OWN % 0)
    with Server() as server:
        done = run(server, tmp_path / "runs", "--clients", "boto3", "--program", f"own={sys.executable} {tmp_path}/own.py",
                   "--no-requests")
        assert done.returncode == 0, done.stderr
    first = done.stdout.splitlines()[0]
    # The program of the test sends nothing, and claims a millisecond. Two rounds may not show by how much that is faster.
    assert first.startswith("put: own ") and "40,000" in first, first
    assert done.stdout.count("boto3 ") >= 2 and "CPU us" in done.stdout, done.stdout
    one = str(next((tmp_path / "runs").iterdir()))
    shown = subprocess.run([PLIMSOLL, "show", one], capture_output=True, text=True)
    assert shown.returncode == 0 and first in shown.stdout and "CPU us" in shown.stdout, shown
    report = subprocess.run([PLIMSOLL, "report", one], capture_output=True, text=True)
    with open(report.stdout.strip()) as page:
        assert "put: own " in page.read(), report


def test_clients_that_fail_or_are_absent_are_named(tmp_path):
    (tmp_path / "wrong.py").write_text(OWN % 1)
    (tmp_path / "endless.py").write_text((OWN % 0).replace("1000000,", "10 ** 15,"))
    with Server() as server:
        for flags, code, message in [
            (["--clients", "boto2"], 2, "unknown client; use boto3"),
            (["--clients", "boto3", "--python", "/nothing"], 2, "--python /nothing: No such file"),
            (["--clients", "boto3", "--program", "boto3=true"], 2, "another client has this name"),
            (["--clients", "boto3", "--program", "x=false"], 3, "x, put: exit status: 1"),
            (["--clients", "boto3", "--program", "x=true"], 3, "it wrote no times"),
            (["--clients", "boto3", "--program", f"x={sys.executable} {tmp_path}/wrong.py"], 3, "it timed 41 of 40 operations"),
            (["--clients", "boto3", "--program", f"x={sys.executable} {tmp_path}/endless.py"], 3, "its times are impossible"),
            (["--clients", "boto3", "--size", "0"], 2, "--size 0: must be from 1B to 5GiB"),
        ]:
            done = run(server, tmp_path / "runs", *flags)
            assert done.returncode == code and message in done.stderr, (flags, done)
            assert client(server).list_objects_v2(Bucket="bench").get("KeyCount", 0) == 0 if code == 3 else True
