"""The texts of the programs in a terminal of 80 columns, and without colours."""
import fcntl
import json
import os
import pty
import re
import struct
import termios

import pytest

from support import GATEWAY, PLIMSOLL, ROOT, environment

GALLERY = os.path.join(ROOT, "docs/gallery")
COMMANDS = [
    ["--help"], ["help", "run"], ["list", "experiments"], ["list", "prices"], ["probe", "memory:"],
    ["run", "ramp", "--dry-run", "--store", "memory:"],
    *(["show", f"{GALLERY}/{name}"] for name in ("quickstart", "two-stores", "stalls", "capacity", "matrix", "errors")),
    ["compare", f"{GALLERY}/two-stores"], ["check", f"{GALLERY}/errors", "--slo", "get.p99 < 25ms"],
    ["cost", "--storage", "10TB", "--egress", "2TB", "--get", "50M", "--object-size", "256KiB"],
    ["advise", f"{GALLERY}/two-stores", "--storage", "10TB", "--get", "50M", "--price", "alpha=aws-s3", "--price",
     "beta=cloudflare-r2"],
]
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
COLOUR = re.compile(r"\x1b\[(?:[0-9;]*;)?(?:3[0-7]|38|4[0-7]|48|9[0-7]|10[0-7])[;0-9]*m")


def shown(binary, words, **variables):
    """Returns what a command prints in a terminal of 80 by 24 characters."""
    pid, terminal = pty.fork()
    if pid == 0:
        try:
            fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
            env = {key: value for key, value in environment().items() if key not in ("COLUMNS", "NO_COLOR")}
            os.execve(binary, [binary, *words], {**env, "TERM": "xterm-256color", **variables})
        finally:
            os._exit(127)
    parts = []
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:
            break
        if not part:
            break
        parts.append(part)
    os.waitpid(pid, 0)
    os.close(terminal)
    return b"".join(parts).decode()


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words[:2]).replace(GALLERY, ""))
def test_lines_fit_into_80_columns_and_break_between_words(words):
    text = ESCAPE.sub("", shown(PLIMSOLL, words)).replace("\r", "")
    wide = [line for line in text.splitlines() if len(line) > 80 and " " in line.strip()]
    assert text.strip() and wide == []
    # Words of the unbroken text are whole in the broken one.
    plain = os.popen(" ".join(f"'{word}'" for word in [PLIMSOLL, *words]) + " 2>&1").read()
    there = set(text.split())
    cut = [word for word in plain.split() if word not in there and word.isalpha() and len(word) > 3]
    # A narrow terminal leaves out some columns of figures.
    assert not cut or set(cut) <= {"count", "throughput", "mean", "failed", "retries", "operations"}, cut


@pytest.mark.parametrize("binary", [path for path in (PLIMSOLL, GATEWAY) if os.path.exists(path)], ids=os.path.basename)
def test_no_color_is_respected(binary):
    assert ESCAPE.search(shown(binary, ["--help"]))
    assert not ESCAPE.search(shown(binary, ["--help"], NO_COLOR="1"))
    assert not COLOUR.search(shown(binary, ["--wrong"], NO_COLOR="1"))


def test_the_full_screen_view_has_no_colours_with_no_color(tmp_path):
    words = ["run", "get", "--store", "memory:", "--duration", "2s", "--warmup", "0s", "--live", "--out", str(tmp_path)]
    assert COLOUR.search(shown(PLIMSOLL, words))
    assert not COLOUR.search(shown(PLIMSOLL, words, NO_COLOR="1"))


def test_json_is_never_broken():
    assert json.loads(shown(PLIMSOLL, ["show", f"{GALLERY}/errors", "--json"]))["schema"]
