"""Measures object stores, and reads Plimsoll's run directories as Polars frames.

    import plimsoll

    run = plimsoll.run("get", store="s3://bucket", size="64KiB", rate="500/s", slo="get.p99 < 20ms")
    run = plimsoll.load("plimsoll-runs/20261121T120000-0a1b2c3d4e5f")
    run.windows                       # one row per store, phase, repeat, block, step and operation
    run.intervals                     # one row per second, store, phase and operation
    run.latency("get").quantile(0.99) # milliseconds, from merged histograms, never an average of percentiles
    plimsoll.compare(run, other)      # the verdicts of `plimsoll compare`
    with plimsoll.serve(inject="latency=5ms") as server:      # an S3 server for tests
        boto3.client("s3", **server.boto3)

Frames convert to Arrow with ``frame.to_arrow()`` and to pandas with ``frame.to_pandas()``; DuckDB queries them as they are.
"""

from plimsoll._compare import Comparison, Row, compare
from plimsoll._histogram import Histogram
from plimsoll._measure import run
from plimsoll._program import ProgramError
from plimsoll._run import Run, RunError, load
from plimsoll._serve import Server, serve

__all__ = ["Comparison", "Histogram", "ProgramError", "Row", "Run", "RunError", "Server", "compare", "load", "run", "serve"]
