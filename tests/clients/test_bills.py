"""Compares bills with a second, independent calculation from the price books, with Python's TOML parser and exact
fractions."""

import json
import pathlib
import random
import subprocess
import tomllib
from fractions import Fraction as F

import pytest

from support import PLIMSOLL, ROOT, environment

DAY = "2026-11-21"
SIZES = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "GB": 10**9, "TB": 10**12, "MB": 10**6, "KB": 10**3}
COUNTS = {"k": 10**3, "M": 10**6}


def amount(text):
    number, _, unit = text.partition(" ")
    return F(number) * SIZES[unit] if unit else F(number)


class Books:
    """The price books as read from their files."""

    def __init__(self):
        self.offers, self.prices, self.rules = {}, [], []
        for path in sorted(pathlib.Path(ROOT, "crates", "price", "cost", "prices").glob("*.toml")):
            book = tomllib.loads(path.read_text())
            self.offers |= {o["name"]: o for o in book.get("offer", [])}
            self.prices += book.get("price", [])
            self.rules += book.get("rule", [])

    @staticmethod
    def in_force(entry):
        return entry["from"] <= DAY and DAY < entry.get("until", "9999")

    def of(self, name, region):
        return [p for p in self.prices if name in p["offers"] and self.in_force(p) and region in p.get("regions", [region])]

    def rule(self, name, field, default):
        values = [r[field] for r in self.rules if name in r["offers"] and self.in_force(r) and field in r]
        return values[-1] if values else default

    def stores(self):
        return [n for n in self.offers if any(p["meter"] == "storage" for p in self.of(n, self.offers[n]["regions"][0]))]


BOOKS = Books()


def bill(name, work, region=None):
    """Returns the cost of a month of work in dollars, as a fraction. The default region is the first one."""
    offer = BOOKS.offers[name]
    region = region or offer["regions"][0]
    prices = BOOKS.of(name, region)
    if "network" in offer:
        own = {p["meter"] for p in prices}
        there = BOOKS.offers[offer["network"]]["regions"]
        prices = prices + [p for p in BOOKS.of(offer["network"], region if region in there else there[0]) if p["meter"] not in own]
    total = F(0)
    for price in prices:
        quantity = used(name, price, work)
        if quantity == 0 or price.get("usd") == "0" and "per" not in price:
            continue
        unit = unit_of(price["per"])
        if BOOKS.rule(name, "round_up", False):
            quantity = -(-quantity // unit) * unit
        free = amount(price["free"]) if "free" in price else F(0)
        if "free_times_stored" in price:
            # Whole bytes, rounded half up.
            free = price["free_times_stored"] * F(int(stored(name, work) + F(1, 2)))
        total += charged(price, quantity, free)
    return total


def charged(price, quantity, free):
    """Returns the cost of a quantity in the tiers of a price, after a free amount."""
    total, free = F(0), min(free, quantity)
    start = free if price.get("free_inside_tiers") else F(0)
    left = quantity - free
    for tier in price.get("tiers", [{"usd": price.get("usd")}]):
        end = amount(tier["up_to"]) if "up_to" in tier else None
        part = left if end is None else max(F(0), min(left, end - start))
        total += part / unit_of(price["per"]) * F(tier["usd"])
        start, left = start + part, left - part
    return total


def charged_at(offer, region, wanted, quantity):
    """Returns the cost of a quantity at one price of an offer that is not a store: its item, or its meter."""
    price = next((p for p in BOOKS.of(offer, region) if wanted in (p.get("item"), p["meter"])), None)
    if price is None:
        raise LookupError(f"{offer} {region} {wanted}")
    return charged(price, F(quantity), amount(price["free"]) if "free" in price else F(0))


def unit_of(per):
    if per.endswith("-month"):
        return F(SIZES[per.removesuffix("-month")])
    if per.endswith((" objects", " requests", " request units", " hour", " key-month")):
        return F(per.split()[0])
    return F(SIZES[per])


def days_of_month(name):
    return F(BOOKS.offers[name].get("month_hours", 730), 24)


def stored(name, work):
    """Returns the bytes stored: as stated, or what is written during the retention."""
    if work["storage"] is not None:
        return F(work["storage"])
    return F(work["put"] * work["object_size"]) * work["keep"] / days_of_month(name)


def used(name, price, work):
    meter, size = price["meter"], work["object_size"]
    # Archive classes: each read and each copy restores its object for a day, at the price of a request and of storage.
    reads = work["get"] + work.get("copy", 0)
    if meter == "restores":
        return F(reads)
    if meter == "restored-storage":
        downloaded = max(work["get"] * size, egress_of(name, work))
        return F(downloaded + work.get("copy", 0) * size) / days_of_month(name)
    if meter == "index-storage":
        days, entry = BOOKS.rule(name, "minimum_days", 0), amount(BOOKS.rule(name, "object_index", "0 B"))
        objects = stored(name, work) / size
        return objects * entry * (max(days, work["keep"]) / F(work["keep"]) if work["keep"] else 1)
    # Classes that move objects by their last read: each price has a share of what is stored, and small objects stay.
    floor = int(amount(BOOKS.rule(name, "monitored_object", "0 B")))
    shares = {} if size < floor else work.get("unread") or {}
    not_read = lambda days: max([share for stated, share in shares.items() if stated >= days], default=F(0))
    if meter == "monitored":
        return stored(name, work) / size if size >= floor else F(0)
    if meter == "unread-storage":
        steps = sorted({p["unread_days"] for p in BOOKS.prices if name in p["offers"] and "unread_days" in p})
        later = [step for step in steps if step > price["unread_days"]]
        part = not_read(price["unread_days"]) - (not_read(later[0]) if later else 0)
        return used(name, {"meter": "storage"}, work | {"unread": None}) * part
    if meter == "storage" and floor and shares:
        return used(name, {"meter": "storage"}, work | {"unread": None}) * (1 - not_read(30))
    if meter == "storage":
        bytes_stored = stored(name, work)
        step = int(amount(BOOKS.rule(name, "object_step", "1 B")))
        paid = -(-size // step) * step + int(amount(BOOKS.rule(name, "object_overhead", "0 B")))
        bytes_stored = bytes_stored * max(paid, int(amount(BOOKS.rule(name, "minimum_object", "0 B")))) / size
        days, month = BOOKS.rule(name, "minimum_days", 0), days_of_month(name)
        # Some stores charge for bytes after their deletion: for a number of days, or for a month if versions are kept.
        after = month if BOOKS.rule(name, "deleted_versions", False) else BOOKS.rule(name, "deleted_days", 0)
        if work["keep"]:
            bytes_stored = bytes_stored * max(days, work["keep"] + after) / work["keep"]
        else:
            bytes_stored += F(work["delete"] * size) * after / month
        return max(bytes_stored, amount(BOOKS.rule(name, "minimum_billed", "0 B")))
    if meter == "requests":
        calls = {"PutObject": work["put"], "GetObject": work["get"], "ListObjects": work["list"], "DeleteObject": work["delete"],
                 "CopyObject": work.get("copy", 0)}
        count = sum(calls.get(c, 0) for c in price["calls"])
        return F(count * (-(-size // int(amount(price["size_step"]))) if "size_step" in price else 1))
    egress = egress_of(name, work)
    read, copied = max(work["get"] * size, egress), work.get("copy", 0) * size if price.get("counts_copies") else 0
    quantity = F({"upload": work["put"] * size + copied, "retrieval": read + copied, "egress": egress,
                  "read-inside": read - egress}.get(meter, 0))
    least = int(amount(price["minimum_bytes_per_request"])) if "minimum_bytes_per_request" in price else 0
    return quantity * least / size if size < least else quantity


def egress_of(name, work):
    """Returns the egress: as stated, or else all reads from a provider that sells no compute."""
    if work["egress"] is not None:
        return work["egress"]
    return 0 if BOOKS.offers[name].get("sells_compute", False) else work["get"] * work["object_size"]


def plimsoll_bills(names, work):
    egress = [] if work["egress"] is None else ["--egress", f"{work['egress']}B"]
    arguments = [PLIMSOLL, "cost", "--json", "--as-of", DAY, "--provider", ",".join(names),
                 *([] if work["storage"] is None else ["--storage", f"{work['storage']}B"]), *egress, "--put", str(work["put"]), "--get", str(work["get"]),
                 "--object-size", f"{work['object_size']}B", "--delete", str(work["delete"])]
    if work.get("copy"):
        arguments += ["--copy", str(work["copy"])]
    if work["list"]:
        arguments += ["--list", str(work["list"])]
    if work["keep"]:
        arguments += ["--keep", f"{work['keep']}d"]
    if work.get("unread"):
        arguments += ["--unread", ",".join(f"{days}d={float(share * 100):.7f}%" for days, share in work["unread"].items())]
    done = subprocess.run(arguments, capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stderr
    return {b["provider"]: b for b in json.loads(done.stdout)["bills"]}


@pytest.mark.parametrize("seed", range(40))
def test_bills_match_the_second_calculation(seed):
    draw = random.Random(seed)
    spread = lambda low, high: int(low * (high / low) ** draw.random())
    storage = spread(10**8, 10**17)
    work = {"storage": storage, "egress": min(storage, spread(10**8, 10**17)), "put": spread(1, 10**9), "get": spread(1, 10**10),
            "delete": spread(1, 10**9), "list": 0, "object_size": spread(1, 400 * 1024), "keep": draw.choice([None, 1, 7, 29, 30, 89, 120])}
    if work["keep"]:
        work["storage"], work["delete"] = None, work["put"]
    if seed % 2:
        days = sorted(draw.sample([10, 30, 45, 90, 200, 365, 400], draw.randint(1, 3)))
        parts = sorted((draw.randint(0, 10**9) for _ in days), reverse=True)
        work["unread"] = {day: F(part, 10**9) for day, part in zip(days, parts)}
    regions = {name: draw.choice(BOOKS.offers[name]["regions"]) for name in BOOKS.stores()}
    assert len(regions) >= 20
    for provider, found in plimsoll_bills([f"{name}@{region}" for name, region in regions.items()], work).items():
        assert found["region"] == regions[provider]
        exact = bill(provider, work, regions[provider])
        total = F(found["total_usd"])
        # Each line is rounded to 10^-12 dollars.
        assert abs(total - exact) <= F(len(found["lines"]), 10**12), (provider, float(total), float(exact))
        assert total == sum(F(line["amount_usd"]) for line in found["lines"])


@pytest.mark.parametrize("seed", range(20))
def test_bills_with_assumed_egress_and_deletions_match_the_second_calculation(seed):
    draw = random.Random(1000 + seed)
    size, reads = draw.randint(1, 400 * 1024), draw.randint(1, 10**9)
    keep = draw.choice([None, None, 1, 7, 25, 40])
    work = {"storage": 10**16 + draw.randint(0, 10**12), "egress": None, "put": 0 if keep else 1, "get": reads,
            "delete": draw.randint(0, 10**9), "list": 0, "object_size": size, "keep": keep}
    for provider, found in plimsoll_bills(BOOKS.stores(), work).items():
        assert abs(F(found["total_usd"]) - bill(provider, work)) <= F(len(found["lines"]), 10**12), provider


CENTS = [
    ("backblaze-b2", {"storage": 10**12, "get": 10**8, "object_size": 10**6}, "976.88"),
    ("cloudflare-r2", {"storage": 10**12, "get": 10**8, "object_size": 10**6}, "47.25"),
    ("tigris", {"storage": 10**12, "get": 10**8, "object_size": 10**6}, "68.48"),
    ("aws-s3", {"storage": 10**12, "get": 10**8, "object_size": 10**6}, "61.42"),
    ("google-cloud-storage", {"storage": 1000 * 2**30, "keep": 7, "object_size": 1}, "39.90"),
    ("google-cloud-storage", {"storage": 2**40, "delete": 10**6, "object_size": 2**20}, "24.87"),
    ("google-cloud-storage-nearline", {"storage": 1000 * 2**30, "keep": 25, "object_size": 1}, "12.80"),
    ("backblaze-b2", {"storage": 10**12, "delete": 10**5, "object_size": 10**6}, "7.58"),
    ("aws-efs", {"storage": 0, "delete": 26_214_400, "object_size": 1024}, "6.00"),
]


@pytest.mark.parametrize("name,given,cents", CENTS)
def test_bills_match_worked_examples_of_reads_and_deletions(name, given, cents):
    work = {"egress": None, "put": 0, "get": 0, "delete": 0, "list": 0, "keep": None} | given
    assert f"{float(round(bill(name, work), 2)):.2f}" == cents
    found = plimsoll_bills([name], work)[name]
    assert f"{float(round(F(found['total_usd']), 2)):.2f}" == cents


def test_bills_with_copies_match_the_second_calculation():
    work = {"storage": 10**12, "egress": 0, "put": 1, "get": 0, "delete": 0, "list": 0, "copy": 10**6, "object_size": 10**6,
            "keep": None}
    for provider, found in plimsoll_bills(BOOKS.stores(), work).items():
        assert abs(F(found["total_usd"]) - bill(provider, work)) <= F(len(found["lines"]), 10**12), provider


def test_bills_with_listings_match_the_second_calculation():
    work = {"storage": 10**12, "egress": 0, "put": 1, "get": 0, "delete": 0, "list": 3_000_000, "object_size": 1024, "keep": None}
    names = [n for n in BOOKS.stores() if not n.startswith("aws-dynamodb")]
    for provider, found in plimsoll_bills(names, work).items():
        assert abs(F(found["total_usd"]) - bill(provider, work)) <= F(len(found["lines"]), 10**12), provider
