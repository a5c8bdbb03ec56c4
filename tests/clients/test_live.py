"""The full-screen live view (`run --live`) in a pseudo-terminal: content, resizing, keys, and the terminal afterwards."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios

import pyte
import pytest

from support import PLIMSOLL, Server, environment

LIMIT_S = 60


class Terminal:
    """A run in a pseudo-terminal, and the screen that it draws."""

    def __init__(self, *arguments, columns=80, rows=24):
        self.master, slave = pty.openpty()
        self.screen = pyte.Screen(columns, rows)
        self.stream = pyte.ByteStream(self.screen)
        self.resize(columns, rows)
        self.before = termios.tcgetattr(slave)
        self.slave, self.received = slave, b""
        self.run = subprocess.Popen([PLIMSOLL, "run", *arguments, "--live"], stdin=slave, stdout=slave, stderr=slave,
                                    start_new_session=True, env=environment() | {"TERM": "xterm-256color"},
                                    preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def resize(self, columns, rows):
        self.screen.resize(rows, columns)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self):
        """Feeds what the run has written to the screen; returns False once the run has ended and wrote no more."""
        if select.select([self.master], [], [], 0.2)[0]:
            data = os.read(self.master, 1 << 16)
            self.received += data
            self.stream.feed(data)
            return True
        return self.run.poll() is None

    def until(self, condition):
        while not condition(self.text()):
            assert self.read(), self.text()

    def text(self):
        return "\n".join(line.rstrip() for line in self.screen.display)

    def end(self):
        """Reads until the run ends, and returns its exit code."""
        while self.read():
            pass
        return self.run.wait(LIMIT_S)


@pytest.fixture()
def store(tmp_path):
    with Server("--inject", "error=0.05") as server:
        yield ["--store", f"s3://bench/?endpoint={server.url}", "--create-bucket", "--out", str(tmp_path), "--no-report"]


def full(text):
    """Returns true if the view shows figures in every part."""
    parts = ["/s", "p50", "operations/s", "share of operations by latency", "CPU", "SlowDown"]
    return all(part in text for part in parts) and any(shade in text for shade in "\u2591\u2592\u2593\u2588")


def test_the_view_fills_80x24_and_200x60_and_redraws_only_changed_cells(store):
    terminal = Terminal("get", "--duration", "60s", *store)
    terminal.until(full)
    assert "on s3://bench" in terminal.text() and "left, press q to stop" in terminal.text()
    assert b"\x1b[?1049h" in terminal.received, "the view uses the alternate screen"
    before = len(terminal.received)
    first = terminal.text()
    terminal.until(lambda text: text != first)
    assert len(terminal.received) - before < 80 * 24, "only changed cells are sent"
    terminal.resize(200, 60)
    terminal.until(lambda text: full(text) and any(len(line) > 190 for line in text.splitlines()))
    terminal.resize(80, 24)
    terminal.until(lambda text: full(text) and max(map(len, text.splitlines())) <= 80)
    os.write(terminal.master, b"q")
    assert terminal.end() == 130, terminal.text()
    closed = terminal.received.rindex(b"\x1b[?1049l")
    rest = terminal.received[closed:].decode()
    assert "results: " in rest and "! 503 SlowDown" in rest, "results and notes remain on the terminal"
    assert termios.tcgetattr(terminal.slave) == terminal.before, "the settings of the terminal are restored"


@pytest.mark.parametrize("key", [b"\x03", None])
def test_ctrl_c_and_the_end_of_the_run_close_the_view(store, key):
    terminal = Terminal("get", "--duration", "60s" if key else "2s", *store)
    if key:
        terminal.until(full)
        os.write(terminal.master, key)
    code = terminal.end()
    assert code == (130 if key else 0), terminal.text()
    assert terminal.received.count(b"\x1b[?1049h") == terminal.received.count(b"\x1b[?1049l") == 1
    assert termios.tcgetattr(terminal.slave) == terminal.before


def test_without_a_terminal_the_view_is_refused(tmp_path):
    run = subprocess.run([PLIMSOLL, "run", "get", "--store", "embedded:", "--live"], capture_output=True, text=True,
                         cwd=tmp_path, stdin=subprocess.DEVNULL)
    assert run.returncode == 2 and "--live needs a terminal" in run.stderr, run.stderr
