#!/usr/bin/env python3
"""Makes the pages of the results from their raw data, and nothing else: `make results-pages`.

    results/pages.py            writes README.md and SERVER/README.md
    results/pages.py --check    verifies every run and compares the pages; exit code 1 if one differs
"""
import csv
import json
import pathlib
import re
import statistics
import subprocess
import sys
import textwrap

from servers import PLIMSOLL, profile

HERE = pathlib.Path(__file__).resolve().parent
LOADS = ("get-4KiB", "put-4KiB", "get-1MiB", "put-1MiB")
FOLDER = re.compile(r"plimsoll-durability/plimsoll/19700101T000000-[0-9a-f]+/")
# Sequences with which a terminal selects colours.
COLOUR = re.compile("\x1b\\[[0-9;]*m")
# Changes of the disk that a page shows of a proof.
MAX_CHANGES = 12
KINDS = ("lost", "damaged", "old", "back", "unreadable", "listing")
PARTS = ("latency-1", "latency-2", "latency-3", "capacity-get", "capacity-put", "fitness.json", "durability.json")
EMPTY = "-"
# Longest line of a page, in characters.
WIDTH = 120


def three_digits(value):
    """Writes a number with three significant digits and thousands separators."""
    if value is None:
        return EMPTY
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value < 0.1 else f"{value:.{2 if value < 10 else 1}f}"


def spread(values):
    """Writes the median of the repeats, with the lowest and the highest."""
    if None in values or not values:
        return EMPTY
    low, middle, high = (three_digits(value) for value in (min(values), statistics.median(values), max(values)))
    return middle if low == high else f"{middle} ({low} to {high})"


def middle(values):
    return EMPTY if None in values or not values else three_digits(statistics.median(values))


def paragraph(text, indent=""):
    """Breaks lines at 120 columns."""
    return textwrap.fill(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def count(value):
    return f"{value:,}" if isinstance(value, int) else value


def table(head, rows):
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(map(str, map(count, line))) + " |" for line in lines) + "\n"


def servers():
    """Returns the names of the servers that were measured completely."""
    return sorted(path.parent.name for path in HERE.glob("*/server.json")
                  if all((path.parent / part).exists() for part in PARTS))


def read(name, file):
    return json.loads((HERE / name / file).read_text())


class Latency:
    """The repeats of one server."""

    def __init__(self, name):
        self.repeats = []
        for run in sorted((HERE / name).glob("latency-[0-9]")):
            with open(run.with_suffix(".cpu.csv")) as file:
                cpu = [(float(row["unix_s"]), float(row["cpu_s"])) for row in csv.DictReader(file)]
            windows = json.loads((run / "result.json").read_text())["windows"]
            self.repeats.append(({window["phase"]: window for window in windows}, cpu))

    def times(self, load, percentile):
        """Returns the percentile of the response times of each repeat, in milliseconds."""
        return [windows[load]["response_ms"][percentile] for windows, _ in self.repeats]

    def limited(self, load):
        """Returns the number of repeats in which the client was the bottleneck of some operations."""
        return sum(windows[load]["client_limited"] is not None for windows, _ in self.repeats)

    def failed(self, load):
        return sum(sum(windows[load]["errors"].values()) for windows, _ in self.repeats)

    def operations(self, load):
        return sum(windows[load]["operations"] for windows, _ in self.repeats)

    def cpu_us(self, load):
        """Returns the CPU time of the server during the load, per operation, in microseconds."""
        found = []
        for windows, cpu in self.repeats:
            window = windows[load]
            start = window["start_unix_s"]
            used = between(cpu, start + window["window_s"]) - between(cpu, start)
            found.append(1e6 * used / window["operations"])
        return found


def between(samples, time_s):
    """Returns the CPU time at a time, by linear interpolation between two samples."""
    for (before_s, before), (after_s, after) in zip(samples, samples[1:]):
        if before_s <= time_s <= after_s:
            return before + (after - before) * (time_s - before_s) / (after_s - before_s)
    raise ValueError(f"no samples of the CPU time around {time_s}")


def capacity(name, kind):
    """Returns the highest rate within the objective and the lowest that missed it, as text."""
    found = read(name, f"capacity-{kind}/result.json")["capacity"]
    met, missed = found["highest_met_per_s"], found["lowest_missed_per_s"]
    if met is None:
        return "none"
    if found.get("client_limit") or missed is None:
        return f"at least {three_digits(met)}"
    return f"{three_digits(met)} to {three_digits(missed)}"


def capacity_words(name, kind):
    line = [PLIMSOLL, "show", HERE / name / f"capacity-{kind}"]
    shown = subprocess.run(line, capture_output=True, text=True, check=True)
    return shown.stdout.splitlines()[0]


def violations(found):
    """Returns the number of violations by kind."""
    counts = dict.fromkeys(KINDS, 0)
    for kind in found["kinds"].values():
        for name, count in kind["violations"].items():
            counts[name] += count
    return counts


def due(found):
    return sum(kind["due"] for kind in found["kinds"].values())


def verdicts(name):
    """Returns the verdict of each application."""
    return {verdict["application"]: verdict for verdict in read(name, "fitness.json")["stores"][0]["verdicts"]}


def link(name):
    return f"[{profile(name)['title'].split(',')[0]}]({name}/README.md)"


def durability_table():
    rows = []
    for name in servers():
        found = read(name, "durability.json")
        counts = violations(found)
        bad_starts = len(found["not_starting"]) + len(found["not_writable"])
        rows.append([link(name), sum(counts.values()), due(found), found["cuts"], *counts.values(), bad_starts])
    head = ["server", "not kept", "of due", "cuts", "lost", "damaged", "old", "back", "unreadable", "listing wrong",
            "not usable"]
    return table(head, rows)


def latency_table(loads, percentiles):
    columns = [(load, percentile) for load in loads for percentile in percentiles]
    rows = []
    for name in servers():
        measured = Latency(name)
        star = {load: "\\*" if measured.limited(load) > 1 else "" for load in loads}
        times = [middle(measured.times(load, percentile)) + star[load] for load, percentile in columns]
        rows.append([link(name), *times])
    return table(["server", *(f"{load} {percentile}" for load, percentile in columns)], rows)


def capacity_table():
    return table(["server", "get/s", "put/s"],
                 [[link(name), capacity(name, "get"), capacity(name, "put")] for name in servers()])


def cpu_table():
    rows = []
    for name in servers():
        measured = Latency(name)
        rows.append([link(name), *(middle(measured.cpu_us(load)) for load in LOADS)])
    return table(["server", *LOADS], rows)


def fitness_table():
    marks = {"fit": "fit", "unfit": "**unfit**", "inconclusive": "?"}
    by_server = {name: verdicts(name) for name in servers()}
    applications = list(next(iter(by_server.values())))
    rows = [[one, *(marks[found[one]["fitness"]] for found in by_server.values())] for one in applications]
    return table(["application", *map(link, by_server)], rows)


def machine():
    """Describes the machine and the days of the measurements, which all servers share."""
    facts, days = set(), set()
    for name in servers():
        for run in sorted((HERE / name).glob("*/environment.json")):
            one = json.loads(run.read_text())["machine"]
            facts.add((one["cpu"], one["cores"], round(one["memory_bytes"] / 2**30), one["kernel"]))
            days.add(json.loads((run.parent / "result.json").read_text())["run"]["started_at"][:10])
    systems = {read(name, "server.json")["file_system"] for name in servers()}
    machines = [f"{cpu}, {cores} cores, {memory} GiB, {kernel}" for cpu, cores, memory, kernel in sorted(facts)]
    when = " to ".join(sorted({min(days), max(days)}))
    return f"{'; '.join(machines)}; data on {', '.join(sorted(systems))}; measured on {when}"


README = """# Results

{count} setups of S3 servers on one machine: what they lose when the power fails, how long requests take, how many
requests per second meet an objective, the CPU time of a request, and the applications that they fit. The order is that
of their names.

Everything here is raw data and text made from it: `make results` measures again, `make results-pages` makes the pages,
and CI verifies each run and compares each page. The page of a server has its version, its commands and proofs. Before
you use a figure, read the [limits](limits.md). If one is wrong or unfair, its server has a file for
[objections](limits.md#objections).

Machine: {machine}.

## Durability

[`plimsoll run durability`](../docs/durability.md) cuts the power of each server on a simulated disk with the rules of
ext4. *Due* are acknowledged operations that no later one replaced. *Not usable* are cuts after which the server did not
start or accepted no write. Zero means that these cuts found nothing.

{durability}
A server that acknowledges before its data is on the disk is faster for it: read the next tables with this one.

## Response times

Poisson arrivals: 150 GETs and 75 PUTs of 4 KiB per second, then 30 GETs and 15 PUTs of 1 MiB; from the intended start
to the end of the answer. Milliseconds, medians of three repeats; their spread is on the page of each server. `*`: in
two or three repeats, the client was the bottleneck of some operations: it started 1% of them more than 1 ms late, or
had no CPU time left.

{small}
Objects of 1 MiB have too few operations for a p99:

{large}
## Capacity

Operations of 4 KiB per second with `p99 < 25ms`: from the highest rate that met the objective to the lowest that missed
it, as `plimsoll run capacity` found them in 45 seconds. The server has one core and the client the other. *At least*:
above that, the client was the limit. *None*: no rate that was tried met the objective.

{capacity}
## CPU time

Microseconds of all processes of the server per operation, user and system, during the loads of the response times. Work
that a server does without requests is included. Medians of three repeats.

{cpu}
## Fitness

[`plimsoll probe --for`](../docs/compatibility.md) sends the requests on which an application relies. A server is unfit
if it violates one requirement; the page of the server names it.

{fitness}"""

SERVER = """# {title}

{headline}

Version: `{version}`

[Objections](objections.md), [limits](../limits.md), [all servers](../README.md).

## Commands

{commands}
## Durability

In the proofs, `FOLDER` is the directory of the objects of the check.

{durability}
## Response times and CPU time

Median of the repeats, with the lowest and the highest. Milliseconds, and microseconds of CPU time per operation. In
*limited* repeats, the client was the bottleneck of some operations.

{latency}
## Capacity

{capacity}

## Fitness

{fitness}"""


def command(line):
    """Breaks a long command line between its arguments."""
    # A quoted argument has spaces that no line ends at.
    quoted = re.sub(r"'[^']*'", lambda found: found.group().replace(" ", "\0"), line)
    lines = textwrap.wrap(quoted, 115, break_long_words=False, break_on_hyphens=False, subsequent_indent="    ")
    return " \\\n".join(lines).replace("\0", " ")


def block(text):
    return f"```\n{text.strip()}\n```\n"


def evidence(lines):
    """Returns a block of lines, in which FOLDER is the directory of the objects of the check."""
    short = [FOLDER.sub("FOLDER/", line) for line in lines]
    return block("\n".join(textwrap.fill(line, 116, subsequent_indent="    ") for line in short))


def commands(name):
    """Returns the commands that start the server and measure it."""
    of_server, recorded = profile(name), read(name, "server.json")
    environment = "".join(f"{key}={value}\n" for key, value in of_server.get("env", {}).items())
    steps = [environment, of_server.get("setup", ""), of_server["command"]]
    lines = "\n".join(step.strip() for step in steps if step).splitlines()
    start = "\n".join(line if len(line) <= WIDTH else command(line) for line in lines)
    text = "The server, with an empty `{dir}` on core 0:\n\n" + block(start)
    text += "\nThe measurements, on core 1; for the power cuts, server and client have both cores:\n\n"
    return text + block("\n".join(map(command, recorded["commands"])))


def durability_section(name):
    found = read(name, "durability.json")
    rows = []
    for kind, counts in found["kinds"].items():
        broken = [counts["violations"].get(one, 0) for one in KINDS]
        rows.append([kind.replace("_", " "), counts["acknowledged"], counts["due"], *broken])
    head = ["operation", "acknowledged", "due", "lost", "damaged", "old", "back", "unreadable", "listing wrong"]
    text = table(head, rows)
    for feature in ("tags", "versions"):
        if not found[feature]:
            text += f"\nThe server kept no {feature} when Plimsoll tried, so these are not checked.\n"
    for problem, cuts in (("did not start", "not_starting"), ("accepted no write", "not_writable")):
        for number, words in found[cuts]:
            text += f"\nAfter cut {number}, it {problem}:\n\n" + evidence([COLOUR.sub("", words)[-500:]])
    proven = {proof["violation"]["kind"] for proof in found["proofs"]}
    broken = {kind for counts in found["kinds"].values() for kind in counts["violations"]}
    if unproven := [kind for kind in KINDS if kind in broken - proven]:
        text += f"\nNo short proof was found of: {', '.join(unproven)}.\n"
    for proof in found["proofs"]:
        violation, (shown, of) = proof["violation"], proof["repeated"]
        interrupted = proof["interrupted"]
        after = f" after {interrupted} steps of the disk" if interrupted else ""
        steps = [*proof["operations"], f"the power fails{after}; {proof['fate']}"]
        if before := proof["written_back"]:
            steps.insert(before, "the disk writes everything back, as the kernel does every few seconds")
        steps += [f"not synced: {one}" for one in proof["lost"][:MAX_CHANGES]]
        if more := len(proof["lost"][MAX_CHANGES:]):
            steps.append(f"not synced: {more} more changes, see durability.json")
        about = (f"Proof of *{violation['kind']}*, from cut {proof['cut']} with seed {found['seed']}, "
                 f"shown in {shown} of {of} repetitions:")
        text += f"\n{paragraph(about)}\n\n" + evidence([*steps, f"then: {violation['detail']}"])
    return text


def latency_section(name):
    measured, rows = Latency(name), []
    for load in LOADS:
        times = [spread(measured.times(load, one)) for one in ("p50", "p90", "p99")]
        rows.append([load, measured.operations(load), measured.failed(load), *times, spread(measured.cpu_us(load)),
                     measured.limited(load)])
    return table(["load", "operations", "failed", "p50", "p90", "p99", "CPU us", "limited"], rows)


def fitness_section(name):
    found = verdicts(name)
    fit = [one for one, verdict in found.items() if verdict["fitness"] == "fit"]
    text = paragraph(f"Fit: {', '.join(fit) or 'none'}.") + "\n"
    for one, verdict in found.items():
        if verdict["fitness"] == "fit":
            continue
        missing = verdict["violated"] or verdict["unknown"]
        names = ", ".join(f"`{check}`" for check in missing)
        text += "\n" + paragraph(f"- **{one}**: {verdict['fitness']}: {names}", "  ")
    checks = {check["check"]: check for check in read(name, "fitness.json")["stores"][0]["checks"]}
    wanted = sorted({check for verdict in found.values() for check in verdict["violated"]})
    rows = [[f"`{one}`", checks[one]["detail"].replace("|", "\\|").replace("\n", " ")] for one in wanted]
    if rows:
        text += "\n\n" + table(["check", "observed"], rows).replace("---:", "---")
    return text if text.endswith("\n") else text + "\n"


def made():
    """Returns the text of each page by its path."""
    out = {}
    for name in servers():
        words = [paragraph(f"- {capacity_words(name, kind)}", "  ") for kind in ("get", "put")]
        out[HERE / name / "README.md"] = SERVER.format(
            title=profile(name)["title"],
            headline=paragraph(read(name, "durability.json")["headline"].rstrip(".") + "."),
            version=read(name, "server.json")["version"], commands=commands(name), durability=durability_section(name),
            latency=latency_section(name), capacity="\n".join(words), fitness=fitness_section(name))
    out[HERE / "README.md"] = README.format(
        count=len(servers()), machine=machine(), durability=durability_table(), capacity=capacity_table(),
        small=latency_table(LOADS[:2], ("p50", "p99")), large=latency_table(LOADS[2:], ("p50", "p90")),
        cpu=cpu_table(), fitness=fitness_table())
    return out


def write():
    for path, text in made().items():
        path.write_text(text)


def check():
    """Verifies the runs and compares the pages. Returns the problems."""
    runs = sorted(path.parent for path in HERE.glob("*/*/result.json"))
    done = subprocess.run([PLIMSOLL, "verify", *runs, "--json"], capture_output=True, text=True)
    problems = [f"{one['run']}: {problem}" for one in map(json.loads, done.stdout.splitlines())
                for problem in one["problems"]]
    if done.returncode and not problems:
        problems.append(done.stderr)
    return problems + [f"{path}: differs from the raw data; run make results-pages"
                       for path, text in made().items() if not path.exists() or path.read_text() != text]


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        if found := check():
            sys.exit("\n".join(found))
    else:
        write()
