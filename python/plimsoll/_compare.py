"""Comparisons of runs. The package runs the ``plimsoll compare`` binary, so the results are identical."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from plimsoll._html import figure, table
from plimsoll._program import program
from plimsoll._run import Run, RunError


@dataclass(frozen=True)
class Row:
    """Comparison of one figure on both sides."""

    phase: str
    operation: str
    metric: str
    unit: str
    """Unit of the figure: ``ms``, ``per_s``, ``bytes_per_s`` or ``share``."""
    base: float | None
    """Value on the base side; ``None`` if it is unknown."""
    other: float | None
    """Value on the other side; ``None`` if it is unknown."""
    change: float | None
    """Ratio of the other side to the base; for ``errors``, the difference of the shares. ``None`` if it is unknown."""
    change_low: float | None
    """Lower end of the 95% confidence interval of ``change``."""
    change_high: float | None
    """Upper end of the 95% confidence interval of ``change``."""
    verdict: str
    """Verdict on the other side: ``faster``, ``slower``, ``no difference shown`` or ``inconclusive``."""
    smallest: float | None
    """Smallest relative change that the comparison could have detected; for ``errors``, the smallest difference.

    ``None`` without an interval.
    """
    primary: bool
    """True if this is the primary figure, which is declared before the comparison."""
    base_client_limited: str | None = None
    """Bottleneck of the client on the base side; ``base`` is then only a bound. ``None`` if there was none."""
    other_client_limited: str | None = None
    """Bottleneck of the client on the other side, as for ``base_client_limited``."""


@dataclass(frozen=True)
class Comparison:
    """Comparison of two runs, or of two stores of one run."""

    base: str
    """Name of the base."""
    other: str
    """Name of the side that is compared with the base."""
    clients: list[str]
    """Differences between the clients that measured, such as vantage or CPU."""
    rows: list[Row]
    """One row per figure."""
    loads: list[str] = field(default_factory=list)
    """Differences between the loads of imported runs."""

    @property
    def primary(self) -> Row | None:
        """Returns the row of the primary figure; ``None`` if it was not measured."""
        return next((row for row in self.rows if row.primary), None)

    def frame(self) -> pl.DataFrame:
        """Returns the rows as a frame."""
        return pl.DataFrame([vars(row) for row in self.rows], infer_schema_length=None)

    def _repr_html_(self) -> str:
        columns = ("figure", "unit", self.base, self.other, "ratio", "95%", f"{self.other} is")
        rows = []
        for row in self.rows:
            interval = f"{figure(row.change_low)} to {figure(row.change_high)}" if row.change_low is not None else "-"
            name = f"{row.phase} {row.operation} {row.metric}{' *' if row.primary else ''}"
            rows.append((name, row.unit, figure(row.base), figure(row.other), figure(row.change), interval, row.verdict))
        limited = {reason for row in self.rows for reason in (row.base_client_limited, row.other_client_limited) if reason}
        notes = [f"limited by the client: {reason}" for reason in sorted(limited)]
        return table(f"{self.other} compared with {self.base}", columns, rows, [*notes, *self.clients, *self.loads])


def compare(*runs: Run | str | Path, primary: str | None = None) -> list[Comparison]:
    """Compares each run with the first one, or each store of a single run with its first store.

    ``primary`` is the primary figure, such as ``get.p99``. Raises :class:`RunError` if the runs cannot be compared.
    """
    paths = [str(run.path if isinstance(run, Run) else run) for run in runs]
    extra = ["--primary", primary] if primary else []
    done = subprocess.run([program(), "compare", "--json", *extra, *paths], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RunError(done.stderr.strip().removeprefix("plimsoll: "))
    return [_comparison(document) for document in json.loads(done.stdout)["comparisons"]]


def _comparison(document: dict[str, Any]) -> Comparison:
    names = ("phase", "operation", "metric", "unit", "change", "change_low", "change_high", "verdict", "smallest",
             "primary")
    rows = [
        Row(base=row["base"]["value"], other=row["other"]["value"], **{name: row[name] for name in names},
            base_client_limited=row["base"].get("client_limited"),
            other_client_limited=row["other"].get("client_limited"))
        for row in document["rows"]
    ]
    return Comparison(document["base"]["name"], document["other"]["name"], document["clients"], rows, document["loads"])

