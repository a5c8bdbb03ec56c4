"""Executes the procedures of docs/operations from their pages, with other directories and ports, and without systemd."""
import json
import os
import re
import shutil
import subprocess
import sys
import time

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from postgres import Postgres, programs
from support import GATEWAY, ROOT, free_port
from test_postgres import FAKE_TIME
from test_tiers import wait

PAGES = os.path.join(ROOT, "docs", "operations")
SYSTEMCTL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "systemctl.py")
pytestmark = pytest.mark.skipif(not os.path.exists(GATEWAY), reason="plimsoll-gateway is not built")

BLOB = 200_000
# Too large for a pack file, so that the blob moves.
LARGE = 1_200_000


def procedures(page):
    """Returns the headings of a page with the commands below each."""
    with open(os.path.join(PAGES, page)) as file:
        parts = re.split(r"^## (.*)$", file.read(), flags=re.M)
    return {heading: re.findall(r"^```sh\n(.*?)^```$", text, flags=re.S | re.M)
            for heading, text in zip(parts[1::2], parts[2::2])}


class Machine:
    """A directory that stands for `/`, with the gateway of install.md."""

    def __init__(self, directory):
        self.root = directory
        self.ports = {port: str(free_port()) for port in ("9000", "9100", "9101")}
        for name in ("usr/local/bin", "etc/systemd/system", "var/lib", "var/log", "mnt", "tmp", "work", "backup", "run"):
            (directory / name).mkdir(parents=True)
        shutil.copy(GATEWAY, directory / "work" / "plimsoll-gateway")
        systemctl = directory / "usr/local/bin/systemctl"
        systemctl.write_text(f"#!/bin/sh\nexec {sys.executable} {SYSTEMCTL} \"$@\"\n")
        systemctl.chmod(0o755)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "PLIMSOLL"))}
        path = f"{directory}/usr/local/bin:{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
        self.environment = {**kept, "PATH": path, "PLIMSOLL_TEST_ROOT": str(directory), "HOME": str(directory),
                            "AWS_EC2_METADATA_DISABLED": "true"}

    def local(self, text):
        """Replaces the directories and ports of a page by those of this machine."""
        text = re.sub(r"(?<![\w}])/(usr/local/bin|etc|var|mnt|tmp|backup)(?=/|\b)", rf"{self.root}/\1", text)
        return re.sub(r"\b(9000|9100|9101)\b", lambda port: self.ports[port[1]], text)

    def run(self, commands):
        """Executes the commands of a block. The variables that it sets are those of the following blocks."""
        for program in ("curl", "openssl"):
            if program in commands.split() and not shutil.which(program):
                pytest.skip(f"{program} is not installed")
        script = f"set -euo pipefail\n{self.local(commands)}\nenv -0 > '{self.root}/run/environment'\n"
        done = subprocess.run(["bash", "-c", script], cwd=self.root / "work", env=self.environment,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240)
        log = self.root / "run" / "plimsoll-gateway.err"
        shown = log.read_text() if log.exists() else ""
        assert done.returncode == 0, f"{commands}\n{done.stdout}{done.stderr}\n{shown}"
        variables = (self.root / "run" / "environment").read_text().split("\0")
        self.environment = dict(variable.split("=", 1) for variable in variables if "=" in variable)
        return done.stdout

    def follow(self, page, heading):
        """Executes all commands below a heading."""
        blocks = procedures(page)[heading]
        assert blocks, f"{page}: {heading} has no commands"
        return [self.run(block) for block in blocks]

    def client(self):
        environment = self.environment
        return boto3.client(
            "s3", endpoint_url=environment["AWS_ENDPOINT_URL"], region_name="us-east-1",
            aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"], verify=environment.get("AWS_CA_BUNDLE"),
            config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}))

    def move_everything(self):
        """Lets objects below `old/` move at once."""
        self.run("sed -i 's/when = .*/when = \"prefix = '\"'old\\/'\"'\"/; s/min_age = .*//' /etc/plimsoll/gateway.toml\n"
                 "sed -i 's|--metrics-listen|--move-every 50ms --metrics-listen|' "
                 "/etc/systemd/system/plimsoll-gateway.service\nsystemctl restart plimsoll-gateway")

    def where(self, key):
        return json.loads(self.run(f"plimsoll-gateway where /etc/plimsoll/gateway.toml --object photos/{key} --json"))

    def stop(self):
        self.run("systemctl stop plimsoll-gateway")


@pytest.fixture
def machine(tmp_path):
    """A machine on which install.md was followed."""
    one = Machine(tmp_path)
    try:
        for heading in procedures("install.md"):
            one.follow("install.md", heading)
        yield one
    finally:
        one.stop()


def fill(machine):
    """Writes objects of three kinds. Those below `old/` move to the cold tier."""
    machine.move_everything()
    bodies = {f"{kind}/{number}": os.urandom(size) for number in range(3)
              for kind, size in (("old", LARGE), ("2026", BLOB), ("inline", 100))}
    s3 = machine.client()
    for key, body in bodies.items():
        s3.put_object(Bucket="photos", Key=key, Body=body)
    wait(lambda: all(machine.where(f"old/{number}")["pieces"][0]["copies"][0]["tier"] == "cold" for number in range(3)),
         "the objects are moved")
    return bodies


def readable(machine, bodies):
    s3 = machine.client()
    return all(s3.get_object(Bucket="photos", Key=key)["Body"].read() == body for key, body in bodies.items())


def test_every_procedure_with_commands_is_executed():
    with open(__file__) as file:
        text = file.read()
    for page in sorted(os.listdir(PAGES)):
        for heading, blocks in procedures(page).items() if page.endswith(".md") else ():
            if blocks and page != "install.md":
                assert f'"{heading}"' in text, f"{page}: {heading} is not executed"


# On SIGTERM, its first thread ends, and the other one works on. A second process cannot have the lock at the same time.
SLOW_TO_END = """
import ctypes, fcntl, hashlib, os, signal, sys, threading
lock = open(sys.argv[1], "w")
fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

def work():
    while open("/proc/self/stat").read().rsplit(")", 1)[1].split()[0] != "Z":
        pass
    hashlib.sha256(bytes(200_000_000))
    os._exit(0)

exit_thread = 60 if os.uname().machine == "x86_64" else 93
signal.signal(signal.SIGTERM, lambda *_: ctypes.CDLL(None).syscall(exit_thread, 0))
print("listening on nothing", flush=True)
threading.Thread(target=work).start()
while True:
    signal.pause()
"""


def test_a_stopped_unit_has_ended_with_all_its_threads(tmp_path):
    (tmp_path / "etc/systemd/system").mkdir(parents=True)
    (tmp_path / "slow.py").write_text(SLOW_TO_END)
    (tmp_path / "etc/systemd/system/slow.service").write_text(f"ExecStart={sys.executable} {tmp_path}/slow.py {tmp_path}/lock\n")
    for action in ("start", "restart", "stop"):
        done = subprocess.run([sys.executable, SYSTEMCTL, action, "slow"], capture_output=True, text=True,
                              env={"PLIMSOLL_TEST_ROOT": str(tmp_path)})
        assert done.returncode == 0, (action, done.stderr)


def test_the_first_gateway_serves(machine):
    assert machine.client().head_object(Bucket="photos", Key="gateway.toml")["ContentLength"] > 100
    assert machine.run("plimsoll-gateway status /etc/plimsoll/gateway.toml").startswith("state      running\n")


def test_certificates(machine):
    machine.follow("tls.md", "Serve TLS")
    before = machine.run("cat /etc/plimsoll/tls.pem")
    machine.follow("tls.md", "Renew the certificate")
    assert machine.run("cat /etc/plimsoll/tls.pem") != before
    [shown] = machine.follow("tls.md", "Rotate the access log")
    line = json.loads(shown.splitlines()[-1])
    assert line["client"] == "127.0.0.1" and line["operation"] == "ListObjectsV2"


def test_the_console_is_opened(machine):
    machine.follow("console.md", "Open it")


def test_a_backup_is_made_and_restored(machine):
    bodies = fill(machine)
    machine.follow("backup.md", "Back up once")
    newer = os.urandom(BLOB)
    machine.client().put_object(Bucket="photos", Key="newer", Body=newer)
    machine.client().delete_object(Bucket="photos", Key="2026/1")
    wait(lambda: json.loads(machine.run("plimsoll-gateway status /etc/plimsoll/gateway.toml --json"))["counts"],
         "the gateway counts its objects")
    shown = machine.follow("backup.md", "Restore a backup")
    assert readable(machine, {**bodies, "newer": newer}), shown


def test_a_continuous_backup_restores_any_second(machine):
    bodies = fill(machine)
    shown = machine.follow("backup.md", "Back up continuously")
    assert "; complete" in shown[0] and "every state from" in shown[0], shown
    newer = os.urandom(BLOB)
    machine.client().put_object(Bucket="photos", Key="newer", Body=newer)
    # The procedure restores the state of one second ago.
    oldest = lambda: json.loads(machine.run("plimsoll-gateway verify-backup /etc/plimsoll/gateway.toml --json"))["oldest_ms"]
    wait(lambda: oldest() < 1000 * (time.time() - 2), "the oldest state is older than that")
    shown = machine.follow("backup.md", "Restore any second")
    assert "restored the state of 20" in shown[0] and readable(machine, {**bodies, "newer": newer}), shown


def test_deleted_objects_come_back(machine):
    bodies = fill(machine)
    s3 = machine.client()
    # Times have a precision of a second, and the deletion must be later than the time of the command.
    written = s3.head_object(Bucket="photos", Key="2026/2")["LastModified"].timestamp()
    wait(lambda: time.time() > written + 2, "the objects are older than a second")
    before = time.time()
    machine.environment["BEFORE"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(before))
    wait(lambda: time.time() > before + 1, "the deletion is later")
    for number in range(3):
        s3.delete_object(Bucket="photos", Key=f"2026/{number}")
    [shown] = machine.follow("backup.md", "Bring back objects that were deleted by mistake")
    assert "3 objects with 600000 bytes brought back" in shown and readable(machine, bodies)


def test_a_new_version_and_the_way_back(machine):
    bodies = fill(machine)
    machine.follow("upgrade.md", "Install a new version")
    assert machine.follow("upgrade.md", "Return to the previous version") == ["1\n"] and readable(machine, bodies)
    # An old version meets a newer format.
    machine.run("systemctl stop plimsoll-gateway\necho 2 > /var/lib/plimsoll/catalog/FORMAT")
    with pytest.raises(AssertionError, match="the catalog has format 2, and this version knows formats up to 1"):
        machine.run("systemctl start plimsoll-gateway")
    machine.run("echo 1 > /var/lib/plimsoll/catalog/FORMAT\nsystemctl start plimsoll-gateway")
    assert readable(machine, bodies)


def test_keys_are_rotated_and_deletions_found(machine):
    machine.follow("security.md", "Rotate the keys of clients")
    [shown] = machine.follow("security.md", "Who has deleted an object")
    line = json.loads(shown.splitlines()[-1])
    assert (line["access_key"], line["path"], line["status"]) == ("operator", "/photos/audit", 204)


def test_stolen_keys_are_refused(machine):
    stolen = machine.client()
    machine.follow("disaster-recovery.md", "Keys are stolen")
    with pytest.raises(ClientError):
        stolen.list_buckets()


def test_a_lost_catalog(machine):
    bodies = {key: body for key, body in fill(machine).items() if not key.startswith("inline")}
    machine.follow("disaster-recovery.md", "The catalog is lost, and there is no backup")
    assert readable(machine, bodies)


def test_an_older_catalog(machine):
    bodies = fill(machine)
    machine.run("systemctl stop plimsoll-gateway\ncp -r /var/lib/plimsoll/catalog /tmp/older\n"
                "systemctl start plimsoll-gateway")
    newer = os.urandom(BLOB)
    machine.client().put_object(Bucket="photos", Key="newer", Body=newer)
    machine.run("systemctl stop plimsoll-gateway\nrm -r /var/lib/plimsoll/catalog\n"
                "mv /tmp/older /var/lib/plimsoll/catalog")
    with pytest.raises(AssertionError, match="reconcile"):
        machine.run("systemctl start plimsoll-gateway")
    machine.follow("disaster-recovery.md", "The catalog is older than the tiers")
    assert readable(machine, {**bodies, "newer": newer})


@pytest.mark.parametrize("heading", ["A tier is lost", "A tier is older"])
def test_a_tier_without_its_bytes(machine, heading):
    bodies = fill(machine)
    if heading == "A tier is older":
        # The record of the owner is that of an earlier time, and one blob is missing.
        name = machine.where("old/1")["pieces"][0]["copies"][0]["object"]
        machine.run(f"rm /mnt/archive/plimsoll/{name}")
    machine.follow("disaster-recovery.md", heading)
    scrub = json.loads(machine.run("cat /tmp/scrub.json"))
    assert readable(machine, bodies) and scrub["objects_damaged"] == [], scrub
    # Their copies in the tier are missing.
    assert {one["key"] for one in scrub["copies_damaged"]} <= {f"old/{number}" for number in range(3)}, scrub
    assert "old/1" in {one["key"] for one in scrub["copies_damaged"]}
    assert machine.where("old/1")["pieces"][0]["copies"][0]["tier"] == "hot"


def test_a_damaged_disk(machine):
    bodies = fill(machine)
    machine.run("systemctl stop plimsoll-gateway")
    logs = (machine.root / "var/lib/plimsoll/catalog/log").glob("*.log")
    [log] = [path for path in logs if bodies["inline/1"] in path.read_bytes()]
    text = bytearray(log.read_bytes())
    at = text.index(bodies["inline/1"])
    text[at] ^= 1
    log.write_bytes(text)
    machine.run("systemctl start plimsoll-gateway")
    machine.follow("disaster-recovery.md", "The disk of the catalog is damaged")
    scrub = json.loads(machine.run("cat /tmp/scrub.json"))
    assert [one["key"] for one in scrub["objects_damaged"]] == ["inline/1"]
    del bodies["inline/1"]
    assert readable(machine, bodies)


@pytest.mark.skipif(not programs(), reason="PostgreSQL is not installed")
def test_a_lost_database(machine):
    with Postgres() as database:
        machine.stop()
        machine.environment["DATABASE"] = database.url
        machine.run('rm -rf /var/lib/plimsoll/* /mnt/archive/plimsoll/*\n'
                    'sed -i "s|^url = .dir:.*|url = \\"$DATABASE\\"|" /etc/plimsoll/gateway.toml\n'
                    'systemctl start plimsoll-gateway\naws s3 mb s3://photos')
        bodies = fill(machine)
        machine.follow("backup.md", "Back up a catalog in PostgreSQL")
        newer = os.urandom(LARGE)
        machine.client().put_object(Bucket="photos", Key="old/newer", Body=newer)
        wait(lambda: machine.where("old/newer")["pieces"][0]["copies"][0]["tier"] == "cold", "the object is moved")
        machine.run("systemctl stop plimsoll-gateway")
        database.query("DROP TABLE plimsoll_catalog")
        with pytest.raises(AssertionError, match="belongs to another catalog"):
            machine.run("systemctl start plimsoll-gateway")
        machine.follow("disaster-recovery.md", "The database of the catalog is lost")
        assert readable(machine, {**bodies, "old/newer": newer})
        machine.stop()


def test_the_state_is_shown(machine):
    machine.follow("monitoring.md", "Metrics and log")
    assert "plimsoll_gateway_leader 1" in machine.run("cat /tmp/metrics")


@pytest.mark.skipif(not FAKE_TIME, reason="faketime is not installed")
def test_a_wrong_clock(machine):
    bodies = fill(machine)
    machine.run(f"systemctl stop plimsoll-gateway\nsed -i 's|^ExecStart=|ExecStart=env LD_PRELOAD={FAKE_TIME[0]} "
                "FAKETIME=+40d |' /etc/systemd/system/plimsoll-gateway.service\nsystemctl start plimsoll-gateway")
    wait(lambda: "clock is in doubt" in machine.run("curl -fsS http://127.0.0.1:9100/readyz"), "the clock is in doubt")
    assert "its clock is in doubt" in machine.run("plimsoll-gateway status /etc/plimsoll/gateway.toml")
    machine.run("sed -i 's|^ExecStart=env.*+40d |ExecStart=|' /etc/systemd/system/plimsoll-gateway.service")
    machine.follow("disaster-recovery.md", "The clock of the machine is wrong")
    assert "ready" in machine.run("curl -fsS http://127.0.0.1:9100/readyz") and readable(machine, bodies)
