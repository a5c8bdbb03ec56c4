#!/usr/bin/env python3
"""Separates two gateways of one catalog from their place, stops them and changes their clocks, and checks what clients see.

    python3 benches/partition.py [--cases 500] [--setups 4] [--seed 1]

A setup is a store and two gateways with `durability = "tier"`, `lease = "2s"` and `--follow`, each in a separate network
namespace. A proxy sends each request of the clients to one of the gateways. In each case, the gateway that leads is
stopped, or packets between one gateway and the store are dropped in one direction or both, for half a lease up to two and
a half; in half of the cases, clocks jump as well. Meanwhile `plimsoll run consistency` checks that the two gateways are
one linearizable store, and four clients write keys of their own, which must have their last acknowledged state afterwards.

Needs root, iproute2, iptables, faketime and boto3. PLIMSOLL and GATEWAY name the binaries.
"""
import argparse
import asyncio
import collections
import contextlib
import glob
import itertools
import json
import multiprocessing
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
os.environ.setdefault("PLIMSOLL", os.path.join(ROOT, "target/release/plimsoll"))
os.environ.setdefault("GATEWAY", os.path.join(ROOT, "target/release/plimsoll-gateway"))
sys.path.insert(0, os.path.join(ROOT, "tests", "clients"))
import boto3  # noqa: E402
from botocore.config import Config  # noqa: E402
from botocore.exceptions import BotoCoreError, ClientError  # noqa: E402

from support import ACCESS, GATEWAY, PLIMSOLL, SECRET, Server, environment  # noqa: E402
from test_backup import client  # noqa: E402
from test_journal import body, settings  # noqa: E402
from test_standby import place, serves  # noqa: E402

LEASE = 2.0
FAULTS = ["stop", "partition of the leader", "requests of the leader lost", "answers to the leader lost",
          "partition of the standby"]
OFFSETS = [-86_400, -600, -60, -3, 3, 60, 600, 86_400]
FAKE_TIME = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")


def wait(ready, what, seconds=60):
    limit = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > limit:
            raise TimeoutError(what)
        time.sleep(0.1)


class Machine:
    """A network namespace with one address, which is connected to the others by a bridge."""

    def __init__(self, network, number):
        self.name, self.address = f"{network}-{number}", f"10.77.{network.removeprefix('plim')}.{number + 2}"
        run("ip", "netns", "add", self.name)
        run("ip", "link", "add", self.name, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        run("ip", "link", "set", self.name, "master", network, "up")
        self.run("ip", "link", "set", "lo", "up")
        self.run("ip", "address", "add", f"{self.address}/24", "dev", "eth0")
        self.run("ip", "link", "set", "eth0", "up")

    def run(self, *words):
        run("ip", "netns", "exec", self.name, *words)

    def command(self, *words):
        return ("ip", "netns", "exec", self.name, *words)

    def lose(self, *chains, other):
        """Drops packets to (`OUTPUT`) or from (`INPUT`) another machine."""
        for chain in chains:
            self.run("iptables", "-A", chain, "-d" if chain == "OUTPUT" else "-s", other.address, "-j", "DROP")

    def heal(self):
        self.run("iptables", "-F")


def run(*words):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


@contextlib.contextmanager
def network(number):
    """Yields three machines on one bridge, and removes them at the end."""
    name = f"plim{number}"
    for machine in range(3):
        subprocess.run(["ip", "netns", "delete", f"{name}-{machine}"], stderr=subprocess.DEVNULL)
    subprocess.run(["ip", "link", "delete", name], stderr=subprocess.DEVNULL)
    run("ip", "link", "add", name, "type", "bridge")
    run("ip", "address", "add", f"10.77.{number}.1/24", "dev", name)
    run("ip", "link", "set", name, "up")
    try:
        yield [Machine(name, machine) for machine in range(3)]
    finally:
        for machine in range(3):
            run("ip", "netns", "delete", f"{name}-{machine}")
        run("ip", "link", "delete", name)


class Gateway:
    """A gateway that leads or follows. Its clock is that of a file."""

    def __init__(self, machine, directory, store, is_first):
        directory.mkdir()
        self.machine, self.clock = machine, directory / "clock"
        self.set_clock(0)
        faked = ["env", f"LD_PRELOAD={FAKE_TIME[0]}", f"FAKETIME_TIMESTAMP_FILE={self.clock}", "FAKETIME_NO_CACHE=1",
                 "FAKETIME_DONT_FAKE_MONOTONIC=1"]
        command = machine.command(*faked, GATEWAY, "run", settings(directory, store))
        if is_first:
            with Server(command=command, listen=f"{machine.address}:9000") as server:
                client(server).create_bucket(Bucket="bucket")
        self.server = Server("--follow", place(store), command=command, listen=f"{machine.address}:9000")
        self.url, self.process = self.server.url, self.server.process

    def set_clock(self, offset):
        new = self.clock.with_suffix(".new")
        new.write_text(f"{offset:+d}\n")
        new.rename(self.clock)


class Proxy:
    """Sends each request to one of the gateways: to the one before, to another one after a 503, and at times to any."""

    def __init__(self, targets, seed):
        self.targets, self.choose, self.loop = targets, random.Random(seed), asyncio.new_event_loop()
        self.served, ready = collections.Counter(), threading.Event()

        def main():
            asyncio.set_event_loop(self.loop)
            server = self.loop.run_until_complete(asyncio.start_server(self.serve, "127.0.0.1", 0))
            self.url = "http://127.0.0.1:%d" % server.sockets[0].getsockname()[1]
            ready.set()
            self.loop.run_forever()

        threading.Thread(target=main, daemon=True).start()
        ready.wait()

    async def serve(self, reader, writer):
        upstream, target = {}, self.choose.randrange(len(self.targets))
        # Clients send one request at a time, so bytes of a client after bytes of a gateway begin a new one.
        answered = asyncio.Event()
        answered.set()

        async def answers(number, source):
            nonlocal target
            while data := await source.read(1 << 16):
                if not answered.is_set():
                    answered.set()
                    if data.startswith(b"HTTP/1.1 503"):
                        target = 1 - number
                    elif data.startswith(b"HTTP/1.1 200"):
                        self.served[number] += 1
                writer.write(data)
            writer.close()

        tasks = []
        try:
            while data := await reader.read(1 << 16):
                if answered.is_set():
                    answered.clear()
                    if self.choose.random() < 0.1:
                        target = self.choose.randrange(len(self.targets))
                if target not in upstream:
                    source, upstream[target] = await asyncio.open_connection(*self.targets[target])
                    tasks.append(asyncio.ensure_future(answers(target, source)))
                upstream[target].write(data)
        except OSError:
            pass
        finally:
            writer.close()
            for task in tasks:
                task.cancel()
            for sink in upstream.values():
                sink.close()


class Owners:
    """Clients that write keys which nobody else writes. A key whose state is unknown after an error is left."""

    def __init__(self, url, seed):
        self.states, self.unknown, self.is_stopped = {}, 0, False
        self.threads = [threading.Thread(target=self.run, args=(url, f"{seed}/{number}")) for number in range(2)]
        [thread.start() for thread in self.threads]

    def run(self, url, name):
        choose, key = random.Random(name), itertools.count()
        s3 = boto3.client("s3", endpoint_url=url, region_name="us-east-1", aws_access_key_id=ACCESS,
                          aws_secret_access_key=SECRET,
                          config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1},
                                        read_timeout=3))
        keys = [f"{name}/{next(key)}" for _ in range(10)]
        while not self.is_stopped:
            index = choose.randrange(len(keys))
            written = None if choose.random() < 0.2 else choose.randbytes(choose.choice([10, 3000, 60_000]))
            try:
                if written is None:
                    s3.delete_object(Bucket="bucket", Key=keys[index])
                else:
                    s3.put_object(Bucket="bucket", Key=keys[index], Body=written)
                self.states[keys[index]] = written
            except (ClientError, BotoCoreError):
                self.states.pop(keys[index], None)
                self.unknown += 1
                keys[index] = f"{name}/{next(key)}"

    def stop(self):
        self.is_stopped = True
        [thread.join() for thread in self.threads]


class Setup:
    def __init__(self, number, machines, directory):
        self.store_machine, *machines = machines
        self.store = Server("--quiet", command=self.store_machine.command(PLIMSOLL, "serve",),
                            listen=f"{self.store_machine.address}:9000")
        for bucket in ["hot", "place"]:
            client(self.store).create_bucket(Bucket=bucket)
        self.gateways = [Gateway(machine, directory / str(index), self.store, index == 0)
                         for index, machine in enumerate(machines)]
        wait(lambda: self.leader() is not None, "no gateway leads")
        self.proxy = Proxy([(machine.address, 9000) for machine in machines], number)
        self.expected = {}

    def leader(self):
        return next((index for index, gateway in enumerate(self.gateways) if serves(gateway)), None)

    @contextlib.contextmanager
    def fault(self, kind, leader):
        gateway = self.gateways[leader if "standby" not in kind else 1 - leader]
        if kind == "stop":
            # The child of `ip netns exec` is the gateway itself.
            gateway.process.send_signal(signal.SIGSTOP)
        else:
            lost = ["OUTPUT"] * ("answers" not in kind) + ["INPUT"] * ("requests" not in kind)
            gateway.machine.lose(*lost, other=self.store_machine)
        try:
            yield
        finally:
            gateway.process.send_signal(signal.SIGCONT)
            gateway.machine.heal()

    def case(self, kind, seed):
        """Executes one case. Returns its problems, and whether another gateway led afterwards."""
        choose, leader = random.Random(seed), self.leader()
        clocks = [choose.choice(OFFSETS) * choose.randrange(2) for _ in range(2)] if choose.random() < 0.5 else [0, 0]
        check = subprocess.Popen(
            [PLIMSOLL, "run", "consistency", "--store", f"s3://bucket?endpoint={self.proxy.url}", "--duration", "7s",
             "--timeout", "3s", "--keys", "4", "--turn", "500ms", "--seed", str(seed), "--workers", "1", "--json", "--out",
             tempfile.mkdtemp(prefix="partition-run")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=environment())
        owners = Owners(self.proxy.url, seed)
        time.sleep(0.5 + choose.random())
        for gateway, clock in zip(self.gateways, clocks):
            gateway.set_clock(clock)
        with self.fault(kind, leader):
            time.sleep(LEASE * (0.5 + 2 * choose.random()))
        output, errors = check.communicate()
        owners.stop()
        for gateway in self.gateways:
            gateway.set_clock(0)
        problems = []
        found = json.loads(output) if output.startswith("{") else {}
        # A gateway whose clock is a day off refuses every signature. The check then has too many failures and ends with 3.
        is_skewed = check.returncode == 3 and "403 RequestTimeTooSkewed" in found.get("errors", {})
        if check.returncode != 0 and not (is_skewed and found["violations"] + found["undecided"] == 0):
            problems.append(f"consistency: exit code {check.returncode}: {output[:20_000]} {errors}")
        wait(lambda: self.leader() is not None, "no gateway leads after the case")
        after = self.leader()
        s3 = client(self.gateways[after])
        # Those of earlier cases, too: later leaders must have them.
        self.expected.update(owners.states)
        for key in choose.sample(sorted(self.expected), min(100, len(self.expected))) + list(owners.states):
            if body(s3, key) != self.expected[key]:
                problems.append(f"{key}: the last acknowledged state is lost")
        for index, gateway in enumerate(self.gateways):
            if gateway.process.poll() is not None:
                problems.append(f"gateway {index} ended with {gateway.process.returncode}")
        return problems, after != leader, found


def worker(number, cases, seed, results):
    directory = pathlib.Path(tempfile.mkdtemp(prefix="partition"))
    with network(number) as machines:
        setup = Setup(number, machines, directory)
        try:
            for index in cases:
                kind = FAULTS[index % len(FAULTS)]
                results.put((index, kind, *setup.case(kind, seed * 1_000_000 + index)))
        except Exception as error:  # noqa: BLE001: reported by the parent, which ends.
            results.put((-1, "", [f"setup {number}: {error!r}"], False, {}))
        finally:
            for gateway in setup.gateways:
                gateway.process.kill()
            setup.store.process.kill()
    shutil.rmtree(directory)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--setups", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    results, found = multiprocessing.Queue(), 0
    for number in range(options.setups):
        cases = range(number, options.cases, options.setups)
        multiprocessing.Process(target=worker, args=(number, cases, options.seed, results)).start()
    led, requests = collections.Counter(), 0
    for done in itertools.count(1):
        index, kind, problems, changed, output = results.get()
        led[kind] += changed
        requests += output.get("operations", 0)
        for problem in problems:
            found += 1
            print(f"case {index} ({kind}): {problem}", flush=True)
        if done % 20 == 0 or done == options.cases:
            print(f"{done} cases, {found} problems, {sum(led.values())} changes of the leader, {requests} requests", flush=True)
        if done == options.cases or index < 0:
            break
    print(dict(led))
    sys.exit(found > 0)


if __name__ == "__main__":
    main()
