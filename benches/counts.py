#!/usr/bin/env python3
"""Counts the instructions and system calls of one request, of the client and of the server, with callgrind.

    make bench-counts                       # builds, then compares the counts with benches/counts.json
    COUNTS=write make bench-counts          # writes the counts there, after a change that is worth its cost

Each count is the difference between a run of many requests and one of few, divided by the difference of their numbers,
so that start and end do not count. Times do not enter, so the counts vary by less than 1%; a count that is too high is
taken again, and the lowest of three counts. Clock reads are system calls here, because valgrind has no vDSO.

The counts depend on the compiler, libc, valgrind and the processor, which are committed with them. On another machine
they are printed, and not compared. A count more than 3% above the committed one fails. Needs valgrind.
"""
import glob
import json
import os
import platform
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAM = os.path.join(ROOT, "target", "release", "counts")
COMMITTED = os.path.join(ROOT, "benches", "counts.json")
FEW, MANY = 500, 2000
TOLERANCE = 0.03


def totals(kind, requests):
    """Returns instructions and system calls of the client, which is thread 1, and of the server: all other threads."""
    with tempfile.TemporaryDirectory() as out:
        done = subprocess.run(["valgrind", "--tool=callgrind", "--separate-threads=yes", "--collect-systime=yes",
                               f"--callgrind-out-file={out}/counts", PROGRAM, kind, str(requests)],
                              capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"counts {kind} failed:\n{done.stdout}{done.stderr}")
        found = {"client": (0, 0), "server": (0, 0)}
        for path in glob.glob(f"{out}/counts-*"):
            text = open(path).read()
            events = re.search(r"^events: (.*)$", text, re.M)[1].split()
            values = [int(n) for n in re.search(r"^(?:totals|summary): (.*)$", text, re.M)[1].split()]
            values += [0] * (len(events) - len(values))
            of = dict(zip(events, values))
            side = "client" if int(path.rsplit("-", 1)[1]) == 1 else "server"
            found[side] = (found[side][0] + of["Ir"], found[side][1] + of["sysCount"])
        return found


def per_request(kind):
    """Returns the counts of one request: those of the client and those of the server."""
    few, many = totals(kind, FEW), totals(kind, MANY)
    added = lambda side: tuple((m - f) / (MANY - FEW) for m, f in zip(many[side], few[side]))
    return {side: added(side) for side in ("client", "server")}


def machine():
    """Returns what the counts depend on."""
    first = lambda *command: subprocess.run(command, capture_output=True, text=True).stdout.split("\n")[0]
    processor = open("/proc/cpuinfo").read()
    of = lambda name: re.search(rf"^{name}\s*: (.*)$", processor, re.M)
    flags = of("flags")[1].split() if of("flags") else []
    known = [flag for flag in ("ssse3", "avx", "avx2", "bmi1", "bmi2", "f16c", "rdrand", "sha_ni") if flag in flags]
    vendor = of("vendor_id")[1] if of("vendor_id") else platform.machine()
    return {"compiler": first("rustc", "-V"), "libc": first("ldd", "--version"), "valgrind": first("valgrind", "--version"),
            "processor": " ".join([vendor, *known])}


def measured(limits):
    """Returns all counts; those above their limits are taken again, and the lowest of three is returned."""
    found = {}
    for kind in ("get", "put"):
        for _ in range(3):
            for side, counts in per_request(kind).items():
                name = f"{side} {kind}"
                values = dict(zip(("instructions", "system calls"), (round(counts[0]), round(counts[1], 2))))
                found[name] = {what: min(value, found.get(name, values)[what]) for what, value in values.items()}
            mine = [(name, what) for name in found if name.endswith(kind) for what in found[name]]
            if limits and all(found[name][what] <= limits[name][what] * (1 + TOLERANCE) for name, what in mine):
                break
    return found


def main():
    here = machine()
    known = json.load(open(COMMITTED)) if os.path.exists(COMMITTED) else {"machine": None, "counts": {}}
    writes, same = os.environ.get("COUNTS") == "write", known["machine"] == here
    found = measured(known["counts"] if same and not writes else None)
    if writes:
        with open(COMMITTED, "w") as out:
            json.dump({"machine": here, "counts": found}, out, indent=2)
            out.write("\n")
        known, same = {"machine": here, "counts": found}, True
    if not same:
        print(f"not compared: the committed counts are those of {known['machine']}, and this is {here}")
        for name, counts in found.items():
            print(f"{name:12} " + ", ".join(f"{count:,.2f} {what}" for what, count in counts.items()))
        return
    committed, failed = known["counts"], False
    for name, counts in found.items():
        for what, count in counts.items():
            limit = committed[name][what]
            change = count / limit - 1
            verdict = "OVER" if change > TOLERANCE else "less: COUNTS=write" if change < -TOLERANCE else "ok"
            failed |= change > TOLERANCE
            print(f"{name:12} {what:13} {count:10,.2f}  committed {limit:10,.2f}  {change:+7.1%}  {verdict}")
    if failed:
        sys.exit("a request costs more than the committed counts allow")


if __name__ == "__main__":
    main()
