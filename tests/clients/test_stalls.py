"""Background work that stops: it is reported, and the process ends in time nevertheless."""
import os
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request

import pytest

from postgres import Postgres, programs
from support import GATEWAY, Server
from test_journal import gateway, object_store, settings as journaled
from test_standby import has_everything
from test_tiers import client, rule, settings, wait

pytestmark = pytest.mark.skipif(not os.path.exists(GATEWAY), reason="plimsoll-gateway is not built")

BACKUP = """
[backup]
to = "{to}"
every = "1s"
"""
# Loops whose first pause is long: they stop at the start.
LONG_PAUSES = ["lease", "scrub", "reads", "backup-check"]
SCRUB = '[scrub]\nevery = "1h"\n'


def ready(server):
    """Returns the status and the text of /readyz."""
    try:
        with urllib.request.urlopen(server.metrics.replace("/metrics", "/readyz"), timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


# Milliseconds after which a loop has stalled; without the variable of a measurement, a second.
LIMIT_MS = os.environ.get("PLIMSOLL_STALLED_MS", "1000")


def start(tmp_path, path, log, *more):
    """Starts a gateway that says after a second that a loop has stalled, and whose loops stop if a file names them."""
    hang = tmp_path / "hang"
    environment = ("env", f"PLIMSOLL_TEST_HANG={hang}", f"PLIMSOLL_TEST_STALL_MS={LIMIT_MS}",
                   "sh", "-c", f'exec "$0" "$@" 2>"{log}"', GATEWAY, "run", path, *more)
    return hang, Server("--move-every", "50ms", "--metrics-listen", "127.0.0.1:0", command=environment)


def stalls(tmp_path, path, name):
    """Stops a loop of a gateway. Checks /readyz, the metric, the log, `status` and the end of the process."""
    log = tmp_path / "log"
    if name in LONG_PAUSES:
        (tmp_path / "hang").write_text(name)
    hang, server = start(tmp_path, path, log)
    client(server).create_bucket(Bucket="bucket")
    hang.write_text(name)
    is_reported(server, name, log)


def is_reported(server, name, log):
    """Checks what a gateway says about a loop that has stopped, and the end of its process."""
    began = time.time()
    said = f'the loop "{name}" has made no progress'

    def is_unready():
        status, text = ready(server)
        return status == 503 and said in text

    wait(is_unready, f"/readyz does not report {name}")
    print(f"{name}: reported {time.time() - began:.0f} s after it was stopped")
    metrics = urllib.request.urlopen(server.metrics, timeout=60).read().decode()
    assert re.search(rf'^plimsoll_gateway_loop_stalled{{loop="{name}"}} 1$', metrics, re.M), metrics
    wait(lambda: said in log.read_text(), "the log does not report it")
    server.process.send_signal(signal.SIGTERM)
    code = server.process.wait(timeout=60)
    # If a thread hangs, the process logs what hangs, and exits with code 3.
    assert code == 0 or code == 3 and "the end of the process has waited for" in log.read_text(), (code, log.read_text())


@pytest.mark.parametrize("name", ["lease", "claims", "deletions", "moves", "scrub", "reads", "backup", "backup-check",
                                  "commit", "flush", "maintenance"])
def test_a_loop_that_stops_is_reported(tmp_path, name):
    path = settings(tmp_path, moves=rule() + SCRUB + BACKUP.format(to=f"file://{tmp_path}/backup"), retain="1h")
    stalls(tmp_path, path, name)


def test_a_journal_that_stops_is_reported(tmp_path):
    with Server() as store:
        for name in ("hot", "cold", "place"):
            client(store).create_bucket(Bucket=name)
        path = settings(tmp_path, moves=BACKUP.format(to=f"s3://place/gateway?endpoint={store.url}") + 'durability = "tier"\n',
                        retain="1h")
        with open(path) as file:
            text = file.read()
        for name in ("hot", "cold"):
            text = text.replace(f"file://{tmp_path}/{name}", f"s3://{name}/x?endpoint={store.url}")
        with open(path, "w") as file:
            file.write(text)
        stalls(tmp_path, path, "journal")


def test_a_standby_that_stops_to_follow_is_reported(tmp_path):
    with object_store() as store, gateway(journaled(tmp_path / "a", store)) as leader:
        client(leader).create_bucket(Bucket="bucket")
        path = journaled(tmp_path / "b", store)
        hang, server = start(tmp_path, path, tmp_path / "log", "--follow", f"s3://place/gateway?endpoint={store.url}")
        has_everything(leader, path)
        hang.write_text("follow")
        is_reported(server, "follow", tmp_path / "log")


@pytest.mark.skipif(not programs(), reason="PostgreSQL is not installed")
def test_a_hanging_database_is_reported_and_does_not_prevent_the_end(tmp_path):
    with Postgres() as database:
        path = settings(tmp_path)
        with open(path) as file:
            text = file.read().replace(f"dir:{tmp_path}/catalog", database.url)
        with open(path, "w") as file:
            file.write(text)
        log = tmp_path / "log"
        _, server = start(tmp_path, path, log)
        client(server).create_bucket(Bucket="bucket")
        found = subprocess.run(["pgrep", "-P", str(database.process.pid)], capture_output=True, text=True).stdout.split()
        everything = [str(database.process.pid), *found]
        subprocess.run(["kill", "-STOP", *everything], check=True)
        try:
            wait(lambda: ready(server)[0] == 503, "/readyz is 200")
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(timeout=60) in (0, 3)
        finally:
            subprocess.run(["kill", "-CONT", *everything], check=True)
