"""The page of S3 compatibility, from the lists of tests that pass and fail, and from the tests with real clients."""
import re
from collections import Counter

SERVERS = ("plimsoll serve", "plimsoll-gateway")
# Lists of tests that pass and fail, by suite, for both servers.
SUITES = {
    "versitygw test full-flow 1.8.0": (("passes", "failures"), ("versitygw-gateway-passes", "versitygw-gateway-failures")),
    "ceph s3-tests": (("s3-tests-passes", "s3-tests-failures"), ("gateway-passes", "gateway-failures")),
}
# Clients by the beginning of the names of their tests.
CLIENTS = {
    "boto": "boto3", "conditional_requests_from_boto": "boto3", "presigned_urls_from_boto": "boto3", "aws_cli": "AWS CLI",
    "s5cmd": "s5cmd", "rclone": "rclone", "restic": "restic", "polars": "Polars", "pyarrow": "PyArrow", "duckdb": "DuckDB",
    "s3fs": "s3fs",
}


def listed(path):
    """Returns the tests of a list by its headings; without headings, by an empty one."""
    found, heading = {}, ""
    for line in path.read_text().splitlines():
        line = line.strip()
        if line.startswith("["):
            heading = line.strip("[]")
        elif line and not line.startswith("#"):
            found.setdefault(heading, []).append(line.split()[0])
    return found


def operation(test):
    """Returns the operation of a test of versitygw: the part of its name before the case."""
    return test.split("_")[0]


def operations(folder):
    rows = {}
    for column, (passes, failures) in enumerate(SUITES["versitygw test full-flow 1.8.0"]):
        for name, place in ((passes, 0), (failures, 1)):
            for tests in listed(folder / f"{name}.txt").values():
                for test in tests:
                    rows.setdefault(operation(test), [[0, 0], [0, 0]])[column][place] += 1
    lines = ["| tests of | " + " | ".join(f"`{name}`" for name in SERVERS) + " |\n| --- | --- | --- |\n"]
    for name, counts in sorted(rows.items()):
        cells = [f"{good} of {good + bad}" if good + bad else "-" for good, bad in counts]
        lines.append(f"| {name} | {cells[0]} | {cells[1]} |\n")
    return "".join(lines)


def totals(folder):
    lines = ["| suite | " + " | ".join(f"`{name}`" for name in SERVERS) + " |\n| --- | --- | --- |\n"]
    for suite, columns in SUITES.items():
        cells = []
        for passes, failures in columns:
            good, bad = (sum(map(len, listed(folder / f"{name}.txt").values())) for name in (passes, failures))
            cells.append(f"{good} of {good + bad}")
        lines.append(f"| {suite} | {cells[0]} | {cells[1]} |\n")
    return "".join(lines)


def missing(folder):
    """Returns the reasons of failures, with the number of tests at the gateway."""
    counts = Counter()
    for suite in SUITES.values():
        for heading, tests in listed(folder / f"{suite[1][1]}.txt").items():
            counts[heading] += len(tests)
    lines = ["| reason | tests |\n| --- | --- |\n"]
    lines += [f"| {heading} | {count} |\n" for heading, count in counts.most_common()]
    return "".join(lines)


def clients(folder):
    """Returns what is tested with each client, from the names of the tests."""
    found = {}
    for column, name in enumerate(("test_clients.py", "test_gateway.py")):
        for test in re.findall(r"^def test_(\w+)", (folder / name).read_text(), re.M):
            for beginning in sorted(CLIENTS, key=len, reverse=True):
                if test.startswith(beginning):
                    found.setdefault(CLIENTS[beginning], [0, 0])[column] += 1
                    break
    lines = ["| client | " + " | ".join(f"`{name}`" for name in SERVERS) + " |\n| --- | --- | --- |\n"]
    for name, counts in sorted(found.items(), key=lambda entry: entry[0].lower()):
        cells = [f"{count} test{'s' if count != 1 else ''}" if count else "-" for count in counts]
        lines.append(f"| {name} | {cells[0]} | {cells[1]} |\n")
    return "".join(lines)


def page(tests):
    """Returns the page. `tests` is the folder of all tests."""
    protocol, real = tests / "protocol", tests / "clients"
    return f"""# S3 compatibility

This page is made from the lists in `tests/protocol`, which the suites compare with their results, and from the tests
with real clients, which run with every change. `plimsoll serve` is the server for tests, `plimsoll-gateway` the durable
store. Most failures are features that neither server has.

## Suites

{totals(protocol)}
`make test-servers`, `make test-s3-tests` and `make test-s3-tests-gateway` run them.

## Clients

{clients(real)}
## Operations

Tests of versitygw's suite that pass, by the operation or the feature in their names.

{operations(protocol)}
## Why tests fail

Tests of both suites that fail with `plimsoll-gateway`.

{missing(protocol)}"""
