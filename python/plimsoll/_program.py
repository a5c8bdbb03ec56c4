"""The program ``plimsoll`` that this package starts."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from pathlib import Path


class ProgramError(Exception):
    """The program refused its input, could not use the store, or is not installed."""

    code: int | None
    """Exit code: 2 for invalid input, 3 for a store that cannot be used, 4 for results that the disk could not store.

    ``None`` if the program did not start.
    """

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code


def program() -> str:
    """Returns the path of the program: ``PLIMSOLL_BIN``, that of this package, or the one on ``PATH``."""
    installed = [folder / "plimsoll" for folder in (Path(sys.executable).parent, Path(sysconfig.get_path("scripts")))]
    found = next((str(path) for path in installed if path.exists()), shutil.which("plimsoll"))
    found = os.environ.get("PLIMSOLL_BIN") or found
    if found is None:
        raise ProgramError("the program plimsoll is neither beside this Python nor on PATH; install it with `pip install .`")
    return found


def flags(options: dict[str, object]) -> list[str]:
    """Returns keyword arguments as options of the program: ``part_size="8MiB"`` is ``--part-size 8MiB``.

    ``True`` is an option without a value, ``None`` and ``False`` leave it out, and a list repeats it.
    """
    words: list[str] = []
    for name, value in options.items():
        flag = "--" + name.rstrip("_").replace("_", "-")
        for each in value if isinstance(value, (list, tuple)) else [value]:
            if each is True:
                words.append(flag)
            elif each is not None and each is not False:
                # One word, because a value may begin with a dash.
                words.append(f"{flag}={each}")
    return words
