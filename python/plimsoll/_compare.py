"""The comparisons of ``plimsoll compare``, made by the binary itself, so that they are the same."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from plimsoll._run import Run, RunError


@dataclass(frozen=True)
class Row:
    """One figure of two sides."""

    phase: str
    operation: str
    metric: str
    unit: str
    """``ms``, ``per_s``, ``bytes_per_s`` or ``share``."""
    base: float | None
    other: float | None
    change: float | None
    """The other over the base; for errors the difference of the shares."""
    change_low: float | None
    change_high: float | None
    verdict: str
    """``faster``, ``slower``, ``no difference shown`` or ``cannot tell``."""
    smallest: float | None
    """The smallest relative change that could have been shown."""
    primary: bool
    """Whether it was declared beforehand."""
    base_client_limited: str | None = None
    """What limited the client on the base's side; its figure is then a bound."""
    other_client_limited: str | None = None
    """The same of the other side."""


@dataclass(frozen=True)
class Comparison:
    """Two sides held against each other."""

    base: str
    """Name of the first."""
    other: str
    """Name of the second."""
    clients: list[str]
    """What differs about who measured."""
    rows: list[Row]
    """Figure by figure."""
    loads: list[str] = field(default_factory=list)
    """What differs about the loads of imported runs."""

    @property
    def primary(self) -> Row | None:
        """The figure that was declared beforehand."""
        return next((row for row in self.rows if row.primary), None)

    def frame(self) -> pl.DataFrame:
        """The rows as a frame."""
        return pl.DataFrame([vars(row) for row in self.rows], infer_schema_length=None)


def compare(*runs: Run | str | Path, primary: str | None = None) -> list[Comparison]:
    """Compares runs with the first of them, or the stores of one run with its first.

    ``primary`` is the figure to decide by, such as ``get.p99``. Raises :class:`RunError` when they cannot be compared.
    """
    paths = [str(run.path if isinstance(run, Run) else run) for run in runs]
    extra = ["--primary", primary] if primary else []
    done = subprocess.run([_binary(), "compare", "--json", *extra, *paths], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RunError(done.stderr.strip().removeprefix("plimsoll: "))
    return [_comparison(document) for document in json.loads(done.stdout)["comparisons"]]


def _comparison(document: dict[str, Any]) -> Comparison:
    names = ("phase", "operation", "metric", "unit", "change", "change_low", "change_high", "verdict", "smallest", "primary")
    rows = [
        Row(base=row["base"]["value"], other=row["other"]["value"], **{name: row[name] for name in names},
            base_client_limited=row["base"].get("client_limited"), other_client_limited=row["other"].get("client_limited"))
        for row in document["rows"]
    ]
    return Comparison(document["base"]["name"], document["other"]["name"], document["clients"], rows, document["loads"])


def _binary() -> str:
    """The binary that came with this package, else the one on the path."""
    beside = [Path(sys.executable).parent, Path(sysconfig.get_path("scripts"))]
    found = next((str(place / "plimsoll") for place in beside if (place / "plimsoll").exists()), shutil.which("plimsoll"))
    if found is None:
        raise RunError("the plimsoll binary is neither beside this Python nor on the path; `pip install .` brings it")
    return found
