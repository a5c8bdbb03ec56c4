#!/usr/bin/env python3
"""Counts the instructions and system calls of one request, of the client, the server and the gateway, with callgrind.

    make bench-counts                       # builds, then compares the counts with benches/counts.json
    COUNTS=write make bench-counts          # writes the counts there, after a change that is worth its cost

Each count is the difference between a run of many requests and one of few, divided by the difference of their numbers,
so that start and end do not count. Times do not enter, so the counts vary by less than 1%; a count that is too high is
taken again, and the lowest of three counts. Clock reads are system calls here, because valgrind has no vDSO. The gateway
keeps 1 KiB in its catalog, and reads 64 KiB from a tier, which is another gateway. Two of its threads look for
work at certain times, so its system calls are not counted, and its instructions vary by 2%.

The counts depend on the compiler, libc, valgrind and the processor, which are committed with them. On another machine
they are printed, and not compared. A count more than 3% above the committed one fails. Needs valgrind.
"""
import functools
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
GATEWAY = os.path.join(ROOT, "target", "release", "plimsoll-gateway")
CALLGRIND = ["valgrind", "--tool=callgrind", "--separate-threads=yes", "--collect-systime=yes"]
ACCESS = {"PLIMSOLL_ACCESS_KEY": "counts", "PLIMSOLL_SECRET_KEY": "counts-secret",
          "AWS_ACCESS_KEY_ID": "counts", "AWS_SECRET_ACCESS_KEY": "counts-secret"}
COMMITTED = os.path.join(ROOT, "benches", "counts.json")
FEW, MANY = 500, 2000
TOLERANCE = 0.03


def totals(out):
    """Returns instructions and system calls of each thread that callgrind has written to a directory, by its number."""
    found = {}
    for path in glob.glob(f"{out}/counts-*"):
        text = open(path).read()
        events = re.search(r"^events: (.*)$", text, re.M)[1].split()
        values = [int(n) for n in re.search(r"^(?:totals|summary): (.*)$", text, re.M)[1].split()]
        of = dict(zip(events, values + [0] * (len(events) - len(values))))
        thread = int(path.rsplit("-", 1)[1])
        before = found.get(thread, (0, 0))
        found[thread] = (before[0] + of["Ir"], before[1] + of["sysCount"])
    return found


def added(counts):
    """Returns the sums of pairs."""
    return tuple(map(sum, zip(*counts))) or (0, 0)


def ask(kind, requests, size, *address):
    """Returns the command of the client."""
    return [PROGRAM, kind, str(requests), str(size), *address]


def store(kind, requests):
    """Counts the client, which is thread 1, and the server in memory: all other threads."""
    with tempfile.TemporaryDirectory() as out:
        done = subprocess.run([*CALLGRIND, f"--callgrind-out-file={out}/counts", *ask(kind, requests, 1024)],
                              capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"counts {kind} failed:\n{done.stdout}{done.stderr}")
        threads = totals(out)
        return {f"client {kind}": threads[1],
                f"server {kind}": added(counts for thread, counts in threads.items() if thread != 1)}


class Gateway:
    """A gateway, with the words that begin its command line."""

    def __init__(self, *settings, under=()):
        self.process = subprocess.Popen([*under, GATEWAY, "run", *settings, "--listen", "127.0.0.1:0", "--threads", "1"],
                                        env={**os.environ, **ACCESS}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{' '.join(self.process.args)}:\n{self.process.stderr.read()}")
        self.address = line.split()[-1].removeprefix("http://")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.communicate()


TIERED = """
[catalog]
url = "dir:{out}/catalog"
[tier.hot]
url = "s3://counts?endpoint=http://{address}"
[write]
tier = "hot"
inline = "4 KiB"
[cache]
memory = "0 B"
"""


def gateway(settings, name, kind, size, requests):
    """Counts the instructions of all threads of a gateway, and nothing of its client."""
    with tempfile.TemporaryDirectory() as out, Gateway("--data", f"{out}/tier") as tier:
        subprocess.run(ask("put", 0, 1, tier.address), check=True, capture_output=True)
        with open(f"{out}/gateway.toml", "w") as file:
            file.write(TIERED.format(out=out, address=tier.address))
        words = [word.format(out=out) for word in settings]
        with Gateway(*words, under=[*CALLGRIND, f"--callgrind-out-file={out}/counts"]) as counted:
            subprocess.run(ask(kind, requests, size, counted.address), check=True, capture_output=True)
        return {name: added(totals(out).values())[:1]}


KINDS = [
    functools.partial(store, "get"),
    functools.partial(store, "put"),
    functools.partial(gateway, ["--data", "{out}/data"], "gateway get", "get", 1024),
    functools.partial(gateway, ["--data", "{out}/data"], "gateway put", "put", 1024),
    functools.partial(gateway, ["{out}/gateway.toml"], "gateway tier get", "get", 65536),
]


def per_request(kind):
    """Returns the counts of one request, by name."""
    few, many = kind(FEW), kind(MANY)
    return {name: tuple((m - f) / (MANY - FEW) for m, f in zip(many[name], few[name])) for name in many}


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
    for kind in KINDS:
        for _ in range(3):
            counted = per_request(kind)
            for name, counts in counted.items():
                values = {what: round(count, digits)
                          for (what, digits), count in zip((("instructions", None), ("system calls", 2)), counts)}
                found[name] = {what: min(value, found.get(name, values)[what]) for what, value in values.items()}
            if limits and all(found[name][what] <= limits[name][what] * (1 + TOLERANCE)
                              for name in counted for what in found[name]):
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
            print(f"{name:16} " + ", ".join(f"{count:,.2f} {what}" for what, count in counts.items()))
        return
    committed, failed = known["counts"], False
    for name, counts in found.items():
        for what, count in counts.items():
            limit = committed[name][what]
            change = count / limit - 1
            verdict = "OVER" if change > TOLERANCE else "less: COUNTS=write" if change < -TOLERANCE else "ok"
            failed |= change > TOLERANCE
            print(f"{name:16} {what:13} {count:10,.2f}  committed {limit:10,.2f}  {change:+7.1%}  {verdict}")
    if failed:
        sys.exit("a request costs more than the committed counts allow")


if __name__ == "__main__":
    main()
