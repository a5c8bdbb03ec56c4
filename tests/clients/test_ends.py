"""Runs that are stopped: by Ctrl-C, SIGTERM, SIGHUP, or because their terminal is closed. Each ends and leaves nothing."""
import fcntl
import itertools
import os
import pty
import select
import signal
import subprocess
import termios
import threading

import boto3
import pytest
from botocore.config import Config

from support import ACCESS, PLIMSOLL, SECRET, Server, environment

# A run that does not end, not a measurement: stopping takes well below a second.
LIMIT_S = 120
LONG = ["--duration", "300s"]
MODES = {
    "get": ["run", "get", *LONG],
    "get, live": ["run", "get", *LONG, "--live"],
    "get, quiet": ["run", "get", *LONG, "--quiet"],
    "get, json": ["run", "get", *LONG, "--json"],
    "put": ["run", "put", *LONG],
    "mixed, open loop": ["run", "mixed", *LONG, "--rate", "100/s", "--no-report"],
    "sweep": ["run", "get", "--sweep", "concurrency=1,2,4", *LONG],
    "capacity": ["run", "capacity", "--within", "5m"],
    "capacity, live": ["run", "capacity", "--within", "5m", "--live"],
    "until conclusive": ["run", "get", "--until", "conclusive", "--store", "{other}"],
    "consistency": ["run", "consistency", *LONG],
    "contention": ["run", "contention", *LONG],
    "sync": ["run", "sync", "--files", "2000", "--size", "1KiB", "--loops", "100"],
    "replay": ["replay", "{log}"],
    "fleet": ["fleet", "run", "{experiment}", "--on", "local:2"],
    "consistency, several nodes": ["run", "consistency", *LONG, "--on", "local:2"],
}
STARTS = itertools.count()
SIGNALS = {"INT": signal.SIGINT, "TERM": signal.SIGTERM, "HUP": signal.SIGHUP}
# With `nohup`, these tests would inherit signals that are ignored, and so would the programs.
for ignored in SIGNALS.values():
    if signal.getsignal(ignored) == signal.SIG_IGN:
        signal.signal(ignored, signal.SIG_DFL)


class Terminal:
    """A command in a pseudo-terminal. Without control it does not get SIGHUP when the terminal is closed."""

    def __init__(self, arguments, folder, has_control=True):
        self.master, slave = pty.openpty()
        self.before = termios.tcgetattr(slave)
        control = (lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0)) if has_control else None
        self.run = subprocess.Popen([PLIMSOLL, *arguments], stdin=slave, stdout=slave, stderr=slave, cwd=folder,
                                    start_new_session=True, preexec_fn=control,
                                    env=environment() | {"TERM": "xterm-256color"})
        self.slave, self.received = slave, b""
        self.is_open = True
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        while self.is_open:
            if select.select([self.master], [], [], 0.1)[0]:
                self.received += os.read(self.master, 1 << 16)

    def close(self):
        self.is_open = False
        self.reader.join()
        os.close(self.slave)
        os.close(self.master)

    def text(self):
        return self.received.decode(errors="replace")[-3000:]


@pytest.fixture(scope="module")
def server():
    with Server("--inject", "latency=2ms") as server:
        s3 = boto3.client("s3", endpoint_url=server.url, region_name="us-east-1", aws_access_key_id=ACCESS,
                          aws_secret_access_key=SECRET, config=Config(s3={"addressing_style": "path"}))
        yield server, s3


def everything(s3, buckets):
    found = []
    for bucket in buckets:
        found += [o["Key"] for o in s3.list_objects_v2(Bucket=bucket).get("Contents", [])]
        found += [u["Key"] for u in s3.list_multipart_uploads(Bucket=bucket).get("Uploads", [])]
    return found


def start(server, mode, folder, **more):
    url, s3 = server
    # Buckets of their own for each start, also if a test is repeated.
    bucket = f"ends-{next(STARTS)}"
    buckets = [bucket, bucket + "-other"]
    for name in buckets:
        s3.create_bucket(Bucket=name)
    stores = [f"s3://{name}/?endpoint={url.url}" for name in buckets]
    log = folder / "log.csv"
    log.write_text("time,operation,key,size,bytes,status\n" + "".join(
        f"2026-11-21T12:{second // 60:02}:{second % 60:02}Z,{'GET' if second % 2 else 'PUT'},key-{second % 7},1000,"
        f"1000,200\n" for second in range(1200)))
    experiment = folder / "experiment.toml"
    experiment.write_text("name = 'long'\n" + "".join(
        f"[[phase]]\nname = '{name}'\nrole = '{role}'\noperations = {{ {name} = 1 }}\nobjects = {{ {objects} }}\n{limit}\n"
        for name, role, objects, limit in [("put", "prepare", "count = 100, size = '1KiB'", ""),
                                           ("get", "measure", "from = 'put'", "duration = '300s'")]))
    arguments = [part.format(other=stores[1], log=log, experiment=experiment) for part in MODES[mode]]
    terminal = Terminal([*arguments, "--store", stores[0]], folder, **more)
    while not everything(s3, buckets):
        assert terminal.run.poll() is None, terminal.text()
    return terminal, lambda: everything(s3, buckets)


@pytest.mark.parametrize("name", SIGNALS)
@pytest.mark.parametrize("mode", MODES)
def test_a_signal_ends_a_run_and_restores_the_terminal(server, mode, name, tmp_path):
    terminal, left = start(server, mode, tmp_path)
    if name == "INT" and "live" not in mode:
        os.write(terminal.master, b"\x03")
    else:
        terminal.run.send_signal(SIGNALS[name])
    assert terminal.run.wait(LIMIT_S) == 130, terminal.text()
    assert left() == [], terminal.text()
    assert termios.tcgetattr(terminal.slave) == terminal.before
    terminal.close()


@pytest.mark.parametrize("mode", MODES)
def test_a_closed_terminal_ends_a_run(server, mode, tmp_path):
    """Regression test: with `--live`, the process never ended, one thread was busy, and 200 objects stayed."""
    terminal, left = start(server, mode, tmp_path)
    terminal.close()
    terminal.run.wait(LIMIT_S)
    assert left() == [], terminal.text()


@pytest.mark.parametrize("mode", ["get", "get, live", "capacity, live"])
def test_a_closed_terminal_ends_a_run_that_gets_no_signal(server, mode, tmp_path):
    terminal, left = start(server, mode, tmp_path, has_control=False)
    terminal.close()
    terminal.run.wait(LIMIT_S)
    assert left() == [], terminal.text()


@pytest.mark.parametrize("words, end", [(["serve", "--listen", "127.0.0.1:0"], (0, "")), (["meter"], (2, "no request arrived"))],
                         ids=["serve", "meter"])
def test_a_server_that_shows_its_address_ends_in_order(words, end):
    """A signal that arrived just after the line with the address killed `serve` and `meter`."""
    with subprocess.Popen([PLIMSOLL, *words], env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True) as process:
        assert "http://" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
    assert process.returncode == end[0] and end[1] in rest, rest
