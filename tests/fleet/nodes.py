"""Engines for the tests of fleets: Slurm's daemons on one host, and Ray nodes in network namespaces."""
import contextlib
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "clients"))
from support import PLIMSOLL, ROOT, free_port  # noqa: E402, F401

NODES = 8
# Bridge of the namespaces, and the addresses in it.
BRIDGE, NETWORK = "plfleet", "10.213.9"
# Name of a namespace that ``ip netns`` accepts.
SPACE = "plfleet{}"


def wait_for(condition, what, seconds=60):
    """Polls until a condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} after {seconds} s"
        time.sleep(0.1)


SLURM = """ClusterName=plimsoll
SlurmctldHost=localhost
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={root}/munge.socket
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool.%n
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd.%n.pid
SlurmctldLogFile={root}/slurmctld.log
SlurmdLogFile={root}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SwitchType=switch/none
MpiDefault=none
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


@contextlib.contextmanager
def slurm(root):
    """Runs Slurm's controller and one daemon for each node; yields the environment of its commands."""
    root = str(root)
    names = [f"n{i + 1}" for i in range(NODES)]
    node = "NodeName={} NodeHostname=localhost NodeAddr=127.0.0.1 Port={} CPUs={} State=UNKNOWN"
    nodes = "\n".join(node.format(name, free_port(), os.cpu_count()) for name in names)
    with open(f"{root}/slurm.conf", "w") as file:
        file.write(SLURM.format(port=free_port(), root=root, nodes=nodes))
    os.mkdir(f"{root}/state")
    key = f"{root}/munge.key"
    with open(key, "wb") as file:
        file.write(os.urandom(128))
    os.chmod(key, 0o400)
    munge = ["munged", "--foreground", "--force", f"--key-file={key}", f"--socket={root}/munge.socket",
             f"--pid-file={root}/munged.pid", f"--log-file={root}/munged.log", f"--seed-file={root}/munge.seed"]
    env = {**os.environ, "SLURM_CONF": f"{root}/slurm.conf"}
    started = [subprocess.Popen(munge)]
    try:
        wait_for(lambda: os.path.exists(f"{root}/munge.socket"), "munged does not listen")
        started.append(subprocess.Popen(["slurmctld", "-D", "-f", f"{root}/slurm.conf"], stderr=subprocess.DEVNULL))
        for name in names:
            os.mkdir(f"{root}/spool.{name}")
            command = ["slurmd", "-D", "-N", name, "-f", f"{root}/slurm.conf"]
            started.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
        idle = ["sinfo", "--noheader", "--states=idle", "--format=%D"]
        wait_for(lambda: subprocess.run(idle, env=env, capture_output=True, text=True).stdout.strip() == str(NODES),
                 "Slurm's nodes are not idle")
        yield env
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(timeout=30)


def ip(command):
    """Runs an ``ip`` command."""
    subprocess.run(["ip", *command.split()], check=True)


@contextlib.contextmanager
def namespaces():
    """Creates a bridge and one network namespace for each node, and deletes them afterwards."""
    try:
        ip(f"link add {BRIDGE} type bridge")
        ip(f"addr add {NETWORK}.1/24 dev {BRIDGE}")
        ip(f"link set {BRIDGE} up")
        for node in range(NODES):
            space, outer, inner = SPACE.format(node), f"plfo{node}", f"plfi{node}"
            ip(f"netns add {space}")
            ip(f"link add {outer} type veth peer name {inner}")
            ip(f"link set {inner} netns {space}")
            ip(f"link set {outer} master {BRIDGE} up")
            ip(f"-n {space} addr add {NETWORK}.{node + 2}/24 dev {inner}")
            ip(f"-n {space} link set {inner} up")
            ip(f"-n {space} link set lo up")
        yield
    finally:
        for node in range(NODES):
            # The kernel removes the links of a deleted namespace later, and their names may be needed before.
            subprocess.run(["ip", "link", "delete", f"plfo{node}"], stderr=subprocess.DEVNULL)
            subprocess.run(["ip", "netns", "delete", SPACE.format(node)], stderr=subprocess.DEVNULL)
        subprocess.run(["ip", "link", "delete", BRIDGE], stderr=subprocess.DEVNULL)


@contextlib.contextmanager
def ray_cluster(python, root):
    """Runs a Ray cluster of one raylet in each namespace; yields its address. The head runs in the first namespace."""
    ray = os.path.join(os.path.dirname(python), "ray")
    env = {**os.environ, "RAY_DISABLE_IMPORT_WARNING": "1", "RAY_USAGE_STATS_ENABLED": "0", "PLIMSOLL_BIN": PLIMSOLL,
           "PYTHONPATH": os.path.join(ROOT, "python")}
    common = ["--num-cpus=2", "--disable-usage-stats", "--object-store-memory=80000000"]
    with namespaces():
        try:
            # One after the other: raylets that start at the same time on one host take each other's ports.
            for node in range(NODES):
                role = ["--head", "--port=6379", "--include-dashboard=false", f"--temp-dir={root}"]
                role = role if node == 0 else [f"--address={NETWORK}.2:6379"]
                command = ["ip", "netns", "exec", SPACE.format(node), ray, "start", *role, *common,
                           f"--node-ip-address={NETWORK}.{node + 2}"]
                subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            yield f"{NETWORK}.2:6379"
        finally:
            for node in range(NODES):
                pids = subprocess.run(["ip", "netns", "pids", SPACE.format(node)], capture_output=True, text=True)
                for pid in pids.stdout.split():
                    subprocess.run(["kill", "-9", pid], stderr=subprocess.DEVNULL)
