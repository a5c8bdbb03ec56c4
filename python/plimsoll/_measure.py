"""Measurements: ``plimsoll run`` as a function."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from plimsoll._program import ProgramError, flags, program
from plimsoll._run import Run, load

_RESULTS = (0, 1)
"""Exit codes of runs with results. With 1, a check has failed, such as an objective."""


def run(experiment: str | Path, *, store: str | list[str] | None = None, out: str | Path = "plimsoll-runs",
        progress: bool = True, environment: Mapping[str, str] | None = None, **options: object) -> Run:
    """Measures, and returns the run: ``plimsoll.run("get", store="s3://bucket", size="64KiB", rate="500/s")``.

    ``experiment`` and ``options`` are those of ``plimsoll run``, with underscores for dashes. The result has objectives
    that were missed in ``run.result["objectives"]``. ``progress`` copies the lines about the progress to standard error.
    ``environment`` has additional environment variables, such as credentials. Raises :class:`ProgramError` if nothing was
    measured. An interrupt (Ctrl-C) stops the measurement, deletes its objects, and raises ``KeyboardInterrupt``.
    """
    command = [program(), "run", str(experiment), f"--out={out}", *flags({"store": store, **options})]
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             env={**os.environ, **(environment or {})}, start_new_session=True)
    messages: list[str] = []
    reader = threading.Thread(target=_follow, args=(child, messages, progress), daemon=True)
    reader.start()
    assert child.stdout is not None
    try:
        answer = child.stdout.read()
        child.wait()
    except KeyboardInterrupt:
        # The program ends its run, and deletes its objects.
        child.send_signal(signal.SIGINT)
        child.stdout.read()
        child.wait()
        raise
    finally:
        if child.poll() is None:
            child.kill()
        reader.join()
        child.stdout.close()
    found = re.findall(r"^results: (.+)$", answer, re.M)
    if child.returncode not in _RESULTS or not found:
        last = [line for line in messages if line.startswith("plimsoll: ")] or messages[-1:] or ["it printed nothing"]
        raise ProgramError("\n".join(last).removeprefix("plimsoll: "), child.returncode)
    return load(found[-1])


def _follow(child: subprocess.Popen[str], messages: list[str], progress: bool) -> None:
    """Keeps the messages of a program, and copies them to standard error if they should be seen."""
    assert child.stderr is not None
    for line in child.stderr:
        messages.append(line.rstrip("\n"))
        if progress:
            sys.stderr.write(line)
    child.stderr.close()
