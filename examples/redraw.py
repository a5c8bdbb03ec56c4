#!/usr/bin/env python3
"""Reproduces two published figures from your own runs.

`redraw.py ramp RUN -o ramp.png` plots throughput and latency against concurrency, and throughput over time, as R2-bench
does. `redraw.py ycsb RUN... -o ycsb.png` plots p50, p90 and operations per second over time for each operation, and the
duration of the load, as Tigris does in its comparison of small objects. Each store has its own colour.

Measure the runs with `plimsoll run ramp --store S` and `plimsoll run ycsb --store A --store B`.
Install the dependencies with `pip install '.[examples]'`.
"""

import argparse
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import polars as pl

import plimsoll

COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"]


def short(store: str) -> str:
    """Returns the URL of a store without its parameters."""
    return store.split("?")[0]


def ramp(runs: list[plimsoll.Run]) -> plt.Figure:
    """Plots throughput, efficiency and latency by concurrency, and throughput by second."""
    figure, axes = plt.subplots(2, 2, figsize=(12, 8), constrained_layout=True)
    for number, run in enumerate(runs):
        steps = run.windows.filter((pl.col("role") == "measure") & pl.col("step").is_not_null())
        if steps.is_empty():
            sys.exit(f"{run.path}: the run has no ramp; measure one with `plimsoll run ramp`")
        for offset, (store, own) in enumerate(sorted(steps.group_by("store"))):
            name, colour = short(store[0]), COLOURS[(number + offset) % len(COLOURS)]
            own = own.sort("step")
            gbit = own["throughput_bytes_per_s"] * 8 / 1e9
            axes[0, 0].plot(own["in_flight_mean"], gbit, "o-", color=colour, label=name)
            axes[0, 1].plot(own["in_flight_mean"], gbit / own["in_flight_mean"] * 1e3, "o-", color=colour)
            for q, style in ((0.5, "-"), (0.99, "--")):
                latency = [run.latency(store=store[0], step=step).quantile(q) for step in own["step"]]
                axes[1, 0].plot(own["in_flight_mean"], latency, style, color=colour, label=f"p{q * 100:g}")
            seconds = run.intervals.filter((pl.col("store") == store[0]) & (pl.col("role") == "measure"))
            by_second = seconds.group_by("second").agg(pl.col("bytes").sum()).sort("second")
            axes[1, 1].plot(by_second["second"], by_second["bytes"] * 8 / 1e9, color=colour, linewidth=1)
    labels = [("operations in flight", "Gbit/s"), ("operations in flight", "Mbit/s each"),
              ("operations in flight", "service time, ms"), ("second", "Gbit/s")]
    for axis, (x, y) in zip(axes.flat, labels, strict=True):
        axis.set(xlabel=x, ylabel=y, ylim=(0, None))
        axis.grid(alpha=0.3)
    axes[0, 0].legend()
    axes[1, 0].legend()
    return figure


def ycsb(runs: list[plimsoll.Run]) -> plt.Figure:
    """Plots percentiles and rates by second and operation, one colour per store, and the duration of the load."""
    measured = pl.col("role") == "measure"
    operations = sorted({op for run in runs for op in run.intervals.filter(measured)["operation"]})
    figure, axes = plt.subplots(len(operations) + 1, 3, figsize=(14, 3.2 * (len(operations) + 1)), squeeze=False,
                                constrained_layout=True)
    bars = []
    for number, run in enumerate(runs):
        for offset, store in enumerate(run.intervals["store"].unique(maintain_order=True)):
            colour, own = COLOURS[(number + offset) % len(COLOURS)], run.intervals.filter(pl.col("store") == store)
            for row, operation in enumerate(operations):
                seconds = own.filter(measured & (pl.col("operation") == operation)).sort("second")
                found = [plimsoll.Histogram.decode(h) for h in seconds["service"]]
                at = seconds["second"] - (seconds["second"].min() or 0)
                for column, (q, name) in enumerate(((0.5, "p50"), (0.9, "p90"))):
                    axes[row, column].plot(at, [h.quantile(q) for h in found], color=colour, label=short(store))
                    axes[row, column].set(ylabel=f"{operation} {name}, ms", ylim=(0, None))
                axes[row, 2].plot(at, seconds["completed"], color=colour, label=short(store))
                axes[row, 2].set(ylabel=f"{operation} per second", ylim=(0, None))
            # The load is the phase `load` of a YCSB run, or all phases that are not measured.
            load = own.filter(~measured | (pl.col("phase") == "load"))
            bars.append((short(store), load["second"].n_unique(), colour))
    names, lengths, colours = zip(*bars, strict=True)
    axes[-1, 0].bar(range(len(names)), lengths, color=colours, tick_label=names)
    axes[-1, 0].set(ylabel="load, s")
    for axis in axes[-1, 1:]:
        axis.axis("off")
    axes[0, 0].legend()
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("figure", choices=["ramp", "ycsb"])
    parser.add_argument("runs", nargs="+")
    parser.add_argument("-o", "--out", default="figure.png")
    arguments = parser.parse_args()
    try:
        runs = [plimsoll.load(run) for run in arguments.runs]
    except plimsoll.RunError as error:
        sys.exit(str(error))
    {"ramp": ramp, "ycsb": ycsb}[arguments.figure](runs).savefig(arguments.out, dpi=150)
    print(arguments.out)


if __name__ == "__main__":
    main()
