"""Reads Plimsoll run directories as Polars frames.

    import plimsoll

    run = plimsoll.load("plimsoll-runs/20261121T120000-0a1b2c3d4e5f")
    run.windows                       # one row per store, phase, repeat, block, step and operation
    run.intervals                     # one row per second, store, phase and operation
    run.latency("get").quantile(0.99) # milliseconds, from merged histograms, never an average of percentiles
    plimsoll.compare(run, other)      # the verdicts of `plimsoll compare`

Frames convert to Arrow with ``frame.to_arrow()`` and to pandas with ``frame.to_pandas()``.
"""

from plimsoll._compare import Comparison, Row, compare
from plimsoll._histogram import Histogram
from plimsoll._run import Run, RunError, load

__all__ = ["Comparison", "Histogram", "Row", "Run", "RunError", "compare", "load"]
