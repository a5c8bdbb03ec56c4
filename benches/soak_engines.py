"""The catalogs that benches/soak.py tests: processes, settings, restarts and measurements of their gateways."""
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from servers import free_port
from soak_sample import Metrics, sample_of

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "clients"))
from postgres import Postgres  # noqa: E402
from support import ACCESS, GATEWAY, SECRET, Server, environment  # noqa: E402

# Seconds that a gateway has to end after SIGTERM.
END_S = 10
# Seconds for which work may stand still: as in the alert.
STALL_S = 60

RULES = """
[[move]]
from = "hot"
to = "cold"
when = "suffix = '.m' and not tag.turn = 'back'"
keep_source = "1s"
[[move]]
from = "cold"
to = "hot"
when = "suffix = '.m' and tag.turn = 'back'"
keep_source = "1s"
"""
PACK = """
[pack]
tier = "hot"
max_body = "64 KiB"
file_size = "4 MiB"
min_age = "1s"
max_wait = "2s"
"""
SCRUB = '[scrub]\nevery = "5s"\nrate = "256 MiB"\n'
# Larger bodies of these two kinds move in opposite directions. None is packed, so that no move causes a second one.
PLANNED = """
[[move]]
from = "hot"
to = "cold"
when = "bucket = 'plan' and size > 64 KiB"
keep_source = "0s"
[[move]]
from = "cold"
to = "hot"
when = "bucket = 'soak' and suffix = '7.m' and size > 64 KiB and not tag.turn = 'back'"
keep_source = "0s"
"""


class SoakFailed(Exception):
    """The soak cannot continue; the message says why."""


def connect(url, read_timeout=180):
    """Returns a client that sends each request once, and waits for longer than the gateway waits for a tier."""
    config = Config(retries={"total_max_attempts": 1}, connect_timeout=5, read_timeout=read_timeout, max_pool_connections=4,
                    s3={"addressing_style": "path"})
    return boto3.session.Session().client("s3", endpoint_url=url, config=config, aws_access_key_id=ACCESS,
                                          aws_secret_access_key=SECRET, region_name="us-east-1")


def command(*words, codes=(0,), text=False):
    """Executes a command of the gateway. Returns its JSON, or its text."""
    done = subprocess.run([GATEWAY, *words], capture_output=True, text=True, env=environment(), timeout=900)
    if done.returncode not in codes:
        raise SoakFailed(f"{' '.join(words[:1])}: exit code {done.returncode}: {(done.stdout + done.stderr).strip()[-500:]}")
    return done.stdout if text else json.loads(done.stdout)


class Gateway:
    """A process of `plimsoll-gateway run FILE` on fixed ports, which is started again after its end."""

    def __init__(self, name, file, directory, *options):
        self.name, self.file, self.options = name, str(file), list(options)
        self.port, self.metrics_port = free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = os.path.join(directory, f"{name}.log")
        self.process, self.starts, self.is_stopping = None, 0, True
        # Samples of each life of the process, in which it serves or does not, and its last metrics.
        self.lives, self.last, self.serves = [], Metrics(""), None
        # Requests of earlier lives to the backup.
        self.shipped_before = 0

    def start(self):
        words = [GATEWAY, "run", self.file, "--listen", f"127.0.0.1:{self.port}", "--metrics-listen",
                 f"127.0.0.1:{self.metrics_port}", "--move-every", "500ms", *self.options]
        env = environment(PLIMSOLL_ACCESS_KEY=ACCESS, PLIMSOLL_SECRET_KEY=SECRET)
        with open(self.log, "a") as log:
            self.process = subprocess.Popen(words, env=env, stdout=log, stderr=log)
        self.shipped_before, self.last = self.shipped(), Metrics("")
        self.starts += 1
        self.lives.append([])
        self.is_stopping = False

    def terminate(self):
        """Ends the process with SIGTERM. Returns what is wrong with its end; `None` if nothing is."""
        self.is_stopping = True
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(timeout=END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return f"{self.name} did not end within {END_S} s after SIGTERM"
        return None if code == 0 else f"{self.name} ended with exit code {code} after SIGTERM"

    def kill(self):
        self.is_stopping = True
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def page(self, path, timeout=10):
        """Returns the status and the text of a page; 0 if there is no answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}{path}", timeout=timeout) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError as error:
            return 0, str(error)

    def is_ready(self):
        return self.page("/readyz")[0] == 200

    def metrics(self):
        """Returns the metrics; empty ones if there is no answer."""
        status, text = self.page("/metrics")
        if status == 200:
            self.last = Metrics(text)
        return self.last if status == 200 else Metrics("")

    def sample(self, serves):
        """Records the memory and the number of descriptors of the process."""
        if serves != self.serves:
            self.serves = serves
            self.lives.append([])
        sample = sample_of(self.process.pid)
        if sample:
            self.lives[-1].append(sample)

    def shipped(self):
        """Returns the number of objects that all lives of the process have added to the backup, until the last look."""
        now = sum(value for labels, value in self.last.all("tier_requests_total")
                  if labels["tier"] == "(backup)" and labels["call"].startswith("Put"))
        return self.shipped_before + int(now)

    def tail(self):
        with open(self.log) as file:
            return "".join(file.readlines()[-15:])


class Engine:
    """A catalog with its tiers and gateways. `serving` has the gateways that clients use now."""

    name = ""
    # True if each gateway serves, and not only the one that leads.
    all_serve = True

    def __init__(self, base, options):
        self.base, self.options = base, options
        self.store = Server("--quiet")
        self.gateways, self.serving, self.stage = [], [], "load"
        # Begins and ends of the times in which requests may fail; an end is infinite while it is open.
        self.changes, self.changed = [], threading.Event()

    def prepare(self):
        """Creates the buckets of the tiers, and starts the gateways."""
        for bucket in ("hot", "cold", "place"):
            connect(self.store.url).create_bucket(Bucket=bucket)
        self.start()

    def s3_tier(self, name):
        return f"s3://{name}/tier?endpoint={self.store.url}"

    def tier(self, name):
        return self.s3_tier(name)

    def catalog(self, directory):
        raise NotImplementedError

    def more_settings(self):
        return ""

    def write_settings(self, path, stage):
        """Writes the settings of a stage: `load` has all work, `quiet` has none that is not needed, and `plan` only the
        moves whose requests are compared with the plan."""
        work = {"load": PACK + RULES + SCRUB, "quiet": "", "plan": PLANNED}[stage]
        tiers = "".join(f'[tier.{name}]\nurl = "{self.tier(name)}"\noffer = "none"\n' for name in ("hot", "cold"))
        with open(path, "w") as file:
            file.write(f'[catalog]\nurl = "{self.catalog(os.path.dirname(path))}"\n{tiers}[write]\ntier = "hot"\n'
                       f'inline = "4 KiB"\n[retain]\ndeleted = "{self.options.retain}s"\n{work}{self.more_settings()}')

    def settings(self, name="gateway"):
        path = os.path.join(self.base, name, "gateway.toml")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self.write_settings(path, "load")
        return path

    def common(self):
        return ["--lifecycle-day", self.options.lifecycle_day]

    def start(self):
        raise NotImplementedError

    def until(self, condition, what, seconds=None, poll=0.2):
        """Waits for an event. The deadline only ends a soak whose event never happens."""
        end = time.monotonic() + (seconds or self.options.deadline)
        while not condition():
            if time.monotonic() > end:
                raise SoakFailed(what() if callable(what) else what)
            time.sleep(poll)

    def until_ready(self, gateway):
        def is_ready():
            if gateway.process.poll() is not None:
                raise SoakFailed(f"{gateway.name} ended with exit code {gateway.process.returncode}:\n{gateway.tail()}")
            return gateway.is_ready()
        self.until(is_ready, f"{gateway.name} is not ready", poll=0.05)

    def begin_change(self):
        self.changes.append([time.monotonic(), float("inf")])

    def end_change(self):
        self.changes[-1][1] = time.monotonic()

    def may_fail(self, began):
        """Returns true if a request that began at a time, and has failed now, met a restart. A pooled connection to a
        process that has ended fails later."""
        return any(began <= end + 5 and start <= time.monotonic() for start, end in self.changes)

    def restart(self, choose):
        """Ends a gateway with SIGTERM and starts it again. Returns what is wrong with its end; `None` if nothing is."""
        gateway = choose.choice(self.gateways)
        self.begin_change()
        self.serving = [one for one in self.gateways if one is not gateway]
        wrong = gateway.terminate()
        gateway.start()
        self.until_ready(gateway)
        self.serving = list(self.gateways)
        self.end_change()
        return wrong

    def leader(self):
        """Returns the gateway that moves and deletes; `None` if none does."""
        return next((one for one in self.gateways if one.metrics().one("leader") == 1), None)

    def url(self):
        """Returns the address of a gateway that serves. Waits if none does."""
        while not (serving := self.serving):
            time.sleep(0.05)
        return serving[0].url

    def use(self, stage):
        """Starts all gateways again with the settings of a stage. Returns what is wrong with their ends."""
        wrong = self.stop()
        self.stage = stage
        for gateway in self.gateways:
            self.write_settings(gateway.file, stage)
        self.start_again()
        return wrong

    def start_again(self):
        self.begin_change()
        for gateway in self.gateways:
            gateway.start()
        for gateway in self.gateways:
            self.until_ready(gateway)
        self.serving = list(self.gateways)
        self.end_change()

    def stop(self):
        self.serving = []
        self.begin_change()
        wrong = [text for text in [gateway.terminate() for gateway in self.gateways if gateway.process] if text]
        self.end_change()
        return wrong

    def positions(self):
        """Returns the position of the catalog that each tier has; `None` for a tier without a record."""
        found = {}
        for name in ("hot", "cold"):
            try:
                found[name] = json.loads(self.record(name))["position"]
            except (OSError, ClientError, BotoCoreError, ValueError):
                found[name] = None
        return found

    def record(self, tier):
        s3 = self.__dict__.setdefault("tier_client", connect(self.store.url, read_timeout=20))
        return s3.get_object(Bucket=tier, Key="tier/plimsoll-owner.json")["Body"].read()

    def backups(self):
        """Returns the number of objects that the gateways have added to the backup, or of the backups."""
        return sum(gateway.shipped() for gateway in self.gateways)

    def verify_backup(self):
        """Fails if the backup is damaged."""
        command("verify-backup", (self.leader() or self.gateways[0]).file, text=True)

    def end(self):
        for gateway in self.gateways:
            gateway.kill()
        self.store.process.kill()
        self.store.process.wait()


class Directory(Engine):
    """A catalog in a directory, a tier in a directory and one in an object store, and a backup in a directory."""

    name = "directory"

    def catalog(self, directory):
        return f"dir:{directory}/catalog"

    def tier(self, name):
        return f"file://{self.base}/hot" if name == "hot" else self.s3_tier(name)

    def more_settings(self):
        return f'[backup]\nto = "file://{self.base}/backup"\nevery = "1s"\n'

    def record(self, tier):
        if tier == "cold":
            return super().record(tier)
        with open(os.path.join(self.base, "hot", "plimsoll-owner.json")) as file:
            return file.read()

    def start(self):
        self.gateways = [Gateway("gateway", self.settings(), self.base, *self.common())]
        self.start_again()


class PostgreSQL(Engine):
    """A catalog in PostgreSQL with two gateways, which both serve, and backups one after the other."""

    name = "postgres"

    def __init__(self, base, options):
        super().__init__(base, options)
        self.database = Postgres()
        self.count, self.wrong, self.ended = 0, [], threading.Event()
        self.copies = threading.Thread(target=self.back_up, daemon=True)

    def catalog(self, directory):
        return self.database.url

    def start(self):
        self.gateways = [Gateway(name, self.settings(name), self.base, *self.common()) for name in ("gateway-a", "gateway-b")]
        # Only the first one creates the table.
        self.begin_change()
        self.gateways[0].start()
        self.until_ready(self.gateways[0])
        self.gateways[1].start()
        self.until_ready(self.gateways[1])
        self.serving = list(self.gateways)
        self.end_change()
        self.copies.start()

    def back_up(self):
        while not self.ended.wait(1):
            place = os.path.join(self.base, "backups", str(self.count))
            os.makedirs(os.path.dirname(place), exist_ok=True)
            try:
                command("backup", self.gateways[0].file, "--to", place, text=True)
                self.count += 1
                subprocess.run(["rm", "-rf", os.path.join(self.base, "backups", str(self.count - 2))], check=True)
            except (SoakFailed, subprocess.SubprocessError) as error:
                self.wrong.append(f"a backup failed: {error}")
                return

    def backups(self):
        return self.count

    def end_backups(self):
        """Ends the backups, of which the last one would soon be too old to delete anything."""
        if not self.ended.is_set():
            self.ended.set()
            self.copies.join()
            command("backup", self.gateways[0].file, "--forget", text=True)

    def verify_backup(self):
        if self.wrong:
            raise SoakFailed(self.wrong[0])
        command("verify-backup", "--from", os.path.join(self.base, "backups", str(self.count - 1)), text=True)

    def end(self):
        self.ended.set()
        super().end()
        if self.copies.ident:
            self.copies.join()
        self.database.__exit__()


class Journal(Engine):
    """A catalog whose writes are acknowledged in an object store, with a standby on another directory."""

    name = "journal"
    all_serve = False

    def catalog(self, directory):
        return f"dir:{directory}/catalog"

    def place(self):
        return f"s3://place/gateway?endpoint={self.store.url}"

    def more_settings(self):
        return f'[backup]\nto = "{self.place()}"\nevery = "1s"\ndurability = "tier"\nlease = "4s"\n'

    def start(self):
        files = [self.settings(name) for name in ("gateway-a", "gateway-b")]
        # A standby cannot begin a journal.
        first = Gateway("first", files[0], self.base, *self.common())
        first.start()
        self.gateways = [first]
        self.until_ready(first)
        wrong = first.terminate()
        if wrong:
            raise SoakFailed(wrong)
        self.gateways = [Gateway(name, file, self.base, "--follow", self.place(), *self.common())
                         for name, file in zip(("gateway-a", "gateway-b"), files)]
        self.start_again()

    def start_again(self):
        self.begin_change()
        self.gateways[0].start()
        self.until_ready(self.gateways[0])
        self.gateways[1].start()
        self.until_follows(self.gateways[1])
        self.serving = [self.gateways[0]]
        self.end_change()

    def until_follows(self, gateway):
        """Waits until a gateway has everything that the one that leads has written."""
        def follows():
            if gateway.process.poll() is not None:
                raise SoakFailed(f"{gateway.name} ended with exit code {gateway.process.returncode}:\n{gateway.tail()}")
            done = subprocess.run([GATEWAY, "status", gateway.file, "--json"], capture_output=True, text=True, env=environment())
            following = json.loads(done.stdout).get("following") if done.returncode == 0 else None
            return following and following["leader"] in ("leads", "Leads") and not following["problem"]
        self.until(follows, f"{gateway.name} does not follow")

    def restart(self, choose):
        [leader] = self.serving
        [standby] = [one for one in self.gateways if one is not leader]
        if choose.random() < 0.25:
            wrong = standby.terminate()
            standby.start()
            self.until_follows(standby)
            return wrong
        self.begin_change()
        self.serving = []
        wrong = leader.terminate()
        self.until_ready(standby)
        self.serving = [standby]
        self.end_change()
        leader.start()
        self.until_follows(leader)
        return wrong

    def stop(self):
        """Ends the standby first: it would lead."""
        leading = self.serving
        self.gateways.sort(key=lambda gateway: gateway in leading)
        wrong = super().stop()
        # The one that has led has everything, and leads again.
        self.gateways.reverse()
        return wrong


ENGINES = {engine.name: engine for engine in (Directory, PostgreSQL, Journal)}
