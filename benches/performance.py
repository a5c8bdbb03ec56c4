#!/usr/bin/env python3
"""Writes the tables of the benches into docs/performance.md and docs/calibration.md, if PERFORMANCE=write is set.

    PERFORMANCE=write make bench-experiments
    make bench-prices | PERFORMANCE=write python3 benches/performance.py prices
    target/dist/plimsoll calibrate --json | PERFORMANCE=write python3 benches/performance.py calibrate

A table replaces the text between `<!-- bench: NAME -->` and `<!-- end -->`. The line above it names the date, the
version of Plimsoll and the machine. The benches in Python call `write`. As a command, the script copies standard input
to standard output and writes the Markdown table in it, or the table of the JSON that `plimsoll calibrate` prints.
"""
import datetime
import json
import os
import platform
import re
import sys
import textwrap

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DOCUMENTS = [os.path.join(ROOT, "docs", name) for name in ("performance.md", "calibration.md")]


def table(header, rows):
    """Returns a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def first(pattern, path, default):
    """Returns the first match of the group in a file, or the default."""
    try:
        with open(path) as file:
            found = re.search(pattern, file.read(), re.MULTILINE)
    except OSError:
        return default
    return found[1].strip() if found else default


def facts():
    """Returns one line about the measurement: date, version, CPU model, usable cores and kernel."""
    cpu = first(r"^model name\s*:(.*)", "/proc/cpuinfo", platform.machine())
    version = first(r'^version = "(.*)"', os.path.join(ROOT, "Cargo.toml"), "of unknown version")
    return (f"{datetime.date.today()}, Plimsoll {version}: {cpu}, {len(os.sched_getaffinity(0))} cores, "
            f"{platform.system()} {platform.release()}.")


def write(section, table_markdown):
    """Replaces the table of a section; does nothing unless PERFORMANCE=write. Exits if there is no such section."""
    if os.environ.get("PERFORMANCE") != "write":
        return
    start = f"<!-- bench: {section} -->\n"
    for path in DOCUMENTS:
        with open(path) as file:
            before, marker, rest = file.read().partition(start)
        old, end, after = rest.partition("<!-- end -->")
        if not marker or not end or "<!-- bench:" in old:
            continue
        with open(path + ".new", "w") as file:
            file.write(f"{before}{start}{facts()}\n\n{table_markdown.strip()}\n{end}{after}")
        os.replace(path + ".new", path)
        print(f"wrote section {section} of {os.path.relpath(path, ROOT)}", file=sys.stderr)
        return
    sys.exit(f"section {section}: no document has `{start.strip()}` followed by `<!-- end -->`; add both lines")


def milliseconds(value):
    """Returns a number of milliseconds with about three significant digits; `None` is not a finite number."""
    if value is None:
        return "-"
    decimals = 3 if abs(value) < 1 else 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
    return f"{value:.{decimals}f}"


def signed(value):
    """Returns a number with its sign and three decimals; `None` is not a finite number."""
    return "-" if value is None else f"{value:+.3f}"


def calibration(report):
    """Returns the table of the JSON that `plimsoll calibrate` prints."""
    rows = [[row["name"], row["metric"], milliseconds(row["true_ms"]) if row["true_ms"] else "-",
             ("> " if row["bound"] else "") + milliseconds(row["measured_ms"]), signed(row["error_ms"]),
             f"{row['allowed_ms']:.3f}"] for row in report["scenarios"]]
    return table(["scenario", "figure", "true value, ms", "measured, ms", "error, ms", "allowed, ms"], rows)


def wrapped(line):
    """Wraps a line of text at 120 columns; a line of a table stays as it is."""
    return line if line.startswith("|") else textwrap.fill(line, 120)


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: COMMAND | PERFORMANCE=write python3 benches/performance.py SECTION")
    lines = []
    for line in sys.stdin:
        print(line, end="", flush=True)
        lines.append(line)
    text = "".join(lines)
    if text.lstrip().startswith("{"):
        markdown = calibration(json.loads(text))
    elif sys.argv[1] == "statistics":
        markdown = "\n".join(wrapped(line) for line in text.splitlines())
    else:
        markdown = "".join(line for line in lines if line.startswith("|"))
    if not markdown:
        sys.exit(f"section {sys.argv[1]}: standard input has no table; pipe the output of the bench into this script")
    write(sys.argv[1], markdown)


if __name__ == "__main__":
    main()
