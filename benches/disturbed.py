#!/usr/bin/env python3
"""Measures the errors of service times on a disturbed machine, with and without the kernel's timestamps.

    python3 benches/disturbed.py [PLIMSOLL]          # about three minutes
    PERFORMANCE=write python3 benches/disturbed.py   # also writes the table into docs/calibration.md

Runs scenarios of `plimsoll calibrate` while one busy loop per core uses the CPU, and while the client is stopped for 50
ms ten times. Exits with 1 if an error with the kernel's timestamps exceeds 2% and 0.5 ms, or if all errors with the clock
of the process are below that: the disturbance is then too weak to show anything.
"""
import json
import os
import signal
import subprocess
import sys
import threading
import time

import performance

PLIMSOLL = sys.argv[1] if len(sys.argv) > 1 else "target/dist/plimsoll"
LIMIT_SHARE, LIMIT_MS = 0.02, 0.5


def calibrate(scenario, clock, disturb):
    """Returns the report of one scenario while `disturb(process)` runs in another thread."""
    command = [PLIMSOLL, "calibrate", "--json", "--attempts", "1", "--only", scenario, "--clock", clock]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    thread = threading.Thread(target=disturb, args=(process,), daemon=True)
    thread.start()
    out, _ = process.communicate()
    thread.join()
    return json.loads(out)


def nothing(_):
    """Does not disturb."""


def stop_ten_times(process):
    """Stops the client for 50 ms, ten times, during the measurement of the scenario `constant`."""
    time.sleep(6)
    for _ in range(10):
        try:
            process.send_signal(signal.SIGSTOP)
            time.sleep(0.05)
            process.send_signal(signal.SIGCONT)
        except ProcessLookupError:
            return
        time.sleep(1.5)


class BusyLoops:
    """One process per core that uses all CPU time it gets."""

    def __enter__(self):
        loop = [sys.executable, "-c", "while True: pass"]
        self.loops = [subprocess.Popen(loop) for _ in os.sched_getaffinity(0)]

    def __exit__(self, *_):
        for loop in self.loops:
            loop.kill()
            loop.wait()


def main():
    rows, failed, contrast = [], [], 0
    for clock in ("kernel", "process"):
        reports = []
        with BusyLoops():
            for scenario in ("floor", "constant"):
                reports.append(("busy loops", scenario, calibrate(scenario, clock, nothing)))
        reports.append(("stopped 10 times", "constant", calibrate("constant", clock, stop_ten_times)))
        for disturbance, scenario, report in reports:
            pauses = report["pauses"].get(scenario, {"count": 0, "longest_ms": 0})
            for row in report["scenarios"]:
                if not row["metric"].startswith("service"):
                    continue
                wrong = abs(row["error_ms"]) > max(LIMIT_SHARE * row["true_ms"], LIMIT_MS)
                rows.append([disturbance, scenario, clock, row["metric"], performance.milliseconds(row["true_ms"]),
                             performance.milliseconds(row["measured_ms"]), performance.signed(row["error_ms"]),
                             "over" if wrong else "within", pauses["count"]])
                if wrong and clock == "kernel":
                    failed.append(f"{disturbance} {scenario} {row['metric']}")
                contrast += wrong and clock == "process"
    header = ["disturbance", "scenario", "clock", "figure", "true value, ms", "measured, ms", "error, ms", "limit", "pauses"]
    markdown = performance.table(header, rows)
    print(markdown)
    performance.write("disturbed", markdown)
    if failed or not contrast:
        sys.exit(f"over the limit with the kernel's timestamps: {failed}; over it with the process's: {contrast}")


if __name__ == "__main__":
    main()
