"""Reader of run directories."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from plimsoll._histogram import Histogram
from plimsoll._html import figure, table

SCHEMA = 3
"""Newest schema version of ``result.json`` that this package reads. It reads version 1 too, under the new names."""

_RENAMED = {
    "side_calls": "background_requests", "what": "request", "ended": "end_reason", "holds_per_s": "highest_met_per_s",
    "breaks_per_s": "lowest_missed_per_s", "held": "met", "broke": "missed", "needs_s": "duration_needed_s",
    "above": "lower_bounds", "needs": "samples_needed",
}
"""Field names of schema 1 that schema 2 replaced."""

_NESTED = ("histograms", "errors", "upload", "cache_ms", "size_classes", "addresses")


class RunError(Exception):
    """A run directory that cannot be read. The message names the file and the problem."""


@dataclass(frozen=True)
class Run:
    """One run, read from its directory. Frames are created on first access."""

    path: Path
    """The run directory."""
    result: dict[str, Any] = field(repr=False)
    """Content of ``result.json``."""

    @property
    def id(self) -> str:
        """Returns the id of the run, which is also the name of its directory."""
        return str(self.result["run"]["id"])

    @cached_property
    def windows(self) -> pl.DataFrame:
        """Returns one row per store, phase, repeat, block, step and operation.

        Percentiles are columns such as ``service_ms.p99``, in milliseconds.
        """
        return pl.DataFrame([_flat(w) for w in self.result["windows"]], infer_schema_length=None)

    @cached_property
    def confidence(self) -> pl.DataFrame:
        """Returns one row per figure of the measured phases, with its value and its 95% confidence interval.

        Without an interval, ``low`` and ``high`` are null, and ``duration_needed_s`` is the number of seconds that would suffice.
        """
        schema = {"store": pl.String, "phase": pl.String, "step": pl.Int64, "operation": pl.String, "metric": pl.String,
                  "unit": pl.String, "value": pl.Float64, "low": pl.Float64, "high": pl.Float64, "duration_needed_s": pl.Float64,
                  "client_limited": pl.String}
        rows = [{name: row.get(name) for name in schema} for row in self.result.get("confidence", [])]
        return pl.DataFrame(rows, schema=schema)

    @cached_property
    def intervals(self) -> pl.DataFrame:
        """Returns one row per second of completion, store, phase and operation.

        ``service``, ``response`` and ``first_byte`` are encoded histograms; decode them with :meth:`Histogram.decode`.
        """
        return _stream(self.path / "intervals.arrows")

    @cached_property
    def operations(self) -> pl.DataFrame:
        """Returns one row per operation. Only runs with ``--record operations`` have this file."""
        return _stream(self.path / "operations.arrows")

    def _repr_html_(self) -> str:
        rows, notes = [], []
        for window in self.result["windows"]:
            if window["role"] != "measure":
                continue
            is_open = window["loop"] == "open"
            load = f"{figure(window['offered_per_s'])}/s" if is_open else f"{window['concurrency']} in flight"
            times = window["response_ms" if is_open else "service_ms"] or {}
            failed = sum(window["errors"].values())
            rows.append((window["store"], window["phase"], window["operation"], load, f"{window['operations']:,}",
                         f"{failed:,}", figure(window["achieved_per_s"]), figure(times.get("p50")), figure(times.get("p99"))))
            if window.get("client_limited"):
                notes.append(f"{window['phase']} {window['operation']}: limited by the client, not by the store "
                             f"({window['client_limited']})")
        columns = ("store", "phase", "operation", "load", "count", "failed", "per second", "p50, ms", "p99, ms")
        judged = [f"{each['outcome']}: {each['objective']} ({each['store']})" for each in self.result.get("objectives") or []]
        return table(f"{self.result['run']['experiment']}, {self.id}", columns, rows, [*judged, *notes])

    def latency(self, operation: str | None = None, *, store: str | None = None, phase: str | None = None,
                step: int | None = None, which: str | None = None) -> Histogram:
        """Returns the merged latencies of all measured operations that match the arguments.

        ``which`` is ``service``, ``response`` or ``first_byte``. The default is the response time in open loops and the
        service time in closed loops.
        """
        found = []
        for window in self.result["windows"]:
            filters = {"operation": operation, "store": store, "phase": phase, "step": step}
            if window["role"] != "measure" or any(v is not None and window.get(k) != v for k, v in filters.items()):
                continue
            name = which or ("response" if window["loop"] == "open" else "service")
            found.append(Histogram.decode(window["histograms"].get(name)))
        return Histogram.merge(found)


def load(path: str | Path) -> Run:
    """Reads a run directory. Raises :class:`RunError` if it is not a run directory, or has an unknown schema version."""
    path = Path(path)
    file = path / "result.json"
    try:
        result = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise RunError(f"{file}: no such file; specify a run directory, such as plimsoll-runs/<run-id>") from error
    except (OSError, ValueError) as error:
        raise RunError(f"{file}: {error}") from error
    found = result.get("schema") if isinstance(result, dict) else None
    if found not in range(1, SCHEMA + 1):
        raise RunError(f"{file}: unsupported schema {found!r}: this package reads schema 1 to {SCHEMA}; install the "
                       "package that matches the version of the run")
    return Run(path, _renamed(result) if found == 1 else result)


def _renamed(value: Any) -> Any:
    """Returns a result of schema 1 with the field names of schema 2."""
    if isinstance(value, list):
        return [_renamed(item) for item in value]
    if isinstance(value, dict):
        return {_RENAMED.get(name, name): _renamed(item) for name, item in value.items()}
    return value


def _flat(window: dict[str, Any]) -> dict[str, Any]:
    """Flattens a window: percentiles become columns, and ``failed`` is the sum of all errors."""
    out: dict[str, Any] = {}
    for name, value in window.items():
        if name.endswith("_ms") and isinstance(value, dict) and name not in _NESTED:
            out.update({f"{name}.{p}": v for p, v in value.items() if p not in ("lower_bounds", "samples_needed")})
        elif name not in _NESTED and not (name.endswith("_ms") and value is None):
            out[name] = value
    out["failed"] = sum(window.get("errors", {}).values())
    return out


def _stream(path: Path) -> pl.DataFrame:
    """Reads an Arrow stream. If a killed run left it incomplete, reads the complete batches."""
    if not path.exists():
        raise RunError(f"{path}: no such file")
    try:
        return pl.read_ipc_stream(path)
    except (pl.exceptions.PolarsError, OSError) as whole:
        try:
            import pyarrow.ipc
        except ImportError:
            raise RunError(f"{path}: incomplete file: {whole}; install pyarrow to read the complete part") from whole
        batches = []
        with pyarrow.ipc.open_stream(path) as reader:
            try:
                batches.extend(iter(reader))
            except (pyarrow.ArrowInvalid, OSError):
                pass
            frame = pl.from_arrow(pyarrow.Table.from_batches(batches, schema=reader.schema))
        assert isinstance(frame, pl.DataFrame)
        return frame
