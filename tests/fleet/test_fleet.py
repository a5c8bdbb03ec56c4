"""Fleets of eight nodes on real engines: Slurm's daemons and Ray, with two stores.

The merged result must match the operation logs of all nodes, the nodes must start together, and a killed node must cost
its share of the load and nothing else.
"""
import glob
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import pytest

from nodes import NETWORK, NODES, PLIMSOLL, ROOT, ray_cluster, slurm
from support import Server, environment

EXPERIMENT = """
name = "fleet"
order = "interleaved"
block = "5s"

[[phase]]
name = "objects"
role = "prepare"
operations = { put = 1 }
objects = { count = 80, size = "2 KiB" }

[[phase]]
name = "read"
operations = { get = 3, put = 1 }
objects = { from = "objects" }
rate = "400/s"
in_flight = 64
duration = "10s"
"""
OPERATIONS = 2 * 10 * 400


class Fleet:
    """Runs fleets on one engine against two servers."""

    def __init__(self, on, env, wrap, host, out):
        self.on, self.env, self.wrap, self.host, self.out = on, env, wrap, host, str(out)

    def start(self, first, second):
        file = os.path.join(self.out, "fleet.toml")
        with open(file, "w") as out:
            out.write(EXPERIMENT)
        urls = [f"s3://bucket/p?endpoint=http://{self.host}:{s.url.rsplit(':', 1)[1]}" for s in (first, second)]
        stores = [argument for url in urls for argument in ("--store", url)]
        command = [PLIMSOLL, "fleet", "run", file, *self.on, *stores, "--create-bucket", "--record-operations",
                   "--forward-credentials", "--json", "--out", os.path.join(self.out, "runs")]
        env = {**environment(), **self.env}
        return subprocess.Popen([*self.wrap, *command], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True)

    def local(self, out):
        """Returns the same fleet with local processes as nodes."""
        return Fleet(["--on", f"local:{NODES}"], self.env, self.wrap, self.host, out)

    def runs(self):
        return sorted(glob.glob(os.path.join(self.out, "runs", "fleet-*", "*")))


@pytest.fixture(scope="module", params=["slurm", "ray"])
def engine(request):
    """Yields a function that returns a fleet with a directory for its results."""
    root = tempfile.mkdtemp(prefix="plf")
    try:
        if request.param == "slurm":
            if not shutil.which("slurmctld") or os.geteuid() != 0:
                pytest.skip("slurmctld is not installed, or this is not root")
            with slurm(root) as env:
                wrap = ["salloc", "--quiet", f"--nodes={NODES}", "--"]
                yield lambda out: Fleet(["--on", "slurm"], env, wrap, "127.0.0.1", out)
        else:
            python = os.environ.get("PLIMSOLL_RAY_PYTHON", sys.executable)
            if subprocess.run([python, "-c", "import ray"], capture_output=True).returncode or os.geteuid() != 0:
                pytest.skip("Ray is not installed for this Python, or this is not root")
            with ray_cluster(python, root) as address:
                env = {"PLIMSOLL_PYTHON": python, "PYTHONPATH": os.path.join(ROOT, "python"), "PLIMSOLL_BIN": PLIMSOLL,
                       "RAY_ADDRESS": address, "RAY_USAGE_STATS_ENABLED": "0"}
                # The driver runs in the namespace of the head, as on a head node.
                wrap = ["ip", "netns", "exec", "plfleet0"]
                yield lambda out: Fleet(["--on", "ray", "--nodes", str(NODES)], env, wrap, f"{NETWORK}.1", out)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def server(fleet, latency):
    return Server("--inject", f"latency={latency}", listen=f"{fleet.host}:0")


def service_us(run):
    """Returns the service times of a node's log in microseconds, by store and kind, and the number of operations that a
    machine without a free core has never started."""
    import polars

    frame = polars.read_ipc_stream(os.path.join(run, "operations.arrows"))
    times, waiting = {}, 0
    for row in frame.filter(polars.col("phase").cast(str) == "read").iter_rows(named=True):
        if row["start_ns"] is None:
            waiting += 1
            continue
        key = (str(row["store"]), str(row["operation"]))
        times.setdefault(key, []).append((row["end_ns"] - row["start_ns"] + 500) // 1000)
    return times, waiting


def timed(fleet):
    """Runs a fleet against two servers. Returns its standard output, and its duration in seconds."""
    with server(fleet, "1ms") as first, server(fleet, "2ms") as second:
        began = time.monotonic()
        process = fleet.start(first, second)
        stdout, stderr = process.communicate(timeout=300)
        took = time.monotonic() - began
    assert process.returncode == 0, stderr
    return stdout, took


def test_merged_percentiles_equal_the_logs_and_nodes_start_together(engine, tmp_path):
    fleet = engine(tmp_path)
    stdout, took = timed(fleet)
    (tmp_path / "local").mkdir()
    _, local = timed(fleet.local(tmp_path / "local"))
    result = json.loads(stdout)
    # On a machine that pauses, the measured offset of a clock may be wrong by more than the offset that is reported.
    degraded = result["run"].get("degraded")
    assert degraded is None or degraded.startswith("a host's clock differs") and ";" not in degraded, degraded
    measured = [w for w in result["windows"] if w["phase"] == "read"]
    assert sum(w["operations"] for w in measured) == OPERATIONS
    logged, unstarted = {}, 0
    for run in fleet.runs():
        times_of_node, waiting = service_us(run)
        unstarted += waiting
        for key, times in times_of_node.items():
            logged.setdefault(key, []).extend(times)
    assert len(fleet.runs()) == NODES
    assert sum(map(len, logged.values())) + unstarted == OPERATIONS
    planned = max(w["start_unix_s"] + w["window_s"] for w in measured) - min(w["start_unix_s"] for w in measured)
    print(f"\n{' '.join(fleet.on)}: {start_skew_ms(fleet.runs()):.2f} ms between the first and the last start, "
          f"{took - planned:.2f} s beyond the {planned:.1f} s of the measurement, "
          f"{took - local:.2f} s beyond a fleet of local processes")
    check_percentiles(result, logged)


def start_skew_ms(runs):
    """Returns the time between the first and the last node's start. All nodes share the host's monotonic clock."""
    import polars

    starts = []
    for run in runs:
        frame = polars.read_ipc_stream(os.path.join(run, "operations.arrows"))
        frame = frame.filter((polars.col("phase").cast(str) == "read") & (polars.col("start_ns") > 0))
        first = frame.sort("intended_ns").row(0, named=True)
        # Operation n is intended n / rate after the start of its block.
        offset_ns = first["number"] % (400 * 5) * 1_000_000_000 // 400
        starts.append(first["start_ns"] - offset_ns)
    return (max(starts) - min(starts)) / 1e6


def check_percentiles(result, logged):
    """Checks the p50 and p99 of each store and kind, over all blocks, against the sorted log."""
    sys.path.insert(0, os.path.join(ROOT, "python"))
    from plimsoll._histogram import Histogram

    groups = {}
    for window in result["windows"]:
        if window["phase"] == "read":
            groups.setdefault((window["store"], window["operation"]), []).append(window)
    assert set(groups) == set(logged)
    for key, windows in groups.items():
        merged = Histogram.merge(Histogram.decode(w["histograms"]["service"]) for w in windows)
        times = sorted(logged[key])
        for share in (0.5, 0.9, 0.99):
            exact = times[math.ceil(len(times) * share) - 1] / 1000
            got = merged.quantile(share)
            assert abs(got - exact) <= max(exact / 1000, 0.002), f"{key} p{100 * share}: {got} ms, log {exact} ms"


def test_a_killed_node_costs_its_share_and_nothing_else(engine, tmp_path):
    fleet = engine(tmp_path)
    with server(fleet, "1ms") as first, server(fleet, "2ms") as second:
        process = fleet.start(first, second)
        for line in process.stderr:
            if line.startswith("read: "):
                break
        victims = subprocess.run(["pgrep", "-f", f"fleet node --shard 3/{NODES}"], capture_output=True, text=True)
        program = os.path.realpath(PLIMSOLL)
        victims = [int(pid) for pid in victims.stdout.split() if os.path.realpath(f"/proc/{pid}/exe") == program]
        assert len(victims) == 1, victims
        os.kill(victims[0], signal.SIGKILL)
        stdout, stderr = process.communicate(timeout=300)
    assert process.returncode == 1, stderr
    result = json.loads(stdout)
    assert f"shard 3 of {NODES} is missing" in result["run"]["degraded"], result["run"]["degraded"]
    measured = [w for w in result["windows"] if w["phase"] == "read"]
    assert sum(w["operations"] for w in measured) == OPERATIONS * (NODES - 1) // NODES
    assert sum(sum(w["errors"].values()) for w in measured) == 0
